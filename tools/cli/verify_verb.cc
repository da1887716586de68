#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "graph/support/error_category.h"
#include "graph/support/status_macros.h"
#include "runtime/support/tolerance.h"
#include "tools/cli/flags.h"
#include "tools/cli/progress.h"
#include "tools/cli/staging.h"
#include "tools/cli/verb.h"
#include "tools/cli/verb_options.h"
#include "tools/workflow/plan_precision.h"
#include "tools/workflow/reference_verification.h"
#include "tools/workflow/verification.h"

namespace partita {
namespace {

Json TextOrNull(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

// Not known where something was left to compare.
Json EqualOrNull(bool equal, bool interrupted) { return interrupted ? Json(nullptr) : Json(equal); }

std::string TextOf(const VerificationResult& result, int steps) {
  if (result.interrupted) {
    return absl::StrCat("interrupted: equal in the ", result.steps_compared, " of ",
                        result.steps_to_compare, " steps that were compared\n");
  }
  if (!result.equal) return absl::StrCat("NOT EQUAL: ", result.first_difference, "\n");
  return absl::StrFormat("equal: %s %s within %.1e, largest difference %.2e, %d steps\n",
                         result.ring_checked
                             ? "bit for bit in the ring of integers modulo 2^64, and in"
                             : "(quick: without the ring) in",
                         result.arithmetic, result.tolerance, result.max_abs_error, steps);
}

absl::StatusOr<Answer> RunPlanCheck(const VerifyFlags& flags, Stages* stages) {
  VerificationRequest request = flags.request;
  request.steps = flags.steps.value_or(request.quick ? 1 : 2);
  request.memory_bytes = flags.memory_bytes.value_or(request.memory_bytes);
  ASSIGN_OR_RETURN(const LoadedPlan loaded,
                   ReadPlan({flags.plan, flags.model, WeightValues::kRequired}, stages));
  request.stop = &g_interrupted;
  Answer answer;
  if (flags.virtual_devices > 0) {
    request.backends = {{"", "cuda"}};
    if (flags.virtual_devices != loaded.plan.topology.size()) {
      return UsageError(absl::StrCat("--virtual_devices ", flags.virtual_devices, ": the plan has ",
                                     loaded.plan.topology.size(), " devices"));
    }
  }
  RETURN_IF_ERROR(CheckClasses(request.backends, loaded.plan.topology));
  std::vector<BackendOfClass> backends = {{"", "reference"}};
  backends.insert(backends.end(), request.backends.begin(), request.backends.end());
  ASSIGN_OR_RETURN(const PlanPrecision precision,
                   PrecisionFor(loaded.plan, flags.precision, backends));
  request.precision = precision.precision;
  request.tolerance = ToleranceOf(request.precision);
  ShowProgress("running the plan and the serial model", {.of = "verify"});
  request.progress = [](double done, double wanted) {
    ShowProgress(
        absl::StrCat("comparing the plan with the serial model: step ", done, " of ", wanted),
        {.of = "verify", .done = done, .wanted = wanted});
  };
  ASSIGN_OR_RETURN(const VerificationResult result,
                   VerifyTrainingPlan(loaded.model, loaded.plan, request));
  answer.json = {{"equal", EqualOrNull(result.equal, result.interrupted)},
                 {"plans", 1},
                 {"interrupted", result.interrupted},
                 {"steps_compared", result.steps_compared},
                 {"ring", result.ring_checked},
                 {"batch", result.batch},
                 {"precision", RowOf(request.precision).name},
                 {"arithmetic", TextOrNull(result.arithmetic)},
                 {"tolerance", result.tolerance},
                 {"steps", request.steps},
                 {"max_abs_error", result.max_abs_error},
                 {"first_difference", TextOrNull(result.first_difference)}};
  answer.exit_code = ExitCodeOf(result);
  answer.json["notes"] = Json::array();
  if (!loaded.note.empty()) {
    answer.json["notes"].push_back(loaded.note);
    AppendNote(loaded.note, answer);
  }
  for (const std::string& note : precision.notes) {
    AppendNote(note, answer);
  }
  for (const std::string& note : {result.note, result.rounding}) {
    if (note.empty()) continue;
    answer.json["notes"].push_back(note);
    AppendNote(note, answer);
  }
  absl::StrAppend(&answer.text, TextOf(result, request.steps));
  if (result.batch == 0) return answer;  // interrupted before anything was run
  absl::StrAppend(&answer.text, "run on ", loaded.plan.topology.size(),
                  " virtual devices of this host");
  const int64_t batch = loaded.model.graph.batch();
  absl::StrAppend(&answer.text, result.batch == batch
                                    ? absl::StrCat(" at the plan's batch of ", batch, "\n")
                                    : absl::StrCat(" at batch ", result.batch,
                                                   ", reduced from the plan's ", batch, "\n"));
  return answer;
}

std::string TextOf(const ReferenceResult& result, const ReferenceRequest& request) {
  if (!result.equal) {
    return absl::StrCat("NOT EQUAL to the reference: ", result.first_difference, "\n");
  }
  if (result.interrupted) {
    return absl::StrFormat(
        "interrupted: equal to the reference in the %d of %d random plans on %d devices that were "
        "compared\n",
        result.plans, request.random_plans, request.devices);
  }
  return absl::StrFormat(
      "equal to the reference: the serial run and %d random plans on %d devices; the worst is %s "
      "at %.2f of its tolerance, largest difference %.2e\n",
      result.plans, request.devices, result.worst, result.worst_share, result.max_abs_error);
}

absl::StatusOr<Answer> RunReferenceCheck(const VerifyFlags& flags) {
  ReferenceRequest request = flags.reference;
  request.seed = flags.request.seed;
  request.stop = &g_interrupted;
  request.progress = [](int done, int wanted) {
    ShowProgress(
        absl::StrCat("random plan ", done + 1, " of ", wanted),
        {.of = "verify", .done = static_cast<double>(done), .wanted = static_cast<double>(wanted)});
  };
  ASSIGN_OR_RETURN(const ReferenceResult result, VerifyAgainstReference(request));
  Answer answer;
  const bool unknown = result.interrupted && result.equal;
  answer.json = {{"equal", EqualOrNull(result.equal, unknown)},
                 {"plans", result.plans},
                 {"devices", request.devices},
                 {"seed", request.seed},
                 {"max_abs_error", result.max_abs_error},
                 {"worst", result.worst},
                 {"worst_share", result.worst_share},
                 {"interrupted", result.interrupted},
                 {"first_difference", TextOrNull(result.first_difference)}};
  answer.exit_code = unknown        ? CodeOf(ErrorCategory::kInterrupted)
                     : result.equal ? 0
                                    : CodeOf(ErrorCategory::kCheckFailed);
  answer.text = TextOf(result, request);
  return answer;
}

absl::StatusOr<Answer> RunVerify(const VerifyFlags& flags, Stages* stages) {
  if (flags.plan.empty() == flags.reference.folder.empty()) {
    return UsageError("verify takes either a plan file or --reference FOLDER");
  }
  return flags.plan.empty() ? RunReferenceCheck(flags) : RunPlanCheck(flags, stages);
}

}  // namespace

void AddVerifyVerb(CLI::App& app, VerbTable& verbs) {
  AddVerb(Subcommand(app, "verify", "prove that a plan computes the serial model"), verbs,
          std::make_shared<VerifyFlags>(), [](const VerifyFlags& flags) {
            return RunInStages(flags.stages,
                               [&](Stages* stages) { return RunVerify(flags, stages); });
          });
}

}  // namespace partita
