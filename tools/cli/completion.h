#pragma once

#include <span>
#include <string>
#include <vector>

namespace partita {

// An option of a verb, as shells complete it.
struct CompletedOption {
  std::string name;  // without dashes
  std::string help;
  char letter = 0;  // of a short flag; 0: there is none
  bool positional = false;
  bool takes_value = true;
  std::vector<std::string> values;  // names that it takes; empty: others
  bool takes_files = false;
};
struct CompletedVerb {
  std::string name;  // "plan", "machine show"
  std::string help;
  std::vector<CompletedOption> options;
};

// "bash", "zsh", "fish".
std::vector<std::string> CompletionShells();
// A script that completes the program's verbs, flags and values in that shell, one of
// CompletionShells(). A verb is followed by those that begin with it.
std::string CompletionScript(const std::string& shell, std::span<const CompletedVerb> verbs);

}  // namespace partita
