#include "absl/strings/str_cat.h"
#include "graph/support/error_category.h"
#include "graph/support/status_macros.h"
#include "tools/cli/flags.h"
#include "tools/cli/notes.h"
#include "tools/cli/verb.h"
#include "tools/cli/verb_options.h"
#include "tools/workflow/profiling/profiling.h"

namespace partita {
namespace {

absl::StatusOr<Answer> RunProfile(const ProfileFlags& flags) {
  ModelRequest wanted = flags.model;
  wanted.values = WeightValues::kSkipped;
  ASSIGN_OR_RETURN(const TrainingModel model, LoadTrainingModel(wanted));
  MachineRequest request = flags.machine;
  request.will_measure = true;
  ASSIGN_OR_RETURN(const PricedMachine priced, PriceMachine(request));
  if (!priced.is_local) {
    return UsageError(absl::StrCat("machine '", request.machine,
                                   "' is not this host; only --machine local is profiled"));
  }
  ProfilingRequest profiling;
  profiling.profile = request.profile;
  profiling.seconds = flags.seconds;
  profiling.foreign_profile = request.foreign_profile;
  profiling.stop = &g_interrupted;
  profiling.progress = [](int64_t done, int64_t wanted, const std::string& what) {
    ShowProgress(absl::StrCat("profiling ", done, "/", wanted, " ", what));
  };
  ASSIGN_OR_RETURN(const ProfilingResult result, ProfileForSearch(model.graph, priced, profiling));
  Answer answer;
  answer.json = {{"profile", request.profile},  {"precision", RowOf(priced.precision).name},
                 {"wanted", result.wanted},     {"known", result.known},
                 {"measured", result.measured}, {"repeated", result.repeated},
                 {"unsteady", result.unsteady}, {"complete", result.complete}};
  answer.text =
      absl::StrCat(result.wanted, " kernels and moves that a search may ask for: ", result.known,
                   " known before, ", result.measured, " measured into ", request.profile,
                   result.complete ? "\n" : "; not complete: run it again to go on\n");
  if (result.unsteady > 0) {
    absl::StrAppend(
        &answer.text, result.unsteady,
        " are unsteady: their timings are few or far apart, and prices that rest on them "
        "are not sure\n");
  }
  AddMachineNotes(priced, answer);
  EndProgress();
  AddWarnings(result.disturbance, answer);
  return answer;
}

}  // namespace

void AddProfileVerb(CLI::App& app, VerbTable& verbs) {
  AddVerb(Subcommand(app, "profile", "measure the kernels that a search will ask for"), verbs,
          std::make_shared<ProfileFlags>(), RunProfile);
}

}  // namespace partita
