#include "planner/contention.h"

#include <algorithm>
#include <cmath>

namespace partita {
namespace {

struct Span {
  int64_t start, end;
};

// When a device is busy: disjoint spans in order, and how much of them lies before each.
class BusyTimes {
 public:
  void Add(Span span) { spans_.push_back(span); }
  void Finish() {
    std::sort(spans_.begin(), spans_.end(),
              [](const Span& a, const Span& b) { return a.start < b.start; });
    std::vector<Span> merged;
    for (const Span& span : spans_) {
      if (!merged.empty() && span.start <= merged.back().end) {
        merged.back().end = std::max(merged.back().end, span.end);
      } else {
        merged.push_back(span);
      }
    }
    spans_ = std::move(merged);
    before_.assign(1, 0);
    for (const Span& span : spans_) before_.push_back(before_.back() + span.end - span.start);
  }
  // Busy time in [0, until).
  int64_t Until(int64_t until) const {
    const auto next =
        std::upper_bound(spans_.begin(), spans_.end(), until,
                         [](int64_t time, const Span& span) { return time < span.start; });
    const auto k = static_cast<size_t>(next - spans_.begin());
    if (k == 0) return 0;
    return before_[k] - std::max<int64_t>(0, spans_[k - 1].end - until);
  }

 private:
  std::vector<Span> spans_;
  std::vector<int64_t> before_;
};

// A task of a compute lane: when it started, and when it could have.
struct LaneEntry {
  int64_t start, ready;
};

class Neighbourhood {
 public:
  Neighbourhood(const TaskGraph& tasks, const DeviceTopology& topology, const Schedule& schedule)
      : topology_(topology), schedule_(schedule) {
    busy_.resize(static_cast<size_t>(tasks.devices()));
    lanes_.resize(busy_.size());
    for (const Task& task : tasks.tasks()) {
      const Span span = SpanOf(task.id);
      const bool communicates = IsCommunication(task);
      for (DeviceId d : DevicesOf(task)) {
        busy_[d.index()].Add(span);
        if (!communicates) lanes_[d.index()].push_back({span.start, ReadyOf(task)});
      }
    }
    for (BusyTimes& times : busy_) times.Finish();
    for (auto& lane : lanes_) {
      std::sort(lane.begin(), lane.end(),
                [](const LaneEntry& a, const LaneEntry& b) { return a.start < b.start; });
    }
  }

  // 0: everything else is idle; 1: everything else is busy.
  double Share(const Task& task) const {
    return IsCommunication(task) ? ShareOfLanes(task) : ShareOfOthers(task);
  }

 private:
  Span SpanOf(TaskId id) const {
    return {schedule_.start[id.index()].value(), schedule_.end[id.index()].value()};
  }
  int64_t ReadyOf(const Task& task) const {
    int64_t ready = 0;
    for (TaskId before : task.dependencies) ready = std::max(ready, SpanOf(before).end);
    return ready;
  }

  double ShareOfOthers(const Task& task) const {
    const Span span = SpanOf(task.id);
    const DeviceId own = DevicesOf(task)[0];
    double sum = 0;
    int others = 0;
    for (size_t d = 0; d < busy_.size(); ++d) {
      const DeviceId other(static_cast<int32_t>(d));
      if (other == own || topology_.device(other).node != topology_.device(own).node) continue;
      ++others;
      sum += static_cast<double>(busy_[d].Until(span.end) - busy_[d].Until(span.start));
    }
    return others == 0 ? 0 : sum / static_cast<double>(others * (span.end - span.start));
  }

  double ShareOfLanes(const Task& task) const {
    const Span span = SpanOf(task.id);
    const std::vector<DeviceId> devices = DevicesOf(task);
    int busy = 0;
    for (DeviceId d : devices) {
      const auto& lane = lanes_[d.index()];
      const auto next =
          std::lower_bound(lane.begin(), lane.end(), span.start,
                           [](const LaneEntry& entry, int64_t time) { return entry.start < time; });
      busy += next != lane.end() && next->ready < span.end;
    }
    return static_cast<double>(busy) / static_cast<double>(devices.size());
  }

  const DeviceTopology& topology_;
  const Schedule& schedule_;
  std::vector<BusyTimes> busy_;
  std::vector<std::vector<LaneEntry>> lanes_;
};

}  // namespace

std::vector<Nanos> DurationsBeside(const TaskGraph& tasks, const DeviceTopology& topology,
                                   std::span<const TaskCost> costs, std::vector<Nanos> durations,
                                   const Schedule& schedule) {
  const auto differs = [](const TaskCost& cost) { return cost.Alone() != cost.time; };
  if (std::none_of(costs.begin(), costs.end(), differs)) return durations;
  const Neighbourhood neighbourhood(tasks, topology, schedule);
  for (const Task& task : tasks.tasks()) {
    const TaskCost& cost = costs[task.id.index()];
    if (!differs(cost) || durations[task.id.index()] != cost.time) continue;
    const auto alone = static_cast<double>(cost.alone.value());
    const auto busy = static_cast<double>(cost.time.value());
    const double share = neighbourhood.Share(task);
    durations[task.id.index()] =
        Nanos(std::max<int64_t>(1, std::llround(alone + share * (busy - alone))));
  }
  return durations;
}

}  // namespace partita
