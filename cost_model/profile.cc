#include "cost_model/profile.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/collective/algorithms.h"
#include "graph/collective/collective.h"
#include "graph/support/check.h"
#include "graph/support/fingerprint.h"
#include "graph/support/median.h"

namespace partita {
namespace {

// The pattern of element types and formats, without shapes.
std::string Pattern(const std::vector<KernelTensor>& tensors) {
  std::string text;
  for (const KernelTensor& t : tensors) {
    absl::StrAppend(&text, text.empty() ? "" : ",", t.present ? Name(t.type.dtype) : "-",
                    t.format == Format::kNative ? "n" : "");
  }
  return text;
}

std::string SizesText(const Collective& c) {
  if (c.kind == CollectiveKind::kAllReduce) return absl::StrCat("total=", c.total);
  if (c.kind == CollectiveKind::kAllToAll) {
    std::vector<std::string> rows;
    for (const auto& row : c.counts) rows.push_back(absl::StrJoin(row, ","));
    return absl::StrCat("counts=[", absl::StrJoin(rows, ";"), "]");
  }
  return absl::StrCat("blocks=[",
                      absl::StrJoin(c.blocks, ",",
                                    [](std::string* out, const ElementRange& block) {
                                      absl::StrAppend(out, block.count);
                                    }),
                      "]");
}

// Bytes by (from, to), devices renamed in the order of the pairs.
std::map<std::pair<int, int>, int64_t> MessagesOf(std::span<const TransferCall> group) {
  std::map<std::pair<DeviceId, DeviceId>, int64_t> pairs;
  for (const TransferCall& call : group) pairs[{call.from, call.to}] += call.bytes;
  std::map<DeviceId, int> names;
  const auto name = [&names](DeviceId id) {
    return names.try_emplace(id, static_cast<int>(names.size())).first->second;
  };
  std::map<std::pair<int, int>, int64_t> messages;
  for (const auto& [pair, bytes] : pairs) {
    const int from = name(pair.first), to = name(pair.second);
    messages[{from, to}] = bytes;
  }
  return messages;
}

std::string FamilyOf(const CollectiveCall& call) {
  return absl::StrCat(Name(call.collective->kind), ".", call.algorithm,
                      " ranks=", call.collective->ranks, " ", Name(call.dtype));
}

}  // namespace

std::string ToString(const DeviceFingerprint& fingerprint) {
  return absl::StrCat("[", fingerprint.hardware, " | ", fingerprint.configuration, "]");
}

DeviceFingerprint FingerprintOf(const Machine& machine, DeviceId device,
                                absl::string_view backend) {
  const Device& d = machine.topology.device(device);
  int at_once = 0, of_node = 0;
  size_t cores = 0;
  for (DeviceId id : machine.topology.AtOnce(device)) {
    const Device& other = machine.topology.device(id);
    if (other.kind != d.kind) continue;
    ++at_once;
    cores += other.cores.size();
  }
  for (const Device& other : machine.topology.devices()) {
    of_node += other.node == d.node && other.kind == d.kind ? 1 : 0;
  }
  std::string devices = absl::StrCat(at_once);
  if (of_node > at_once) absl::StrAppend(&devices, " of ", of_node);
  return {machine.ClassOf(device).hardware,
          absl::StrCat("backend=", backend, " threads=", d.threads, " devices=", devices,
                       " cores=", cores)};
}

DeviceFingerprint UncontendedFingerprint(DeviceFingerprint fingerprint) {
  absl::StrAppend(&fingerprint.configuration, " alone");
  return fingerprint;
}

ProfileRecord RecordOf(const KernelSignature& signature) {
  ProfileRecord record{.kind = RecordKind::kKernel, .signature = ToString(signature)};
  record.compute_type = signature.compute_type;
  record.family = absl::StrCat(NameOf(signature.attrs), ".d", int{signature.pass.gradient}, " ",
                               Pattern(signature.inputs), "->", Pattern(signature.outputs));
  record.variant = absl::StrCat(ToString(signature.attrs), FusionText(signature));
  record.work = WorkOf(signature);
  if (!signature.deterministic) absl::StrAppend(&record.family, kNondeterministic);
  if (record.compute_type != Precision::kFloat32) {
    absl::StrAppend(&record.family, " precision=", RowOf(record.compute_type).name);
  }
  record.bytes = MinimumBytes(signature);
  return record;
}

ProfileRecord RecordOf(const MoveSignature& signature) {
  ProfileRecord record{.kind = RecordKind::kMove, .signature = ToString(signature)};
  const MoveSignature nothing{
      .kind = signature.kind, .dtype = signature.dtype, .from = signature.from};
  record.family = ToString(nothing);
  record.bytes = BytesOf(signature);
  record.run = signature.run;
  return record;
}

ProfileRecord RecordOf(const CollectiveCall& call) {
  ProfileRecord record{.kind = RecordKind::kCollective, .signature = KeyOf(call)};
  record.variant = absl::StrCat(call.algorithm, " ", call.collective->ranks);
  record.family = FamilyOf(call);
  const auto totals = TotalsOf(call.algorithm, *call.collective);
  CHECK(totals.ok()) << totals.status().message();
  record.work.other = totals->rounds;
  record.bytes =
      *std::max_element(totals->received.begin(), totals->received.end()) * SizeOf(call.dtype);
  return record;
}

ProfileRecord RecordOf(std::span<const TransferCall> group) {
  ProfileRecord record{
      .kind = RecordKind::kExchange, .signature = "transfers", .family = "transfers"};
  std::map<DeviceId, int64_t> received;
  for (const auto& [pair, bytes] : MessagesOf(group)) {
    absl::StrAppend(&record.family, " ", pair.first, ">", pair.second);
    absl::StrAppend(&record.signature, " ", pair.first, ">", pair.second, ":", bytes);
    int64_t& sum = received[DeviceId(pair.second)];
    sum += bytes;
    record.bytes = std::max(record.bytes, sum);
  }
  return record;
}

ProfileRecord RecordOfStep(int64_t tasks) {
  return {.kind = RecordKind::kStep,
          .signature = absl::StrCat("step tasks=", tasks),
          .family = "step",
          .work = {0, tasks}};
}

std::string KeyOf(std::span<const TransferCall> group) { return RecordOf(group).signature; }

std::string KeyOf(const CollectiveCall& call) {
  return absl::StrCat(FamilyOf(call), " ", SizesText(*call.collective));
}

Timing TimingOf(std::span<const int64_t> samples_ns, int64_t scratch_bytes) {
  CHECK(!samples_ns.empty());
  const int64_t median = Median(std::vector<int64_t>(samples_ns.begin(), samples_ns.end()));
  std::vector<int64_t> deviations;
  for (int64_t sample : samples_ns) deviations.push_back(std::abs(sample - median));
  std::vector<int64_t> sorted(samples_ns.begin(), samples_ns.end());
  std::sort(sorted.begin(), sorted.end());
  // Ranks of the binomial distribution's 2.5 %, as its normal approximation has them.
  const auto count = static_cast<double>(sorted.size());
  const auto low = static_cast<size_t>(std::max(0.0, (count - 1.96 * std::sqrt(count)) / 2));
  return {
      .median_ns = median,
      .spread = static_cast<double>(Median(std::move(deviations))) / static_cast<double>(median),
      .scratch_bytes = scratch_bytes,
      .low_ns = sorted[low],
      .high_ns = sorted[sorted.size() - 1 - low],
      .samples = static_cast<int64_t>(sorted.size())};
}

Steadiness SteadinessOf(const Timing& timing) {
  constexpr int64_t kLeastSamples = 3, kClock = 1000;
  if (timing.samples < kLeastSamples) return Steadiness::kUnknown;
  const bool close = timing.high_ns - timing.low_ns <= std::max(kClock, timing.median_ns / 4);
  return close ? Steadiness::kSteady : Steadiness::kUnsteady;
}

Profile::Profile(DeviceFingerprint device, std::span<const ProfileRecord> records)
    : device_(std::move(device)) {
  std::vector<const ProfileRecord*> sorted;
  for (const ProfileRecord& record : records) sorted.push_back(&record);
  std::sort(sorted.begin(), sorted.end(), [](const ProfileRecord* a, const ProfileRecord* b) {
    return std::tie(a->bytes, a->run, a->signature) < std::tie(b->bytes, b->run, b->signature);
  });
  for (const ProfileRecord* record : sorted) {
    const Timing timing = TimingOf(record->samples_ns, record->scratch_bytes);
    if (!timings_.emplace(record->signature, timing).second) continue;
    families_[record->family].push_back(
        {record->variant, record->work, record->bytes, record->run, timing});
  }
}

const Timing* Profile::Find(absl::string_view signature) const {
  const auto found = timings_.find(signature);
  return found == timings_.end() ? nullptr : &found->second;
}

std::span<const ProfilePoint> Profile::Family(absl::string_view family) const {
  const auto found = families_.find(family);
  if (found == families_.end()) return {};
  return found->second;
}

}  // namespace partita
