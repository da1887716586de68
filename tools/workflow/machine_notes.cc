#include "tools/workflow/machine_notes.h"

#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tools/workflow/plan_precision.h"

namespace partita {

CoreSharing CoreSharingOf(const DeviceTopology& topology) {
  using Core = std::pair<std::string, int>;  // of which computer, and which
  std::map<Core, std::vector<int>> users;
  for (int d = 0; d < topology.size(); ++d) {
    const Device& device = topology.device(DeviceId(d));
    if (device.kind != DeviceKind::kCpu) continue;
    const std::string computer =
        device.host.empty() ? absl::StrCat("node ", device.node) : device.host;
    for (int core : device.cores) users[{computer, core}].push_back(d);
  }
  std::set<int> sharing;
  for (const auto& [core, devices] : users) {
    if (devices.size() > 1) sharing.insert(devices.begin(), devices.end());
  }
  CoreSharing found{.devices = static_cast<int>(sharing.size())};
  for (const auto& [core, devices] : users) found.cores += sharing.contains(devices[0]) ? 1 : 0;
  return found;
}

std::string NoteOfSharing(const DeviceTopology& topology) {
  const CoreSharing sharing = CoreSharingOf(topology);
  if (sharing.devices == 0) return "";
  return absl::StrCat(sharing.devices, " devices share ", sharing.cores,
                      sharing.cores == 1 ? " core" : " cores",
                      ": while one of them computes, another waits");
}

std::vector<std::string> NotesOn(const PricedMachine& priced) {
  std::vector<std::string> notes;
  const DeviceTopology& topology = priced.machine->topology;
  for (std::string note :
       {NoteOfSharing(topology), NoteOfFloat32(topology, priced.precision, priced.backends)}) {
    if (!note.empty()) notes.push_back(std::move(note));
  }
  return notes;
}

}  // namespace partita
