#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "graph/support/status_macros.h"
#include "tools/cli/verb.h"
#include "tools/workflow/verification.h"

namespace partita {
namespace {

struct VerifyFlags {
  std::string plan, model;
  VerificationRequest request;
};

absl::StatusOr<Answer> RunVerify(const VerifyFlags& flags) {
  ASSIGN_OR_RETURN(const LoadedPlan loaded, LoadPlan(flags.plan, flags.model));
  ShowProgress("running the plan and the serial model");
  ASSIGN_OR_RETURN(const VerificationResult result,
                   VerifyEqual(loaded.model.graph, loaded.plan, flags.request));
  Answer answer;
  answer.json = {{"equal", result.equal},
                 {"plans", 1},
                 {"ring", result.ring_checked},
                 {"max_abs_error", result.max_abs_error},
                 {"first_difference",
                  result.first_difference.empty() ? Json(nullptr) : Json(result.first_difference)}};
  answer.exit_code = result.equal ? 0 : 1;
  if (!result.equal) {
    answer.text = absl::StrCat("NOT EQUAL: ", result.first_difference, "\n");
  } else {
    answer.text = absl::StrFormat("equal: %s float32 within %.1e, largest difference %.2e\n",
                                  result.ring_checked
                                      ? "bit for bit in the ring of integers modulo 2^64, and in"
                                      : "(quick: without the ring) in",
                                  flags.request.tolerance, result.max_abs_error);
  }
  return answer;
}

}  // namespace

void AddVerifyVerb(CLI::App& app, VerbTable& verbs) {
  auto flags = std::make_shared<VerifyFlags>();
  CLI::App* verb = app.add_subcommand("verify", "prove that a plan computes the serial model");
  verb->add_option("plan", flags->plan, "a plan file")->required();
  verb->add_option("--model", flags->model, "where the model is, if it has moved");
  verb->add_flag("--quick", flags->request.quick, "only the float part");
  verb->add_option("--steps", flags->request.steps, "training steps")->check(CLI::PositiveNumber);
  verb->add_option("--seed", flags->request.seed, "of weights and data");
  verbs.Add(verb, [flags] { return RunVerify(*flags); });
}

}  // namespace partita
