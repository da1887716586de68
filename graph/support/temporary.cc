#include "graph/support/temporary.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "graph/support/fingerprint.h"
#include "graph/support/process_start.h"

namespace partita {
namespace {

constexpr char kPrefix[] = ".partita-";
constexpr char kUnknown[] = "0";

struct Owner {
  std::string boot, space;
  int64_t process = 0;
  std::string start;  // in ticks since the boot
};

std::string FileText(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// None where the system does not say.
std::optional<std::string> StartOf(int64_t process) {
  const std::optional<int64_t> start = ProcessStart(process);
  if (!start.has_value()) return std::nullopt;
  return absl::StrCat(*start);
}

std::string Boot() {
  const std::string id = FileText("/proc/sys/kernel/random/boot_id");
  return id.empty() ? kUnknown : absl::StrCat(absl::Hex(FingerprintOf(id) & 0xffffffff));
}

std::string ProcessSpace() {
  struct stat info;
  return stat("/proc/self/ns/pid", &info) == 0 ? absl::StrCat(absl::Hex(info.st_ino)) : kUnknown;
}

Owner Self() { return {Boot(), ProcessSpace(), getpid(), StartOf(getpid()).value_or(kUnknown)}; }

std::optional<Owner> OwnerIn(absl::string_view name) {
  if (!absl::ConsumePrefix(&name, kPrefix)) return std::nullopt;
  const std::vector<std::string> parts = absl::StrSplit(name, '-');
  Owner owner;
  if (parts.size() != 5 || !absl::SimpleAtoi(parts[2], &owner.process) || owner.process <= 0) {
    return std::nullopt;
  }
  owner.boot = parts[0];
  owner.space = parts[1];
  owner.start = parts[3];
  return owner;
}

// Whether only one running kernel can have mounted what the descriptor lies on.
bool IsOfOneHost(int descriptor) {
  constexpr int64_t kXfs = 0x58465342, kZfs = 0x2fc12fc1;
  constexpr int64_t kLocal[] = {EXT4_SUPER_MAGIC,
                                BTRFS_SUPER_MAGIC,
                                TMPFS_MAGIC,
                                F2FS_SUPER_MAGIC,
                                OVERLAYFS_SUPER_MAGIC,
                                kXfs,
                                kZfs};
  struct statfs info;
  return fstatfs(descriptor, &info) == 0 &&
         std::find(std::begin(kLocal), std::end(kLocal), int64_t{info.f_type}) != std::end(kLocal);
}

bool HasEnded(const Owner& owner, const Owner& self, int descriptor) {
  if (owner.boot == kUnknown || self.boot == kUnknown) return false;
  if (owner.boot != self.boot) return IsOfOneHost(descriptor);
  if (owner.space != self.space || owner.space == kUnknown || owner.start == kUnknown) return false;
  if (kill(static_cast<pid_t>(owner.process), 0) != 0) return errno == ESRCH;
  const std::optional<std::string> start = StartOf(owner.process);
  return start.has_value() && *start != owner.start;  // the id belongs to a later process
}

bool IsStale(const std::string& path, const Owner& owner, const Owner& self) {
  const int file = open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) return false;
  struct stat info;
  // A folder of another user may hold what is not ours to remove.
  const bool ours = fstat(file, &info) == 0 &&
                    (S_ISREG(info.st_mode) || (S_ISDIR(info.st_mode) && info.st_uid == geteuid()));
  const bool stale = ours && HasEnded(owner, self, file) && flock(file, LOCK_EX | LOCK_NB) == 0;
  close(file);
  return stale;
}

}  // namespace

std::string TemporaryName() {
  const Owner self = Self();
  uint64_t random = 0;
  if (getrandom(&random, sizeof random, GRND_NONBLOCK) != sizeof random) {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    random = static_cast<uint64_t>(now.tv_nsec) << 32 ^ static_cast<uint64_t>(now.tv_sec);
  }
  return absl::StrCat(kPrefix, self.boot, "-", self.space, "-", self.process, "-", self.start, "-",
                      absl::Hex(random & 0xffffffff, absl::kZeroPad8));
}

void LockTemporary(int descriptor) { (void)!flock(descriptor, LOCK_SH | LOCK_NB); }

void RemoveStaleTemporaries(const std::string& folder) {
  namespace fs = std::filesystem;
  std::optional<Owner> self;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::optional<Owner> owner = OwnerIn(entry->path().filename().string());
    if (!owner.has_value()) continue;
    if (!self.has_value()) self = Self();
    std::error_code kept;
    if (IsStale(entry->path().string(), *owner, *self)) fs::remove_all(entry->path(), kept);
  }
}

absl::StatusOr<TemporaryFolder> TemporaryFolder::Create() {
  std::error_code error;  // then there is no such folder, and its name is empty
  return CreateIn(std::filesystem::temp_directory_path(error).string());
}

absl::StatusOr<TemporaryFolder> TemporaryFolder::CreateIn(const std::string& base) {
  RemoveStaleTemporaries(base);
  const std::string path = absl::StrCat(base, "/", TemporaryName());
  if (!base.empty() && mkdir(path.c_str(), 0700) == 0) {
    const int descriptor = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (descriptor >= 0) LockTemporary(descriptor);
    return TemporaryFolder(path, descriptor);
  }
  return absl::UnavailableError(absl::StrCat("no folder can be made in '", base,
                                             "' for temporary files; name another in TMPDIR"));
}

TemporaryFolder::TemporaryFolder(TemporaryFolder&& other) noexcept
    : path_(std::exchange(other.path_, {})), descriptor_(std::exchange(other.descriptor_, -1)) {}

TemporaryFolder::~TemporaryFolder() {
  std::error_code left;
  if (!path_.empty()) std::filesystem::remove_all(path_, left);
  if (descriptor_ >= 0) close(descriptor_);
}

}  // namespace partita
