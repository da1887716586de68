// Tasks leave a heap in the order (ready, rank), as in Simulate (simulator.cc). The rank of a task is
// its place behind all tasks of levels farther from the end.
#include "planner/placed_step.h"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <tuple>

#include "graph/support/check.h"
#include "planner/simulator/task_heap.h"

namespace partita {
namespace {

using Wide = unsigned __int128;

}  // namespace

PlacedStep::PlacedStep(const FragmentCache& cache, const FragmentLinker& linker,
                       const GraphDistances& distances, int resources)
    : cache_(cache),
      linker_(linker),
      edges_(cache, linker),
      sections_(cache.chain().size()),
      fragments_(cache.chain().size(), nullptr),
      work_(static_cast<size_t>(resources), 0),
      level_of_link_(cache.chain().size(), 0) {
  FindLevels(distances);
}

void PlacedStep::FindLevels(const GraphDistances& distances) {
  const std::vector<ChainLink>& chain = cache_.chain();
  std::map<int32_t, std::vector<int32_t>, std::greater<>> by_hops;
  for (size_t k = 0; k < chain.size(); ++k) {
    const int32_t subject = chain[k].is_tensor ? distances.SubjectOf(TensorId(chain[k].id))
                                               : distances.SubjectOf(OpId(chain[k].id));
    by_hops[distances.hops()[static_cast<size_t>(subject)]].push_back(static_cast<int32_t>(k));
  }
  for (auto& [hops, links] : by_hops) {
    std::sort(links.begin(), links.end(), [&](int32_t a, int32_t b) {
      const ChainLink &x = chain[static_cast<size_t>(a)], &y = chain[static_cast<size_t>(b)];
      return std::tuple(x.is_tensor, x.id, x.group) < std::tuple(y.is_tensor, y.id, y.group);
    });
    for (int32_t link : links) {
      level_of_link_[static_cast<size_t>(link)] = static_cast<int32_t>(levels_.size());
    }
    levels_.push_back({std::move(links), {}, true});
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
    std::fill(work_.begin(), work_.end(), 0);
    total_ = tasks_in_all_ = within_tensors_ = 0;
    irregular_ = 0;
  }
  edges_.Remove(step, links, tasks_of, [this](const StepEdges::Edge& edge) {
    --predecessors_[static_cast<size_t>(edge.to)];
    within_tensors_ -= IsWithinTensor(edge);
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
  edges_.Find(step, links, placed, [this](const StepEdges::Edge& edge) {
    ++predecessors_[static_cast<size_t>(edge.to)];
    within_tensors_ += IsWithinTensor(edge);
  });
  for (int32_t link : edges_.changed()) PointToOthers(static_cast<size_t>(link));
  for (Level& level : levels_) {
    if (level.is_stale) OrderLevel(level);
  }
}

bool PlacedStep::IsWithinTensor(const StepEdges::Edge& edge) const {
  const std::vector<ChainLink>& chain = cache_.chain();
  const ChainLink& from = chain[static_cast<size_t>(link_[static_cast<size_t>(edge.from)])];
  const ChainLink& to = chain[static_cast<size_t>(link_[static_cast<size_t>(edge.to)])];
  return from.is_tensor && to.is_tensor && from.id == to.id;
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
  const Sections::Section& section = sections_.Resize(link, static_cast<int32_t>(count));
  if (tasks_.size() < static_cast<size_t>(sections_.end())) {
    tasks_.resize(static_cast<size_t>(sections_.end()));
    for (std::vector<int32_t>* list : {&predecessors_, &order_, &link_})
      list->resize(tasks_.size());
    path_.resize(tasks_.size());
  }
  const auto first = static_cast<size_t>(section.begin);
  for (size_t t = 0; t < count; ++t) {
    const auto held = flat.ResourcesOf(t), next = flat.SuccessorsOf(t);
    Task& task = tasks_[first + t];
    task.duration = fragment.step.costs[t].time.value();
    task.resources = held.data();
    task.resource = held.empty() ? 0 : held[0];
    task.resource_count = static_cast<int32_t>(held.size());
    task.successors = next.data();
    task.successor_count = static_cast<int32_t>(next.size());
    task.first = section.begin;
    link_[first + t] = static_cast<int32_t>(link);
    predecessors_[first + t] = flat.predecessor_count[t];
  }
  std::copy(fragment.path.begin(), fragment.path.end(), path_.begin() + section.begin);
  fragments_[link] = &fragment;
  for (const auto& [resource, time] : fragment.loads) work_[static_cast<size_t>(resource)] += time;
  total_ += fragment.total;
  tasks_in_all_ += static_cast<int64_t>(count);
  irregular_ += !fragment.is_regular;
  levels_[static_cast<size_t>(level_of_link_[link])].is_stale = true;
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

// Merges the orders of the links, two neighbours at a time: among equal paths the earlier link's
// come first.
void PlacedStep::OrderLevel(Level& level) {
  level.is_stale = false;
  level.order.clear();
  std::vector<size_t> runs = {0};
  for (int32_t link : level.links) {
    const auto k = static_cast<size_t>(link);
    for (int32_t t : fragments_[k]->by_path) level.order.push_back(sections_[k].begin + t);
    if (level.order.size() > runs.back()) runs.push_back(level.order.size());
  }
  const auto longer = [this](int32_t a, int32_t b) {
    return path_[static_cast<size_t>(a)] > path_[static_cast<size_t>(b)];
  };
  while (runs.size() > 2) {
    merged_.resize(level.order.size());
    std::vector<size_t> joined = {0};
    const auto at = [](std::vector<int32_t>& list, size_t place) {
      return list.begin() + static_cast<std::ptrdiff_t>(place);
    };
    for (size_t r = 0; r + 1 < runs.size(); r += 2) {
      const size_t begin = runs[r], middle = runs[r + 1];
      const size_t end = r + 2 < runs.size() ? runs[r + 2] : middle;
      std::merge(at(level.order, begin), at(level.order, middle), at(level.order, middle),
                 at(level.order, end), at(merged_, begin), longer);
      joined.push_back(end);
    }
    level.order.swap(merged_);
    runs = std::move(joined);
  }
  for (size_t place = 0; place < level.order.size(); ++place) {
    order_[static_cast<size_t>(level.order[place])] = static_cast<int32_t>(place);
  }
}

void PlacedStep::Start() {
  level_begin_.clear();
  by_rank_.clear();
  for (const Level& level : levels_) {
    level_begin_.push_back(static_cast<int32_t>(by_rank_.size()));
    by_rank_.insert(by_rank_.end(), level.order.begin(), level.order.end());
  }
  states_.resize(tasks_.size());
  sources_.clear();
  for (size_t link = 0; link < fragments_.size(); ++link) {
    const Sections::Section& section = sections_[link];
    const int32_t begin = level_begin_[static_cast<size_t>(level_of_link_[link])];
    for (auto t = static_cast<size_t>(section.begin); t < static_cast<size_t>(section.end()); ++t) {
      states_[t] = {0, predecessors_[t], begin + order_[t]};
      if (predecessors_[t] == 0) sources_.push_back(states_[t].rank);
    }
  }
  resources_.resize(work_.size());
  for (size_t r = 0; r < work_.size(); ++r) resources_[r] = {0, work_[r]};
}

void PlacedStep::AddStarts(size_t link, std::vector<Nanos>& starts) const {
  const Sections::Section& section = sections_[link];
  for (int32_t t = section.begin; t < section.end(); ++t) {
    starts.push_back(Nanos(states_[static_cast<size_t>(t)].ready));
  }
}

Nanos PlacedStep::Simulate(Nanos cutoff) {
  CHECK(CanSimulate());
  Start();
  const bool fits =
      std::bit_width(static_cast<uint64_t>(total_)) + std::bit_width(by_rank_.size()) <= 64;
  return fits ? RunEvents<uint64_t>(cutoff.value()) : RunEvents<Wide>(cutoff.value());
}

template <class Key>
Nanos PlacedStep::RunEvents(int64_t cutoff) {
  const int rank_bits = std::bit_width(by_rank_.size());
  const Key rank_mask = (Key{1} << rank_bits) - 1;
  FourAryHeap<Key> heap;
  heap.Reserve(by_rank_.size());
  for (int32_t rank : sources_) heap.Push(static_cast<Key>(rank));
  int64_t makespan = 0;
  while (!heap.empty()) {
    const Key key = heap.Pop();
    const auto t = static_cast<size_t>(by_rank_[static_cast<size_t>(key & rank_mask)]);
    const Task& task = tasks_[t];
    int64_t start = static_cast<int64_t>(key >> rank_bits);
    int64_t end = 0, least = 0;  // least: of the makespan
    const auto serve = [&](int32_t r) {
      Resource& resource = resources_[static_cast<size_t>(r)];
      resource.free_at = end;
      resource.left -= task.duration;
      least = std::max(least, end + resource.left);
    };
    if (task.resource_count == 1) {
      end = std::max(start, resources_[static_cast<size_t>(task.resource)].free_at) + task.duration;
      serve(task.resource);
    } else {
      const std::span held(task.resources, static_cast<size_t>(task.resource_count));
      for (int32_t r : held) start = std::max(start, resources_[static_cast<size_t>(r)].free_at);
      end = start + task.duration;
      least = end;
      for (int32_t r : held) serve(r);
    }
    if (least > cutoff) return Nanos(least);
    makespan = std::max(makespan, end);
    states_[t].ready = end - task.duration;
    const auto reach = [&](int32_t next) {
      State& state = states_[static_cast<size_t>(next)];
      state.ready = std::max(state.ready, end);
      if (--state.pending > 0) return;
      __builtin_prefetch(&tasks_[static_cast<size_t>(next)]);
      heap.Push(static_cast<Key>(state.ready) << rank_bits | static_cast<Key>(state.rank));
    };
    for (int32_t k = 0; k < task.successor_count; ++k) reach(task.first + task.successors[k]);
    for (int32_t k = 0; k < task.other_count; ++k) reach(task.others[k]);
  }
  return Nanos(makespan);
}

}  // namespace partita
