#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "graph/graph.h"
#include "graph/parallel/strategy.h"
#include "proto/plan.pb.h"

namespace partita {

// Algorithms and buckets of a plan's collectives, in its file.

// Choices of algorithms that a file may have: a short text may stand for many.
inline constexpr int64_t kMostChoices = int64_t{1} << 21;

void SetCollectives(const Graph& graph, const Strategy& strategy, proto::Plan& message);
// InvalidArgument for tensors that the graph lacks, and for ranges that are none or too long.
absl::Status ReadCollectives(const proto::Plan& message, const Graph& graph, Strategy& strategy);

}  // namespace partita
