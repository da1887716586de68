#include "graph/support/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "graph/support/doing.h"
#include "graph/support/exceptions.h"
#include "graph/support/file_writer.h"
#include "graph/support/status_macros.h"

namespace partita {
namespace {

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) close(fd);
  }
};

// The disk, limits of the machine or the process, and readers that have gone: not the path.
bool IsOfTheSystem(int error) {
  constexpr int kErrors[] = {EIO,    ENOSPC, EDQUOT, EFBIG,  EMFILE, ENFILE,
                             ENOLCK, EPIPE,  ESTALE, EAGAIN, EBUSY,  ETXTBSY};
  return std::find(std::begin(kErrors), std::end(kErrors), error) != std::end(kErrors);
}

}  // namespace

absl::Status FileError(absl::string_view action, const std::string& path) {
  if (errno == ENOMEM) {
    const Doing::Text now = Doing::Now();
    const absl::string_view doing = now;
    if (!doing.empty()) return OutOfMemory(doing);
    return OutOfMemory(absl::StrCat("trying to ", action, " '", path, "'"));
  }
  const std::string text = absl::StrCat("cannot ", action, " '", path, "': ", strerror(errno));
  if (errno == ENOENT || errno == ENOTDIR) return absl::NotFoundError(text);
  if (errno == EACCES || errno == EPERM || errno == EROFS) return absl::PermissionDeniedError(text);
  if (IsOfTheSystem(errno)) return absl::UnavailableError(text);
  return absl::InvalidArgumentError(text);  // the path: a folder, too long, a circle of links
}

absl::StatusOr<std::string> ReadFile(const std::string& path, int64_t max_bytes) {
  // So that opening does not wait for a writer where the path is a pipe.
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
  ASSIGN_OR_RETURN(FileWriter writer, FileWriter::Open(path));
  for (absl::string_view piece : pieces) RETURN_IF_ERROR(writer.Write(piece));
  return writer.Commit();
}

}  // namespace partita
