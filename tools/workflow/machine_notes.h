#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/parallel/device_topology.h"
#include "tools/workflow/priced_machine.h"
#include "tools/workflow/ranks.h"

namespace partita {

// CPU devices that have a core in common with another, and the cores that these name.
struct CoreSharing {
  int devices = 0;
  int cores = 0;

  friend bool operator==(const CoreSharing&, const CoreSharing&) = default;
};
CoreSharing CoreSharingOf(const DeviceTopology& topology);

// The same of a run by this process, or by all of `ranks`: masks and quotas may leave its host
// fewer cores than the devices were made for, and then all of them share those. Collective with
// ranks.
absl::StatusOr<CoreSharing> CoreSharingOfRun(const DeviceTopology& topology, Ranks* ranks);

// "4 devices share 2 cores: while one of them computes, another waits"; empty where none do.
std::string NoteOf(const CoreSharing& sharing);

// Notes for people about a machine for which something is predicted: devices that share
// cores, those that compute in float32 though another precision was asked for, and a profile that is
// not looked at.
std::vector<std::string> NotesOn(const PricedMachine& priced);

}  // namespace partita
