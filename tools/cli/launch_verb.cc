#include "absl/strings/str_cat.h"
#include "graph/support/error_category.h"
#include "graph/support/status_macros.h"
#include "tools/cli/checks.h"
#include "tools/cli/process.h"
#include "tools/cli/verb.h"
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
  auto flags = std::make_shared<LaunchRequest>();
  CLI::App* verb =
      app.add_subcommand("launch", "run a plan over several processes, one for each device");
  verb->add_option("-n,--ranks", flags->ranks, "processes, as many as the plan has devices")
      ->required()
      ->check(WholeNumber(1, 4096));
  verb->add_option("--hosts", flags->hosts,
                   "a file with one host on a line, and slots=N behind it where it takes several "
                   "ranks; default: all on this host")
      ->check(CLI::ExistingFile);
  verb->add_option("--agent", flags->agent,
                   "a program that starts commands on those hosts, called with a host's name and "
                   "the command; default: ssh")
      ->needs("--hosts")
      ->check(CLI::ExistingFile);
  verbs.Add(verb, [flags, &verbs, &app] {
    flags->arguments = verbs.launched;
    if (app.count("--json") > 0) flags->arguments.push_back("--json");
    return RunLaunch(*flags);
  });
}

}  // namespace partita
