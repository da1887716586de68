#include "planner/search/additive_costs.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "graph/partition/arrivals.h"
#include "graph/partition/fragment_classes.h"
#include "graph/support/check.h"
#include "graph/support/heap_bytes.h"
#include "planner/space/like_operators.h"

namespace partita {

AdditiveCosts::AdditiveCosts(const Evaluator& evaluator, Bytes most)
    : graph_(evaluator.graph()),
      model_(evaluator.model()),
      resources_(evaluator.resources()),
      lister_(resources_),
      sums_(resources_.count()),
      options_(evaluator.partition_options()),
      busy_(static_cast<size_t>(options_.devices), 0),
      defaults_(SingleDevice(graph_, DeviceId(0))),
      followers_(partita::FollowersOf(graph_)),
      own_(graph_.ops().size()),
      weights_(graph_.ops().size()),
      updates_(UpdatesOfWeights(graph_)),
      states_(graph_.weights().size()),
      readers_(graph_.weights().size(), 0),
      groups_(graph_.tensors().size()),
      parts_(graph_.ops().size()),
      most_(most) {
  FindTensors();
  FindSenders();
}

// The next device of the node, and the one behind all of these if it is in another one, otherwise
// the next there; the next of all where there is none.
void AdditiveCosts::FindSenders() {
  const auto devices = static_cast<size_t>(options_.devices);
  for (size_t d = 0; d < devices; ++d) {
    node_of_.push_back(
        options_.node_of_device.empty() ? 0 : static_cast<size_t>(options_.node_of_device[d]));
  }
  std::map<size_t, size_t> sizes;  // devices of each node
  for (size_t node : node_of_) ++sizes[node];
  near_.resize(devices);
  far_.resize(devices);
  // Backwards, twice around: the next device of each node, and of any other node than its own.
  std::map<size_t, size_t> next_in;
  size_t next = 0, next_other = 0;  // the nearest behind, and the nearest in another node than it
  for (size_t k = 2 * devices; k-- > 0;) {
    const size_t d = k % devices, node = node_of_[d], after = (d + 1) % devices;
    const auto in_node = next_in.find(node);
    near_[d] = DeviceId(static_cast<int32_t>(
        in_node != next_in.end() && sizes[node] > 1 ? in_node->second : after));
    const size_t other = node_of_[next] != node ? next : next_other;
    far_[d] = DeviceId(static_cast<int32_t>(sizes.size() > 1 ? other : after));
    const size_t behind = (d + sizes[node]) % devices;
    if (node_of_[behind] != node) far_[d] = DeviceId(static_cast<int32_t>(behind));
    if (node_of_[next] != node) next_other = next;
    next = d;
    next_in[node] = d;
  }
}

void AdditiveCosts::FindTensors() {
  std::map<std::pair<OpId, OpId>, std::vector<TensorId>> between;
  for (const Tensor& tensor : graph_.tensors()) {
    if (tensor.kind == TensorKind::kWeight || tensor.kind == TensorKind::kState) continue;
    std::set<OpId> makers, readers;
    for (OpId op : graph_.producers(tensor.id)) makers.insert(AnchorOf(op));
    for (OpId op : graph_.consumers(tensor.id)) readers.insert(AnchorOf(op));
    // What updates make and read is the weight's.
    if (makers.contains(kNoOp) || readers.contains(kNoOp)) continue;
    if (makers.empty()) makers = readers;
    for (OpId a : makers) {
      if (readers.contains(a)) own_[a.index()].push_back(tensor.id);
      for (OpId b : readers) {
        if (a != b && !graph_.producers(tensor.id).empty()) {
          between[{std::min(a, b), std::max(a, b)}].push_back(tensor.id);
        }
      }
    }
  }
  for (auto& [pair, tensors] : between) pairs_.push_back({pair.first, pair.second, tensors});
  const std::vector<int32_t> weight_of = WeightOfTensors(graph_);
  for (const Tensor& tensor : graph_.tensors()) {
    if (tensor.kind != TensorKind::kState) continue;
    states_[static_cast<size_t>(weight_of[tensor.id.index()])].push_back(tensor.id);
  }
  for (size_t w = 0; w < graph_.weights().size(); ++w) {
    std::set<OpId> anchors;
    for (OpId op : graph_.consumers(graph_.weights()[w].tensor)) anchors.insert(AnchorOf(op));
    anchors.erase(kNoOp);
    readers_[w] = static_cast<int64_t>(anchors.size());
    for (OpId anchor : anchors) weights_[anchor.index()].push_back(w);
  }
}

std::vector<int32_t> AdditiveCosts::KindsOfPairs(std::span<const int32_t> kind_of) const {
  std::map<std::vector<int32_t>, int32_t> numbers;
  std::vector<int32_t> kinds;
  for (const Pair& pair : pairs_) {
    const auto next = static_cast<int32_t>(numbers.size());
    kinds.push_back(numbers.try_emplace(KeyOf(pair, kind_of), next).first->second);
  }
  return kinds;
}

std::vector<int32_t> AdditiveCosts::KeyOf(const Pair& pair,
                                          std::span<const int32_t> kind_of) const {
  std::vector<int32_t> key = {kind_of[pair.a.index()], kind_of[pair.b.index()]};
  for (TensorId tensor : pair.tensors) {
    key.push_back(-1);
    for (const auto& ops : {graph_.producers(tensor), graph_.consumers(tensor)}) {
      key.push_back(-2);
      for (OpId op : ops) {
        for (OpId anchor : {pair.a, pair.b}) {
          if (graph_.op(op).anchor != anchor) continue;
          const auto followers = FollowersOf(anchor);
          const auto place = std::find(followers.begin(), followers.end(), op);
          key.push_back(anchor == pair.a ? 0 : 1);
          key.push_back(static_cast<int32_t>(place - followers.begin()));
        }
      }
    }
  }
  return key;
}

std::optional<ConfiguredAnchor> AdditiveCosts::Configure(OpId anchor,
                                                         const ParallelConfig& config) const {
  ConfiguredAnchor one{anchor, config, {}};
  for (OpId id : followers_[anchor.index()]) {
    auto parts = PartsOf(graph_, graph_.op(id), config);
    if (!parts.ok()) return std::nullopt;
    one.parts.push_back(*std::move(parts));
  }
  return one;
}

void AdditiveCosts::Set(const ConfiguredAnchor& one) {
  const auto& followers = followers_[one.anchor.index()];
  for (size_t f = 0; f < followers.size(); ++f) parts_[followers[f].index()] = one.parts[f];
}

void AdditiveCosts::Unset(const ConfiguredAnchor& one) {
  for (OpId id : followers_[one.anchor.index()]) parts_[id.index()] = {};
}

AdditiveTime AdditiveCosts::OfGraph(const TaskGraph& tasks) {
  AdditiveTime time;
  for (const auto& [resource, busy] :
       LoadsOf(ListTasks(tasks, lister_), PriceTasks(tasks, model_), sums_)) {
    const bool moves = !resources_.IsComputeLane(resource) && !resources_.IsCoreSet(resource);
    int64_t& most = moves ? time.communication : time.compute;
    most = std::max(most, busy);
  }
  return time;
}

// Neighbouring parts are mostly alike, and priced once.
int64_t AdditiveCosts::BusiestOf(const Operator& op, std::span<const Part> parts) {
  PartKernels kernels(graph_, op, options_);
  KernelSignature last;
  DeviceId last_device(-1);
  int64_t last_time = 0, most = 0;
  for (const Part& part : parts) {
    KernelSignature signature = kernels.Of(part);
    const DeviceId device = model_.FirstEqual(part.device);
    if (device != last_device || !(signature == last)) {
      const std::optional<TaskCost> cost = model_.KernelCost(signature, device);
      CHECK(cost.has_value()) << "the cost model does not know a kernel of '" << op.name << "'";
      last = std::move(signature);
      last_device = device;
      last_time = LeastTime(*cost);
    }
    most = std::max(most, busy_[part.device.index()] += last_time);
  }
  for (const Part& part : parts) busy_[part.device.index()] = 0;
  return most;
}

AdditiveTime AdditiveCosts::OfKernels(const ConfiguredAnchor& one) {
  AdditiveTime time;
  const auto& followers = followers_[one.anchor.index()];
  for (size_t f = 0; f < followers.size(); ++f) {
    time.compute += BusiestOf(graph_.op(followers[f]), one.parts[f]);
  }
  return time;
}

std::optional<AdditiveTime> AdditiveCosts::OfSampledKernels(OpId anchor,
                                                            const ParallelConfig& config) {
  AdditiveTime time;
  for (OpId id : followers_[anchor.index()]) {
    const Operator& op = graph_.op(id);
    const auto parts = SamplePartsOf(graph_, op, config);
    if (!parts.ok()) return std::nullopt;
    time.compute += BusiestOf(op, *parts);
  }
  return time;
}

ExchangeTime AdditiveCosts::OfTensor(TensorId id, ExchangePricing pricing) {
  const Tensor& tensor = graph_.tensor(id);
  const bool sums = pricing != ExchangePricing::kWhole && MakesSums(tensor);
  const bool is_least = pricing == ExchangePricing::kByBytes && sums;
  if (pricing == ExchangePricing::kSumsWhole ? !sums : pricing == ExchangePricing::kByBytes) {
    if (const auto time = OfArrivingBytes(tensor); time.has_value()) return {*time, is_least};
    if (pricing == ExchangePricing::kByBytes) return {{}, true};
  }
  return {OfTasks(tensor)};
}

AdditiveTime AdditiveCosts::OfTasks(const Tensor& tensor) {
  std::vector<DemandGroup>& groups = groups_[tensor.id.index()];
  if (groups.empty()) groups = FindDemandGroups(graph_, tensor);
  TensorFragmentsBuilder builder(
      graph_, tensor, parts_, {.groups = groups, .outlines = !options_.native_formats}, options_);
  TensorContent content = builder.content();
  if (const auto known = Remembered(content); known.has_value()) return *known;
  builder.Solve();
  const TensorFragments fragments = std::move(builder).Build();
  AdditiveTime time;
  for (const TensorFragment& fragment : fragments.groups) time += OfGraph(fragment.graph);
  Remember(std::move(content), time);
  return time;
}

std::optional<AdditiveTime> AdditiveCosts::Remembered(const TensorContent& content) {
  if (const auto known = recent_.find(content); known != recent_.end()) return known->second;
  const auto known = older_.find(content);
  if (known == older_.end()) return std::nullopt;
  const AdditiveTime time = known->second;
  Remember(content, time);
  return time;
}

void AdditiveCosts::Remember(TensorContent content, AdditiveTime time) {
  content.shrink_to_fit();
  constexpr auto kSlot = static_cast<int64_t>(sizeof(Times::value_type) + 1);
  if (bytes_of_recent_ > Bytes(most_.value() / 2)) {
    older_ = std::exchange(recent_, {});
    bytes_of_recent_ = Bytes(0);
  }
  bytes_of_recent_ += Bytes(kSlot + HeapBytesOf(content));
  recent_.emplace(std::move(content), time);
}

// Whether what the parts make of the tensor has to be added somewhere.
bool AdditiveCosts::MakesSums(const Tensor& tensor) {
  int64_t elements = 0;
  for (OpId id : graph_.producers(tensor.id)) {
    const std::vector<TensorId>& outputs = graph_.op(id).outputs;
    ++met_;
    for (const Part& part : parts_[id.index()]) {
      const auto term = static_cast<size_t>(part.term);
      if (term_met_.size() <= term) term_met_.resize(term + 1, 0);
      if (std::exchange(term_met_[term], met_) == met_) continue;
      for (size_t k = 0; k < outputs.size(); ++k) {
        const TensorView& view = part.view.results[k];
        if (outputs[k] == tensor.id && view.present) elements += view.box.volume();
      }
    }
  }
  return elements > Volume(tensor.type.shape);
}

// What comes from other nodes is shared out over a node's devices as what they get in all.
std::optional<AdditiveTime> AdditiveCosts::OfArrivingBytes(const Tensor& tensor) {
  const Arrivals arrivals =
      LeastArrivals(graph_, tensor, parts_, options_.node_of_device, options_.devices);
  if (arrivals.at_device.empty()) return std::nullopt;
  std::vector<int64_t> in_node(arrivals.at_node.size(), 0);
  for (size_t d = 0; d < arrivals.at_device.size(); ++d)
    in_node[node_of_[d]] += arrivals.at_device[d];
  std::vector<TransferCall> group;
  const int64_t size = SizeOf(tensor.type.dtype);
  for (size_t d = 0; d < arrivals.at_device.size(); ++d) {
    const int64_t all = arrivals.at_device[d];
    if (all == 0) continue;
    const double share = static_cast<double>(all) / static_cast<double>(in_node[node_of_[d]]);
    const auto far = static_cast<int64_t>(
        share * static_cast<double>(std::min(arrivals.at_node[node_of_[d]], in_node[node_of_[d]])));
    const DeviceId to(static_cast<int32_t>(d));
    if (far > 0) group.push_back({far_[d], to, far * size});
    if (all > far) group.push_back({near_[d], to, (all - far) * size});
  }
  AdditiveTime time;
  if (group.empty()) return time;
  const std::optional<TaskCost> cost = model_.TransferCost(group);
  if (!cost.has_value()) return std::nullopt;
  time.communication = cost->time.value();
  return time;
}

// With the parts of one anchor that reads the weight.
ExchangeTime AdditiveCosts::OfWeight(size_t weight, ExchangePricing pricing) {
  ExchangeTime time;
  const WeightLayouts layouts = ResolveWeightLayout(graph_, defaults_, weight, parts_);
  std::vector<std::vector<Part>> parts;
  std::set<TensorId> gradients;
  for (OpId id : updates_[weight]) {
    const Operator& op = graph_.op(id);
    auto made = UpdateParts(graph_, op, layouts.update);
    if (!made.ok()) return time;
    parts.push_back(*std::move(made));
    time.time.compute += BusiestOf(op, parts.back());
    for (TensorId input : op.inputs) {
      if (graph_.tensor(input).kind == TensorKind::kActivation) gradients.insert(input);
    }
  }
  for (size_t u = 0; u < parts.size(); ++u) parts_[updates_[weight][u].index()] = parts[u];
  for (TensorId gradient : gradients) time += OfTensor(gradient, pricing);
  for (OpId id : updates_[weight]) parts_[id.index()] = {};
  time.time.compute /= readers_[weight];
  time.time.communication /= readers_[weight];
  return time;
}

ExchangeTime AdditiveCosts::OfExchanges(const ConfiguredAnchor& one, ExchangePricing pricing) {
  Set(one);
  ExchangeTime time;
  for (TensorId id : own_[one.anchor.index()]) time += OfTensor(id, pricing);
  for (size_t weight : weights_[one.anchor.index()]) time += OfWeight(weight, pricing);
  Unset(one);
  return time;
}

std::vector<int64_t> AdditiveCosts::KeptBytes(const ConfiguredAnchor& one) {
  std::vector<int64_t> kept(static_cast<size_t>(options_.devices), 0);
  const auto add = [&](TensorId id, const std::vector<PlacedBox>& pieces) {
    for (const PlacedBox& piece : pieces) {
      kept[piece.device.index()] += piece.box.volume() * SizeOf(graph_.tensor(id).type.dtype);
    }
  };
  Set(one);
  for (size_t weight : weights_[one.anchor.index()]) {
    if (readers_[weight] > 1) continue;
    const WeightLayouts layouts = ResolveWeightLayout(graph_, defaults_, weight, parts_);
    const TensorId tensor = graph_.weights()[weight].tensor;
    add(tensor, layouts.parameter);
    for (TensorId state : states_[weight]) add(state, layouts.update);
  }
  Unset(one);
  return kept;
}

ExchangeTime AdditiveCosts::Between(const Pair& pair, const ConfiguredAnchor& a,
                                    const ConfiguredAnchor& b, ExchangePricing pricing) {
  Set(a);
  Set(b);
  ExchangeTime time;
  for (TensorId id : pair.tensors) time += OfTensor(id, pricing);
  Unset(a);
  Unset(b);
  return time;
}

}  // namespace partita
