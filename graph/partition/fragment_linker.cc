#include "graph/partition/fragment_linker.h"

#include <algorithm>
#include <variant>

#include "graph/support/differences.h"

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

FragmentLinker::FragmentLinker(const FragmentCache& cache)
    : cache_(cache),
      graph_(cache.graph()),
      pair_of_(graph_.ops().size(), -1),
      epilogue_of_(graph_.ops().size(), kNoOp),
      next_of_(graph_.tensors().size()),
      linked_(cache.chain().size() + graph_.tensors().size(), kNoFragment),
      is_relinked_(cache.chain().size()),
      kept_tasks_(cache.chain().size(), 0),
      buffers_(cache.chain().size() + graph_.tensors().size()),
      slot_sections_(cache.chain().size()),
      roles_(graph_.ops().size()),
      link_of_op_(graph_.ops().size()),
      is_named_(graph_.ops().size(), false) {
  for (const Operator& op : graph_.ops()) {
    for (OpId before : op.after) is_named_[before.index()] = true;
  }
  for (OpId reader : graph_.weight_readers()) is_named_[reader.index()] = true;  // GatherOpener
  for (const Tensor& tensor : graph_.tensors()) {
    if (tensor.kind == TensorKind::kNext) next_of_[tensor.of.index()].push_back(tensor.id);
  }
  for (size_t k = 0; k < cache.chain().size(); ++k) {
    const FragmentCache::Link& link = cache.chain()[k];
    if (!link.is_tensor) link_of_op_[static_cast<size_t>(link.id)] = k;
  }
  if (cache.options().fuse) FindFusionPairs();
  taken_.resize(fusion_pairs_.size());
  FindFusionFamilies();
}

void FragmentLinker::Link(const StepFragments& step) {
  FindRelinked(step);
  LinkPersistent(step);
  for (int32_t place : relinked_) {
    const ChainLink& link = cache_.chain()[static_cast<size_t>(place)];
    if (link.is_tensor) {
      LinkTensor(step, graph_.tensor(TensorId(link.id)), link.group);
    } else {
      LinkOperator(step, OpId(link.id));
    }
  }
  outputs_.clear();
  for (TensorId id : HostTensors(graph_, cache_.options())) {
    const auto slot = static_cast<size_t>(step.tensors[id.index()]->host_slot);
    outputs_.push_back({id, TensorSlots(id, 0)[slot]});
  }
  Fuse(step);
  for (int32_t place : relinked_) {
    kept_tasks_[static_cast<size_t>(place)] =
        KeptTasks(step, cache_.chain()[static_cast<size_t>(place)]);
  }
  NumberTasks(step);
  if (cache_.options().native_formats) ChooseFormats(step);
}

// A link is linked again where its own fragment or what its outer slots stand for has changed, and
// where an operator that it may be fused with is; all where buffers are numbered anew.
void FragmentLinker::FindRelinked(const StepFragments& step) {
  for (int32_t place : relinked_) is_relinked_[static_cast<size_t>(place)] = 0;
  relinked_.clear();
  restored_.clear();
  if (buffers_.is_sparse() || slot_sections_.is_sparse()) {
    linked_.assign(linked_.size(), kNoFragment);
    buffers_.Clear();
    slot_sections_.Clear();
  }
  ForEachDifference<int64_t>(step.numbers, linked_, [this](size_t owner) { Relink(owner); });
  for (size_t k = 0; k < relinked_.size(); ++k) {
    const ChainLink& link = cache_.chain()[static_cast<size_t>(relinked_[k])];
    if (link.is_tensor) continue;
    for (OpId op : FusionFamilyOf(OpId(link.id))) MarkRelinked(LinkOf(op));
  }
  std::sort(relinked_.begin(), relinked_.end());
}

// Marks a link with another fragment than last, or a tensor with another store, and what depends on it.
void FragmentLinker::Relink(size_t owner) {
  if (owner >= cache_.chain().size()) return RelinkStored(OwnedTensor(owner));
  MarkRelinked(owner);
  const ChainLink& link = cache_.chain()[owner];
  if (link.is_tensor) return RelinkReaders(TensorId(link.id));
  for (TensorId output : graph_.op(OpId(link.id)).outputs) RelinkTensor(output);
}

void FragmentLinker::RelinkStored(TensorId id) {
  restored_.push_back(id);
  RelinkTensor(id);
  for (TensorId next : next_of_[id.index()]) {
    RelinkTensor(next);
    for (OpId keeper : graph_.producers(next)) MarkRelinked(LinkOf(keeper));
  }
}

void FragmentLinker::RelinkTensor(TensorId id) {
  for (int32_t place : cache_.places().of_tensor[id.index()]) {
    if (place >= 0) MarkRelinked(static_cast<size_t>(place));
  }
  RelinkReaders(id);
}

void FragmentLinker::RelinkReaders(TensorId id) {
  for (OpId reader : graph_.consumers(id)) MarkRelinked(LinkOf(reader));
}

void FragmentLinker::LinkPersistent(const StepFragments& step) {
  for (TensorId id : restored_) {
    if (!IsPersistent(graph_.tensor(id))) continue;
    buffers_.Resize(StoreOwner(id), step.stores[id.index()]->own());
  }
}

void FragmentLinker::AddPersistentSlots(TensorId id, std::vector<BufferId>& slots) const {
  const Sections::Section& stored = StoredBuffers(id);
  for (int32_t b = stored.begin; b < stored.end(); ++b) slots.push_back(BufferId(b));
}

void FragmentLinker::AddOwnSlots(size_t link, const Fragment& fragment,
                                 std::vector<BufferId>& slots) {
  const Sections::Section& own = buffers_.Resize(link, fragment.own());
  for (int32_t b = own.begin; b < own.end(); ++b) slots.push_back(BufferId(b));
  const Sections::Section& section =
      slot_sections_.Resize(link, static_cast<int32_t>(slots.size()));
  if (slots_.size() < static_cast<size_t>(slot_sections_.end())) {
    slots_.resize(static_cast<size_t>(slot_sections_.end()));
  }
  std::copy(slots.begin(), slots.end(), slots_.begin() + section.begin);
}

void FragmentLinker::LinkTensor(const StepFragments& step, const Tensor& tensor, int32_t group) {
  const TensorFragment& fragment = step.TensorFragmentOf(tensor.id, group);
  scratch_.clear();
  if (fragment.outer > 0) AddPieceSlots(step, tensor, scratch_);
  AddOwnSlots(LinkOf(tensor.id, group), fragment, scratch_);
}

// What producers make has the numbers of their own buffers, whatever fusion makes of them.
void FragmentLinker::AddPieceSlots(const StepFragments& step, const Tensor& tensor,
                                   std::vector<BufferId>& slots) const {
  if (IsPersistent(tensor)) AddPersistentSlots(tensor.id, slots);
  if (tensor.kind == TensorKind::kNext) AddPersistentSlots(tensor.of, slots);
  for (OpId producer : graph_.producers(tensor.id)) {
    const auto& outputs = graph_.op(producer).outputs;
    const OperatorFragment& fragment = *step.operators[producer.index()];
    const int32_t own = OwnBuffers(LinkOf(producer)).begin;
    for (size_t k = 0; k < outputs.size(); ++k) {
      if (outputs[k] != tensor.id) continue;
      for (const auto& result : fragment.results[k]) {
        slots.push_back(result.slot >= fragment.outer
                            ? BufferId(own + result.slot - fragment.outer)
                            : OperatorSlots(producer)[static_cast<size_t>(result.slot)]);
      }
    }
  }
}

void FragmentLinker::LinkOperator(const StepFragments& step, OpId id) {
  const OperatorFragment& fragment = *step.operators[id.index()];
  const Operator& op = graph_.op(id);
  scratch_.clear();
  first_reads_.clear();
  for (TensorId input : op.inputs) {
    const auto consumer = static_cast<size_t>(ConsumerPlace(graph_, input, id));
    first_reads_.push_back(step.tensors[input.index()]->read_begin[consumer]);
  }
  for (const OperatorFragment::Read& read : fragment.reads) {
    const auto input = static_cast<size_t>(read.input);
    const TensorId tensor = op.inputs[input];
    const auto number = static_cast<size_t>(first_reads_[input] + read.place);
    const TensorFragments::Read& place = step.tensors[tensor.index()]->reads[number];
    scratch_.push_back(TensorSlots(tensor, place.group)[static_cast<size_t>(place.slot)]);
  }
  for (const OperatorFragment::Kept& kept : fragment.kept) {
    const Tensor& next = graph_.tensor(op.outputs[static_cast<size_t>(kept.output)]);
    scratch_.push_back(BufferId(StoredBuffers(next.of).begin + kept.piece));
  }
  AddOwnSlots(LinkOf(id), fragment, scratch_);
  roles_[id.index()].assign(fragment.graph.size(), Role::kAsItIs);
}

bool FragmentLinker::IsPlain(OpId id) const {
  const std::vector<Role>& roles = roles_[id.index()];
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
    if (op == id) continue;
    const int64_t number = step.operators[op.index()]->number;
    variant.push_back(static_cast<int32_t>(number >> 32));
    variant.push_back(static_cast<int32_t>(number));
  }
  variant.push_back(epilogue_of_[id.index()].value());
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
      kernel.signature =
          WithEpilogue(std::move(kernel.signature), graph_.op(epilogue_of_[id.index()]).attrs);
    }
    SetFormats(builder, kernel.task.inputs, kernel.signature.inputs);
    SetFormats(builder, kernel.task.outputs, kernel.signature.outputs);
    kernel.task.signature = builder.AddSignature(kernel.signature);
    builder.AddTask(task.key, std::move(kernel.task));
  }
  return std::move(builder).Build();
}

void FragmentLinker::ChooseFormats(const StepFragments& step) {
  FormatSets sets(static_cast<size_t>(buffers()));
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
    const Sections::Section& stored = StoredBuffers(tensor.id);
    for (int32_t b = stored.begin; b < stored.end(); ++b) sets.MakeDense(BufferId(b));
  }
  for (size_t place = 0; place < cache_.chain().size(); ++place) {
    const FragmentCache::Link& link = cache_.chain()[place];
    apply_own(step.FragmentOf(link), OwnBuffers(place).begin);
    if (link.is_tensor) {
      const TensorFragment& fragment = step.TensorFragmentOf(TensorId(link.id), link.group);
      apply(fragment.formats, TensorSlots(TensorId(link.id), link.group));
      continue;
    }
    const OpId id(link.id);
    const OperatorFragment& fragment = *step.operators[id.index()];
    for (size_t t = 0; t < fragment.formats.size(); ++t) {
      if (RoleOf(id, t) != Role::kInProducer) apply(fragment.formats[t], OperatorSlots(id));
    }
  }
  for (const HostOutput& output : outputs_) sets.MakeDense(output.buffer);
  native_.resize(static_cast<size_t>(buffers()));
  for (int32_t b = 0; b < buffers(); ++b) {
    native_[static_cast<size_t>(b)] = !sets.IsDense(BufferId(b));
  }
}

int32_t FragmentLinker::KeptTasks(const StepFragments& step, const ChainLink& link) const {
  const auto tasks = static_cast<int32_t>(step.FragmentOf(link).graph.size());
  if (link.is_tensor) return tasks;
  const std::vector<Role>& roles = roles_[static_cast<size_t>(link.id)];
  return static_cast<int32_t>(std::count_if(roles.begin(), roles.end(), IsKept));
}

void FragmentLinker::NumberTasks(const StepFragments& step) {
  first_task_.assign(cache_.chain().size(), 0);
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
      next += kept_tasks_[link];
    } else {
      for (int32_t t = run.begin; t < run.end; ++t) SplitTask(step, run.link, t) = TaskId(next++);
    }
  }
}

TaskId& FragmentLinker::SplitTask(const StepFragments& step, int32_t link, int32_t task) {
  std::vector<TaskId>& tasks = split_tasks_[link];
  const Fragment& fragment = step.FragmentOf(cache_.chain()[static_cast<size_t>(link)]);
  tasks.resize(fragment.graph.size());
  return tasks[static_cast<size_t>(task)];
}

TaskId FragmentLinker::TaskOf(size_t link, TaskId task) const {
  const auto split = split_tasks_.find(static_cast<int32_t>(link));
  if (split != split_tasks_.end()) return split->second[task.index()];
  return TaskId(first_task_[link] + task.value());
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
  int32_t first = first_task_[link_of_op_[id.index()]];
  for (DeviceId device : step.operators[id.index()]->devices) {
    it->second.emplace_back(device, TaskId(first++));
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
