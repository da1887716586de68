#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "planner/simulator/contended_tasks.h"
#include "planner/simulator/end_queue.h"
#include "planner/simulator/lane_masks.h"
#include "planner/simulator/task_heap.h"

namespace partita {

// Kernels that wait for the lanes of a block.
class WaitingKernels {
 public:
  struct One {
    uint64_t key = 0;
    size_t bundle = 0;
    uint64_t lanes = 0;
  };

  void Clear() {
    shared_.clear();
    shared_of_.Clear();
    ForEachLane(has_own_, [this](int lane) { own_[static_cast<size_t>(lane)].Clear(); });
    has_own_ = 0;
  }
  // Lanes that some wait for.
  uint64_t lanes() const { return has_own_ | shared_lanes(); }

  void Add(const One& one) {
    if (IsOneLane(one.lanes)) {
      own_[static_cast<size_t>(std::countr_zero(one.lanes))].Push(one.key);
      has_own_ |= one.lanes;
      return;
    }
    const auto place = std::lower_bound(shared_.begin(), shared_.end(), one.key,
                                        [](const One& a, uint64_t key) { return a.key > key; });
    if (place != shared_.end() && place->key == one.key) {
      place->lanes |= one.lanes;
    } else {
      shared_.insert(place, one);
    }
    shared_of_.Add(one.lanes);
  }

  // Takes the first kernel of each of the lanes, for all of which some wait, and calls
  // start(bundle, lanes), where it is one of several lanes, and start_own(key, lane's bit); each is false
  // to end that: whether none was.
  template <class Start, class StartOwn>
  bool Take(uint64_t lanes, Start&& start, StartOwn&& start_own) {
    uint64_t shared = lanes & shared_lanes();
    const auto take_own = [&](uint64_t bit) {
      FourAryHeap<uint64_t>& own = own_[static_cast<size_t>(std::countr_zero(bit))];
      const uint64_t key = own.Pop();
      if (own.empty()) has_own_ &= ~bit;
      return start_own(key, bit);
    };
    for (uint64_t left = lanes & ~shared; left != 0; left &= left - 1) {
      if (!take_own(left & -left)) return false;
    }
    for (size_t k = shared_.size(); shared != 0;) {
      One& one = shared_[--k];
      uint64_t taken = one.lanes & shared;
      if (taken == 0) continue;
      shared &= ~taken;
      for (uint64_t left = taken & has_own_; left != 0; left &= left - 1) {
        const uint64_t bit = left & -left;
        if (own_[static_cast<size_t>(std::countr_zero(bit))].top() > one.key) continue;
        taken &= ~bit;
        if (!take_own(bit)) return false;
      }
      if (taken == 0) continue;
      const size_t bundle = one.bundle;
      one.lanes &= ~taken;
      shared_of_.Subtract(taken);
      if (one.lanes == 0) shared_.erase(shared_.begin() + static_cast<std::ptrdiff_t>(k));
      if (!start(bundle, taken)) return false;
    }
    return true;
  }

 private:
  uint64_t shared_lanes() const { return shared_.empty() ? 0 : shared_of_.NonZero(); }

  std::vector<One> shared_;  // that became ready on several lanes at a time, the largest keys first
  LaneCounts shared_of_;     // how many of these wait for each lane
  std::array<FourAryHeap<uint64_t>, kLanesOfBlock> own_;  // keys of the others, by lane
  uint64_t has_own_ = 0;                                  // lanes that have some
};

// Lists of a BundleScheduler, for one schedule after another.
template <class EndKey>
struct BundleState {
  struct Block {
    uint64_t busy = 0;
    uint64_t to_serve = 0;            // lanes that may have something to start
    uint64_t resting = ~uint64_t{0};  // lanes that were free before
    bool is_noted = false;            // in `to_serve` of the state
    WaitingKernels waiting;
  };
  std::vector<Block> blocks;
  std::vector<size_t> to_serve;  // blocks of lanes that are to be served
  ContendedState contended;
  // Kernels that run, by the first of their lanes.
  struct Running {
    size_t bundle = 0;
    uint64_t lanes = 0;
  };
  std::vector<Running> running;
  EndQueue<EndKey> ends;  // of single tasks, and behind the last bundle of the places of `running`

  // `lanes`: compute lanes, which are the first resources.
  void Prepare(size_t resources, size_t lanes, size_t bundles) {
    blocks.resize((lanes + kLanesOfBlock - 1) / kLanesOfBlock);
    for (Block& block : blocks) {
      block.busy = block.to_serve = 0;
      block.resting = ~uint64_t{0};
      block.is_noted = false;
      block.waiting.Clear();
    }
    to_serve.clear();
    contended.Prepare(resources, bundles);
    running.resize(blocks.size() * static_cast<size_t>(kLanesOfBlock));
    ends.Prepare(bundles + running.size(), EndBits(lanes, bundles));
  }
  // Bits of the numbers in `ends`.
  static int EndBits(size_t lanes, size_t bundles) {
    return std::bit_width(bundles + lanes + static_cast<size_t>(kLanesOfBlock));
  }
};

// Finds a list schedule, as Simulate defines it, of bundles: kernels of a bundle that become ready at the
// same time, and whose lanes get free for them at the same time, start and end as one. Each lane serves its
// kernels in the order of their keys; single tasks are ContendedTasks.
//
// `Tasks` has what ContendedTasks wants, where tasks are bundles, and
//   IsOfKernels(bundle), BlockOf(bundle), DurationOf(bundle);
//   Release(bundle, lanes, visit): notes that these lanes' tasks have ended; calls visit(bundle, lanes) for
//     those that do not wait for anything any more; lanes are 1 where it is a single task;
//   Rest(block, lanes, time), EndRest(block, lanes, time): lanes have nothing to do from that time on; have
//     something again;
//   Start(bundle, lanes, time): notes the start; false ends the schedule.
template <class Tasks, class EndKey>
class BundleScheduler {
 public:
  // The state is prepared for so many bundles.
  BundleScheduler(Tasks& tasks, size_t bundles, BundleState<EndKey>& state)
      : tasks_(tasks), bundles_(bundles), state_(state), contended_(tasks, state.contended) {}

  // Makes tasks known that wait for none any more. Before Run: those that wait for none at all.
  void Ready(size_t bundle, uint64_t lanes) {
    if (!tasks_.IsOfKernels(bundle)) {
      contended_.Ready(bundle);
      return;
    }
    const auto number = static_cast<size_t>(tasks_.BlockOf(bundle));
    state_.blocks[number].waiting.Add({tasks_.KeyOf(bundle), bundle, lanes});
    Serve(number, lanes);
  }

  // False where Start was.
  bool Run() {
    int64_t now = 0;
    const auto start = [&](size_t task) { return StartSingle(task, now); };
    while (StartKernels(now) && contended_.StartOffered(start)) {
      if (state_.ends.empty()) return true;
      now = state_.ends.first_end();
      state_.ends.PopFirst([this](size_t place) { End(place); });
    }
    return false;
  }

 private:
  using Block = typename BundleState<EndKey>::Block;

  // Has lanes looked at when all that ends now has ended.
  void Serve(size_t number, uint64_t lanes) {
    Block& block = state_.blocks[number];
    block.to_serve |= lanes;
    if (!std::exchange(block.is_noted, true)) state_.to_serve.push_back(number);
  }

  bool StartKernels(int64_t now) {
    for (size_t number : state_.to_serve) {
      Block& block = state_.blocks[number];
      block.is_noted = false;
      const uint64_t served = std::exchange(block.to_serve, 0) & ~block.busy;
      const uint64_t starting = served & block.waiting.lanes();
      if (const uint64_t rested = starting & block.resting; rested != 0) {
        tasks_.EndRest(number, rested, now);
      }
      const uint64_t idle = served & ~starting & ~block.resting;
      if (idle != 0) tasks_.Rest(number, idle, now);
      block.resting = (block.resting & ~starting) | idle;
      block.busy |= starting;
      const bool goes_on = block.waiting.Take(
          starting,
          [&](size_t bundle, uint64_t lanes) { return StartKernels(number, bundle, lanes, now); },
          [&](uint64_t key, uint64_t lane) {
            return StartKernels(number, tasks_.TaskOf(key), lane, now);
          });
      if (!goes_on) return false;
    }
    state_.to_serve.clear();
    return true;
  }

  bool StartKernels(size_t number, size_t bundle, uint64_t lanes, int64_t now) {
    const size_t place =
        number * static_cast<size_t>(kLanesOfBlock) + static_cast<size_t>(std::countr_zero(lanes));
    state_.running[place] = {bundle, lanes};
    state_.ends.Push(now + tasks_.DurationOf(bundle), bundles_ + place);
    return tasks_.Start(bundle, lanes, now);
  }

  bool StartSingle(size_t task, int64_t now) {
    state_.ends.Push(now + tasks_.DurationOf(task), task);
    return tasks_.Start(task, 1, now);
  }

  void End(size_t what) {
    const auto ready = [this](size_t next, uint64_t lanes) { Ready(next, lanes); };
    if (what < bundles_) {
      contended_.Free(what);
      tasks_.Release(what, 1, ready);
      return;
    }
    const size_t place = what - bundles_, number = place / static_cast<size_t>(kLanesOfBlock);
    const auto [bundle, lanes] = state_.running[place];
    state_.blocks[number].busy &= ~lanes;
    Serve(number, lanes);
    tasks_.Release(bundle, lanes, ready);
  }

  Tasks& tasks_;
  const size_t bundles_;
  BundleState<EndKey>& state_;
  ContendedTasks<Tasks> contended_;
};

}  // namespace partita
