#include "planner/least_loads.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

namespace partita {
namespace {

// Of a single task or edge: a step bounds durations that are longer (evaluator.cc).
constexpr int64_t kLongest = int64_t{1} << 40;

int64_t NanosOf(double seconds) {
  return static_cast<int64_t>(std::min(1e9 * seconds * (1 - 1e-9), static_cast<double>(kLongest)));
}
int64_t NanosFor(int64_t bytes, double bytes_per_second) {
  return NanosOf(static_cast<double>(bytes) / bytes_per_second);
}

}  // namespace

LeastLoads::LeastLoads(const SimulatedResources& resources, const CostModel& model, int devices,
                       std::span<const int32_t> node_of_device)
    : resources_(resources),
      model_(model),
      devices_(devices),
      node_of_device_(node_of_device),
      sums_(static_cast<size_t>(resources.count()), 0),
      known_(sums_),
      made_(resources.count()),
      step_arrivals_(devices, node_of_device) {}

void LeastLoads::FindChannels() {
  const DeviceTopology& topology = resources_.topology();
  const auto channels = topology.channels();
  // A latency makes up for the rounding of each message's time.
  const bool has_latency =
      std::all_of(channels.begin(), channels.end(),
                  [](const Channel& channel) { return channel.latency >= Nanos(1); });
  if (!model_.CountsBytesOfChannels() || !has_latency || devices_ > kMostDevices) return;
  Nanos latency = kNoCutoff;
  for (const Channel& channel : channels) latency = std::min(latency, channel.latency);
  if (!channels.empty()) least_latency_ = 1e-9 * static_cast<double>(latency.value());
  const auto node_of = [&](int d) {
    return node_of_device_.empty() ? 0 : node_of_device_[static_cast<size_t>(d)];
  };
  const auto nodes = static_cast<size_t>(NodeCount(node_of_device_));
  into_node_.resize(nodes);
  std::vector<std::set<ChannelId>> common(nodes);
  std::vector<char> met(nodes, 0);
  for (int to = 0; to < devices_; ++to) {
    std::set<ChannelId> last;
    const auto n = static_cast<size_t>(node_of(to));
    for (int from = 0; from < devices_; ++from) {
      if (from == to) continue;
      const RouteChannels route = topology.Route(DeviceId(from), DeviceId(to));
      if (!route.empty()) last.insert(route.back());
      if (node_of(from) == node_of(to)) continue;
      if (met[n] == 0) common[n].insert(route.begin(), route.end());
      met[n] = 1;
      std::erase_if(common[n], [&](ChannelId channel) {
        return std::find(route.begin(), route.end(), channel) == route.end();
      });
    }
    double& speed = into_device_.emplace_back(0);
    for (ChannelId id : last) speed += static_cast<double>(topology.channel(id).bytes_per_second);
  }
  for (size_t n = 0; n < common.size(); ++n) {
    for (ChannelId id : common[n]) {
      into_node_[n].emplace_back(resources_.ChannelResource(id),
                                 static_cast<double>(topology.channel(id).bytes_per_second));
    }
  }
}

Nanos LeastLoads::Largest() const {
  return Nanos(sums_.empty() ? 0 : *std::max_element(sums_.begin(), sums_.end()));
}

Nanos LeastLoads::AddCommunication(std::span<const int32_t> held, const TaskCost& cost) {
  const int64_t least = LeastTime(cost);
  int64_t largest = 0;
  for (int32_t resource : held) {
    communications_.emplace_back(resource, least);
    largest = std::max(largest, sums_[static_cast<size_t>(resource)] += least);
  }
  return Nanos(largest);
}

Loads LeastLoads::TakeCommunications() {
  Remove(communications_);
  for (const auto& [resource, time] : communications_) made_.Add(resource, time);
  communications_.clear();
  return made_.Take();
}

// Precondition: step_arrivals_ are the step's.
double LeastLoads::LeastSeconds(const ExchangeStep& step, int64_t element_bytes,
                                double latency) const {
  double seconds = 0, speeds = 0;
  bool all_known = true;
  const auto take = [&](int64_t elements, double speed) {
    seconds = std::max(seconds, static_cast<double>(elements * element_bytes) / speed);
  };
  for (DeviceId device : step.group) {
    const double speed = into_device_[device.index()];
    all_known &= speed > 0;
    speeds += speed;
    if (speed > 0) take(step_arrivals_.at_device(device), speed);
  }
  if (all_known && speeds > 0) take(step_arrivals_.at_devices(), speeds);
  speeds = 0;
  for (int32_t node : step_arrivals_.nodes()) {
    double slowest = std::numeric_limits<double>::infinity();
    for (const auto& [channel, speed] : into_node_[static_cast<size_t>(node)]) {
      slowest = std::min(slowest, speed);
    }
    take(step_arrivals_.at_node(node), slowest);
    speeds += slowest;
  }
  take(step_arrivals_.at_nodes(), speeds);
  return seconds == 0 ? 0 : seconds + latency;
}

Loads LeastLoads::OfExchanges(std::span<const std::span<const ExchangeStep>> exchanges,
                              int64_t element_bytes, bool with_latency) {
  if (!std::exchange(channels_found_, true)) FindChannels();
  if (into_device_.empty()) return {};
  const double latency = with_latency ? least_latency_ : 0;
  for (const auto& steps : exchanges) {
    for (const ExchangeStep& step : steps) {
      if (step.kind == ExchangeStep::Kind::kLocal) continue;
      step_arrivals_.Find(step);
      const int64_t least = NanosOf(LeastSeconds(step, element_bytes, latency));
      if (least == 0) continue;
      for (DeviceId device : step.group) {
        made_.Add(resources_.CommunicationLane(device), least);
      }
      for (int32_t node : step_arrivals_.nodes()) {
        if (step_arrivals_.at_node(node) == 0) continue;
        for (const auto& [channel, speed] : into_node_[static_cast<size_t>(node)]) {
          if (channel >= 0) made_.Add(channel, least);
        }
      }
    }
  }
  return made_.Take();
}

Loads LeastLoads::OfArrivals(const Arrivals& arrivals, int64_t element_bytes) {
  if (!std::exchange(channels_found_, true)) FindChannels();
  Loads loads;
  if (into_device_.empty()) return loads;
  for (size_t d = 0; d < arrivals.at_device.size(); ++d) {
    if (arrivals.at_device[d] == 0 || into_device_[d] == 0) continue;
    loads.emplace_back(resources_.CommunicationLane(DeviceId(static_cast<int32_t>(d))),
                       NanosFor(arrivals.at_device[d] * element_bytes, into_device_[d]));
  }
  for (size_t n = 0; n < arrivals.at_node.size() && n < into_node_.size(); ++n) {
    if (arrivals.at_node[n] == 0) continue;
    for (const auto& [channel, speed] : into_node_[n]) {
      if (channel < 0) continue;
      loads.emplace_back(channel, NanosFor(arrivals.at_node[n] * element_bytes, speed));
    }
  }
  return loads;
}

}  // namespace partita
