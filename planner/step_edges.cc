#include "planner/step_edges.h"

#include <algorithm>

namespace partita {
namespace {

// The junction of a tensor's buffers: next values are written where the present ones lie.
TensorId JunctionOf(const Tensor& tensor) {
  return tensor.kind == TensorKind::kNext ? tensor.of : tensor.id;
}

void SortUnique(std::vector<int32_t>& list) {
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
}

}  // namespace

StepEdges::StepEdges(const FragmentCache& cache, const FragmentLinker& linker)
    : cache_(cache),
      linker_(linker),
      junctions_(cache.graph().tensors().size()),
      junctions_of_link_(cache.chain().size()),
      is_stale_(cache.graph().tensors().size(), 0),
      known_(cache.chain().size()),
      rows_(cache.chain().size()),
      waits_(cache.chain().size()),
      waited_by_(cache.chain().size()),
      is_row_link_(cache.chain().size(), 0) {
  FindJunctions();
}

void StepEdges::FindJunctions() {
  const Graph& graph = cache_.graph();
  for (const Tensor& tensor : graph.tensors()) {
    std::vector<int32_t>& links = junctions_[JunctionOf(tensor).index()].links;
    const auto add = [&](OpId user) {
      links.push_back(cache_.places().of_op[user.index()]);
      for (OpId op : linker_.FusionFamilyOf(user)) {
        links.push_back(cache_.places().of_op[op.index()]);
      }
    };
    for (OpId op : graph.producers(tensor.id)) add(op);
    for (OpId op : graph.consumers(tensor.id)) add(op);
    for (int32_t place : cache_.places().of_tensor[tensor.id.index()]) {
      if (place >= 0) links.push_back(place);
    }
  }
  for (size_t j = 0; j < junctions_.size(); ++j) {
    std::vector<int32_t>& links = junctions_[j].links;
    SortUnique(links);
    junctions_[j].out.resize(links.size());
    for (size_t place = 0; place < links.size(); ++place) {
      junctions_of_link_[static_cast<size_t>(links[place])].emplace_back(
          static_cast<int32_t>(j), static_cast<int32_t>(place));
    }
  }
}

// A buffer is noted anew only where all that use it are linked again.
void StepEdges::FindStale(const StepFragments& step, std::span<const int32_t> relinked,
                          TasksOfLink tasks_of) {
  for (int32_t j : stale_) is_stale_[static_cast<size_t>(j)] = 0;
  stale_.clear();
  waiting_.clear();
  const auto for_each_changed_slot = [&](size_t k, const LinkTasks& now, auto&& visit) {
    const Known& last = known_[k];
    if (now.fragment != last.fragment) return;
    for (size_t s = 0; s < last.slots.size(); ++s) {
      if (last.slots[s] != now.slots[s]) visit(last.slots[s], now.slots[s]);
    }
  };
  for (int32_t link : relinked) {
    const auto k = static_cast<size_t>(link);
    if (!waits_[k].empty()) waiting_.push_back(link);
    waiting_.insert(waiting_.end(), waited_by_[k].begin(), waited_by_[k].end());
    const LinkTasks now = tasks_of(k);
    if (now.fragment != known_[k].fragment) {
      for (const auto& [j, place] : junctions_of_link_[k]) MarkStale(j);
    }
    for_each_changed_slot(
        k, now, [&](BufferId before, BufferId) { MarkStale(junction_of_buffer_[before.index()]); });
  }
  SortUnique(waiting_);
  const auto buffers = static_cast<size_t>(linker_.buffers());
  if (junction_of_buffer_.size() < buffers) junction_of_buffer_.resize(buffers, -1);
  for (int32_t link : relinked) NoteBuffers(step, static_cast<size_t>(link));
  for (int32_t link : relinked) {
    const auto k = static_cast<size_t>(link);
    const LinkTasks now = tasks_of(k);
    for_each_changed_slot(
        k, now, [&](BufferId, BufferId after) { MarkStale(junction_of_buffer_[after.index()]); });
    known_[k].fragment = now.fragment;
    known_[k].slots.assign(now.slots.begin(), now.slots.end());
  }
}

void StepEdges::Clear() {
  for (Junction& junction : junctions_) {
    for (std::vector<Edge>& out : junction.out) out.clear();
  }
  for (Known& known : known_) known = {};
  for (std::vector<WaitsFor>& waits : waits_) waits.clear();
  for (std::vector<int32_t>& links : waited_by_) links.clear();
}

void StepEdges::FindEdges(const StepFragments& step, std::span<const int32_t> relinked,
                          TasksOfLink tasks_of) {
  finder_.AddBuffers(static_cast<size_t>(linker_.buffers()));
  for (int32_t j : stale_) {
    FindEdgesOf(static_cast<size_t>(j), tasks_of);
    for (int32_t user : junctions_[static_cast<size_t>(j)].links) AddRowsOf(user);
  }
  FindWaits(step, relinked, tasks_of);
  for (int32_t link : row_links_) FindRows(static_cast<size_t>(link), tasks_of);
}

// Forgets the control edges of the links at hand.
void StepEdges::ForgetWaits() {
  for (int32_t link : row_links_) is_row_link_[static_cast<size_t>(link)] = 0;
  row_links_.clear();
  for (int32_t link : waiting_) {
    for (const WaitsFor& one : waits_[static_cast<size_t>(link)]) {
      std::erase(waited_by_[static_cast<size_t>(one.link)], link);
      AddRowsOf(one.link);
    }
    waits_[static_cast<size_t>(link)].clear();
  }
}

void StepEdges::FindWaits(const StepFragments& step, std::span<const int32_t> relinked,
                          TasksOfLink tasks_of) {
  for (int32_t link : relinked) {
    const ChainLink& of = cache_.chain()[static_cast<size_t>(link)];
    if (!step.FragmentOf(of).edges.empty()) waiting_.push_back(link);
  }
  SortUnique(waiting_);
  for (int32_t link : waiting_) FindWaitsOf(step, static_cast<size_t>(link), tasks_of);
}

// The kernels of operators that wait, or are waited for, are all kept: their tasks are numbered as
// in their fragments, but for those that the flat forms leave out.
void StepEdges::FindWaitsOf(const StepFragments& step, size_t link, TasksOfLink tasks_of) {
  const LinkTasks own = tasks_of(link);
  std::vector<Fragment::Edge> edges = step.FragmentOf(cache_.chain()[link]).edges;
  std::stable_sort(edges.begin(), edges.end(),
                   [](const auto& a, const auto& b) { return a.op < b.op; });
  std::vector<WaitsFor>& waits = waits_[link];
  int32_t from_first = 0;
  for (const Fragment::Edge& edge : edges) {
    const int32_t of_op = cache_.places().of_op[edge.op.index()];
    if (waits.empty() || waits.back().link != of_op) {
      waits.push_back({of_op});
      tasks_by_device_.clear();
      const LinkTasks of = tasks_of(static_cast<size_t>(of_op));
      TaskId task(0);
      for (DeviceId device : step.operators[edge.op.index()]->devices) {
        const int32_t number = NumberIn(*of.fragment, task);
        task = TaskId(task.value() + 1);
        if (number >= 0) tasks_by_device_.emplace_back(device, number);
      }
      std::sort(tasks_by_device_.begin(), tasks_by_device_.end());
      from_first = of.first;
      waited_by_[static_cast<size_t>(of_op)].push_back(static_cast<int32_t>(link));
      AddRowsOf(of_op);
    }
    const int32_t task = NumberIn(*own.fragment, edge.task);
    if (task < 0) continue;
    auto it = std::lower_bound(tasks_by_device_.begin(), tasks_by_device_.end(),
                               std::pair(edge.device, int32_t{0}));
    for (; it != tasks_by_device_.end() && it->first == edge.device; ++it) {
      waits.back().edges.push_back({from_first + it->second, own.first + task});
    }
  }
}

// Notes of which junction the buffers are that the link's fragment makes, and those between steps of
// its junctions.
void StepEdges::NoteBuffers(const StepFragments& step, size_t link) {
  for (const auto& [j, place] : junctions_of_link_[link]) {
    const Sections::Section& stored = linker_.StoredBuffers(TensorId(j));
    std::fill(junction_of_buffer_.begin() + stored.begin,
              junction_of_buffer_.begin() + stored.end(), j);
  }
  const ChainLink& of = cache_.chain()[link];
  const int32_t first = linker_.OwnBuffers(link).begin;
  const auto note = [&](int32_t own, int32_t junction) {
    junction_of_buffer_[static_cast<size_t>(first + own)] = junction;
  };
  const Graph& graph = cache_.graph();
  if (of.is_tensor) {
    const int32_t junction = JunctionOf(graph.tensor(TensorId(of.id))).value();
    const TensorFragment& fragment = step.TensorFragmentOf(TensorId(of.id), of.group);
    for (int32_t own = 0; own < fragment.own(); ++own) note(own, junction);
    for (int32_t slot : fragment.staging) note(slot - fragment.outer, -1);
    return;
  }
  const OperatorFragment& fragment = *step.operators[static_cast<size_t>(of.id)];
  const Operator& op = graph.op(OpId(of.id));
  for (size_t k = 0; k < op.outputs.size(); ++k) {
    const int32_t junction = JunctionOf(graph.tensor(op.outputs[k])).value();
    for (const OperatorFragment::Result& result : fragment.results[k]) {
      if (result.slot >= fragment.outer) note(result.slot - fragment.outer, junction);
    }
  }
}

// Edges within a link are the fragment's own.
void StepEdges::FindEdgesOf(size_t junction, TasksOfLink tasks_of) {
  Junction& own = junctions_[junction];
  seen_.clear();
  used_.clear();
  for (size_t place = 0; place < own.links.size(); ++place) {
    const LinkTasks tasks = tasks_of(static_cast<size_t>(own.links[place]));
    const BufferUses& uses = tasks.fragment->step.uses;
    for (size_t t = 0; t < uses.tasks(); ++t) {
      uses_.clear();
      for (const BufferUse& use : uses.UsesOf(t)) {
        const BufferId buffer = tasks.slots[use.buffer.index()];
        if (junction_of_buffer_[buffer.index()] != static_cast<int32_t>(junction)) continue;
        uses_.push_back({buffer, use.writes});
        used_.push_back(buffer);
      }
      if (uses_.empty()) continue;
      const int32_t task = tasks.first + static_cast<int32_t>(t);
      finder_.NextTask(uses_, {}, [&](TaskId before) {
        const auto& [from, of] = seen_[before.index()];
        if (of != static_cast<int32_t>(place)) {
          own.out[static_cast<size_t>(of)].push_back({from, task});
        }
      });
      seen_.emplace_back(task, static_cast<int32_t>(place));
    }
  }
  finder_.Restart(used_);
}

void StepEdges::FindRows(size_t link, TasksOfLink tasks_of) {
  const LinkTasks tasks = tasks_of(link);
  Rows& rows = rows_found_;
  rows.begin.assign(tasks.fragment->step.costs.size() + 1, 0);
  const auto for_each = [&](auto&& visit) {
    for (const auto& [j, place] : junctions_of_link_[link]) {
      for (const Edge& edge : junctions_[static_cast<size_t>(j)].out[static_cast<size_t>(place)]) {
        visit(static_cast<size_t>(edge.from - tasks.first), edge.to);
      }
    }
    for (int32_t waiting : waited_by_[link]) {
      for (const WaitsFor& one : waits_[static_cast<size_t>(waiting)]) {
        if (one.link != static_cast<int32_t>(link)) continue;
        for (const Edge& edge : one.edges) {
          visit(static_cast<size_t>(edge.from - tasks.first), edge.to);
        }
      }
    }
  };
  size_t count = 0;
  for_each([&](size_t task, int32_t) {
    ++rows.begin[task];
    ++count;
  });
  int32_t sum = 0;  // where each row ends, until it is filled from its end
  for (int32_t& begin : rows.begin) begin = sum += begin;
  rows.to.resize(count);
  for_each([&](size_t task, int32_t to) { rows.to[static_cast<size_t>(--rows.begin[task])] = to; });
  Rows& known = rows_[link];
  known.is_as_before = rows.begin == known.begin && rows.to == known.to;
  if (known.is_as_before) return;
  std::swap(known.begin, rows.begin);
  std::swap(known.to, rows.to);
}

}  // namespace partita
