#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cost_model/profile.h"
#include "cost_model/sqlite.h"

namespace partita {

// Measured records in a file (SQLite), keyed by (signature, device). Several processes may read and
// write it; one object is for one thread. Files of the formats before are read as they are, and
// made files of this one when they are opened for writing.
//
// Errors: a file that is no such database, is damaged or of another version of the format ->
// InvalidArgument; absent -> NotFound; not writable -> PermissionDenied; locked -> Unavailable.
class ProfileDb {
 public:
  enum class Mode { kRead, kWrite, kCreate };  // kCreate: write, and make the file if it is absent
  static absl::StatusOr<ProfileDb> Open(const std::string& path, Mode mode);

  const std::string& path() const { return file_.path(); }

  // Adds records or replaces those with the same signature, all or (where one is not valid or the
  // file cannot be written) none. InvalidArgument: a record without samples or with one below 1 ns.
  absl::Status Insert(const DeviceFingerprint& device, std::span<const ProfileRecord> records);
  // The same, but a record that is there already keeps its samples: the new ones come after them,
  // and of all of them the `most` latest are kept; repeats add up. Precondition: most > 0.
  absl::Status AddSamples(const DeviceFingerprint& device, std::span<const ProfileRecord> records,
                          size_t most);

  // Algorithms that backends found the fastest, as their own text, in addition to the records; one
  // for each (device, work): a later one replaces what is there.
  struct Algorithm {
    std::string device, work, choice;

    friend bool operator==(const Algorithm&, const Algorithm&) = default;
  };
  absl::Status AddAlgorithms(std::span<const Algorithm> algorithms);
  absl::StatusOr<std::vector<Algorithm>> Algorithms() const;

  // Devices of which it has records: those with most records first.
  absl::StatusOr<std::vector<DeviceFingerprint>> Devices() const;
  absl::StatusOr<std::vector<ProfileRecord>> Records(const DeviceFingerprint& device) const;
  // Signatures of one device: what a measurement that was interrupted need not measure again.
  absl::StatusOr<absl::flat_hash_set<std::string>> Signatures(
      const DeviceFingerprint& device) const;

  // Removes the records of all devices whose signature has the text in it, and says how many.
  // InvalidArgument for an empty text.
  absl::StatusOr<int64_t> Forget(absl::string_view text);

  // FailedPrecondition naming what it holds and the first of `devices`, if the file holds records
  // and none of them is of hardware of these.
  absl::Status CheckHardware(std::span<const DeviceFingerprint> devices) const;

  // The records of `device` in memory; none where only its hardware is known in other
  // configurations. A file of foreign hardware is refused as by CheckHardware, unless
  // `allow_foreign`: then it is the records of the foreign device in the same configuration, or
  // else of the one with most records.
  absl::StatusOr<Profile> Load(const DeviceFingerprint& device, bool allow_foreign = false) const;

 private:
  explicit ProfileDb(SqliteFile file) : file_(std::move(file)) {}
  absl::Status CheckFormat();
  absl::Status Modernise();
  absl::StatusOr<Profile> LoadExactly(const DeviceFingerprint& device) const;

  SqliteFile file_;
  int64_t version_ = 0;  // version of the format
};

}  // namespace partita
