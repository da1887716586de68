#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "graph/graph.h"
#include "graph/support/strong_int.h"
#include "graph/task/task_graph.h"

namespace partita {

enum class Lane : uint8_t { kCompute, kCommunication };
absl::string_view Name(Lane lane);  // "compute", "communication"

// One task on one lane of one device. A collective or a group of transfers has an entry for each of
// its devices.
struct TimelineEntry {
  TaskKey key;
  std::string name;
  DeviceId device;
  Lane lane = Lane::kCompute;
  Nanos start, end;  // times from the start of the step
  friend bool operator==(const TimelineEntry&, const TimelineEntry&) = default;
};

// Timeline of the tasks of one step: the form of predictions and of measurements alike, so that
// they compare task by task (by key and device).
struct Timeline {
  std::string title;                      // "predicted", "measured step 3"
  std::vector<std::string> device_names;  // indexed by DeviceId
  std::vector<TimelineEntry> entries;
  friend bool operator==(const Timeline&, const Timeline&) = default;
};

// The end of the last entry; 0 without any.
Nanos LengthOf(const Timeline& timeline);

// The timeline of a task graph whose task t ran from start[t] to end[t]. Entries in task order.
Timeline TimelineOf(const Graph& graph, const TaskGraph& tasks, std::span<const Nanos> start,
                    std::span<const Nanos> end);

// Trace event JSON (the format of chrome://tracing) that Perfetto opens: a process for each device,
// a thread for each lane. Times are exact to the nanosecond up to 2^53 ns.
std::string TimelineToJson(const Timeline& timeline);
// The inverse. InvalidArgument for what is no such timeline; text beyond 1 GiB is refused.
absl::StatusOr<Timeline> TimelineFromJson(absl::string_view json);

}  // namespace partita
