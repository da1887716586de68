#include "cost_model/link_cost.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "graph/collective/algorithms.h"
#include "graph/collective/collective.h"

namespace partita {
namespace {

// Uncertainty of prices over links by data sheets, and over measured links.
constexpr double kSpread = 0.3;
constexpr double kMeasuredSpread = 0.15;

// Adds up messages that start together.
class MessageGroup {
 public:
  explicit MessageGroup(const Machine& machine)
      : machine_(machine),
        load_(machine.topology.channels().size()),
        added_(machine.topology.size()) {}

  void Add(DeviceId from, DeviceId to, int64_t bytes, bool reduce) {
    const DeviceTopology& topology = machine_.topology;
    if (reduce) {
      double& added = added_[to.index()];
      added += machine_.ClassOf(to).add.Seconds(static_cast<double>(bytes));
      longest_ = std::max(longest_, added);
      adders_.push_back(to);
    }
    if (from == to) {
      const double copy = machine_.ClassOf(to).copy.Seconds(static_cast<double>(bytes));
      longest_ = std::max(longest_, copy);
      return;
    }
    const RouteChannels found = topology.Route(from, to);
    const std::span<const ChannelId> route(found);
    Nanos latency;
    for (ChannelId id : route) latency += topology.channel(id).latency;
    latency_ = std::max(latency_, latency.value());
    // Devices of one host's cores read from each other's memory: the reader does the work.
    for (ChannelId id : IsRead(from, to) ? route.last(1) : route) {
      int64_t& load = load_[id.index()];
      if (load == 0) busy_.push_back(id);
      load += bytes;
      longest_ = std::max(longest_, static_cast<double>(load) /
                                        static_cast<double>(topology.channel(id).bytes_per_second));
    }
  }

  bool IsRead(DeviceId from, DeviceId to) const {
    const Device& a = machine_.topology.device(from);
    const Device& b = machine_.topology.device(to);
    return a.kind == DeviceKind::kCpu && b.kind == DeviceKind::kCpu && a.node == b.node;
  }

  // What the messages take; forgets them.
  double TakeSeconds() {
    const double seconds = longest_ + static_cast<double>(latency_) * 1e-9;
    for (ChannelId id : busy_) load_[id.index()] = 0;
    for (DeviceId id : adders_) added_[id.index()] = 0;
    busy_.clear();
    adders_.clear();
    longest_ = 0;
    latency_ = 0;
    return seconds;
  }

 private:
  const Machine& machine_;
  std::vector<int64_t> load_;
  std::vector<double> added_;
  std::vector<ChannelId> busy_;
  std::vector<DeviceId> adders_;
  double longest_ = 0;
  int64_t latency_ = 0;
};

}  // namespace

LinkCost::LinkCost(std::shared_ptr<const Machine> machine) : machine_(std::move(machine)) {}

std::optional<TaskCost> LinkCost::KernelCost(const KernelSignature&, DeviceId) const {
  return std::nullopt;
}

std::optional<TaskCost> LinkCost::MoveCost(const MoveSignature&, DeviceId) const {
  return std::nullopt;
}

std::optional<TaskCost> LinkCost::MeasuredRate(const CollectiveCall& call,
                                               const CollectiveSchedule& schedule) const {
  if (!AreAlike(machine_->topology, call.group)) return std::nullopt;
  const std::string& device_class = machine_->topology.device(call.group[0]).device_class;
  const CollectiveRate* rate = nullptr;
  for (const CollectiveRate& row : machine_->collective_rates) {
    if (row.ranks != schedule.ranks) continue;
    if (!row.device_class.empty() && row.device_class != device_class) continue;
    if (row.algorithm == call.algorithm || (row.algorithm.empty() && rate == nullptr)) rate = &row;
  }
  if (rate == nullptr) return std::nullopt;
  const std::vector<int64_t> received = ElementsReceived(schedule);
  const int64_t busiest = *std::max_element(received.begin(), received.end());
  const double seconds =
      1e-9 * rate->line.latency_ns * static_cast<double>(schedule.rounds.size()) +
      static_cast<double>(busiest * SizeOf(call.dtype)) / rate->line.bytes_per_second;
  return CostOfSeconds(seconds, CostSource::kInterpolated, rate->spread);
}

TaskCost LinkCost::CostOverLinks(double seconds) const {
  return machine_->links_measured
             ? CostOfSeconds(seconds, CostSource::kInterpolated, kMeasuredSpread)
             : CostOfSeconds(seconds, CostSource::kRoofline, kSpread);
}

std::optional<TaskCost> LinkCost::CollectiveCost(const CollectiveCall& call) const {
  const auto schedule = BuildSchedule(call.algorithm, *call.collective);
  if (!schedule.ok()) return std::nullopt;
  if (const auto measured = MeasuredRate(call, *schedule)) return measured;
  const int64_t size = SizeOf(call.dtype);
  MessageGroup messages(*machine_);
  double seconds = 0;
  for (const CollectiveRound& round : schedule->rounds) {
    for (const CollectiveStep& step : round.steps) {
      messages.Add(call.group[step.from], call.group[step.to], step.count * size,
                   step.action == StepAction::kReduce);
    }
    seconds += messages.TakeSeconds();
  }
  return CostOverLinks(seconds);
}

std::optional<TaskCost> LinkCost::TransferCost(std::span<const TransferCall> group) const {
  MessageGroup messages(*machine_);
  for (const TransferCall& call : group) messages.Add(call.from, call.to, call.bytes, false);
  return CostOverLinks(messages.TakeSeconds());
}

}  // namespace partita
