#include "tests/tools/workflow/recorded_files.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <map>
#include <mutex>
#include <optional>

// Calls come in while libraries are loaded, before anything of C++ is there, and from all threads:
// the recording is a pointer that is null but between Begin and End.

namespace partita {
namespace {

struct Recording {
  std::string folder;  // with a slash behind it
  std::vector<FileOperation> operations;
  std::map<std::string, int> files;  // by name
  int next_file = 0;
  struct Open {
    int file = 0;
    bool is_folder = false;
    int64_t offset = 0;
    bool appends = false;
  };
  std::map<int, Open> open;  // by descriptor
};

Recording* recording = nullptr;
constinit std::mutex mutex;

// The recording, locked, if there is one. Not used by what it does itself.
class Locked {
 public:
  Locked() : lock_(mutex) {}
  explicit operator bool() const { return recording != nullptr; }
  Recording* operator->() const { return recording; }
  void Add(FileOperation operation) { recording->operations.push_back(std::move(operation)); }
  void Other(const std::string& what) { Add({.kind = FileOperation::kOther, .name = what}); }

  // The name within the folder.
  std::optional<std::string> NameOf(int folder, const char* path) const {
    if (recording == nullptr || path == nullptr) return std::nullopt;
    std::string whole = path;
    if (whole[0] != '/' && folder != AT_FDCWD) return std::nullopt;
    if (whole[0] != '/') {
      char here[4096];
      if (getcwd(here, sizeof here) == nullptr) return std::nullopt;
      whole = std::string(here) + "/" + whole;
    }
    if (whole.rfind(recording->folder, 0) != 0) return std::nullopt;
    return whole.substr(recording->folder.size());
  }

 private:
  std::lock_guard<std::mutex> lock_;
};

template <class Function>
Function* Real(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

bool IsThere(const char* path) {
  struct stat info;
  return lstat(path, &info) == 0;
}

int Opened(const char* path, int flags, mode_t mode, int folder) {
  static auto* const real = Real<int(int, const char*, int, ...)>("openat");
  Locked recorded;
  const auto name = recorded.NameOf(folder, path);
  const bool is_folder = recorded && (std::string(path) + "/" == recorded->folder ||
                                      (name.has_value() && (name->empty() || *name == ".")));
  const bool was_there = name.has_value() && IsThere(path);
  const int descriptor = real(folder, path, flags, mode);
  if (descriptor < 0 || (!name.has_value() && !is_folder)) return descriptor;
  Recording::Open open{.is_folder = is_folder, .appends = (flags & O_APPEND) != 0};
  if (!is_folder) {
    if (!was_there) {
      recorded->files[*name] = recorded->next_file++;
      recorded.Add({.kind = FileOperation::kCreate, .file = recorded->files[*name], .name = *name});
    }
    open.file = recorded->files[*name];
    if (was_there && (flags & O_TRUNC) != 0) {
      recorded.Add({.kind = FileOperation::kTruncate, .file = open.file});
    }
  }
  recorded->open[descriptor] = open;
  return descriptor;
}

ssize_t Written(int descriptor, const void* bytes, ssize_t put, std::optional<int64_t> at) {
  if (put <= 0) return put;
  Locked recorded;
  if (!recorded) return put;
  const auto open = recorded->open.find(descriptor);
  if (open == recorded->open.end()) return put;
  if (open->second.appends) recorded.Other("a write that appends");
  const int64_t offset = at.value_or(open->second.offset);
  if (!at.has_value()) open->second.offset += put;
  recorded.Add({.kind = FileOperation::kWrite,
                .file = open->second.file,
                .offset = offset,
                .bytes = std::string(static_cast<const char*>(bytes), static_cast<size_t>(put))});
  return put;
}

int Synced(int descriptor, int result) {
  Locked recorded;
  if (result != 0 || !recorded) return result;
  const auto open = recorded->open.find(descriptor);
  if (open == recorded->open.end()) return result;
  recorded.Add({.kind = open->second.is_folder ? FileOperation::kSyncFolder : FileOperation::kSync,
                .file = open->second.file});
  return result;
}

int Unlinked(int folder, const char* path, int flags) {
  static auto* const real = Real<int(int, const char*, int)>("unlinkat");
  Locked recorded;
  const auto name = recorded.NameOf(folder, path);
  const int result = real(folder, path, flags);
  if (result != 0 || !name.has_value()) return result;
  if (flags != 0) recorded.Other("a folder that is removed");
  recorded.Add({.kind = FileOperation::kUnlink, .file = recorded->files[*name], .name = *name});
  recorded->files.erase(*name);
  return result;
}

int Renamed(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) {
  static auto* const real = Real<int(int, const char*, int, const char*, unsigned)>("renameat2");
  Locked recorded;
  const auto name = recorded.NameOf(from_folder, from), target = recorded.NameOf(to_folder, to);
  const int result = real(from_folder, from, to_folder, to, flags);
  if (result != 0 || (!name.has_value() && !target.has_value())) return result;
  if (!name.has_value() || !target.has_value() || flags != 0) {
    recorded.Other("a file that is moved between folders");
    return result;
  }
  const int file = recorded->files[*name];
  recorded.Add({.kind = FileOperation::kRename, .file = file, .name = *name, .to = *target});
  recorded->files.erase(*name);
  recorded->files[*target] = file;
  return result;
}

}  // namespace

void RecordedFiles::Begin(const std::string& folder, const std::vector<std::string>& names) {
  auto* const begun = new Recording;
  begun->folder = folder + "/";
  for (const std::string& name : names) begun->files[name] = begun->next_file++;
  const std::lock_guard lock(mutex);
  recording = begun;
}

std::vector<FileOperation> RecordedFiles::End() {
  const std::lock_guard lock(mutex);
  std::vector<FileOperation> operations = std::move(recording->operations);
  delete recording;
  recording = nullptr;
  return operations;
}

}  // namespace partita

// The calls. Those that a program of ours has no use for in such a folder are recorded as such.

using partita::FileOperation;
using partita::Locked;
using partita::Real;

extern "C" {

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  return partita::Opened(path, flags, mode, AT_FDCWD);
}
int open64(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  return partita::Opened(path, flags, mode, AT_FDCWD);
}
int openat(int folder, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  return partita::Opened(path, flags, mode, folder);
}
int openat64(int folder, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  return partita::Opened(path, flags, mode, folder);
}
int creat(const char* path, mode_t mode) {
  return partita::Opened(path, O_WRONLY | O_CREAT | O_TRUNC, mode, AT_FDCWD);
}

int close(int descriptor) {
  static auto* const real = Real<int(int)>("close");
  {
    Locked recorded;
    if (recorded) recorded->open.erase(descriptor);
  }
  return real(descriptor);
}

ssize_t write(int descriptor, const void* bytes, size_t size) {
  static auto* const real = Real<ssize_t(int, const void*, size_t)>("write");
  return partita::Written(descriptor, bytes, real(descriptor, bytes, size), std::nullopt);
}
ssize_t pwrite(int descriptor, const void* bytes, size_t size, off_t at) {
  static auto* const real = Real<ssize_t(int, const void*, size_t, off_t)>("pwrite");
  return partita::Written(descriptor, bytes, real(descriptor, bytes, size, at), at);
}
ssize_t writev(int descriptor, const struct iovec* pieces, int count) {
  static auto* const real = Real<ssize_t(int, const struct iovec*, int)>("writev");
  std::string all;
  {
    Locked recorded;
    if (recorded && recorded->open.contains(descriptor)) {
      for (int k = 0; k < count; ++k) {
        all.append(static_cast<const char*>(pieces[k].iov_base), pieces[k].iov_len);
      }
    }
  }
  const ssize_t put = real(descriptor, pieces, count);
  return all.empty() ? put : partita::Written(descriptor, all.data(), put, std::nullopt);
}

int fsync(int descriptor) {
  static auto* const real = Real<int(int)>("fsync");
  return partita::Synced(descriptor, real(descriptor));
}
int fdatasync(int descriptor) {
  static auto* const real = Real<int(int)>("fdatasync");
  return partita::Synced(descriptor, real(descriptor));
}

int ftruncate(int descriptor, off_t size) noexcept {
  static auto* const real = Real<int(int, off_t)>("ftruncate");
  const int result = real(descriptor, size);
  Locked recorded;
  if (result == 0 && recorded && recorded->open.contains(descriptor)) {
    recorded.Add({.kind = FileOperation::kTruncate,
                  .file = recorded->open[descriptor].file,
                  .offset = size});
  }
  return result;
}

off_t lseek(int descriptor, off_t by, int from) noexcept {
  static auto* const real = Real<off_t(int, off_t, int)>("lseek");
  const off_t result = real(descriptor, by, from);
  Locked recorded;
  if (result >= 0 && recorded && recorded->open.contains(descriptor)) {
    recorded->open[descriptor].offset = result;
  }
  return result;
}

int unlink(const char* path) noexcept { return partita::Unlinked(AT_FDCWD, path, 0); }
int unlinkat(int folder, const char* path, int flags) noexcept {
  return partita::Unlinked(folder, path, flags);
}
int remove(const char* path) noexcept {
  static auto* const real = Real<int(const char*)>("remove");
  bool ours;
  {
    Locked recorded;
    ours = recorded.NameOf(AT_FDCWD, path).has_value();
  }
  return ours ? partita::Unlinked(AT_FDCWD, path, 0) : real(path);
}

int rename(const char* from, const char* to) noexcept {
  return partita::Renamed(AT_FDCWD, from, AT_FDCWD, to, 0);
}
int renameat(int from_folder, const char* from, int to_folder, const char* to) noexcept {
  return partita::Renamed(from_folder, from, to_folder, to, 0);
}
int renameat2(int from_folder, const char* from, int to_folder, const char* to,
              unsigned flags) noexcept {
  return partita::Renamed(from_folder, from, to_folder, to, flags);
}

int link(const char* from, const char* to) noexcept {
  static auto* const real = Real<int(const char*, const char*)>("link");
  Locked recorded;
  if (recorded.NameOf(AT_FDCWD, to).has_value()) recorded.Other("a hard link");
  return real(from, to);
}
int symlink(const char* text, const char* path) noexcept {
  static auto* const real = Real<int(const char*, const char*)>("symlink");
  Locked recorded;
  if (recorded.NameOf(AT_FDCWD, path).has_value()) recorded.Other("a symbolic link");
  return real(text, path);
}
int truncate(const char* path, off_t size) noexcept {
  static auto* const real = Real<int(const char*, off_t)>("truncate");
  Locked recorded;
  if (recorded.NameOf(AT_FDCWD, path).has_value()) recorded.Other("a truncation by name");
  return real(path, size);
}

FILE* fopen(const char* path, const char* mode) {
  static auto* const real = Real<FILE*(const char*, const char*)>("fopen");
  {
    Locked recorded;
    const bool writes = std::string(mode).find_first_of("wa+") != std::string::npos;
    if (writes && recorded.NameOf(AT_FDCWD, path).has_value()) recorded.Other("a stream");
  }
  return real(path, mode);
}

void* mmap(void* at, size_t size, int protection, int flags, int descriptor,
           off_t offset) noexcept {
  static auto* const real = Real<void*(void*, size_t, int, int, int, off_t)>("mmap");
  if ((protection & PROT_WRITE) != 0 && (flags & MAP_SHARED) != 0 && descriptor >= 0) {
    Locked recorded;
    if (recorded && recorded->open.contains(descriptor)) recorded.Other("a writable mapping");
  }
  return real(at, size, protection, flags, descriptor, offset);
}

}  // extern "C"
