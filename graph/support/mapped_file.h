#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "absl/status/statusor.h"

namespace partita {

// A regular file mapped read-only into memory; moves, does not copy. The bytes stay valid, at one
// address, for the life of the object and start at a page boundary. A file that is replaced by
// rename keeps its old content here; one that another program truncates meanwhile must not be read
// any more.
class MappedFile {
 public:
  // NotFound if the file is absent, PermissionDenied if unreadable, InvalidArgument if it is a
  // folder or otherwise not a regular file; each message names the path. An empty file has no
  // bytes.
  static absl::StatusOr<MappedFile> Open(const std::string& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  explicit MappedFile(std::span<const std::byte> bytes) : bytes_(bytes) {}
  void Unmap();

  std::span<const std::byte> bytes_;
};

}  // namespace partita
