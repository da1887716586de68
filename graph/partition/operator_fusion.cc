// Fusion of operators' kernels into chains: which operators may be joined at all, and which of
// their tasks are in a strategy's step.
#include <algorithm>
#include <variant>

#include "graph/partition/fragment_linker.h"
#include "graph/support/disjoint_sets.h"

namespace partita {
namespace {

bool IsForwardEpilogue(const Operator& op) { return op.pass.is_forward() && IsEpilogue(op.attrs); }

// Inputs that `next` has and the kernels before it have not; then `next` is the last of them. Kernels that
// are only priced have no boxes.
void Append(const ComputeTask& next, const InputLinks& links, ComputeTask& kernel) {
  for (size_t k = 0; k < next.inputs.size(); ++k) {
    if (links[k].has_value()) continue;
    kernel.inputs.push_back(next.inputs[k]);
    if (!next.input_boxes.empty()) kernel.input_boxes.push_back(next.input_boxes[k]);
  }
  kernel.outputs.insert(kernel.outputs.end(), next.outputs.begin(), next.outputs.end());
  kernel.output_boxes.insert(kernel.output_boxes.end(), next.output_boxes.begin(),
                             next.output_boxes.end());
  kernel.before.push_back(kernel.op);
  kernel.op = next.op;
  kernel.part = next.part;
}

void ShiftSlots(int32_t first, ComputeTask& task) {
  for (auto* slots : {&task.inputs, &task.outputs}) {
    for (BufferId& slot : *slots) {
      if (slot != kNoBuffer) slot = BufferId(first + slot.value());
    }
  }
}

}  // namespace

FragmentLinker::Kernel FragmentLinker::OwnKernel(const ChainedKernel& chained) {
  const TaskGraph& graph = chained.fragment->graph;
  Kernel kernel{std::get<ComputeTask>(graph.task(chained.task).body), {}};
  kernel.signature = graph.signatures()[static_cast<size_t>(kernel.task.signature)];
  ShiftSlots(chained.first_slot, kernel.task);
  return kernel;
}

void FragmentLinker::FindFusionPairs() {
  for (const Operator& op : graph_.ops()) {
    if (IsForwardEpilogue(op)) FindLonePair(FusionPair::Kind::kEpilogue, op, 0);
    if (TakesGradient(op.attrs)) FindLonePair(FusionPair::Kind::kGradient, op, kGradientInput);
  }
  FindPairsTakenIn();
  std::vector<OpId> epilogues;  // of different attributes
  for (size_t p = 0; p < fusion_pairs_.size(); ++p) {
    const FusionPair& pair = fusion_pairs_[p];
    if (pair.kind != FusionPair::Kind::kEpilogue) {
      pair_of_[pair.reader.index()] = static_cast<int32_t>(p);
      continue;
    }
    const auto known = std::find_if(epilogues.begin(), epilogues.end(), [&](OpId other) {
      return graph_.op(other).attrs == graph_.op(pair.reader).attrs;
    });
    epilogue_of_[pair.producer.index()] = known == epilogues.end() ? pair.reader : *known;
    if (known == epilogues.end()) epilogues.push_back(pair.reader);
  }
}

std::vector<FragmentLinker::MayFuse> FragmentLinker::may_fuse() const {
  std::vector<MayFuse> pairs;
  for (const FusionPair& pair : fusion_pairs_) {
    pairs.push_back({pair.producer, pair.reader, pair.tensor});
  }
  return pairs;
}

// A pair of a result and its only reader.
void FragmentLinker::FindLonePair(FusionPair::Kind kind, const Operator& reader, size_t input) {
  const TensorId tensor = reader.inputs[input];
  const auto producers = graph_.producers(tensor);
  if (producers.size() != 1 || graph_.op(producers[0]).outputs.size() != 1) return;
  const Operator& producer = graph_.op(producers[0]);
  const bool epilogue = kind == FusionPair::Kind::kEpilogue;
  const bool fits = epilogue ? producer.pass.is_forward() && TakesEpilogue(producer.attrs)
                             : CanFuseUpdate(producer.attrs, producer.pass);
  if (!fits || !MayVanish(epilogue ? reader : producer)) return;
  fusion_pairs_.push_back(
      {kind, producer.id, reader.id, tensor, ConsumerPlace(graph_, tensor, reader.id)});
}

// Last readers first, so that the kernel that does a reader is known.
void FragmentLinker::FindPairsTakenIn() {
  std::vector<OpId> kernel_of;  // indexed by OpId: the operator whose kernel does it in the end
  for (const Operator& op : graph_.ops()) kernel_of.push_back(op.id);
  std::vector<FusionPair> found;
  for (size_t r = graph_.ops().size(); r-- > 0;) {
    const Operator& reader = graph_.ops()[r];
    for (TensorId tensor : reader.inputs) {
      const auto producers = graph_.producers(tensor);
      if (producers.size() != 1) continue;
      const Operator& producer = graph_.op(producers[0]);
      if (!CanTakeIn(producer, reader, kernel_of)) continue;
      kernel_of[producer.id.index()] = kernel_of[r];
      found.push_back({FusionPair::Kind::kTakenIn, producer.id, reader.id, tensor,
                       ConsumerPlace(graph_, tensor, reader.id)});
      break;
    }
  }
  fusion_pairs_.insert(fusion_pairs_.end(), found.rbegin(), found.rend());
}

bool FragmentLinker::CanTakeIn(const Operator& producer, const Operator& reader,
                               std::span<const OpId> kernel_of) const {
  if (!producer.pass.is_forward() || !reader.pass.is_forward()) return false;
  if (!TakesIn(reader.attrs, producer.attrs) || !MayVanish(producer)) return false;
  if (producer.anchor == kNoOp || producer.anchor != reader.anchor) return false;
  if (kernel_of[producer.id.index()] != producer.id) return false;
  const OpId kernel = kernel_of[reader.id.index()];
  for (TensorId tensor : producer.outputs) {
    if (graph_.producers(tensor).size() != 1) return false;
    for (OpId other : graph_.consumers(tensor)) {
      const OpId done_by = kernel_of[other.index()];
      if (done_by != kernel && link_of_op_[done_by.index()] < link_of_op_[kernel.index()]) {
        return false;
      }
    }
  }
  return true;
}

bool FragmentLinker::MayVanish(const Operator& op) const {
  return op.after.empty() && !is_named_[op.id.index()];
}

void FragmentLinker::FindFusionFamilies() {
  DisjointSets sets(graph_.ops().size());
  for (const FusionPair& pair : fusion_pairs_) {
    sets.Join(pair.producer.index(), pair.reader.index());
  }
  std::vector<int32_t> family_of_root(graph_.ops().size(), -1);
  for (size_t p = 0; p < fusion_pairs_.size(); ++p) {
    int32_t& family = family_of_root[sets.RootOf(fusion_pairs_[p].producer.index())];
    if (family < 0) {
      family = static_cast<int32_t>(families_.size());
      families_.emplace_back();
    }
    families_[static_cast<size_t>(family)].pairs.push_back(p);
  }
  for (const Operator& op : graph_.ops()) {
    const int32_t family = family_of_root[sets.RootOf(op.id.index())];
    family_of_.push_back(family);
    if (family >= 0) families_[static_cast<size_t>(family)].operators.push_back(op.id);
  }
}

// All operators of a family are linked again, or none: then its fusion stays.
void FragmentLinker::Fuse(const StepFragments& step) {
  for (const FusionFamily& family : families_) {
    if (!is_relinked_[LinkOf(family.operators[0])]) continue;
    for (size_t p : family.pairs) {
      taken_[p].clear();
      if (fusion_pairs_[p].kind == FusionPair::Kind::kTakenIn) {
        TakeIn(step, p);
      } else {
        FuseLoneReads(step, p);
      }
    }
  }
}

void FragmentLinker::FuseLoneReads(const StepFragments& step, size_t number) {
  const FusionPair& pair = fusion_pairs_[number];
  const TensorFragments& between = *step.tensors[pair.tensor.index()];
  const OperatorFragment& producer = *step.operators[pair.producer.index()];
  const OperatorFragment& reader = *step.operators[pair.reader.index()];
  const auto first = static_cast<size_t>(between.read_begin[static_cast<size_t>(pair.consumer)]);
  for (size_t r = 0; r < reader.reading_task.size(); ++r) {
    const int32_t piece = between.lone_reads[first + r];
    if (piece < 0) continue;
    const auto& made = producer.results[0][static_cast<size_t>(piece)];
    const auto task = static_cast<size_t>(reader.reading_task[r]);
    Role& producer_role = roles_[pair.producer.index()][static_cast<size_t>(made.task)];
    if (pair.kind == FusionPair::Kind::kEpilogue) {
      producer_role = Role::kTakesEpilogue;
      roles_[pair.reader.index()][task] = Role::kInProducer;
      const auto& epilogue = std::get<ComputeTask>(reader.graph.tasks()[task].body);
      slots_[static_cast<size_t>(slot_sections_[LinkOf(pair.producer)].begin + made.slot)] =
          OperatorSlots(pair.reader)[epilogue.outputs[0].index()];
    } else {
      producer_role = Role::kInReader;
      taken_[number].resize(reader.graph.tasks().size(), -1);
      taken_[number][task] = made.task;
    }
  }
}

// All of the producer's kernels go, or none.
void FragmentLinker::TakeIn(const StepFragments& step, size_t number) {
  const FusionPair& pair = fusion_pairs_[number];
  std::vector<int32_t> producers = ProducersOfTasks(step, pair);
  std::vector<Role>& roles = roles_[pair.producer.index()];
  for (int32_t task : producers) roles[static_cast<size_t>(task)] = Role::kInReader;
  taken_[number] = std::move(producers);
}

// The producer's task whose results each of the reader's tasks reads where they were written; empty
// unless each has one of its own and nothing is exchanged.
std::vector<int32_t> FragmentLinker::ProducersOfTasks(const StepFragments& step,
                                                      const FusionPair& pair) const {
  const Operator& producer_op = graph_.op(pair.producer);
  const OperatorFragment& producer = *step.operators[pair.producer.index()];
  const OperatorFragment& reader = *step.operators[pair.reader.index()];
  absl::flat_hash_map<BufferId, int32_t> maker;
  for (size_t k = 0; k < producer_op.outputs.size(); ++k) {
    for (const TensorFragment& between : step.tensors[producer_op.outputs[k].index()]->groups) {
      if (between.graph.size() > 0) return {};
    }
    for (const auto& made : producer.results[k]) {
      maker[OperatorSlots(pair.producer)[static_cast<size_t>(made.slot)]] = made.task;
    }
  }
  std::vector<int32_t> producers(reader.graph.tasks().size(), -1);
  std::vector<bool> is_read(producer.graph.tasks().size(), false);
  if (producers.size() != is_read.size()) return {};
  const std::vector<TensorId>& inputs = graph_.op(pair.reader).inputs;
  for (const Task& task : reader.graph.tasks()) {
    const auto& body = std::get<ComputeTask>(task.body);
    int32_t& found = producers[task.id.index()];
    for (size_t k = 0; k < inputs.size(); ++k) {
      if (graph_.producers(inputs[k]).size() != 1) continue;
      if (graph_.producers(inputs[k])[0] != pair.producer) continue;
      if (body.inputs[k] == kNoBuffer) return {};
      const auto it = maker.find(OperatorSlots(pair.reader)[body.inputs[k].index()]);
      if (it == maker.end() || (found >= 0 && found != it->second)) return {};
      found = it->second;
    }
    if (found < 0 || is_read[static_cast<size_t>(found)]) return {};
    is_read[static_cast<size_t>(found)] = true;
  }
  return producers;
}

absl::InlinedVector<OpId, 4> FragmentLinker::OperatorsOf(OpId id) const {
  absl::InlinedVector<OpId, 4> operators = {id};
  while (TakesOthers(operators.back())) {
    const auto pair = static_cast<size_t>(pair_of_[operators.back().index()]);
    operators.push_back(fusion_pairs_[pair].producer);
  }
  return operators;
}

FragmentLinker::Chain FragmentLinker::ChainOf(const StepFragments& step, OpId id,
                                              TaskId task) const {
  Chain chain;
  int32_t first_slot = 0;
  for (OpId op : OperatorsOf(id)) {
    const OperatorFragment* fragment = step.operators[op.index()];
    chain.insert(chain.begin(), ChainedKernel{fragment, task, first_slot});
    first_slot += fragment->slots();
    if (!TakesOthers(op)) break;
    const int32_t taken = taken_[static_cast<size_t>(pair_of_[op.index()])][task.index()];
    if (taken < 0) break;
    task = TaskId(taken);
  }
  return chain;
}

// Inputs of `next` among the tensors of a kernel that does those before it.
InputLinks FragmentLinker::LinksOf(std::span<const ChainedKernel> before, const ChainedKernel& next,
                                   std::span<const BufferId> slots) const {
  using List = TensorPlace::List;
  const auto buffer_of = [&](const ChainedKernel& kernel, BufferId slot) {
    const auto place = static_cast<size_t>(kernel.first_slot + slot.value());
    return slot == kNoBuffer ? kNoBuffer : slots[place];
  };
  absl::flat_hash_map<BufferId, TensorPlace> places;
  int32_t inputs = 0, outputs = 0;
  for (const ChainedKernel& kernel : before) {
    const auto& body = std::get<ComputeTask>(kernel.fragment->graph.task(kernel.task).body);
    std::vector<std::pair<BufferId, TensorPlace>> added;
    for (BufferId slot : body.inputs) {
      const BufferId buffer = buffer_of(kernel, slot);
      if (!places.contains(buffer)) added.push_back({buffer, {List::kInput, inputs++}});
    }
    for (BufferId slot : body.outputs) {
      added.push_back({buffer_of(kernel, slot), {List::kOutput, outputs++}});
    }
    places.insert(added.begin(), added.end());
    places.erase(kNoBuffer);
  }
  const auto& body = std::get<ComputeTask>(next.fragment->graph.task(next.task).body);
  InputLinks links(body.inputs.size());
  for (size_t k = 0; k < links.size(); ++k) {
    const auto it = places.find(buffer_of(next, body.inputs[k]));
    if (it != places.end()) links[k] = it->second;
  }
  return links;
}

FragmentLinker::Kernel FragmentLinker::KernelOf(const Chain& chain,
                                                std::span<const BufferId> slots) const {
  Kernel kernel = OwnKernel(chain[0]);
  for (size_t c = 1; c < chain.size(); ++c) {
    Kernel next = OwnKernel(chain[c]);
    if (TakesGradient(next.signature.attrs)) {
      InputLinks links(next.task.inputs.size());
      links[kGradientInput] = TensorPlace{TensorPlace::List::kInner, 0};
      kernel.task.outputs.clear();
      kernel.task.output_boxes.clear();
      kernel.signature = FusedUpdate(kernel.signature, next.signature);
      Append(next.task, links, kernel.task);
      continue;
    }
    const InputLinks links = LinksOf(std::span(chain).first(c), chain[c], slots);
    kernel.signature = Fused(std::move(kernel.signature), next.signature, links);
    Append(next.task, links, kernel.task);
  }
  return kernel;
}

}  // namespace partita
