#include "graph/support/data_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "graph/support/file.h"

namespace partita {

absl::StatusOr<DataFile> DataFile::Open(const std::string& path) {
  DataFile file(path, open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK), 0);
  struct stat info;
  if (file.fd_ < 0 || fstat(file.fd_, &info) != 0) return FileError("open", path);
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", path, "' is ", S_ISDIR(info.st_mode) ? "a folder" : "not a regular file",
                     "; a file is wanted"));
  }
  file.size_ = info.st_size;
  return file;
}

DataFile::~DataFile() {
  if (fd_ >= 0) close(fd_);
}

absl::Status DataFile::Read(int64_t offset, std::span<std::byte> into) const {
  constexpr size_t kMostAtOnce = size_t{1}
                                 << 30;  // what Linux reads in one call is less than 2 GiB
  while (!into.empty()) {
    const ssize_t got = pread(fd_, into.data(), std::min(into.size(), kMostAtOnce), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FileError("read", path_);
    if (got == 0) {
      return absl::InvalidArgumentError(absl::StrCat("'", path_, "' ends at byte ", offset, "; ",
                                                     into.size(), " more are wanted"));
    }
    into = into.subspan(static_cast<size_t>(got));
    offset += got;
  }
  return absl::OkStatus();
}

}  // namespace partita
