#pragma once

#include <span>
#include <string>
#include <vector>

namespace CLI {
class App;
}  // namespace CLI

namespace partita {

// Description of an option of a verb, for help, the manual and completion in shells.
struct OptionPage {
  std::string name;      // without dashes
  std::string help;      // what it is, without its default
  std::string type;      // what a value is called, "INT"; empty for switches
  std::string standard;  // what holds where it is not given; empty: nothing, or not worth a word
  std::string group;     // the heading under which it stands
  std::string needs;     // the option without which it means nothing
  char letter = 0;       // of a short flag; 0: there is none
  bool positional = false, required = false, is_list = false;
  std::vector<std::string> values;  // names that it takes; empty: others
  bool takes_files = false;

  bool takes_value() const { return !type.empty(); }
  // "-o, --output TEXT"; "MODEL", "[PLANS...]" of an argument that has a place.
  std::string Form() const;
  // The help with the default and what it needs.
  std::string Text() const;
};
// The same of a verb.
struct VerbPage {
  std::string name;   // "plan", "machine show"
  std::string group;  // the heading under which the program's help has it
  std::string help;
  std::string examples;                 // lines, indented by two
  std::vector<OptionPage> options;      // in order, without those of every verb
  std::vector<std::string> verbs = {};  // of `machine`: those below it, without its name

  // "partita plan [FLAGS] MODEL".
  std::string Usage() const;
  // The headings of its flags, in order.
  std::vector<std::string> Groups() const;
};

// The pages of all verbs of the program, each followed by those below it.
std::vector<VerbPage> VerbPages(const CLI::App& app);

// The flags that every verb has.
std::span<const OptionPage> CommonOptions();

// Lines of examples of a verb, "machine show", or of the program, "".
std::string ExamplesOf(const std::string& verb);

}  // namespace partita
