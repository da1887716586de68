#include "cost_model/task_costs.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <utility>
#include <variant>

#include "absl/container/flat_hash_map.h"
#include "graph/support/check.h"

namespace partita {
namespace {

TaskCost Known(const std::optional<TaskCost>& cost) {
  CHECK(cost.has_value()) << "the cost model does not know a task; end it with a roofline and "
                             "a link model";
  return *cost;
}

std::optional<TaskCost> CostOf(const CollectiveTask& task, const CostModel& model) {
  return model.CollectiveCost({&task.collective, task.algorithm, task.group, task.dtype});
}

std::optional<TaskCost> CostOf(const TransferTask& task, const CostModel& model) {
  const int64_t size = SizeOf(task.dtype);
  std::vector<TransferCall> group;
  group.reserve(task.transfers.size());
  for (const Transfer& transfer : task.transfers) {
    group.push_back({transfer.from, transfer.to, transfer.receive.count * size});
  }
  return model.TransferCost(group);
}

// Prices of moves that were asked for last: few moves of a graph are unlike.
class MovePrices {
 public:
  explicit MovePrices(const CostModel& model) : model_(model) {}

  TaskCost Of(const MoveSignature& signature, DeviceId device) {
    const DeviceId equal = model_.FirstEqual(device);
    const auto mixed = static_cast<uint64_t>(signature.elements * 31 + signature.run);
    Entry& entry = entries_[mixed * kMultiplier >> kShift];
    if (!entry.is_known || entry.device != equal || entry.signature != signature) {
      entry = {signature, equal, Known(model_.MoveCost(signature, equal)), true};
    }
    return entry.cost;
  }

 private:
  static constexpr uint64_t kMultiplier = 0x9E3779B97F4A7C15;  // spreads numbers over the top bits
  static constexpr int kBits = 6, kShift = 64 - kBits;
  struct Entry {
    MoveSignature signature;
    DeviceId device;
    TaskCost cost;
    bool is_known = false;
  };

  const CostModel& model_;
  std::array<Entry, size_t{1} << kBits> entries_;
};

struct Pricer {
  const TaskGraph& graph;
  const CostModel& model;
  MovePrices& moves;

  TaskCost operator()(const ComputeTask& task) const {
    const KernelSignature& signature = graph.signatures()[static_cast<size_t>(task.signature)];
    return Known(model.KernelCost(signature, task.device));
  }

  // One after the other; the spreads add up as times do, the source is the worst.
  TaskCost operator()(const MoveTask& task) const {
    TaskCost sum{Nanos(0), CostSource::kMeasured, 0};
    double deviation = 0;
    Nanos uncontended;
    const auto add = [&](const MoveSignature& signature, int64_t count) {
      const TaskCost cost = moves.Of(signature, task.device);
      sum.source = std::max(sum.source, cost.source);
      for (int64_t k = 0; k < count; ++k) {
        sum.time += cost.time;
        uncontended += cost.Uncontended();
        deviation += cost.spread * static_cast<double>(cost.time.value());
      }
    };
    if (task.outline != nullptr) {
      for (const auto& [signature, count] : task.outline->runs) add(signature, count);
    } else {
      for (const MoveSignature& signature : SignaturesOf(task)) add(signature, 1);
    }
    if (sum.time.value() < 1) return {Nanos(1), CostSource::kMeasured, 0};
    sum.spread = deviation / static_cast<double>(sum.time.value());
    if (uncontended != sum.time) sum.uncontended = uncontended;
    return sum;
  }

  TaskCost operator()(const LoadTask& task) const {
    return moves.Of(SignatureOf(graph, task), task.device);
  }

  TaskCost operator()(const CollectiveTask& task) const { return Known(CostOf(task, model)); }
  TaskCost operator()(const TransferTask& task) const { return Known(CostOf(task, model)); }
};

}  // namespace

TaskCost PriceCommunication(const TaskBody& body, const CostModel& model) {
  if (const auto* collective = std::get_if<CollectiveTask>(&body)) {
    return Known(CostOf(*collective, model));
  }
  return Known(CostOf(std::get<TransferTask>(body), model));
}

TaskCost PriceTask(const TaskGraph& graph, const Task& task, const CostModel& model) {
  MovePrices moves(model);
  return std::visit(Pricer{graph, model, moves}, task.body);
}

std::vector<TaskCost> PriceTasks(const TaskGraph& graph, const CostModel& model,
                                 std::span<const TaskCost> communications) {
  MovePrices moves(model);
  const Pricer pricer{graph, model, moves};
  // Of each signature on each kind of device: few, where a table of all devices would be large.
  absl::flat_hash_map<std::pair<int32_t, DeviceId>, TaskCost> kernels;
  std::pair<int32_t, DeviceId> last(-1, DeviceId(-1));
  TaskCost last_cost;
  std::vector<TaskCost> costs;
  costs.reserve(graph.tasks().size());
  for (const Task& task : graph.tasks()) {
    const auto* compute = std::get_if<ComputeTask>(&task.body);
    if (!communications.empty() && IsCommunication(task)) {
      costs.push_back(communications.front());
      communications = communications.subspan(1);
      continue;
    }
    if (compute == nullptr) {
      costs.push_back(std::visit(pricer, task.body));
      continue;
    }
    const std::pair<int32_t, DeviceId> kernel(compute->signature,
                                              model.FirstEqual(compute->device));
    if (kernel != last) {
      const auto [known, added] = kernels.try_emplace(kernel);
      if (added) known->second = pricer(*compute);
      last = kernel;
      last_cost = known->second;
    }
    costs.push_back(last_cost);
  }
  return costs;
}

std::vector<Nanos> DurationsOf(const std::vector<TaskCost>& costs) {
  std::vector<Nanos> durations;
  durations.reserve(costs.size());
  for (const TaskCost& cost : costs) durations.push_back(cost.time);
  return durations;
}

SourceCounts CountSources(const std::vector<TaskCost>& costs) {
  SourceCounts counts;
  for (const TaskCost& cost : costs) {
    counts.measured += cost.source == CostSource::kMeasured;
    counts.unsteady += cost.source == CostSource::kUnsteady;
    counts.interpolated += cost.source == CostSource::kInterpolated;
    counts.roofline += cost.source == CostSource::kRoofline;
  }
  return counts;
}

MoveSignature SignatureOf(const TaskGraph& graph, const LoadTask& task) {
  const Buffer& buffer = graph.buffer(task.buffer);
  return {MoveSignature::Kind::kCopy, buffer.dtype, buffer.elements(), buffer.elements()};
}

}  // namespace partita
