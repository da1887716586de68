#include "planner/flat_step.h"

namespace partita {
namespace {

// Appends rows [begin[t], begin[t + 1]) of another list.
void AppendRows(const std::vector<int32_t>& more, std::vector<int32_t>& begin) {
  const int32_t base = begin.back();
  for (size_t t = 1; t < more.size(); ++t) begin.push_back(base + more[t]);
}

}  // namespace

FlatStep FlattenStep(const TaskGraph& graph, const FlatteningRules& rules) {
  FlatStep step;
  step.tasks = ListTasks(graph, rules.resources);
  step.costs = PriceTasks(graph, rules.model);
  step.uses = FindBufferUses(graph, rules.sizes);
  ConnectTasks(step.uses, step.tasks);
  return step;
}

void FlatStepBuilder::Start(int32_t resources, int devices) {
  FlatTasks& tasks = step_.tasks;
  tasks.resources = resources;
  tasks.resource_begin.assign(1, 0);
  tasks.resource_of.clear();
  tasks.by_key.clear();
  tasks.after.clear();
  step_.costs.clear();
  BufferUses& uses = step_.uses;
  uses.devices = devices;
  uses.buffers.clear();
  uses.is_communication.clear();
  uses.use_begin.assign(1, 0);
  uses.uses.clear();
  uses.overwrite_begin.assign(1, 0);
  uses.overwrites.clear();
  uses.scratch.clear();
  first_task_.clear();
}

void FlatStepBuilder::AddTasks(const FlatStep& fragment, std::span<const BufferId> slots) {
  first_task_.push_back(static_cast<int32_t>(step_.costs.size()));
  const FlatTasks& from = fragment.tasks;
  FlatTasks& tasks = step_.tasks;
  AppendRows(from.resource_begin, tasks.resource_begin);
  tasks.resource_of.insert(tasks.resource_of.end(), from.resource_of.begin(),
                           from.resource_of.end());
  step_.costs.insert(step_.costs.end(), fragment.costs.begin(), fragment.costs.end());
  const BufferUses& used = fragment.uses;
  BufferUses& uses = step_.uses;
  uses.is_communication.insert(uses.is_communication.end(), used.is_communication.begin(),
                               used.is_communication.end());
  AppendRows(used.use_begin, uses.use_begin);
  for (const BufferUse& use : used.uses) {
    uses.uses.push_back({slots[use.buffer.index()], use.writes});
  }
  AppendRows(used.overwrite_begin, uses.overwrite_begin);
  for (const BufferUses::Overwrite& row : used.overwrites) {
    uses.overwrites.push_back({slots[row.from.index()], slots[row.to.index()]});
  }
  uses.scratch.insert(uses.scratch.end(), used.scratch.begin(), used.scratch.end());
}

void FlatStepBuilder::AddKeys(const FlatStep& fragment, size_t place) {
  for (int32_t task : fragment.tasks.by_key) {
    step_.tasks.by_key.push_back(first_task_[place] + task);
  }
}

const FlatStep& FlatStepBuilder::Finish(std::span<const HostOutput> outputs) {
  for (const HostOutput& output : outputs) {
    step_.uses.buffers[output.buffer.index()].host_reads = true;
  }
  ConnectTasks(step_.uses, step_.tasks);
  return step_;
}

}  // namespace partita
