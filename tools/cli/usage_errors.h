#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace partita {

// Errors of a command line, for people. `args`: the words of the command line, without the
// program.

// Empty: it names a verb, or no word at all.
std::string UnknownVerb(const CLI::App& app, const std::vector<std::string>& args);
// The same of a help's topic, the words behind "help": a verb, or one of its verbs.
std::string UnknownTopic(const CLI::App& app, const std::vector<std::string>& topic);
// Long flags that are none, of which CLI11 takes the value for another argument; what was parsed is
// known. Empty: none is.
std::string MistypedFlags(const CLI::App& app, const std::vector<std::string>& args);
// Text of an error of CLI11: what is missing, unknown or given twice, with the verb's usage.
std::string ParseErrorText(const CLI::App& app, const CLI::ParseError& error);
// An option that was given no text, as by a variable of a script that is not set, or a flag of every
// verb that was given one. Empty: none was. CLI11 takes the argument behind "--flag=" for its value,
// therefore before parsing; and what was parsed.
std::string BadValue(const std::vector<std::string>& args);
std::string BadValue(const CLI::App& app);
// "partita help plan", of the verb that is called.
std::string HelpCommand(const CLI::App& app);

}  // namespace partita
