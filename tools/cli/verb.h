#pragma once

#include <atomic>
#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "graph/support/error_category.h"
#include "tools/workflow/priced_machine.h"
#include "tools/workflow/training_model.h"

namespace CLI {
class App;
}  // namespace CLI

namespace partita {

using Json = nlohmann::ordered_json;

// Answer of a verb: data for scripts, the same for people, and the exit code of a check that
// failed.
struct Answer {
  Json json = Json::object();
  std::string text;
  int exit_code = 0;
  bool silent = false;  // true: another process of the run prints the answer
  // The text is a file's, a script's or the like, whose lines stay as they are on a terminal, too.
  bool is_file = false;
};

// The program's exit code for errors of a category.
constexpr int CodeOf(ErrorCategory category) { return static_cast<int>(category); }

// Set by Ctrl-C and similar signals (see process.h): long work ends with its results so far.
extern std::atomic<bool> g_interrupted;

// A verb is a subcommand: Add... declares its flags and stores what to run.
using VerbFunction = std::function<absl::StatusOr<Answer>()>;
struct VerbTable {
  std::vector<std::pair<CLI::App*, VerbFunction>> verbs;
  std::vector<std::string> launched;  // command that `launch` starts: another verb, its arguments
  void Add(CLI::App* app, VerbFunction run) { verbs.emplace_back(app, std::move(run)); }
};

void AddImportVerb(CLI::App& app, VerbTable& verbs);
void AddListVerb(CLI::App& app, VerbTable& verbs);
void AddMachineVerb(CLI::App& app, VerbTable& verbs);
void AddProfileVerb(CLI::App& app, VerbTable& verbs);
void AddPlanVerb(CLI::App& app, VerbTable& verbs);
void AddCompareVerb(CLI::App& app, VerbTable& verbs);
void AddSimulateVerb(CLI::App& app, VerbTable& verbs);
void AddVerifyVerb(CLI::App& app, VerbTable& verbs);
void AddRunVerb(CLI::App& app, VerbTable& verbs);
void AddLaunchVerb(CLI::App& app, VerbTable& verbs);
void AddDoctorVerb(CLI::App& app, VerbTable& verbs);
void AddCompletionVerb(CLI::App& app, VerbTable& verbs);
void AddHelpVerb(CLI::App& app, VerbTable& verbs);

struct VerbRow {
  const char* name;
  const char* group;  // the heading under which help has it
  void (*add)(CLI::App& app, VerbTable& verbs);
};
// THE table of verbs.
std::span<const VerbRow> Verbs();

// Description of the program, for help and manual.
inline constexpr char kProgramDescription[] =
    "Partita finds how to split the training of a neural network over the devices of a machine, "
    "shows what that costs, and runs it.";

// Facts to be known of a model before it is trained: its loss, notes and warnings, as lines for
// people and as members "loss", "classes", "notes" and "warnings".
void DescribeModel(const ImportedModel& model, const ModelLoss& loss, Answer& answer);
// The same for people only, on stderr; with --quiet the warnings alone.
void ShowModel(const ImportedModel& model, const ModelLoss& loss);

}  // namespace partita
