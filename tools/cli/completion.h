#pragma once

#include <span>
#include <string>
#include <vector>

#include "tools/cli/verb_page.h"

namespace partita {

// "bash", "zsh", "fish".
std::vector<std::string> CompletionShells();
// A script that completes the program's verbs, flags and values in that shell, one of
// CompletionShells(). A verb is followed by those that begin with it.
std::string CompletionScript(const std::string& shell, std::span<const VerbPage> verbs);

}  // namespace partita
