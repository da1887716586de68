// A task's key is what its priority lacks of the largest, and behind that its place in the order of
// keys: that of its link's first task and its own in the link.
#include "planner/placed_step.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <tuple>

#include "graph/support/check.h"

namespace partita {
namespace {

// Each once.
std::vector<size_t> LinksOf(std::span<const JoinedTasks> joined) {
  std::vector<size_t> links;
  for (const JoinedTasks& one : joined) {
    for (const JoinedTasks::Member& member : one.members) links.push_back(member.link);
  }
  std::sort(links.begin(), links.end());
  links.erase(std::unique(links.begin(), links.end()), links.end());
  return links;
}

}  // namespace

std::vector<size_t> KeyOrder(const std::vector<ChainLink>& chain) {
  std::vector<size_t> order(chain.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const ChainLink &x = chain[a], &y = chain[b];
    return std::tuple(x.is_tensor, x.id, x.group) < std::tuple(y.is_tensor, y.id, y.group);
  });
  return order;
}

int32_t SubjectOf(const GraphDistances& distances, const ChainLink& link) {
  return link.is_tensor ? distances.SubjectOf(TensorId(link.id))
                        : distances.SubjectOf(OpId(link.id));
}

PlacedStep::PlacedStep(const FragmentCache& cache, const FragmentLinker& linker,
                       const GraphDistances& distances, const SimulatedResources& resources)
    : cache_(cache),
      linker_(linker),
      distances_(distances),
      edges_(cache, linker),
      sections_(cache.chain().size()),
      fragments_(cache.chain().size(), nullptr),
      longest_(cache.chain().size(), 0),
      work_(static_cast<size_t>(resources.count()), 0),
      by_key_(KeyOrder(cache.chain())),
      keys_(cache.chain().size()) {
  for (const ChainLink& link : cache.chain()) {
    yields_.push_back(distances.IsForUpdates(SubjectOf(distances, link)));
    const auto& of_tensor = cache.places().of_tensor;
    has_siblings_.push_back(link.is_tensor && of_tensor[static_cast<size_t>(link.id)].size() > 1);
  }
  // Kernels hold the compute lane and the core sets of their device, and nothing else does.
  list_.is_lone.resize(work_.size(), 0);
  for (int32_t d = 0; d < resources.devices(); ++d) {
    const DeviceId device(d);
    list_.is_lone[static_cast<size_t>(resources.ComputeLane(device))] =
        resources.CoreSets(device).empty();
  }
}

void PlacedStep::Update(const StepFragments& step, TasksOfLink tasks_of) {
  std::vector<int32_t> links(linker_.relinked().begin(), linker_.relinked().end());
  if (sections_.is_sparse()) {
    links.resize(cache_.chain().size());
    std::iota(links.begin(), links.end(), 0);
    edges_.Clear();
    sections_.Clear();
    std::fill(fragments_.begin(), fragments_.end(), nullptr);
    std::fill(predecessors_.begin(), predecessors_.end(), -1);
    std::fill(work_.begin(), work_.end(), 0);
    total_ = tasks_in_all_ = within_tensors_ = 0;
    irregular_ = 0;
  }
  edges_.Remove(step, links, tasks_of, [this](const StepEdges::Edge& edge, int32_t from) {
    --predecessors_[static_cast<size_t>(edge.to)];
    within_tensors_ -= IsWithinTensor(edge, from);
  });
  for (int32_t link : links) {
    const auto k = static_cast<size_t>(link);
    const FlatFragment* fragment = tasks_of(k).fragment;
    if (fragment == fragments_[k]) continue;
    RemoveWork(k);
    Place(k, *fragment);
  }
  const auto placed = [&](size_t link) {
    LinkTasks tasks = tasks_of(link);
    tasks.first = sections_[link].begin;
    return tasks;
  };
  edges_.Find(step, links, placed, [this](const StepEdges::Edge& edge, int32_t from) {
    ++predecessors_[static_cast<size_t>(edge.to)];
    within_tensors_ += IsWithinTensor(edge, from);
  });
  for (int32_t link : edges_.changed()) PointToOthers(static_cast<size_t>(link));
}

bool PlacedStep::IsWithinTensor(const StepEdges::Edge& edge, int32_t from) const {
  if (has_siblings_[static_cast<size_t>(from)] == 0) return false;
  const std::vector<ChainLink>& chain = cache_.chain();
  const ChainLink& to = chain[static_cast<size_t>(tasks_[static_cast<size_t>(edge.to)].link)];
  return to.is_tensor && to.id == chain[static_cast<size_t>(from)].id;
}

void PlacedStep::RemoveWork(size_t link) {
  if (fragments_[link] == nullptr) return;
  const FlatFragment& old = *fragments_[link];
  for (const auto& [resource, time] : old.loads) work_[static_cast<size_t>(resource)] -= time;
  total_ -= old.total;
  tasks_in_all_ -= static_cast<int64_t>(old.step.costs.size());
  irregular_ -= !old.is_regular;
}

void PlacedStep::Place(size_t link, const FlatFragment& fragment) {
  const FlatTasks& flat = fragment.step.tasks;
  const size_t count = fragment.step.costs.size();
  const Sections::Section before = sections_[link];
  std::fill_n(predecessors_.begin() + before.begin, before.size, -1);
  const Sections::Section& section = sections_.Resize(link, static_cast<int32_t>(count));
  if (tasks_.size() < static_cast<size_t>(sections_.end())) {
    tasks_.resize(static_cast<size_t>(sections_.end()));
    predecessors_.resize(tasks_.size(), -1);
    joined_length_.resize(tasks_.size(), -1);
  }
  const auto first = static_cast<size_t>(section.begin);
  for (size_t t = 0; t < count; ++t) {
    const auto held = flat.ResourcesOf(t), next = flat.SuccessorsOf(t);
    Task& task = tasks_[first + t];
    task.duration = fragment.step.costs[t].time.value();
    task.resource_count = static_cast<int32_t>(held.size());
    if (held.size() == 1) {
      task.resource = held[0];
    } else {
      task.resources = held.data();
    }
    task.successors = next.data();
    task.successor_count = static_cast<int32_t>(next.size());
    task.first = section.begin;
    task.link = static_cast<int32_t>(link);
    task.key_place = fragment.key_place[t];
    predecessors_[first + t] = flat.predecessor_count[t];
  }
  fragments_[link] = &fragment;
  SetPaths(link);
  for (const auto& [resource, time] : fragment.loads) work_[static_cast<size_t>(resource)] += time;
  total_ += fragment.total;
  tasks_in_all_ += static_cast<int64_t>(count);
  irregular_ += !fragment.is_regular;
}

void PlacedStep::SetPaths(size_t link) {
  const FlatFragment& fragment = *fragments_[link];
  const auto begin = static_cast<size_t>(sections_[link].begin);
  for (size_t t = 0; t < fragment.path.size(); ++t) tasks_[begin + t].path = fragment.path[t];
  longest_[link] = fragment.longest;
}

void PlacedStep::PointToOthers(size_t link) {
  const Sections::Section& section = sections_[link];
  for (int32_t t = 0; t < section.size; ++t) {
    const auto others = edges_.SuccessorsOf(link, static_cast<size_t>(t));
    Task& task = tasks_[static_cast<size_t>(section.begin + t)];
    task.others = others.data();
    task.other_count = static_cast<int32_t>(others.size());
  }
}

int PlacedStep::number_bits() const { return std::bit_width(static_cast<uint64_t>(tasks_in_all_)); }

int PlacedStep::place_bits() const { return std::bit_width(tasks_.size()); }

bool PlacedStep::CanSimulate(std::span<const JoinedTasks> joined) const {
  int64_t total = total_;
  for (const JoinedTasks& one : joined) total += one.duration.value();
  const int bits = std::max(number_bits(), place_bits());
  const bool fits = std::bit_width(static_cast<uint64_t>(total)) + bits <= 64;
  return fits && irregular_ == 0 && within_tensors_ == 0;
}

void PlacedStep::Start(std::span<const JoinedTasks> joined) {
  starts_.resize(tasks_.size());
  list_.Prepare(work_.size(), tasks_.size(), place_bits());
  JoinPaths(joined);
  SetKeys();
  FindFirst();
  pending_ = predecessors_;
  Join(joined);
}

void PlacedStep::SetKeys() {
  std::vector<int64_t> lengths(static_cast<size_t>(distances_.subjects()), 0);
  for (size_t link = 0; link < fragments_.size(); ++link) {
    int64_t& length = lengths[static_cast<size_t>(SubjectOf(distances_, cache_.chain()[link]))];
    length = std::max(length, longest_[link]);
  }
  const std::vector<int64_t> behind = distances_.Behind(lengths);
  numbers_.resize(static_cast<size_t>(tasks_in_all_));
  int32_t first = 0;
  for (size_t link : by_key_) {
    const auto subject = static_cast<size_t>(SubjectOf(distances_, cache_.chain()[link]));
    keys_[link] = {most_ - behind[subject], first};
    first += sections_[link].size;
  }
}

// Most blocks of tasks have none that waits for none.
void PlacedStep::FindFirst() {
  constexpr size_t kBlock = 16;
  first_.clear();
  const size_t count = predecessors_.size();
  const auto add = [this](size_t begin, size_t end) {
    for (size_t t = begin; t < end; ++t) {
      if (predecessors_[t] == 0) first_.push_back(static_cast<int32_t>(t));
    }
  };
  size_t begin = 0;
  for (; begin + kBlock <= count; begin += kBlock) {
    int zeros = 0;
    for (size_t k = 0; k < kBlock; ++k) zeros += predecessors_[begin + k] == 0;
    if (zeros > 0) add(begin, begin + kBlock);
  }
  add(begin, count);
}

void PlacedStep::JoinWork(std::span<const JoinedTasks> joined) {
  const auto add = [this](std::span<const int32_t> resources, int64_t time) {
    for (int32_t r : resources) left_[static_cast<size_t>(r)] += time;
    most_ += time;
  };
  for (const JoinedTasks& one : joined) {
    for (const JoinedTasks::Member& member : one.members) {
      const Task& task = tasks_[PlaceOf(member)];
      add(ResourcesOf(task), -task.duration);
    }
    add(one.resources, one.duration.value());
  }
}

// The key of joined tasks is that of the first, so they are in no path of the others' links.
void PlacedStep::JoinPaths(std::span<const JoinedTasks> joined) {
  for (const JoinedTasks& one : joined) {
    for (const JoinedTasks::Member& member : one.members) joined_length_[PlaceOf(member)] = 0;
    joined_length_[PlaceOf(one.members[0])] = one.duration.value();
  }
  for (size_t link : LinksOf(joined)) FindPathsOf(link);
}

// Edges inside a link go from earlier tasks to later ones.
void PlacedStep::FindPathsOf(size_t link) {
  const Sections::Section& section = sections_[link];
  longest_[link] = 0;
  for (int32_t place = section.end(); place-- > section.begin;) {
    const auto t = static_cast<size_t>(place);
    Task& task = tasks_[t];
    int64_t behind = 0;
    for (int32_t k = 0; k < task.successor_count; ++k) {
      const auto next = static_cast<size_t>(task.first + task.successors[k]);
      behind = std::max(behind, tasks_[next].path);
    }
    const int64_t joined = joined_length_[t];
    task.path = joined == 0 ? 0 : (joined > 0 ? joined : task.duration) + behind;
    longest_[link] = std::max(longest_[link], task.path);
  }
}

void PlacedStep::Join(std::span<const JoinedTasks> joined) {
  if (joined.empty()) return;
  std::vector<size_t> ends;  // of successors, by bucket
  joined_successors_.clear();
  for (const JoinedTasks& one : joined) {
    for (const JoinedTasks::Member& member : one.members) {
      const Task& task = tasks_[PlaceOf(member)];
      for (int32_t k = 0; k < task.successor_count; ++k) {
        joined_successors_.push_back(task.first + task.successors[k]);
      }
      joined_successors_.insert(joined_successors_.end(), task.others,
                                task.others + task.other_count);
    }
    ends.push_back(joined_successors_.size());
  }
  std::erase_if(first_, [&](int32_t t) { return joined_length_[static_cast<size_t>(t)] >= 0; });
  parted_.clear();
  size_t begin = 0;
  for (size_t b = 0; b < joined.size(); ++b) {
    const JoinedTasks& one = joined[b];
    const size_t place = PlaceOf(one.members[0]);
    Task& first = tasks_[place];
    parted_.push_back(first);
    first.duration = one.duration.value();
    first.resource_count = static_cast<int32_t>(one.resources.size());
    if (one.resources.size() == 1) {
      first.resource = one.resources[0];
    } else {
      first.resources = one.resources.data();
    }
    first.successor_count = 0;
    first.others = joined_successors_.data() + begin;
    first.other_count = static_cast<int32_t>(ends[b] - begin);
    begin = ends[b];
    for (size_t m = 1; m < one.members.size(); ++m) {
      const size_t other = PlaceOf(one.members[m]);
      pending_[place] += predecessors_[other];
      pending_[other] = ~static_cast<int32_t>(place);
    }
    if (pending_[place] == 0) first_.push_back(static_cast<int32_t>(place));
  }
}

void PlacedStep::Part(std::span<const JoinedTasks> joined) {
  for (size_t b = 0; b < joined.size(); ++b) {
    tasks_[PlaceOf(joined[b].members[0])] = parted_[b];
    for (const JoinedTasks::Member& member : joined[b].members) {
      joined_length_[PlaceOf(member)] = -1;
    }
  }
  for (size_t link : LinksOf(joined)) SetPaths(link);
}

void PlacedStep::AddStarts(size_t link, std::vector<Nanos>& starts) const {
  const Sections::Section& section = sections_[link];
  for (int32_t t = section.begin; t < section.end(); ++t) {
    starts.push_back(Nanos(starts_[static_cast<size_t>(t)]));
  }
}

// The tasks as ListScheduler wants them. Ends where the work left on a resource does not fit before
// the cutoff.
class PlacedStep::Simulation {
 public:
  Simulation(PlacedStep& step, int64_t cutoff)
      : step_(step),
        cutoff_(cutoff),
        number_bits_(step.number_bits()),
        number_mask_((uint64_t{1} << number_bits_) - 1) {}

  // The length of the schedule, or a bound above the cutoff.
  int64_t length() const { return length_; }

  // Priority and place in the order of keys in one number, which makes the task known to TaskOf.
  uint64_t KeyOf(size_t task) {
    const Task& one = step_.tasks_[task];
    const LinkKeys& of_link = step_.keys_[static_cast<size_t>(one.link)];
    const int32_t number = step_.NumberOf(task);
    step_.numbers_[static_cast<size_t>(number)] = static_cast<int32_t>(task);
    const auto lacking = static_cast<uint64_t>(of_link.most - one.path);
    return lacking << number_bits_ | static_cast<uint64_t>(number);
  }
  size_t TaskOf(uint64_t key) const {
    return static_cast<size_t>(step_.numbers_[static_cast<size_t>(key & number_mask_)]);
  }
  std::span<const int32_t> ResourcesOf(size_t task) const {
    return PlacedStep::ResourcesOf(step_.tasks_[task]);
  }
  int64_t DurationOf(size_t task) const { return step_.tasks_[task].duration; }
  bool Yields(size_t task) const {
    return step_.tasks_[task].resource_count > 1 &&
           step_.yields_[static_cast<size_t>(step_.tasks_[task].link)] != 0;
  }
  template <class Visit>
  void ForEachSuccessor(size_t task, Visit&& visit) const {
    const Task& one = step_.tasks_[task];
    for (int32_t k = 0; k < one.successor_count; ++k) {
      visit(InPlaceOf(one.first + one.successors[k]));
    }
    for (int32_t k = 0; k < one.other_count; ++k) visit(InPlaceOf(one.others[k]));
  }
  bool Release(size_t task) { return --step_.pending_[task] == 0; }
  void Prefetch(size_t task) const { __builtin_prefetch(&step_.tasks_[task]); }
  bool Start(size_t task, int64_t time) {
    step_.starts_[task] = time;
    const Task& one = step_.tasks_[task];
    __builtin_prefetch(one.successors);
    __builtin_prefetch(one.others);
    const int64_t duration = one.duration;
    length_ = std::max(length_, time + duration);
    for (int32_t r : ResourcesOf(task)) {
      int64_t& left = step_.left_[static_cast<size_t>(r)];
      length_ = std::max(length_, time + left);
      left -= duration;
    }
    return length_ <= cutoff_;
  }

 private:
  size_t InPlaceOf(int32_t place) const {
    const int32_t pending = step_.pending_[static_cast<size_t>(place)];
    return static_cast<size_t>(pending < 0 ? ~pending : place);
  }

  PlacedStep& step_;
  const int64_t cutoff_;
  const int number_bits_;
  const uint64_t number_mask_;
  int64_t length_ = 0;
};

// The same to the end, with what each task waited for, as CriticalChain defines it.
class PlacedStep::TracedSimulation : public PlacedStep::Simulation {
 public:
  explicit TracedSimulation(PlacedStep& step)
      : Simulation(step, std::numeric_limits<int64_t>::max()),
        step_(step),
        awaited_(step.tasks_.size(), kNone),
        last_on_(step.work_.size(), kNone) {}

  template <class Visit>
  void ForEachSuccessor(size_t task, Visit&& visit) {
    ended_ = static_cast<int32_t>(task);
    Simulation::ForEachSuccessor(task, visit);
  }
  bool Release(size_t task) {
    int32_t& last = awaited_[task];
    if (IsLater(ended_, last)) last = ended_;
    return Simulation::Release(task);
  }
  bool Start(size_t task, int64_t time) {
    int32_t& last = awaited_[task];
    for (int32_t r : ResourcesOf(task)) {
      int32_t& before = last_on_[static_cast<size_t>(r)];
      if (before != kNone && (last == kNone || EndOf(before) > EndOf(last))) last = before;
      before = static_cast<int32_t>(task);
    }
    const bool goes_on = Simulation::Start(task, time);
    if (IsLater(static_cast<int32_t>(task), last_)) last_ = static_cast<int32_t>(task);
    return goes_on;
  }

  // Precondition: the schedule came to its end, and joined tasks are not parted.
  std::vector<Nanos> CriticalTimes() const {
    std::vector<Nanos> times(static_cast<size_t>(step_.distances_.subjects()));
    for (int32_t task = last_; task != kNone; task = awaited_[static_cast<size_t>(task)]) {
      const Task& one = step_.tasks_[static_cast<size_t>(task)];
      const ChainLink& link = step_.cache_.chain()[static_cast<size_t>(one.link)];
      times[static_cast<size_t>(SubjectOf(step_.distances_, link))] += Nanos(one.duration);
    }
    return times;
  }

 private:
  static constexpr int32_t kNone = -1;

  int64_t EndOf(int32_t task) const {
    const auto place = static_cast<size_t>(task);
    return step_.starts_[place] + step_.tasks_[place].duration;
  }
  // Whether the task ends later, or is the first by key of two that end together.
  bool IsLater(int32_t task, int32_t other) const {
    if (other == kNone || EndOf(task) != EndOf(other)) {
      return other == kNone || EndOf(task) > EndOf(other);
    }
    return step_.NumberOf(static_cast<size_t>(task)) < step_.NumberOf(static_cast<size_t>(other));
  }

  PlacedStep& step_;
  std::vector<int32_t> awaited_;  // by place
  std::vector<int32_t> last_on_;  // by resource: the task that held it last
  int32_t ended_ = kNone;         // the task whose successors are visited
  int32_t last_ = kNone;          // the task that ends last
};

Nanos PlacedStep::StartWork(std::span<const JoinedTasks> joined) {
  CHECK(CanSimulate(joined));
  left_ = work_;
  most_ = total_;
  JoinWork(joined);
  return Nanos(left_.empty() ? 0 : *std::max_element(left_.begin(), left_.end()));
}

template <class Simulated>
void PlacedStep::Run(Simulated& simulation, std::span<const JoinedTasks> joined) {
  Start(joined);
  ListScheduler scheduler(simulation, list_);
  for (int32_t task : first_) scheduler.Ready(static_cast<size_t>(task));
  scheduler.Run();
}

Nanos PlacedStep::Simulate(Nanos cutoff, std::span<const JoinedTasks> joined) {
  const Nanos busiest = StartWork(joined);
  if (busiest > cutoff) return busiest;
  Simulation simulation(*this, cutoff.value());
  Run(simulation, joined);
  Part(joined);
  return Nanos(simulation.length());
}

PlacedStep::Critical PlacedStep::FindCritical(std::span<const JoinedTasks> joined) {
  StartWork(joined);
  TracedSimulation simulation(*this);
  Run(simulation, joined);
  Critical critical{Nanos(simulation.length()), simulation.CriticalTimes()};
  Part(joined);
  return critical;
}

}  // namespace partita
