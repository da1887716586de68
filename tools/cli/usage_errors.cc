#include "tools/cli/usage_errors.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/support/known_names.h"
#include "tools/cli/verb_options.h"
#include "tools/cli/verb_page.h"

namespace partita {
namespace {

// The innermost verb that was parsed; the program where none was.
const CLI::App& CalledVerb(const CLI::App& app) {
  const std::vector<CLI::App*> below = app.get_subcommands();
  return below.empty() ? app : CalledVerb(*below.front());
}

// Its page; null of the program.
const VerbPage* PageOf(const CLI::App& app, const std::vector<VerbPage>& pages) {
  const CLI::App& verb = CalledVerb(app);
  std::string name;
  for (const CLI::App* one = &verb; one->get_parent() != nullptr; one = one->get_parent()) {
    name = absl::StrCat(one->get_name(), name.empty() ? "" : " ", name);
  }
  const auto page = std::find_if(pages.begin(), pages.end(),
                                 [&](const VerbPage& one) { return one.name == name; });
  return page == pages.end() ? nullptr : &*page;
}

// The flags of the program, and of the verbs that were parsed.
void AppendFlags(const CLI::App& app, std::vector<std::string>& flags) {
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  }
  for (const CLI::App* verb : app.get_subcommands()) AppendFlags(*verb, flags);
}

std::string UnknownArguments(const CLI::App& app) {
  std::vector<std::string> flags;
  AppendFlags(app, flags);
  std::string text = "unknown arguments:", meant;
  for (const std::string& arg : app.remaining(true)) {
    absl::StrAppend(&text, " ", arg);
    if (meant.empty() && arg.starts_with("-")) {
      meant = DidYouMean(arg.substr(0, arg.find('=')), flags);
    }
  }
  return text + meant;
}

// What the verb lacks, of what it has to be given.
std::string MissingText(const VerbPage& page, const std::string& error) {
  if (!page.verbs.empty()) {
    return absl::StrCat(page.name, ": a verb is wanted: ", absl::StrJoin(page.verbs, ", "));
  }
  for (const OptionPage& option : page.options) {
    const std::string name = option.positional ? option.name : "--" + option.name;
    if (option.required && error.starts_with(name + " ")) {
      return absl::StrCat(page.name, ": ", option.Form(), " is missing: ", option.help);
    }
  }
  return error;
}

}  // namespace

std::string UnknownVerb(const CLI::App& app, const std::vector<std::string>& args) {
  std::vector<std::string> names = VerbNames();
  const auto word = std::find_if(args.begin(), args.end(), [](const std::string& arg) {
    return arg.empty() || arg[0] != '-';
  });
  if (word == args.end() || std::find(names.begin(), names.end(), *word) != names.end()) return "";
  const std::string known = absl::StrJoin(names, ", ");
  AppendFlags(app, names);
  return absl::StrCat("unknown verb '", *word, "'; the verbs are: ", known,
                      DidYouMean(*word, names));
}

std::string ParseErrorText(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<VerbPage> pages = VerbPages(app);
  const VerbPage* page = PageOf(app, pages);
  const bool lacks = error.get_name() == "RequiredError";
  if (page == nullptr) {
    const bool has_others = !app.remaining(true).empty();
    if (lacks && !has_others) {
      return "a verb is wanted: " + absl::StrJoin(VerbNames(), ", ");
    }
    return lacks ? UnknownArguments(app) : error.what();
  }
  if (page->name == "launch" && !lacks && !app.remaining(true).empty() &&
      !app.remaining(true).front().starts_with("-")) {
    return "launch wants what every rank shall do: partita launch -n 2 run PLAN ...";
  }
  const std::string usage = absl::StrCat("\nUsage: ", page->Usage());
  if (lacks) return absl::StrCat(MissingText(*page, error.what()), usage);
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError)) {
    return absl::StrCat(UnknownArguments(app), usage);
  }
  const std::string text = error.what();
  if (const size_t end = text.find(": At Most 1 required"); end != std::string::npos) {
    return absl::StrCat(text.substr(0, end), " is given several times; give it once");
  }
  return text;
}

std::string BadValue(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    const std::vector<std::string>& values = option->results();
    if (std::find(values.begin(), values.end(), "") != values.end()) {
      return absl::StrCat(option->get_name(), ": wanted is a value, not ''");
    }
  }
  for (const CLI::App* verb : app.get_subcommands()) {
    if (std::string fault = BadValue(*verb); !fault.empty()) return fault;
  }
  return "";
}

std::string BadValue(const std::vector<std::string>& args) {
  for (const std::string& arg : args) {
    const size_t equals = arg.find('=');
    if (!arg.starts_with("--") || equals == std::string::npos || equals < 3) continue;
    const std::string flag = arg.substr(0, equals), value = arg.substr(equals + 1);
    if (value.empty()) return absl::StrCat(flag, ": wanted is a value, not ''");
    for (const OptionPage& common : CommonOptions()) {
      if (flag == "--" + common.name) {
        return absl::StrCat(flag, " takes no value, and is given '", value, "'");
      }
    }
  }
  return "";
}

std::string HelpCommand(const CLI::App& app) {
  const std::vector<VerbPage> pages = VerbPages(app);
  const VerbPage* page = PageOf(app, pages);
  return page == nullptr ? "partita --help" : absl::StrCat("partita help ", page->name);
}

}  // namespace partita
