#include "planner/bound/exchange_delays.h"

#include <algorithm>
#include <span>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace partita {
namespace {

// Of the memory of the evaluator's caches, this part is taken once more for fragments here.
constexpr int64_t kShareOfCaches = 8;

// Longest paths through a fragment's tasks, from a slot that is there at 0, or from the begin.
struct Reached {
  std::vector<int64_t> task;  // indexed by task: its end; kNever: it does not wait for the slot
  std::vector<int64_t> slot;  // indexed by slot: likewise, when its last writer ends
  int64_t last = 0;
};

// `from`: a slot, or -1 for the begin of the step.
Reached ReachFrom(const FlatStep& flat, int32_t from) {
  constexpr int64_t kNever = ExchangeDelays::kNever;
  Reached reached;
  const size_t tasks = flat.costs.size();
  reached.task.assign(tasks, kNever);
  reached.slot.assign(flat.uses.buffers.size(), kNever);
  if (from >= 0) reached.slot[static_cast<size_t>(from)] = 0;
  std::vector<int64_t> start(tasks, from < 0 ? 0 : kNever);
  for (size_t t = 0; t < tasks; ++t) {
    const auto begin = static_cast<size_t>(flat.uses.use_begin[t]);
    const auto end = static_cast<size_t>(flat.uses.use_begin[t + 1]);
    const std::span<const BufferUse> uses(flat.uses.uses.data() + begin, end - begin);
    for (const BufferUse& use : uses) {
      if (use.buffer.value() == from) start[t] = std::max<int64_t>(start[t], 0);
    }
    if (start[t] == kNever) continue;
    reached.task[t] = start[t] + LeastTime(flat.costs[t]);
    reached.last = std::max(reached.last, reached.task[t]);
    for (int32_t next : flat.tasks.SuccessorsOf(t)) {
      int64_t& at = start[static_cast<size_t>(next)];
      at = std::max(at, reached.task[t]);
    }
    for (const BufferUse& use : uses) {
      if (!use.writes) continue;
      int64_t& at = reached.slot[use.buffer.index()];
      at = std::max(at, reached.task[t]);
    }
  }
  return reached;
}

}  // namespace

ExchangeDelayFinder::ExchangeDelayFinder(const Evaluator& evaluator)
    : graph_(evaluator.graph()),
      flattener_({evaluator.resources(), evaluator.model(), evaluator.options().sizes}),
      cache_(graph_, evaluator.partition_options(), FragmentCache::Use::kPricing),
      most_cached_(evaluator.options().max_cached.value() / kShareOfCaches) {}

bool ExchangeDelayFinder::FindFragments(const Strategy& strategy, TensorId tensor) {
  cache_.DropOldest(most_cached_);
  const auto found = cache_.Find(strategy, step_);
  if (!found.ok() || !*found) return false;
  if (step_.tensors[tensor.index()] != nullptr) return true;
  for (FragmentCache::Missing& missing : cache_.missing()) {
    if (std::count(missing.tensors.begin(), missing.tensors.end(), tensor) == 0) continue;
    return cache_.Build(missing, cache_.Solve(missing, strategy), strategy, step_).ok();
  }
  return false;
}

std::optional<ExchangeDelays> ExchangeDelayFinder::Find(const Strategy& strategy, TensorId tensor) {
  if (!FindFragments(strategy, tensor)) return std::nullopt;
  ExchangeDelays delays;
  for (OpId id : graph_.producers(tensor)) {
    const OperatorFragment& fragment = *step_.operators[id.index()];
    const std::vector<TensorId>& outputs = graph_.op(id).outputs;
    for (size_t k = 0; k < outputs.size(); ++k) {
      if (outputs[k] != tensor) continue;
      for (const OperatorFragment::Result& result : fragment.results[k]) {
        delays.sources.push_back({id, result.task});
      }
    }
  }
  delays.to_end.assign(delays.sources.size(), 0);
  delays.readers.resize(graph_.consumers(tensor).size());
  const size_t groups = step_.tensors[tensor.index()]->groups.size();
  for (size_t group = 0; group < groups; ++group) AddGroup(tensor, group, delays);
  return delays;
}

std::vector<std::pair<ExchangeDelays::Reader, size_t>> ExchangeDelayFinder::ReadersIn(
    TensorId tensor, size_t consumer, size_t group) const {
  const TensorFragments& fragments = *step_.tensors[tensor.index()];
  const OpId op = graph_.consumers(tensor)[consumer];
  const OperatorFragment& kernels = *step_.operators[op.index()];
  const auto begin = static_cast<size_t>(fragments.read_begin[consumer]);
  std::vector<std::pair<ExchangeDelays::Reader, size_t>> readers;
  for (size_t t = 0; t < kernels.graph.tasks().size(); ++t) {
    const Task& task = kernels.graph.tasks()[t];
    const auto& compute = std::get<ComputeTask>(task.body);
    for (BufferId input : compute.inputs) {
      if (input == kNoBuffer || input.index() >= kernels.reads.size()) continue;
      const OperatorFragment::Read& read = kernels.reads[input.index()];
      if (graph_.op(op).inputs[static_cast<size_t>(read.input)] != tensor) continue;
      const auto& source = fragments.reads[begin + static_cast<size_t>(read.place)];
      if (source.slot < 0 || static_cast<size_t>(source.group) != group) continue;
      ExchangeDelays::Reader reader{static_cast<int32_t>(t), compute.device, 0, 0, {}};
      if (graph_.op(op).anchor == kNoOp) {
        reader.kernel = LeastTime(PriceTask(kernels.graph, task, flattener_.rules().model));
      }
      readers.emplace_back(std::move(reader), static_cast<size_t>(source.slot));
    }
  }
  return readers;
}

void ExchangeDelayFinder::AddGroup(TensorId tensor, size_t group, ExchangeDelays& delays) {
  const TensorFragment& fragment = step_.tensors[tensor.index()]->groups[group];
  const FlatFragment flat = flattener_.Flatten(fragment.graph);
  delays.loads.insert(delays.loads.end(), flat.loads.begin(), flat.loads.end());
  // The pieces that producers make are the last of the outer slots.
  const auto first = fragment.outer - static_cast<int32_t>(delays.sources.size());
  const Reached of_begin = ReachFrom(flat.step, -1);
  std::vector<Reached> reached;
  std::vector<bool> waits(flat.step.costs.size(), false);
  for (size_t s = 0; first >= 0 && s < delays.sources.size(); ++s) {
    reached.push_back(ReachFrom(flat.step, first + static_cast<int32_t>(s)));
    delays.to_end[s] = std::max(delays.to_end[s], reached.back().last);
    for (size_t t = 0; t < waits.size(); ++t) {
      if (reached.back().task[t] != ExchangeDelays::kNever) waits[t] = true;
    }
  }
  for (size_t t = 0; t < waits.size(); ++t) {
    if (!waits[t]) continue;
    const int64_t time = LeastTime(flat.step.costs[t]);
    for (int32_t r : flat.step.tasks.ResourcesOf(t)) delays.waiting.emplace_back(r, time);
  }
  for (size_t consumer = 0; consumer < delays.readers.size(); ++consumer) {
    for (auto& [reader, slot] : ReadersIn(tensor, consumer, group)) {
      reader.from_begin = std::max<int64_t>(0, of_begin.slot[slot]);
      reader.from_source.assign(delays.sources.size(), ExchangeDelays::kNever);
      for (size_t s = 0; s < reached.size(); ++s) reader.from_source[s] = reached[s].slot[slot];
      delays.readers[consumer].push_back(std::move(reader));
    }
  }
}

}  // namespace partita
