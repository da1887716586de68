#include "cost_model/sqlite.h"

#include <unistd.h>

#include <bit>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/support/error_category.h"

namespace partita {
namespace {

static_assert(std::endian::native == std::endian::little, "blobs hold little-endian integers");

constexpr int kBusyMilliseconds = 5000;
constexpr size_t kSmallestPage = 512;

// SQLite takes a file shorter than a page for a new database and would write over it. Empty and
// absent files are fine.
absl::Status CheckSize(const std::string& path) {
  std::error_code error;
  if (std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path, error)) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", path, "' is not a regular file; wanted a profile database"));
  }
  std::ifstream file(path, std::ios::binary);
  std::string start(kSmallestPage, '\0');
  file.read(start.data(), kSmallestPage);
  const auto bytes = static_cast<size_t>(file.gcount());
  if (bytes == 0 || bytes == kSmallestPage) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("'", path, "': has ", bytes,
                   " bytes; wanted a profile database: move the file away or name another"));
}

absl::Status StatusOf(const std::string& path, int code, sqlite3* database) {
  const char* detail = database != nullptr ? sqlite3_errmsg(database) : sqlite3_errstr(code);
  const std::string where = absl::StrCat("'", path, "': ");
  switch (code & 0xff) {
    case SQLITE_ERROR:  // our statements are sound, so the tables are not those of this program
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
    case SQLITE_FORMAT:
      return absl::InvalidArgumentError(absl::StrCat(
          where, detail, "; wanted a profile database: move the file away or name another"));
    case SQLITE_NOMEM:
      return MemoryError(absl::StrCat(where, detail));
    case SQLITE_CANTOPEN:
      // It is there: the system refuses to open one more file, or the disk fails.
      if (access(path.c_str(), R_OK) == 0) {
        return absl::UnavailableError(
            absl::StrCat(where, detail, "; it is there, but the system does not open it"));
      }
      return absl::NotFoundError(
          absl::StrCat(where, detail, ". Try --profile with a place that may be written to"));
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
      return absl::PermissionDeniedError(
          absl::StrCat(where, detail, ". Try --profile with a place that may be written to"));
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return absl::UnavailableError(
          absl::StrCat(where, detail, "; another process is writing to it: try again later"));
    default:
      return absl::InternalError(absl::StrCat(where, detail));
  }
}

}  // namespace

void SqliteStatement::Bind(int index, int64_t value) {
  sqlite3_bind_int64(statement_.get(), index, value);
}
void SqliteStatement::Bind(int index, double value) {
  sqlite3_bind_double(statement_.get(), index, value);
}
void SqliteStatement::Bind(int index, absl::string_view text) {
  sqlite3_bind_text64(statement_.get(), index, text.data(), text.size(), SQLITE_TRANSIENT,
                      SQLITE_UTF8);
}
void SqliteStatement::Bind(int index, std::span<const int64_t> numbers) {
  sqlite3_bind_blob64(statement_.get(), index, numbers.data(), numbers.size_bytes(),
                      SQLITE_TRANSIENT);
}

absl::StatusOr<bool> SqliteStatement::Step() {
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return StatusOf(path_, code, sqlite3_db_handle(statement_.get()));
}

absl::Status SqliteStatement::Run() {
  while (true) {
    const absl::StatusOr<bool> more = Step();
    if (more.ok() && *more) continue;
    sqlite3_reset(statement_.get());
    return more.status();
  }
}

int64_t SqliteStatement::Integer(int column) const {
  return sqlite3_column_int64(statement_.get(), column);
}
double SqliteStatement::Real(int column) const {
  return sqlite3_column_double(statement_.get(), column);
}
std::string SqliteStatement::Text(int column) const {
  const auto* text = sqlite3_column_text(statement_.get(), column);
  if (text == nullptr) return "";
  return std::string(reinterpret_cast<const char*>(text),
                     sqlite3_column_bytes(statement_.get(), column));
}

absl::StatusOr<std::vector<int64_t>> SqliteStatement::Numbers(int column) const {
  const void* blob = sqlite3_column_blob(statement_.get(), column);
  const size_t bytes = sqlite3_column_bytes(statement_.get(), column);
  if (bytes % sizeof(int64_t) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("'", path_, "': a list of integers has ", bytes,
                                                   " bytes; wanted a multiple of 8"));
  }
  std::vector<int64_t> numbers(bytes / sizeof(int64_t));
  if (bytes > 0) std::memcpy(numbers.data(), blob, bytes);
  return numbers;
}

absl::StatusOr<SqliteFile> SqliteFile::Open(const std::string& path, Mode mode) {
  int flags = SQLITE_OPEN_NOMUTEX;
  flags |= mode == Mode::kRead ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE;
  if (mode == Mode::kCreate) flags |= SQLITE_OPEN_CREATE;
  if (absl::Status status = CheckSize(path); !status.ok()) return status;
  sqlite3* raw = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &raw, flags, nullptr);
  SqliteFile file;
  file.path_ = path;
  file.database_.reset(raw);
  if (code != SQLITE_OK) return StatusOf(path, code, raw);
  sqlite3_extended_result_codes(raw, 1);
  sqlite3_busy_timeout(raw, kBusyMilliseconds);
  // The file may come from anywhere: its schema is not trusted.
  sqlite3_db_config(raw, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(raw, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(raw, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  sqlite3_db_config(raw, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
  return file;
}

absl::Status SqliteFile::Execute(const std::string& sql) {
  const int code = sqlite3_exec(database_.get(), sql.c_str(), nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? absl::OkStatus() : StatusOf(path_, code, database_.get());
}

absl::StatusOr<SqliteStatement> SqliteFile::Prepare(const std::string& sql) const {
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v2(database_.get(), sql.c_str(), static_cast<int>(sql.size()),
                                      &statement, nullptr);
  if (code != SQLITE_OK) return StatusOf(path_, code, database_.get());
  return SqliteStatement(path_, statement);
}

absl::StatusOr<int64_t> SqliteFile::Integer(const std::string& sql) const {
  absl::StatusOr<SqliteStatement> statement = Prepare(sql);
  if (!statement.ok()) return statement.status();
  const absl::StatusOr<bool> row = statement->Step();
  if (!row.ok()) return row.status();
  return *row ? statement->Integer(0) : 0;
}

}  // namespace partita
