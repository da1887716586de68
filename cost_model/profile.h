#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "cost_model/cost_model.h"
#include "cost_model/machine.h"
#include "graph/precision.h"
#include "graph/task/kernel_signature.h"

namespace partita {

// Device and configuration on which a record was measured. Records of other hardware say nothing
// about this device; records of another configuration neither, but one file may hold several.
struct DeviceFingerprint {
  std::string hardware;       // DeviceClass::hardware
  std::string configuration;  // "backend=cpu-2.6.3 threads=1 devices=2 cores=2"

  friend bool operator==(const DeviceFingerprint&, const DeviceFingerprint&) = default;
  template <class H>
  friend H AbslHashValue(H h, const DeviceFingerprint& a) {
    return H::combine(std::move(h), a.hardware, a.configuration);
  }
};
std::string ToString(const DeviceFingerprint& fingerprint);

// Fingerprint of a device of the machine, measured through `backend` (name and version) while all
// devices of its computer that can work at once are busy (DeviceTopology::AtOnce).
DeviceFingerprint FingerprintOf(const Machine& machine, DeviceId device, absl::string_view backend);

// The same device while the others of its node are idle (see TaskCost::uncontended): its records
// are kept apart.
DeviceFingerprint UncontendedFingerprint(DeviceFingerprint fingerprint);

enum class RecordKind : uint8_t {
  kKernel,
  kMove,
  kCollective,
  kExchange,  // messages between devices of its node that start together
  kStep,      // a step of empty tasks
};

// One measured task: which, what of it decides its time, and the samples.
struct ProfileRecord {
  RecordKind kind = RecordKind::kKernel;
  std::string signature;  // canonical text: the key
  // Tasks of one family differ in extents and attributes only: between them is interpolated.
  // `variant` is the text of the other differences.
  std::string family;
  std::string variant;
  Precision compute_type = Precision::kFloat32;  // a kernel's
  Work work;  // a collective's other: its rounds; a step's: its tasks
  // Least bytes moved by a kernel; payload of a move; bytes received by the busiest rank of a
  // collective or device of an exchange.
  int64_t bytes = 0;
  int64_t run = 0;                  // a move's: elements in one contiguous run
  std::vector<int64_t> samples_ns;  // samples in the order measured; at least one, each above 0
  int64_t scratch_bytes = 0;        // memory that the kernel asked for besides its operands
  int64_t measured_at = 0;          // seconds since 1970
  std::string program;              // version of the program and the backend
  int64_t repeats = 0;  // times that it was measured again because its samples were far apart

  friend bool operator==(const ProfileRecord& a, const ProfileRecord& b) {
    return a.kind == b.kind && a.signature == b.signature && a.samples_ns == b.samples_ns &&
           a.scratch_bytes == b.scratch_bytes && a.measured_at == b.measured_at &&
           a.program == b.program && a.repeats == b.repeats;
  }
};

// End of the family of kernels that are not deterministic, before their precision: what they cost is
// no price of those that are.
inline constexpr absl::string_view kNondeterministic = " nondeterministic";
inline bool IsDeterministic(const ProfileRecord& record) {
  return !absl::StrContains(record.family, kNondeterministic);
}

// Records of tasks, without samples: the measurer adds samples_ns and what follows it.
ProfileRecord RecordOf(const KernelSignature& signature);
ProfileRecord RecordOf(const MoveSignature& signature);
ProfileRecord RecordOf(const CollectiveCall& call);
// Devices are renamed by order of first appearance: their identity does not matter within a node.
ProfileRecord RecordOf(std::span<const TransferCall> group);
ProfileRecord RecordOfStep(int64_t tasks);

// The keys uncontended.
std::string KeyOf(const CollectiveCall& call);
std::string KeyOf(std::span<const TransferCall> group);

// Median (of an even number: the mean of the middle two, rounded down) and median absolute
// deviation / median. Precondition: not empty.
struct Timing {
  int64_t median_ns = 1;
  double spread = 0;
  int64_t scratch_bytes = 0;
  // Samples between which the median of all that might be taken lies: with about 95 %, of fewer
  // than six the smallest and the largest. By their ranks, so that neither outliers nor the form of
  // the distribution matter; of two equally frequent times they are one and the other.
  int64_t low_ns = 1, high_ns = 1;
  int64_t samples = 0;

  friend bool operator==(const Timing&, const Timing&) = default;
};
Timing TimingOf(std::span<const int64_t> samples_ns, int64_t scratch_bytes = 0);

// Whether a median can be believed. Unknown: fewer than three samples. Steady: low and high are at
// most a quarter of the median apart (it is known to an eighth up and down), or a microsecond,
// which is what looking at the clock and waking cost.
enum class Steadiness : uint8_t { kUnknown, kSteady, kUnsteady };
Steadiness SteadinessOf(const Timing& timing);

// A record as interpolation sees it.
struct ProfilePoint {
  std::string variant;
  Work work;
  int64_t bytes = 0;
  int64_t run = 0;
  Timing timing;
};

// The records of one device in memory, for fast look-up. Immutable.
class Profile {
 public:
  Profile() = default;
  Profile(DeviceFingerprint device, std::span<const ProfileRecord> records);

  const DeviceFingerprint& device() const { return device_; }
  size_t size() const { return timings_.size(); }

  // Timing of a canonical text; null if it was not measured.
  const Timing* Find(absl::string_view signature) const;
  const Timing* Find(const KernelSignature& signature) const { return Find(ToString(signature)); }
  // Points of a family in ascending order of (bytes, run, key).
  std::span<const ProfilePoint> Family(absl::string_view family) const;

 private:
  DeviceFingerprint device_;
  absl::flat_hash_map<std::string, Timing> timings_;
  absl::flat_hash_map<std::string, std::vector<ProfilePoint>> families_;
};

}  // namespace partita
