#include <CLI/CLI.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "cost_model/machines.h"
#include "graph/support/file.h"
#include "graph/support/status_macros.h"
#include "tools/cli/flags.h"
#include "tools/cli/notes.h"
#include "tools/cli/text.h"
#include "tools/cli/verb.h"
#include "tools/cli/verb_options.h"
#include "tools/workflow/machine_notes.h"
#include "tools/workflow/output_path.h"
#include "tools/workflow/profiling/machine_measurement.h"

namespace partita {
namespace {

Answer Describe(const Machine& machine) {
  Answer answer;
  Json devices = Json::array();
  std::vector<std::vector<std::string>> table = {{"device", "class", "node", "threads", "memory"}};
  for (const Device& device : machine.topology.devices()) {
    devices.push_back({{"name", device.name},
                       {"class", device.device_class},
                       {"node", device.node},
                       {"host", device.host},
                       {"memory_bytes", device.memory.value()}});
    table.push_back({device.name, device.device_class, absl::StrCat(device.node),
                     absl::StrCat(device.threads), BytesText(device.memory)});
  }
  answer.json = {
      {"name", machine.name}, {"description", machine.description}, {"devices", devices}};
  const CoreSharing shared = CoreSharingOf(machine.topology);
  AddCoreSharing(shared, answer);
  const std::string sharing = NoteOf(shared);
  // What is not of the file's form is a comment: the whole can be stored as a machine file.
  const std::string comment = absl::StrCat(machine.description, "\n", TableText(table, 2),
                                           sharing.empty() ? "" : absl::StrCat("note: ", sharing));
  answer.text =
      absl::StrCat("# ", machine.name, ": ", absl::StrReplaceAll(comment, {{"\n", "\n# "}}), "\n",
                   MachineText(machine));
  return answer;
}

absl::StatusOr<Answer> RunShow(const MachineShowFlags& flags) {
  ASSIGN_OR_RETURN(const Machine machine,
                   FindMachine(flags.machine, flags.devices, flags.oversubscribe));
  return Describe(machine);
}

absl::StatusOr<Answer> RunDiscover(const MachineDiscoverFlags& flags) {
  const std::string path = flags.output.empty() ? "machine.textproto" : flags.output;
  RETURN_IF_ERROR(CheckWritable(path, "-o"));
  ShowProgress("measuring this machine");
  ASSIGN_OR_RETURN(const MeasuredMachine measured,
                   MeasureMachine({flags.devices, flags.gpus, flags.oversubscribe}));
  EndProgress();
  Answer answer = Describe(measured.machine);
  RETURN_IF_ERROR(WriteFileAtomically(path, MeasuredMachineText(measured)));
  absl::StrAppend(&answer.text, "written: ", path, "\n");
  answer.json["written"] = path;
  AddWarnings(measured.disturbance, answer);
  return answer;
}

}  // namespace

void AddMachineVerb(CLI::App& app, VerbTable& verbs) {
  CLI::App& verb =
      Subcommand(app, "machine", "examine this machine, or show a machine file or preset");
  verb.require_subcommand(1);
  AddVerb(Subcommand(verb, "show", "devices, links and figures of a machine"), verbs,
          std::make_shared<MachineShowFlags>(), RunShow);
  AddVerb(Subcommand(verb, "discover", "measure this machine into a machine file"), verbs,
          std::make_shared<MachineDiscoverFlags>(), RunDiscover);
}

}  // namespace partita
