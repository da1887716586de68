#include "graph/support/mapped_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/support/file.h"

// Reading a page of a mapping that the file no longer has raises SIGBUS in the reading thread. The
// handler finds the mapping among the guards, puts a page of zeros there and notes that; then the
// thread goes on. Guards are in a list that only grows, so that the handler needs no lock; they are
// used again.

namespace partita {
namespace {

struct Guard {
  std::atomic<bool> used{true};
  std::atomic<uintptr_t> begin{0}, end{0};  // equal: guards nothing
  std::atomic<bool> lost{false};            // bytes of the mapping were zeros instead
  Guard* next = nullptr;
};

std::atomic<Guard*> g_guards{nullptr};
struct sigaction g_others{};  // what SIGBUS did without us

bool PutZeros(uintptr_t address) {
  for (Guard* guard = g_guards.load(); guard != nullptr; guard = guard->next) {
    if (address < guard->begin.load() || address >= guard->end.load()) continue;
    const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    void* start = reinterpret_cast<void*>(address / page * page);
    guard->lost.store(true);
    return mmap(start, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) !=
           MAP_FAILED;
  }
  return false;
}

void OnBusError(int signal, siginfo_t* info, void*) {
  const int error = errno;
  // A fault elsewhere comes again, and is then the others'.
  if (!PutZeros(reinterpret_cast<uintptr_t>(info->si_addr))) {
    sigaction(signal, &g_others, nullptr);
  }
  errno = error;
}

// Libraries set handlers of their own at any time, so this is asked for each file.
void HandleBusErrors() {
  struct sigaction now{};
  sigaction(SIGBUS, nullptr, &now);
  if ((now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == OnBusError) return;
  g_others = now;
  struct sigaction ours{};
  ours.sa_sigaction = OnBusError;
  ours.sa_flags = SA_SIGINFO;
  sigemptyset(&ours.sa_mask);
  sigaction(SIGBUS, &ours, nullptr);
}

Guard& TakeGuard() {
  for (Guard* guard = g_guards.load(); guard != nullptr; guard = guard->next) {
    if (!guard->used.exchange(true)) return *guard;
  }
  auto* guard = new Guard;
  guard->next = g_guards.load();
  while (!g_guards.compare_exchange_weak(guard->next, guard)) {
  }
  return *guard;
}

}  // namespace

struct MappedFile::Mapping {
  std::string path;
  int file = -1;
  std::span<const std::byte> bytes;
  Guard* guard = nullptr;

  ~Mapping() {
    if (guard != nullptr) {
      guard->begin.store(0);
      guard->end.store(0);
      guard->lost.store(false);
    }
    if (!bytes.empty()) munmap(const_cast<std::byte*>(bytes.data()), bytes.size());
    if (guard != nullptr) guard->used.store(false);
    if (file >= 0) close(file);
  }
};

absl::StatusOr<MappedFile> MappedFile::Open(const std::string& path) {
  auto mapping = std::make_unique<Mapping>();
  mapping->path = path;
  mapping->file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat info;
  if (mapping->file < 0 || fstat(mapping->file, &info) != 0) return FileError("open", path);
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", path, "' is ", S_ISDIR(info.st_mode) ? "a folder" : "not a regular file",
                     "; a file is wanted"));
  }
  const auto size = static_cast<size_t>(info.st_size);
  if (size == 0) return MappedFile(std::move(mapping));
  HandleBusErrors();
  void* start = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, mapping->file, 0);
  if (start == MAP_FAILED) return FileError("open", path);
  mapping->bytes = {static_cast<const std::byte*>(start), size};
  mapping->guard = &TakeGuard();
  mapping->guard->end.store(reinterpret_cast<uintptr_t>(start) + size);
  mapping->guard->begin.store(reinterpret_cast<uintptr_t>(start));
  return MappedFile(std::move(mapping));
}

MappedFile::MappedFile(std::unique_ptr<Mapping> mapping) : mapping_(std::move(mapping)) {}
MappedFile::MappedFile(MappedFile&& other) noexcept = default;
MappedFile& MappedFile::operator=(MappedFile&& other) noexcept = default;
MappedFile::~MappedFile() = default;

std::span<const std::byte> MappedFile::bytes() const { return mapping_->bytes; }

absl::Status MappedFile::Check() const {
  struct stat info;
  if (fstat(mapping_->file, &info) != 0) return FileError("read", mapping_->path);
  // Within the last page that there is, what is gone reads as zeros without a signal.
  const auto size = static_cast<int64_t>(mapping_->bytes.size());
  if (info.st_size < size) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", mapping_->path, "' had ", size, " bytes when it was opened and has ",
                     info.st_size, " now: another program has cut it off while it was in use"));
  }
  if (mapping_->guard == nullptr || !mapping_->guard->lost.load()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("'", mapping_->path, "' could not be read in some place: its disk has failed, ",
                   "or another program has cut it off meanwhile"));
}

}  // namespace partita
