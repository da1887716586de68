#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace partita {

// --help of the program and of every verb, beginning with examples.
class HelpWithExamples : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override;
};

}  // namespace partita
