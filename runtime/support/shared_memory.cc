#include "runtime/support/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "graph/support/error_category.h"
#include "graph/support/status_macros.h"

namespace partita {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;

absl::Status SystemError(absl::string_view what) {
  const int error = errno;
  const std::string text = absl::StrCat(what, ": ", std::strerror(error));
  if (error == ENOMEM || error == ENOSPC) return MemoryError(text);
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
  memory.file_ = memfd_create("partita", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (memory.file_ < 0) return SystemError("shared memory cannot be made");
  if (ftruncate(memory.file_, bytes) != 0) {
    return SystemError(absl::StrCat("cannot make ", bytes, " bytes of shared memory"));
  }
  if (fcntl(memory.file_, F_ADD_SEALS, kSeals | F_SEAL_SEAL) != 0) {
    return SystemError("the size of shared memory cannot be sealed");
  }
  RETURN_IF_ERROR(memory.Map(bytes));
  return memory;
}

absl::StatusOr<SharedMemory> SharedMemory::FromDescriptor(int descriptor, int64_t bytes) {
  SharedMemory memory;
  memory.file_ = descriptor;
  struct stat info{};
  // Only memory without a name has seals.
  const int seals = fcntl(descriptor, F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals || fstat(descriptor, &info) != 0 || bytes <= 0 ||
      info.st_size != bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("what a process hands over is not shared memory of ", bytes, " sealed bytes"));
  }
  RETURN_IF_ERROR(memory.Map(bytes));
  return memory;
}

}  // namespace partita
