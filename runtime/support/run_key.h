#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace partita {

// The secret that the processes of one run share: a caller that has it is accepted
// (runtime/comm/tcp/handshake.h). It is never printed, nor an argument of a program; its memory is
// overwritten when it is destroyed.
class RunKey {
 public:
  static constexpr size_t kBytes = 32;

  // Key of a text of hexadecimal digits, 32 or more, or of any other bytes, 32 or more. Equal texts
  // give equal keys. InvalidArgument where it is shorter.
  static absl::StatusOr<RunKey> FromSecret(absl::string_view secret);
  // Key of a file that has such a text; a newline at its end does not count. It has to be a regular
  // file of this user (or of root) that no other user may read or write. NotFound,
  // PermissionDenied, InvalidArgument.
  static absl::StatusOr<RunKey> FromFile(const std::string& path);
  // A new secret: hexadecimal digits.
  static std::string NewSecret();
  static RunKey New();
  // Key from what bytes() of another process gave. InvalidArgument where it is not kBytes long.
  static absl::StatusOr<RunKey> FromBytes(absl::string_view bytes);

  RunKey(const RunKey&) = default;
  RunKey& operator=(const RunKey&) = default;
  ~RunKey();

  const std::string& bytes() const { return bytes_; }
  // HMAC-SHA256 of the text with this key.
  std::string Mac(absl::string_view text) const;

 private:
  explicit RunKey(std::string bytes) : bytes_(std::move(bytes)) {}
  std::string bytes_;
};

// The one environment variable of this program's own: has a key's secret.
constexpr char kKeyVariable[] = "PARTITA_KEY";

// The key in the environment, if there is one. Removes it from there, also from what the system
// shows of it, so that programs started later have it not. InvalidArgument where it is too short.
// While no other thread reads the environment.
absl::StatusOr<std::optional<RunKey>> TakeKeyFromEnvironment();

}  // namespace partita
