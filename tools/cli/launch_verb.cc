#include <CLI/CLI.hpp>

#include "absl/strings/str_cat.h"
#include "graph/support/error_category.h"
#include "graph/support/status_macros.h"
#include "tools/cli/flags.h"
#include "tools/cli/process.h"
#include "tools/cli/verb.h"
#include "tools/cli/verb_options.h"
#include "tools/workflow/launching.h"

namespace partita {
namespace {

absl::StatusOr<Answer> RunLaunch(LaunchRequest& request) {
  if (request.arguments.empty() || request.arguments[0] != "run") {
    return UsageError("launch wants what every rank shall do: partita launch -n 2 run PLAN ...");
  }
  Answer answer;
  answer.silent = true;
  request.stop = &g_interrupted;
  request.on_output = InterruptIfUnheard;
  ASSIGN_OR_RETURN(answer.exit_code, Launch(request));
  return answer;
}

}  // namespace

void AddLaunchVerb(CLI::App& app, VerbTable& verbs) {
  AddVerb(Subcommand(app, "launch", "run a plan over several processes, one for each device"),
          verbs, std::make_shared<LaunchRequest>(), [&verbs, &app](LaunchRequest& request) {
            request.arguments = verbs.launched;
            for (const char* flag : {"--json", "--json_lines", "--quiet"}) {
              if (app.count(flag) > 0) request.arguments.emplace_back(flag);
            }
            return RunLaunch(request);
          });
}

}  // namespace partita
