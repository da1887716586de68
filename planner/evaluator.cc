#include "planner/evaluator.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/partition/planned_step.h"
#include "graph/support/philox.h"
#include "graph/support/status_macros.h"
#include "graph/task/task_order.h"
#include "planner/collective_choice.h"
#include "planner/contention.h"
#include "planner/simulator/critical_chain.h"
#include "planner/simulator/urgency.h"

namespace partita {
namespace {

// Stream of random numbers of a search for orders.
constexpr uint64_t kStreamOfOrders = 3;

// Durations whose sum fits, however slow a machine is said to be.
std::vector<Nanos> BoundedDurations(const std::vector<TaskCost>& costs) {
  const Nanos longest((int64_t{1} << 62) / (static_cast<int64_t>(costs.size()) + 1));
  std::vector<Nanos> durations = DurationsOf(costs);
  for (Nanos& duration : durations) duration = std::min(duration, longest);
  return durations;
}

// Busy time of lanes, and the time in which neither lane of a device is busy. Tasks come in the
// order of their starts on each lane, and so do they on both lanes together.
std::vector<DeviceUse> UseOf(const EvaluatedStep& step) {
  const auto devices = static_cast<size_t>(step.tasks.devices());
  std::vector<DeviceUse> use(devices);
  std::vector<TaskId> by_start = step.order;
  std::stable_sort(by_start.begin(), by_start.end(), [&](TaskId a, TaskId b) {
    return step.schedule.start[a.index()] < step.schedule.start[b.index()];
  });
  std::vector<Nanos> covered(devices);  // the end of what has been seen of each device
  for (TaskId id : by_start) {
    const Task& task = step.tasks.task(id);
    const Nanos start = step.schedule.start[id.index()], end = step.schedule.end[id.index()];
    for (DeviceId device : DevicesOf(task)) {
      DeviceUse& u = use[device.index()];
      (IsCommunication(task) ? u.communication : u.compute) += end - start;
      Nanos& until = covered[device.index()];
      if (start > until) u.idle += start - until;
      until = std::max(until, end);
    }
  }
  for (size_t d = 0; d < devices; ++d) use[d].idle += step.schedule.makespan - covered[d];
  return use;
}

void CheckMemory(const Evaluator& evaluator, Evaluation& evaluation) {
  for (size_t d = 0; d < evaluation.peak.size(); ++d) {
    const DeviceId id(static_cast<int32_t>(d));
    const Device& device = evaluator.topology().device(id);
    const Bytes memory = evaluator.MemoryOf(id);
    const Bytes excess = evaluation.peak[d] - memory;
    if (excess <= evaluation.excess) continue;
    evaluation.excess = excess;
    evaluation.verdict = Evaluation::Verdict::kOutOfMemory;
    evaluation.reason =
        absl::StrCat("device ", d, " (", device.name, ") needs ", evaluation.peak[d].value(),
                     " bytes and ", memory < device.memory ? "may take " : "has ", memory.value(),
                     ": ", excess.value(), " too few");
  }
}

// Takes what memory the devices need, those of the topology, and checks that they have it.
void TakePeaks(const Evaluator& evaluator, std::vector<Bytes> peaks, Evaluation& evaluation) {
  peaks.resize(std::min(peaks.size(), static_cast<size_t>(evaluator.topology().size())));
  evaluation.peak = std::move(peaks);
  if (evaluator.options().limit_memory) CheckMemory(evaluator, evaluation);
}

// But for the busy times.
Schedule ScheduleFrom(std::vector<Nanos> starts, const std::vector<Nanos>& durations) {
  Schedule schedule{.start = std::move(starts)};
  schedule.end.reserve(durations.size());
  for (size_t t = 0; t < durations.size(); ++t) {
    schedule.end.push_back(schedule.start[t] + durations[t]);
    schedule.makespan = std::max(schedule.makespan, schedule.end.back());
  }
  return schedule;
}

// Takes durations and schedule from what the cache simulated last, to the end.
void TakeSchedule(StepCache& cache, EvaluatedStep& step) {
  step.durations = DurationsOf(cache.Flat().costs);
  step.schedule = ScheduleFrom(cache.Starts(), step.durations);
}

// Whether tasks start after the ends of those that they wait for.
bool AreMet(const std::vector<std::pair<TaskId, TaskId>>& waits, const Schedule& schedule) {
  return std::all_of(waits.begin(), waits.end(), [&](const auto& wait) {
    return schedule.end[wait.second.index()] <= schedule.start[wait.first.index()];
  });
}

Evaluation Invalid(const absl::Status& status) {
  Evaluation evaluation;
  evaluation.verdict = Evaluation::Verdict::kInvalid;
  evaluation.reason = std::string(status.message());
  return evaluation;
}

}  // namespace

Evaluator::Evaluator(const Graph& graph, const DeviceTopology& topology, const CostModel& model,
                     Options options)
    : graph_(graph),
      model_(model),
      options_(std::move(options)),
      topology_(topology),
      resources_(options_.pods == nullptr ? topology : options_.pods->machine),
      distances_(graph) {
  if (options_.pods == nullptr) return;
  PartitionOptions whole = PartitionOptionsOf(resources_.topology(), options_.choices);
  auto view = PodView::Create(resources_, options_.pods->pods, model_,
                              CheapestAlgorithm(model_, std::move(whole.node_of_device)));
  status_ = view.status();
  if (view.ok()) pod_view_ = *std::move(view);
}

Bytes Evaluator::MemoryOf(DeviceId device) const {
  const Bytes own = topology().device(device).memory;
  const Bytes limit = options_.memory_limit;
  return limit > Bytes(0) ? std::min(own, limit) : own;
}

PartitionOptions Evaluator::partition_options() const {
  PartitionOptions options = PartitionOptionsOf(resources_.topology(), options_.choices);
  if (pod_view_ != nullptr) {
    const Pods pods = pod_view_->pods();
    const auto devices = static_cast<size_t>(pods.devices * pod_view_->built());
    options.devices = static_cast<int>(devices);
    options.node_of_device.resize(devices);
    options.class_of_device.resize(devices);
    if (!options.precision_of_device.empty()) options.precision_of_device.resize(devices);
    auto& nondeterministic = options.nondeterministic_of_device;
    if (!nondeterministic.empty()) nondeterministic.resize(devices);
  }
  options.stop = options_.stop;
  options.algorithm = CheapestAlgorithm(model_, options.node_of_device);
  if (pod_view_ != nullptr) options.algorithm = pod_view_->InsidePod(std::move(options.algorithm));
  return options;
}

Nanos Evaluator::TimeOf(const FlatStep& flat, const Schedule& schedule) const {
  if (model_.StepOverhead(1) == Nanos(0)) return schedule.makespan;
  std::vector<int64_t> tasks(static_cast<size_t>(resources_.devices()), 0);
  for (size_t t = 0; t < flat.tasks.size(); ++t) {
    for (int32_t r : flat.tasks.ResourcesOf(t)) {
      if (resources_.IsLane(r)) ++tasks[resources_.DeviceOfLane(r).index()];
    }
  }
  return schedule.makespan + model_.StepOverhead(*std::max_element(tasks.begin(), tasks.end()));
}

void Evaluator::FindOrder(const FlatStep& flat, const Priority& priority,
                          std::vector<uint32_t> draws, EvaluatedStep& step) const {
  step.durations = BoundedDurations(flat.costs);
  step.schedule =
      Simulate(flat.tasks, step.durations, priority, UrgenciesOf(draws, distances_.subjects()));
  step.order = OrderOf(flat.tasks, step.schedule);
  step.priority = &priority;
  step.draws = std::move(draws);
}

void Evaluator::FollowOrder(const FlatStep& flat, EvaluatedStep& step) const {
  step.durations = BoundedDurations(flat.costs);
  step.schedule = SimulateInOrder(flat.tasks, step.durations, step.order);
}

bool Evaluator::TimeInOrder(const FlatStep& flat, EvaluatedStep& step) const {
  std::vector<Nanos> beside =
      ContendedDurations(flat.tasks, resources_, flat.costs, step.durations, step.schedule);
  const bool is_contended = beside != step.durations;
  if (is_contended) {
    step.durations = std::move(beside);
    step.schedule = SimulateInOrder(flat.tasks, step.durations, step.order);
  }
  Evaluation& e = step.evaluation;
  e.tasks = static_cast<int64_t>(flat.costs.size());
  e.sources = CountSources(flat.costs);
  e.time = TimeOf(flat, step.schedule);
  return is_contended;
}

void Evaluator::PlaceBuffers(const FlatStep& flat, EvaluatedStep& step) const {
  step.memory = AssignBuffers(flat.uses, step.order);
  const auto& waits = step.memory.added_dependencies;
  Evaluation& e = step.evaluation;
  if (!AreMet(waits, step.schedule)) {
    step.schedule = SimulateInOrder(flat.tasks, step.durations, step.order, waits);
    e.time = TimeOf(flat, step.schedule);
  }
  TakePeaks(*this, step.memory.peaks(), e);
}

void Evaluator::FindPeaks(const FlatStep& flat, EvaluatedStep& step) const {
  TakePeaks(*this, PeaksOf(flat.uses, step.order), step.evaluation);
}

void Evaluator::TimeInBestOrder(const FlatStep& flat, const OrderSearch& search,
                                EvaluatedStep& step) const {
  const bool fits = Fits(MostMemoryOf(flat.uses));
  const auto find = [&](const Priority& priority, std::vector<uint32_t> draws, EvaluatedStep& one) {
    FindOrder(flat, priority, std::move(draws), one);
    if (TimeInOrder(flat, one)) {
      PlaceBuffers(flat, one);
    } else if (!fits) {
      FindPeaks(flat, one);
    }
  };
  find(*options_.priority, options_.draws, step);
  const auto place = [](const EvaluatedStep& one) {
    return std::tuple(one.evaluation.excess, one.evaluation.time);
  };
  // Whether it is no worse than the best.
  const auto try_order = [&](const Priority& priority, std::vector<uint32_t> draws) {
    EvaluatedStep other;
    find(priority, std::move(draws), other);
    if (place(other) >= place(step)) return place(other) == place(step);
    other.strategy = std::move(step.strategy);
    other.tasks = std::move(step.tasks);
    step = std::move(other);
    return true;
  };
  for (const Priority& priority : Priorities()) {
    if (options_.any_priority && &priority != options_.priority) try_order(priority, {});
  }
  if (!search.draws.empty()) try_order(*search.priority, search.draws);
  std::vector<uint32_t> draws = step.draws;
  for (int64_t k = 0; options_.any_priority && k < search.tries; ++k) {
    if (search.interrupted && search.interrupted()) break;
    const uint32_t draw = PhiloxWord(search.seed, kStreamOfOrders, static_cast<uint64_t>(k));
    if (std::find(draws.begin(), draws.end(), draw) != draws.end()) continue;
    draws.push_back(draw);
    if (!try_order(*step.priority, draws)) draws.pop_back();
  }
}

void Evaluator::AddFigures(EvaluatedStep& step) {
  step.evaluation.received = BytesReceived(step.tasks);
  step.evaluation.use = UseOf(step);
}

absl::StatusOr<Strategy> Evaluator::BuiltStrategy(const Strategy& strategy) const {
  if (options_.pods == nullptr) return strategy;
  RETURN_IF_ERROR(status_);
  RETURN_IF_ERROR(ValidateSizes(graph_, strategy, topology().size()));
  ASSIGN_OR_RETURN(
      Strategy of_built,
      StrategyOfPods(graph_, built(), strategy, {pod_view_->pods().devices, pod_view_->built()}));
  of_built.buckets = strategy.buckets;
  return of_built;
}

absl::StatusOr<StepCache::Found> Evaluator::FindIn(StepCache& cache, const Strategy& strategy,
                                                   const StepCache::Limits& limits) const {
  if (options_.pods == nullptr) return cache.FindOrBuild(strategy, limits);
  ASSIGN_OR_RETURN(const Strategy of_built, BuiltStrategy(strategy));
  return cache.FindOrBuild(of_built, limits);
}

absl::StatusOr<Evaluator::BuiltStep> Evaluator::BuildStep(const Strategy& strategy) const {
  BuiltStep step;
  ASSIGN_OR_RETURN(step.strategy, BuiltStrategy(strategy));
  ASSIGN_OR_RETURN(step.tasks, Partition(built(), step.strategy, partition_options()));
  return step;
}

absl::StatusOr<EvaluatedStep> Evaluator::TasksOf(const Strategy& strategy) const {
  EvaluatedStep step;
  ASSIGN_OR_RETURN(BuiltStep made, BuildStep(strategy));
  step.tasks = std::move(made.tasks);
  if (pod_view_ == nullptr) {
    step.strategy = WithAlgorithms(strategy, step.tasks);
  } else {
    step.strategy = strategy;
    ASSIGN_OR_RETURN(PodView::FirstPod first, pod_view_->FirstPodOf(step.tasks));
    step.tasks = std::move(first.tasks);
  }
  return step;
}

absl::StatusOr<EvaluatedStep> Evaluator::EvaluateStep(const Strategy& strategy) const {
  ASSIGN_OR_RETURN(EvaluatedStep step, TasksOf(strategy));
  FlatStep flat = FlattenStep(step.tasks, rules());
  FindOrder(flat, *options_.priority, options_.draws, step);
  TimeInOrder(flat, step);
  PlaceBuffers(flat, step);
  step.costs = std::move(flat.costs);
  AddFigures(step);
  return step;
}

absl::StatusOr<EvaluatedStep> Evaluator::EvaluateBestOrder(const Strategy& strategy,
                                                           const OrderSearch& search) const {
  ASSIGN_OR_RETURN(EvaluatedStep step, TasksOf(strategy));
  FlatStep flat = FlattenStep(step.tasks, rules());
  TimeInBestOrder(flat, search, step);
  if (step.memory.offset.empty()) PlaceBuffers(flat, step);
  step.costs = std::move(flat.costs);
  AddFigures(step);
  return step;
}

absl::StatusOr<EvaluatedStep> Evaluator::EvaluateOrder(TaskGraph tasks,
                                                       std::vector<TaskId> order) const {
  EvaluatedStep step;
  step.tasks = std::move(tasks);
  step.order = std::move(order);
  if (step.tasks.devices() > topology().size()) {
    return absl::InvalidArgumentError(absl::StrCat("the tasks are for ", step.tasks.devices(),
                                                   " devices; the machine has ",
                                                   topology().size()));
  }
  RETURN_IF_ERROR(CheckOrder(step.tasks, step.order));
  FlatStep flat = FlattenStep(step.tasks, rules());
  FollowOrder(flat, step);
  TimeInOrder(flat, step);
  PlaceBuffers(flat, step);
  step.costs = std::move(flat.costs);
  AddFigures(step);
  return step;
}

Evaluation Evaluator::Evaluate(const Strategy& strategy, Nanos cutoff) const {
  Evaluation brief = EvaluateBriefly(strategy, cutoff);
  if (brief.verdict == Evaluation::Verdict::kInvalid || brief.peak.empty()) return brief;
  auto step = EvaluateStep(strategy);
  if (!step.ok()) return Invalid(step.status());
  return std::move(step->evaluation);
}

Evaluation Evaluator::EvaluateBriefly(const Strategy& strategy, Nanos cutoff,
                                      const std::function<bool()>& interrupted,
                                      Bytes bucket_bytes) const {
  std::unique_ptr<StepCache> cache = TakeCache();
  const auto found = FindIn(*cache, strategy, {cutoff, interrupted, bucket_bytes});
  absl::Status status = found.status();
  EvaluatedStep step;
  if (found.ok() && found->interrupted) {
    step.evaluation.verdict = Evaluation::Verdict::kInterrupted;
    step.evaluation.reason = "interrupted";
  } else if (found.ok() && !found->has_step) {
    step.evaluation.time = found->bound;
  } else if (found.ok()) {
    status = EvaluateFaster(*cache, strategy, cutoff, step);
  }
  step.evaluation.solved = cache->missing();
  ReturnCache(std::move(cache));
  return status.ok() ? std::move(step.evaluation) : Invalid(status);
}

absl::StatusOr<Strategy> Evaluator::WithBucketsUpTo(const Strategy& strategy,
                                                    Bytes bucket_bytes) const {
  Strategy joined = strategy;
  if (!strategy.buckets.empty()) return joined;
  std::unique_ptr<StepCache> cache = TakeCache();
  const auto found = FindIn(*cache, strategy, {.bucket_bytes = bucket_bytes});
  if (found.ok()) joined.buckets = cache->buckets().buckets();
  ReturnCache(std::move(cache));
  RETURN_IF_ERROR(found.status());
  return joined;
}

absl::StatusOr<std::vector<Nanos>> Evaluator::CriticalTimes(const Strategy& strategy,
                                                            Bytes bucket_bytes) const {
  std::unique_ptr<StepCache> cache = TakeCache();
  const auto found = FindIn(*cache, strategy, {.bucket_bytes = bucket_bytes});
  std::optional<std::vector<Nanos>> times;
  if (found.ok() && cache->CanSimulate() &&
      (cache->buckets().joined().empty() || cache->CanSimulateBuckets())) {
    times = cache->CriticalTimes();
  }
  ReturnCache(std::move(cache));
  RETURN_IF_ERROR(found.status());
  if (times.has_value()) return *std::move(times);
  return CriticalTimesOfFlat(strategy, bucket_bytes);
}

absl::StatusOr<std::vector<Nanos>> Evaluator::CriticalTimesOfFlat(const Strategy& strategy,
                                                                  Bytes bucket_bytes) const {
  Strategy joined = strategy;
  if (bucket_bytes > Bytes(0)) {
    const Evaluation brief = EvaluateBriefly(strategy, kNoCutoff, nullptr, bucket_bytes);
    if (brief.bucket_bytes > Bytes(0)) {
      ASSIGN_OR_RETURN(joined, WithBucketsUpTo(strategy, brief.bucket_bytes));
    }
  }
  std::unique_ptr<StepCache> cache = TakeCache();
  const auto found = FindIn(*cache, joined, {});
  std::vector<Nanos> times(static_cast<size_t>(distances_.subjects()));
  if (found.ok()) {
    const FlatStep& flat = cache->Flat();
    EvaluatedStep step;
    FindOrder(flat, *options_.priority, options_.draws, step);
    TimeInOrder(flat, step);
    for (TaskId task : CriticalChain(flat.tasks, step.schedule)) {
      const auto subject = static_cast<size_t>(flat.tasks.subject_of[task.index()]);
      times[subject] += step.durations[task.index()];
    }
  }
  ReturnCache(std::move(cache));
  RETURN_IF_ERROR(found.status());
  return times;
}

Evaluation Evaluator::EvaluateBrieflyInBestOrder(const Strategy& strategy) const {
  std::unique_ptr<StepCache> cache = TakeCache();
  const auto found = FindIn(*cache, strategy, {});
  EvaluatedStep step;
  if (found.ok()) {
    TimeInBestOrder(cache->Flat(), {}, step);
    if (step.evaluation.peak.empty()) FindPeaks(cache->Flat(), step);
  }
  ReturnCache(std::move(cache));
  return found.ok() ? std::move(step.evaluation) : Invalid(found.status());
}

absl::StatusOr<std::vector<Evaluator::CollectiveOfStep>> Evaluator::CollectivesOf(
    const Strategy& strategy) const {
  std::unique_ptr<StepCache> cache = TakeCache();
  const auto found = FindIn(*cache, strategy, {});
  std::vector<CollectiveOfStep> collectives;
  if (found.ok()) {
    for (const StepCache::Collective& one : cache->Collectives()) {
      collectives.push_back({one.id, *one.task, one.waits});
    }
  }
  ReturnCache(std::move(cache));
  RETURN_IF_ERROR(found.status());
  return collectives;
}

void Evaluator::EvaluateKept(StepCache& cache, Nanos cutoff, EvaluatedStep& step) const {
  Evaluation& e = step.evaluation;
  if (!cache.CanSimulate()) {
    FindOrder(cache.Flat(), *options_.priority, options_.draws, step);
    const bool is_contended = TimeInOrder(cache.Flat(), step);
    if (e.time > cutoff) return;
    return is_contended ? PlaceBuffers(cache.Flat(), step) : FindPeaks(cache.Flat(), step);
  }
  e.time = cache.Simulate(cutoff);
  e.tasks = cache.tasks();
  if (e.time <= cutoff && !FitsAtMost(cache, e)) FindPeaksOfSchedule(cache, step);
}

void Evaluator::FindPeaksOfSchedule(StepCache& cache, EvaluatedStep& step) const {
  const FlatStep& flat = cache.Flat();
  TakeSchedule(cache, step);
  step.order = OrderOf(flat.tasks, step.schedule);
  FindPeaks(flat, step);
}

// Most steps fit in memory for certain, and have no flat form.
absl::Status Evaluator::EvaluateFaster(StepCache& cache, const Strategy& strategy, Nanos cutoff,
                                       EvaluatedStep& step) const {
  const StepBuckets& buckets = cache.buckets();
  const Bytes bucket_bytes = buckets.most();
  std::vector<Bucket> found = buckets.buckets();
  if (found.empty()) {
    EvaluateKept(cache, cutoff, step);
    return absl::OkStatus();
  }
  const bool can_simulate = cache.CanSimulateBuckets();
  if (can_simulate) {
    Evaluation& e = step.evaluation;
    const Nanos with = cache.SimulateBuckets(cutoff);
    const Nanos without = cache.Simulate(std::min(cutoff, with));
    const bool joins = with < without;
    e.time = std::min(with, without);
    e.tasks = cache.tasks() - (joins ? buckets.tasks_less() : 0);
    e.bucket_bytes = joins ? bucket_bytes : Bytes(0);
    if (e.time > cutoff || FitsAtMost(cache, e)) return absl::OkStatus();
    if (!joins) {
      FindPeaksOfSchedule(cache, step);
      return absl::OkStatus();
    }
    step = {};
  } else {
    EvaluateKept(cache, cutoff, step);
  }
  Strategy joined = strategy;
  joined.buckets = std::move(found);
  RETURN_IF_ERROR(FindIn(cache, joined, {}).status());
  EvaluatedStep other;
  EvaluateKept(cache, cutoff, other);
  if (!can_simulate && other.evaluation.time >= step.evaluation.time) return absl::OkStatus();
  step = std::move(other);
  step.evaluation.bucket_bytes = bucket_bytes;
  return absl::OkStatus();
}

// Memory is never given to another buffer before those who used it have ended in the schedule that
// found the order, so the time does not depend on it.
bool Evaluator::FitsAtMost(StepCache& cache, Evaluation& evaluation) const {
  std::vector<Bytes> most = cache.MostMemory();
  most.resize(std::min(most.size(), static_cast<size_t>(topology().size())));
  if (!Fits(most)) return false;
  evaluation.peak = std::move(most);
  return true;
}

bool Evaluator::Fits(const std::vector<Bytes>& memory) const {
  const size_t devices = std::min(memory.size(), static_cast<size_t>(topology().size()));
  for (size_t d = 0; options_.limit_memory && d < devices; ++d) {
    if (memory[d] > MemoryOf(DeviceId(static_cast<int32_t>(d)))) return false;
  }
  return true;
}

std::unique_ptr<StepCache> Evaluator::TakeCache() const {
  std::unique_ptr<StepCache> cache;
  Bytes share;
  {
    const std::lock_guard lock(mutex_);
    if (idle_.empty()) {
      ++caches_;
    } else {
      const std::thread::id user = std::this_thread::get_id();
      auto own = std::find_if(idle_.begin(), idle_.end(),
                              [user](const IdleCache& idle) { return idle.user == user; });
      if (own == idle_.end()) --own;
      cache = std::move(own->cache);
      idle_.erase(own);
    }
    share = ShareOfCache();
  }
  if (cache != nullptr) return cache;
  const bool schedules =
      options_.priority->is_local && options_.draws.empty() && model_.StepOverhead(1) == Nanos(0);
  PartitionOptions options = partition_options();
  // Formats are agreed upon by all devices.
  if (pod_view_ != nullptr && !options.native_formats) {
    options.pod_devices = pod_view_->pods().devices;
  }
  return std::make_unique<StepCache>(built(), std::move(options), rules(), share, schedules);
}

// Others may have come meanwhile, with which it has to share.
void Evaluator::ReturnCache(std::unique_ptr<StepCache> cache) const {
  Bytes share;
  {
    const std::lock_guard lock(mutex_);
    share = ShareOfCache();
  }
  cache->SetMost(share);
  const std::lock_guard lock(mutex_);
  idle_.push_back({std::move(cache), std::this_thread::get_id()});
}

void Evaluator::DropKept(Bytes most) const {
  std::vector<IdleCache> idle;
  {
    const std::lock_guard lock(mutex_);
    idle.swap(idle_);
    if (idle.empty()) return;
    caches_ -= static_cast<int64_t>(idle.size()) - 1;
  }
  idle.erase(idle.begin(), idle.end() - 1);
  idle.back().cache->SetMost(most);
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(idle.back()));
}

Bytes LargestPeakOf(const Evaluation& evaluation) {
  Bytes peak;
  for (Bytes b : evaluation.peak) peak = std::max(peak, b);
  return peak;
}

Prediction PredictionOf(const Evaluation& evaluation) {
  return {.time = evaluation.time,
          .peak = evaluation.peak,
          .received = evaluation.received,
          .measured = evaluation.sources.measured + evaluation.sources.unsteady,
          .interpolated = evaluation.sources.interpolated,
          .roofline = evaluation.sources.roofline};
}

void SetOrder(const EvaluatedStep& step, Plan& plan) {
  plan.order = PlanOrder{.task_graph_fingerprint = step.tasks.fingerprint()};
  plan.order->tasks.reserve(step.order.size());
  for (TaskId id : step.order) plan.order->tasks.push_back(id.value());
  plan.priority = step.priority == nullptr ? "" : step.priority->name;
  plan.priority_draws = step.draws;
}

}  // namespace partita
