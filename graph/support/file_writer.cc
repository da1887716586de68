#include "graph/support/file_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <climits>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "graph/support/error_category.h"
#include "graph/support/file.h"
#include "graph/support/status_macros.h"
#include "graph/support/temporary.h"

namespace partita {
namespace {

constexpr mode_t kPermissions = 07777;
constexpr int kMostLinks = 40;  // as the kernel follows

// Where a path leads.
struct Destination {
  std::string file;               // after all links
  std::optional<struct stat> is;  // what is there now
  int descriptor = -1;            // of this process, where that is what the path names

  bool replaced() const { return descriptor < 0 && (!is.has_value() || S_ISREG(is->st_mode)); }
};

std::string FolderOf(const std::string& file) {
  const std::string folder = std::filesystem::path(file).parent_path().string();
  return folder.empty() ? "." : folder;
}

// The open descriptor that /dev/stdout and similar paths name.
std::optional<int> DescriptorNamed(absl::string_view path) {
  if (path == "/dev/stdout") return STDOUT_FILENO;
  if (path == "/dev/stderr") return STDERR_FILENO;
  int descriptor = -1;
  const bool named =
      (absl::ConsumePrefix(&path, "/dev/fd/") || absl::ConsumePrefix(&path, "/proc/self/fd/")) &&
      absl::SimpleAtoi(path, &descriptor);
  return named ? std::optional(descriptor) : std::nullopt;
}

std::string TextOfLink(const std::string& path) {
  char text[PATH_MAX];
  const ssize_t length = readlink(path.c_str(), text, sizeof text);
  return std::string(text, length < 0 ? 0 : static_cast<size_t>(length));
}

absl::StatusOr<Destination> DestinationOf(const std::string& path) {
  Destination found;
  found.file = path;
  if (const auto descriptor = DescriptorNamed(path)) {
    found.descriptor = *descriptor;
    return found;
  }
  struct stat is;
  // The kernel's own rules on links and permissions are asked first.
  if (stat(path.c_str(), &is) == 0) {
    found.is = is;
  } else if (errno != ENOENT) {
    return FileError("write", path);
  }
  for (int links = 0;; ++links) {
    struct stat here;
    if (lstat(found.file.c_str(), &here) != 0 || !S_ISLNK(here.st_mode)) return found;
    if (links == kMostLinks) {
      errno = ELOOP;
      return FileError("write", path);
    }
    const std::string text = TextOfLink(found.file);
    found.file = text[0] == '/' ? text : absl::StrCat(FolderOf(found.file), "/", text);
    if (const auto descriptor = DescriptorNamed(found.file)) {
      found.descriptor = *descriptor;
      return found;
    }
  }
}

absl::Status CheckFolder(const std::string& path, const std::string& folder) {
  struct stat info;
  if (stat(folder.c_str(), &info) != 0 && errno != ENOENT && errno != ENOTDIR) {
    return FileError("write", path);
  }
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) {
    return absl::NotFoundError(absl::StrCat("cannot write '", path, "': there is no folder '",
                                            folder, "'. Make it, or name another place"));
  }
  if (faccessat(AT_FDCWD, folder.c_str(), W_OK | X_OK, AT_EACCESS) == 0) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat("cannot write '", path, "': nothing may be written into the folder '", folder,
                   "'", errno == EROFS ? ", which is mounted read-only" : ""));
}

absl::Status Check(const std::string& path, const Destination& to) {
  if (path.empty()) return absl::InvalidArgumentError("cannot write '': it is no name of a file");
  if (to.descriptor >= 0) {
    const int flags = fcntl(to.descriptor, F_GETFL);
    if (flags >= 0 && (flags & O_ACCMODE) != O_RDONLY) return absl::OkStatus();
    errno = EBADF;
    return FileError("write", path);
  }
  const bool is_folder = to.is.has_value() && S_ISDIR(to.is->st_mode);
  if (is_folder || to.file.back() == '/') {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot write '", path,
                     "': ", is_folder ? "it is a folder" : "a name that ends in '/' is a folder's",
                     "; the name of a file is wanted"));
  }
  if (to.is.has_value() && S_ISSOCK(to.is->st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot write '", path, "': it is a socket; the name of a file is wanted"));
  }
  if (to.is.has_value() && faccessat(AT_FDCWD, to.file.c_str(), W_OK, AT_EACCESS) != 0) {
    return FileError("write", path);
  }
  return to.replaced() ? CheckFolder(path, FolderOf(to.file)) : absl::OkStatus();
}

// Of what is no regular file.
absl::StatusOr<int> OpenDirectly(const std::string& path, const Destination& to) {
  const bool is_pipe = to.is.has_value() && S_ISFIFO(to.is->st_mode);
  constexpr int kTriesASecond = 50;
  for (int tries = 0;; ++tries) {
    const int file =
        to.descriptor >= 0
            ? fcntl(to.descriptor, F_DUPFD_CLOEXEC, 0)
            : open(to.file.c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC | (is_pipe ? O_NONBLOCK : 0));
    if (file >= 0) {
      if (is_pipe && to.descriptor < 0) fcntl(file, F_SETFL, fcntl(file, F_GETFL) & ~O_NONBLOCK);
      return file;
    }
    if (errno == EINTR) continue;
    if (!is_pipe || errno != ENXIO) return FileError("write", path);
    if (tries == kTriesASecond * FileWriter::kPipeSeconds) {
      return absl::UnavailableError(absl::StrCat("cannot write '", path, "': it is a pipe, and ",
                                                 "nobody has read from it for ",
                                                 FileWriter::kPipeSeconds, " seconds"));
    }
    usleep(1'000'000 / kTriesASecond);
  }
}

// Gives a new file the old one's owner and mode. Where the group cannot be kept, another group gets
// no more than all users.
absl::Status TakeOver(const std::string& path, int file, const struct stat& old) {
  struct stat now;
  if (fstat(file, &now) != 0) return FileError("write", path);
  mode_t mode = old.st_mode & kPermissions;
  if (now.st_uid != old.st_uid) (void)!fchown(file, old.st_uid, static_cast<gid_t>(-1));
  if (now.st_gid != old.st_gid && fchown(file, static_cast<uid_t>(-1), old.st_gid) != 0) {
    mode = (mode & ~mode_t{02070}) | (mode & 7) << 3;
  }
  if (fchmod(file, mode) != 0) return FileError("write", path);
  return absl::OkStatus();
}

// Makes that a file of this name was put into a folder last. File systems that cannot are left
// alone, as are folders that may be written, not read.
absl::Status SyncFolder(const std::string& path, const std::string& folder) {
  const int file = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool failed = file < 0 ? errno != EACCES : fsync(file) != 0 && errno != EINVAL;
  const int error = errno;
  if (file >= 0) close(file);
  if (!failed) return absl::OkStatus();
  errno = error;
  const absl::Status status = FileError("make last", path);
  return WithMessage(status, absl::StrCat(status.message(), " (its folder '", folder,
                                          "'); the new content is there, but a crash of "
                                          "the machine might undo that"));
}

}  // namespace

absl::StatusOr<FileWriter> FileWriter::Open(const std::string& path) {
  ASSIGN_OR_RETURN(const Destination to, DestinationOf(path));
  RETURN_IF_ERROR(Check(path, to));
  if (!to.replaced()) {
    ASSIGN_OR_RETURN(const int file, OpenDirectly(path, to));
    return FileWriter(path, file);
  }
  const std::string folder = FolderOf(to.file);
  RemoveStaleTemporaries(folder);
  constexpr int kMostTries = 100;
  FileWriter writer(path, -1);
  for (int tries = 0; writer.descriptor_ < 0; ++tries) {
    const std::string name = absl::StrCat(folder, "/", TemporaryName());
    writer.descriptor_ = open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                              to.is.has_value() ? 0600 : 0666);
    if (writer.descriptor_ >= 0) writer.temporary_ = name;
    const bool again = errno == EEXIST || errno == EINTR;
    if (writer.descriptor_ < 0 && (!again || tries == kMostTries)) return FileError("write", path);
  }
  LockTemporary(writer.descriptor_);
  writer.target_ = to.file;
  if (to.is.has_value()) RETURN_IF_ERROR(TakeOver(path, writer.descriptor_, *to.is));
  return writer;
}

absl::StatusOr<FileWriter> FileWriter::OpenAsItComes(const std::string& path) {
  ASSIGN_OR_RETURN(const Destination to, DestinationOf(path));
  RETURN_IF_ERROR(Check(path, to));
  if (!to.replaced()) {
    ASSIGN_OR_RETURN(const int file, OpenDirectly(path, to));
    return FileWriter(path, file);
  }
  const int file =
      open(to.file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (file < 0) return FileError("write", path);
  return FileWriter(path, file);
}

FileWriter::FileWriter(FileWriter&& other) noexcept
    : path_(std::move(other.path_)),
      target_(std::move(other.target_)),
      temporary_(std::exchange(other.temporary_, {})),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

FileWriter::~FileWriter() {
  if (!temporary_.empty()) unlink(temporary_.c_str());
  if (descriptor_ >= 0) close(descriptor_);
}

absl::Status FileWriter::Write(absl::string_view piece) {
  while (!piece.empty()) {
    const ssize_t put = write(descriptor_, piece.data(), piece.size());
    if (put >= 0) {
      piece.remove_prefix(static_cast<size_t>(put));
    } else if (errno == EAGAIN) {  // a descriptor that another process has made so
      pollfd ready{.fd = descriptor_, .events = POLLOUT, .revents = 0};
      poll(&ready, 1, -1);
    } else if (errno != EINTR) {
      return FileError("write", path_);
    }
  }
  return absl::OkStatus();
}

absl::Status FileWriter::Commit() {
  if (temporary_.empty()) {
    const int file = std::exchange(descriptor_, -1);
    return close(file) == 0 || errno == EINTR ? absl::OkStatus() : FileError("write", path_);
  }
  while (fsync(descriptor_) != 0) {
    if (errno != EINTR) return FileError("write", path_);
  }
  if (close(std::exchange(descriptor_, -1)) != 0 && errno != EINTR) {
    return FileError("write", path_);
  }
  struct stat now;
  if (lstat(target_.c_str(), &now) == 0 && !S_ISREG(now.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot write '", path_, "': it has become something else than a file"));
  }
  if (rename(temporary_.c_str(), target_.c_str()) != 0) return FileError("write", path_);
  temporary_.clear();
  return SyncFolder(path_, FolderOf(target_));
}

absl::Status CheckWritableFile(const std::string& path) {
  ASSIGN_OR_RETURN(const Destination to, DestinationOf(path));
  return Check(path, to);
}

}  // namespace partita
