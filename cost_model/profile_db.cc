#include "cost_model/profile_db.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/support/error_category.h"
#include "graph/support/status_macros.h"

namespace partita {
namespace {

constexpr int64_t kApplicationId = 0x50746174;  // "Ptat": PRAGMA application_id
constexpr int64_t kFormatVersion = 3;           // PRAGMA user_version
constexpr int64_t kOldestVersion = 1;           // without low_ns, high_ns and repeats
constexpr int64_t kVersionOfRepeats = 2;        // without compute_type
constexpr int64_t kLongestNanos = int64_t{1} << 50;

constexpr char kSchema[] = R"(
  CREATE TABLE device (
    id INTEGER PRIMARY KEY,
    hardware TEXT NOT NULL,
    configuration TEXT NOT NULL,
    UNIQUE (hardware, configuration));
  CREATE TABLE record (
    device INTEGER NOT NULL REFERENCES device (id),
    signature TEXT NOT NULL,
    kind INTEGER NOT NULL,             -- 0 kernel, 1 move, 2 collective, 3 exchange, 4 step
    family TEXT NOT NULL,
    variant TEXT NOT NULL,
    multiply_adds INTEGER NOT NULL,
    other_operations INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    run INTEGER NOT NULL,
    samples_ns BLOB NOT NULL,          -- 64-bit little-endian integers in the order measured
    median_ns INTEGER NOT NULL,        -- of the samples, for people
    spread REAL NOT NULL,              -- median absolute deviation / median, for people
    scratch_bytes INTEGER NOT NULL,
    measured_at INTEGER NOT NULL,      -- seconds since 1970
    program TEXT NOT NULL,
    low_ns INTEGER,                    -- what the median is known to be above and below, for people;
    high_ns INTEGER,                   --   far apart: the record is unsteady
    repeats INTEGER NOT NULL DEFAULT 0,  -- times measured again because these were far apart
    compute_type TEXT NOT NULL DEFAULT 'float32',  -- precision of a kernel's products
    PRIMARY KEY (device, signature)) WITHOUT ROWID;
)";

// Of a file of format 1. Its samples tell how far apart they are.
constexpr char kFromFormat1[] = R"(
  ALTER TABLE record ADD COLUMN low_ns INTEGER;
  ALTER TABLE record ADD COLUMN high_ns INTEGER;
  ALTER TABLE record ADD COLUMN repeats INTEGER NOT NULL DEFAULT 0;
  PRAGMA user_version = 2;
)";

// Of a file of format 2, whose signatures alone name the compute type.
constexpr char kComputeTypeOfSignature[] =
    "iif(instr(signature, ' precision=') = 0, 'float32',"
    " substr(signature, instr(signature, ' precision=') + 11))";
constexpr char kFromFormat2[] = R"(
  ALTER TABLE record ADD COLUMN compute_type TEXT NOT NULL DEFAULT 'float32';
  UPDATE record SET compute_type = )";

// Made when the first is added: files without it are of the same format.
constexpr char kAlgorithmSchema[] = R"(
  CREATE TABLE IF NOT EXISTS algorithm (
    device TEXT NOT NULL,
    work TEXT NOT NULL,
    choice TEXT NOT NULL,
    PRIMARY KEY (device, work)) WITHOUT ROWID;
)";

constexpr char kWhereDevice[] =
    " WHERE device = (SELECT id FROM device WHERE hardware = ?1 AND configuration = ?2)";

absl::Status CheckSamples(const ProfileRecord& record) {
  const auto& samples = record.samples_ns;
  if (samples.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the record of '", record.signature, "' has no samples"));
  }
  const auto bad = std::find_if(samples.begin(), samples.end(),
                                [](int64_t ns) { return ns < 1 || ns > kLongestNanos; });
  if (bad == samples.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the record of '", record.signature, "' has a sample of ", *bad, " ns; wanted 1 to 2^50"));
}

absl::Status CheckRow(const ProfileRecord& record) {
  RETURN_IF_ERROR(CheckSamples(record));
  const bool sound = static_cast<int>(record.kind) <= static_cast<int>(RecordKind::kStep) &&
                     record.work.multiply_adds >= 0 && record.work.other >= 0 &&
                     record.bytes >= 0 && record.run >= 0 && record.scratch_bytes >= 0 &&
                     record.repeats >= 0;
  if (sound) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the record of '", record.signature, "' has a negative size or no known kind"));
}

// Rolls back unless committed.
class Transaction {
 public:
  static absl::StatusOr<Transaction> Begin(SqliteFile& file) {
    RETURN_IF_ERROR(file.Execute("BEGIN IMMEDIATE"));
    return Transaction(file);
  }
  Transaction(Transaction&& other) : file_(std::exchange(other.file_, nullptr)) {}
  ~Transaction() {
    if (file_ != nullptr) file_->Execute("ROLLBACK").IgnoreError();
  }
  absl::Status Commit() {
    RETURN_IF_ERROR(file_->Execute("COMMIT"));
    file_ = nullptr;
    return absl::OkStatus();
  }

 private:
  explicit Transaction(SqliteFile& file) : file_(&file) {}
  SqliteFile* file_;
};

absl::StatusOr<int64_t> DeviceRow(SqliteFile& file, const DeviceFingerprint& device) {
  ASSIGN_OR_RETURN(SqliteStatement insert,
                   file.Prepare("INSERT OR IGNORE INTO device (hardware, configuration) "
                                "VALUES (?, ?)"));
  insert.Bind(1, device.hardware);
  insert.Bind(2, device.configuration);
  RETURN_IF_ERROR(insert.Run());
  ASSIGN_OR_RETURN(SqliteStatement find,
                   file.Prepare("SELECT id FROM device WHERE hardware = ? AND configuration = ?"));
  find.Bind(1, device.hardware);
  find.Bind(2, device.configuration);
  ASSIGN_OR_RETURN(const bool found, find.Step());
  if (!found) return absl::InternalError(absl::StrCat("'", file.path(), "': lost a device's row"));
  return find.Integer(0);
}

absl::Status InsertRow(SqliteStatement& insert, int64_t device, const ProfileRecord& record) {
  const Timing timing = TimingOf(record.samples_ns);
  insert.Bind(1, device);
  insert.Bind(2, record.signature);
  insert.Bind(3, static_cast<int64_t>(record.kind));
  insert.Bind(4, record.family);
  insert.Bind(5, record.variant);
  insert.Bind(6, record.work.multiply_adds);
  insert.Bind(7, record.work.other);
  insert.Bind(8, record.bytes);
  insert.Bind(9, record.run);
  insert.Bind(10, record.samples_ns);
  insert.Bind(11, timing.median_ns);
  insert.Bind(12, timing.spread);
  insert.Bind(13, record.scratch_bytes);
  insert.Bind(14, record.measured_at);
  insert.Bind(15, record.program);
  insert.Bind(16, timing.low_ns);
  insert.Bind(17, timing.high_ns);
  insert.Bind(18, record.repeats);
  insert.Bind(19, std::string(RowOf(record.compute_type).name));
  return insert.Run();
}

absl::Status InsertRows(const SqliteFile& file, int64_t device,
                        std::span<const ProfileRecord> records) {
  ASSIGN_OR_RETURN(SqliteStatement insert,
                   file.Prepare("INSERT OR REPLACE INTO record (device, signature, kind, family, "
                                "variant, multiply_adds, other_operations, bytes, run, "
                                "samples_ns, median_ns, spread, scratch_bytes, measured_at, "
                                "program, low_ns, high_ns, repeats, compute_type) VALUES (?, ?, "
                                "?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"));
  for (const ProfileRecord& record : records) RETURN_IF_ERROR(InsertRow(insert, device, record));
  return absl::OkStatus();
}

// Puts the samples that are there, if any, before those of the record, and adds their repeats.
absl::Status AddToOlder(const SqliteFile& file, int64_t device, ProfileRecord& record) {
  ASSIGN_OR_RETURN(
      SqliteStatement find,
      file.Prepare("SELECT samples_ns, repeats FROM record WHERE device = ? AND signature = ?"));
  find.Bind(1, device);
  find.Bind(2, record.signature);
  ASSIGN_OR_RETURN(const bool found, find.Step());
  if (!found) return absl::OkStatus();
  ASSIGN_OR_RETURN(std::vector<int64_t> samples, find.Numbers(0));
  samples.insert(samples.end(), record.samples_ns.begin(), record.samples_ns.end());
  record.samples_ns = std::move(samples);
  record.repeats += find.Integer(1);
  return absl::OkStatus();
}

absl::StatusOr<ProfileRecord> ReadRow(const SqliteStatement& row) {
  ProfileRecord record{.kind = static_cast<RecordKind>(std::clamp<int64_t>(row.Integer(1), 0, 255)),
                       .signature = row.Text(0),
                       .family = row.Text(2),
                       .variant = row.Text(3),
                       .work = {row.Integer(4), row.Integer(5)},
                       .bytes = row.Integer(6),
                       .run = row.Integer(7)};
  ASSIGN_OR_RETURN(record.samples_ns, row.Numbers(8));
  record.scratch_bytes = row.Integer(9);
  record.measured_at = row.Integer(10);
  record.program = row.Text(11);
  record.repeats = row.Integer(12);
  const std::optional<Precision> compute_type = PrecisionNamed(row.Text(13));
  if (!compute_type.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat("the record of '", record.signature,
                                                   "' has the compute type '", row.Text(13),
                                                   "', which is not known"));
  }
  record.compute_type = *compute_type;
  RETURN_IF_ERROR(CheckRow(record));
  return record;
}

absl::StatusOr<SqliteStatement> PrepareFor(const SqliteFile& file, const std::string& sql,
                                           const DeviceFingerprint& device) {
  ASSIGN_OR_RETURN(SqliteStatement statement, file.Prepare(sql));
  statement.Bind(1, device.hardware);
  statement.Bind(2, device.configuration);
  return statement;
}

}  // namespace

absl::StatusOr<ProfileDb> ProfileDb::Open(const std::string& path, Mode mode) {
  constexpr SqliteFile::Mode kModes[] = {SqliteFile::Mode::kRead, SqliteFile::Mode::kWrite,
                                         SqliteFile::Mode::kCreate};
  ASSIGN_OR_RETURN(SqliteFile file, SqliteFile::Open(path, kModes[static_cast<int>(mode)]));
  ProfileDb db(std::move(file));
  if (mode == Mode::kCreate) {
    // One process makes the tables; one that comes at the same time waits, then finds them.
    ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(db.file_));
    ASSIGN_OR_RETURN(const int64_t tables, db.file_.Integer("SELECT count(*) FROM sqlite_master"));
    if (tables == 0) {
      RETURN_IF_ERROR(db.file_.Execute(kSchema));
      RETURN_IF_ERROR(db.file_.Execute(absl::StrCat("PRAGMA application_id = ", kApplicationId,
                                                    "; PRAGMA user_version = ", kFormatVersion)));
    }
    RETURN_IF_ERROR(transaction.Commit());
  }
  RETURN_IF_ERROR(db.CheckFormat());
  if (mode != Mode::kRead) RETURN_IF_ERROR(db.Modernise());
  return db;
}

absl::Status ProfileDb::Modernise() {
  if (version_ == kFormatVersion) return absl::OkStatus();
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(file_));
  // Another process may have done it meanwhile.
  ASSIGN_OR_RETURN(version_, file_.Integer("PRAGMA user_version"));
  if (version_ < kVersionOfRepeats) RETURN_IF_ERROR(file_.Execute(kFromFormat1));
  if (version_ < kFormatVersion) {
    RETURN_IF_ERROR(file_.Execute(absl::StrCat(kFromFormat2, kComputeTypeOfSignature,
                                               "; PRAGMA user_version = ", kFormatVersion)));
  }
  version_ = kFormatVersion;
  return transaction.Commit();
}

absl::Status ProfileDb::CheckFormat() {
  ASSIGN_OR_RETURN(const int64_t id, file_.Integer("PRAGMA application_id"));
  ASSIGN_OR_RETURN(version_, file_.Integer("PRAGMA user_version"));
  if (id != kApplicationId) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", path(), "': is a database, but not a profile database: name another file"));
  }
  if (version_ < kOldestVersion || version_ > kFormatVersion) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", path(), "': is of format ", version_, "; this program reads formats ",
                     kOldestVersion, " to ", kFormatVersion, ": profile into another file"));
  }
  ASSIGN_OR_RETURN(SqliteStatement check, file_.Prepare("PRAGMA quick_check(1)"));
  ASSIGN_OR_RETURN(const bool row, check.Step());
  if (row && check.Text(0) == "ok") return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("'", path(),
                                                 "': is damaged: ", row ? check.Text(0) : "",
                                                 "; move it away and profile again"));
}

absl::Status ProfileDb::Insert(const DeviceFingerprint& device,
                               std::span<const ProfileRecord> records) {
  for (const ProfileRecord& record : records) RETURN_IF_ERROR(CheckRow(record));
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(file_));
  ASSIGN_OR_RETURN(const int64_t row, DeviceRow(file_, device));
  RETURN_IF_ERROR(InsertRows(file_, row, records));
  return transaction.Commit();
}

absl::Status ProfileDb::AddSamples(const DeviceFingerprint& device,
                                   std::span<const ProfileRecord> records, size_t most) {
  for (const ProfileRecord& record : records) RETURN_IF_ERROR(CheckRow(record));
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(file_));
  ASSIGN_OR_RETURN(const int64_t row, DeviceRow(file_, device));
  for (ProfileRecord record : records) {
    RETURN_IF_ERROR(AddToOlder(file_, row, record));
    std::vector<int64_t>& samples = record.samples_ns;
    const size_t left_out = samples.size() - std::min(samples.size(), most);
    samples.erase(samples.begin(), samples.begin() + static_cast<std::ptrdiff_t>(left_out));
    RETURN_IF_ERROR(CheckRow(record));
    RETURN_IF_ERROR(InsertRows(file_, row, std::span(&record, 1)));
  }
  return transaction.Commit();
}

absl::Status ProfileDb::AddAlgorithms(std::span<const Algorithm> algorithms) {
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(file_));
  RETURN_IF_ERROR(file_.Execute(kAlgorithmSchema));
  ASSIGN_OR_RETURN(SqliteStatement insert,
                   file_.Prepare("INSERT OR REPLACE INTO algorithm (device, work, choice) "
                                 "VALUES (?, ?, ?)"));
  for (const Algorithm& algorithm : algorithms) {
    insert.Bind(1, algorithm.device);
    insert.Bind(2, algorithm.work);
    insert.Bind(3, algorithm.choice);
    RETURN_IF_ERROR(insert.Run());
  }
  return transaction.Commit();
}

absl::StatusOr<std::vector<ProfileDb::Algorithm>> ProfileDb::Algorithms() const {
  std::vector<Algorithm> algorithms;
  ASSIGN_OR_RETURN(const int64_t tables, file_.Integer("SELECT count(*) FROM sqlite_master "
                                                       "WHERE type = 'table' AND "
                                                       "name = 'algorithm'"));
  if (tables == 0) return algorithms;
  ASSIGN_OR_RETURN(
      SqliteStatement rows,
      file_.Prepare("SELECT device, work, choice FROM algorithm ORDER BY device, work"));
  while (true) {
    ASSIGN_OR_RETURN(const bool more, rows.Step());
    if (!more) return algorithms;
    algorithms.push_back({rows.Text(0), rows.Text(1), rows.Text(2)});
  }
}

absl::StatusOr<std::vector<DeviceFingerprint>> ProfileDb::Devices() const {
  ASSIGN_OR_RETURN(SqliteStatement rows,
                   file_.Prepare("SELECT hardware, configuration FROM device JOIN record ON "
                                 "record.device = device.id GROUP BY device.id "
                                 "ORDER BY count(*) DESC, device.id"));
  std::vector<DeviceFingerprint> devices;
  while (true) {
    ASSIGN_OR_RETURN(const bool more, rows.Step());
    if (!more) return devices;
    devices.push_back({rows.Text(0), rows.Text(1)});
  }
}

absl::StatusOr<std::vector<ProfileRecord>> ProfileDb::Records(
    const DeviceFingerprint& device) const {
  ASSIGN_OR_RETURN(
      SqliteStatement rows,
      PrepareFor(file_,
                 absl::StrCat("SELECT signature, kind, family, variant, multiply_adds, "
                              "other_operations, bytes, run, samples_ns, scratch_bytes, "
                              "measured_at, program, ",
                              version_ >= kVersionOfRepeats ? "repeats, " : "0, ",
                              version_ == kFormatVersion ? "compute_type" : kComputeTypeOfSignature,
                              " FROM record", kWhereDevice, " ORDER BY signature"),
                 device));
  std::vector<ProfileRecord> records;
  while (true) {
    ASSIGN_OR_RETURN(const bool more, rows.Step());
    if (!more) return records;
    absl::StatusOr<ProfileRecord> record = ReadRow(rows);
    if (!record.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", path(), "': ", record.status().message()));
    }
    records.push_back(*std::move(record));
  }
}

absl::StatusOr<absl::flat_hash_set<std::string>> ProfileDb::Signatures(
    const DeviceFingerprint& device) const {
  ASSIGN_OR_RETURN(
      SqliteStatement rows,
      PrepareFor(file_, absl::StrCat("SELECT signature FROM record", kWhereDevice), device));
  absl::flat_hash_set<std::string> signatures;
  while (true) {
    ASSIGN_OR_RETURN(const bool more, rows.Step());
    if (!more) return signatures;
    signatures.insert(rows.Text(0));
  }
}

absl::StatusOr<int64_t> ProfileDb::Forget(absl::string_view text) {
  if (text.empty()) return absl::InvalidArgumentError("an empty text is in every signature");
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(file_));
  ASSIGN_OR_RETURN(SqliteStatement removal,
                   file_.Prepare("DELETE FROM record WHERE instr(signature, ?) > 0"));
  removal.Bind(1, text);
  RETURN_IF_ERROR(removal.Run());
  ASSIGN_OR_RETURN(const int64_t removed, file_.Integer("SELECT changes()"));
  RETURN_IF_ERROR(transaction.Commit());
  return removed;
}

absl::Status ProfileDb::CheckHardware(std::span<const DeviceFingerprint> devices) const {
  ASSIGN_OR_RETURN(const std::vector<DeviceFingerprint> known, Devices());
  if (known.empty() || devices.empty()) return absl::OkStatus();
  for (const DeviceFingerprint& holds : known) {
    for (const DeviceFingerprint& device : devices) {
      if (holds.hardware == device.hardware) return absl::OkStatus();
    }
  }
  return ForeignProfileError(absl::StrCat(
      "'", path(), "' holds records of ", ToString(known[0]), ", this device is ",
      ToString(devices[0]),
      ". Name another file (--profile), or use these records all the same (--foreign_profile)"));
}

absl::StatusOr<Profile> ProfileDb::LoadExactly(const DeviceFingerprint& device) const {
  ASSIGN_OR_RETURN(const std::vector<ProfileRecord> records, Records(device));
  return Profile(device, records);
}

absl::StatusOr<Profile> ProfileDb::Load(const DeviceFingerprint& device, bool allow_foreign) const {
  const absl::Status own = CheckHardware(std::span(&device, 1));
  if (own.ok()) return LoadExactly(device);
  if (!allow_foreign || !absl::IsFailedPrecondition(own)) return own;
  ASSIGN_OR_RETURN(const std::vector<DeviceFingerprint> devices, Devices());
  const auto same = std::find_if(devices.begin(), devices.end(), [&](const auto& known) {
    return known.configuration == device.configuration;
  });
  return LoadExactly(same == devices.end() ? devices[0] : *same);
}

}  // namespace partita
