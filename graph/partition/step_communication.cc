#include "graph/partition/step_communication.h"

#include <algorithm>
#include <utility>

#include "graph/partition/windows.h"

namespace partita {
namespace {

using Kind = ExchangeStep::Kind;

TransferTask TransfersOf(const ExchangeStep& step, DType dtype) {
  TransferTask task{dtype, step.group, {}};
  task.transfers.reserve(step.flows.size());
  for (const Flow& flow : step.flows) {
    const Slice slice{kNoBuffer, 0, VolumeOf(flow.boxes)};
    for (const Share& share : flow.owners) {
      for (DeviceId to : flow.destinations) {
        if (to != share.device) task.transfers.push_back({share.device, to, slice, slice});
      }
    }
  }
  return task;
}

// Lays the flows out by the device that each is of: its destination, or its owner.
template <class DeviceOfFlow>
void LayOut(const ExchangeStep& step, DeviceOfFlow&& device_of, StepCommunication& plan) {
  for (const Flow& flow : step.flows) plan.flows.push_back(&flow);
  std::stable_sort(plan.flows.begin(), plan.flows.end(),
                   [&](const Flow* a, const Flow* b) { return device_of(*a) < device_of(*b); });
  plan.offsets.reserve(plan.flows.size());
  for (const Flow* flow : plan.flows) {
    plan.offsets.push_back(plan.total);
    plan.total += VolumeOf(flow->boxes);
  }
}

// Elements of each rank's block. Precondition: LayOut.
template <class DeviceOfFlow>
std::vector<int64_t> BlocksOf(const ExchangeStep& step, DeviceOfFlow&& device_of,
                              const StepCommunication& plan) {
  const GroupRanks ranks(step.group);
  std::vector<int64_t> blocks(step.group.size(), 0);
  for (const Flow* flow : plan.flows) blocks[ranks.Of(device_of(*flow))] += VolumeOf(flow->boxes);
  return blocks;
}

Collective AllToAllOf(const ExchangeStep& step) {
  const size_t n = step.group.size();
  const GroupRanks ranks(step.group);
  std::vector<std::vector<int64_t>> counts(n, std::vector<int64_t>(n, 0));
  for (const Flow& flow : step.flows) {
    const size_t from = ranks.Of(flow.owners[0].device);
    for (DeviceId to : flow.destinations) {
      if (to != flow.owners[0].device) counts[from][ranks.Of(to)] += VolumeOf(flow.boxes);
    }
  }
  return MakeAllToAll(counts);
}

Collective CollectiveOf(const ExchangeStep& step, Reduction reduction, StepCommunication& plan) {
  const auto destination = [](const Flow& flow) { return flow.destinations[0]; };
  const auto owner = [](const Flow& flow) { return flow.owners[0].device; };
  switch (step.kind) {
    case Kind::kReduceScatter:
      LayOut(step, destination, plan);
      return MakeReduceScatter(BlocksOf(step, destination, plan), reduction);
    case Kind::kAllGather:
      LayOut(step, owner, plan);
      return MakeAllGather(BlocksOf(step, owner, plan));
    case Kind::kAllToAll:
      return AllToAllOf(step);
    default:
      LayOut(step, [](const Flow&) { return 0; }, plan);
      return MakeAllReduce(static_cast<int>(step.group.size()), plan.total, reduction);
  }
}

std::string ChosenFor(int32_t step, std::span<const AlgorithmChoice> choices) {
  const auto choice =
      std::find_if(choices.begin(), choices.end(),
                   [step](const AlgorithmChoice& c) { return c.collective.step == step; });
  return choice == choices.end() ? "" : choice->algorithm;
}

}  // namespace

GroupRanks::GroupRanks(std::span<const DeviceId> group) {
  size_t devices = 0;
  for (DeviceId device : group) devices = std::max(devices, device.index() + 1);
  ranks_.resize(devices);
  for (size_t r = 0; r < group.size(); ++r) ranks_[group[r].index()] = r;
}

StepCommunication CommunicationOf(const ExchangeStep& step, DType dtype, const std::string& chosen,
                                  const ExchangeTaskOptions& options) {
  StepCommunication plan;
  if (step.kind == Kind::kLocal) return plan;
  if (step.kind == Kind::kTransfers) {
    plan.task = TransfersOf(step, dtype);
    return plan;
  }
  CollectiveTask task{
      step.group, CollectiveOf(step, options.exchange.reduction, plan), "", dtype, {}, {}};
  task.has_replicas = !step.replica_groups.empty();
  task.algorithm = ChooseAlgorithm(task, step.replica_groups,
                                   {chosen, options.algorithm, options.exchange.node_of_device});
  plan.task = std::move(task);
  return plan;
}

std::optional<std::vector<StepCommunication>> CommunicationsOf(const TensorExchange& x,
                                                               const SolvedExchange& solved,
                                                               const ExchangeTaskOptions& options) {
  std::vector<StepCommunication> communications;
  int32_t number = x.first_step;
  for (const ExchangeStep& step : solved.steps()) {
    const std::string chosen = ChosenFor(number++, options.choices);
    communications.push_back(CommunicationOf(step, x.dtype, chosen, options));
    const auto& task = communications.back().task;
    if (options.watch == nullptr || !task.has_value()) continue;
    if (!(*options.watch)(*task)) return std::nullopt;
  }
  return communications;
}

}  // namespace partita
