#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tools/cli/completion.h"
#include "tools/cli/flags.h"
#include "tools/cli/verb.h"
#include "tools/cli/verb_options.h"

namespace partita {
namespace {

CompletedOption CompletedOf(const Flag& flag) {
  const OptionCheck& check = flag.option.check;
  const bool is_text = flag.kind == Flag::Kind::kText || flag.kind == Flag::Kind::kList;
  return {.name = flag.option.name,
          .help = flag.option.help,
          .letter = flag.option.letter,
          .positional = flag.option.positional,
          .takes_value = flag.kind != Flag::Kind::kSwitch,
          .values = check.names,
          .takes_files = check.is_name_or_file || (is_text && check.names.empty())};
}

// A verb, and those below it, with their help.
void AddVerbs(const CLI::App& verb, const std::string& before, std::vector<CompletedVerb>& verbs) {
  const std::string name = absl::StrCat(before, before.empty() ? "" : " ", verb.get_name());
  verbs.push_back({name, verb.get_description(), {}});
  for (const CLI::App* below : verb.get_subcommands([](const CLI::App*) { return true; })) {
    AddVerbs(*below, name, verbs);
  }
}

std::vector<CompletedVerb> CompletedVerbs(const CLI::App& app) {
  std::vector<CompletedVerb> verbs;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; })) {
    AddVerbs(*verb, "", verbs);
  }
  VisitVerbOptions([&verbs](const std::string& name, auto options) {
    const auto verb = std::find_if(verbs.begin(), verbs.end(),
                                   [&](const CompletedVerb& one) { return one.name == name; });
    if (verb == verbs.end()) return;
    for (const Flag& flag : FlagsOf(options)) verb->options.push_back(CompletedOf(flag));
  });
  for (CompletedVerb& verb : verbs) {
    if (verb.name != "help") continue;
    CompletedOption names{.name = "verb", .positional = true};
    for (const CompletedVerb& one : verbs) names.values.push_back(one.name);
    std::erase_if(names.values, [](const auto& one) { return one.find(' ') != one.npos; });
    verb.options.push_back(std::move(names));
  }
  return verbs;
}

}  // namespace

void AddCompletionVerb(CLI::App& app, VerbTable& verbs) {
  AddVerb(
      Subcommand(app, "completion", "a script that completes verbs, flags and names in a shell"),
      verbs, std::make_shared<CompletionFlags>(),
      [&app](const CompletionFlags& flags) -> absl::StatusOr<Answer> {
        Answer answer;
        answer.text = CompletionScript(flags.shell, CompletedVerbs(app));
        answer.json["script"] = answer.text;
        return answer;
      });
}

}  // namespace partita
