#include "runtime/lowering/buckets.h"

#include <algorithm>
#include <span>

#include "absl/container/flat_hash_map.h"
#include "graph/task/happens_before.h"

namespace partita {
namespace {

const CollectiveTask* AllReduceOf(const Task& task) {
  const auto* collective = std::get_if<CollectiveTask>(&task.body);
  return collective != nullptr && collective->collective.kind == CollectiveKind::kAllReduce
             ? collective
             : nullptr;
}

class BucketMaker {
 public:
  BucketMaker(Program& program, int64_t most_bytes)
      : program_(program),
        most_bytes_(most_bytes),
        before_(program.tasks, program.order, program.memory.added_dependencies) {}

  void Run() {
    for (size_t k = 0; k < program_.order.size(); ++k) {
      const TaskId id = program_.order[k];
      if (!IsCommunication(program_.tasks.task(id))) continue;
      Add(id, k);
    }
  }

 private:
  // Tasks of one group that run together so far; the last of them may be large.
  struct Bucket {
    std::vector<TaskId> tasks;
    size_t place = 0;  // of the last one in the order
  };

  void Add(TaskId id, size_t place) {
    const std::vector<DeviceId> devices = DevicesOf(program_.tasks.task(id));
    const auto* task = AllReduceOf(program_.tasks.task(id));
    Bucket bucket;
    if (task != nullptr) {
      const auto open = open_.find(devices[0]);
      if (open != open_.end() && Joins(open->second, *task, id, place)) {
        for (DeviceId device : devices) Mark(device, open->second.tasks.back());
        bucket = std::move(open->second);
      }
    }
    // What other groups of these devices had open ends here: the lane goes on with this task.
    for (DeviceId device : devices) open_.erase(device);
    if (task == nullptr || task->collective.total * SizeOf(task->dtype) > most_bytes_) return;
    bucket.tasks.push_back(id);
    bucket.place = place;
    for (DeviceId device : devices) open_[device] = bucket;
  }

  bool Joins(const Bucket& bucket, const CollectiveTask& task, TaskId id, size_t place) const {
    const TaskId last = bucket.tasks.back();
    if (AllReduceOf(program_.tasks.task(last))->group != task.group) return false;
    for (DeviceId device : task.group) {
      const auto open = open_.find(device);
      if (open == open_.end() || open->second.tasks.back() != last) return false;
    }
    return std::all_of(bucket.tasks.begin(), bucket.tasks.end(), [&](TaskId member) {
      for (size_t k = bucket.place + 1; k < place; ++k) {
        if (before_.Before(member, program_.order[k])) return false;
      }
      return !DependsOn(id, member);
    });
  }

  bool DependsOn(TaskId id, TaskId member) const {
    const auto& own = program_.tasks.task(id).dependencies;
    const auto& added = program_.memory.added_dependencies;
    return std::find(own.begin(), own.end(), member) != own.end() ||
           std::find(added.begin(), added.end(), std::pair(id, member)) != added.end();
  }

  void Mark(DeviceId device, TaskId id) {
    for (Instruction& instruction : program_.devices[device.index()].communication) {
      if (instruction.task == id) instruction.joins_next = true;
    }
  }

  Program& program_;
  const int64_t most_bytes_;
  const HappensBefore before_;
  // What the next collective of a device may join: the same on all devices of its group.
  absl::flat_hash_map<DeviceId, Bucket> open_;
};

}  // namespace

void BucketSmallCollectives(Program& program, int64_t most_bytes) {
  BucketMaker(program, most_bytes).Run();
}

}  // namespace partita
