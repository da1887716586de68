#include "planner/pods/pod_view.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cost_model/task_costs.h"
#include "graph/partition/collective_algorithm.h"
#include "graph/support/error_category.h"
#include "graph/support/status_macros.h"
#include "planner/collective_choice.h"

namespace partita {
namespace {

absl::Status NotKnown(const char* what) {
  return absl::UnimplementedError(
      absl::StrCat("how ", what, " goes between more pods is not known"));
}

// Pods up to this size are looked through for channels that need not be held.
constexpr int kMostPlaces = 16;

// Sizes of the blocks of each rank; none for an all-reduce.
std::vector<int64_t> BlockSizes(const Collective& collective) {
  std::vector<int64_t> sizes;
  for (const ElementRange& block : collective.blocks) sizes.push_back(block.count);
  return sizes;
}

}  // namespace

PodView::PodView(const SimulatedResources& machine, Pods pods, const CostModel& model,
                 AlgorithmRule rule)
    : machine_(machine), pods_(pods), model_(model), rule_(std::move(rule)) {
  for (const Device& device : machine.topology().devices()) node_of_device_.push_back(device.node);
}

absl::StatusOr<std::unique_ptr<PodView>> PodView::Create(const SimulatedResources& machine,
                                                         Pods pods, const CostModel& model,
                                                         AlgorithmRule rule) {
  if (pods.devices * pods.count != machine.devices()) {
    return DeclinedError(absl::StrCat(pods.count, " pods of ", pods.devices,
                                      " devices are not the machine's ", machine.devices()));
  }
  std::unique_ptr<PodView> view(new PodView(machine, pods, model, std::move(rule)));
  RETURN_IF_ERROR(view->CheckAlike());
  RETURN_IF_ERROR(view->FindShared());
  view->FindOwn();
  view->FindHeld();
  return view;
}

// Devices of equal speed and memory, nodes of the same devices, routes of equal channels.
absl::Status PodView::CheckAlike() const {
  const DeviceTopology& topology = machine_.topology();
  const auto first_of_node = [&](int d) {
    const int begin = d / pods_.devices * pods_.devices;
    int first = begin;
    while (topology.device(DeviceId(first)).node != topology.device(DeviceId(d)).node) ++first;
    return first - begin;
  };
  const auto route_of = [&](int from, int to) {
    std::vector<std::pair<int64_t, Nanos>> speeds;
    for (ChannelId id : topology.Route(DeviceId(from), DeviceId(to))) {
      speeds.emplace_back(topology.channel(id).bytes_per_second, topology.channel(id).latency);
    }
    return speeds;
  };
  const auto unlike = [&](int d, const char* what) {
    return DeclinedError(
        absl::StrCat("device ", d, " has other ", what, " than its like in the first pod"));
  };
  const int last = pods_.devices - 1;
  for (int d = pods_.devices; d < machine_.devices(); ++d) {
    const int like = d % pods_.devices;
    const Device &a = topology.device(DeviceId(like)), &b = topology.device(DeviceId(d));
    if (a.kind != b.kind || a.device_class != b.device_class || a.threads != b.threads) {
      return unlike(d, "speed");
    }
    if (a.memory != b.memory) return unlike(d, "memory");
    if (first_of_node(d) != first_of_node(like)) return unlike(d, "neighbours");
    const int begin = d - like;
    if (route_of(begin, d) != route_of(0, like) ||
        route_of(d, begin + last) != route_of(like, last)) {
      return unlike(d, "routes");
    }
  }
  return absl::OkStatus();
}

void PodView::AddChannels(DeviceId from, DeviceId to, std::vector<int32_t>& resources) const {
  for (ChannelId id : machine_.topology().Route(from, to)) {
    const int32_t resource = machine_.ChannelResource(id);
    if (resource >= 0) resources.push_back(resource);
  }
}

absl::Status PodView::FindShared() {
  is_shared_.assign(static_cast<size_t>(machine_.count()), false);
  std::vector<int32_t> pod_of(static_cast<size_t>(machine_.count()), -1);
  std::vector<int32_t> resources;
  for (int pod = 0; pod < pods_.count; ++pod) {
    resources.clear();
    const int begin = pod * pods_.devices, end = begin + pods_.devices;
    for (int from = begin; from < end; ++from) {
      for (int32_t cores : machine_.CoreSets(DeviceId(from))) resources.push_back(cores);
      for (int to = begin; to < end; ++to) AddChannels(DeviceId(from), DeviceId(to), resources);
    }
    for (int32_t resource : resources) {
      const auto k = static_cast<size_t>(resource);
      if (pod_of[k] >= 0 && pod_of[k] != pod) is_shared_[k] = true;
      pod_of[k] = pod;
    }
    for (int d = begin; d < end; ++d) {
      for (int32_t cores : machine_.CoreSets(DeviceId(d))) {
        if (is_shared_[static_cast<size_t>(cores)]) {
          return DeclinedError(absl::StrCat("pods of ", pods_.devices, " devices share '",
                                            machine_.name(cores), "'"));
        }
      }
    }
  }
  return absl::OkStatus();
}

void PodView::FindOwn() {
  is_own_.assign(static_cast<size_t>(machine_.count()), false);
  std::vector<int32_t> resources;
  for (int d = 0; d < pods_.devices; ++d) {
    const DeviceId own(d);
    resources.push_back(machine_.ComputeLane(own));
    resources.push_back(machine_.CommunicationLane(own));
    for (int32_t cores : machine_.CoreSets(own)) resources.push_back(cores);
    for (int other = 0; other < machine_.devices(); ++other) {
      AddChannels(own, DeviceId(other), resources);
      AddChannels(DeviceId(other), own, resources);
    }
    for (int32_t resource : resources) is_own_[static_cast<size_t>(resource)] = true;
    resources.clear();
  }
}

// Who sends to devices of other pods waits for these, and for each other where they are the same. What
// goes between all pods holds several lanes, as on the machine (FlatTasks::Yields).
void PodView::FindHeld() {
  is_held_ = is_own_;
  const int pods = pods_.count <= built() ? pods_.count : 2;
  for (int d = pods_.devices; d < pods * pods_.devices; ++d) {
    is_held_[static_cast<size_t>(machine_.CommunicationLane(DeviceId(d)))] = true;
  }
  DropImplied();
}

// Channels on routes that all begin or end at one place of the pods, such as those of a rail: ranks of
// collectives are alike in all pods, so that who holds such a channel holds the lane of the first
// pod's device there. Between few pods there are other tasks.
void PodView::DropImplied() {
  const DeviceTopology& topology = machine_.topology();
  const bool is_quick = topology.level_routes() != nullptr && pods_.devices <= kMostPlaces;
  if (pods_.count <= built() || !is_quick) return;
  const auto channels = static_cast<int32_t>(topology.channels().size());
  for (int place = 0; place < pods_.devices; ++place) {
    std::vector<DeviceId> others;
    for (int d = 0; d < machine_.devices(); ++d) {
      if (d % pods_.devices != place) others.push_back(DeviceId(d));
    }
    std::vector<bool> is_used(static_cast<size_t>(channels), false);
    for (ChannelId id : topology.ChannelsBetween(others)) is_used[id.index()] = true;
    for (ChannelId id(0); id.value() < channels; id = ChannelId(id.value() + 1)) {
      const int32_t resource = machine_.ChannelResource(id);
      if (resource >= 0 && !is_used[id.index()]) is_held_[static_cast<size_t>(resource)] = false;
    }
  }
}

template <class OneDeviceTask>
absl::StatusOr<std::optional<TaskBody>> PodView::Seen(const OneDeviceTask& task) const {
  if (PodOf(task.device) != 0) return std::nullopt;
  return TaskBody(task);
}

absl::StatusOr<std::optional<TaskBody>> PodView::Seen(const CollectiveTask& task) const {
  const auto is_first = [this](DeviceId device) { return PodOf(device) == 0; };
  const auto own = std::count_if(task.group.begin(), task.group.end(), is_first);
  if (own == 0) return std::nullopt;
  if (own == static_cast<std::ptrdiff_t>(task.group.size())) return TaskBody(task);
  ASSIGN_OR_RETURN(CollectiveTask all, OfAllPods(task));
  return TaskBody(std::move(all));
}

// Known only where all pods are built: transfers between few pods may be a collective of more, and
// what arrives from them is added up piece by piece.
absl::StatusOr<std::optional<TaskBody>> PodView::Seen(const TransferTask& task) const {
  TransferTask seen{task.dtype, {}, {}};
  for (const Transfer& transfer : task.transfers) {
    const int from = PodOf(transfer.from), to = PodOf(transfer.to);
    if (from != 0 && to != 0) continue;
    if (from != to && pods_.count > built()) return NotKnown("what is sent point to point");
    Transfer& one = seen.transfers.emplace_back(transfer);
    if (from != 0) one.send.buffer = kNoBuffer;
    if (to != 0) one.receive.buffer = kNoBuffer;
  }
  if (seen.transfers.empty()) return std::nullopt;
  for (const Transfer& transfer : seen.transfers) {
    seen.group.push_back(transfer.from);
    seen.group.push_back(transfer.to);
  }
  std::sort(seen.group.begin(), seen.group.end());
  seen.group.erase(std::unique(seen.group.begin(), seen.group.end()), seen.group.end());
  return TaskBody(std::move(seen));
}

// Ranks come pod by pod, alike in each; the blocks of the second and the later pods are empty, as
// where one of the first pod's devices gathers or spreads something.
absl::StatusOr<CollectiveTask> PodView::OfAllPods(const CollectiveTask& task) const {
  const auto pods = static_cast<size_t>(built());
  const size_t ranks = task.group.size() / pods;
  bool is_alike = ranks * pods == task.group.size();
  for (size_t r = 0; is_alike && r < task.group.size(); ++r) {
    const auto shift = static_cast<int32_t>(r / ranks) * pods_.devices;
    is_alike = task.group[r].value() == task.group[r % ranks].value() + shift;
  }
  if (!is_alike) return NotKnown("a collective between other devices of each pod");
  CollectiveTask all{{}, {}, {}, task.dtype, {}, {}, task.bucket, task.has_replicas};
  all.group.reserve(ranks * static_cast<size_t>(pods_.count));
  for (int pod = 0; pod < pods_.count; ++pod) {
    for (size_t r = 0; r < ranks; ++r) {
      all.group.push_back(DeviceId(task.group[r].value() + pod * pods_.devices));
    }
  }
  const Collective& of = task.collective;
  const auto count = static_cast<int>(all.group.size());
  if (of.kind == CollectiveKind::kAllReduce) {
    all.collective = MakeAllReduce(count, of.total, of.reduction);
  } else if (of.kind == CollectiveKind::kReduceScatter || of.kind == CollectiveKind::kAllGather) {
    std::vector<int64_t> sizes = BlockSizes(of);
    if (std::any_of(sizes.begin() + static_cast<std::ptrdiff_t>(ranks), sizes.end(),
                    [](int64_t size) { return size != 0; })) {
      return NotKnown("a collective with blocks in every pod");
    }
    sizes.resize(all.group.size(), 0);
    all.collective = of.kind == CollectiveKind::kAllGather ? MakeAllGather(sizes)
                                                           : MakeReduceScatter(sizes, of.reduction);
  } else {
    return NotKnown("a collective of this kind");
  }
  ChooseFor(all);
  if (task.send.empty()) return all;  // of a fragment that is not built yet
  all.send.reserve(task.slices() * all.group.size());
  all.receive.reserve(task.slices() * all.group.size());
  for (size_t s = 0; s < task.slices(); ++s) {
    for (size_t r = 0; r < all.group.size(); ++r) {
      const bool is_first = r < ranks;
      const size_t like = is_first ? r : task.group.size() - 1;
      const Slice &sent = task.sent(like, s), &received = task.received(like, s);
      all.send.push_back(is_first ? sent : Slice{kNoBuffer, 0, sent.count});
      all.receive.push_back(is_first ? received : Slice{kNoBuffer, 0, received.count});
    }
  }
  return all;
}

int32_t PodView::RoutesOf(const CollectiveTask& task) const {
  const size_t ranks = task.group.size() / static_cast<size_t>(pods_.count);
  std::vector<DeviceId> own(task.group.begin(),
                            task.group.begin() + static_cast<std::ptrdiff_t>(ranks));
  const std::lock_guard lock(mutex_);
  const auto [known, added] = routes_of_group_.try_emplace(std::move(own), 0);
  if (!added) return known->second;
  const DeviceTopology& topology = machine_.topology();
  Key routes;
  for (size_t a = 0; a < ranks; ++a) {
    for (size_t b = 0; b < 2 * ranks; ++b) {
      if (a == b) continue;
      const RouteChannels route = topology.Route(task.group[a], task.group[b]);
      routes.push_back(static_cast<int64_t>(route.size()));
      for (ChannelId id : route) {
        routes.push_back(topology.channel(id).bytes_per_second);
        routes.push_back(topology.channel(id).latency.value());
      }
    }
  }
  const auto next = static_cast<int32_t>(numbers_of_routes_.size());
  known->second = numbers_of_routes_.try_emplace(std::move(routes), next).first->second;
  return known->second;
}

PodView::Key PodView::KeyOf(const CollectiveTask& task, int64_t elements) const {
  const Collective& of = task.collective;
  Key key{static_cast<int64_t>(of.kind), static_cast<int64_t>(task.dtype),
          static_cast<int64_t>(of.reduction), elements, RoutesOf(task)};
  for (size_t r = 0; r < of.blocks.size(); ++r) {
    if (of.blocks[r].count > 0) key.push_back(static_cast<int64_t>(r));
  }
  return key;
}

AlgorithmRule PodView::InsidePod(AlgorithmRule rule) const {
  return [this, rule = std::move(rule)](const CollectiveToRun& asked) {
    const auto& first = asked.groups[0];
    const bool is_inside =
        std::all_of(first.begin(), first.end(), [this](DeviceId d) { return PodOf(d) == 0; });
    return is_inside ? rule(asked) : std::string();
  };
}

AlgorithmRule PodView::OfAllDevices() const {
  return [this](const CollectiveToRun& asked) {
    const std::vector<DeviceId>& first = asked.groups[0];
    if (PodOf(first.front()) == PodOf(first.back())) return InItsPod(asked);
    CollectiveTask task{.group = first, .collective = asked.collective, .dtype = asked.dtype};
    ChooseFor(task);
    return WithoutNodes(task.algorithm);
  };
}

// By devices as they are numbered within pods.
std::string PodView::InItsPod(const CollectiveToRun& asked) const {
  const Collective& of = asked.collective;
  Key key{static_cast<int64_t>(of.kind), static_cast<int64_t>(asked.dtype),
          static_cast<int64_t>(of.reduction), of.total};
  for (const ElementRange& block : of.blocks) key.push_back(block.count);
  for (const std::vector<DeviceId>& group : asked.groups) {
    for (DeviceId device : group) key.push_back(device.value() % pods_.devices);
    key.push_back(-1);
  }
  {
    const std::lock_guard lock(mutex_);
    const auto it = algorithms_inside_.find(key);
    if (it != algorithms_inside_.end()) return it->second;
  }
  std::string algorithm = rule_(asked);
  const std::lock_guard lock(mutex_);
  algorithms_inside_.emplace(std::move(key), algorithm);
  return algorithm;
}

void PodView::ChooseFor(CollectiveTask& task) const {
  const Key key = KeyOf(task, ComparedElements(task.collective));
  {
    const std::lock_guard lock(mutex_);
    const auto it = algorithms_.find(key);
    if (it != algorithms_.end()) task.algorithm = it->second;
  }
  if (!task.algorithm.empty()) return;
  task.algorithm = ChooseAlgorithm(task, {}, {"", rule_, node_of_device_});
  const std::lock_guard lock(mutex_);
  algorithms_.emplace(key, task.algorithm);
}

TaskCost PodView::PriceOf(const TaskBody& body) const {
  const auto* collective = std::get_if<CollectiveTask>(&body);
  const bool is_of_all = collective != nullptr && collective->group.back().value() >= pods_.devices;
  if (!is_of_all) return PriceCommunication(body, model_);
  const Key key = KeyOf(*collective, collective->collective.total);
  {
    const std::lock_guard lock(mutex_);
    const auto it = prices_.find(key);
    if (it != prices_.end()) return it->second;
  }
  const TaskCost price = PriceCommunication(body, model_);
  const std::lock_guard lock(mutex_);
  prices_.emplace(key, price);
  return price;
}

absl::StatusOr<std::optional<TaskBody>> PodView::Seen(const TaskBody& body) const {
  return std::visit([this](const auto& one) { return Seen(one); }, body);
}

absl::StatusOr<std::optional<PodView::Communication>> PodView::CommunicationOf(
    const TaskBody& built) const {
  ASSIGN_OR_RETURN(std::optional<TaskBody> body, Seen(built));
  if (!body.has_value()) return std::nullopt;
  const TaskCost cost = PriceOf(*body);
  return Communication{*std::move(body), cost};
}

bool PodView::IsInFirstPod(const TaskGraph& built) const {
  return std::all_of(built.tasks().begin(), built.tasks().end(),
                     [this](const Task& task) { return PodOf(DevicesOf(task).back()) == 0; });
}

absl::StatusOr<PodView::FirstPod> PodView::FirstPodOf(const TaskGraph& built) const {
  FirstPod first;
  std::vector<Task> tasks;
  std::vector<int32_t>& number = first.numbers;
  number.assign(built.tasks().size(), -1);
  const auto renumber = [&](std::vector<TaskId>& ids) {
    size_t kept = 0;
    for (TaskId id : ids) {
      if (number[id.index()] >= 0) ids[kept++] = TaskId(number[id.index()]);
    }
    ids.resize(kept);
  };
  for (const Task& task : built.tasks()) {
    ASSIGN_OR_RETURN(std::optional<TaskBody> body, Seen(task.body));
    if (!body.has_value()) continue;
    const auto id = static_cast<int32_t>(tasks.size());
    number[task.id.index()] = id;
    Task& seen = tasks.emplace_back(
        Task{TaskId(id), task.key, *std::move(body), task.dependencies, task.after});
    renumber(seen.dependencies);
    renumber(seen.after);
    if (IsCommunication(seen)) first.communications.push_back(PriceOf(seen.body));
  }
  first.tasks = built.WithTasks(std::move(tasks), machine_.devices());
  return first;
}

}  // namespace partita
