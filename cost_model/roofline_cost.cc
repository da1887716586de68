#include "cost_model/roofline_cost.h"

#include <algorithm>
#include <utility>

#include "cost_model/casts.h"

namespace partita {
namespace {

// Uncertainty of an estimate that rests on no measurement (facts: re-tests of such models).
constexpr double kSpread = 0.3;
constexpr double kBytesPerRun = 32;

double EfficiencyOf(const KernelSignature& signature) {
  const PeakShare share = PeakShareOf(signature.attrs);
  return signature.pass.is_forward() ? share.forward : share.gradient;
}

const Line& LineOf(const DeviceClass& device, MoveSignature::Kind kind) {
  switch (kind) {
    case MoveSignature::Kind::kFill:
      return device.fill;
    case MoveSignature::Kind::kCopy:
    case MoveSignature::Kind::kReorder:
      return device.copy;
    case MoveSignature::Kind::kAdd:
    case MoveSignature::Kind::kMax:
      return device.add;
  }
  return device.copy;
}

}  // namespace

double RooflineSeconds(const DeviceClass& device, Precision precision, Work work, int64_t bytes,
                       double efficiency) {
  const double arithmetic =
      2.0 * static_cast<double>(work.multiply_adds) / (device.MatrixFlops(precision) * efficiency) +
      static_cast<double>(work.other) / device.other_flops;
  const double traffic =
      static_cast<double>(bytes) / (device.memory_bytes_per_second * kMemoryEfficiency);
  return std::max(arithmetic, traffic) + device.kernel_overhead_ns * 1e-9;
}

double MoveSeconds(const DeviceClass& device, MoveSignature::Kind kind, int64_t bytes,
                   int64_t run_bytes) {
  double effective = static_cast<double>(bytes);
  if (run_bytes > 0) effective += kBytesPerRun * effective / static_cast<double>(run_bytes);
  if (kind == MoveSignature::Kind::kReorder) effective *= 2;
  return LineOf(device, kind).Seconds(effective);
}

RooflineCost::RooflineCost(std::shared_ptr<const Machine> machine) : machine_(std::move(machine)) {}

std::optional<TaskCost> RooflineCost::KernelCost(const KernelSignature& signature,
                                                 DeviceId device) const {
  const DeviceClass& device_class = machine_->ClassOf(device);
  const Casts casts = CastsOf(signature);
  const double seconds =
      RooflineSeconds(device_class, signature.compute_type, WorkOf(signature),
                      MinimumBytes(signature) + casts.bytes, EfficiencyOf(signature)) +
      static_cast<double>(casts.kernels) * device_class.kernel_overhead_ns * 1e-9;
  return CostOfSeconds(seconds, CostSource::kRoofline, kSpread);
}

std::optional<TaskCost> RooflineCost::MoveCost(const MoveSignature& signature,
                                               DeviceId device) const {
  const int64_t size = SizeOf(signature.dtype);
  return CostOfSeconds(MoveSeconds(machine_->ClassOf(device), signature.kind, BytesOf(signature),
                                   signature.run * size),
                       CostSource::kRoofline, kSpread);
}

std::optional<TaskCost> RooflineCost::CollectiveCost(const CollectiveCall&) const {
  return std::nullopt;
}

std::optional<TaskCost> RooflineCost::TransferCost(std::span<const TransferCall>) const {
  return std::nullopt;
}

}  // namespace partita
