#include "graph/support/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>

#include "absl/strings/str_cat.h"

namespace partita {
namespace {

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) close(fd);
  }
};

}  // namespace

absl::Status FileError(absl::string_view action, const std::string& path) {
  const std::string text = absl::StrCat("cannot ", action, " '", path, "': ", strerror(errno));
  if (errno == ENOENT || errno == ENOTDIR) return absl::NotFoundError(text);
  if (errno == EACCES || errno == EPERM) return absl::PermissionDeniedError(text);
  if (errno == EIO || errno == ENOSPC) return absl::UnavailableError(text);  // the disk
  return absl::InvalidArgumentError(text);  // the path: a folder, too long, a circle of links
}

absl::StatusOr<std::string> ReadFile(const std::string& path, int64_t max_bytes) {
  // Not to wait for somebody to write where the path is a pipe.
  Descriptor file{open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0) return FileError("open", path);
  struct stat info;
  if (fstat(file.fd, &info) != 0) return FileError("read", path);
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", path, "' is ", S_ISDIR(info.st_mode) ? "a folder" : "not a regular file",
                     "; a file is wanted"));
  }
  if (info.st_size > max_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("'", path, "' has ", info.st_size,
                                                   " bytes; at most ", max_bytes, " are read"));
  }
  std::string content;
  content.reserve(static_cast<size_t>(info.st_size));
  char block[1 << 16];
  for (;;) {
    const ssize_t got = read(file.fd, block, sizeof(block));
    if (got < 0) {
      if (errno == EINTR) continue;
      return FileError("read", path);
    }
    if (got == 0) return content;
    if (static_cast<int64_t>(content.size()) + got > max_bytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", path, "' has more than ", max_bytes, " bytes; no more are read"));
    }
    content.append(block, static_cast<size_t>(got));
  }
}

absl::Status WriteFileAtomically(const std::string& path, const std::string& content) {
  const absl::string_view piece = content;
  return WriteFileAtomically(path, std::span<const absl::string_view>(&piece, 1));
}

absl::Status WriteFileAtomically(const std::string& path,
                                 std::span<const absl::string_view> pieces) {
  const std::string beside = absl::StrCat(path, ".partial.", getpid());
  Descriptor file{open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)};
  if (file.fd < 0) return FileError("write", path);
  const auto fail = [&] {
    const absl::Status error = FileError("write", path);
    unlink(beside.c_str());
    return error;
  };
  for (absl::string_view piece : pieces) {
    while (!piece.empty()) {
      const ssize_t put = write(file.fd, piece.data(), piece.size());
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) return fail();
      piece.remove_prefix(static_cast<size_t>(put));
    }
  }
  if (fsync(file.fd) != 0 || rename(beside.c_str(), path.c_str()) != 0) return fail();
  return absl::OkStatus();
}

}  // namespace partita
