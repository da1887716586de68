#include "graph/task/happens_before.h"

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
    : clocks_(2 * static_cast<size_t>(tasks.devices())),
      places_(tasks.tasks().size()),
      clock_of_(tasks.tasks().size(), 0) {
  const auto dependencies = AllDependencies(tasks, more_dependencies);
  std::vector<int32_t> length(2 * static_cast<size_t>(tasks.devices()), 0);
  std::vector<TaskId> last(length.size(), TaskId(-1));
  for (TaskId id : order) {
    VectorClocks::Clock clock = 0;
    // The latest first: what it waited for itself needs no look.
    const std::vector<TaskId>& before = dependencies[id.index()];
    for (size_t k = before.size(); k-- > 0;) clock = Join(clock, before[k]);
    for (size_t lane : LanesOf(tasks.task(id))) {
      if (last[lane] != TaskId(-1)) clock = Join(clock, last[lane]);
      clock = clocks_.With(clock, lane, length[lane]);
      places_[id.index()] = {lane, length[lane]++};
      last[lane] = id;
    }
    clock_of_[id.index()] = clock;
  }
}

VectorClocks::Clock HappensBefore::Join(VectorClocks::Clock clock, TaskId before) {
  if (Includes(clock, before)) return clock;
  const Place& place = places_[before.index()];
  return clocks_.With(clocks_.Max(clock, clock_of_[before.index()]), place.lane,
                      place.position + 1);
}

namespace {

// Lanes that run their tasks one after the other, each task on all of its lanes at once.
class LaneRun {
 public:
  LaneRun(const TaskGraph& tasks, std::span<const TaskId> order,
          std::span<const std::pair<TaskId, TaskId>> more_dependencies)
      : tasks_(tasks),
        lanes_(2 * static_cast<size_t>(tasks.devices())),
        next_(lanes_.size(), 0),
        awaited_(tasks.tasks().size(), 0),
        waiting_(tasks.tasks().size()) {
    for (TaskId id : order) {
      for (size_t lane : LanesOf(tasks.task(id))) {
        lanes_[lane].push_back(id);
        ++awaited_[id.index()];
      }
    }
    for (const Task& task : tasks.tasks()) {
      for (TaskId before : task.dependencies) AddWait(task.id, before);
    }
    for (const auto& [task, before] : more_dependencies) AddWait(task, before);
  }

  // Runs as far as the lanes get.
  void Run() {
    for (size_t lane = 0; lane < lanes_.size(); ++lane) Reach(lane);
    while (!ready_.empty()) {
      const TaskId ended = ready_.back();
      ready_.pop_back();
      for (TaskId task : waiting_[ended.index()]) Meet(task);
      for (size_t lane : LanesOf(tasks_.task(ended))) {
        ++next_[lane];
        Reach(lane);
      }
    }
  }

  // The first lane that has not come to its end; lanes: all have.
  size_t Stuck() const {
    size_t lane = 0;
    while (lane < lanes_.size() && next_[lane] == lanes_[lane].size()) ++lane;
    return lane;
  }
  size_t lanes() const { return lanes_.size(); }
  TaskId NextOf(size_t lane) const { return lanes_[lane][next_[lane]]; }

 private:
  void AddWait(TaskId task, TaskId before) {
    ++awaited_[task.index()];
    waiting_[before.index()].push_back(task);
  }
  // The lane has come to its next task.
  void Reach(size_t lane) {
    if (next_[lane] < lanes_[lane].size()) Meet(NextOf(lane));
  }
  // One lane or dependency fewer is awaited.
  void Meet(TaskId task) {
    if (--awaited_[task.index()] == 0) ready_.push_back(task);
  }

  const TaskGraph& tasks_;
  std::vector<std::vector<TaskId>> lanes_;
  std::vector<size_t> next_;  // by lane: how many of its tasks have ended
  // By task: lanes that have not come to it and dependencies that have not ended; tasks that wait
  // for it.
  std::vector<int32_t> awaited_;
  std::vector<std::vector<TaskId>> waiting_;
  std::vector<TaskId> ready_;
};

}  // namespace

absl::Status RunLanes(const TaskGraph& tasks, std::span<const TaskId> order,
                      std::span<const std::pair<TaskId, TaskId>> more_dependencies) {
  LaneRun run(tasks, order, more_dependencies);
  run.Run();
  const size_t lane = run.Stuck();
  if (lane == run.lanes()) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("lanes wait for each other: device ", lane / 2,
                                          lane % 2 == 0 ? " compute" : " communication",
                                          " never gets to run task ", run.NextOf(lane).value()));
}

}  // namespace partita
