#include "graph/task/happens_before.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace partita {
namespace {

// Dependencies of each task, its own and further ones.
std::vector<std::vector<TaskId>> AllDependencies(
    const TaskGraph& tasks, std::span<const std::pair<TaskId, TaskId>> more_dependencies) {
  std::vector<std::vector<TaskId>> all;
  for (const Task& task : tasks.tasks()) all.push_back(task.dependencies);
  for (const auto& [task, before] : more_dependencies) all[task.index()].push_back(before);
  return all;
}

}  // namespace

std::vector<size_t> LanesOf(const Task& task) {
  std::vector<size_t> lanes;
  for (DeviceId device : DevicesOf(task)) {
    lanes.push_back(2 * device.index() + (IsCommunication(task) ? 1 : 0));
  }
  return lanes;
}

HappensBefore::HappensBefore(const TaskGraph& tasks, std::span<const TaskId> order,
                             std::span<const std::pair<TaskId, TaskId>> more_dependencies)
    : lanes_(2 * static_cast<size_t>(tasks.devices())) {
  const auto dependencies = AllDependencies(tasks, more_dependencies);
  places_.resize(tasks.tasks().size());
  clocks_.assign(tasks.tasks().size() * lanes_, 0);
  std::vector<int32_t> length(lanes_, 0);
  std::vector<TaskId> last(lanes_, TaskId(-1));
  for (TaskId id : order) {
    int32_t* clock = &clocks_[id.index() * lanes_];
    const auto join = [&](TaskId before) {
      const int32_t* other = &clocks_[before.index() * lanes_];
      for (size_t l = 0; l < lanes_; ++l) clock[l] = std::max(clock[l], other[l]);
      const Place& place = places_[before.index()];
      clock[place.lane] = std::max(clock[place.lane], place.position + 1);
    };
    for (TaskId before : dependencies[id.index()]) join(before);
    const std::vector<size_t> lanes = LanesOf(tasks.task(id));
    for (size_t lane : lanes) {
      if (last[lane] != TaskId(-1)) join(last[lane]);
      clock[lane] = length[lane];
      places_[id.index()] = {lane, length[lane]++};
      last[lane] = id;
    }
  }
}

absl::Status RunLanes(const TaskGraph& tasks, std::span<const TaskId> order,
                      std::span<const std::pair<TaskId, TaskId>> more_dependencies) {
  const auto dependencies = AllDependencies(tasks, more_dependencies);
  std::vector<std::vector<TaskId>> lanes(2 * static_cast<size_t>(tasks.devices()));
  for (TaskId id : order) {
    for (size_t lane : LanesOf(tasks.task(id))) lanes[lane].push_back(id);
  }
  std::vector<size_t> next(lanes.size(), 0);
  std::vector<bool> ended(tasks.tasks().size(), false);
  const auto can_run = [&](TaskId id) {
    const auto& before = dependencies[id.index()];
    return std::all_of(before.begin(), before.end(), [&](TaskId b) { return ended[b.index()]; });
  };
  // Lanes to look at again; a lane comes back whenever something it may wait for has ended.
  bool moved = true;
  while (moved) {
    moved = false;
    for (size_t lane = 0; lane < lanes.size(); ++lane) {
      while (next[lane] < lanes[lane].size()) {
        const TaskId id = lanes[lane][next[lane]];
        const std::vector<size_t> held = LanesOf(tasks.task(id));
        const bool all_there = std::all_of(held.begin(), held.end(), [&](size_t l) {
          return next[l] < lanes[l].size() && lanes[l][next[l]] == id;
        });
        if (!all_there || !can_run(id)) break;
        for (size_t l : held) ++next[l];
        ended[id.index()] = moved = true;
      }
    }
  }
  for (size_t lane = 0; lane < lanes.size(); ++lane) {
    if (next[lane] == lanes[lane].size()) continue;
    return absl::InternalError(absl::StrCat("lanes wait for each other: device ", lane / 2,
                                            lane % 2 == 0 ? " compute" : " communication",
                                            " never gets to run task ",
                                            lanes[lane][next[lane]].value()));
  }
  return absl::OkStatus();
}

}  // namespace partita
