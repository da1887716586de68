#include "tools/cli/help_text.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "graph/support/error_category.h"
#include "tools/cli/text.h"
#include "tools/cli/verb.h"

namespace partita {
namespace {

// Columns of flags and verbs before their help.
constexpr size_t kFormWidth = 24;

// "  --batch INT           samples in one step": a form that is too long for its column has a line
// of its own.
std::string Row(const std::string& form, const std::string& help, size_t width) {
  const std::string indent(kFormWidth, ' ');
  std::string start = absl::StrCat("  ", form);
  if (start.size() + 2 > kFormWidth) {
    return absl::StrCat(start, "\n", WrappedText(indent + help, width, kFormWidth));
  }
  start.resize(kFormWidth, ' ');
  return WrappedText(start + help, width, kFormWidth);
}

std::string CommonRows(size_t width) {
  std::string text = "\nEvery verb:\n";
  for (const OptionPage& option : CommonOptions()) {
    text += Row(option.Form(), option.Text(), width);
  }
  return text;
}

std::string FullName(const CLI::App* app) {
  std::string name;
  for (; app != nullptr && app->get_parent() != nullptr; app = app->get_parent()) {
    name = absl::StrCat(app->get_name(), name.empty() ? "" : " ", name);
  }
  return name;
}

}  // namespace

std::string ExitCodesText(size_t width) {
  std::string text = "  0     good\n";
  for (const ErrorCategoryRow& row : ErrorCategories()) {
    text += WrappedText(
        absl::StrFormat("  %-5d %s", static_cast<int>(row.category), row.description), width, 8);
  }
  return text;
}

std::string ProgramHelp(std::span<const VerbPage> verbs, size_t width) {
  std::string text =
      absl::StrCat("Examples:\n", ExamplesOf(""), "\n", WrappedText(kProgramDescription, width, 0),
                   "\nUsage: partita [FLAGS] VERB ...\n");
  std::string group;
  for (const VerbPage& verb : verbs) {
    if (verb.name.find(' ') != std::string::npos) continue;
    if (verb.group != group) absl::StrAppend(&text, "\n", verb.group, ":\n");
    group = verb.group;
    text += Row(verb.name, verb.help, width);
  }
  text += CommonRows(width);
  text += Row("--version", "print the version of the program", width);
  return absl::StrCat(text, "\nExit codes:\n", ExitCodesText(width),
                      "\n\"partita help VERB\" says what a verb does, with examples and its "
                      "flags;\n\"partita help --man\" prints all of it as a manual page.\n");
}

std::string VerbHelp(const VerbPage& verb, std::span<const VerbPage> verbs, size_t width) {
  std::string text =
      absl::StrCat("Examples:\n", verb.examples, "\n",
                   WrappedText(absl::StrCat("partita ", verb.name, ": ", verb.help), width, 2),
                   "\n", WrappedText(absl::StrCat("Usage: ", verb.Usage()), width, 7));
  const bool has_arguments = std::any_of(verb.options.begin(), verb.options.end(),
                                         [](const OptionPage& one) { return one.positional; });
  if (has_arguments) text += "\nArguments:\n";
  for (const OptionPage& option : verb.options) {
    if (option.positional) text += Row(option.Form(), option.Text(), width);
  }
  if (!verb.verbs.empty()) text += "\nVerbs:\n";
  for (const VerbPage& below : verbs) {
    if (!below.name.starts_with(verb.name + " ")) continue;
    text += Row(below.name.substr(verb.name.size() + 1), below.help, width);
  }
  for (const std::string& group : verb.Groups()) {
    absl::StrAppend(&text, "\n", group, ":\n");
    for (const OptionPage& option : verb.options) {
      if (option.positional || option.group != group) continue;
      text += Row(option.Form(), option.Text(), width);
    }
  }
  return absl::StrCat(text, CommonRows(width),
                      "\nExit codes and examples of all verbs: partita --help\n");
}

std::string HelpFormatter::make_help(const CLI::App* app, std::string, CLI::AppFormatMode) const {
  const std::string name = FullName(app);
  const CLI::App* program = app;
  while (program->get_parent() != nullptr) program = program->get_parent();
  const std::vector<VerbPage> verbs = VerbPages(*program);
  for (const VerbPage& verb : verbs) {
    if (verb.name == name) return VerbHelp(verb, verbs, OutputWidth());
  }
  return ProgramHelp(verbs, OutputWidth());
}

}  // namespace partita
