#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "graph/partition/fragment_cache.h"
#include "graph/partition/fragment_linker.h"
#include "graph/support/sections.h"
#include "graph/task/dependencies.h"
#include "planner/flat_step.h"

namespace partita {

// Tasks of a link of the chain: its flat form, the buffers that its slots stand for, and the number
// of its first task; the others follow.
struct LinkTasks {
  const FlatFragment* fragment = nullptr;
  std::span<const BufferId> slots;
  int32_t first = 0;
};
using TasksOfLink = absl::FunctionRef<LinkTasks(size_t link)>;

// Edges between tasks of different links, from step to step. A *junction* is all buffers of one
// tensor, of its next value, too, if it persists; the tasks that use them are those of a few links.
// Edges are found anew for the junctions of links whose tasks have changed, for those whose buffers
// a link now uses, or did, in place of others, and control edges for links that wait and have
// changed, or wait for such.
class StepEdges {
 public:
  struct Edge {
    int32_t from = 0, to = 0;
  };

  // Both outlive this.
  StepEdges(const FragmentCache& cache, const FragmentLinker& linker);

  // Calls visit(edge, link) for all edges that the change of these links may take away, each from a
  // task of that link, and forgets them.
  // The tasks that the links had before still live; where first ones are, is not looked at.
  template <class Visit>
  void Remove(const StepFragments& step, std::span<const int32_t> relinked, TasksOfLink tasks_of,
              Visit&& visit) {
    FindStale(step, relinked, tasks_of);
    ForEach(visit);
    for (int32_t j : stale_) {
      for (std::vector<Edge>& out : junctions_[static_cast<size_t>(j)].out) out.clear();
    }
    ForgetWaits();
  }
  // Calls visit(edge, link) for all edges that they now have. To be called after Remove, with the
  // same links.
  template <class Visit>
  void Find(const StepFragments& step, std::span<const int32_t> relinked, TasksOfLink tasks_of,
            Visit&& visit) {
    FindEdges(step, relinked, tasks_of);
    ForEach(visit);
  }
  // Links whose SuccessorsOf the last Find has found anew, and of these whether they are as before.
  std::span<const int32_t> found() const { return row_links_; }
  bool IsAsBefore(size_t link) const { return rows_[link].is_as_before; }
  // Forgets all edges. To be followed by Remove and Find with all links.
  void Clear();

  // The tasks of other links that wait for tasks of the link; for one of them, counted within the link.
  std::span<const int32_t> SuccessorsOf(size_t link) const { return rows_[link].to; }
  std::span<const int32_t> SuccessorsOf(size_t link, size_t task) const {
    const Rows& rows = rows_[link];
    return {rows.to.data() + rows.begin[task], rows.to.data() + rows.begin[task + 1]};
  }

 private:
  struct Junction {
    std::vector<int32_t> links;          // those whose tasks may use its buffers, ascending
    std::vector<std::vector<Edge>> out;  // by place in `links`: edges from that link's tasks
  };
  // State of a link when it was linked last.
  struct Known {
    const FlatFragment* fragment = nullptr;
    std::vector<BufferId> slots;
  };
  // Control edges of a link from the tasks of an operator, whose link is `link`.
  struct WaitsFor {
    int32_t link = 0;
    std::vector<Edge> edges = {};
  };
  // Row t of a list: [begin[t], begin[t + 1]).
  struct Rows {
    std::vector<int32_t> begin, to;
    bool is_as_before = false;
  };

  // Calls visit(edge, link) for the edges of stale junctions and of links that wait.
  template <class Visit>
  void ForEach(Visit&& visit) const {
    for (int32_t j : stale_) {
      const Junction& junction = junctions_[static_cast<size_t>(j)];
      for (size_t place = 0; place < junction.links.size(); ++place) {
        for (const Edge& edge : junction.out[place]) visit(edge, junction.links[place]);
      }
    }
    for (int32_t link : waiting_) {
      for (const WaitsFor& one : waits_[static_cast<size_t>(link)]) {
        for (const Edge& edge : one.edges) visit(edge, one.link);
      }
    }
  }
  void FindJunctions();
  void FindStale(const StepFragments& step, std::span<const int32_t> relinked,
                 TasksOfLink tasks_of);
  void MarkStale(int32_t junction) {
    if (junction < 0 || std::exchange(is_stale_[static_cast<size_t>(junction)], 1) != 0) return;
    stale_.push_back(junction);
  }
  void FindEdges(const StepFragments& step, std::span<const int32_t> relinked,
                 TasksOfLink tasks_of);
  void NoteBuffers(const StepFragments& step, size_t link);
  void FindEdgesOf(size_t junction, TasksOfLink tasks_of);
  void AddRowsOf(int32_t link) {
    if (std::exchange(is_row_link_[static_cast<size_t>(link)], 1) == 0) row_links_.push_back(link);
  }
  void ForgetWaits();
  void FindWaits(const StepFragments& step, std::span<const int32_t> relinked,
                 TasksOfLink tasks_of);
  void FindWaitsOf(const StepFragments& step, size_t link, TasksOfLink tasks_of);
  void FindRows(size_t link, TasksOfLink tasks_of);

  const FragmentCache& cache_;
  const FragmentLinker& linker_;
  std::vector<Junction> junctions_;  // indexed by TensorId
  // Junctions of each link, and the link's place in them.
  std::vector<std::vector<std::pair<int32_t, int32_t>>> junctions_of_link_;
  std::vector<int32_t>
      junction_of_buffer_;      // indexed by the linker's numbers; -1: of one link only
  std::vector<int32_t> stale_;  // junctions
  std::vector<char> is_stale_;  // indexed by junction
  std::vector<Known> known_;    // indexed by link
  std::vector<Rows> rows_;      // indexed by link
  std::vector<std::vector<WaitsFor>> waits_;     // indexed by the link that waits
  std::vector<std::vector<int32_t>> waited_by_;  // indexed by link: those that wait for its tasks
  std::vector<int32_t> waiting_;                 // links whose control edges are found anew
  std::vector<int32_t> row_links_;               // links whose rows are found anew, each once
  std::vector<char> is_row_link_;                // indexed by link
  Rows rows_found_;                              // of the link at hand
  // Tasks of the operator at hand, by device.
  std::vector<std::pair<DeviceId, int32_t>> tasks_by_device_;
  // State of the junction at hand: the tasks that the finder has seen, with the places of their
  // links; the buffers that they use; the uses of a task.
  DependencyFinder finder_;
  std::vector<std::pair<int32_t, int32_t>> seen_;
  std::vector<BufferId> used_;
  std::vector<BufferUse> uses_;
};

}  // namespace partita
