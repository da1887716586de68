#include "planner/bound/exchange_delays.h"

#include <algorithm>
#include <span>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace partita {
namespace {

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
      rules_{evaluator.resources(), evaluator.model(), evaluator.options().sizes},
      cache_(graph_, evaluator.partition_options(), evaluator.options().max_cached,
             FragmentCache::Use::kPricing) {}

bool ExchangeDelayFinder::FindFragments(const Strategy& strategy, TensorId tensor) {
  const auto found = cache_.Find(strategy, step_);
  if (!found.ok() || !*found) return false;
  if (step_.tensors[tensor.index()] != nullptr) return true;
  for (FragmentCache::Missing& missing : cache_.missing()) {
    if (std::count(missing.tensors.begin(), missing.tensors.end(), tensor) == 0) continue;
    const auto built = cache_.Build(missing, cache_.Solve(missing, strategy), strategy, step_);
    return built.ok() && *built;
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

std::vector<std::pair<int32_t, int32_t>> ExchangeDelayFinder::ReadersIn(TensorId tensor,
                                                                        int32_t consumer,
                                                                        size_t group) const {
  const TensorFragments& fragments = *step_.tensors[tensor.index()];
  const OpId op = graph_.consumers(tensor)[static_cast<size_t>(consumer)];
  const OperatorFragment& kernels = *step_.operators[op.index()];
  std::vector<std::pair<int32_t, int32_t>> readers;
  for (size_t t = 0; t < kernels.graph.tasks().size(); ++t) {
    const auto& task = std::get<ComputeTask>(kernels.graph.tasks()[t].body);
    for (BufferId input : task.inputs) {
      if (input == kNoBuffer || input.index() >= kernels.reads.size()) continue;
      const OperatorFragment::Read& read = kernels.reads[input.index()];
      if (read.tensor != tensor || read.consumer != consumer) continue;
      const auto begin = fragments.read_begin[static_cast<size_t>(consumer)];
      const auto& source = fragments.reads[static_cast<size_t>(begin + read.place)];
      if (source.slot < 0 || static_cast<size_t>(source.group) != group) continue;
      readers.emplace_back(static_cast<int32_t>(t), source.slot);
    }
  }
  return readers;
}

void ExchangeDelayFinder::AddGroup(TensorId tensor, size_t group, ExchangeDelays& delays) const {
  const TensorFragment& fragment = step_.tensors[tensor.index()]->groups[group];
  const FlatFragment flat = FlattenFragment(fragment.graph, rules_);
  for (const auto& [resource, time] : flat.loads) delays.loads.emplace_back(resource, time);
  // The pieces that producers make are the last of the outer slots.
  const auto first = fragment.outer - static_cast<int32_t>(delays.sources.size());
  std::vector<Reached> reached = {ReachFrom(flat.step, -1)};
  for (size_t s = 0; s < delays.sources.size(); ++s) {
    const int32_t slot = first + static_cast<int32_t>(s);
    reached.push_back(first < 0 ? Reached{} : ReachFrom(flat.step, slot));
    delays.to_end[s] = std::max(delays.to_end[s], reached.back().last);
  }
  for (size_t consumer = 0; consumer < delays.readers.size(); ++consumer) {
    for (const auto& [part, slot] : ReadersIn(tensor, static_cast<int32_t>(consumer), group)) {
      ExchangeDelays::Reader reader{part, 0, {}};
      const auto place = static_cast<size_t>(slot);
      reader.from_begin = std::max<int64_t>(0, reached[0].slot[place]);
      for (size_t s = 0; s < delays.sources.size(); ++s) {
        const auto& slots = reached[s + 1].slot;
        reader.from_source.push_back(slots.empty() ? ExchangeDelays::kNever : slots[place]);
      }
      delays.readers[consumer].push_back(std::move(reader));
    }
  }
}

}  // namespace partita
