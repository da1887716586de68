#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace partita {

// A regular file of which parts are read into memory that the caller has: no copy between. Moves,
// does not copy. Reading is safe from several threads.
class DataFile {
 public:
  // Errors as MappedFile::Open.
  static absl::StatusOr<DataFile> Open(const std::string& path);

  DataFile(DataFile&& other) noexcept
      : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)), size_(other.size_) {}
  DataFile& operator=(DataFile&& other) = delete;
  ~DataFile();

  const std::string& path() const { return path_; }
  // Size in bytes when the file was opened.
  int64_t size() const { return size_; }

  // Fills `into` from byte `offset` on. InvalidArgument where the file ends before (it may have
  // been cut since it was opened), else as FileError.
  absl::Status Read(int64_t offset, std::span<std::byte> into) const;

 private:
  DataFile(std::string path, int fd, int64_t size) : path_(std::move(path)), fd_(fd), size_(size) {}

  std::string path_;
  int fd_ = -1;
  int64_t size_ = 0;
};

}  // namespace partita
