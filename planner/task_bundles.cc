#include "planner/task_bundles.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace partita {

// The compute lane that the task holds alone, as nothing but kernels of its device does; -1: none.
int32_t TaskBundler::LaneOf(const FlatTasks& tasks, size_t task) const {
  const auto held = tasks.ResourcesOf(task);
  if (held.size() != 1 || !resources_.IsComputeLane(held[0])) return -1;
  return resources_.CoreSets(resources_.DeviceOfLane(held[0])).empty() ? held[0] : -1;
}

// Numbers of equal lists of followers, 0 for none.
class TaskBundler::Followers {
 public:
  explicit Followers(const FlatTasks& tasks) : tasks_(tasks), class_of_(tasks.size(), -1) {}

  // Of a task whose followers have their numbers. Single tasks stand for themselves.
  int32_t NumberOf(size_t task) {
    std::vector<int32_t> list;
    for (int32_t next : tasks_.SuccessorsOf(task)) {
      const int32_t kernels = class_of_[static_cast<size_t>(next)];
      list.push_back(kernels >= 0 ? kernels : ~next);
    }
    if (list.empty()) return 0;
    std::sort(list.begin(), list.end());
    return lists_.try_emplace(std::move(list), static_cast<int32_t>(lists_.size()) + 1)
        .first->second;
  }
  // Kernels of one class are alike, but for their lanes.
  void SetClass(size_t task, const Likeness& likeness) {
    const auto next = static_cast<int32_t>(classes_.size());
    class_of_[task] = classes_.try_emplace(likeness.Fields(), next).first->second;
  }

 private:
  const FlatTasks& tasks_;
  std::vector<int32_t> class_of_;  // by task; -1: single, or not yet known
  absl::flat_hash_map<std::vector<int32_t>, int32_t> lists_;
  absl::flat_hash_map<std::tuple<int32_t, int32_t, int64_t, int64_t, int32_t>, int32_t> classes_;
};

// Likeness of each kernel. `lanes`: by task.
std::vector<TaskBundler::Likeness> TaskBundler::LikenessOf(const BundledTasks& fragment,
                                                           std::span<const int32_t> lanes) {
  const FlatTasks& tasks = fragment.tasks;
  std::vector<Likeness> alike(tasks.size());
  for (int32_t t : tasks.by_key) {
    const int32_t lane = lanes[static_cast<size_t>(t)];
    if (lane < 0) continue;
    Likeness& one = alike[static_cast<size_t>(t)];
    one.place = on_lane_[static_cast<size_t>(lane)]++;
    one.block = lane / kLanesOfBlock;
    one.duration = fragment.durations[static_cast<size_t>(t)].value();
    one.path = fragment.paths[static_cast<size_t>(t)];
  }
  for (int32_t lane : lanes) {
    if (lane >= 0) on_lane_[static_cast<size_t>(lane)] = 0;
  }
  if (tasks.successors.empty()) return alike;
  Followers followers(tasks);
  for (size_t t = tasks.size(); t-- > 0;) {  // successors have larger numbers
    if (lanes[t] < 0) continue;
    alike[t].followers = followers.NumberOf(t);
    followers.SetClass(t, alike[t]);
  }
  return alike;
}

TaskBundles TaskBundler::Bundle(const BundledTasks& fragment) {
  const size_t count = fragment.tasks.size();
  std::vector<int32_t> lanes(count);
  for (size_t t = 0; t < count; ++t) lanes[t] = LaneOf(fragment.tasks, t);
  const std::vector<Likeness> alike = LikenessOf(fragment, lanes);
  TaskBundles made{.tasks = fragment.tasks.by_key, .bundle_of = std::vector<int32_t>(count)};
  made.lane_of.resize(count);
  const auto singles = std::stable_partition(made.tasks.begin(), made.tasks.end(), [&](int32_t t) {
    return lanes[static_cast<size_t>(t)] >= 0;
  });
  std::stable_sort(made.tasks.begin(), singles, [&](int32_t a, int32_t b) {
    const auto key = [&](int32_t t) {
      const auto k = static_cast<size_t>(t);
      return std::tuple_cat(alike[k].Fields(), std::tuple(lanes[k]));
    };
    return key(a) < key(b);
  });
  for (size_t k = 0; k < count; ++k) {
    const auto t = static_cast<size_t>(made.tasks[k]);
    const bool is_single = lanes[t] < 0;
    const bool is_new = is_single || k == 0 ||
                        alike[t].Fields() != alike[static_cast<size_t>(made.tasks[k - 1])].Fields();
    if (is_new) {
      made.bundles.push_back({.duration = fragment.durations[t].value(),
                              .path = fragment.paths[t],
                              .lanes = is_single ? uint64_t{1} : 0,
                              .block = is_single ? TaskBundle::kNoBlock : alike[t].block,
                              .first = static_cast<int32_t>(k)});
    }
    made.bundle_of[t] = static_cast<int32_t>(made.bundles.size()) - 1;
    if (is_single) continue;
    made.lane_of[t] = lanes[t] % kLanesOfBlock;
    made.bundles.back().lanes |= uint64_t{1} << made.lane_of[t];
  }
  return made;
}

}  // namespace partita
