#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

// SQLite behind Status. Codes: a file that is no database or is damaged -> InvalidArgument; cannot
// be opened -> NotFound; read only -> PermissionDenied; locked by another process -> Unavailable;
// the rest -> Internal. Each message names the file.

namespace partita {

// A prepared statement. Bind parameters from 1, step, read columns from 0.
class SqliteStatement {
 public:
  SqliteStatement(std::string path, sqlite3_stmt* statement)
      : path_(std::move(path)), statement_(statement) {}

  void Bind(int index, int64_t value);
  void Bind(int index, double value);
  void Bind(int index, absl::string_view text);
  void Bind(int index, std::span<const int64_t> numbers);  // a blob, little endian

  // True while there is a row.
  absl::StatusOr<bool> Step();
  // Runs to the end and makes ready for the next binding.
  absl::Status Run();

  int64_t Integer(int column) const;
  double Real(int column) const;
  std::string Text(int column) const;
  // InvalidArgument unless the blob is a whole number of integers.
  absl::StatusOr<std::vector<int64_t>> Numbers(int column) const;

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };
  std::string path_;
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

// An open database. Not for several threads at once.
class SqliteFile {
 public:
  enum class Mode { kRead, kWrite, kCreate };  // kCreate: write, and make the file if it is absent
  static absl::StatusOr<SqliteFile> Open(const std::string& path, Mode mode);

  const std::string& path() const { return path_; }
  absl::Status Execute(const std::string& sql);
  absl::StatusOr<SqliteStatement> Prepare(const std::string& sql) const;
  // The only column of the first row.
  absl::StatusOr<int64_t> Integer(const std::string& sql) const;

 private:
  struct Close {
    void operator()(sqlite3* database) const { sqlite3_close_v2(database); }
  };
  std::string path_;
  std::unique_ptr<sqlite3, Close> database_;
};

}  // namespace partita
