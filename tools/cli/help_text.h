#pragma once

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <span>
#include <string>

#include "tools/cli/verb_page.h"

namespace partita {

// Help of the program, and of a verb: what it is, usage, examples, and its flags under headings, in
// lines of at most `width` characters.
std::string ProgramHelp(std::span<const VerbPage> verbs, size_t width);
std::string VerbHelp(const VerbPage& verb, std::span<const VerbPage> verbs, size_t width);

// The same as CLI11's answer to --help.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override;
};

// "  0    good", a line for each exit code.
std::string ExitCodesText(size_t width);

}  // namespace partita
