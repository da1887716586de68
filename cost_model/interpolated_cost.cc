#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "cost_model/measured_cost.h"
#include "cost_model/roofline_cost.h"
#include "graph/support/check.h"

namespace partita {
namespace {

constexpr double kFarthest = 12;
constexpr double kNearest = 1.0 / 16;

double Octaves(int64_t a, int64_t b) {
  return std::abs(std::log2((static_cast<double>(a) + 1) / (static_cast<double>(b) + 1)));
}

int64_t Operations(Work work) { return 2 * work.multiply_adds + work.other; }

// The nearest measured tasks, nearest first; ties go to those that came first.
class Neighbors {
 public:
  // `ratio`: measured / roofline.
  void Add(double distance, double ratio) {
    if (distance > kFarthest || !(distance < entries_.back().distance)) return;
    size_t k = entries_.size() - 1;
    for (; k > 0 && distance < entries_[k - 1].distance; --k) entries_[k] = entries_[k - 1];
    entries_[k] = {distance, std::log(ratio)};
  }

  std::optional<TaskCost> Cost(double roofline_seconds) const {
    double weights = 0, sum = 0, squares = 0;
    for (const Entry& e : entries_) {
      if (std::isinf(e.distance)) break;
      const double weight = 1 / ((e.distance + kNearest) * (e.distance + kNearest));
      weights += weight;
      sum += weight * e.log_ratio;
      squares += weight * e.log_ratio * e.log_ratio;
    }
    if (weights == 0) return std::nullopt;
    const double mean = sum / weights;
    const double deviation = std::sqrt(std::max(0.0, squares / weights - mean * mean));
    // What the neighbours disagree, and 5 % for each octave that the nearest is away.
    const double spread = std::min(1.0, deviation + 0.05 * entries_[0].distance);
    return CostOfSeconds(roofline_seconds * std::exp(mean), CostSource::kInterpolated, spread);
  }

 private:
  struct Entry {
    double distance = std::numeric_limits<double>::infinity();
    double log_ratio = 0;
  };
  std::array<Entry, 4> entries_;
};

double Ratio(const Timing& timing, double roofline_seconds) {
  return static_cast<double>(timing.median_ns) * 1e-9 / std::max(roofline_seconds, 1e-9);
}

}  // namespace

InterpolatedCost::InterpolatedCost(std::shared_ptr<const Machine> machine, DeviceProfiles profiles)
    : machine_(std::move(machine)), profiles_(std::move(profiles)) {
  CHECK_EQ(profiles_.size(), static_cast<size_t>(machine_->topology.size()));
}

std::optional<TaskCost> InterpolatedCost::KernelCost(const KernelSignature& signature,
                                                     DeviceId device) const {
  const Profile* profile = profiles_[device.index()].get();
  if (profile == nullptr) return std::nullopt;
  const DeviceClass& device_class = machine_->ClassOf(device);
  const ProfileRecord wanted = RecordOf(signature);
  const auto seconds = [&](Work work, int64_t bytes) {
    return RooflineSeconds(device_class, signature.compute_type, work, bytes);
  };
  Neighbors neighbors;
  for (const ProfilePoint& point : profile->Family(wanted.family)) {
    const double distance = Octaves(Operations(point.work), Operations(wanted.work)) +
                            Octaves(point.bytes, wanted.bytes) +
                            (point.variant == wanted.variant ? 0 : 1);
    neighbors.Add(distance, Ratio(point.timing, seconds(point.work, point.bytes)));
  }
  return neighbors.Cost(std::max(1e-9, seconds(wanted.work, wanted.bytes)));
}

std::optional<TaskCost> InterpolatedCost::MoveCost(const MoveSignature& signature,
                                                   DeviceId device) const {
  const Profile* profile = profiles_[device.index()].get();
  if (profile == nullptr) return std::nullopt;
  const DeviceClass& device_class = machine_->ClassOf(device);
  const ProfileRecord wanted = RecordOf(signature);
  const int64_t size = SizeOf(signature.dtype);
  const auto seconds = [&](int64_t bytes, int64_t run) {
    return std::max(1e-9, MoveSeconds(device_class, signature.kind, bytes, run * size));
  };
  Neighbors neighbors;
  for (const ProfilePoint& point : profile->Family(wanted.family)) {
    const double distance = Octaves(point.bytes, wanted.bytes) + Octaves(point.run, wanted.run);
    neighbors.Add(distance, Ratio(point.timing, seconds(point.bytes, point.run)));
  }
  return neighbors.Cost(seconds(wanted.bytes, wanted.run));
}

std::optional<TaskCost> InterpolatedCost::CollectiveCost(const CollectiveCall& call) const {
  const DeviceTopology& topology = machine_->topology;
  const Profile* profile = profiles_[call.group[0].index()].get();
  if (profile == nullptr || call.group.size() < 2) return std::nullopt;
  if (!AreAlike(topology, call.group)) return std::nullopt;
  const Line line{static_cast<double>(topology.RouteLatency(call.group[0], call.group[1]).value()),
                  static_cast<double>(topology.RouteBytesPerSecond(call.group[0], call.group[1]))};
  const auto seconds = [&](Work work, int64_t bytes) {
    return std::max(1e-9, 1e-9 * line.latency_ns * static_cast<double>(work.other) +
                              static_cast<double>(bytes) / line.bytes_per_second);
  };
  const ProfileRecord wanted = RecordOf(call);
  Neighbors neighbors;
  for (const ProfilePoint& point : profile->Family(wanted.family)) {
    neighbors.Add(Octaves(point.bytes, wanted.bytes),
                  Ratio(point.timing, seconds(point.work, point.bytes)));
  }
  return neighbors.Cost(seconds(wanted.work, wanted.bytes));
}

std::optional<TaskCost> InterpolatedCost::TransferCost(std::span<const TransferCall> group) const {
  const Profile* profile = ProfileOfGroup(*machine_, profiles_, group);
  if (profile == nullptr) return std::nullopt;
  const DeviceClass& device_class = machine_->ClassOf(group[0].from);
  const auto seconds = [&](int64_t bytes) {
    return std::max(1e-9, device_class.copy.Seconds(static_cast<double>(bytes)) +
                              1e-9 * device_class.kernel_overhead_ns);
  };
  const ProfileRecord wanted = RecordOf(group);
  Neighbors neighbors;
  for (const ProfilePoint& point : profile->Family(wanted.family)) {
    neighbors.Add(Octaves(point.bytes, wanted.bytes), Ratio(point.timing, seconds(point.bytes)));
  }
  return neighbors.Cost(seconds(wanted.bytes));
}

}  // namespace partita
