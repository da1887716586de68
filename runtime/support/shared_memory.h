#pragma once

#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"

namespace partita {

// Memory that processes of one host map: a file without a name, which lives as long as a process
// has it, and whose size never changes. Of a run between processes.
class SharedMemory {
 public:
  SharedMemory() = default;  // no memory
  SharedMemory(SharedMemory&& other) noexcept { *this = std::move(other); }
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  ~SharedMemory();

  // Zeros, page aligned; on huge pages where the system gives them to files. `bytes` > 0.
  // ResourceExhausted, Unavailable.
  static absl::StatusOr<SharedMemory> Make(int64_t bytes);
  // Memory that another process has made, by a descriptor that it has handed over, which is taken
  // and closed where it is refused. InvalidArgument where it is no memory of `bytes` bytes whose
  // size is sealed: then reading it could end this process.
  static absl::StatusOr<SharedMemory> FromDescriptor(int descriptor, int64_t bytes);

  // Descriptor of the file; remains this object's.
  int descriptor() const { return file_; }
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

}  // namespace partita
