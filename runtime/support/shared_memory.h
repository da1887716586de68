#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace partita {

// Memory that processes of one host map: a file without a name, which lives as long as somebody has
// it. Of a run between processes.
class SharedMemory {
 public:
  SharedMemory() = default;  // none
  SharedMemory(SharedMemory&& other) noexcept { *this = std::move(other); }
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  ~SharedMemory();

  // Zeros, page aligned; on huge pages where the system gives them to files. `bytes` > 0.
  // ResourceExhausted, Unavailable.
  static absl::StatusOr<SharedMemory> Make(int64_t bytes);
  // What another process has made and calls so. NotFound or PermissionDenied where this process
  // cannot get at it.
  static absl::StatusOr<SharedMemory> Open(absl::string_view name);

  // How others find it, while its maker has it; one line.
  std::string name() const;
  char* data() const { return static_cast<char*>(data_); }
  int64_t bytes() const { return bytes_; }
  // Whether an address lies in it.
  bool holds(const void* address) const {
    const auto* at = static_cast<const char*>(address);
    return data() <= at && at < data() + bytes_;
  }

 private:
  absl::Status Map(int64_t bytes);

  int file_ = -1;
  void* data_ = nullptr;
  int64_t bytes_ = 0;
};

// Tells hosts apart: processes with different identities share no memory. Those with the same may
// be in containers that keep them apart; that is tried.
std::string HostIdentity();

}  // namespace partita
