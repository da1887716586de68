#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "cost_model/cluster.h"
#include "graph/precision.h"
#include "planner/planner.h"
#include "tools/cli/completion.h"
#include "tools/cli/staging.h"
#include "tools/workflow/launching.h"
#include "tools/workflow/measured_search.h"
#include "tools/workflow/option_checks.h"
#include "tools/workflow/priced_machine.h"
#include "tools/workflow/reference_verification.h"
#include "tools/workflow/running.h"
#include "tools/workflow/training_model.h"
#include "tools/workflow/verification.h"

// The options of every verb: those of the components that it uses, and its own.

namespace partita {

inline Option PlanArgument(bool required) {
  return {.name = "plan",
          .help = "a plan file",
          .check = PlanName(),
          .positional = true,
          .required = required,
          .of_one_rank = true};
}
inline Option OutputOption(std::string help, std::string fallback = "") {
  return {.name = "output",
          .help = std::move(help),
          .check = OutputName(),
          .fallback = std::move(fallback),
          .group = "Output",
          .letter = 'o'};
}

struct PlanFlags {
  ModelRequest model;
  MachineRequest machine;
  PlanRequest plan;
  double profile_time = MeasuredSearchRequest().profile_seconds;
  double measure_time = -1;
  std::optional<DeviceCounts> devices;  // one is machine.devices
  bool pareto = false;
  std::string output;
  bool replace = false;
  StageFlags stages{.stages = {Stage::kModel, Stage::kTrainingGraph, Stage::kStrategy,
                               Stage::kTaskGraph, Stage::kPredictedTimeline, Stage::kPlan,
                               Stage::kProgram, Stage::kBuffers}};

  template <class Self, class Visitor>
  static void VisitFields(Self& self, Visitor&& visit) {
    ModelRequest::VisitFields(self.model, InGroup("Model and data", visit));
    MachineRequest::VisitFields(self.machine, InGroup("Machine", visit), {.one_count = false});
    visit(Option{.name = "devices",
                 .help = "take the first N devices; several numbers as in 1,2,4: one line for each "
                         "instead of a plan file",
                 .check = CountsOfDevices(),
                 .type = "INT,...",
                 .group = "Machine",
                 .changes_plan = true},
          self.devices);
    PlanRequest::VisitFields(self.plan, InGroup("Search", visit));
    visit(Option{.name = "pareto",
                 .help = "also search for plans that take less memory: the front of step time "
                         "against peak memory",
                 .group = "Search"},
          self.pareto);
    InGroup("Measuring", visit)(ProfileTimeOption(), self.profile_time);
    InGroup("Measuring", visit)(MeasureTimeOption(), self.measure_time);
    visit(OutputOption("plan file", "MODEL.plan.textproto"), self.output);
    visit(Option{.name = "replace",
                 .help = "overwrite the plan file even if its plan is faster, or it is no plan",
                 .group = "Output"},
          self.replace);
    StageFlags::VisitFields(self.stages, visit);
  }
};

struct CompareFlags {
  ModelRequest model;
  std::vector<std::string> plans;
  MachineRequest machine;
  PlanRequest plan;
  bool measure = false, verify = false, quick = false;
  int steps = 9;
  double profile_time = MeasuredSearchRequest().profile_seconds;
  StageFlags stages = PlanFlags().stages;

  template <class Self, class Visitor>
  static void VisitFields(Self& self, Visitor&& visit) {
    ModelRequest::VisitFields(self.model, InGroup("Model and data", visit));
    visit(Option{.name = "plans",
                 .help = "plan files to compare as well",
                 .check = PlanName(),
                 .positional = true},
          self.plans);
    MachineRequest::VisitFields(self.machine, InGroup("Machine", visit));
    PlanRequest::VisitSearch(self.plan, InGroup("Search", visit));
    const auto measures = InGroup("Measuring", visit), proves = InGroup("Checks", visit);
    measures(Option{.name = "measure", .help = "run every plan too, interleaved"}, self.measure);
    measures(
        Option{.name = "steps", .help = "measured steps of each plan", .check = WholeNumber(1)},
        self.steps);
    proves(Option{.name = "verify",
                  .help = "prove every plan equal to the serial model, as the verb verify does"},
           self.verify);
    proves(
        Option{
            .name = "quick", .help = "of that, only the float part, one step", .needs = "verify"},
        self.quick);
    InGroup("Measuring", visit)(ProfileTimeOption(), self.profile_time);
    StageFlags::VisitFields(self.stages, visit);
  }
};

struct RunFlags {
  std::string plan, model, save_every, key_file;
  RunRequest request;
  std::optional<int64_t> keep;
  std::string data_cache = "none";
  std::optional<Precision> precision;
  bool accept_folded = false;
  StageFlags stages{.stages = {Stage::kModel, Stage::kTrainingGraph, Stage::kStrategy,
                               Stage::kTaskGraph, Stage::kPlan, Stage::kProgram, Stage::kBuffers,
                               Stage::kMeasuredTimeline}};

  // Facts of the run, no options: what was not done as wanted; whether the place of the timeline
  // is not of the user's choice.
  std::vector<std::string> notes = {};
  bool default_timeline = false;

  template <class Self, class Visitor>
  static void VisitFields(Self& self, Visitor&& visit) {
    visit(PlanArgument(true), self.plan);
    InGroup("Model and data", visit)(ModelPlaceOption(), self.model);
    RunRequest::VisitFields(self.request, visit);
    visit(Option{.name = "save_every",
                 .help = "write checkpoints on the way, too: every so many steps, or every 30s, "
                         "10m, 2h; they are NAME.step-000100 and NAME.best for --save NAME",
                 .check = CheckpointInterval(),
                 .group = "Checkpoints"},
          self.save_every);
    visit(Option{.name = "keep",
                 .help = "how many NAME.step-... stay, the newest",
                 .check = WholeNumber(1),
                 .fallback = OptionText(self.request.keep),
                 .type = "INT",
                 .group = "Checkpoints"},
          self.keep);
    visit(Option{.name = "data_cache",
                 .help = "none, memory",
                 .check = NameOf("cache", {"none", "memory"}),
                 .group = "Model and data",
                 .of_one_rank = true},
          self.data_cache);
    InGroup("Machine", visit)(
        PrecisionOption("of products and convolutions on the devices that have it; weights and "
                        "sums stay float32",
                        "what the plan was priced in"),
        self.precision);
    visit(Option{.name = "key_file",
                 .help = "the key of ranks of several hosts that no MPI connects: a file of this "
                         "user alone with 32 or more hexadecimal digits (or in the variable "
                         "PARTITA_KEY)",
                 .group = "Machine",
                 .of_one_rank = true},
          self.key_file);
    visit(Option{.name = "accept_folded",
                 .help = "train a model into which its exporter has folded batch normalisation",
                 .group = "Model and data"},
          self.accept_folded);
    StageFlags::VisitFields(self.stages, visit);
  }
};

struct VerifyFlags {
  std::string plan, model;
  VerificationRequest request;
  ReferenceRequest reference;
  std::optional<int> steps;
  std::optional<int64_t> memory_bytes;
  int virtual_devices = 0;
  std::optional<Precision> precision;
  StageFlags stages{.stages = {Stage::kModel, Stage::kTrainingGraph, Stage::kStrategy,
                               Stage::kTaskGraph, Stage::kPlan}};

  template <class Self, class Visitor>
  static void VisitFields(Self& self, Visitor&& visit) {
    visit(PlanArgument(false), self.plan);
    InGroup("Model and data", visit)(ModelPlaceOption(), self.model);
    const auto checks = InGroup("Checks", visit);
    VerificationRequest::VisitFields(self.request, checks);
    visit(Option{.name = "virtual_devices",
                 .help = "run the float part of all N devices of the plan on this machine's first "
                         "GPU",
                 .check = WholeNumber(1, 1024),
                 .unset = "0",
                 .group = "Machine"},
          self.virtual_devices);
    InGroup("Machine", visit)(
        PrecisionOption("of products and convolutions of the float part, on a GPU; each has its "
                        "own tolerance",
                        "what the plan was priced in"),
        self.precision);
    checks(Option{.name = "steps",
                  .help = "training steps",
                  .check = WholeNumber(1, 1'000'000),
                  .fallback = absl::StrCat(VerificationRequest().steps, ", with --quick 1"),
                  .type = "INT"},
           self.steps);
    checks(Option{.name = "memory",
                  .help = "bytes that the check may take",
                  .check = WholeNumber(1),
                  .fallback = "nine tenths of what is available",
                  .type = "INT"},
           self.memory_bytes);
    ReferenceRequest::VisitFields(self.reference, InGroup("Reference of another framework", visit));
    StageFlags::VisitFields(self.stages, visit);
  }
};

struct ProfileFlags {
  ModelRequest model;
  MachineRequest machine;
  double seconds = 600;
  bool measure_again = false, list = false;
  std::string forget;

  template <class Self, class Visitor>
  static void VisitFields(Self& self, Visitor&& visit) {
    const auto model = InGroup("Model and data", visit);
    ModelRequest::VisitFields(self.model, [&model](Option option, auto& value) {
      option.required &= option.name != "model";  // none to list and to forget
      model(option, value);
    });
    MachineRequest::VisitFields(self.machine, InGroup("Machine", visit));
    const auto measures = InGroup("Measuring", visit), keeps = InGroup("The file", visit);
    measures(Option{.name = "profile_time", .help = "seconds at most", .check = NumberAbove(0)},
             self.seconds);
    measures(
        Option{.name = "measure_again",
               .help =
                   "measure what the model asks for even if it is known, and add the samples to "
                   "those that there are"},
        self.measure_again);
    keeps(Option{.name = "list", .help = "say what the file has, of every device; takes no model"},
          self.list);
    keeps(Option{.name = "forget",
                 .help = "remove the records whose signature has this text; takes no model",
                 .type = "TEXT"},
          self.forget);
  }
};

struct ImportFlags {
  ModelRequest model;
  std::string output;

  template <class Self, class Visitor>
  static void VisitFields(Self& self, Visitor&& visit) {
    ModelRequest::VisitModel(self.model, InGroup("Model and data", visit));
    Option output = OutputOption("write the native text form to this file");
    output.check = PlaceName();
    visit(output, self.output);
  }
};

struct SimulateFlags {
  std::string plan, model, output, measured;
  MachineRequest machine{.machine = ""};
  StageFlags stages{.stages = {Stage::kModel, Stage::kTrainingGraph, Stage::kStrategy,
                               Stage::kTaskGraph, Stage::kPlan, Stage::kPredictedTimeline}};

  template <class Self, class Visitor>
  static void VisitFields(Self& self, Visitor&& visit) {
    visit(PlanArgument(true), self.plan);
    InGroup("Model and data", visit)(ModelPlaceOption(), self.model);
    MachineRequest::VisitFields(self.machine, InGroup("Machine", visit),
                                {"the plan's", "the plan's"});
    visit(OutputOption("timeline file", "PLAN.timeline.json"), self.output);
    visit(Option{.name = "measured",
                 .help = "measured timeline of a run of the plan (PLAN.measured.json), whose times "
                         "are shown beside the predicted ones"},
          self.measured);
    StageFlags::VisitFields(self.stages, visit);
  }
};

struct MachineShowFlags {
  std::string machine = MachineRequest().machine;
  std::optional<int> devices;
  bool oversubscribe = false;

  template <class Self, class Visitor>
  static void VisitFields(Self& self, Visitor&& visit) {
    visit(Option{.name = "machine",
                 .help = "a name (partita list machines) or a file",
                 .check = MachineName(),
                 .positional = true},
          self.machine);
    visit(Option{.name = "devices",
                 .help = "the first N devices",
                 .check = WholeNumber(1, kMostDevices),
                 .type = "INT"},
          self.devices);
    visit(OversubscribeOption(), self.oversubscribe);
  }
  static Option OversubscribeOption() {
    return {.name = "oversubscribe", .help = "more devices than cores, which they then share"};
  }
};

struct MachineDiscoverFlags {
  std::string output;
  std::optional<int> devices, gpus;
  bool oversubscribe = false;

  template <class Self, class Visitor>
  static void VisitFields(Self& self, Visitor&& visit) {
    visit(OutputOption("machine file", "machine.textproto"), self.output);
    visit(Option{.name = "devices",
                 .help = "divide the cores among N devices",
                 .check = WholeNumber(1, kMostDevices),
                 .type = "INT"},
          self.devices);
    visit(Option{.name = "gpus",
                 .help = "the first N GPUs, and cores only with --devices too",
                 .check = WholeNumber(1, kMostDevices),
                 .type = "INT"},
          self.gpus);
    visit(MachineShowFlags::OversubscribeOption(), self.oversubscribe);
  }
};

struct MachineCreateFlags {
  ClusterRequest cluster;
  std::vector<std::string> set;
  std::string output;

  template <class Self, class Visitor>
  static void VisitFields(Self& self, Visitor&& visit) {
    ClusterRequest::VisitFields(self.cluster, visit);
    visit(Option{.name = "set",
                 .help = "a figure in place of the catalogue's: h100.matrix_flops=5e13, "
                         "leaf.latency_ns=2000, gpu.memory_bytes=64000000000",
                 .type = "NAME.FIELD=VALUE"},
          self.set);
    visit(OutputOption("machine file", "machine.textproto"), self.output);
  }
};

// Names of the lists that the verb list prints.
std::vector<std::string> ListNames();
struct ListFlags {
  std::string what;

  template <class Self, class Visitor>
  static void VisitFields(Self& self, Visitor&& visit) {
    const std::vector<std::string> names = ListNames();
    visit(Option{.name = "what",
                 .help = absl::StrJoin(names, ", "),
                 .check = NameOf("list", names),
                 .positional = true,
                 .required = true},
          self.what);
  }
};

struct CompletionFlags {
  std::string shell;

  template <class Self, class Visitor>
  static void VisitFields(Self& self, Visitor&& visit) {
    visit(Option{.name = "shell",
                 .help = absl::StrJoin(CompletionShells(), ", "),
                 .check = NameOf("shell", CompletionShells()),
                 .positional = true,
                 .required = true},
          self.shell);
  }
};

// Names of the verbs that are one word, as `partita --help` has them.
std::vector<std::string> VerbNames();
struct HelpFlags {
  std::string verb;
  bool man = false;

  template <class Self, class Visitor>
  static void VisitFields(Self& self, Visitor&& visit) {
    visit(Option{.name = "verb",
                 .help = "what is asked about; default the program",
                 .check = NameOf("verb", VerbNames()),
                 .positional = true},
          self.verb);
    visit(Option{.name = "man",
                 .help = "print the manual of all verbs as a page for man (partita.1)"},
          self.man);
  }
};

// Calls visit(verb, its options) for the options of all verbs.
template <class Visitor>
void VisitVerbOptions(Visitor&& visit) {
  visit("plan", PlanFlags());
  visit("compare", CompareFlags());
  visit("run", RunFlags());
  visit("launch", LaunchRequest());
  visit("verify", VerifyFlags());
  visit("profile", ProfileFlags());
  visit("import", ImportFlags());
  visit("simulate", SimulateFlags());
  visit("machine show", MachineShowFlags());
  visit("machine discover", MachineDiscoverFlags());
  visit("machine create", MachineCreateFlags());
  visit("list", ListFlags());
  visit("completion", CompletionFlags());
  visit("help", HelpFlags());
}

}  // namespace partita
