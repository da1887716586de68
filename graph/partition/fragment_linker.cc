#include "graph/partition/fragment_linker.h"

#include <algorithm>
#include <variant>

namespace partita {
namespace {

bool IsForwardRelu(const Operator& op) {
  return op.pass.is_forward() && std::holds_alternative<Relu>(op.attrs);
}

// Whether one kernel can do what makes a tensor and what reads it.
bool CanFuse(const Operator& producer, const Operator& reader) {
  if (producer.outputs.size() != 1) return false;
  return IsForwardRelu(reader) ? producer.pass.is_forward() && CanFuseRelu(producer.attrs)
                               : CanFuseUpdate(producer.attrs, producer.pass);
}

struct Kernel {
  ComputeTask task;
  KernelSignature signature;
};

Kernel KernelOf(const OperatorFragment& fragment, TaskId id) {
  Kernel kernel{std::get<ComputeTask>(fragment.graph.task(id).body), {}};
  kernel.signature = fragment.graph.signatures()[static_cast<size_t>(kernel.task.signature)];
  return kernel;
}

// The update's kernel becomes one that computes the gradient, too.
void TakeGradient(Kernel gradient, Kernel& update) {
  const auto take = [](auto& first, auto& rest) {
    rest.erase(rest.begin() + kGradientInput);
    rest.insert(rest.begin(), first.begin(), first.end());
  };
  take(gradient.task.inputs, update.task.inputs);
  take(gradient.task.input_boxes, update.task.input_boxes);
  take(gradient.signature.inputs, update.signature.inputs);
  update.task.gradient = gradient.task.op;
  update.signature.fused_update = update.signature.attrs;
  update.signature.attrs = gradient.signature.attrs;
  update.signature.pass = gradient.signature.pass;
}

void SetFormats(const TaskGraphBuilder& builder, const std::vector<BufferId>& buffers,
                std::vector<KernelTensor>& tensors) {
  for (size_t k = 0; k < buffers.size(); ++k) {
    if (buffers[k] != kNoBuffer) tensors[k].format = builder.buffer(buffers[k]).format;
  }
}

// Whether the kernel itself remains.
bool IsKept(FragmentLinker::Role role) {
  return role != FragmentLinker::Role::kInProducer && role != FragmentLinker::Role::kInUpdate;
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
  gradient_of_.resize(graph_.ops().size(), kNoOp);
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

void FragmentLinker::FindFusionPairs() {
  for (const Operator& op : graph_.ops()) {
    if (IsForwardRelu(op)) FindFusionPair(op, 0);
    if (TakesGradient(op.attrs)) FindFusionPair(op, kGradientInput);
  }
}

void FragmentLinker::FindFusionPair(const Operator& reader, size_t input) {
  const TensorId tensor = reader.inputs[input];
  const auto producers = graph_.producers(tensor);
  if (producers.size() != 1 || !CanFuse(graph_.op(producers[0]), reader)) return;
  if (!MayVanish(IsForwardRelu(reader) ? reader : graph_.op(producers[0]))) return;
  fusion_pairs_.push_back(
      {tensor, producers[0], reader.id, ConsumerPlace(graph_, tensor, reader.id)});
  if (!IsForwardRelu(reader)) gradient_of_[reader.id.index()] = producers[0];
}

bool FragmentLinker::MayVanish(const Operator& op) const {
  return op.after.empty() && !is_named_[op.id.index()];
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

void FragmentLinker::Fuse(const StepFragments& step) {
  gradients_.clear();
  takes_gradients_.assign(graph_.ops().size(), false);
  for (const FusionPair& pair : fusion_pairs_) {
    const TensorFragments& between = *step.tensors[pair.tensor.index()];
    const OperatorFragment& producer = *step.operators[pair.producer.index()];
    const OperatorFragment& reader = *step.operators[pair.reader.index()];
    const auto first = static_cast<size_t>(between.read_begin[static_cast<size_t>(pair.consumer)]);
    for (size_t r = 0; r < reader.reading_task.size(); ++r) {
      const int32_t piece = between.lone_reads[first + r];
      if (piece < 0) continue;
      const auto& made = producer.results[0][static_cast<size_t>(piece)];
      const int32_t task = reader.reading_task[r];
      Role& producer_role =
          roles_[role_begin_[pair.producer.index()] + static_cast<size_t>(made.task)];
      const size_t place = role_begin_[pair.reader.index()] + static_cast<size_t>(task);
      if (IsForwardRelu(graph_.op(pair.reader))) {
        producer_role = Role::kTakesRelu;
        roles_[place] = Role::kInProducer;
        const auto& relu = std::get<ComputeTask>(reader.graph.task(TaskId(task)).body);
        slots_[static_cast<size_t>(operator_begin_[pair.producer.index()].begin + made.slot)] =
            OperatorSlots(pair.reader)[relu.outputs[0].index()];
      } else {
        producer_role = Role::kInUpdate;
        roles_[place] = Role::kTakesGradient;
        gradients_[place] = TaskId(made.task);
        takes_gradients_[pair.reader.index()] = true;
      }
    }
  }
}

bool FragmentLinker::IsPlain(const StepFragments& step, OpId id) const {
  const size_t tasks = step.operators[id.index()]->graph.tasks().size();
  const auto roles = std::span(roles_).subspan(role_begin_[id.index()], tasks);
  const auto is_changed = [](Role role) { return role != Role::kAsItIs; };
  if (std::any_of(roles.begin(), roles.end(), is_changed)) return false;
  if (native_.empty()) return true;
  const auto slots = OperatorSlots(id);
  return std::none_of(slots.begin(), slots.end(), [this](BufferId b) { return IsNative(b); });
}

std::vector<BufferId> FragmentLinker::ResolvedSlots(OpId id) const {
  const auto own = OperatorSlots(id);
  std::vector<BufferId> slots(own.begin(), own.end());
  if (!TakesGradients(id)) return slots;
  const auto more = OperatorSlots(gradient_of_[id.index()]);
  slots.insert(slots.end(), more.begin(), more.end());
  return slots;
}

FragmentLinker::Variant FragmentLinker::VariantOf(const StepFragments& step, OpId id) const {
  Variant variant;
  for (size_t t = 0; t < step.operators[id.index()]->graph.tasks().size(); ++t) {
    variant.push_back(static_cast<int32_t>(RoleOf(id, t)));
    if (RoleOf(id, t) == Role::kTakesGradient) variant.push_back(GradientFor(id, t).value());
  }
  if (TakesGradients(id)) {
    variant.push_back(step.operators[gradient_of_[id.index()].index()]->number);
  }
  for (BufferId buffer : ResolvedSlots(id)) variant.push_back(IsNative(buffer) ? 1 : 0);
  return variant;
}

TaskGraph FragmentLinker::Resolve(const StepFragments& step, OpId id) const {
  const OperatorFragment& own = *step.operators[id.index()];
  const OperatorFragment* gradient =
      TakesGradients(id) ? step.operators[gradient_of_[id.index()].index()] : nullptr;
  const std::vector<BufferId> slots = ResolvedSlots(id);
  TaskGraphBuilder builder(own.graph.devices());
  for (const OperatorFragment* fragment : {&own, gradient}) {
    if (fragment == nullptr) continue;
    for (Buffer buffer : fragment->graph.buffers()) {
      const BufferId stands_for = slots[static_cast<size_t>(builder.buffers())];
      if (IsNative(stands_for)) buffer.format = Format::kNative;
      builder.AddBuffer(std::move(buffer));
    }
  }
  for (const Task& task : own.graph.tasks()) {
    const Role role = RoleOf(id, task.id.index());
    if (!IsKept(role)) continue;
    Kernel kernel = KernelOf(own, task.id);
    kernel.signature.fused_relu = role == Role::kTakesRelu;
    if (role == Role::kTakesGradient) {
      Kernel taken = KernelOf(*gradient, GradientFor(id, task.id.index()));
      for (BufferId& slot : taken.task.inputs) {
        if (slot != kNoBuffer) slot = BufferId(own.slots() + slot.value());
      }
      TakeGradient(std::move(taken), kernel);
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

void FragmentLinker::NumberTasks(const StepFragments& step) {
  first_task_.clear();
  int32_t next = 0;
  for (const FragmentCache::Link& link : cache_.chain()) {
    first_task_.push_back(next);
    const auto id = static_cast<size_t>(link.id);
    if (link.is_tensor) {
      const auto& groups = step.tensors[id]->groups;
      next += static_cast<int32_t>(groups[static_cast<size_t>(link.group)].graph.tasks().size());
      continue;
    }
    for (size_t t = 0; t < step.operators[id]->graph.tasks().size(); ++t) {
      if (IsKept(RoleOf(OpId(link.id), t))) ++next;
    }
  }
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
  bool is_numbered = false;
  for (size_t k = 0; k < cache_.chain().size(); ++k) {
    const FragmentCache::Link& link = cache_.chain()[k];
    const auto id = static_cast<size_t>(link.id);
    const Fragment& fragment = link.is_tensor
                                   ? static_cast<const Fragment&>(
                                         step.tensors[id]->groups[static_cast<size_t>(link.group)])
                                   : *step.operators[id];
    if (fragment.edges.empty()) continue;
    if (!is_numbered) NumberTasks(step);
    is_numbered = true;
    for (const Fragment::Edge& edge : fragment.edges) {
      const auto& tasks = TasksOf(step, edge.op);
      auto it = std::lower_bound(tasks.begin(), tasks.end(), std::pair(edge.device, TaskId(0)));
      for (; it != tasks.end() && it->first == edge.device; ++it) {
        after_.emplace_back(TaskId(first_task_[k] + edge.task.value()), it->second);
      }
    }
  }
  std::sort(after_.begin(), after_.end());
  after_.erase(std::unique(after_.begin(), after_.end()), after_.end());
}

}  // namespace partita
