// A ready task waits at one resource that is busy: it cannot start before that is free. A resource
// that becomes free offers its waiting tasks one after another, as long as it stays free; tasks that
// are offered at one time are looked at in the order of their ranks.
#include "planner/simulator/list_schedule.h"

#include <functional>
#include <queue>
#include <utility>

namespace partita {
namespace {

using RankHeap = std::priority_queue<int32_t, std::vector<int32_t>, std::greater<>>;

class ListScheduler {
 public:
  ListScheduler(const FlatTasks& tasks, std::span<const Nanos> durations,
                std::span<const int32_t> by_rank, Schedule& schedule)
      : tasks_(tasks),
        durations_(durations),
        by_rank_(by_rank),
        schedule_(schedule),
        rank_(tasks.size()),
        pending_(tasks.predecessor_count),
        offered_by_(tasks.size(), kNone),
        is_busy_(static_cast<size_t>(tasks.resources), 0),
        waiting_(static_cast<size_t>(tasks.resources)) {
    for (size_t r = 0; r < by_rank.size(); ++r) {
      rank_[static_cast<size_t>(by_rank[r])] = static_cast<int32_t>(r);
    }
  }

  void Run() {
    for (size_t t = 0; t < tasks_.size(); ++t) {
      if (pending_[t] == 0) offered_.push(rank_[t]);
    }
    StartOffered(Nanos(0));
    while (!running_.empty()) {
      const Nanos now = running_.top().first;
      for (; !running_.empty() && running_.top().first == now; running_.pop()) {
        End(static_cast<size_t>(running_.top().second));
      }
      StartOffered(now);
    }
  }

 private:
  static constexpr int32_t kNone = -1;

  void StartOffered(Nanos now) {
    while (!offered_.empty()) {
      const auto t = static_cast<size_t>(by_rank_[static_cast<size_t>(offered_.top())]);
      offered_.pop();
      const int32_t by = std::exchange(offered_by_[t], kNone);
      if (const int32_t busy = BusyResourceOf(t); busy == kNone) {
        Start(t, now);
      } else {
        waiting_[static_cast<size_t>(busy)].push(rank_[t]);
      }
      if (by != kNone) Offer(by);
    }
  }

  int32_t BusyResourceOf(size_t t) const {
    for (int32_t r : tasks_.ResourcesOf(t)) {
      if (is_busy_[static_cast<size_t>(r)] != 0) return r;
    }
    return kNone;
  }

  void Start(size_t t, Nanos now) {
    for (int32_t r : tasks_.ResourcesOf(t)) is_busy_[static_cast<size_t>(r)] = 1;
    schedule_.start[t] = now;
    schedule_.end[t] = now + durations_[t];
    running_.emplace(schedule_.end[t], static_cast<int32_t>(t));
  }

  void End(size_t t) {
    for (int32_t r : tasks_.ResourcesOf(t)) is_busy_[static_cast<size_t>(r)] = 0;
    for (int32_t r : tasks_.ResourcesOf(t)) Offer(r);
    for (int32_t next : tasks_.SuccessorsOf(t)) {
      const auto s = static_cast<size_t>(next);
      if (--pending_[s] == 0) offered_.push(rank_[s]);
    }
  }

  // The first task that waits at the resource, if that is free.
  void Offer(int32_t resource) {
    RankHeap& waiting = waiting_[static_cast<size_t>(resource)];
    if (is_busy_[static_cast<size_t>(resource)] != 0 || waiting.empty()) return;
    offered_by_[static_cast<size_t>(by_rank_[static_cast<size_t>(waiting.top())])] = resource;
    offered_.push(waiting.top());
    waiting.pop();
  }

  const FlatTasks& tasks_;
  const std::span<const Nanos> durations_;
  const std::span<const int32_t> by_rank_;
  Schedule& schedule_;
  std::vector<int32_t> rank_, pending_;  // by task
  std::vector<int32_t> offered_by_;      // by task: the resource at which it waited; or kNone
  std::vector<char> is_busy_;            // by resource
  std::vector<RankHeap> waiting_;           // by resource
  RankHeap offered_;                        // tasks that may start now
  using EndOfTask = std::pair<Nanos, int32_t>;
  std::priority_queue<EndOfTask, std::vector<EndOfTask>, std::greater<>> running_;
};

}  // namespace

void FillListSchedule(const FlatTasks& tasks, std::span<const Nanos> durations,
                      std::span<const int32_t> by_rank, Schedule& schedule) {
  ListScheduler(tasks, durations, by_rank, schedule).Run();
}

}  // namespace partita
