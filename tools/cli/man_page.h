#pragma once

#include <span>
#include <string>

#include "tools/cli/verb_page.h"

namespace partita {

// The manual of the program, section 1, in roff with the macros of man(7): all verbs on one page.
std::string ManPage(std::span<const VerbPage> verbs);

}  // namespace partita
