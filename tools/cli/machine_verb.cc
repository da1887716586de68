#include <CLI/CLI.hpp>
#include <filesystem>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "cost_model/cluster.h"
#include "cost_model/machine.h"
#include "cost_model/machines.h"
#include "graph/parallel/level_routes.h"
#include "graph/support/error_category.h"
#include "graph/support/file.h"
#include "graph/support/status_macros.h"
#include "tools/cli/flags.h"
#include "tools/cli/notes.h"
#include "tools/cli/progress.h"
#include "tools/cli/text.h"
#include "tools/cli/verb.h"
#include "tools/cli/verb_options.h"
#include "tools/workflow/machine_notes.h"
#include "tools/workflow/output_path.h"
#include "tools/workflow/profiling/machine_measurement.h"

namespace partita {
namespace {

// Devices that are alike, the first and the last of them; one device where they are listed.
struct DeviceRow {
  const Device& first;
  const Device& last;
  int count = 1;

  // "n0.gpu0", or "n0.gpu0..n3.gpu7".
  std::string Name() const {
    return count == 1 ? first.name : absl::StrCat(first.name, "..", last.name);
  }
  std::string Nodes() const {
    return first.node == last.node ? absl::StrCat(first.node)
                                   : absl::StrCat(first.node, "..", last.node);
  }
};

std::vector<DeviceRow> DeviceRows(const DeviceTopology& topology) {
  std::vector<DeviceRow> rows;
  const LevelRoutes* levels = topology.level_routes();
  if (levels == nullptr) {
    for (const Device& device : topology.devices()) rows.push_back({device, device});
    return rows;
  }
  int next = 0;
  for (const AlikeDevices& alike : levels->levels().devices) {
    const Device& first = topology.device(DeviceId(next));
    next += alike.count;
    rows.push_back({first, topology.device(DeviceId(next - 1)), alike.count});
  }
  return rows;
}

Answer Describe(const Machine& machine) {
  Answer answer;
  Json devices = Json::array();
  std::vector<std::vector<std::string>> table = {{"device", "class", "node", "threads", "memory"}};
  Bytes largest;
  for (const Device& device : machine.topology.devices()) {
    largest = std::max(largest, device.memory);
  }
  const ByteUnit unit = UnitFor(largest);
  table[0].back() = absl::StrCat("memory, ", unit.name);
  for (const DeviceRow& row : DeviceRows(machine.topology)) {
    const Device& device = row.first;
    devices.push_back({{"name", row.Name()},
                       {"count", row.count},
                       {"class", device.device_class},
                       {"node", device.node},
                       {"last_node", row.last.node},
                       {"host", device.host},
                       {"memory_bytes", device.memory.value()}});
    table.push_back({row.Name(), device.device_class, row.Nodes(), absl::StrCat(device.threads),
                     unit.In(device.memory)});
  }
  answer.json = {
      {"name", machine.name}, {"description", machine.description}, {"devices", devices}};
  const CoreSharing shared = CoreSharingOf(machine.topology);
  AddCoreSharing(shared, answer);
  const std::string sharing = NoteOf(shared);
  // What is not of the file's form is a comment: the whole can be stored as a machine file.
  const size_t width = OutputWidth() - 2;
  const std::string title = absl::StrCat(machine.name, ": ", machine.description);
  const std::string comment =
      absl::StrCat(WrappedText(title, width, 2), TableText(table, 2, width),
                   sharing.empty() ? "" : WrappedText(absl::StrCat("note: ", sharing), width, 2));
  answer.is_file = true;
  answer.text = absl::StrCat(
      "# ", absl::StrReplaceAll(absl::StripTrailingAsciiWhitespace(comment), {{"\n", "\n# "}}),
      "\n", MachineText(machine));
  return answer;
}

absl::StatusOr<Answer> RunShow(const MachineShowFlags& flags) {
  ASSIGN_OR_RETURN(const Machine machine,
                   FindMachine(flags.machine, flags.devices, flags.oversubscribe));
  return Describe(machine);
}

// The machine of the file that is about to be replaced; empty: there is none. UsageError where it is
// something else, which would be lost.
absl::StatusOr<std::string> ReplacedMachine(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return "";
  if (std::filesystem::file_size(path, error) == 0) return "";
  const auto machine = LoadMachine(path);
  if (machine.ok()) return machine->name;
  return UsageError(absl::StrCat("'", path,
                                 "' is there and no machine file: it would be lost. Try -o with "
                                 "another place, or remove it"));
}

void DescribeWritten(const std::string& path, const std::string& replaced, Answer& answer) {
  if (!replaced.empty()) {
    absl::StrAppend(&answer.text, "replaced: ", path, ", which described '", replaced, "'\n");
  }
  absl::StrAppend(&answer.text, "written: ", path, "\n");
  answer.json["written"] = path;
  answer.json["replaced"] = replaced.empty() ? Json(nullptr) : Json(replaced);
}

absl::StatusOr<Answer> RunDiscover(const MachineDiscoverFlags& flags) {
  const std::string path = flags.output.empty() ? "machine.textproto" : flags.output;
  RETURN_IF_ERROR(CheckWritable(path, "-o"));
  ASSIGN_OR_RETURN(const std::string replaced, ReplacedMachine(path));
  const auto show = [](int64_t done, int64_t wanted, const std::string& what) {
    const std::string separator = what.empty() ? "" : ", ";
    ShowProgress(absl::StrCat("measuring this machine: ", done, "/", wanted, separator, what),
                 {.of = "discover",
                  .done = static_cast<double>(done),
                  .wanted = static_cast<double>(wanted)});
  };
  ASSIGN_OR_RETURN(const MeasuredMachine measured,
                   MeasureMachine({flags.devices, flags.gpus, flags.oversubscribe, show}));
  EndProgress();
  Answer answer = Describe(measured.machine);
  RETURN_IF_ERROR(WriteFileAtomically(path, MeasuredMachineText(measured)));
  DescribeWritten(path, replaced, answer);
  AddWarnings(measured.disturbance, answer);
  return answer;
}

absl::StatusOr<Answer> RunCreate(const MachineCreateFlags& flags) {
  const std::string path = flags.output.empty() ? "machine.textproto" : flags.output;
  RETURN_IF_ERROR(CheckWritable(path, "-o"));
  ASSIGN_OR_RETURN(const std::string replaced, ReplacedMachine(path));
  ASSIGN_OR_RETURN(Machine machine, MakeCluster(flags.cluster));
  ASSIGN_OR_RETURN(machine, WithSettings(machine, flags.set));
  RETURN_IF_ERROR(SaveMachine(machine, path));
  Answer answer = Describe(machine);
  DescribeWritten(path, replaced, answer);
  return answer;
}

}  // namespace

void AddMachineVerb(CLI::App& app, VerbTable& verbs) {
  CLI::App& verb = Subcommand(app, "machine",
                              "examine this machine, show a machine file or preset, or create one");
  verb.require_subcommand(1);
  AddVerb(Subcommand(verb, "show", "devices, links and figures of a machine"), verbs,
          std::make_shared<MachineShowFlags>(), RunShow);
  AddVerb(Subcommand(verb, "discover", "measure this machine into a machine file"), verbs,
          std::make_shared<MachineDiscoverFlags>(), RunDiscover);
  AddVerb(Subcommand(verb, "create", "write a machine file from a catalogue of parts"), verbs,
          std::make_shared<MachineCreateFlags>(), RunCreate);
}

}  // namespace partita
