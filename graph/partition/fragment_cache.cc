#include "graph/partition/fragment_cache.h"

#include <algorithm>
#include <limits>

#include "graph/partition/bucket_fragment.h"
#include "graph/partition/first_pod.h"
#include "graph/partition/fragment_memory.h"
#include "graph/support/check.h"
#include "graph/support/error_category.h"
#include "graph/support/heap_bytes.h"
#include "graph/support/status_macros.h"

namespace partita {
namespace {

void AppendPieces(const std::vector<PlacedBox>& pieces, std::vector<int64_t>& content) {
  content.push_back(static_cast<int64_t>(pieces.size()));
  for (const PlacedBox& piece : pieces) {
    content.push_back(piece.device.value());
    AppendBox(piece.box, content);
  }
}

}  // namespace

FragmentCache::FragmentCache(const Graph& graph, PartitionOptions options, Use use)
    : graph_(graph), options_(std::move(options)), use_(use) {
  FindChain();
  FindDependencies();
  configs_.resize(graph.ops().size());
  placements_.resize(graph.weights().size());
  layouts_.resize(graph.weights().size());
  tensors_.resize(graph.tensors().size());
  algorithms_.resize(graph.tensors().size());
  configured_.resize(graph.ops().size());
  placed_.resize(graph.weights().size());
  parts_.resize(graph.ops().size());
  if (IsOfFirstPod()) pod_parts_.resize(graph.ops().size());
  found_.resize(graph.tensors().size());
  current_.operators.resize(graph.ops().size());
  current_.tensors.resize(graph.tensors().size());
  current_.stores.resize(graph.tensors().size());
  current_.numbers.resize(chain_.size() + graph.tensors().size(), kNoFragment);
}

// Walks the operators: what they read arrives in front of them; what they were the last to make is
// exchanged after them, but in front of its first reader where control edges hold it back; what
// only the host reads comes last.
void FragmentCache::FindChain() {
  for (const Tensor& tensor : graph_.tensors()) {
    groups_.push_back(FindDemandGroups(graph_, tensor));
  }
  std::vector<std::vector<bool>> done;
  for (const auto& groups : groups_) done.emplace_back(groups.size(), false);
  const auto add = [&](TensorId id, size_t group) {
    if (done[id.index()][group]) return;
    done[id.index()][group] = true;
    chain_.push_back({true, id.value(), static_cast<int32_t>(group)});
  };
  for (const Operator& op : graph_.ops()) {
    for (TensorId input : op.inputs) {
      const auto& groups = groups_[input.index()];
      for (size_t g = 0; g < groups.size(); ++g) {
        if (groups[g].consumers[0] == op.id) add(input, g);
      }
    }
    chain_.push_back({false, op.id.value()});
    for (TensorId output : op.outputs) {
      const bool is_last = graph_.producers(output).back() == op.id;
      if (is_last && groups_[output.index()][0].after.empty()) add(output, 0);
    }
  }
  is_host_.resize(graph_.tensors().size(), false);
  for (TensorId id : HostTensors(graph_, options_)) {
    add(id, 0);
    is_host_[id.index()] = true;
  }
  FindPlaces();
}

void FragmentCache::FindPlaces() {
  places_.of_op.resize(graph_.ops().size());
  for (const auto& groups : groups_) places_.of_tensor.emplace_back(groups.size(), -1);
  for (size_t k = 0; k < chain_.size(); ++k) {
    const auto id = static_cast<size_t>(chain_[k].id);
    const auto place = static_cast<int32_t>(k);
    if (chain_[k].is_tensor) {
      places_.of_tensor[id][static_cast<size_t>(chain_[k].group)] = place;
    } else {
      places_.of_op[id] = place;
    }
    runs_.push_back({.link = place});
  }
}

void FragmentCache::FindDependencies() {
  decisions_ = FindFragmentDecisions(graph_);
  classes_ = IsOutlined() ? FindFragmentClasses(graph_, options_, decisions_)
                          : DistinctFragmentClasses(graph_);
  followers_ = FollowersOf(graph_);
  weight_of_ = WeightOfTensors(graph_);
  updates_ = UpdatesOfWeights(graph_);
  kept_tensors_.resize(graph_.weights().size());
  for (const Tensor& tensor : graph_.tensors()) {
    const int32_t weight = weight_of_[tensor.id.index()];
    if (weight >= 0 && tensor.kind != TensorKind::kNext) {
      kept_tensors_[static_cast<size_t>(weight)].push_back(tensor.id);
    }
  }
  decided_.emplace(decisions_, graph_.anchors().size() + graph_.weights().size());
}

absl::Status FragmentCache::FindOrBuild(const Strategy& strategy, StepFragments& step,
                                        const Interrupted& interrupted) {
  const auto goes_on = [&] { return !interrupted || !interrupted(); };
  ASSIGN_OR_RETURN(bool is_found, Find(strategy, step, interrupted));
  for (size_t m = 0; is_found && m < missing_.size(); ++m) {
    TensorFragmentsBuilder solved = Solve(missing_[m], strategy);
    is_found = goes_on() && solved.FindCommunications([&](const TaskBody&) { return goes_on(); });
    if (is_found) RETURN_IF_ERROR(Build(missing_[m], std::move(solved), strategy, step));
  }
  if (!is_found) return InterruptedError("interrupted while the tasks of a step were made");
  return Complete(strategy, step);
}

absl::StatusOr<bool> FragmentCache::Find(const Strategy& strategy, StepFragments& step,
                                         const Interrupted& interrupted) {
  ++finds_;
  ASSIGN_OR_RETURN(const bool has_configs, FindConfigs(strategy, interrupted));
  if (!has_configs) return false;
  for (OpId anchor : changed_anchors_) {
    const Configured& configured = *configured_[anchor.index()];
    const auto& followers = followers_[anchor.index()];
    for (size_t f = 0; f < followers.size(); ++f) {
      SetOperator(followers[f], configured.fragments[f]);
      parts_[followers[f].index()] = configured.parts[f];
      if (IsOfFirstPod()) pod_parts_[followers[f].index()] = configured.pod_parts[f];
    }
  }
  changed_anchors_.clear();
  RETURN_IF_ERROR(FindLayouts(strategy));
  if (!strategy.algorithms.empty() || !strategy.buckets.empty()) {
    RETURN_IF_ERROR(ValidateCollectives(graph_, strategy));
  }
  if (!FindTensors(strategy, interrupted)) return false;
  step.operators = current_.operators;
  step.tensors = current_.tensors;
  step.stores = current_.stores;
  step.numbers = current_.numbers;
  return true;
}

void FragmentCache::SetOperator(OpId id, const OperatorFragment& fragment) {
  current_.operators[id.index()] = &fragment;
  current_.numbers[static_cast<size_t>(places_.of_op[id.index()])] = fragment.number;
}

void FragmentCache::SetStore(TensorId id, const Fragment& store) {
  current_.stores[id.index()] = &store;
  current_.numbers[chain_.size() + id.index()] = store.number;
}

void FragmentCache::SetTensor(TensorId id, const TensorFragments* found,
                              StepFragments& step) const {
  step.tensors[id.index()] = found;
  const std::vector<int32_t>& links = places_.of_tensor[id.index()];
  for (size_t g = 0; g < links.size(); ++g) {
    if (links[g] < 0) continue;
    step.numbers[static_cast<size_t>(links[g])] =
        found == nullptr ? kNoFragment : found->groups[g].number;
  }
}

absl::Status FragmentCache::Complete(const Strategy& strategy, StepFragments& step) {
  return FindBuckets(strategy, step);
}

// Everything known is valid, above all what was found last. Anything new is checked as a whole first.
absl::StatusOr<bool> FragmentCache::FindConfigs(const Strategy& strategy,
                                                const Interrupted& interrupted) {
  bool is_known = strategy.configs.size() == graph_.ops().size() &&
                  strategy.host_device.value() >= 0 &&
                  strategy.host_device.value() < options_.devices &&
                  (strategy.weights.empty() || strategy.weights.size() == graph_.weights().size());
  const auto anchors = graph_.anchors();
  for (size_t a = 0; is_known && a < anchors.size(); ++a) {
    const ParallelConfig& config = strategy.configs[anchors[a].index()];
    Configured* const& found = configured_[anchors[a].index()];
    if (found == nullptr || found->config != config) {
      const auto& known = configs_[ClassOf(anchors[a])];
      const auto it = known.find(config);
      is_known = it != known.end();
      if (!is_known) break;
      Configure(anchors[a], *it->second);
    }
    decided_->Set(a, found->id);
  }
  for (size_t w = 0; is_known && w < strategy.weights.size(); ++w) {
    const WeightPlacement& wanted = strategy.weights[w];
    if (wanted == WeightPlacement()) continue;
    const auto& known = placements_[ClassOf(w)];
    is_known = std::any_of(known.begin(), known.end(),
                           [&](const auto& one) { return one.choice == wanted; });
  }
  if (is_known) return true;
  const auto is_last = [&](OpId anchor) {
    const Configured* found = configured_[anchor.index()];
    return found != nullptr && found->config == strategy.configs[anchor.index()];
  };
  RETURN_IF_ERROR(ValidateSizes(graph_, strategy, options_.devices, is_last));
  for (size_t a = 0; a < anchors.size(); ++a) {
    if (interrupted && interrupted()) return false;
    const ParallelConfig& config = strategy.configs[anchors[a].index()];
    if (!is_last(anchors[a])) {
      auto& known = configs_[ClassOf(anchors[a])];
      if (!known.contains(config)) RETURN_IF_ERROR(AddConfig(anchors[a], config));
      Configure(anchors[a], *known.at(config));
    }
    decided_->Set(a, configured_[anchors[a].index()]->id);
  }
  return true;
}

void FragmentCache::Configure(OpId anchor, Configured& configured) {
  Replace(configured_[anchor.index()], &configured);
  changed_anchors_.push_back(anchor);
}

absl::Status FragmentCache::AddConfig(OpId anchor, const ParallelConfig& config) {
  auto configured = std::make_unique<Configured>();
  for (OpId id : followers_[anchor.index()]) {
    ASSIGN_OR_RETURN(configured->parts.emplace_back(), PartsOf(graph_, graph_.op(id), config));
  }
  configured->pod_parts = PodParts(configured->parts);
  const auto& wanted = IsOfFirstPod() ? configured->pod_parts : configured->parts;
  configured->fragments.reserve(wanted.size());
  for (size_t f = 0; f < wanted.size(); ++f) {
    OperatorFragment& fragment = configured->fragments.emplace_back(
        FragmentOf(followers_[anchor.index()][f], wanted[f], nullptr));
    Register(fragment, sizeof(fragment) + HeapBytesOf(fragment));
  }
  configured->id = NextId();
  configured->config = config;
  using Slot = decltype(configs_)::value_type::value_type;
  const int64_t of_config = HeapBytesOf(config.degrees, config.devices);
  Enter(*configured, kBytesOfSlot<Slot> + HeapBytesOfAllocation(sizeof(Configured)) +
                         2 * of_config + HeapBytesOf(configured->parts) +
                         HeapBytesOf(configured->pod_parts));
  configs_[ClassOf(anchor)].emplace(config, std::move(configured));
  return absl::OkStatus();
}

OperatorFragment FragmentCache::FragmentOf(OpId op, std::span<const Part> parts,
                                           const WeightLayouts* layouts) const {
  if (use_ == Use::kExchanges) return {};
  return MakeOperatorFragment(graph_, graph_.op(op), parts, {layouts, IsOutlined()}, options_);
}

std::vector<std::vector<Part>> FragmentCache::PodParts(
    const std::vector<std::vector<Part>>& parts) const {
  std::vector<std::vector<Part>> first;
  if (!IsOfFirstPod()) return first;
  for (const auto& list : parts) first.push_back(PartsOfFirstPod(list, options_.pod_devices));
  return first;
}

absl::Status FragmentCache::FindLayouts(const Strategy& strategy) {
  for (size_t w = 0; w < graph_.weights().size(); ++w) {
    const int32_t placement = PlacementId(strategy, w), host = strategy.host_device.value();
    Placed*& placed = placed_[w];
    if (!decided_->IsOpenWeight(w) && placed != nullptr && placed->key[0] == placement &&
        placed->key[1] == host) {
      continue;
    }
    Key key{placement, host};
    for (int32_t decision : decisions_.of_layout[w]) key.push_back((*decided_)[decision]);
    // Control edges that are the weight's own.
    if (HasPrefetch(strategy, w)) key.push_back(-1 - static_cast<int32_t>(w));
    if (placed == nullptr || placed->key != key) {
      auto& kept = layouts_[ClassOf(w)];
      auto at = kept.find(key);
      if (at == kept.end()) {
        auto made = std::make_unique<Placed>();
        ASSIGN_OR_RETURN(made->laid_out, LaidOutOf(strategy, w));
        made->key = key;
        Enter(*made, kBytesOfSlot<Kept<Placed>::value_type> +
                         HeapBytesOfAllocation(sizeof(Placed)) + 2 * HeapBytesOf(made->key));
        at = kept.emplace(std::move(key), std::move(made)).first;
      }
      Replace(placed, at->second.get());
      LayOut(w, *placed->laid_out);
    }
    decided_->CloseWeight(w);
  }
  return absl::OkStatus();
}

void FragmentCache::LayOut(size_t weight, const LaidOut& laid_out) {
  decided_->Set(graph_.anchors().size() + weight, laid_out.id);
  for (size_t u = 0; u < updates_[weight].size(); ++u) {
    const OpId update = updates_[weight][u];
    SetOperator(update, laid_out.fragments[u]);
    parts_[update.index()] = laid_out.parts[u];
    if (IsOfFirstPod()) pod_parts_[update.index()] = laid_out.pod_parts[u];
  }
  for (size_t k = 0; k < kept_tensors_[weight].size(); ++k) {
    SetStore(kept_tensors_[weight][k], laid_out.stores[k]);
  }
}

absl::StatusOr<std::shared_ptr<FragmentCache::LaidOut>> FragmentCache::LaidOutOf(
    const Strategy& strategy, size_t weight) {
  auto laid_out = std::make_shared<LaidOut>();
  laid_out->layouts = ResolveWeightLayout(graph_, strategy, weight, parts_);
  const WeightLayouts& layouts = laid_out->layouts;
  std::vector<int64_t>& content = laid_out->content;
  content = {classes_.of_laid_out[weight], -1, -1};
  // Control edges that are the weight's own.
  if (layouts.prefetch.has_value()) {
    content[1] = static_cast<int64_t>(weight);
    content[2] = *layouts.prefetch;
  }
  AppendPieces(layouts.parameter, content);
  AppendPieces(layouts.update, content);
  const auto known = by_layouts_.find(content);
  if (known != by_layouts_.end()) return known->second;
  RETURN_IF_ERROR(AddUpdates(weight, *laid_out));
  laid_out->id = NextId();
  Enter(*laid_out, kBytesOfSlot<decltype(by_layouts_)::value_type> +
                       HeapBytesOfAllocation(sizeof(LaidOut)) + HeapBytesOf(content) +
                       HeapBytesOf(layouts) + HeapBytesOf(laid_out->pod_layouts) +
                       HeapBytesOf(laid_out->parts) + HeapBytesOf(laid_out->pod_parts));
  by_layouts_.emplace(content, laid_out);
  return laid_out;
}

absl::Status FragmentCache::AddUpdates(size_t weight, LaidOut& laid_out) {
  for (OpId id : updates_[weight]) {
    const Operator& op = graph_.op(id);
    ASSIGN_OR_RETURN(laid_out.parts.emplace_back(),
                     UpdateParts(graph_, op, laid_out.layouts.update));
  }
  laid_out.pod_parts = PodParts(laid_out.parts);
  if (IsOfFirstPod()) {
    laid_out.pod_layouts = LayoutsOfFirstPod(laid_out.layouts, options_.pod_devices);
  }
  const auto& parts = IsOfFirstPod() ? laid_out.pod_parts : laid_out.parts;
  const WeightLayouts& layouts = IsOfFirstPod() ? laid_out.pod_layouts : laid_out.layouts;
  laid_out.fragments.reserve(parts.size());
  for (size_t u = 0; u < parts.size(); ++u) {
    OperatorFragment& fragment =
        laid_out.fragments.emplace_back(FragmentOf(updates_[weight][u], parts[u], &layouts));
    Register(fragment, sizeof(fragment) + HeapBytesOf(fragment));
  }
  laid_out.stores.reserve(kept_tensors_[weight].size());
  for (TensorId id : kept_tensors_[weight]) {
    Fragment& store =
        laid_out.stores.emplace_back(MakeStore(graph_.tensor(id), layouts, options_.devices));
    Register(store, sizeof(store) + HeapBytesOf(store));
  }
  return absl::OkStatus();
}

bool FragmentCache::HasPrefetch(const Strategy& strategy, size_t weight) {
  return weight < strategy.weights.size() && strategy.weights[weight].prefetch.has_value();
}

// 0 for the defaults. Strategies have few other placements.
int32_t FragmentCache::PlacementId(const Strategy& strategy, size_t weight) {
  if (weight >= strategy.weights.size()) return 0;
  const WeightPlacement& wanted = strategy.weights[weight];
  if (wanted == WeightPlacement()) return 0;
  return NumberOf(placements_[ClassOf(weight)], wanted, [&] {
    int64_t bytes = 0;
    for (const auto& layout : {wanted.parameter, wanted.update}) {
      if (layout.has_value()) bytes += HeapBytesOf(*layout);
    }
    return bytes;
  });
}

absl::Status FragmentCache::FindBuckets(const Strategy& strategy, StepFragments& step) {
  const bool has_runs = step.buckets.empty() && step.runs.size() == runs_.size();
  if (!has_runs) step.runs = runs_;
  step.buckets.clear();
  for (const Bucket& bucket : strategy.buckets) {
    ASSIGN_OR_RETURN(const auto members, FindMembers(graph_, places_, bucket, step));
    BucketKey key{{}, bucket.algorithm};
    for (const BucketFragment::Member& member : members) {
      key.first.push_back(member.tensor.value());
      const int64_t number = step.TensorFragmentOf(member.tensor, member.group).number;
      key.first.push_back(static_cast<int32_t>(number >> 32));
      key.first.push_back(static_cast<int32_t>(number));
      key.first.push_back(member.task.value());
    }
    std::unique_ptr<Bucketed>& bucketed = buckets_[key];
    if (bucketed == nullptr) {
      ASSIGN_OR_RETURN(BucketFragment made,
                       MakeBucketFragment(members, bucket.algorithm, step, options_));
      bucketed = std::make_unique<Bucketed>();
      Register(made, HeapBytesOf(made));
      bucketed->fragment = std::move(made);
      Enter(*bucketed, kBytesOfSlot<decltype(buckets_)::value_type> +
                           HeapBytesOfAllocation(sizeof(Bucketed)) + HeapBytesOf(key.first));
    }
    Touch(*bucketed);
    step.buckets.push_back(&bucketed->fragment);
  }
  if (step.buckets.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(step.runs, RunsWithBuckets(graph_, places_, runs_, step.buckets));
  for (TaskRun& run : step.runs) {
    if (run.bucket >= 0 || run.end != TaskRun::kAll || run.begin == 0) continue;
    run.end =
        static_cast<int32_t>(step.FragmentOf(chain_[static_cast<size_t>(run.link)]).graph.size());
  }
  return absl::OkStatus();
}

void FragmentCache::Register(Fragment& fragment, int64_t bytes) {
  fragment.number = fragments_++;
  if (free_.empty()) {
    fragment.place = static_cast<int32_t>(bytes_of_.size());
    bytes_of_.emplace_back();
  } else {
    fragment.place = free_.back();
    free_.pop_back();
  }
  AddBytes(fragment, Bytes(bytes));
}

void FragmentCache::Enter(Entry& entry, int64_t bytes) {
  entry.bytes = Bytes(bytes);
  bytes_ += entry.bytes;
  Touch(entry);
}

int32_t FragmentCache::NextId() {
  CHECK_LT(ids_, std::numeric_limits<int32_t>::max()) << "decisions looked at by one cache";
  return ++ids_;
}

}  // namespace partita
