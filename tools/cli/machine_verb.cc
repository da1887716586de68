#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "cost_model/machines.h"
#include "graph/support/file.h"
#include "graph/support/status_macros.h"
#include "tools/cli/checks.h"
#include "tools/cli/notes.h"
#include "tools/cli/text.h"
#include "tools/cli/verb.h"
#include "tools/workflow/machine_measurement.h"
#include "tools/workflow/machine_notes.h"
#include "tools/workflow/output_path.h"

namespace partita {
namespace {

struct MachineFlags {
  std::string machine = "local", output;
  std::optional<int> devices, gpus;
  bool oversubscribe = false;
};

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

absl::StatusOr<Answer> RunShow(const MachineFlags& flags) {
  ASSIGN_OR_RETURN(const Machine machine,
                   FindMachine(flags.machine, flags.devices, flags.oversubscribe));
  return Describe(machine);
}

absl::StatusOr<Answer> RunDiscover(const MachineFlags& flags) {
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
  auto flags = std::make_shared<MachineFlags>();
  CLI::App* verb =
      app.add_subcommand("machine", "examine this machine, or show a machine file or preset");
  verb->require_subcommand(1);
  CLI::App* show = verb->add_subcommand("show", "devices, links and figures of a machine");
  show->add_option("machine", flags->machine, "a name (partita list machines) or a file")
      ->check(MachineName());
  show->add_option("--devices", flags->devices, "the first N devices")
      ->check(WholeNumber(1, kMostDevices));
  CLI::App* discover = verb->add_subcommand("discover", "measure this machine into a machine file");
  discover->add_option("-o,--output", flags->output, "default machine.textproto")
      ->check(OutputName());
  discover->add_option("--devices", flags->devices, "divide the cores among N devices")
      ->check(WholeNumber(1, kMostDevices));
  discover->add_option("--gpus", flags->gpus, "the first N GPUs, and cores only with --devices too")
      ->check(WholeNumber(1, kMostDevices));
  for (CLI::App* one : {show, discover}) {
    one->add_flag("--oversubscribe", flags->oversubscribe,
                  "more devices than cores, which they then share");
  }
  verbs.Add(show, [flags] { return RunShow(*flags); });
  verbs.Add(discover, [flags] { return RunDiscover(*flags); });
}

}  // namespace partita
