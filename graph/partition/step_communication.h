#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/partition/exchange.h"
#include "graph/partition/exchange_tasks.h"
#include "graph/task/task_graph.h"

namespace partita {

// Ranks of the devices of a group.
class GroupRanks {
 public:
  explicit GroupRanks(std::span<const DeviceId> group);
  size_t Of(DeviceId device) const { return ranks_[device.index()]; }

 private:
  std::vector<size_t> ranks_;  // indexed by DeviceId; of the group's only
};

// Data that an exchange step sends, known before there are any buffers.
struct StepCommunication {
  // All-reduce, reduce-scatter and all-gather: the flows in the order in which a rank holds their
  // elements, the elements in front of each, and all.
  std::vector<const Flow*> flows;
  std::vector<int64_t> offsets;
  int64_t total = 0;
  // The communication task but for the places of its slices: their buffers and offsets. Transfers
  // are in the order of flows, owners and destinations. None for a local step.
  std::optional<TaskBody> task;
};

// `chosen`: the strategy's algorithm for the step, or empty. The step outlives the result.
StepCommunication CommunicationOf(const ExchangeStep& step, DType dtype, const std::string& chosen,
                                  const ExchangeTaskOptions& options);
// Communications of all steps of an exchange, by the algorithms of options.choices; nullopt where the
// watch gave the tensor up. `solved`: of x, outlives the result.
std::optional<std::vector<StepCommunication>> CommunicationsOf(const TensorExchange& x,
                                                               const SolvedExchange& solved,
                                                               const ExchangeTaskOptions& options);

}  // namespace partita
