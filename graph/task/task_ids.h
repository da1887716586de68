#pragma once

#include <cstdint>

#include "graph/support/strong_int.h"

namespace partita {

// Places in TaskGraph::tasks() and TaskGraph::buffers().
struct TaskIdTag : IdTag {};
struct BufferIdTag : IdTag {};
using TaskId = StrongInt<TaskIdTag, int32_t>;
using BufferId = StrongInt<BufferIdTag, int32_t>;
constexpr BufferId kNoBuffer{-1};

}  // namespace partita
