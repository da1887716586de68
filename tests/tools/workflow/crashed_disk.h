#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tests/tools/workflow/recorded_files.h"

namespace partita {

// A folder's files: content by name.
using Disk = std::map<std::string, std::string>;

// Contents that a folder can have after a crash of the machine, as POSIX allows it. A file's
// content lasts from its fsync on, its names from that of the folder. Of what was asked for since:
//   names     each change, whole, was done or was not, whatever became of those before it;
//   content   each sector of each write was done or was not; one that was not holds what was there
//             before, or zeros, or anything if nothing was. A file is as long as what was done of
//             it, or as it would have been.
class CrashedDisk {
 public:
  // `before` lasts; its files have the numbers 0, 1, ... in the order of names, as in `operations`.
  CrashedDisk(Disk before, std::vector<FileOperation> operations)
      : before_(std::move(before)), operations_(std::move(operations)) {}

  // How many operations there are; crashes are before the first, between any two, behind the last.
  size_t operations() const { return operations_.size(); }
  const FileOperation& operation(size_t k) const { return operations_[k]; }

  // Calls `visit` with disks of a crash after `done` operations: all sets of changed names
  // (of more than eight, some); with each, contents of nothing, all, every prefix of the writes,
  // all but every one of them, and `samples` of torn and reordered sectors drawn from `random`.
  void Visit(size_t done, int samples, std::mt19937_64& random,
             const std::function<void(const Disk&)>& visit) const;

  // If nothing is lost.
  Disk Whole() const;

 private:
  struct Pending;
  Pending At(size_t done) const;
  Disk before_;
  std::vector<FileOperation> operations_;
};

}  // namespace partita
