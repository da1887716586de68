#include "tools/cli/verb_page.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tools/cli/flags.h"
#include "tools/cli/verb.h"
#include "tools/cli/verb_options.h"

namespace partita {
namespace {

constexpr char kOtherFlags[] = "Flags";

std::string TypeOf(const Flag& flag) {
  if (flag.kind == Flag::Kind::kSwitch) return "";
  if (!flag.option.type.empty()) return flag.option.type;
  if (*flag.type != '\0') return flag.type;
  return flag.kind == Flag::Kind::kNumber ? "FLOAT" : "TEXT";
}

std::string StandardOf(const Flag& flag) {
  if (!flag.option.fallback.empty()) return flag.option.fallback;
  const bool says = flag.kind == Flag::Kind::kWholeNumber || flag.kind == Flag::Kind::kNumber ||
                    flag.kind == Flag::Kind::kText;
  return says ? absl::StrJoin(flag.given(), "") : "";
}

OptionPage PageOf(const Flag& flag) {
  const Option& option = flag.option;
  const bool is_text = flag.kind == Flag::Kind::kText || flag.kind == Flag::Kind::kList;
  return {.name = option.name,
          .help = option.help,
          .type = TypeOf(flag),
          .standard = StandardOf(flag),
          .group = option.group.empty() ? kOtherFlags : option.group,
          .needs = option.needs,
          .letter = option.letter,
          .positional = option.positional,
          .required = option.required,
          .is_list = flag.kind == Flag::Kind::kList,
          .values = option.check.names,
          .takes_files = option.check.is_name_or_file || (is_text && option.check.names.empty())};
}

// A verb, and those below it.
void AddPages(const CLI::App& verb, const std::string& before, std::vector<VerbPage>& pages) {
  const std::string name = absl::StrCat(before, before.empty() ? "" : " ", verb.get_name());
  const size_t at = pages.size();
  pages.push_back({.name = name,
                   .group = verb.get_group(),
                   .help = verb.get_description(),
                   .examples = ExamplesOf(name)});
  for (const CLI::App* below : verb.get_subcommands([](const CLI::App*) { return true; })) {
    pages[at].verbs.push_back(below->get_name());
    AddPages(*below, name, pages);
  }
}

}  // namespace

std::string OptionPage::Form() const {
  if (positional) {
    const std::string word = absl::StrCat(absl::AsciiStrToUpper(name), is_list ? "..." : "");
    return required ? word : absl::StrCat("[", word, "]");
  }
  return absl::StrCat(letter == 0 ? "" : absl::StrCat("-", std::string(1, letter), ", "), "--",
                      name, type.empty() ? "" : " ", type, is_list ? " ..." : "");
}

std::string OptionPage::Text() const {
  return absl::StrCat(help, needs.empty() ? "" : absl::StrCat("; with --", needs),
                      standard.empty() ? "" : absl::StrCat(" (default: ", standard, ")"));
}

std::string VerbPage::Usage() const {
  std::string usage = absl::StrCat("partita ", name, verbs.empty() ? "" : " ",
                                   absl::StrJoin(verbs, "|"), " [FLAGS]");
  for (const OptionPage& option : options) {
    if (option.required && !option.positional) {
      absl::StrAppend(&usage, " ",
                      option.letter == 0 ? absl::StrCat("--", option.name)
                                         : absl::StrCat("-", std::string(1, option.letter)),
                      " ", option.type);
    }
  }
  for (const OptionPage& option : options) {
    if (option.positional) absl::StrAppend(&usage, " ", option.Form());
  }
  return absl::StrCat(usage, name == "launch" ? " run PLAN ..." : "");
}

std::vector<std::string> VerbPage::Groups() const {
  std::vector<std::string> groups;
  for (const OptionPage& option : options) {
    if (option.positional) continue;
    if (std::find(groups.begin(), groups.end(), option.group) == groups.end()) {
      groups.push_back(option.group);
    }
  }
  return groups;
}

std::vector<VerbPage> VerbPages(const CLI::App& app) {
  std::vector<VerbPage> pages;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; })) {
    AddPages(*verb, "", pages);
  }
  VisitVerbOptions([&pages](const std::string& name, auto options) {
    const auto page = std::find_if(pages.begin(), pages.end(),
                                   [&](const VerbPage& one) { return one.name == name; });
    if (page == pages.end()) return;
    for (const Flag& flag : FlagsOf(options)) page->options.push_back(PageOf(flag));
  });
  return pages;
}

std::span<const OptionPage> CommonOptions() {
  static const OptionPage kOptions[] = {
      {.name = "json", .help = "print the answer, or the error, in JSON"},
      {.name = "json_lines",
       .help = "print events as they come, one JSON object a line: progress, candidates, steps, "
               "evaluations, and last the result or the error"},
      {.name = "quiet",
       .help = "no progress, notes, hints and news of a run; results, warnings and errors stay"},
      {.name = "help", .help = "print what the verb does, its flags, and examples", .letter = 'h'}};
  return kOptions;
}

}  // namespace partita
