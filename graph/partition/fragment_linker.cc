#include "graph/partition/fragment_linker.h"

#include <algorithm>
#include <variant>

namespace partita {
namespace {

void SetFormats(const TaskGraphBuilder& builder, const std::vector<BufferId>& buffers,
                std::vector<KernelTensor>& tensors) {
  for (size_t k = 0; k < buffers.size(); ++k) {
    if (buffers[k] != kNoBuffer) tensors[k].format = builder.buffer(buffers[k]).format;
  }
}

// Whether the kernel itself remains.
bool IsKept(FragmentLinker::Role role) {
  return role != FragmentLinker::Role::kInProducer && role != FragmentLinker::Role::kInReader;
}

bool IsPersistent(const Tensor& tensor) {
  return tensor.kind == TensorKind::kWeight || tensor.kind == TensorKind::kState;
}

}  // namespace

FragmentLinker::FragmentLinker(const FragmentCache& cache) : cache_(cache), graph_(cache.graph()) {
  operator_begin_.resize(graph_.ops().size());
  for (const Tensor& tensor : graph_.tensors()) {
    first_group_.push_back(static_cast<int32_t>(group_begin_.size()));
    group_begin_.resize(group_begin_.size() + cache.groups(tensor.id).size());
  }
  persistent_begin_.resize(graph_.tensors().size());
  role_begin_.resize(graph_.ops().size());
  pair_of_.resize(graph_.ops().size(), -1);
  is_named_.resize(graph_.ops().size(), false);
  for (const Operator& op : graph_.ops()) {
    for (OpId before : op.after) is_named_[before.index()] = true;
  }
  for (OpId reader : graph_.weight_readers()) is_named_[reader.index()] = true;  // GatherOpener
  link_of_op_.resize(graph_.ops().size());
  for (size_t k = 0; k < cache.chain().size(); ++k) {
    const FragmentCache::Link& link = cache.chain()[k];
    if (!link.is_tensor) link_of_op_[static_cast<size_t>(link.id)] = k;
  }
  if (cache.options().fuse) FindFusionPairs();
}

void FragmentLinker::Link(const StepFragments& step) {
  buffers_ = 0;
  slots_.clear();
  roles_.clear();
  outputs_.clear();
  LinkPersistent(step);
  for (const FragmentCache::Link& link : cache_.chain()) {
    if (link.is_tensor) {
      LinkTensor(step, graph_.tensor(TensorId(link.id)), link.group);
    } else {
      LinkOperator(step, OpId(link.id));
    }
  }
  for (TensorId id : HostTensors(graph_, cache_.options())) {
    const auto slot = static_cast<size_t>(step.tensors[id.index()]->host_slot);
    outputs_.push_back({id, TensorSlots(id, 0)[slot]});
  }
  Fuse(step);
  NumberTasks(step);
  LinkEdges(step);
  if (cache_.options().native_formats) ChooseFormats(step);
}

void FragmentLinker::LinkPersistent(const StepFragments& step) {
  for (const Tensor& tensor : graph_.tensors()) {
    if (!IsPersistent(tensor)) continue;
    persistent_begin_[tensor.id.index()] = buffers_;
    buffers_ += step.stores[tensor.id.index()]->own();
  }
}

void FragmentLinker::AddPersistentSlots(const StepFragments& step, TensorId id) {
  const int32_t first = persistent_begin_[id.index()];
  const int32_t count = step.stores[id.index()]->own();
  for (int32_t p = 0; p < count; ++p) slots_.push_back(BufferId(first + p));
}

void FragmentLinker::AddOwnSlots(const Fragment& fragment, Range& range) {
  range.own = buffers_;
  for (int32_t s = 0; s < fragment.own(); ++s) slots_.push_back(BufferId(buffers_++));
  range.size = fragment.slots();
}

void FragmentLinker::LinkTensor(const StepFragments& step, const Tensor& tensor, int32_t group) {
  const TensorFragment& fragment =
      step.tensors[tensor.id.index()]->groups[static_cast<size_t>(group)];
  Range& range = RangeOf(tensor.id, group);
  range.begin = static_cast<int32_t>(slots_.size());
  if (fragment.outer > 0) AddPieceSlots(step, tensor);
  AddOwnSlots(fragment, range);
}

void FragmentLinker::AddPieceSlots(const StepFragments& step, const Tensor& tensor) {
  if (IsPersistent(tensor)) AddPersistentSlots(step, tensor.id);
  if (tensor.kind == TensorKind::kNext) AddPersistentSlots(step, tensor.of);
  for (OpId producer : graph_.producers(tensor.id)) {
    const auto& outputs = graph_.op(producer).outputs;
    const auto begin = static_cast<size_t>(operator_begin_[producer.index()].begin);
    for (size_t k = 0; k < outputs.size(); ++k) {
      if (outputs[k] != tensor.id) continue;
      for (const auto& result : step.operators[producer.index()]->results[k]) {
        const BufferId made = slots_[begin + static_cast<size_t>(result.slot)];
        slots_.push_back(made);
      }
    }
  }
}

void FragmentLinker::LinkOperator(const StepFragments& step, OpId id) {
  const OperatorFragment& fragment = *step.operators[id.index()];
  Range& range = operator_begin_[id.index()];
  range.begin = static_cast<int32_t>(slots_.size());
  for (const OperatorFragment::Read& read : fragment.reads) {
    const TensorFragments& source = *step.tensors[read.tensor.index()];
    const auto first =
        static_cast<size_t>(source.read_begin[static_cast<size_t>(read.consumer)] + read.place);
    const TensorFragments::Read& place = source.reads[first];
    const BufferId found =
        slots_[static_cast<size_t>(RangeOf(read.tensor, place.group).begin + place.slot)];
    slots_.push_back(found);
  }
  for (const OperatorFragment::Kept& kept : fragment.kept) {
    slots_.push_back(BufferId(persistent_begin_[kept.tensor.index()] + kept.piece));
  }
  AddOwnSlots(fragment, range);
  role_begin_[id.index()] = roles_.size();
  roles_.resize(roles_.size() + fragment.graph.tasks().size(), Role::kAsItIs);
}

bool FragmentLinker::IsPlain(const StepFragments& step, OpId id) const {
  const size_t tasks = step.operators[id.index()]->graph.tasks().size();
  const auto roles = std::span(roles_).subspan(role_begin_[id.index()], tasks);
  const auto is_changed = [](Role role) { return role != Role::kAsItIs; };
  if (TakesOthers(id) || std::any_of(roles.begin(), roles.end(), is_changed)) return false;
  if (native_.empty()) return true;
  const auto slots = OperatorSlots(id);
  return std::none_of(slots.begin(), slots.end(), [this](BufferId b) { return IsNative(b); });
}

std::vector<BufferId> FragmentLinker::ResolvedSlots(OpId id) const {
  std::vector<BufferId> slots;
  for (OpId op : OperatorsOf(id)) {
    const auto more = OperatorSlots(op);
    slots.insert(slots.end(), more.begin(), more.end());
  }
  return slots;
}

FragmentLinker::Variant FragmentLinker::VariantOf(const StepFragments& step, OpId id) const {
  Variant variant;
  const std::vector<BufferId> slots = ResolvedSlots(id);
  for (const Task& task : step.operators[id.index()]->graph.tasks()) {
    variant.push_back(static_cast<int32_t>(RoleOf(id, task.id.index())));
    const Chain chain = ChainOf(step, id, task.id);
    for (size_t c = 1; c < chain.size(); ++c) {
      variant.push_back(chain[c - 1].task.value());
      for (const auto& place : LinksOf(std::span(chain).first(c), chain[c], slots)) {
        variant.push_back(place ? 2 * place->index + (place->list == TensorPlace::List::kInput)
                                : -1);
      }
    }
  }
  for (OpId op : OperatorsOf(id)) {
    if (op != id) variant.push_back(step.operators[op.index()]->number);
  }
  for (BufferId buffer : slots) variant.push_back(IsNative(buffer) ? 1 : 0);
  return variant;
}

TaskGraph FragmentLinker::Resolve(const StepFragments& step, OpId id) const {
  const OperatorFragment& own = *step.operators[id.index()];
  const std::vector<BufferId> slots = ResolvedSlots(id);
  TaskGraphBuilder builder(own.graph.devices(), false);
  for (OpId op : OperatorsOf(id)) {
    for (Buffer buffer : step.operators[op.index()]->graph.buffers()) {
      const BufferId stands_for = slots[static_cast<size_t>(builder.buffers())];
      if (IsNative(stands_for)) buffer.format = Format::kNative;
      builder.AddBuffer(std::move(buffer));
    }
  }
  for (const Task& task : own.graph.tasks()) {
    const Role role = RoleOf(id, task.id.index());
    if (!IsKept(role)) continue;
    Kernel kernel = KernelOf(ChainOf(step, id, task.id), slots);
    if (role == Role::kTakesEpilogue) {
      kernel.signature = WithEpilogue(std::move(kernel.signature), EpilogueOf(id).attrs);
    }
    SetFormats(builder, kernel.task.inputs, kernel.signature.inputs);
    SetFormats(builder, kernel.task.outputs, kernel.signature.outputs);
    kernel.task.signature = builder.AddSignature(kernel.signature);
    builder.AddTask(task.key, std::move(kernel.task));
  }
  return std::move(builder).Build();
}

void FragmentLinker::ChooseFormats(const StepFragments& step) {
  FormatSets sets(static_cast<size_t>(buffers_));
  const auto apply = [&](const FormatRules& rules, std::span<const BufferId> slots) {
    for (const auto& [a, b] : rules.equal) sets.Join(slots[a.index()], slots[b.index()]);
    for (BufferId slot : rules.dense) sets.MakeDense(slots[slot.index()]);
  };
  const std::vector<int32_t>& classes = cache_.options().class_of_device;
  const auto has_native = [&](DeviceId device) {
    return classes.empty() || classes[device.index()] != PartitionOptions::kDenseOnly;
  };
  const auto apply_own = [&](const Fragment& fragment, int32_t first) {
    for (const Buffer& buffer : fragment.graph.buffers().subspan(fragment.outer)) {
      if (!MayBeNative(buffer) || !has_native(buffer.device)) sets.MakeDense(BufferId(first));
      ++first;
    }
  };
  for (const Tensor& tensor : graph_.tensors()) {
    if (!IsPersistent(tensor)) continue;
    const int32_t first = persistent_begin_[tensor.id.index()];
    const int32_t count = step.stores[tensor.id.index()]->own();
    for (int32_t p = 0; p < count; ++p) sets.MakeDense(BufferId(first + p));
  }
  for (const FragmentCache::Link& link : cache_.chain()) {
    if (link.is_tensor) {
      const TensorFragment& fragment =
          step.tensors[static_cast<size_t>(link.id)]->groups[static_cast<size_t>(link.group)];
      apply_own(fragment, RangeOf(TensorId(link.id), link.group).own);
      apply(fragment.formats, TensorSlots(TensorId(link.id), link.group));
      continue;
    }
    const OpId id(link.id);
    const OperatorFragment& fragment = *step.operators[id.index()];
    apply_own(fragment, operator_begin_[id.index()].own);
    for (size_t t = 0; t < fragment.formats.size(); ++t) {
      if (RoleOf(id, t) != Role::kInProducer) apply(fragment.formats[t], OperatorSlots(id));
    }
  }
  for (const HostOutput& output : outputs_) sets.MakeDense(output.buffer);
  native_.resize(static_cast<size_t>(buffers_));
  for (int32_t b = 0; b < buffers_; ++b) {
    native_[static_cast<size_t>(b)] = !sets.IsDense(BufferId(b));
  }
}

int32_t FragmentLinker::KeptTasks(const StepFragments& step, const ChainLink& link) const {
  const auto tasks = static_cast<int32_t>(step.FragmentOf(link).graph.tasks().size());
  if (link.is_tensor) return tasks;
  const auto first =
      roles_.begin() + static_cast<std::ptrdiff_t>(role_begin_[static_cast<size_t>(link.id)]);
  return static_cast<int32_t>(std::count_if(first, first + tasks, IsKept));
}

void FragmentLinker::NumberTasks(const StepFragments& step) {
  const std::vector<ChainLink>& chain = cache_.chain();
  first_task_.assign(chain.size(), 0);
  split_tasks_.clear();
  int32_t next = 0;
  for (const TaskRun& run : step.runs) {
    const auto link = static_cast<size_t>(run.link);
    if (run.bucket >= 0) {
      for (const auto& member : step.buckets[static_cast<size_t>(run.bucket)]->members) {
        SplitTask(step, member.link, member.task.value()) = TaskId(next);
      }
      ++next;
    } else if (run.end == TaskRun::kAll) {
      first_task_[link] = next;
      next += KeptTasks(step, chain[link]);
    } else {
      for (int32_t t = run.begin; t < run.end; ++t) SplitTask(step, run.link, t) = TaskId(next++);
    }
  }
}

TaskId& FragmentLinker::SplitTask(const StepFragments& step, int32_t link, int32_t task) {
  std::vector<TaskId>& tasks = split_tasks_[link];
  const Fragment& fragment = step.FragmentOf(cache_.chain()[static_cast<size_t>(link)]);
  tasks.resize(fragment.graph.tasks().size());
  return tasks[static_cast<size_t>(task)];
}

TaskId FragmentLinker::TaskOf(size_t link, TaskId task) const {
  const std::vector<TaskId>* split = SplitTasks(link);
  return split != nullptr ? (*split)[task.index()] : TaskId(first_task_[link] + task.value());
}

std::vector<BufferId> FragmentLinker::BucketSlots(const BucketFragment& bucket) const {
  std::vector<BufferId> slots;
  for (const BucketFragment::Source& source : bucket.sources) {
    const auto& member = bucket.members[static_cast<size_t>(source.member)];
    slots.push_back(TensorSlots(member.tensor, member.group)[static_cast<size_t>(source.slot)]);
  }
  return slots;
}

// The tasks of an operator that edges name, all of which are kept; by device.
const std::vector<std::pair<DeviceId, TaskId>>& FragmentLinker::TasksOf(const StepFragments& step,
                                                                        OpId id) {
  const auto [it, added] = awaited_.try_emplace(id);
  if (!added) return it->second;
  const int32_t first = first_task_[link_of_op_[id.index()]];
  for (const Task& task : step.operators[id.index()]->graph.tasks()) {
    it->second.emplace_back(std::get<ComputeTask>(task.body).device,
                            TaskId(first + task.id.value()));
  }
  std::sort(it->second.begin(), it->second.end());
  return it->second;
}

void FragmentLinker::LinkEdges(const StepFragments& step) {
  after_.clear();
  awaited_.clear();
  for (size_t k = 0; k < cache_.chain().size(); ++k) {
    const FragmentCache::Link& link = cache_.chain()[k];
    const Fragment& fragment = step.FragmentOf(link);
    if (fragment.edges.empty()) continue;
    for (const Fragment::Edge& edge : fragment.edges) {
      const auto& tasks = TasksOf(step, edge.op);
      auto it = std::lower_bound(tasks.begin(), tasks.end(), std::pair(edge.device, TaskId(0)));
      for (; it != tasks.end() && it->first == edge.device; ++it) {
        after_.emplace_back(TaskOf(k, edge.task), it->second);
      }
    }
  }
  std::sort(after_.begin(), after_.end());
  after_.erase(std::unique(after_.begin(), after_.end()), after_.end());
}

}  // namespace partita
