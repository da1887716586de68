#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

// Writer of output files. Everything that the program writes under a name goes through here, but
// for databases, which SQLite writes.
//
// Links are followed: what they lead to is replaced or made, and they stay. A path that leads to
// what is no regular file (a pipe, a terminal, /dev/null) or to an open descriptor (/dev/stdout) is
// written to as it is. A regular file keeps its mode and, where that is allowed, its owner.
//
// Errors name the path that the user gave: NotFound for a folder that is absent, PermissionDenied,
// InvalidArgument for a folder and other names that no file can have, Unavailable for what the disk
// or the reader of a pipe does.

namespace partita {

// A file that is being written. Moves, does not copy; for one thread at a time.
class FileWriter {
 public:
  // Writes to a temporary file in a regular target's folder until Commit: a reader sees the old
  // content or the new, never a part, whatever ends the program in between. Temporary files that
  // killed processes have left there are removed first. A pipe is waited for until a process reads
  // it, kPipeSeconds at most.
  static absl::StatusOr<FileWriter> Open(const std::string& path);

  // Empties a regular target at once; text is visible as it is written and stays without Commit.
  static absl::StatusOr<FileWriter> OpenAsItComes(const std::string& path);

  FileWriter(FileWriter&& other) noexcept;
  FileWriter& operator=(FileWriter&&) = delete;
  ~FileWriter();  // leaves the target unchanged unless Commit was called

  absl::Status Write(absl::string_view piece);

  // Makes the content last (fsync of the file and of its folder) and puts it in the target's place.
  // After an error the target is as it was, unless that says otherwise. Nothing may follow.
  absl::Status Commit();

  static constexpr int kPipeSeconds = 60;

 private:
  FileWriter(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}

  std::string path_;       // path as the user gave it
  std::string target_;     // file that is replaced; empty if none is
  std::string temporary_;  // file that replaces it
  int descriptor_;
};

// Whether Open would succeed, found out before the work whose result is to be written; changes
// nothing and does not wait.
absl::Status CheckWritableFile(const std::string& path);

}  // namespace partita
