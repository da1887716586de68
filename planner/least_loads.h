#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "cost_model/cost_model.h"
#include "graph/partition/arrivals.h"
#include "planner/flat_step.h"
#include "planner/loads.h"
#include "planner/simulator/flat_tasks.h"

namespace partita {

// Cutoff of an evaluation that never stops early.
inline constexpr Nanos kNoCutoff(std::numeric_limits<int64_t>::max());
// A time so many times as long; kNoCutoff stays what it is.
inline Nanos TimesOf(Nanos time, double factor) {
  if (time == kNoCutoff) return time;
  return Nanos(static_cast<int64_t>(static_cast<double>(time.value()) * factor));
}

// Sums, by resource, of the least time for which a step keeps it busy. No schedule of the step is
// shorter than the largest. Not for several threads.
class LeastLoads {
 public:
  // Steps use the first `devices` ones; `node_of_device`: empty for one node. What is passed
  // outlives this.
  LeastLoads(const SimulatedResources& resources, const CostModel& model, int devices,
             std::span<const int32_t> node_of_device);

  // Adds loads that are in all steps until they are taken away again.
  void AddKnown(const Loads& loads) {
    for (const auto& [resource, time] : loads) known_[static_cast<size_t>(resource)] += time;
  }
  void RemoveKnown(const Loads& loads) {
    for (const auto& [resource, time] : loads) known_[static_cast<size_t>(resource)] -= time;
  }

  // Starts a step, which has what is known.
  void Start() {
    sums_ = known_;
    communications_.clear();
  }
  void Add(const Loads& loads) {
    for (const auto& [resource, time] : loads) sums_[static_cast<size_t>(resource)] += time;
  }
  void Remove(const Loads& loads) {
    for (const auto& [resource, time] : loads) sums_[static_cast<size_t>(resource)] -= time;
  }
  Nanos Largest() const;

  // Adds the least time of a communication, which is none of a fragment's yet, to what it holds.
  // Returns the largest sum of those.
  Nanos AddCommunication(std::span<const int32_t> held, const TaskCost& cost);
  // Takes all those away again; returns their loads.
  Loads TakeCommunications();

  // Least loads that bring these elements of `element_bytes` each to where they are lacking: of the
  // communication lane of each device, over all the channels that end there; and of the channels
  // that all routes from other nodes into a node have in common. None where the cost model does not
  // count bytes by channel.
  Loads OfArrivals(const Arrivals& arrivals, int64_t element_bytes);
  // Least loads of exchanges, before the algorithms of their collectives are chosen: a step takes as
  // long as what arrives at any device or node, and holds the lanes of its whole group; with a
  // latency for each step, or without. None where the cost model does not count bytes by channel.
  Loads OfExchanges(std::span<const std::span<const ExchangeStep>> exchanges, int64_t element_bytes,
                    bool with_latency = true);

 private:
  // Machines up to this size have their routes looked through for channels in common.
  static constexpr int kMostDevices = 256;

  void FindChannels();
  double LeastSeconds(const ExchangeStep& step, int64_t element_bytes, double latency) const;

  const SimulatedResources& resources_;
  const CostModel& model_;
  const int devices_;
  const std::span<const int32_t> node_of_device_;
  bool channels_found_ = false;
  Loads communications_;               // what AddCommunication added
  std::vector<int64_t> sums_, known_;  // indexed by resource
  LoadSums made_;                      // of one call
  StepArrivals step_arrivals_;
  double least_latency_ = 0;  // seconds; of all channels
  // Empty where bytes bound nothing. Bytes per second of all channels that end at each device; and
  // the resources of the channels in common, -1 where there is none, with their bytes per second, by
  // node.
  std::vector<double> into_device_;
  std::vector<std::vector<std::pair<int32_t, double>>> into_node_;
};

}  // namespace partita
