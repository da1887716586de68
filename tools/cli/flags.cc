#include "tools/cli/flags.h"

#include "absl/strings/str_cat.h"

namespace partita {

std::string HelpOf(const Option& option) {
  if (option.fallback.empty()) return option.help;
  return absl::StrCat(option.help, "; default ", option.fallback);
}

std::string FlagOf(const Option& option) {
  if (option.positional) return option.name;
  const std::string letter =
      option.letter == 0 ? "" : absl::StrCat("-", std::string(1, option.letter), ",");
  return absl::StrCat(letter, "--", option.name);
}

void Constrain(const Option& option, CLI::App& verb, CLI::Option& flag) {
  if (!option.type.empty()) flag.type_name(option.type);
  if (option.required) flag.required();
  if (!option.needs.empty()) flag.needs(verb.get_option("--" + option.needs));
  if (!option.check.fault) return;
  const auto fault = option.check.fault;
  flag.check(CLI::Validator([fault](std::string& text) { return fault(text); }, ""));
}

}  // namespace partita
