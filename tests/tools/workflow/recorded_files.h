#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace partita {

// Record of what a process asks the file system to do in one folder, in order. A program that links
// recorded_files.cc calls it instead of the C library for everything that opens, writes, syncs,
// renames or removes a file; the calls are passed on, and recorded for one folder while that is
// asked for.
struct FileOperation {
  enum Kind {
    kCreate,      // an empty file under `name`
    kWrite,       // `bytes` at `offset`
    kTruncate,    // to `offset` bytes
    kSync,        // the file
    kSyncFolder,  // the folder
    kRename,      // `name` becomes `to`
    kUnlink,      // `name`
    kOther,       // what this does not follow; `name` says what
  };
  Kind kind = kOther;
  int file = 0;          // a number for each file that was ever there
  std::string name, to;  // within the folder
  int64_t offset = 0;
  std::string bytes;
};

// From Begin to End, of a folder, whose files have the numbers 0, 1, ... in the order of `names`.
class RecordedFiles {
 public:
  static void Begin(const std::string& folder, const std::vector<std::string>& names);
  static std::vector<FileOperation> End();
};

}  // namespace partita
