#pragma once

#include <string>

#include "absl/status/statusor.h"

// Temporary files and folders whose names contain the process that they belong to:
// ".partita-BOOT-SPACE-PROCESS-START-RANDOM", the boot of the kernel, the process-id namespace, the
// process's id in it and when it began. So files that a killed process has left are distinguished
// from those that a running one uses, also where several hosts or containers share a folder. The
// names are short: sockets lie in such folders.

namespace partita {

// A new name for a file or folder of the calling process.
std::string TemporaryName();

// Locks an open temporary file or folder for as long as it is open anywhere, where the file system
// can: then it is not stale, whatever is known of its process.
void LockTemporary(int descriptor);

// Removes the temporary files and folders in `folder` whose process has ended for sure: of this
// boot and namespace where no such process runs, of an earlier boot where no other host can write
// to that file system; none that a process has locked. What cannot be removed stays.
void RemoveStaleTemporaries(const std::string& folder);

// A private folder of this process (mode 0700) that is removed with the object, with its contents.
class TemporaryFolder {
 public:
  // Creates a folder in the folder for temporary files (TMPDIR, or /tmp), or in another; stale ones
  // there are removed first. Unavailable where none can be made.
  static absl::StatusOr<TemporaryFolder> Create();
  static absl::StatusOr<TemporaryFolder> CreateIn(const std::string& base);
  TemporaryFolder(TemporaryFolder&& other) noexcept;
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;
  ~TemporaryFolder();

  const std::string& path() const { return path_; }

 private:
  TemporaryFolder(std::string path, int descriptor)
      : path_(std::move(path)), descriptor_(descriptor) {}
  std::string path_;
  int descriptor_;  // holds the lock
};

}  // namespace partita
