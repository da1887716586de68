// verify_plan PLAN: proves a plan equal to the serial model; exit status 0 if it is.
#include <iostream>

#include "graph/support/status_macros.h"
#include "tools/workflow/verification.h"

namespace {

absl::StatusOr<partita::VerificationResult> Verify(const char* path) {
  ASSIGN_OR_RETURN(const partita::LoadedPlan loaded, partita::LoadPlan({.path = path}));
  return partita::VerifyTrainingPlan(loaded.model, loaded.plan, {.quick = true});
}

}  // namespace

int main(int, char** argv) {
  const auto result = Verify(argv[1]);
  if (!result.ok()) {
    std::cerr << result.status() << "\n";
    return 1;
  }
  std::cout << (result->equal ? "equal" : result->first_difference) << "\n";
  return partita::ExitCodeOf(*result);
}
