#include "graph/support/error_category.h"
#include "tools/cli/flags.h"
#include "tools/cli/man_page.h"
#include "tools/cli/verb.h"
#include "tools/cli/verb_options.h"
#include "tools/cli/verb_page.h"

namespace partita {

// "help" and "help VERB" have become "--help" and "VERB --help" before (main.cc).
void AddHelpVerb(CLI::App& app, VerbTable& verbs) {
  AddVerb(Subcommand(app, "help", "what a verb does, with examples and its flags; the manual"),
          verbs, std::make_shared<HelpFlags>(),
          [&app](const HelpFlags& flags) -> absl::StatusOr<Answer> {
            if (!flags.man || !flags.verb.empty()) {
              return UsageError("--man prints the manual of all verbs: partita help --man");
            }
            Answer answer;
            answer.text = ManPage(VerbPages(app));
            answer.is_file = true;
            answer.json["man"] = answer.text;
            return answer;
          });
}

}  // namespace partita
