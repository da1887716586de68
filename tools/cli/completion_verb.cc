#include "tools/cli/completion.h"
#include "tools/cli/flags.h"
#include "tools/cli/verb.h"
#include "tools/cli/verb_options.h"

namespace partita {

void AddCompletionVerb(CLI::App& app, VerbTable& verbs) {
  AddVerb(
      Subcommand(app, "completion", "a script that completes verbs, flags and names in a shell"),
      verbs, std::make_shared<CompletionFlags>(),
      [&app](const CompletionFlags& flags) -> absl::StatusOr<Answer> {
        Answer answer;
        answer.text = CompletionScript(flags.shell, VerbPages(app));
        answer.is_file = true;
        answer.json["script"] = answer.text;
        return answer;
      });
}

}  // namespace partita
