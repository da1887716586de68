#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/graph.h"

namespace partita {

// Writes the values of the graph's weights as a safetensors file (float32, keyed by the weights'
// names) and returns where each one's first byte is in the file. Writes nothing if no weight has
// values. InvalidArgument for a name that is not UTF-8.
absl::StatusOr<std::map<std::string, int64_t>> WriteWeightsFile(const Graph& graph,
                                                                const std::string& path);

// `count` float32 values from byte `offset` of a file. InvalidArgument if it ends before.
absl::StatusOr<std::shared_ptr<const std::vector<float>>> ReadWeightValues(const std::string& path,
                                                                           int64_t offset,
                                                                           int64_t count);

}  // namespace partita
