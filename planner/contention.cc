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
  Neighbourhood(const FlatTasks& tasks, const SimulatedResources& resources,
                const Schedule& schedule)
      : tasks_(tasks), resources_(resources), schedule_(schedule) {
    busy_.resize(static_cast<size_t>(resources.devices()));
    lanes_.resize(busy_.size());
    for (int d = 0; d < resources.devices(); ++d) {
      at_once_.push_back(resources.topology().AtOnce(DeviceId(d)).size());
    }
    const std::vector<int64_t> ready = ReadyTimes();
    for (size_t t = 0; t < tasks.size(); ++t) {
      const Span span = SpanOf(t);
      for (int32_t r : tasks.ResourcesOf(t)) {
        if (!resources.IsLane(r)) continue;
        const size_t d = resources.DeviceOfLane(r).index();
        busy_[d].Add(span);
        if (resources.IsComputeLane(r)) lanes_[d].push_back({span.start, ready[t]});
      }
    }
    for (BusyTimes& times : busy_) times.Finish();
    for (auto& lane : lanes_) {
      std::sort(lane.begin(), lane.end(),
                [](const LaneEntry& a, const LaneEntry& b) { return a.start < b.start; });
    }
  }

  // 0: everything else is idle; 1: everything else is busy.
  double Share(size_t task) const {
    for (int32_t r : tasks_.ResourcesOf(task)) {
      if (resources_.IsComputeLane(r)) return ShareOfOthers(task, resources_.DeviceOfLane(r));
    }
    return ShareOfLanes(task);
  }

 private:
  Span SpanOf(size_t task) const {
    return {schedule_.start[task].value(), schedule_.end[task].value()};
  }

  // When all that a task waits for has ended.
  std::vector<int64_t> ReadyTimes() const {
    std::vector<int64_t> ready(tasks_.size(), 0);
    for (size_t t = 0; t < tasks_.size(); ++t) {
      for (int32_t next : tasks_.SuccessorsOf(t)) {
        int64_t& time = ready[static_cast<size_t>(next)];
        time = std::max(time, SpanOf(t).end);
      }
    }
    return ready;
  }

  double ShareOfOthers(size_t task, DeviceId own) const {
    const Span span = SpanOf(task);
    const DeviceTopology& topology = resources_.topology();
    double sum = 0;
    for (size_t d = 0; d < busy_.size(); ++d) {
      const DeviceId other(static_cast<int32_t>(d));
      if (other == own || !topology.ShareHost(other, own) || topology.ShareCore(other, own)) {
        continue;
      }
      sum += static_cast<double>(busy_[d].Until(span.end) - busy_[d].Until(span.start));
    }
    const auto others = static_cast<int64_t>(at_once_[own.index()]) - 1;
    if (others <= 0) return 0;
    return std::min(1.0, sum / static_cast<double>(others * (span.end - span.start)));
  }

  double ShareOfLanes(size_t task) const {
    const Span span = SpanOf(task);
    int busy = 0, devices = 0;
    for (int32_t r : tasks_.ResourcesOf(task)) {
      if (!resources_.IsLane(r)) continue;
      ++devices;
      const auto& lane = lanes_[resources_.DeviceOfLane(r).index()];
      const auto next =
          std::lower_bound(lane.begin(), lane.end(), span.start,
                           [](const LaneEntry& entry, int64_t time) { return entry.start < time; });
      busy += next != lane.end() && next->ready < span.end;
    }
    return devices == 0 ? 0 : static_cast<double>(busy) / devices;
  }

  const FlatTasks& tasks_;
  const SimulatedResources& resources_;
  const Schedule& schedule_;
  std::vector<size_t> at_once_;  // by device: how many of its computer can work at once
  std::vector<BusyTimes> busy_;
  std::vector<std::vector<LaneEntry>> lanes_;
};

}  // namespace

std::vector<Nanos> ContendedDurations(const FlatTasks& tasks, const SimulatedResources& resources,
                                      std::span<const TaskCost> costs, std::vector<Nanos> durations,
                                      const Schedule& schedule) {
  const auto differs = [](const TaskCost& cost) { return cost.Uncontended() != cost.time; };
  if (std::none_of(costs.begin(), costs.end(), differs)) return durations;
  const Neighbourhood neighbourhood(tasks, resources, schedule);
  for (size_t t = 0; t < tasks.size(); ++t) {
    const TaskCost& cost = costs[t];
    if (!differs(cost) || durations[t] != cost.time) continue;
    const auto uncontended = static_cast<double>(cost.uncontended.value());
    const auto busy = static_cast<double>(cost.time.value());
    const double share = neighbourhood.Share(t);
    durations[t] =
        Nanos(std::max<int64_t>(1, std::llround(uncontended + share * (busy - uncontended))));
  }
  return durations;
}

}  // namespace partita
