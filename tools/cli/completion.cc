#include "tools/cli/completion.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "graph/support/check.h"

namespace partita {
namespace {

// The verbs that begin with it, "" for all of one word: their next word, and their help.
std::vector<std::pair<std::string, std::string>> Below(const std::string& verb,
                                                       std::span<const VerbPage> verbs) {
  const std::string before = verb.empty() ? "" : verb + " ";
  std::vector<std::pair<std::string, std::string>> words;
  for (const VerbPage& one : verbs) {
    if (!one.name.starts_with(before)) continue;
    const std::string rest = one.name.substr(before.size());
    if (rest.find(' ') == std::string::npos) words.emplace_back(rest, one.help);
  }
  return words;
}

std::string WordsBelow(const std::string& verb, std::span<const VerbPage> verbs) {
  std::vector<std::string> words;
  for (const auto& [word, help] : Below(verb, verbs)) words.push_back(word);
  return absl::StrJoin(words, " ");
}

// "--output -o" of an option with a letter.
std::vector<std::string> FlagsOf(const OptionPage& option) {
  std::vector<std::string> flags = {absl::StrCat("--", option.name)};
  if (option.letter != 0) flags.push_back(absl::StrCat("-", std::string(1, option.letter)));
  return flags;
}

// "--json --quiet ...".
std::string CommonWords() {
  std::vector<std::string> words;
  for (const OptionPage& common : CommonOptions()) words.push_back("--" + common.name);
  return absl::StrJoin(words, " ");
}

// ---- bash

// In `values`, and `files`, what comes where a flag's value is wanted, or an argument.
std::string BashValues(const OptionPage& option) {
  std::string text;
  if (!option.values.empty()) {
    absl::StrAppend(&text, "values='", absl::StrJoin(option.values, " "), "'; ");
  }
  return absl::StrCat(text, "files=", option.takes_files ? "yes" : "no");
}

std::string BashScript(std::span<const VerbPage> verbs) {
  std::string names, after_flag, flags, arguments;
  for (const VerbPage& verb : verbs) {
    const std::string quoted = absl::StrCat("'", verb.name, "'");
    absl::StrAppend(&names, names.empty() ? "" : " | ", quoted);
    std::vector<std::string> words;
    for (const OptionPage& option : verb.options) {
      if (option.positional) {
        absl::StrAppend(&arguments, "      ", quoted, ") ", BashValues(option), " ;;\n");
        continue;
      }
      const std::vector<std::string> own = FlagsOf(option);
      words.insert(words.end(), own.begin(), own.end());
      if (!option.takes_value()) continue;
      absl::StrAppend(&after_flag, "    '", verb.name, " ",
                      absl::StrJoin(own, absl::StrCat("' | '", verb.name, " ")),
                      "') wanted=value; ", BashValues(option), " ;;\n");
    }
    words.push_back(CommonWords());
    absl::StrAppend(&flags, "      ", quoted, ") values='", absl::StrJoin(words, " "), "' ;;\n");
    const std::string below = WordsBelow(verb.name, verbs);
    if (below.empty()) continue;
    absl::StrAppend(&arguments, "      ", quoted, ") values='", below, "' ;;\n");
  }
  return absl::StrCat(
      "# Completion of partita for bash: source it, or put it where bash-completion looks.\n"
      "_partita() {\n"
      "  local current=${COMP_WORDS[COMP_CWORD]} verb= word values= files=no wanted=\n"
      "  COMPREPLY=()\n"
      "  for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
      "    [ \"$verb\" = launch ] && [ \"$word\" != launch ] && case $word in ",
      absl::StrReplaceAll(WordsBelow("", verbs), {{" ", " | "}}),
      ") verb= ;; esac\n"
      "    case \"${verb:+$verb }$word\" in\n      ",
      names,
      ") verb=${verb:+$verb }$word ;;\n"
      "    esac\n"
      "  done\n"
      "  case \"$verb ${COMP_WORDS[COMP_CWORD-1]}\" in\n",
      after_flag,
      "  esac\n"
      "  if [ -n \"$wanted\" ]; then\n"
      "    :\n"
      "  elif [[ $current == -* ]]; then\n"
      "    case \"$verb\" in\n"
      "      '') values='--version ",
      CommonWords(), "' ;;\n", flags,
      "    esac\n"
      "  else\n"
      "    case \"$verb\" in\n"
      "      '') values='",
      WordsBelow("", verbs), "' ;;\n", arguments,
      "    esac\n"
      "  fi\n"
      "  COMPREPLY=($(compgen -W \"$values\" -- \"$current\"))\n"
      "  [ \"$files\" = no ] || COMPREPLY+=($(compgen -f -- \"$current\"))\n"
      "}\n"
      "complete -o filenames -F _partita partita\n");
}

// ---- zsh

// Text of _arguments, within single quotes: no closing bracket, colon or quote of its own.
std::string ZshHelp(const std::string& help) {
  return absl::StrReplaceAll(
      help, {{"\\", "\\\\"}, {"[", "\\["}, {"]", "\\]"}, {":", "\\:"}, {"'", "'\\''"}});
}

// ":name:(a b)", ":name:_files", or ":name:" for others.
std::string ZshValues(const OptionPage& option) {
  const std::string names = absl::StrCat("(", absl::StrJoin(option.values, " "), ")");
  std::string action;
  if (!option.values.empty() && option.takes_files) {
    action = absl::StrCat("{_alternative \"names:name:", names, "\" \"files:file:_files\"}");
  } else if (!option.values.empty()) {
    action = names;
  } else if (option.takes_files) {
    action = "_files";
  }
  return absl::StrCat(":", option.name, ":", action);
}

std::string ZshScript(std::span<const VerbPage> verbs) {
  std::string text =
      "#compdef partita\n"
      "# Completion of partita for zsh: as _partita in a folder of fpath.\n";
  const auto function = [](const std::string& verb) {
    return absl::StrCat("_partita", verb.empty() ? "" : "_",
                        absl::StrReplaceAll(verb, {{" ", "_"}}));
  };
  const auto add_below = [&](const std::string& verb) {
    absl::StrAppend(&text, function(verb),
                    "() {\n  local line state\n  local -a verbs\n  verbs=(\n");
    for (const auto& [word, help] : Below(verb, verbs)) {
      absl::StrAppend(&text, "    '", word, ":", ZshHelp(help), "'\n");
    }
    absl::StrAppend(&text, "  )\n  _arguments -C '--help[what it does]' ",
                    "'1: :->verb' '*:: :->rest'\n  case $state in\n",
                    "    verb) _describe verb verbs ;;\n    rest)\n      case $line[1] in\n");
    for (const auto& [word, help] : Below(verb, verbs)) {
      absl::StrAppend(&text, "        ", word, ") ",
                      function(verb.empty() ? word : absl::StrCat(verb, " ", word)), " ;;\n");
    }
    absl::StrAppend(&text, "      esac ;;\n  esac\n}\n");
  };
  for (const VerbPage& verb : verbs) {
    if (!Below(verb.name, verbs).empty()) {
      add_below(verb.name);
      continue;
    }
    absl::StrAppend(&text, function(verb.name), "() {\n  _arguments");
    for (const OptionPage& common : CommonOptions()) {
      absl::StrAppend(&text, " \\\n    '--", common.name, "[", common.help, "]'");
    }
    for (const OptionPage& option : verb.options) {
      if (option.positional) {
        absl::StrAppend(&text, " \\\n    '*", ZshValues(option), "'");
        continue;
      }
      for (const std::string& flag : FlagsOf(option)) {
        absl::StrAppend(&text, " \\\n    '", flag, "[", ZshHelp(option.help), "]",
                        option.takes_value() ? ZshValues(option) : "", "'");
      }
    }
    absl::StrAppend(&text, "\n}\n");
  }
  add_below("");
  return absl::StrCat(text, "_partita \"$@\"\n");
}

// ---- fish

std::string FishText(const std::string& help) {
  return absl::StrCat("'", absl::StrReplaceAll(help, {{"\\", "\\\\"}, {"'", "\\'"}}), "'");
}

// "-n '...'": where all words of the verb have been seen.
std::string FishSeen(const std::string& verb) {
  if (verb.empty()) return "-n __fish_use_subcommand";
  std::vector<std::string> seen;
  for (absl::string_view word : absl::StrSplit(verb, ' ')) {
    seen.push_back(absl::StrCat("__fish_seen_subcommand_from ", word));
  }
  return absl::StrCat("-n '", absl::StrJoin(seen, "; and "), "'");
}

std::string FishValues(const OptionPage& option) {
  if (option.values.empty()) return option.takes_files ? "" : " -f";
  return absl::StrCat(option.takes_files ? "" : " -f", " -a '", absl::StrJoin(option.values, " "),
                      "'");
}

std::string FishScript(std::span<const VerbPage> verbs) {
  std::string text = "# Completion of partita for fish: as completions/partita.fish.\n";
  absl::StrAppend(&text, "complete -c partita -f\n");
  for (const OptionPage& common : CommonOptions()) {
    absl::StrAppend(&text, "complete -c partita -l ", common.name, " -d ", FishText(common.help),
                    "\n");
  }
  const auto add_below = [&](const std::string& verb) {
    for (const auto& [word, help] : Below(verb, verbs)) {
      absl::StrAppend(&text, "complete -c partita ", FishSeen(verb), " -a ", word, " -d ",
                      FishText(help), "\n");
    }
  };
  add_below("");
  for (const VerbPage& verb : verbs) {
    add_below(verb.name);
    for (const OptionPage& option : verb.options) {
      absl::StrAppend(&text, "complete -c partita ", FishSeen(verb.name));
      if (option.positional) {
        absl::StrAppend(&text, option.takes_files ? " -F" : "", FishValues(option), "\n");
        continue;
      }
      absl::StrAppend(&text, " -l ", option.name);
      if (option.letter != 0) absl::StrAppend(&text, " -s ", std::string(1, option.letter));
      if (option.takes_value()) {
        absl::StrAppend(&text, " -r", option.takes_files ? " -F" : "", FishValues(option));
      }
      absl::StrAppend(&text, " -d ", FishText(option.help), "\n");
    }
  }
  return text;
}

}  // namespace

std::vector<std::string> CompletionShells() { return {"bash", "zsh", "fish"}; }

std::string CompletionScript(const std::string& shell, std::span<const VerbPage> verbs) {
  if (shell == "bash") return BashScript(verbs);
  if (shell == "zsh") return ZshScript(verbs);
  CHECK_EQ(shell, "fish");
  return FishScript(verbs);
}

}  // namespace partita
