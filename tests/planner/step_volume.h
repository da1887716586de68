#pragma once

#include <cstdint>
#include <utility>
#include <variant>

#include "graph/partition/partition.h"
#include "tests/testing/ok.h"

namespace partita {

// Bytes of float32 that all devices receive from others in one step of a strategy, by ring
// collectives.
inline int64_t BytesReceived(const Graph& graph, const Strategy& strategy, int devices) {
  const TaskGraph tasks =
      Ok(Partition(graph, strategy, {.devices = devices, .algorithm = AlwaysBy("ring")}));
  int64_t elements = 0;
  for (const Task& task : tasks.tasks()) {
    for (int d = 0; d < devices; ++d) {
      if (const auto* collective = std::get_if<CollectiveTask>(&task.body)) {
        elements += ElementsReceived(*collective, DeviceId(d));
      } else if (const auto* transfer = std::get_if<TransferTask>(&task.body)) {
        elements += ElementsReceived(*transfer, DeviceId(d));
      }
    }
  }
  return 4 * elements;
}

}  // namespace partita
