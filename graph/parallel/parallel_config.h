#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "graph/graph.h"
#include "graph/sharding_rule.h"
#include "graph/support/strong_int.h"

namespace partita {

// Split and placement of one operator: any point of the SOAP space. Part p computes block (i_0,
// i_1, ...) of the loops on devices[p], where p is the mixed-radix index of (replica, i_0, i_1,
// ...), replica leading. Replicas compute the same values. Several parts may share a device; any
// order of devices is allowed.
struct ParallelConfig {
  std::vector<int32_t> degrees;  // degree of each loop of the operator's rule, 1 <= degree <=
                                 // extent
  int32_t replicas = 1;
  std::vector<DeviceId> devices;  // replicas * product(degrees) of them

  friend bool operator==(const ParallelConfig&, const ParallelConfig&) = default;
  template <class H>
  friend H AbslHashValue(H h, const ParallelConfig& a) {
    return H::combine(std::move(h), a.degrees, a.replicas, a.devices);
  }
};

int64_t PartCount(const ParallelConfig& config);

// One part, every loop whole.
ParallelConfig Unsplit(const ShardingRule& rule, DeviceId device);

// Sizes, degrees and device numbers fit the rule and a machine of `devices` devices. Whether a
// split product stays one interval shows only when the parts are viewed (see PartsOf).
absl::Status ValidateConfig(const ShardingRule& rule, const ParallelConfig& config, int devices);

// "n=4 oh=2 on 0-7", "n=2 x2 on 0,1,1,0"; of more devices the first ranges and the last: "n=128 x8 on
// 0-1016 by 8, 1-1017 by 8, 2-1018 by 8, .., 7-1023 by 8".
std::string ToString(const ShardingRule& rule, const ParallelConfig& config);

// The role of a loop in the SOAP vocabulary, derived from the rule.
enum class LoopRole : uint8_t { kSample, kAttribute, kParameter, kReduction };

// `is_weight[k]`: operand k is a weight. A loop that some result does not name is a reduction; one
// that a weight names is a parameter loop; the leading dimension of a result is the sample; the
// rest are attributes.
LoopRole RoleOf(const ShardingRule& rule, int loop, std::span<const bool> is_weight);
LoopRole RoleOf(const Graph& graph, const Operator& op, int loop);

}  // namespace partita
