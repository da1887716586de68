// A library to preload into a program under test (LD_PRELOAD), which makes one call of the system
// or one allocation fail, and counts them.
//
// Set by the test, and taken out of the environment before main() so that children run without it:
//   FAULT      "KIND:N" fails the N-th call of a kind, from 1 on; "KIND:0" fails none and counts.
//              "site:HASH:N" fails the first allocation of a call site from about the N-th
//              allocation on.
//              "leak:0" loses some memory: whether who looks for leaks finds it.
//   FAULT_LOG  a file for what happened: "failed in MODULE" when a call fails, with the file of the
//              program or library that made it (standard libraries passed over); "calls N" when the
//              program ends, but by a signal; with FAULT=sites:0 then also "site HASH N" for each
//              call site of allocations, with the number of the first one there.
//
// Kinds: open (opendir and fopen too), write, fsync, rename, path (realpath), mmap, thread, alloc.
// Calls count from the beginning of main() to its end; writes to the standard streams do not count. What a C library
// calls within itself passes by, so an mmap is one of the program or of another library. Errors
// take turns: EMFILE and EIO for open, ENOSPC and EIO for write, and so on.
//
// A call site is the return addresses of the next kFrames callers above the allocating functions,
// each from the beginning of its module.
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <new>

namespace {

enum Kind : int {
  kOpen,
  kWrite,
  kFsync,
  kRename,
  kPath,
  kMmap,
  kThread,
  kLeak,
  kAlloc,  // from here on allocations count
  kSites,
  kSite,
  kNone
};
constexpr const char* kKinds[] = {"open",   "write", "fsync", "rename", "path", "mmap",
                                  "thread", "leak",  "alloc", "sites",  "site"};
constexpr int kFrames = 4;
constexpr int64_t kSlack = 3000;  // allocations by which threads may change the order
constexpr size_t kMostSites = 1 << 16;

Kind g_kind = kNone;
int64_t g_wanted = 0;
uint64_t g_wanted_site = 0;
char g_log[4096] = "";
std::atomic<bool> g_on{false};
std::atomic<int64_t> g_calls{0};
std::atomic<bool> g_failed{false};
// Whether the injector itself allocates. In static memory, as other kinds are allocated at use.
__attribute__((tls_model("initial-exec"))) thread_local bool t_inside = false;

struct Site {
  std::atomic<uint64_t> hash{0};
  std::atomic<int64_t> first{0};
};
Site g_sites[kMostSites];  // open addressing

// What the next definition of this name does.
template <class Function>
Function Next(const char* name) {
  t_inside = true;
  void* found = dlsym(RTLD_NEXT, name);
  t_inside = false;
  return reinterpret_cast<Function>(found);
}

int OpenLog() {
  static const auto open = Next<int (*)(const char*, int, ...)>("open");
  return g_log[0] == '\0' ? -1 : open(g_log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

// Who makes the call that fails.
void NoteFailure() {
  g_failed = true;
  t_inside = true;
  void* frames[24];
  const int count = backtrace(frames, 24);
  const char* module = "?";
  for (int k = 0; k < count; ++k) {
    Dl_info info;
    if (dladdr(frames[k], &info) == 0 || info.dli_fname == nullptr) continue;
    const char* slash = strrchr(info.dli_fname, '/');
    module = slash == nullptr ? info.dli_fname : slash + 1;
    const char* const passed_over[] = {"fault_injector", "libc.so", "libstdc++", "liblsan",
                                       "libasan"};
    bool standard = false;
    for (const char* name : passed_over) standard |= strncmp(module, name, strlen(name)) == 0;
    if (!standard) break;
  }
  if (const int file = OpenLog(); file >= 0) {
    dprintf(file, "failed in %s\n", module);
    close(file);
  }
  t_inside = false;
}

// Whether this call of the kind is the one to fail.
bool Fails(Kind kind) {
  if (g_kind != kind || t_inside || !g_on.load(std::memory_order_relaxed)) return false;
  if (g_calls.fetch_add(1) + 1 != g_wanted) return false;
  NoteFailure();
  return true;
}

template <class Result>
Result Fail(Result result, std::initializer_list<int> errors) {
  errno = errors.begin()[static_cast<size_t>(g_wanted) % errors.size()];
  return result;
}

// An address from the beginning of its module.
uintptr_t Relative(void* address) {
  dl_find_object found;
  if (_dl_find_object(address, &found) != 0) return 0;
  return reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(found.dlfo_map_start);
}

bool IsAllocator(void* address) {
  static uintptr_t from = 0, to = 0;  // operator new and its kind: in this library
  if (from == 0) {
    dl_find_object found;
    if (_dl_find_object(reinterpret_cast<void*>(static_cast<void* (*)(size_t)>(&::operator new)),
                        &found) == 0) {
      to = reinterpret_cast<uintptr_t>(found.dlfo_map_end);
      from = reinterpret_cast<uintptr_t>(found.dlfo_map_start);
    }
  }
  const auto at = reinterpret_cast<uintptr_t>(address);
  return at >= from && at < to;
}

__attribute__((noinline)) uint64_t SiteHere() {
  constexpr int kOwn = 3;  // this function, AllocationFails and the allocating one
  void* frames[kOwn + 3 + kFrames];
  t_inside = true;
  const int count = backtrace(frames, static_cast<int>(sizeof frames / sizeof frames[0]));
  t_inside = false;
  int first = kOwn;
  while (first < count && IsAllocator(frames[first])) ++first;
  uint64_t hash = 0xcbf29ce484222325u;
  for (int k = first; k < count && k < first + kFrames; ++k) {
    hash = (hash ^ Relative(frames[k])) * 0x100000001b3u;
  }
  return hash | 1;  // 0 means none
}

void RecordSite(uint64_t hash, int64_t number) {
  for (size_t at = hash % kMostSites;; at = (at + 1) % kMostSites) {
    uint64_t seen = 0;
    if (g_sites[at].hash.compare_exchange_strong(seen, hash)) {
      g_sites[at].first = number;
      return;
    }
    if (seen == hash) return;
  }
}

__attribute__((noinline)) bool AllocationFails() {
  if (g_kind < kAlloc || t_inside || !g_on.load(std::memory_order_relaxed)) return false;
  if (g_kind == kAlloc) return Fails(kAlloc);
  if (g_kind == kNone) return false;
  const int64_t number = g_calls.fetch_add(1) + 1;
  if (g_kind == kSites) {
    RecordSite(SiteHere(), number);
    return false;
  }
  if (g_failed.load(std::memory_order_relaxed) || number < g_wanted - kSlack) return false;
  if (SiteHere() != g_wanted_site || g_failed.exchange(true)) return false;
  NoteFailure();
  return true;
}

void WriteLog() {
  if (!g_on.exchange(false)) return;
  t_inside = true;
  if (const int file = OpenLog(); file >= 0) {
    for (const Site& site : g_sites) {
      if (site.hash == 0) continue;
      dprintf(file, "site %llx %lld\n", static_cast<unsigned long long>(site.hash.load()),
              static_cast<long long>(site.first.load()));
    }
    dprintf(file, "calls %lld\n", static_cast<long long>(g_calls.load()));
    close(file);
  }
  t_inside = false;
}

void ReadSettings() {
  const char* fault = getenv("FAULT");
  const char* log = getenv("FAULT_LOG");
  if (log != nullptr) strncpy(g_log, log, sizeof g_log - 1);
  if (fault != nullptr) {
    const char* colon = strchr(fault, ':');
    for (int k = 0; colon != nullptr && k < kNone; ++k) {
      const auto length = static_cast<size_t>(colon - fault);
      if (strlen(kKinds[k]) == length && strncmp(kKinds[k], fault, length) == 0) {
        g_kind = static_cast<Kind>(k);
      }
    }
    char* end = nullptr;
    if (g_kind == kSite) {
      g_wanted_site = strtoull(colon + 1, &end, 16);
      g_wanted = strtoll(end + 1, nullptr, 10);
    } else if (g_kind != kNone) {
      g_wanted = strtoll(colon + 1, nullptr, 10);
    }
  }
  for (const char* name : {"LD_PRELOAD", "FAULT", "FAULT_LOG"}) unsetenv(name);
}

__attribute__((noinline)) void Leak() {
  static char* volatile lost = nullptr;
  lost = static_cast<char*>(malloc(1000));
  lost[0] = 1;
  lost = nullptr;
}

int (*g_main)(int, char**, char**) = nullptr;

int CountedMain(int argc, char** argv, char** environment) {
  ReadSettings();
  void* frame[2];
  backtrace(frame, 2);  // loads what it needs
  if (g_kind == kLeak) Leak();
  g_on = true;
  const int code = g_main(argc, argv, environment);
  WriteLog();
  return code;
}

}  // namespace

extern "C" {

int __libc_start_main(int (*main)(int, char**, char**), int argc, char** argv, void (*init)(),
                      void (*fini)(), void (*rtld_fini)(), void* stack_end) {
  g_main = main;
  return Next<decltype(&__libc_start_main)>("__libc_start_main")(CountedMain, argc, argv, init,
                                                                 fini, rtld_fini, stack_end);
}

// Ends that pass main() by.
void _Exit(int code) {
  WriteLog();
  Next<void (*)(int)>("_Exit")(code);
  __builtin_unreachable();
}
void exit(int code) {
  WriteLog();
  Next<void (*)(int)>("exit")(code);
  __builtin_unreachable();
}

void* malloc(size_t bytes) {
  static const auto next = Next<void* (*)(size_t)>("malloc");
  return AllocationFails() ? Fail<void*>(nullptr, {ENOMEM}) : next(bytes);
}
void* calloc(size_t count, size_t bytes) {
  static const auto next = Next<void* (*)(size_t, size_t)>("calloc");
  return AllocationFails() ? Fail<void*>(nullptr, {ENOMEM}) : next(count, bytes);
}
void* realloc(void* old, size_t bytes) {
  static const auto next = Next<void* (*)(void*, size_t)>("realloc");
  return AllocationFails() ? Fail<void*>(nullptr, {ENOMEM}) : next(old, bytes);
}
void* memalign(size_t alignment, size_t bytes) {
  static const auto next = Next<void* (*)(size_t, size_t)>("memalign");
  return AllocationFails() ? Fail<void*>(nullptr, {ENOMEM}) : next(alignment, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  static const auto next = Next<void* (*)(size_t, size_t)>("aligned_alloc");
  return AllocationFails() ? Fail<void*>(nullptr, {ENOMEM}) : next(alignment, bytes);
}
int posix_memalign(void** result, size_t alignment, size_t bytes) {
  static const auto next = Next<int (*)(void**, size_t, size_t)>("posix_memalign");
  return AllocationFails() ? ENOMEM : next(result, alignment, bytes);
}

#define OPEN_MODE(flags)                        \
  mode_t mode = 0;                              \
  if (((flags) & (O_CREAT | O_TMPFILE)) != 0) { \
    va_list list;                               \
    va_start(list, flags);                      \
    mode = va_arg(list, mode_t);                \
    va_end(list);                               \
  }
int open(const char* path, int flags, ...) {
  OPEN_MODE(flags)
  static const auto next = Next<int (*)(const char*, int, ...)>("open");
  return Fails(kOpen) ? Fail(-1, {EMFILE, EIO}) : next(path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  OPEN_MODE(flags)
  static const auto next = Next<int (*)(const char*, int, ...)>("open64");
  return Fails(kOpen) ? Fail(-1, {EMFILE, EIO}) : next(path, flags, mode);
}
int openat(int folder, const char* path, int flags, ...) {
  OPEN_MODE(flags)
  static const auto next = Next<int (*)(int, const char*, int, ...)>("openat");
  return Fails(kOpen) ? Fail(-1, {EMFILE, EIO}) : next(folder, path, flags, mode);
}
int openat64(int folder, const char* path, int flags, ...) {
  OPEN_MODE(flags)
  static const auto next = Next<int (*)(int, const char*, int, ...)>("openat64");
  return Fails(kOpen) ? Fail(-1, {EMFILE, EIO}) : next(folder, path, flags, mode);
}
FILE* fopen(const char* path, const char* mode) {
  static const auto next = Next<FILE* (*)(const char*, const char*)>("fopen");
  return Fails(kOpen) ? Fail<FILE*>(nullptr, {EMFILE, EIO}) : next(path, mode);
}
FILE* fopen64(const char* path, const char* mode) {
  static const auto next = Next<FILE* (*)(const char*, const char*)>("fopen64");
  return Fails(kOpen) ? Fail<FILE*>(nullptr, {EMFILE, EIO}) : next(path, mode);
}
DIR* opendir(const char* path) {
  static const auto next = Next<DIR* (*)(const char*)>("opendir");
  return Fails(kOpen) ? Fail<DIR*>(nullptr, {EMFILE, EIO}) : next(path);
}

ssize_t write(int file, const void* data, size_t bytes) {
  static const auto next = Next<ssize_t (*)(int, const void*, size_t)>("write");
  return file > STDERR_FILENO && Fails(kWrite) ? Fail<ssize_t>(-1, {ENOSPC, EIO})
                                               : next(file, data, bytes);
}
ssize_t pwrite(int file, const void* data, size_t bytes, off_t at) {
  static const auto next = Next<ssize_t (*)(int, const void*, size_t, off_t)>("pwrite");
  return Fails(kWrite) ? Fail<ssize_t>(-1, {ENOSPC, EIO}) : next(file, data, bytes, at);
}
ssize_t pwrite64(int file, const void* data, size_t bytes, off64_t at) {
  static const auto next = Next<ssize_t (*)(int, const void*, size_t, off64_t)>("pwrite64");
  return Fails(kWrite) ? Fail<ssize_t>(-1, {ENOSPC, EIO}) : next(file, data, bytes, at);
}
ssize_t writev(int file, const struct iovec* pieces, int count) {
  static const auto next = Next<ssize_t (*)(int, const struct iovec*, int)>("writev");
  return file > STDERR_FILENO && Fails(kWrite) ? Fail<ssize_t>(-1, {ENOSPC, EIO})
                                               : next(file, pieces, count);
}

int fsync(int file) {
  static const auto next = Next<int (*)(int)>("fsync");
  return Fails(kFsync) ? Fail(-1, {EIO, ENOSPC}) : next(file);
}
int fdatasync(int file) {
  static const auto next = Next<int (*)(int)>("fdatasync");
  return Fails(kFsync) ? Fail(-1, {EIO, ENOSPC}) : next(file);
}

int rename(const char* from, const char* to) {
  static const auto next = Next<int (*)(const char*, const char*)>("rename");
  return Fails(kRename) ? Fail(-1, {EIO, ENOSPC}) : next(from, to);
}
int renameat(int from_folder, const char* from, int to_folder, const char* to) {
  static const auto next = Next<int (*)(int, const char*, int, const char*)>("renameat");
  return Fails(kRename) ? Fail(-1, {EIO, ENOSPC}) : next(from_folder, from, to_folder, to);
}
int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) {
  static const auto next = Next<int (*)(int, const char*, int, const char*, unsigned)>("renameat2");
  return Fails(kRename) ? Fail(-1, {EIO, ENOSPC}) : next(from_folder, from, to_folder, to, flags);
}

char* realpath(const char* path, char* resolved) {
  static const auto next = Next<char* (*)(const char*, char*)>("realpath");
  return Fails(kPath) ? Fail<char*>(nullptr, {ENOMEM}) : next(path, resolved);
}

void* mmap(void* at, size_t bytes, int protection, int flags, int file, off_t offset) {
  static const auto next = Next<decltype(&mmap)>("mmap");
  return Fails(kMmap) ? Fail(MAP_FAILED, {ENOMEM})
                      : next(at, bytes, protection, flags, file, offset);
}
void* mmap64(void* at, size_t bytes, int protection, int flags, int file, off64_t offset) {
  static const auto next = Next<decltype(&mmap64)>("mmap64");
  return Fails(kMmap) ? Fail(MAP_FAILED, {ENOMEM})
                      : next(at, bytes, protection, flags, file, offset);
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*),
                   void* argument) {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto next = Next<Create>("pthread_create");
  return Fails(kThread) ? EAGAIN : next(thread, attributes, run, argument);
}

}  // extern "C"

// C++'s allocating functions, by malloc: those of a sanitizer would not come here.

namespace {

// What `allocate` gives; where it gives nothing, what the program has set for that happens first, as
// the standard says.
template <class Allocate>
void* OrHandled(Allocate&& allocate) {
  while (true) {
    if (void* memory = allocate()) return memory;
    const std::new_handler handler = std::get_new_handler();
    if (handler == nullptr) throw std::bad_alloc();
    handler();
  }
}

template <class Allocate>
void* OrNull(Allocate&& allocate) noexcept {
  try {
    return OrHandled(allocate);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

}  // namespace

void* operator new(size_t bytes) {
  return OrHandled([&] { return malloc(bytes == 0 ? 1 : bytes); });
}
void* operator new(size_t bytes, std::align_val_t alignment) {
  return OrHandled(
      [&] { return memalign(static_cast<size_t>(alignment), bytes == 0 ? 1 : bytes); });
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  return OrNull([&] { return malloc(bytes == 0 ? 1 : bytes); });
}
void* operator new(size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return OrNull([&] { return memalign(static_cast<size_t>(alignment), bytes == 0 ? 1 : bytes); });
}
void* operator new[](size_t bytes) { return operator new(bytes); }
void* operator new[](size_t bytes, std::align_val_t alignment) {
  return operator new(bytes, alignment);
}
void* operator new[](size_t bytes, const std::nothrow_t& tag) noexcept {
  return operator new(bytes, tag);
}
void* operator new[](size_t bytes, std::align_val_t alignment, const std::nothrow_t& tag) noexcept {
  return operator new(bytes, alignment, tag);
}
void operator delete(void* memory) noexcept { free(memory); }
void operator delete[](void* memory) noexcept { free(memory); }
void operator delete(void* memory, size_t) noexcept { free(memory); }
void operator delete[](void* memory, size_t) noexcept { free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { free(memory); }
void operator delete[](void* memory, size_t, std::align_val_t) noexcept { free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { free(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { free(memory); }
