#include "runtime/support/run_key.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "graph/support/status_macros.h"
#include "runtime/support/hmac.h"

namespace partita {
namespace {

constexpr size_t kLeast = 32;         // characters of a secret, digits or others
constexpr size_t kMostOfFile = 4096;  // bytes
constexpr char kWhatIsWanted[] =
    "wanted: 32 or more hexadecimal digits, or 32 or more other bytes, such as those of: openssl "
    "rand -hex 32";

// Closes a file at the end of its scope.
class OpenFile {
 public:
  explicit OpenFile(const std::string& path)
      : descriptor_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)) {}
  ~OpenFile() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int descriptor() const { return descriptor_; }

 private:
  const int descriptor_;
};

absl::Status CheckPrivate(const std::string& path, const struct stat& info) {
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is no regular file; ", kWhatIsWanted));
  }
  if (info.st_uid != geteuid() && info.st_uid != 0) {
    return absl::PermissionDeniedError(absl::StrCat(path, " belongs to user ", info.st_uid,
                                                    "; wanted: a file of user ", geteuid()));
  }
  if ((info.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return absl::PermissionDeniedError(
        absl::StrFormat("others than its owner may use %s (mode %03o); try: chmod 600 %s", path,
                        info.st_mode & 0777, path));
  }
  return absl::OkStatus();
}

}  // namespace

RunKey::~RunKey() { Wipe(bytes_); }

absl::StatusOr<RunKey> RunKey::FromSecret(absl::string_view secret) {
  if (secret.size() < kLeast) {
    return absl::InvalidArgumentError(
        absl::StrCat("the key has ", secret.size(), " characters; ", kWhatIsWanted));
  }
  return RunKey(HmacSha256("partita run key", secret));
}

absl::StatusOr<RunKey> RunKey::FromFile(const std::string& path) {
  const OpenFile file(path);
  struct stat info{};
  if (file.descriptor() < 0 || fstat(file.descriptor(), &info) != 0) {
    const int error = errno;
    const std::string text = absl::StrCat("cannot read ", path, ": ", std::strerror(error));
    return error == EACCES || error == EPERM ? absl::PermissionDeniedError(text)
                                             : absl::NotFoundError(text);
  }
  RETURN_IF_ERROR(CheckPrivate(path, info));
  std::string text(kMostOfFile + 1, '\0');
  const ssize_t got = read(file.descriptor(), text.data(), text.size());
  if (got < 0) {
    return absl::NotFoundError(absl::StrCat("cannot read ", path, ": ", std::strerror(errno)));
  }
  text.resize(static_cast<size_t>(got));
  if (text.size() > kMostOfFile) {
    Wipe(text);
    return absl::InvalidArgumentError(
        absl::StrCat(path, " has more than ", kMostOfFile, " bytes; ", kWhatIsWanted));
  }
  const absl::string_view secret = absl::StripSuffix(absl::StripSuffix(text, "\n"), "\r");
  const auto key = FromSecret(secret);
  Wipe(text);
  if (key.ok()) return key;
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", key.status().message()));
}

std::string RunKey::NewSecret() { return absl::BytesToHexString(RandomBytes(kBytes)); }

RunKey RunKey::New() { return RunKey(RandomBytes(kBytes)); }

absl::StatusOr<RunKey> RunKey::FromBytes(absl::string_view bytes) {
  if (bytes.size() != kBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a key has ", bytes.size(), " bytes; wanted ", kBytes));
  }
  return RunKey(std::string(bytes));
}

std::string RunKey::Mac(absl::string_view text) const { return HmacSha256(bytes_, text); }

absl::StatusOr<std::optional<RunKey>> TakeKeyFromEnvironment() {
  char* value = std::getenv(kKeyVariable);
  if (value == nullptr) return std::nullopt;
  const auto key = RunKey::FromSecret(value);
  Wipe(value, std::strlen(value));
  unsetenv(kKeyVariable);
  if (key.ok()) return *key;
  return absl::InvalidArgumentError(absl::StrCat(kKeyVariable, ": ", key.status().message()));
}

}  // namespace partita
