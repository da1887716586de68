#include "tests/planner/reference_simulator.h"

#include <algorithm>
#include <functional>
#include <tuple>
#include <vector>

namespace partita {
namespace {

std::vector<std::vector<size_t>> Predecessors(const FlatTasks& tasks) {
  std::vector<std::vector<size_t>> before(tasks.size());
  for (size_t t = 0; t < tasks.size(); ++t) {
    for (int32_t s : tasks.SuccessorsOf(t)) before[static_cast<size_t>(s)].push_back(t);
  }
  return before;
}

bool ShareResource(const FlatTasks& tasks, size_t a, size_t b) {
  for (int32_t r : tasks.ResourcesOf(a)) {
    const auto of_b = tasks.ResourcesOf(b);
    if (std::find(of_b.begin(), of_b.end(), r) != of_b.end()) return true;
  }
  return false;
}

}  // namespace

Schedule ReferenceSimulate(const FlatTasks& tasks, std::span<const Nanos> durations) {
  const size_t n = tasks.size();
  const auto before = Predecessors(tasks);
  std::vector<Nanos> path(n);
  std::function<Nanos(size_t)> path_of = [&](size_t t) {
    if (path[t].value() > 0) return path[t];
    Nanos longest;
    for (int32_t s : tasks.SuccessorsOf(t)) {
      longest = std::max(longest, path_of(static_cast<size_t>(s)));
    }
    return path[t] = durations[t] + longest;
  };
  std::vector<size_t> key(n);
  for (size_t k = 0; k < n; ++k) key[static_cast<size_t>(tasks.by_key[k])] = k;

  Schedule schedule{std::vector<Nanos>(n), std::vector<Nanos>(n), Nanos(0),
                    std::vector<Nanos>(static_cast<size_t>(tasks.resources))};
  std::vector<bool> done(n, false);
  for (size_t step = 0; step < n; ++step) {
    using Place = std::tuple<Nanos, Nanos, size_t, size_t>;  // ready, -path, key, task
    std::vector<Place> places;
    for (size_t t = 0; t < n; ++t) {
      const bool is_ready =
          std::all_of(before[t].begin(), before[t].end(), [&](size_t b) { return done[b]; });
      if (done[t] || !is_ready) continue;
      Nanos ready;
      for (size_t b : before[t]) ready = std::max(ready, schedule.end[b]);
      places.emplace_back(ready, Nanos(0) - path_of(t), key[t], t);
    }
    const Place next = *std::min_element(places.begin(), places.end());
    const size_t t = std::get<3>(next);
    Nanos start = std::get<0>(next);
    for (size_t other = 0; other < n; ++other) {
      if (done[other] && ShareResource(tasks, t, other)) {
        start = std::max(start, schedule.end[other]);
      }
    }
    done[t] = true;
    schedule.start[t] = start;
    schedule.end[t] = start + durations[t];
    schedule.makespan = std::max(schedule.makespan, schedule.end[t]);
    for (int32_t r : tasks.ResourcesOf(t)) schedule.busy[static_cast<size_t>(r)] += durations[t];
  }
  return schedule;
}

}  // namespace partita
