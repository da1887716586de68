#include "planner/step_cache.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "graph/support/differences.h"
#include "graph/support/heap_bytes.h"
#include "graph/support/status_macros.h"

namespace partita {
namespace {

// Solved exchanges that are kept until their tensors are built. Those beyond are solved again then.
constexpr Bytes kMostSolved(int64_t{64} << 20);

// Memory that solved exchanges take, by what lists of flows hold.
Bytes BytesOf(std::span<const std::span<const ExchangeStep>> exchanges) {
  size_t bytes = 0;
  for (const auto& steps : exchanges) {
    for (const ExchangeStep& step : steps) {
      bytes += sizeof(ExchangeStep) + step.group.size() * sizeof(DeviceId);
      for (const Flow& flow : step.flows) {
        bytes += sizeof(Flow) + flow.boxes.size() * sizeof(Box) +
                 flow.owners.size() * sizeof(Share) + flow.destinations.size() * sizeof(DeviceId) +
                 flow.demands.size() * sizeof(int32_t);
        for (const Share& share : flow.owners) bytes += share.pieces.size() * sizeof(int32_t);
      }
    }
  }
  return Bytes(static_cast<int64_t>(bytes));
}

}  // namespace

StepCache::StepCache(const Graph& graph, PartitionOptions options, const FlatteningRules& rules,
                     Bytes most, bool schedules)
    : rules_(rules),
      most_(most),
      cache_(graph, std::move(options), FragmentCache::Use::kPricing),
      link_(cache_),
      loads_(rules.resources, rules.model, cache_.options().devices,
             cache_.options().node_of_device),
      flattener_(rules),
      buckets_(cache_, rules_, flattener_.lister()),
      may_fuse_(graph.ops().size(), false),
      counted_(cache_.chain().size(), -1),
      seen_(cache_.chain().size(), kNoFragment),
      states_(cache_.chain().size()),
      key_order_(KeyOrder(cache_.chain())) {
  if (schedules && rules.distances != nullptr && !cache_.options().native_formats) {
    placed_.emplace(cache_, link_, *rules.distances, rules.resources);
  }
  std::set<FragmentCache::OperatorKind> fused;
  for (const FragmentLinker::MayFuse& pair : link_.may_fuse()) {
    for (OpId op : {pair.producer, pair.reader}) {
      may_fuse_[op.index()] = true;
      fused.insert(cache_.KindOf(op));
    }
  }
  for (const Operator& op : graph.ops()) {
    keeps_kernels_.push_back(fused.contains(cache_.KindOf(op.id)));
  }
}

absl::StatusOr<StepCache::Found> StepCache::FindOrBuild(const Strategy& strategy,
                                                        const Limits& limits) {
  is_flat_ = false;
  SetBucketBytes(strategy.buckets.empty() ? limits.bucket_bytes : Bytes(0));
  Shrink();
  ASSIGN_OR_RETURN(const bool is_found, cache_.Find(strategy, fragments_, limits.interrupted));
  if (!is_found) return Found{.interrupted = true};
  ASSIGN_OR_RETURN(const bool is_below, BuildBelow(strategy, limits));
  if (!is_below) {
    return Found{.bound = loads_.Largest(), .interrupted = loads_.Largest() <= limits.cutoff};
  }
  RETURN_IF_ERROR(cache_.Complete(strategy, fragments_));
  link_.Link(fragments_);
  FindLinkStates();
  if (placed_.has_value()) {
    placed_->Update(fragments_, [this](size_t link) { return TasksOf(link); });
  }
  buckets_.Find(fragments_, strategy, bucket_bytes_,
                [this](size_t link, TaskId task) { return NumberIn(*states_[link].flat, task); });
  cache_.Hold();
  RETURN_IF_ERROR(CheckPods());
  return Found{.has_step = true};
}

// Where formats are chosen, those of all buffers may have changed.
void StepCache::FindLinkStates() {
  const auto find = [this](size_t k) {
    const ChainLink& link = cache_.chain()[k];
    LinkState& state = states_[k];
    const OpId op(link.id);
    state.is_resolved = !link.is_tensor && !link_.IsPlain(op);
    state.slots.clear();
    if (state.is_resolved) state.slots = link_.ResolvedSlots(op);
    state.flat =
        state.is_resolved ? &VariantOf(op) : FlattenedOf(fragments_.FragmentOf(link)).plain.get();
    ForgetKernels(k);
  };
  if (cache_.options().native_formats) {
    for (size_t k = 0; k < states_.size(); ++k) find(k);
  } else {
    for (int32_t link : link_.relinked()) find(static_cast<size_t>(link));
  }
}

absl::Status StepCache::CheckPods() {
  if (rules_.pods == nullptr) return absl::OkStatus();
  for (size_t k = 0; k < states_.size(); ++k) {
    if (states_[k].flat->unknown.empty()) continue;
    const ChainLink& link = cache_.chain()[k];
    const std::string& name = link.is_tensor ? cache_.graph().tensor(TensorId(link.id)).name
                                             : cache_.graph().op(OpId(link.id)).name;
    return absl::InvalidArgumentError(absl::StrCat("'", name, "': ", states_[k].flat->unknown));
  }
  for (const BucketFragment* bucket : fragments_.buckets) {
    const std::string& unknown = FlattenedOf(*bucket).plain->unknown;
    if (!unknown.empty()) return absl::InvalidArgumentError(absl::StrCat("a bucket: ", unknown));
  }
  return absl::OkStatus();
}

LinkTasks StepCache::TasksOf(size_t link) const {
  const LinkState& state = states_[link];
  const ChainLink& of = cache_.chain()[link];
  if (state.is_resolved) return {state.flat, state.slots};
  return {state.flat, of.is_tensor ? link_.TensorSlots(TensorId(of.id), of.group)
                                   : link_.OperatorSlots(OpId(of.id))};
}

bool StepCache::CanSimulate() const {
  return placed_.has_value() && fragments_.buckets.empty() && placed_->CanSimulate();
}

bool StepCache::CanSimulateBuckets() const {
  return CanSimulate() && buckets_.are_regular() && placed_->CanSimulate(buckets_.joined());
}

std::vector<Nanos> StepCache::CriticalTimes() {
  PlacedStep::Critical critical = placed_->FindCritical();
  if (!buckets_.joined().empty()) {
    PlacedStep::Critical joined = placed_->FindCritical(buckets_.joined());
    if (joined.length < critical.length) critical = std::move(joined);
  }
  return std::move(critical.times);
}

std::vector<Bytes> StepCache::MostMemory() {
  std::vector<Bytes> most(static_cast<size_t>(cache_.options().devices));
  for (const LinkState& state : states_) RaiseToScratch(state.flat->step.uses.scratch, most);
  const auto add = [&](const Fragment& fragment) {
    for (const auto& [device, bytes] : FlattenedOf(fragment).buffers) most[device.index()] += bytes;
  };
  for (const Fragment* store : fragments_.stores) {
    if (store != nullptr) add(*store);
  }
  for (const ChainLink& link : cache_.chain()) add(fragments_.FragmentOf(link));
  return most;
}

std::vector<Nanos> StepCache::Starts() const { return placed_->Starts(); }

std::vector<StepCache::Collective> StepCache::Collectives() {
  link_.LinkEdges(fragments_);
  absl::flat_hash_set<TaskId> waiting;
  for (const auto& [task, before] : link_.after()) waiting.insert(task);
  std::vector<Collective> collectives;
  for (const TaskRun& run : fragments_.runs) {
    const auto link = static_cast<size_t>(run.link);
    const ChainLink& of = cache_.chain()[link];
    if (!of.is_tensor) continue;
    const TaskId first = link_.FirstTask(link);
    for (const Task& task : run.TasksOf(fragments_.FragmentOf(of).graph)) {
      const auto* body = std::get_if<CollectiveTask>(&task.body);
      if (body == nullptr) continue;
      const TaskId own(first.value() + task.id.value());
      collectives.push_back({{TensorId(of.id), task.key.step}, body, waiting.contains(own)});
    }
  }
  return collectives;
}

const FlatStep& StepCache::Flat() {
  if (std::exchange(is_flat_, true)) return builder_.step();
  first_.assign(cache_.chain().size(), 0);
  split_.clear();
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
  for (const TaskRun& run : fragments_.runs) AddRun(run);
  link_.LinkEdges(fragments_);
  builder_.SetAfter(rules_.pods == nullptr ? link_.after() : AfterOfPods());
  keyless_.clear();
  for (const BucketFragment* bucket : fragments_.buckets) {
    for (size_t m = 1; m < bucket->members.size(); ++m) {
      const auto& [tensor, group, link, task] = bucket->members[m];
      keyless_.emplace(link, NumberIn(*states_[static_cast<size_t>(link)].flat, task));
    }
  }
  for (size_t place : key_order_) AddKeys(place);
  std::vector<HostOutput> outputs = link_.outputs();
  for (HostOutput& output : outputs) output.buffer = compact_[output.buffer.index()];
  return builder_.Finish(outputs);
}

std::vector<std::pair<TaskId, TaskId>> StepCache::AfterOfPods() const {
  absl::flat_hash_map<TaskId, int32_t> numbers;  // of those that wait or are waited for
  for (const auto& [task, before] : link_.after()) {
    numbers.try_emplace(task, -1);
    numbers.try_emplace(before, -1);
  }
  if (numbers.empty()) return {};
  for (size_t k = 0; k < states_.size(); ++k) {
    const auto tasks = static_cast<int32_t>(fragments_.FragmentOf(cache_.chain()[k]).graph.size());
    for (TaskId task(0); task.value() < tasks; task = TaskId(task.value() + 1)) {
      const auto it = numbers.find(link_.TaskOf(k, task));
      const int32_t number = NumberIn(*states_[k].flat, task);
      if (it != numbers.end() && number >= 0) it->second = FlatTaskOf(k, number).value();
    }
  }
  std::vector<std::pair<TaskId, TaskId>> after;
  for (const auto& [task, before] : link_.after()) {
    const int32_t a = numbers.at(task), b = numbers.at(before);
    if (a >= 0 && b >= 0) after.emplace_back(TaskId(a), TaskId(b));
  }
  std::sort(after.begin(), after.end());
  return after;
}

// Buckets replace tasks of fragments, and formats change what kernels and moves take.
bool StepCache::HasBound(const Strategy& strategy) const {
  return strategy.buckets.empty() && !cache_.options().native_formats;
}

absl::StatusOr<bool> StepCache::BuildBelow(const Strategy& strategy, const Limits& limits) {
  if (limits.cutoff == kNoCutoff || !HasBound(strategy)) return BuildAll(strategy, limits);
  FindKnownLoads();
  loads_.Start();
  std::vector<Missing> missing = MissingLoads();
  for (const Missing& one : missing) AddLoads(one);
  if (loads_.Largest() > limits.cutoff) return false;
  if (!SolveBelow(missing, strategy, limits)) return false;
  for (Missing& one : missing) {
    if (limits.is_interrupted()) return false;
    if (!one.solved.has_value()) {
      one.solved.emplace(cache_.Solve(*one.alike, strategy));
      one.communications = {};
      FindCommunications(one, [](const TaskBody&) { return true; });
    }
    RemoveLoads(one);
    RETURN_IF_ERROR(BuildTensors(one, strategy));
    for (TensorId id : one.alike->tensors) AddLoadsOfTensor(id);
    if (loads_.Largest() > limits.cutoff) return false;
  }
  return true;
}

bool StepCache::SolveBelow(std::vector<Missing>& missing, const Strategy& strategy,
                           const Limits& limits) {
  Bytes of_solved;
  for (Missing& one : missing) {
    if (limits.is_interrupted()) return false;
    one.solved.emplace(cache_.Solve(*one.alike, strategy));
    const auto steps = one.solved->steps();
    RemoveLoads(one);
    one.loads = loads_.OfExchanges(steps, SizeOf(one.solved->tensor().type.dtype),
                                   bucket_bytes_ == Bytes(0));
    AddLoads(one);
    if (loads_.Largest() > limits.cutoff) return false;
    of_solved += BytesOf(steps);
    if (!CommunicateBelow(one, limits)) return false;
    if (of_solved > kMostSolved) one.solved.reset();
  }
  return true;
}

bool StepCache::CommunicateBelow(Missing& one, const Limits& limits) {
  RemoveLoads(one);
  const KnownCommunications& known = one.communications;
  const bool is_below = FindCommunications(one, [&](const TaskBody& body) {
    if (limits.is_interrupted()) return false;
    if (IsJoinable(body)) return true;
    if (rules_.pods != nullptr) return AddFirstPods(body) <= limits.cutoff;
    return loads_.AddCommunication(known.resources.back(), known.costs.back()) <= limits.cutoff;
  });
  if (!is_below) return false;
  one.loads = loads_.TakeCommunications();
  AddLoads(one);
  return loads_.Largest() <= limits.cutoff;
}

// What the first pod does not know of it holds nothing.
Nanos StepCache::AddFirstPods(const TaskBody& built) {
  const auto seen = rules_.pods->CommunicationOf(built);
  if (!seen.ok() || !seen->has_value()) return Nanos(0);
  held_.clear();
  flattener_.lister().List((*seen)->body, held_);
  std::erase_if(held_, [this](int32_t resource) { return !rules_.pods->IsHeld(resource); });
  return loads_.AddCommunication(held_, (*seen)->cost);
}

bool StepCache::FindCommunications(Missing& missing,
                                   absl::FunctionRef<bool(const TaskBody&)> judge) {
  return missing.solved->FindCommunications([&](const TaskBody& body) {
    if (rules_.pods != nullptr) return judge(body);
    missing.communications.costs.push_back(PriceCommunication(body, rules_.model));
    flattener_.lister().List(body, missing.communications.resources.emplace_back());
    return judge(body);
  });
}

absl::StatusOr<bool> StepCache::BuildAll(const Strategy& strategy, const Limits& limits) {
  for (FragmentCache::Missing& alike : cache_.missing()) {
    if (limits.is_interrupted()) return false;
    Missing one{&alike, {}};
    one.solved.emplace(cache_.Solve(alike, strategy));
    if (!FindCommunications(one, [&](const TaskBody&) { return !limits.is_interrupted(); })) {
      return false;
    }
    RETURN_IF_ERROR(BuildTensors(one, strategy));
  }
  return true;
}

absl::Status StepCache::BuildTensors(Missing& missing, const Strategy& strategy) {
  const TensorId id = missing.alike->tensors[0];
  RETURN_IF_ERROR(cache_.Build(*missing.alike, *std::move(missing.solved), strategy, fragments_));
  missing.solved.reset();
  const KnownCommunications& known = missing.communications;
  size_t begin = 0;
  for (const TensorFragment& fragment : fragments_.tensors[id.index()]->groups) {
    const auto tasks = fragment.graph.tasks();
    const size_t end =
        begin + static_cast<size_t>(std::count_if(tasks.begin(), tasks.end(), IsCommunication));
    FlattenedOf(fragment,
                rules_.pods == nullptr ? known.Between(begin, end) : CommunicationsOfGraph());
    begin = end;
  }
  cache_.KeepCollectives(id);
  return absl::OkStatus();
}

void StepCache::FindKnownLoads() {
  const auto links = std::span<const int64_t>(fragments_.numbers).first(counted_.size());
  ForEachDifference<int64_t>(links, seen_, [this](size_t k) {
    Count(FragmentToCount(k), counted_[k]);
    if (counted_[k] >= 0) ForgetKernels(k);
  });
}

// Null where it is not kept. Kernels that may be fused are left out.
const Fragment* StepCache::FragmentToCount(size_t link) const {
  const ChainLink& of = cache_.chain()[link];
  if (!of.is_tensor) {
    const auto op = static_cast<size_t>(of.id);
    return may_fuse_[op] ? nullptr : fragments_.operators[op];
  }
  const TensorFragments* tensor = fragments_.tensors[static_cast<size_t>(of.id)];
  return tensor == nullptr ? nullptr : &tensor->groups[static_cast<size_t>(of.group)];
}

void StepCache::Count(const Fragment* fragment, int32_t& counted) {
  const int32_t place = fragment == nullptr ? -1 : fragment->place;
  if (place == counted) return;
  if (counted >= 0) Uncount(counted);
  if (place >= 0) {
    loads_.AddKnown(FlattenedOf(*fragment).plain->loads);
    loads_.RemoveKnown(JoinableLoads(*fragment));
  }
  counted = place;
}

void StepCache::Uncount(int32_t& counted) {
  const Flattened& known = flattened_[static_cast<size_t>(counted)];
  loads_.RemoveKnown(known.plain->loads);
  loads_.AddKnown(known.joinable);
  counted = -1;
}

void StepCache::SetBucketBytes(Bytes most) {
  if (most == bucket_bytes_) return;
  for (size_t k = 0; k < counted_.size(); ++k) {
    if (counted_[k] >= 0) ForgetLoads(k);
  }
  bucket_bytes_ = most;
}

bool StepCache::IsJoinable(const TaskBody& body) const {
  const auto* collective = std::get_if<CollectiveTask>(&body);
  return collective != nullptr && BucketRule::MayJoin(*collective) &&
         BytesOf(*collective) <= bucket_bytes_;
}

const Loads& StepCache::JoinableLoads(const Fragment& fragment) {
  Flattened& known = FlattenedOf(fragment);
  if (std::exchange(known.joinable_bytes, bucket_bytes_) == bucket_bytes_) return known.joinable;
  const FlatFragment& flat = *known.plain;
  std::vector<char> is_joinable(flat.step.costs.size(), 0);
  for (const Task& task : fragment.graph.tasks()) {
    const int32_t number = NumberIn(flat, task.id);
    if (number >= 0) is_joinable[static_cast<size_t>(number)] = IsJoinable(task.body);
  }
  Loads joinable = LoadsOf(flat.step.tasks, flat.step.costs, flattener_.sums(),
                           [&](size_t task) { return is_joinable[task] != 0; });
  cache_.AddBytes(fragment, Bytes(HeapBytesOf(joinable) - HeapBytesOf(known.joinable)));
  known.joinable = std::move(joinable);
  return known.joinable;
}

void StepCache::AddLoadsOfTensor(TensorId id) {
  for (const TensorFragment& fragment : fragments_.tensors[id.index()]->groups) {
    loads_.Add(FlattenedOf(fragment).plain->loads);
    loads_.Remove(JoinableLoads(fragment));
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
  const auto next = static_cast<int32_t>(builder_.step().costs.size());
  if (run.bucket >= 0) {
    const BucketFragment& bucket = *fragments_.buckets[static_cast<size_t>(run.bucket)];
    for (const auto& [tensor, group, link, task] : bucket.members) {
      SplitTask(link, NumberIn(*states_[static_cast<size_t>(link)].flat, task)) = TaskId(next);
    }
    const FlatStep& flat = FlattenedOf(bucket).plain->step;
    return AddTasks(flat, {0, flat.costs.size()}, link_.BucketSlots(bucket),
                    {.is_tensor = true, .id = bucket.members[0].tensor.value()});
  }
  const auto link = static_cast<size_t>(run.link);
  const LinkTasks tasks = TasksOf(link);
  const FlatFragment& flat = *tasks.fragment;
  FlatRun added{NumberFrom(flat, run.begin), flat.step.costs.size()};
  if (run.end != TaskRun::kAll) added.end = NumberFrom(flat, run.end);
  if (link_.IsSplit(link)) {
    for (size_t k = added.begin; k < added.end; ++k) {
      const auto behind = static_cast<int32_t>(k - added.begin);
      SplitTask(run.link, static_cast<int32_t>(k)) = TaskId(next + behind);
    }
  } else {
    first_[link] = next;
  }
  AddTasks(flat.step, added, tasks.slots, cache_.chain()[link]);
}

TaskId& StepCache::SplitTask(int32_t link, int32_t number) {
  std::vector<TaskId>& tasks = split_[link];
  tasks.resize(states_[static_cast<size_t>(link)].flat->step.costs.size());
  return tasks[static_cast<size_t>(number)];
}

TaskId StepCache::FlatTaskOf(size_t link, int32_t number) const {
  const auto split = split_.find(static_cast<int32_t>(link));
  if (split == split_.end()) return TaskId(first_[link] + number);
  return split->second[static_cast<size_t>(number)];
}

void StepCache::AddTasks(const FlatStep& flat, FlatRun run, std::span<const BufferId> slots,
                         const ChainLink& of) {
  int32_t subject = 0;
  if (rules_.distances != nullptr) subject = SubjectOf(*rules_.distances, of);
  compact_slots_.clear();
  for (BufferId slot : slots) compact_slots_.push_back(compact_[slot.index()]);
  builder_.AddTasks({flat, run.begin, run.end, compact_slots_, subject});
}

// A link all of whose tasks are in buckets has had no run.
void StepCache::AddKeys(size_t link) {
  for (int32_t task : states_[link].flat->step.tasks.by_key) {
    if (!keyless_.contains({static_cast<int32_t>(link), task})) {
      builder_.AddKey(FlatTaskOf(link, task));
    }
  }
}

void StepCache::AddBuffers(const Fragment& fragment, const Sections::Section& numbers) {
  const Flattened& known = FlattenedOf(fragment);
  auto slot = static_cast<size_t>(fragment.outer);
  for (int32_t b = numbers.begin; b < numbers.end(); ++b, ++slot) {
    const BufferId id(b);
    compact_[id.index()] = BufferId(builder_.buffers());
    builder_.AddBuffer(link_.IsNative(id) ? known.native[slot]
                                          : known.plain->step.uses.buffers[slot]);
  }
}

}  // namespace partita
