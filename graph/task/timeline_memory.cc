#include "graph/task/timeline_memory.h"

#include <algorithm>
#include <map>
#include <vector>

#include "graph/support/aligned.h"

namespace partita {
namespace {

// When a buffer holds something.
struct Life {
  Nanos first, last;
  size_t first_entry = 0, last_entry = 0;
  bool used = false;
};

// Adds up what changes at a time.
struct Change {
  int64_t in_use = 0;
  int64_t end = 0;  // the highest end of a buffer that begins to be held
};

class LifeFinder {
 public:
  LifeFinder(const TaskGraph& tasks, const BufferAssignment& memory,
             std::span<const TaskId> task_of_entry, const Timeline& timeline)
      : tasks_(tasks), memory_(memory), entries_(timeline.entries), lives_(tasks.buffers().size()) {
    for (size_t e = 0; e < entries_.size(); ++e) {
      if (task_of_entry[e] == TaskId(-1)) continue;
      for (const BufferUse& use : UsesOf(tasks.task(task_of_entry[e]))) Note(use.buffer, e);
    }
    const Nanos end = LengthOf(timeline);
    for (const HostOutput& output : tasks.outputs()) {
      Life& life = lives_[output.buffer.index()];
      if (life.used) life.last = std::max(life.last, end + Nanos(1));  // longer than the step
    }
    EndOverwritten();
  }

  // By time, of one device.
  using Changes = std::map<Nanos, Change>;
  std::vector<Changes> Find() const {
    std::vector<Changes> changes(static_cast<size_t>(tasks_.devices()));
    for (const Buffer& buffer : tasks_.buffers()) {
      const Life& life = lives_[buffer.id.index()];
      if (!life.used || life.last <= life.first) continue;
      const int64_t bytes = Aligned(memory_.bytes[buffer.id.index()]);
      Changes& own = changes[buffer.device.index()];
      own[life.first].in_use += bytes;
      own[life.first].end =
          std::max(own[life.first].end, memory_.offset[buffer.id.index()] + bytes);
      own[life.last].in_use -= bytes;
    }
    return changes;
  }

 private:
  void Note(BufferId id, size_t entry) {
    const Buffer& buffer = tasks_.buffer(id);
    const TimelineEntry& e = entries_[entry];
    if (buffer.persistent() || buffer.device != e.device || memory_.offset[id.index()] < 0) return;
    Life& life = lives_[id.index()];
    if (!life.used || e.start < life.first) {
      life.first = e.start;
      life.first_entry = entry;
    }
    if (!life.used || e.end > life.last) {
      life.last = e.end;
      life.last_entry = entry;
    }
    life.used = true;
  }

  // What a kernel writes over counts until the kernel starts: then what it writes is there.
  void EndOverwritten() {
    std::vector<std::vector<BufferId>> ending(entries_.size());
    for (const Buffer& buffer : tasks_.buffers()) {
      const Life& life = lives_[buffer.id.index()];
      if (life.used) ending[life.last_entry].push_back(buffer.id);
    }
    for (const Buffer& buffer : tasks_.buffers()) {
      const Life& life = lives_[buffer.id.index()];
      if (!life.used) continue;
      for (BufferId other : ending[life.first_entry]) {
        Life& ends = lives_[other.index()];
        if (other == buffer.id || ends.first == life.first || !Overlap(other, buffer.id)) continue;
        ends.last = life.first;
      }
    }
  }

  bool Overlap(BufferId a, BufferId b) const {
    const auto begin = [&](BufferId id) { return memory_.offset[id.index()]; };
    const auto end = [&](BufferId id) { return begin(id) + Aligned(memory_.bytes[id.index()]); };
    return tasks_.buffer(a).device == tasks_.buffer(b).device && begin(a) < end(b) &&
           begin(b) < end(a);
  }

  const TaskGraph& tasks_;
  const BufferAssignment& memory_;
  const std::vector<TimelineEntry>& entries_;
  std::vector<Life> lives_;  // indexed by BufferId
};

}  // namespace

void AddMemory(const TaskGraph& tasks, const BufferAssignment& memory,
               std::span<const TaskId> task_of_entry, Timeline& timeline) {
  const auto changes = LifeFinder(tasks, memory, task_of_entry, timeline).Find();
  const Nanos end = LengthOf(timeline);
  TimelineDetails& details = timeline.details;
  details.memory.clear();
  details.peak.clear();
  for (size_t d = 0; d < changes.size(); ++d) {
    const DeviceId device(static_cast<int32_t>(d));
    const int64_t fixed = memory.scratch[d].value();
    TimelineDetails::Memory now{.device = device,
                                .time = Nanos(0),
                                .in_use = memory.persistent[d].value() + fixed,
                                .reached = memory.persistent[d].value() + fixed};
    details.memory.push_back(now);
    for (const auto& [time, change] : changes[d]) {
      if (time > end) break;
      now.in_use += change.in_use;
      now.reached = std::max(now.reached, change.end + fixed);
      now.time = time;
      if (details.memory.back().time == time) details.memory.pop_back();
      details.memory.push_back(now);
    }
    details.peak.push_back(memory.peak(device));
  }
}

}  // namespace partita
