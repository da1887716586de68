#include "tools/workflow/machine_notes.h"

#include <map>
#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "cost_model/discovery.h"
#include "graph/support/status_macros.h"
#include "tools/workflow/plan_precision.h"

namespace partita {

namespace {

using Core = std::pair<std::string, int>;  // of which computer, and which

std::string ComputerOf(const Device& device) {
  return device.host.empty() ? absl::StrCat("node ", device.node) : device.host;
}

std::vector<Core> CoresOf(const DeviceTopology& topology, int d) {
  const Device& device = topology.device(DeviceId(d));
  const std::string computer = ComputerOf(device);
  std::vector<Core> cores;
  for (int core : device.cores) cores.emplace_back(computer, core);
  return cores;
}

}  // namespace

CoreSharing CoreSharingOf(const DeviceTopology& topology) {
  absl::flat_hash_map<std::string, int> devices_of;  // by computer
  for (const Device& device : topology.devices()) ++devices_of[ComputerOf(device)];
  std::map<Core, std::vector<int>> users;
  for (int d = 0; d < topology.size(); ++d) {
    const Device& device = topology.device(DeviceId(d));
    if (device.kind != DeviceKind::kCpu || devices_of[ComputerOf(device)] == 1) continue;
    for (const Core& core : CoresOf(topology, d)) users[core].push_back(d);
  }
  std::set<int> sharing;
  for (const auto& [core, devices] : users) {
    if (devices.size() > 1) sharing.insert(devices.begin(), devices.end());
  }
  CoreSharing found{.devices = static_cast<int>(sharing.size())};
  for (const auto& [core, devices] : users) found.cores += sharing.contains(devices[0]) ? 1 : 0;
  return found;
}

absl::StatusOr<CoreSharing> CoreSharingOfRun(const DeviceTopology& topology, Ranks* ranks) {
  const auto host = ExamineHost();
  std::set<std::string> cores;  // that the processes on this host may use
  if (host.ok()) {
    for (int core : host->cores) cores.insert(absl::StrCat(core));
  }
  std::vector<int> devices;
  if (ranks == nullptr) {
    for (int d = 0; d < topology.size(); ++d) devices.push_back(d);
  } else {
    ASSIGN_OR_RETURN(const auto all, GatherTexts(ranks->port(), absl::StrJoin(cores, " ")));
    devices = ranks->port().SharingRanks();
    for (int rank : devices) {
      for (auto core : absl::StrSplit(all[static_cast<size_t>(rank)], ' ', absl::SkipEmpty())) {
        cores.emplace(core);
      }
    }
  }
  std::set<Core> wanted;
  CoreSharing squeezed{.cores = static_cast<int>(cores.size())};
  for (int d : devices) {
    // Ranks without a device are refused later.
    if (d >= topology.size() || topology.device(DeviceId(d)).kind != DeviceKind::kCpu) continue;
    const std::vector<Core> own = CoresOf(topology, d);
    wanted.insert(own.begin(), own.end());
    ++squeezed.devices;
  }
  const bool fit = cores.empty() || squeezed.devices < 2 || wanted.size() <= cores.size();
  return fit ? CoreSharingOf(topology) : squeezed;
}

std::string NoteOf(const CoreSharing& sharing) {
  if (sharing.devices == 0) return "";
  return absl::StrCat(sharing.devices, " devices share ", sharing.cores,
                      sharing.cores == 1 ? " core" : " cores",
                      ": while one of them computes, another waits");
}

std::vector<std::string> NotesOn(const PricedMachine& priced) {
  std::vector<std::string> notes;
  const DeviceTopology& topology = priced.machine->topology;
  const std::string profile =
      priced.unused_profile.empty()
          ? ""
          : absl::StrCat("'", priced.unused_profile, "' is not looked at: '", priced.machine->name,
                         "' is not this host, and priced by its figures");
  for (std::string note : {NoteOf(CoreSharingOf(topology)),
                           NoteOfFloat32(topology, priced.precision, priced.backends), profile}) {
    if (!note.empty()) notes.push_back(std::move(note));
  }
  return notes;
}

}  // namespace partita
