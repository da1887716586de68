#include "planner/bound/partial_bound.h"

#include <algorithm>
#include <tuple>
#include <utility>
#include <variant>

#include "graph/parallel/parts.h"
#include "graph/parallel/weight_layouts.h"
#include "graph/support/check.h"

namespace partita {
namespace {

int64_t SumOf(const std::vector<int64_t>& values) {
  int64_t sum = 0;
  for (int64_t value : values) sum += value;
  return sum;
}

// Inputs of an operator that are told apart.
constexpr size_t kMostInputs = 64;
// Combinations of candidates that have numbers.
constexpr double kMostNumbers = 1e18;
// Exchanges that are kept, some hundred bytes each.
constexpr int64_t kMostKnown = 500'000;

uint64_t ReadsOf(const Part& part) {
  uint64_t reads = 0;
  for (size_t k = 0; k < std::min(part.view.operands.size(), kMostInputs); ++k) {
    const TensorView& view = part.view.operands[k];
    if (view.present && !view.box.empty()) reads |= uint64_t{1} << k;
  }
  return reads;
}

}  // namespace

PartialBound::PartialBound(const Evaluator& evaluator, Strategy base,
                           std::span<const std::vector<Decision>> candidates,
                           const std::function<bool()>& interrupted)
    : evaluator_(evaluator),
      graph_(evaluator.graph()),
      strategy_(std::move(base)),
      candidates_(candidates),
      subject_(BoundSubjectOf(evaluator, 0, interrupted)),
      prices_(subject_),
      finder_(subject_, prices_),
      delays_(evaluator),
      number_of_op_(graph_.ops().size(), -1),
      followers_(partita::FollowersOf(graph_)),
      parts_(graph_.ops().size()),
      tensors_(graph_.tensors().size()),
      loads_(static_cast<size_t>(evaluator.resources().count()), 0),
      ends_(graph_.ops().size()),
      least_end_(graph_.ops().size(), 0) {
  is_known_ = strategy_.buckets.empty() && !subject_.options.native_formats;
  FindChoices(candidates);
  FindDependencies();
  for (const Operator& op : graph_.ops()) ends_[op.id.index()].resize(1);
  const auto anchors = static_cast<Number>(graph_.anchors().size());
  for (Number a = 0; is_known_ && a < anchors; ++a) is_known_ = FindParts(a, interrupted);
  if (!is_known_) return;
  for (Number a = 0; a < anchors; ++a) {
    if (ChoiceOf(a).chosen == 0) AddKernels(a, 1);
    if (ChoiceOf(a).chosen < 0) compute_ += ChoiceOf(a).least_work;
  }
  // Updates that no gradient's kernel may do.
  for (const Operator& op : graph_.ops()) {
    const bool is_own = op.anchor == kNoOp && !subject_.fates[op.id.index()].may_be_updated;
    if (is_own) compute_ += finder_.UpdateOf(op.id).all;
  }
  for (const Tensor& tensor : graph_.tensors()) {
    if (tensors_[tensor.id.index()].undecided > 0) continue;
    const ExchangeDelays* delays = DelaysOf(tensor.id, ChosenFor(tensor.id));
    if (delays != nullptr) AddLoadsOf(delays->loads, 1);
  }
}

void PartialBound::FindChoices(std::span<const std::vector<Decision>> candidates) {
  const auto anchors = graph_.anchors();
  choices_.resize(anchors.size() + graph_.weights().size());
  std::vector<Number> number_of_anchor(graph_.ops().size(), -1);
  for (size_t a = 0; a < anchors.size(); ++a) {
    number_of_anchor[anchors[a].index()] = static_cast<Number>(a);
  }
  for (const Operator& op : graph_.ops()) {
    if (op.anchor != kNoOp) number_of_op_[op.id.index()] = number_of_anchor[op.anchor.index()];
  }
  for (size_t s = 0; s < candidates.size(); ++s) {
    CHECK(!candidates[s].empty()) << "a subject without candidates";
    const DecisionSubject subject = SubjectOf(candidates[s][0]);
    const bool is_operator = subject.kind == DecisionSubject::Kind::kOperator;
    CHECK(is_operator || subject.kind == DecisionSubject::Kind::kWeight);
    const Number number = is_operator ? number_of_anchor[static_cast<size_t>(subject.number)]
                                      : static_cast<Number>(anchors.size()) + subject.number;
    number_of_subject_.push_back(number);
    Choice& choice = choices_[static_cast<size_t>(number)];
    choice.candidates = static_cast<int32_t>(candidates[s].size());
    choice.chosen = -1;
    choice.subject = s;
  }
}

// The weights whose layouts a tensor's fragments depend on.
std::set<PartialBound::Number> PartialBound::WeightsOf(const Tensor& tensor,
                                                       const std::vector<Number>& weight_of) const {
  std::set<Number> weights;
  for (TensorId id = tensor.id; id != kNoTensor; id = graph_.tensor(id).of) {
    if (weight_of[id.index()] >= 0) weights.insert(weight_of[id.index()]);
  }
  for (const auto& ops : {graph_.producers(tensor.id), graph_.consumers(tensor.id)}) {
    for (OpId id : ops) {
      const Operator& op = graph_.op(id);
      if (op.anchor == kNoOp) weights.insert(weight_of[op.anchor_weight.index()]);
    }
  }
  return weights;
}

// As FragmentCache: a tensor's fragments depend on its makers and readers, and on the layout of the
// weight that it or its updates belong to, which depends on the operators that decide it.
void PartialBound::FindDependencies() {
  const auto anchors = static_cast<Number>(graph_.anchors().size());
  std::vector<Number> weight_of(graph_.tensors().size(), -1);
  for (size_t w = 0; w < graph_.weights().size(); ++w) {
    weight_of[graph_.weights()[w].tensor.index()] = static_cast<Number>(w);
  }
  for (const Tensor& tensor : graph_.tensors()) {
    std::set<Number> depends;
    const auto add = [&](OpId id, std::set<Number>& weights) {
      const Operator& op = graph_.op(id);
      if (op.anchor != kNoOp) {
        depends.insert(number_of_op_[id.index()]);
      } else {
        weights.insert(weight_of[op.anchor_weight.index()]);
      }
    };
    std::set<Number> open = WeightsOf(tensor, weight_of);
    for (OpId id : graph_.producers(tensor.id)) add(id, open);
    for (OpId id : graph_.consumers(tensor.id)) add(id, open);
    while (!open.empty()) {
      const Number weight = *open.begin();
      open.erase(open.begin());
      if (!depends.insert(anchors + weight).second) continue;
      for (OpId id : DecidingOperators(graph_, static_cast<size_t>(weight))) add(id, open);
    }
    TensorFacts& facts = tensors_[tensor.id.index()];
    facts.depends.assign(depends.begin(), depends.end());
    double combinations = 1;
    for (Number number : depends) {
      ChoiceOf(number).tensors.push_back(tensor.id);
      facts.undecided += ChoiceOf(number).chosen < 0;
      combinations *= ChoiceOf(number).candidates;
    }
    facts.is_numbered = combinations < kMostNumbers;
  }
}

const ParallelConfig& PartialBound::ConfigUnder(Number anchor, int32_t candidate) const {
  const Choice& choice = ChoiceOf(anchor);
  const OpId op = graph_.anchors()[static_cast<size_t>(anchor)];
  if (choice.chosen >= 0) return strategy_.configs[op.index()];
  const Decision& decision = candidates_[choice.subject][static_cast<size_t>(candidate)];
  return std::get<OperatorDecision>(decision).config;
}

// False where a candidate does not fit, or where interrupted.
bool PartialBound::FindParts(Number anchor, const std::function<bool()>& interrupted) {
  Choice& choice = ChoiceOf(anchor);
  for (int32_t c = 0; c < choice.candidates; ++c) {
    if (interrupted && interrupted()) return false;
    const ParallelConfig& config = ConfigUnder(anchor, c);
    int64_t work = 0;
    for (OpId id : FollowersOf(anchor)) {
      const Operator& op = graph_.op(id);
      const auto made = PartsOf(graph_, op, config);
      if (!made.ok()) return false;
      Parts& parts = parts_[id.index()].emplace_back();
      for (const Part& part : *made) {
        parts.times.push_back(finder_.LeastTimeOf(op, part, config.degrees));
        parts.devices.push_back(part.device);
        parts.reads.push_back(ReadsOf(part));
      }
      work += SumOf(parts.times);
    }
    choice.work.push_back(work);
  }
  choice.least_work = *std::min_element(choice.work.begin(), choice.work.end());
  return true;
}

void PartialBound::AddLoadsOf(const Loads& loads, int64_t sign) {
  for (const auto& [resource, time] : loads) {
    loads_[static_cast<size_t>(resource)] += sign * time;
    if (evaluator_.resources().IsComputeLane(resource)) compute_ += sign * time;
  }
}

void PartialBound::AddKernels(Number anchor, int64_t sign) {
  const auto candidate = static_cast<size_t>(ChoiceOf(anchor).chosen);
  const SimulatedResources& resources = evaluator_.resources();
  for (OpId id : FollowersOf(anchor)) {
    const Parts& parts = parts_[id.index()][candidate];
    for (size_t p = 0; p < parts.times.size(); ++p) {
      const int64_t time = sign * parts.times[p];
      loads_[static_cast<size_t>(resources.ComputeLane(parts.devices[p]))] += time;
      compute_ += time;
      for (int32_t cores : resources.CoreSets(parts.devices[p])) {
        loads_[static_cast<size_t>(cores)] += time;
      }
    }
  }
}

void PartialBound::AddExchanges(Number decided, int64_t sign) {
  for (TensorId id : ChoiceOf(decided).tensors) {
    if (tensors_[id.index()].undecided > 0) continue;
    const ExchangeDelays* delays = DelaysOf(id, ChosenFor(id));
    if (delays != nullptr) AddLoadsOf(delays->loads, sign);
  }
}

void PartialBound::Decide(size_t subject, size_t candidate) {
  const Number number = number_of_subject_[subject];
  Choice& choice = ChoiceOf(number);
  CHECK(choice.chosen < 0) << "decided before";
  choice.chosen = static_cast<int32_t>(candidate);
  partita::Decide(graph_, strategy_, candidates_[subject][candidate]);
  if (!is_known_) return;
  for (TensorId id : choice.tensors) --tensors_[id.index()].undecided;
  if (IsAnchor(number)) {
    compute_ -= choice.least_work;
    AddKernels(number, 1);
  }
  AddExchanges(number, 1);
}

// Leaves the decision in the strategy, where nobody looks at it.
void PartialBound::Undecide(size_t subject) {
  const Number number = number_of_subject_[subject];
  Choice& choice = ChoiceOf(number);
  CHECK(choice.chosen >= 0) << "not decided";
  if (is_known_) {
    AddExchanges(number, -1);
    if (IsAnchor(number)) {
      AddKernels(number, -1);
      compute_ += choice.least_work;
    }
    for (TensorId id : choice.tensors) ++tensors_[id.index()].undecided;
  }
  choice.chosen = -1;
}

PartialBound::Candidates PartialBound::ChosenFor(TensorId tensor) const {
  Candidates chosen;
  for (Number number : tensors_[tensor.index()].depends) chosen.push_back(ChoiceOf(number).chosen);
  return chosen;
}

// Candidates of all that it depends on. What is decided is in the strategy.
const ExchangeDelays* PartialBound::DelaysOf(TensorId tensor, const Candidates& candidates) {
  TensorFacts& facts = tensors_[tensor.index()];
  if (!facts.is_numbered) return nullptr;
  uint64_t number = 0;
  for (size_t k = 0; k < candidates.size(); ++k) {
    number = number * static_cast<uint64_t>(ChoiceOf(facts.depends[k]).candidates) +
             static_cast<uint64_t>(candidates[k]);
  }
  const auto [it, added] = facts.known.try_emplace(number);
  if (!added) return it->second.get();
  ++known_delays_;
  Strategy strategy = strategy_;
  for (size_t k = 0; k < candidates.size(); ++k) {
    const Choice& choice = ChoiceOf(facts.depends[k]);
    if (choice.chosen >= 0) continue;
    partita::Decide(graph_, strategy,
                    candidates_[choice.subject][static_cast<size_t>(candidates[k])]);
  }
  auto found = delays_.Find(strategy, tensor);
  if (found.has_value()) it->second = std::make_unique<const ExchangeDelays>(*std::move(found));
  return it->second.get();
}

int64_t PartialBound::LargestLoad() const {
  const int64_t largest = *std::max_element(loads_.begin(), loads_.end());
  return std::max(largest, compute_ / subject_.at_once);
}

int64_t PartialBound::Bound(int64_t enough) {
  if (!is_known_) return 0;
  const int64_t load = LargestLoad();
  if (load >= enough) return load;
  if (known_delays_ > kMostKnown) {
    for (TensorFacts& facts : tensors_) facts.known.clear();
    known_delays_ = 0;
  }
  const int64_t path = LongestPath();
  if (path >= enough) return path;
  return std::max({load, path, LargestLateLoad()});
}

// An exchange begins no earlier than the first of its pieces is there.
void PartialBound::ListLateLoads() {
  for (const Operator& op : graph_.ops()) {
    if (op.anchor == kNoOp) continue;
    const int32_t chosen = ChoiceOf(number_of_op_[op.id.index()]).chosen;
    if (chosen < 0) continue;
    const Parts& parts = parts_[op.id.index()][static_cast<size_t>(chosen)];
    const Ends& ends = ends_[op.id.index()][static_cast<size_t>(chosen)];
    for (size_t p = 0; p < ends.size(); ++p) {
      ListLateKernel(parts.devices[p], ends[p] - parts.times[p], parts.times[p]);
    }
  }
  for (const Tensor& tensor : graph_.tensors()) {
    if (tensors_[tensor.id.index()].undecided > 0) continue;
    const Candidates candidates = ChosenFor(tensor.id);
    const ExchangeDelays* delays = DelaysOf(tensor.id, candidates);
    if (delays == nullptr || delays->loads.empty()) continue;
    int64_t begin = delays->sources.empty() ? 0 : kNoTime;
    for (const ExchangeDelays::Source& source : delays->sources) {
      begin = std::min(begin, EndOf(source, tensor.id, candidates));
    }
    for (const auto& [resource, time] : delays->loads) late_.push_back({resource, 0, time});
    for (const auto& [resource, time] : delays->waiting) {
      late_.push_back({resource, 0, -time});
      late_.push_back({resource, begin, time});
    }
  }
}

void PartialBound::ListLateKernel(DeviceId device, int64_t begin, int64_t time) {
  late_.push_back({evaluator_.resources().ComputeLane(device), begin, time});
  for (int32_t cores : evaluator_.resources().CoreSets(device)) {
    late_.push_back({cores, begin, time});
  }
}

int64_t PartialBound::LargestLateLoad() {
  ListLateLoads();
  std::sort(late_.begin(), late_.end(), [](const LateLoad& a, const LateLoad& b) {
    return a.resource != b.resource ? a.resource < b.resource : a.begin > b.begin;
  });
  int64_t largest = 0, sum = 0;
  for (size_t k = 0; k < late_.size(); ++k) {
    if (k == 0 || late_[k].resource != late_[k - 1].resource) sum = 0;
    sum += late_[k].time;
    const bool is_last = k + 1 == late_.size() || late_[k + 1].resource != late_[k].resource ||
                         late_[k + 1].begin != late_[k].begin;
    if (is_last) largest = std::max(largest, late_[k].begin + sum);
  }
  return largest;
}

int64_t PartialBound::LongestPath() {
  int64_t length = 0;
  for (const Operator& op : graph_.ops()) {
    if (op.anchor == kNoOp) continue;
    const Choice& choice = ChoiceOf(number_of_op_[op.id.index()]);
    std::vector<Ends>& ends = ends_[op.id.index()];
    ends.resize(static_cast<size_t>(choice.candidates));
    int64_t last = kNoTime, first = kNoTime;
    const int32_t begin = std::max(0, choice.chosen);
    const int32_t end = choice.chosen >= 0 ? choice.chosen + 1 : choice.candidates;
    for (int32_t c = begin; c < end; ++c) {
      last = std::min(last, FindEnds(op, c));
      const Ends& of_parts = ends[static_cast<size_t>(c)];
      first = std::min(first,
                       of_parts.empty() ? 0 : *std::min_element(of_parts.begin(), of_parts.end()));
    }
    least_end_[op.id.index()] = first;
    length = std::max(length, last);
  }
  late_.clear();
  for (const Operator& op : graph_.ops()) {
    if (op.anchor == kNoOp) length = std::max(length, FindUpdateEnds(op));
  }
  for (const Tensor& tensor : graph_.tensors()) {
    length = std::max(length, EndOfExchange(tensor.id));
  }
  return length;
}

// A gradient's kernel may do the update where the update reads what it makes as it is.
int64_t PartialBound::FindUpdateEnds(const Operator& op) {
  ends_[op.id.index()].assign(1, {});
  for (TensorId input : op.inputs) {
    if (tensors_[input.index()].undecided > 0) return 0;
  }
  struct PartOfUpdate {
    DeviceId device;
    int64_t start = 0, time = 0;
    bool may_be_fused = false;
  };
  std::vector<PartOfUpdate> parts;
  for (TensorId input : op.inputs) {
    const Candidates candidates = ChosenFor(input);
    const ExchangeDelays* delays = DelaysOf(input, candidates);
    if (delays == nullptr) return 0;
    const auto consumers = graph_.consumers(input);
    const auto consumer = std::find(consumers.begin(), consumers.end(), op.id) - consumers.begin();
    for (const ExchangeDelays::Reader& reader : delays->readers[static_cast<size_t>(consumer)]) {
      parts.resize(std::max(parts.size(), static_cast<size_t>(reader.part) + 1));
      PartOfUpdate& part = parts[static_cast<size_t>(reader.part)];
      part.device = reader.device;
      part.time = reader.kernel;
      part.start = std::max(part.start, reader.from_begin);
      for (size_t s = 0; s < delays->sources.size(); ++s) {
        const int64_t delay = reader.from_source[s];
        if (delay == ExchangeDelays::kNever) continue;
        part.may_be_fused |= delay == 0;
        part.start = std::max(part.start, EndOf(delays->sources[s], input, candidates) + delay);
      }
    }
  }
  int64_t last = 0;
  for (const PartOfUpdate& part : parts) {
    const int64_t time = part.may_be_fused ? 0 : part.time;
    ends_[op.id.index()][0].push_back(part.start + time);
    if (time > 0) ListLateKernel(part.device, part.start, time);
    last = std::max(last, part.start + time);
  }
  return last;
}

int64_t PartialBound::FindEnds(const Operator& op, int32_t candidate) {
  const Parts& parts = parts_[op.id.index()][static_cast<size_t>(candidate)];
  Ends& ends = ends_[op.id.index()][static_cast<size_t>(candidate)];
  ends.assign(parts.times.size(), 0);
  for (size_t input = 0; input < op.inputs.size(); ++input) {
    if (std::find(op.inputs.begin(), op.inputs.begin() + static_cast<std::ptrdiff_t>(input),
                  op.inputs[input]) != op.inputs.begin() + static_cast<std::ptrdiff_t>(input)) {
      continue;
    }
    RaiseStarts(op, candidate, input, ends);
  }
  int64_t last = 0;
  for (size_t p = 0; p < ends.size(); ++p) last = std::max(last, ends[p] += parts.times[p]);
  return last;
}

void PartialBound::RaiseStarts(const Operator& op, int32_t candidate, size_t input, Ends& starts) {
  const TensorId tensor = op.inputs[input];
  const TensorFacts& facts = tensors_[tensor.index()];
  const Number own = number_of_op_[op.id.index()];
  Candidates candidates = ChosenFor(tensor);
  const auto place = std::find(facts.depends.begin(), facts.depends.end(), own);
  candidates[static_cast<size_t>(place - facts.depends.begin())] = candidate;
  const auto open = std::count(candidates.begin(), candidates.end(), -1);
  if (open == 0) return RaiseStartsAfter(op, tensor, candidates, starts);
  if (open > 1 || ChoiceOf(own).chosen < 0) {
    return RaiseAfterProducers(parts_[op.id.index()][static_cast<size_t>(candidate)], tensor, input,
                               starts);
  }
  const auto other =
      static_cast<size_t>(std::find(candidates.begin(), candidates.end(), -1) - candidates.begin());
  least_start_.assign(starts.size(), kNoTime);
  for (int32_t c = 0; c < ChoiceOf(facts.depends[other]).candidates; ++c) {
    candidates[other] = c;
    one_start_.assign(starts.size(), 0);
    RaiseStartsAfter(op, tensor, candidates, one_start_);
    for (size_t p = 0; p < starts.size(); ++p) {
      least_start_[p] = std::min(least_start_[p], one_start_[p]);
    }
  }
  for (size_t p = 0; p < starts.size(); ++p) starts[p] = std::max(starts[p], least_start_[p]);
}

void PartialBound::RaiseStartsAfter(const Operator& op, TensorId tensor,
                                    const Candidates& candidates, Ends& starts) {
  const ExchangeDelays* delays = DelaysOf(tensor, candidates);
  if (delays == nullptr) return;
  const auto consumers = graph_.consumers(tensor);
  const auto consumer =
      static_cast<size_t>(std::find(consumers.begin(), consumers.end(), op.id) - consumers.begin());
  Ends& ends = ends_of_sources_;
  ends.clear();
  for (const ExchangeDelays::Source& source : delays->sources) {
    ends.push_back(EndOf(source, tensor, candidates));
  }
  for (const ExchangeDelays::Reader& reader : delays->readers[consumer]) {
    int64_t& start = starts[static_cast<size_t>(reader.part)];
    start = std::max(start, reader.from_begin);
    for (size_t s = 0; s < ends.size(); ++s) {
      const int64_t delay = reader.from_source[s];
      if (delay != ExchangeDelays::kNever) start = std::max(start, ends[s] + delay);
    }
  }
}

// A part that reads anything of a tensor waits for a part of one of those that make it.
void PartialBound::RaiseAfterProducers(const Parts& parts, TensorId tensor, size_t input,
                                       Ends& starts) const {
  if (input >= kMostInputs) return;
  int64_t least = kNoTime;
  for (OpId id : graph_.producers(tensor)) least = std::min(least, least_end_[id.index()]);
  if (least == kNoTime) return;
  for (size_t p = 0; p < starts.size(); ++p) {
    if ((parts.reads[p] >> input & 1) != 0) starts[p] = std::max(starts[p], least);
  }
}

// 0 where that is not known yet.
int64_t PartialBound::EndOfExchange(TensorId tensor) {
  if (tensors_[tensor.index()].undecided > 0) return 0;
  const Candidates candidates = ChosenFor(tensor);
  const ExchangeDelays* delays = DelaysOf(tensor, candidates);
  int64_t end = 0;
  for (size_t s = 0; delays != nullptr && s < delays->sources.size(); ++s) {
    end = std::max(end, EndOf(delays->sources[s], tensor, candidates) + delays->to_end[s]);
  }
  return end;
}

int64_t PartialBound::EndOf(const ExchangeDelays::Source& source, TensorId tensor,
                            const Candidates& candidates) const {
  const Number number = number_of_op_[source.op.index()];
  if (number < 0) {
    const Ends& ends = ends_[source.op.index()][0];
    return ends.empty() ? 0 : ends[static_cast<size_t>(source.part)];
  }
  const std::vector<Number>& depends = tensors_[tensor.index()].depends;
  const auto place = std::find(depends.begin(), depends.end(), number) - depends.begin();
  const auto candidate = static_cast<size_t>(candidates[static_cast<size_t>(place)]);
  return ends_[source.op.index()][candidate][static_cast<size_t>(source.part)];
}

// An undecided weight takes little from the bounds of what is decided.
std::vector<size_t> PartialBound::OrderOfSubjects() const {
  // Whether it is a weight, the last anchor that it depends on, and the place.
  std::vector<std::tuple<bool, Number, size_t>> order;
  for (size_t s = 0; s < number_of_subject_.size(); ++s) {
    Number last = number_of_subject_[s];
    const bool is_weight = !IsAnchor(last);
    if (is_weight) {
      const auto weight = static_cast<size_t>(last) - graph_.anchors().size();
      last = 0;
      for (OpId id : DecidingOperators(graph_, weight)) {
        last = std::max(last, number_of_op_[id.index()]);
      }
    }
    order.emplace_back(is_weight, last, s);
  }
  std::sort(order.begin(), order.end());
  std::vector<size_t> subjects;
  for (const auto& [is_weight, last, s] : order) subjects.push_back(s);
  return subjects;
}

}  // namespace partita
