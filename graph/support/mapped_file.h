#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace partita {

// A regular file mapped read-only into memory; moves, does not copy. The bytes stay valid, at one
// address, for the life of the object and start at a page boundary. A file that is replaced by
// rename keeps its old content here. Where another program cuts the file off, or its disk fails,
// bytes that are gone read as zeros, and Check says so from then on. Any thread may read and check.
class MappedFile {
 public:
  // NotFound if the file is absent, PermissionDenied if unreadable, InvalidArgument if it is a
  // folder or otherwise not a regular file; each message names the path. An empty file has no
  // bytes.
  static absl::StatusOr<MappedFile> Open(const std::string& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const;

  // Checks that the bytes are still the file's; to be called after every use of them, before
  // results are trusted. InvalidArgument, naming the path, if they are not.
  absl::Status Check() const;

 private:
  struct Mapping;
  explicit MappedFile(std::unique_ptr<Mapping> mapping);
  std::unique_ptr<Mapping> mapping_;
};

}  // namespace partita
