#include "runtime/train/measured_timeline.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace partita {

Timeline MeasuredTimeline(const Graph& graph, const TaskGraph& tasks,
                          const std::vector<MeasuredInstruction>& measured, std::string title,
                          std::vector<std::string> device_names) {
  std::vector<MeasuredInstruction> sorted = measured;
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    return std::tie(a.task, a.device) < std::tie(b.task, b.device);
  });
  Timeline timeline{
      .title = std::move(title), .device_names = std::move(device_names), .entries = {}};
  for (const MeasuredInstruction& instruction : sorted) {
    const Task& task = tasks.task(instruction.task);
    const int64_t start = std::max<int64_t>(0, instruction.start_ns);
    timeline.entries.push_back(
        {.key = task.key,
         .name = TaskName(graph, task),
         .device = instruction.device,
         .lane = instruction.communication ? Lane::kCommunication : Lane::kCompute,
         .start = Nanos(start),
         .end = Nanos(std::max(start + 1, instruction.end_ns))});
  }
  return timeline;
}

}  // namespace partita
