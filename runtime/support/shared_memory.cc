#include "runtime/support/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "graph/support/status_macros.h"

namespace partita {
namespace {

absl::Status SystemError(absl::string_view what) {
  const int error = errno;
  const std::string text = absl::StrCat(what, ": ", std::strerror(error));
  if (error == ENOMEM || error == ENOSPC) return absl::ResourceExhaustedError(text);
  if (error == EACCES || error == EPERM) return absl::PermissionDeniedError(text);
  if (error == ENOENT) return absl::NotFoundError(text);
  return absl::UnavailableError(text);
}

}  // namespace

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

SharedMemory::~SharedMemory() {
  if (data_ != nullptr) munmap(data_, static_cast<size_t>(bytes_));
  if (file_ >= 0) close(file_);
}

absl::Status SharedMemory::Map(int64_t bytes) {
  const auto size = static_cast<size_t>(bytes);
  void* data = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
  if (data == MAP_FAILED) return SystemError("shared memory cannot be mapped");
  data_ = data;
  bytes_ = bytes;
  madvise(data_, size, MADV_HUGEPAGE);
  return absl::OkStatus();
}

absl::StatusOr<SharedMemory> SharedMemory::Make(int64_t bytes) {
  SharedMemory memory;
  memory.file_ = memfd_create("partita", MFD_CLOEXEC);
  if (memory.file_ < 0) return SystemError("shared memory cannot be made");
  if (ftruncate(memory.file_, bytes) != 0) {
    return SystemError(absl::StrCat("cannot make ", bytes, " bytes of shared memory"));
  }
  RETURN_IF_ERROR(memory.Map(bytes));
  return memory;
}

// The file's number tells whether the path leads to the same file here: in another process
// namespace it may not.
std::string SharedMemory::name() const {
  struct stat info{};
  fstat(file_, &info);
  return absl::StrCat("/proc/", getpid(), "/fd/", file_, " ", info.st_ino);
}

absl::StatusOr<SharedMemory> SharedMemory::Open(absl::string_view name) {
  const std::vector<std::string> parts = absl::StrSplit(name, ' ');
  uint64_t number = 0;
  if (parts.size() != 2 || !absl::SimpleAtoi(parts[1], &number)) {
    return absl::InvalidArgumentError(absl::StrCat("'", name, "' is no name of shared memory"));
  }
  SharedMemory memory;
  memory.file_ = open(parts[0].c_str(), O_RDWR | O_CLOEXEC);
  struct stat info{};
  if (memory.file_ < 0 || fstat(memory.file_, &info) != 0) {
    return SystemError(absl::StrCat("cannot open the shared memory ", parts[0]));
  }
  if (info.st_ino != number || info.st_size <= 0) {
    return absl::NotFoundError(absl::StrCat(parts[0], " is not the memory of a peer"));
  }
  RETURN_IF_ERROR(memory.Map(info.st_size));
  return memory;
}

std::string HostIdentity() {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return absl::StrCat(name, " ", boot);
}

}  // namespace partita
