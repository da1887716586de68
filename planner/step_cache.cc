#include "planner/step_cache.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "graph/support/status_macros.h"

namespace partita {
namespace {

// Of an operator's fragment; they are few, as neighbours decide them.
constexpr size_t kMaxVariants = 256;

// Keys sort operators before tensors, each by number; the tasks of a fragment have one of them.
std::vector<size_t> KeyOrder(const std::vector<FragmentCache::Link>& chain) {
  std::vector<size_t> order(chain.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const FragmentCache::Link &x = chain[a], &y = chain[b];
    return std::tuple(x.is_tensor, x.id, x.group) < std::tuple(y.is_tensor, y.id, y.group);
  });
  return order;
}

}  // namespace

StepCache::StepCache(const Graph& graph, PartitionOptions options, const FlatteningRules& rules,
                     Bytes most)
    : rules_(rules),
      cache_(graph, std::move(options), most, FragmentCache::Use::kPricing),
      link_(cache_),
      loads_(rules.resources, rules.model, cache_.options().devices,
             cache_.options().node_of_device),
      may_fuse_(graph.ops().size(), false),
      key_order_(KeyOrder(cache_.chain())) {
  for (const FragmentLinker::MayFuse& pair : link_.may_fuse()) {
    for (OpId op : {pair.producer, pair.reader}) may_fuse_[op.index()] = true;
  }
}

absl::StatusOr<StepCache::Found> StepCache::FindOrBuild(const Strategy& strategy,
                                                        const Limits& limits) {
  ASSIGN_OR_RETURN(const bool is_found, cache_.Find(strategy, fragments_, limits.interrupted));
  if (generation_ != cache_.generation()) flattened_.clear();
  generation_ = cache_.generation();
  if (!is_found) return Found{.interrupted = true};
  ASSIGN_OR_RETURN(const bool is_below, BuildBelow(strategy, limits));
  if (!is_below) {
    return Found{.bound = loads_.Largest(), .interrupted = loads_.Largest() <= limits.cutoff};
  }
  RETURN_IF_ERROR(cache_.Complete(strategy, fragments_));
  link_.Link(fragments_);
  builder_.Start(rules_.resources.count(), cache_.options().devices, rules_.distances);
  compact_.resize(static_cast<size_t>(link_.buffers()));
  for (size_t t = 0; t < fragments_.stores.size(); ++t) {
    const TensorId id(static_cast<int32_t>(t));
    if (fragments_.stores[t] != nullptr) {
      AddBuffers(*fragments_.stores[t], link_.StoredBuffers(id));
    }
  }
  for (size_t k = 0; k < cache_.chain().size(); ++k) {
    AddBuffers(fragments_.FragmentOf(cache_.chain()[k]), link_.OwnBuffers(k));
  }
  flat_.assign(cache_.chain().size(), nullptr);
  for (const TaskRun& run : fragments_.runs) AddRun(run);
  builder_.SetAfter(link_.after());
  keyless_.clear();
  for (const BucketFragment* bucket : fragments_.buckets) {
    for (size_t m = 1; m < bucket->members.size(); ++m) {
      keyless_.emplace(bucket->members[m].link, bucket->members[m].task.value());
    }
  }
  for (size_t place : key_order_) AddKeys(place);
  std::vector<HostOutput> outputs = link_.outputs();
  for (HostOutput& output : outputs) output.buffer = compact_[output.buffer.index()];
  return Found{.step = &builder_.Finish(outputs)};
}

// Buckets replace tasks of fragments, and formats change what kernels and moves take.
bool StepCache::HasBound(const Strategy& strategy) const {
  return strategy.buckets.empty() && !cache_.options().native_formats;
}

absl::StatusOr<bool> StepCache::BuildBelow(const Strategy& strategy, const Limits& limits) {
  loads_.RemoveCommunications();
  loads_.Clear();
  if (limits.cutoff == kNoCutoff || !HasBound(strategy)) return BuildAll(strategy, limits);
  AddKnownLoads();
  std::vector<Missing> missing = MissingLoads();
  for (const Missing& one : missing) AddLoads(one);
  if (loads_.Largest() > limits.cutoff) return false;
  std::vector<TensorFragmentsBuilder> solved;
  solved.reserve(missing.size());
  for (Missing& one : missing) {
    if (limits.is_interrupted()) return false;
    solved.push_back(cache_.Solve(*one.alike, strategy));
    RemoveLoads(one);
    one.loads =
        loads_.OfExchanges(solved.back().steps(), SizeOf(solved.back().tensor().type.dtype));
    AddLoads(one);
    if (loads_.Largest() > limits.cutoff) return false;
  }
  const CommunicationWatch judge = [&](const TaskBody& body) {
    return !limits.is_interrupted() &&
           loads_.AddCommunication(body, prices_.back()) <= limits.cutoff;
  };
  for (size_t k = 0; k < missing.size(); ++k) {
    if (limits.is_interrupted()) return false;
    loads_.Remove(missing[k].loads);
    ASSIGN_OR_RETURN(const bool is_built,
                     BuildTensors(*missing[k].alike, std::move(solved[k]), strategy, judge));
    if (!is_built) return false;
    loads_.RemoveCommunications();
    for (TensorId id : missing[k].alike->tensors) AddLoadsOfTensor(id);
    for (size_t other = 1; other < missing[k].alike->tensors.size(); ++other) {
      loads_.Remove(missing[k].loads);
    }
    if (loads_.Largest() > limits.cutoff) return false;
  }
  return true;
}

absl::StatusOr<bool> StepCache::BuildAll(const Strategy& strategy, const Limits& limits) {
  const CommunicationWatch judge = [&](const TaskBody&) { return !limits.is_interrupted(); };
  for (FragmentCache::Missing& alike : cache_.missing()) {
    if (limits.is_interrupted()) return false;
    ASSIGN_OR_RETURN(const bool is_built,
                     BuildTensors(alike, cache_.Solve(alike, strategy), strategy, judge));
    if (!is_built) return false;
  }
  return true;
}

absl::StatusOr<bool> StepCache::BuildTensors(const FragmentCache::Missing& alike,
                                             TensorFragmentsBuilder solved,
                                             const Strategy& strategy,
                                             const CommunicationWatch& judge) {
  const TensorId id = alike.tensors[0];
  prices_.clear();
  const CommunicationWatch watch = [&](const TaskBody& body) {
    prices_.push_back(PriceCommunication(body, rules_.model));
    return judge(body);
  };
  ASSIGN_OR_RETURN(const bool is_built,
                   cache_.Build(alike, std::move(solved), strategy, fragments_, &watch));
  if (!is_built) return false;
  std::span<const TaskCost> rest = prices_;
  for (const TensorFragment& fragment : fragments_.tensors[id.index()]->groups) {
    const auto tasks = fragment.graph.tasks();
    const auto own =
        static_cast<size_t>(std::count_if(tasks.begin(), tasks.end(), IsCommunication));
    FlattenedOf(fragment, rest.first(own));
    rest = rest.subspan(own);
  }
  return true;
}

// Kernels that may be fused are left out.
void StepCache::AddKnownLoads() {
  for (size_t op = 0; op < may_fuse_.size(); ++op) {
    if (!may_fuse_[op]) AddLoadsOfOperator(OpId(static_cast<int32_t>(op)));
  }
  for (size_t t = 0; t < fragments_.tensors.size(); ++t) {
    if (fragments_.tensors[t] != nullptr) AddLoadsOfTensor(TensorId(static_cast<int32_t>(t)));
  }
}

void StepCache::AddLoadsOfTensor(TensorId id) {
  for (const TensorFragment& fragment : fragments_.tensors[id.index()]->groups) {
    loads_.Add(FlattenedOf(fragment).loads);
  }
}

// Those that load a resource most come first: they are the likeliest to be too much.
std::vector<StepCache::Missing> StepCache::MissingLoads() {
  std::vector<Missing> missing;
  const PartitionOptions& options = cache_.options();
  for (FragmentCache::Missing& alike : cache_.missing()) {
    const Tensor& tensor = cache_.graph().tensor(alike.tensors[0]);
    const Arrivals arrivals = LeastArrivals(cache_.graph(), tensor, cache_.parts(),
                                            options.node_of_device, options.devices);
    Missing& one = missing.emplace_back(Missing{&alike, {}});
    one.loads = loads_.OfArrivals(arrivals, SizeOf(tensor.type.dtype));
    for (const auto& [resource, time] : one.loads) one.largest = std::max(one.largest, time);
  }
  std::stable_sort(missing.begin(), missing.end(),
                   [](const Missing& a, const Missing& b) { return a.largest > b.largest; });
  return missing;
}

void StepCache::AddRun(const TaskRun& run) {
  if (run.bucket >= 0) {
    const BucketFragment& bucket = *fragments_.buckets[static_cast<size_t>(run.bucket)];
    return AddTasks(*FlattenedOf(bucket).plain, {}, link_.BucketSlots(bucket),
                    {.is_tensor = true, .id = bucket.members[0].tensor.value()});
  }
  const ChainLink& link = cache_.chain()[static_cast<size_t>(run.link)];
  const FlatStep*& flat = flat_[static_cast<size_t>(run.link)];
  if (!link.is_tensor) {
    flat = &AddOperator(OpId(link.id));
    return;
  }
  flat = FlattenedOf(fragments_.FragmentOf(link)).plain.get();
  const auto slots = link_.TensorSlots(TensorId(link.id), link.group);
  AddTasks(*flat, run, slots, link);
}

void StepCache::AddTasks(const FlatStep& flat, const TaskRun& run, std::span<const BufferId> slots,
                         const ChainLink& of) {
  int32_t subject = 0;
  if (rules_.distances != nullptr) {
    subject = of.is_tensor ? rules_.distances->SubjectOf(TensorId(of.id))
                           : rules_.distances->SubjectOf(OpId(of.id));
  }
  const size_t end = run.end == TaskRun::kAll ? flat.costs.size() : static_cast<size_t>(run.end);
  compact_slots_.clear();
  for (BufferId slot : slots) compact_slots_.push_back(compact_[slot.index()]);
  builder_.AddTasks({flat, static_cast<size_t>(run.begin), end, compact_slots_, subject});
}

// A link all of whose tasks are in buckets has had no run.
void StepCache::AddKeys(size_t link) {
  const std::vector<TaskId>* split = link_.SplitTasks(link);
  if (split == nullptr) {
    const TaskId first = link_.FirstTask(link);
    for (int32_t task : flat_[link]->tasks.by_key) builder_.AddKey(TaskId(first.value() + task));
    return;
  }
  const Fragment& fragment = fragments_.FragmentOf(cache_.chain()[link]);
  for (int32_t task : FlattenedOf(fragment).plain->tasks.by_key) {
    if (keyless_.contains({static_cast<int32_t>(link), task})) continue;
    builder_.AddKey((*split)[static_cast<size_t>(task)]);
  }
}

StepCache::Flattened& StepCache::FlattenedOf(const Fragment& fragment,
                                             std::span<const TaskCost> communications) {
  if (flattened_.size() <= static_cast<size_t>(fragment.number)) {
    flattened_.resize(static_cast<size_t>(cache_.fragments()));
  }
  Flattened& known = flattened_[static_cast<size_t>(fragment.number)];
  if (known.plain != nullptr) return known;
  known.plain = std::make_unique<FlatStep>(FlattenFragment(fragment.graph, rules_, communications));
  known.loads = loads_.OfTasks(*known.plain);
  cache_.AddBytes(BytesOf(*known.plain) +
                  Bytes(static_cast<int64_t>(known.loads.size() * sizeof(known.loads[0]))));
  if (!cache_.options().native_formats) return known;
  known.native = known.plain->uses.buffers;
  for (Buffer buffer : fragment.graph.buffers()) {
    if (!MayBeNative(buffer)) continue;
    BufferUses::BufferFacts& facts = known.native[buffer.id.index()];
    facts.format = buffer.format = Format::kNative;
    if (rules_.sizes.buffer_bytes) facts.bytes = rules_.sizes.buffer_bytes(buffer);
  }
  return known;
}

const FlatStep& StepCache::AddOperator(OpId id) {
  Flattened& known = FlattenedOf(*fragments_.operators[id.index()]);
  if (link_.IsPlain(id)) {
    AddTasks(*known.plain, {}, link_.OperatorSlots(id), {.id = id.value()});
    return *known.plain;
  }
  const FragmentLinker::Variant variant = link_.VariantOf(fragments_, id);
  auto it = std::find_if(known.variants.begin(), known.variants.end(),
                         [&](const auto& entry) { return entry.first == variant; });
  if (it == known.variants.end()) {
    if (known.variants.size() == kMaxVariants) known.variants.clear();
    known.variants.emplace_back(variant, std::make_unique<FlatStep>(FlattenFragment(
                                             link_.Resolve(fragments_, id), rules_)));
    cache_.AddBytes(BytesOf(*known.variants.back().second));
    it = known.variants.end() - 1;
  }
  AddTasks(*it->second, {}, link_.ResolvedSlots(id), {.id = id.value()});
  return *it->second;
}

void StepCache::AddBuffers(const Fragment& fragment, const Sections::Section& numbers) {
  const Flattened& known = FlattenedOf(fragment);
  auto slot = static_cast<size_t>(fragment.outer);
  for (int32_t b = numbers.begin; b < numbers.end(); ++b, ++slot) {
    const BufferId id(b);
    compact_[id.index()] = BufferId(builder_.buffers());
    builder_.AddBuffer(link_.IsNative(id) ? known.native[slot] : known.plain->uses.buffers[slot]);
  }
}

}  // namespace partita
