#include "planner/bundled_step.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace partita {

BundledStep::BundledStep(const FragmentCache& cache, const FragmentLinker& linker,
                         const SimulatedResources& resources)
    : cache_(cache),
      linker_(linker),
      edges_(cache, linker),
      sections_(cache.chain().size()),
      bundle_sections_(cache.chain().size()),
      fragments_(cache.chain().size(), nullptr),
      first_of_(cache.chain().size()),
      edges_of_(cache.chain().size()),
      work_(static_cast<size_t>(resources.count()), 0),
      has_changed_waits_(cache.chain().size(), 0),
      is_replaced_(cache.chain().size(), 0) {
  for (const ChainLink& link : cache.chain()) {
    const auto& of_tensor = cache.places().of_tensor;
    has_siblings_.push_back(link.is_tensor && of_tensor[static_cast<size_t>(link.id)].size() > 1);
  }
}

void BundledStep::Clear() {
  edges_.Clear();
  sections_.Clear();
  bundle_sections_.Clear();
  std::fill(fragments_.begin(), fragments_.end(), nullptr);
  bundles_.clear();
  waits_.clear();
  lane_waits_.clear();
  high_waits_.clear();
  unused_high_.clear();
  std::fill(work_.begin(), work_.end(), 0);
  total_ = tasks_in_all_ = within_tensors_ = 0;
  bundles_in_all_ = irregular_ = 0;
}

void BundledStep::Update(const StepFragments& step, TasksOfLink tasks_of) {
  std::vector<int32_t> links(linker_.relinked().begin(), linker_.relinked().end());
  if (sections_.is_sparse() || bundle_sections_.is_sparse()) {
    links.resize(cache_.chain().size());
    std::iota(links.begin(), links.end(), 0);
    Clear();
  }
  edges_.Remove(step, links, tasks_of, [this](const StepEdges::Edge& edge, int32_t from) {
    --predecessors_[static_cast<size_t>(edge.to)];
    within_tensors_ -= IsWithinTensor(edge, from);
    MarkWaits(link_of_[static_cast<size_t>(edge.to)]);
  });
  std::vector<int32_t> replaced;
  for (int32_t link : links) {
    const auto k = static_cast<size_t>(link);
    const FlatFragment* fragment = tasks_of(k).fragment;
    if (fragment == fragments_[k]) continue;
    RemoveWork(k);
    Place(k, *fragment);
    MarkWaits(link);
    replaced.push_back(link);
    is_replaced_[k] = 1;
  }
  const auto placed = [&](size_t link) {
    LinkTasks tasks = tasks_of(link);
    tasks.first = sections_[link].begin;
    return tasks;
  };
  edges_.Find(step, links, placed, [this](const StepEdges::Edge& edge, int32_t from) {
    ++predecessors_[static_cast<size_t>(edge.to)];
    within_tensors_ += IsWithinTensor(edge, from);
    MarkWaits(link_of_[static_cast<size_t>(edge.to)]);
  });
  for (int32_t link : changed_waits_) {
    FindWaits(static_cast<size_t>(link));
    FindFirst(static_cast<size_t>(link));
  }
  changed_waits_.clear();
  for (int32_t link : replaced) FindEdges(static_cast<size_t>(link));
  for (int32_t link : edges_.found()) {
    const auto k = static_cast<size_t>(link);
    if (is_replaced_[k] != 0 || (edges_.IsAsBefore(k) && !LeadsToReplaced(k))) continue;
    FindEdges(k);
  }
  for (int32_t link : replaced) is_replaced_[static_cast<size_t>(link)] = 0;
}

bool BundledStep::LeadsToReplaced(size_t link) const {
  const std::span<const int32_t> places = edges_.SuccessorsOf(link);
  return std::any_of(places.begin(), places.end(), [this](int32_t to) {
    return is_replaced_[static_cast<size_t>(link_of_[static_cast<size_t>(to)])] != 0;
  });
}

bool BundledStep::IsWithinTensor(const StepEdges::Edge& edge, int32_t from) const {
  if (has_siblings_[static_cast<size_t>(from)] == 0) return false;
  const std::vector<ChainLink>& chain = cache_.chain();
  const ChainLink& to = chain[static_cast<size_t>(link_of_[static_cast<size_t>(edge.to)])];
  return to.is_tensor && to.id == chain[static_cast<size_t>(from)].id;
}

void BundledStep::RemoveWork(size_t link) {
  if (fragments_[link] == nullptr) return;
  const FlatFragment& old = *fragments_[link];
  for (const auto& [resource, time] : old.loads) work_[static_cast<size_t>(resource)] -= time;
  total_ -= old.total;
  tasks_in_all_ -= static_cast<int64_t>(old.step.costs.size());
  bundles_in_all_ -= static_cast<int32_t>(old.bundles.bundles.size());
  irregular_ -= !old.is_regular;
}

void BundledStep::Place(size_t link, const FlatFragment& fragment) {
  const std::vector<int32_t>& inside = fragment.step.tasks.predecessor_count;
  const size_t count = fragment.step.costs.size();
  const Sections::Section& section = sections_.Resize(link, static_cast<int32_t>(count));
  if (predecessors_.size() < static_cast<size_t>(sections_.end())) {
    predecessors_.resize(static_cast<size_t>(sections_.end()));
    link_of_.resize(predecessors_.size());
    at_.resize(predecessors_.size());
  }
  std::copy_n(inside.begin(), count, predecessors_.begin() + section.begin);
  std::fill_n(link_of_.begin() + section.begin, count, static_cast<int32_t>(link));
  PlaceBundles(link, fragment);
  const TaskBundles& own = fragment.bundles;
  for (size_t t = 0; t < count; ++t) {
    const int32_t bundle = own.bundle_of[t];
    at_[static_cast<size_t>(section.begin) + t] = {
        .bundle = bundle_sections_[link].begin + bundle,
        .lane = static_cast<int16_t>(own.lane_of[t]),
        .is_one = IsOneLane(own.bundles[static_cast<size_t>(bundle)].lanes)};
  }
  fragments_[link] = &fragment;
  for (const auto& [resource, time] : fragment.loads) work_[static_cast<size_t>(resource)] += time;
  total_ += fragment.total;
  tasks_in_all_ += static_cast<int64_t>(count);
  bundles_in_all_ += static_cast<int32_t>(fragment.bundles.bundles.size());
  irregular_ += !fragment.is_regular;
}

void BundledStep::PlaceBundles(size_t link, const FlatFragment& fragment) {
  const TaskBundles& own = fragment.bundles;
  const Sections::Section before = bundle_sections_[link];
  std::fill_n(bundles_.begin() + before.begin, before.size, Bundle());
  for (int32_t k = before.begin; k < before.end(); ++k) {
    DropHigh(lane_waits_[static_cast<size_t>(k)]);
  }
  const Sections::Section& section =
      bundle_sections_.Resize(link, static_cast<int32_t>(own.bundles.size()));
  if (bundles_.size() < static_cast<size_t>(bundle_sections_.end())) {
    bundles_.resize(static_cast<size_t>(bundle_sections_.end()));
    waits_.resize(bundles_.size());
    lane_waits_.resize(bundles_.size());
    last_edges_.resize(bundles_.size());
  }
  for (size_t k = 0; k < own.bundles.size(); ++k) {
    const TaskBundle& from = own.bundles[k];
    Bundle& bundle = bundles_[static_cast<size_t>(section.begin) + k];
    bundle.duration = from.duration;
    bundle.path = from.path;
    bundle.lanes = from.lanes;
    bundle.block = from.block;
    bundle.link = static_cast<int32_t>(link);
    if (from.is_of_kernels()) continue;
    const auto task = static_cast<size_t>(own.tasks[static_cast<size_t>(from.first)]);
    const auto held = fragment.step.tasks.ResourcesOf(task);
    bundle.list_count = static_cast<int32_t>(held.size());
    if (held.size() == 1) {
      bundle.resource = held[0];
    } else {
      bundle.list = held.data();
    }
  }
}

void BundledStep::MarkWaits(int32_t link) {
  if (std::exchange(has_changed_waits_[static_cast<size_t>(link)], 1) == 0) {
    changed_waits_.push_back(link);
  }
}

void BundledStep::FindWaits(size_t link) {
  has_changed_waits_[link] = 0;
  const TaskBundles& own = fragments_[link]->bundles;
  const int32_t* const waits = predecessors_.data() + sections_[link].begin;
  auto place = static_cast<size_t>(bundle_sections_[link].begin);
  for (const TaskBundle& bundle : own.bundles) {
    if (bundle.count() == 1) {
      waits_[place] = waits[own.tasks[static_cast<size_t>(bundle.first)]];
    } else {
      FindLaneWaits(link, bundle, lane_waits_[place]);
    }
    ++place;
  }
}

void BundledStep::DropHigh(LaneWaits& waits) {
  if (waits.high >= 0) unused_high_.push_back(waits.high);
  waits.high = -1;
}

void BundledStep::FindLaneWaits(size_t link, const TaskBundle& bundle, LaneWaits& waits) {
  const TaskBundles& own = fragments_[link]->bundles;
  DropHigh(waits);
  waits.counts = {};
  const int32_t* const counts = predecessors_.data() + sections_[link].begin;
  uint64_t any = 0;
  for (int32_t t : own.TasksOf(bundle)) any |= static_cast<uint64_t>(counts[t]);
  for (int32_t t : own.TasksOf(bundle)) {
    waits.counts.Add(own.lane_of[static_cast<size_t>(t)], static_cast<uint64_t>(counts[t]));
  }
  if (any <= SmallLaneCounts::kMost) return;
  if (unused_high_.empty()) {
    unused_high_.push_back(static_cast<int32_t>(high_waits_.size()));
    high_waits_.emplace_back();
  }
  waits.high = unused_high_.back();
  unused_high_.pop_back();
  HighLaneCounts& high = high_waits_[static_cast<size_t>(waits.high)];
  high = {};
  for (int32_t t : own.TasksOf(bundle)) {
    const auto more = static_cast<uint64_t>(counts[t]) >> SmallLaneCounts::kPlanes;
    for (size_t b = 0; b < high.size() && more >> b != 0; ++b) {
      high[b] |= (more >> b & 1) << own.lane_of[static_cast<size_t>(t)];
    }
  }
}

// Lists of most links are empty.
void BundledStep::FindFirst(size_t link) {
  std::vector<First>& first = first_of_[link];
  first.clear();
  const Sections::Section& section = bundle_sections_[link];
  for (int32_t place = section.begin; place < section.end(); ++place) {
    const auto k = static_cast<size_t>(place);
    const Bundle& bundle = bundles_[k];
    uint64_t waiting = waits_[k] > 0 ? bundle.lanes : 0;
    if (!bundle.is_one()) {
      waiting = lane_waits_[k].counts.NonZero();
      const int32_t high = lane_waits_[k].high;
      if (high >= 0) {
        for (uint64_t plane : high_waits_[static_cast<size_t>(high)]) waiting |= plane;
      }
    }
    if ((bundle.lanes & ~waiting) != 0) first.push_back({place, bundle.lanes & ~waiting});
  }
}

BundledStep::Edge BundledStep::EdgeTo(const TaskAt& to, const TaskBundle& from, int lane) {
  if (!from.is_of_kernels()) {
    return {uint64_t{1} << to.lane, to.bundle, to.is_one ? Edge::kToOne : 0};
  }
  const int32_t turn = (to.lane - lane) & (kLanesOfBlock - 1);
  return {uint64_t{1} << lane, to.bundle, to.is_one ? Edge::kToOne : turn};
}

bool BundledStep::Joins(Edge& known, const Edge& edge) {
  if (known.to != edge.to || known.turn != edge.turn || (known.lanes & edge.lanes) != 0) {
    return false;
  }
  known.lanes |= edge.lanes;
  return true;
}

// Edges of a task are in most cases like those of the bundle's task before, in the same order.
void BundledStep::AddEdges(size_t link, const TaskBundle& from) {
  const FlatFragment& fragment = *fragments_[link];
  auto& [edges, followers] = edges_of_[link];
  const int64_t bundle = ++found_;
  const bool is_one = IsOneLane(from.lanes), is_one_kernel = is_one && from.is_of_kernels();
  const size_t begin = edges.size();
  const TaskAt* const all = at_.data();
  for (int32_t t : fragment.bundles.TasksOf(from)) {
    const auto task = static_cast<size_t>(t);
    const int lane = fragment.bundles.lane_of[task];
    size_t like = begin;  // the edge of the task before that the next one may be like
    const std::pair<std::span<const int32_t>, const TaskAt*> successors[] = {
        {fragment.step.tasks.SuccessorsOf(task), all + sections_[link].begin},
        {edges_.SuccessorsOf(link, task), all}};
    for (const auto& [places, at] : successors) {
      for (int32_t place : places) {
        const TaskAt& to = at[place];
        if (is_one_kernel && to.is_one) {
          followers.push_back(to.bundle);
          continue;
        }
        const Edge edge = EdgeTo(to, from, lane);
        if (like < edges.size() && Joins(edges[like], edge)) {
          like += is_one ? 0 : 1;
          continue;
        }
        LastEdge& last = last_edges_[static_cast<size_t>(to.bundle)];
        if (last.from == bundle && Joins(edges[last.edge], edge)) {
          like = last.edge + (is_one ? 0 : 1);
          continue;
        }
        last = {bundle, edges.size()};
        like = edges.size() + (is_one ? 0 : 1);
        edges.push_back(edge);
      }
    }
  }
}

void BundledStep::FindEdges(size_t link) {
  auto& [edges, followers] = edges_of_[link];
  edges.clear();
  followers.clear();
  const auto first = static_cast<size_t>(bundle_sections_[link].begin);
  const std::vector<TaskBundle>& own = fragments_[link]->bundles.bundles;
  for (size_t k = 0; k < own.size(); ++k) {
    const size_t begin = edges.size(), followers_begin = followers.size();
    AddEdges(link, own[k]);
    Bundle& bundle = bundles_[first + k];
    bundle.edge_count = static_cast<int32_t>(edges.size() - begin);
    bundle.shared_edges = bundle.edge_count;
    if (bundle.is_of_kernels()) {
      bundle.list_count = static_cast<int32_t>(followers.size() - followers_begin);
    }
    if (bundle.is_one()) continue;
    const auto of_bundle = edges.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto own_edges = std::stable_partition(
        of_bundle, edges.end(), [](const Edge& edge) { return !IsOneLane(edge.lanes); });
    bundle.shared_edges = static_cast<int32_t>(own_edges - of_bundle);
  }
  const Edge* next = edges.data();
  const int32_t* next_follower = followers.data();
  for (size_t k = 0; k < own.size(); ++k) {
    Bundle& bundle = bundles_[first + k];
    bundle.edges = std::exchange(next, next + bundle.edge_count);
    if (!bundle.is_of_kernels()) continue;
    bundle.list = std::exchange(next_follower, next_follower + bundle.list_count);
  }
}

}  // namespace partita
