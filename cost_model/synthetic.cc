#include "cost_model/synthetic.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "cost_model/roofline_cost.h"
#include "graph/support/fingerprint.h"

namespace partita {
namespace {

constexpr int kSamples = 5;

// Uniform in [low, high), by the text.
double Factor(absl::string_view text, double low, double high) {
  return low + (high - low) * static_cast<double>(FingerprintOf(text) >> 11) * 0x1p-53;
}

std::vector<int64_t> Samples(const ProfileRecord& record, double seconds) {
  const double nanos =
      1e9 * seconds * Factor(record.family, 0.9, 1.3) * Factor(record.signature, 0.98, 1.02);
  std::vector<int64_t> samples;
  for (int k = 0; k < kSamples; ++k) {
    // -1 %, -0.5 %, 0, +0.5 %, +1 %: the median is the factor's.
    samples.push_back(std::max<int64_t>(1, std::llround(nanos * (0.99 + 0.005 * k))));
  }
  return samples;
}

TaskCost CostOf(const std::vector<int64_t>& samples) {
  const Timing timing = TimingOf(samples);
  return {Nanos(timing.median_ns), CostSource::kMeasured, timing.spread};
}

}  // namespace

std::vector<int64_t> SyntheticSamples(const KernelSignature& signature, const DeviceClass& device) {
  const ProfileRecord record = RecordOf(signature);
  return Samples(record, RooflineSeconds(device, record.compute_type, record.work, record.bytes));
}

std::vector<int64_t> SyntheticSamples(const MoveSignature& signature, const DeviceClass& device) {
  const ProfileRecord record = RecordOf(signature);
  return Samples(record, MoveSeconds(device, signature.kind, record.bytes,
                                     signature.run * SizeOf(signature.dtype)));
}

SyntheticCost::SyntheticCost(std::shared_ptr<const Machine> machine)
    : machine_(std::move(machine)) {}

std::optional<TaskCost> SyntheticCost::KernelCost(const KernelSignature& signature,
                                                  DeviceId device) const {
  return CostOf(SyntheticSamples(signature, machine_->ClassOf(device)));
}
std::optional<TaskCost> SyntheticCost::MoveCost(const MoveSignature& signature,
                                                DeviceId device) const {
  return CostOf(SyntheticSamples(signature, machine_->ClassOf(device)));
}
std::optional<TaskCost> SyntheticCost::CollectiveCost(const CollectiveCall&) const {
  return std::nullopt;
}
std::optional<TaskCost> SyntheticCost::TransferCost(std::span<const TransferCall>) const {
  return std::nullopt;
}

}  // namespace partita
