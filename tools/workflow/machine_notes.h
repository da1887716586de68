#pragma once

#include <string>
#include <vector>

#include "graph/parallel/device_topology.h"
#include "tools/workflow/priced_machine.h"

namespace partita {

// CPU devices that have a core in common with another, and the cores that these name.
struct CoreSharing {
  int devices = 0;
  int cores = 0;

  friend bool operator==(const CoreSharing&, const CoreSharing&) = default;
};
CoreSharing CoreSharingOf(const DeviceTopology& topology);

// "4 devices share 2 cores: while one of them computes, another waits"; empty where none do.
std::string NoteOfSharing(const DeviceTopology& topology);

// Notes for people about a machine for which something is predicted: devices that share
// cores, and those that compute in float32 though another precision was asked for.
std::vector<std::string> NotesOn(const PricedMachine& priced);

}  // namespace partita
