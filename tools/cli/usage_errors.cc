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

void AppendOwnFlags(const CLI::App& app, std::vector<std::string>& flags) {
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  }
}

// The flags of the program, and of the verbs that were parsed.
void AppendFlags(const CLI::App& app, std::vector<std::string>& flags) {
  AppendOwnFlags(app, flags);
  for (const CLI::App* verb : app.get_subcommands()) AppendFlags(*verb, flags);
}

// The verb of that name below the program or a verb; null: none.
const CLI::App* VerbBelow(const CLI::App& app, const std::string& name) {
  const auto verbs =
      app.get_subcommands([&](const CLI::App* one) { return one->get_name() == name; });
  return verbs.empty() ? nullptr : verbs.front();
}

// Long flags among the words that neither the program has nor the verbs that the words name.
std::vector<std::string> UnknownFlags(const CLI::App& app, const std::vector<std::string>& args) {
  const CLI::App* verb = &app;
  std::vector<std::string> known, unknown;
  AppendOwnFlags(app, known);
  for (const std::string& arg : args) {
    if (const CLI::App* below = VerbBelow(*verb, arg)) {
      verb = below;
      AppendOwnFlags(*verb, known);
    } else if (arg.size() > 2 && arg.starts_with("--")) {
      const std::string flag = arg.substr(0, arg.find('='));
      if (std::find(known.begin(), known.end(), flag) == known.end()) unknown.push_back(flag);
    }
  }
  return unknown;
}

// With what the first of them that resembles a flag may have meant.
std::string UnknownArguments(const CLI::App& app, const std::vector<std::string>& unknown) {
  std::vector<std::string> flags;
  AppendFlags(app, flags);
  std::string meant;
  for (const std::string& arg : unknown) {
    if (meant.empty() && arg.starts_with("-")) {
      meant = DidYouMean(arg.substr(0, arg.find('=')), flags);
    }
  }
  return absl::StrCat("unknown arguments: ", absl::StrJoin(unknown, " "), meant);
}

// What the verb lacks, of what it has to be given.
// `words`: what it was given and does not know.
std::string MissingText(const VerbPage& page, const std::string& error,
                        const std::vector<std::string>& words) {
  if (!page.verbs.empty() && !words.empty() && !words.front().starts_with("-")) {
    return UnknownNameText(absl::StrCat("verb of ", page.name), words.front(), page.verbs);
  }
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
  const std::vector<std::string> before = UnknownFlags(app, {args.begin(), word});
  if (!before.empty()) {
    std::vector<std::string> flags;
    AppendOwnFlags(app, flags);
    const std::string meant = DidYouMean(before[0], flags);
    if (!meant.empty()) return absl::StrCat("unknown arguments: ", before[0], meant);
    return absl::StrCat(before[0],
                        " is no flag of partita itself; those of a verb come after it, as in: ",
                        "partita plan MODEL ", before[0]);
  }
  const std::string known = absl::StrJoin(names, ", ");
  AppendFlags(app, names);
  const std::string meant = DidYouMean(*word, names);
  return absl::StrCat("unknown verb '", *word, "'", meant, meant.empty() ? "; the" : " The",
                      " verbs are: ", known);
}

std::string UnknownTopic(const CLI::App& app, const std::vector<std::string>& topic) {
  const CLI::App* verb = &app;
  for (const std::string& word : topic) {
    if (word.starts_with("-")) continue;
    const CLI::App* below = VerbBelow(*verb, word);
    if (below == nullptr) {
      std::vector<std::string> names;
      for (const CLI::App* one : verb->get_subcommands([](const CLI::App*) { return true; })) {
        names.push_back(one->get_name());
      }
      if (names.empty()) return absl::StrCat("help is on one verb; given is '", word, "', too");
      return UnknownNameText("verb", word, names);
    }
    verb = below;
  }
  return "";
}

std::string MistypedFlags(const CLI::App& app, const std::vector<std::string>& args) {
  const std::vector<std::string> unknown = UnknownFlags(app, args);
  if (unknown.empty()) return "";
  const std::vector<VerbPage> pages = VerbPages(app);
  const VerbPage* page = PageOf(app, pages);
  return absl::StrCat(UnknownArguments(app, unknown),
                      page == nullptr ? "" : absl::StrCat("\nUsage: ", page->Usage()));
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
    return lacks ? UnknownArguments(app, app.remaining(true)) : error.what();
  }
  if (page->name == "launch" && !lacks && !app.remaining(true).empty() &&
      !app.remaining(true).front().starts_with("-")) {
    return "launch wants what every rank shall do: partita launch -n 2 run PLAN ...";
  }
  const std::string usage = absl::StrCat("\nUsage: ", page->Usage());
  if (lacks) return absl::StrCat(MissingText(*page, error.what(), app.remaining(true)), usage);
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError)) {
    return absl::StrCat(UnknownArguments(app, app.remaining(true)), usage);
  }
  const std::string text = error.what();
  if (const size_t end = text.find(": At Most 1 required"); end != std::string::npos) {
    return absl::StrCat(text.substr(0, end), " is given several times; give it once");
  }
  if (const size_t end = text.find(": 1 required "); end != std::string::npos) {
    return absl::StrCat(text.substr(0, end), ": a value is missing");
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
