#pragma once

#include <cstdint>
#include <optional>
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

// Part of a training step that a task belongs to.
enum class StepPart : uint8_t {
  kForward,
  kBackward,  // gradients, and their sums over devices
  kUpdate,    // of weights and optimizer states
  kData,      // what the loader brings
};
absl::string_view Name(StepPart part);  // "forward", "backward", "update", "data"

// Details of a timeline for people, beside its entries: what each task does, what it waited for,
// and the memory of the devices. It is written (TimelineToJson) and not read back.
struct TimelineDetails {
  struct OfEntry {
    StepPart part = StepPart::kForward;
    // Extents: of a kernel's inputs and outputs, or of what is moved.
    std::string shapes;
    // Bytes that a kernel reads and writes, that a move writes, or that the device receives.
    int64_t bytes = 0;
    std::string split;  // of a kernel: its operator's configuration; else empty
    std::optional<Nanos> predicted, measured;  // durations
  };
  // Data sent from device to device: from the task that made it last to one that reads it.
  struct Arrow {
    size_t from = 0, to = 0;  // entries, on different devices
    std::string name;         // name of the task that sends it
    int64_t bytes = 0;        // bytes that the reader's device receives by that task
  };
  struct Memory {
    DeviceId device;
    Nanos time;
    int64_t in_use = 0;   // bytes of what is held from this time on
    int64_t reached = 0;  // bytes that the device has had to have so far
  };
  std::vector<OfEntry> entries;  // as many as the timeline has, or none
  std::vector<Arrow> arrows;
  int64_t arrows_left_out = 0;  // beyond the most, or pointing backwards in measured times
  std::vector<Memory> memory;   // by device, then by time
  // Last values of `reached`, indexed by DeviceId, of the devices whose memory is known.
  std::vector<Bytes> peak;
};

// Timeline of the tasks of one step: the form of predictions and of measurements alike, so that
// they compare task by task (by key and device).
struct Timeline {
  std::string title;                      // "predicted", "measured step 3"
  std::vector<std::string> device_names;  // indexed by DeviceId
  std::vector<TimelineEntry> entries;
  TimelineDetails details = {};  // not compared
  friend bool operator==(const Timeline& a, const Timeline& b) {
    return a.title == b.title && a.device_names == b.device_names && a.entries == b.entries;
  }
};

// The end of the last entry; 0 without any.
Nanos LengthOf(const Timeline& timeline);

// The timeline of a task graph whose task t ran from start[t] to end[t]. Entries in task order.
Timeline TimelineOf(const Graph& graph, const TaskGraph& tasks, std::span<const Nanos> start,
                    std::span<const Nanos> end);

// Trace event JSON (the format of chrome://tracing) that Perfetto opens: a process for each device,
// a thread for each lane. Times are exact to the nanosecond up to 2^53 ns. Of the details, where
// there are any:
//   entries  arguments of the slices; the part of the step as category and colour
//   arrows   flow events (s, f) from the end of a slice to the beginning of another one
//   memory   counters "memory in use" and "memory reached" of each device
// otherData has the peak bytes of each device, the number of arrows, and how many are left out.
std::string TimelineToJson(const Timeline& timeline);
// The inverse, without details. InvalidArgument for what is no such timeline; text beyond 1 GiB is refused.
absl::StatusOr<Timeline> TimelineFromJson(absl::string_view json);

}  // namespace partita
