#include "graph/task/step_link.h"

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

bool IsPersistent(const Tensor& tensor) {
  return tensor.kind == TensorKind::kWeight || tensor.kind == TensorKind::kState;
}

}  // namespace

StepLink::StepLink(const FragmentCache& cache) : cache_(cache), graph_(cache.graph()) {
  operator_begin_.resize(graph_.ops().size());
  tensor_begin_.resize(graph_.tensors().size());
  persistent_begin_.resize(graph_.tensors().size());
  role_begin_.resize(graph_.ops().size());
  if (cache.options().fuse) FindFusionPairs();
}

void StepLink::FindFusionPairs() {
  for (const Operator& op : graph_.ops()) {
    if (IsForwardRelu(op)) FindFusionPair(op, 0);
    if (TakesGradient(op.attrs)) FindFusionPair(op, kGradientInput);
  }
}

void StepLink::FindFusionPair(const Operator& reader, size_t input) {
  const TensorId tensor = reader.inputs[input];
  const auto producers = graph_.producers(tensor);
  if (producers.size() != 1 || !CanFuse(graph_.op(producers[0]), reader)) return;
  fusion_pairs_.push_back(
      {tensor, producers[0], reader.id, ConsumerPlace(graph_, tensor, reader.id)});
}

void StepLink::Link(const StepFragments& step) {
  buffers_ = 0;
  slots_.clear();
  roles_.clear();
  outputs_.clear();
  LinkPersistent(step);
  for (const FragmentCache::Link& link : cache_.chain()) {
    if (link.is_tensor) {
      LinkTensor(step, graph_.tensor(TensorId(link.id)));
    } else {
      LinkOperator(step, OpId(link.id));
    }
  }
  for (TensorId id : HostTensors(graph_, cache_.options())) {
    const auto slot = static_cast<size_t>(step.tensors[id.index()]->host_slot);
    outputs_.push_back({id, TensorSlots(id)[slot]});
  }
  Fuse(step);
  if (cache_.options().native_formats) ChooseFormats(step);
}

void StepLink::LinkPersistent(const StepFragments& step) {
  for (const Tensor& tensor : graph_.tensors()) {
    if (!IsPersistent(tensor)) continue;
    persistent_begin_[tensor.id.index()] = buffers_;
    buffers_ += static_cast<int32_t>(step.persistent[tensor.id.index()]->size());
  }
}

void StepLink::AddPersistentSlots(const StepFragments& step, TensorId id) {
  const int32_t first = persistent_begin_[id.index()];
  const auto count = static_cast<int32_t>(step.persistent[id.index()]->size());
  for (int32_t p = 0; p < count; ++p) slots_.push_back(BufferId(first + p));
}

void StepLink::AddOwnSlots(const Fragment& fragment, Range& range) {
  range.own = buffers_;
  for (int32_t s = 0; s < fragment.own(); ++s) slots_.push_back(BufferId(buffers_++));
  range.size = fragment.slots();
}

void StepLink::LinkTensor(const StepFragments& step, const Tensor& tensor) {
  Range& range = tensor_begin_[tensor.id.index()];
  range.begin = static_cast<int32_t>(slots_.size());
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
  AddOwnSlots(*step.tensors[tensor.id.index()], range);
}

void StepLink::LinkOperator(const StepFragments& step, OpId id) {
  const OperatorFragment& fragment = *step.operators[id.index()];
  Range& range = operator_begin_[id.index()];
  range.begin = static_cast<int32_t>(slots_.size());
  for (const OperatorFragment::Read& read : fragment.reads) {
    const TensorFragment& source = *step.tensors[read.tensor.index()];
    const auto first =
        static_cast<size_t>(source.read_begin[static_cast<size_t>(read.consumer)] + read.place);
    const BufferId found = slots_[static_cast<size_t>(tensor_begin_[read.tensor.index()].begin +
                                                      source.read_slots[first])];
    slots_.push_back(found);
  }
  for (const OperatorFragment::Kept& kept : fragment.kept) {
    slots_.push_back(BufferId(persistent_begin_[kept.tensor.index()] + kept.piece));
  }
  AddOwnSlots(fragment, range);
  role_begin_[id.index()] = roles_.size();
  roles_.resize(roles_.size() + fragment.graph.tasks().size(), Role::kAsItIs);
}

void StepLink::Fuse(const StepFragments& step) {
  gradients_.clear();
  for (const FusionPair& pair : fusion_pairs_) {
    const TensorFragment& between = *step.tensors[pair.tensor.index()];
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
        gradients_[place] = {pair.producer, made.task};
      }
    }
  }
}

void StepLink::ChooseFormats(const StepFragments& step) {
  FormatSets sets(static_cast<size_t>(buffers_));
  const auto apply = [&](const FormatRules& rules, std::span<const BufferId> slots) {
    for (const auto& [a, b] : rules.equal) sets.Join(slots[a.index()], slots[b.index()]);
    for (BufferId slot : rules.dense) sets.MakeDense(slots[slot.index()]);
  };
  const auto apply_own = [&](const Fragment& fragment, int32_t first) {
    for (const Buffer& buffer : fragment.graph.buffers().subspan(fragment.outer)) {
      if (!MayBeNative(buffer)) sets.MakeDense(BufferId(first));
      ++first;
    }
  };
  for (const Tensor& tensor : graph_.tensors()) {
    if (!IsPersistent(tensor)) continue;
    const int32_t first = persistent_begin_[tensor.id.index()];
    const auto count = static_cast<int32_t>(step.persistent[tensor.id.index()]->size());
    for (int32_t p = 0; p < count; ++p) sets.MakeDense(BufferId(first + p));
  }
  for (const FragmentCache::Link& link : cache_.chain()) {
    if (link.is_tensor) {
      const TensorFragment& fragment = *step.tensors[static_cast<size_t>(link.id)];
      apply_own(fragment, tensor_begin_[static_cast<size_t>(link.id)].own);
      apply(fragment.formats, TensorSlots(TensorId(link.id)));
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

}  // namespace partita
