#pragma once

#include "absl/status/statusor.h"
#include "graph/parallel/device_topology.h"
#include "proto/machine.pb.h"

namespace partita {

// The file format of a topology, exact both ways, by levels where the topology is. Reading checks
// all that DeviceTopology::Create does, and that every device has a kind; the error has all faults.
proto::Topology TopologyToProto(const DeviceTopology& topology);
absl::StatusOr<DeviceTopology> TopologyFromProto(const proto::Topology& message);

}  // namespace partita
