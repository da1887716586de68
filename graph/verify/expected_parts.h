#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "graph/parallel/strategy.h"
#include "graph/part_view.h"
#include "graph/support/strong_int.h"

namespace partita {

// One block of an operator's loops, as a verifier derives it from a strategy by itself.
struct ExpectedPart {
  PartView view;
  std::vector<DeviceId> devices;  // devices that compute it, each once, sorted; several: copies
};

// Every block of an anchored operator's loops that has a result. Blocks tile the loops: each
// combination of loop indices is in exactly one (Internal otherwise). The position is the block's
// number: mixed radix over the operator's loops, last fastest; those without a result have no
// devices. Precondition: the configuration is valid for the anchor.
absl::StatusOr<std::vector<ExpectedPart>> ExpectedParts(const Graph& graph, const Operator& op,
                                                        const ParallelConfig& anchor_config);

// The number of the block that part `part` of the anchor's configuration computes of `op`.
int64_t BlockOfPart(const Graph& graph, const Operator& op, const ParallelConfig& anchor_config,
                    int32_t part);

}  // namespace partita
