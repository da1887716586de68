#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "graph/support/option.h"
#include "tools/cli/verb.h"

// Flags and help, derived from the field lists of options (see graph/support/option.h).

namespace CLI {
class App;
}  // namespace CLI

namespace partita {

// An option and the field that it is about, whose type is known to the functions only.
struct Flag {
  enum class Kind : uint8_t { kSwitch, kWholeNumber, kNumber, kText, kList, kOther };
  Option option;
  Kind kind = Kind::kOther;
  const char* type = "";                                      // what help calls a value
  std::function<std::vector<std::string>()> given;            // GivenTexts of the field
  std::function<bool(const std::vector<std::string>&)> read;  // ReadTexts into the field
};

template <class T>
constexpr Flag::Kind KindOf() {
  if constexpr (std::is_same_v<T, bool>) return Flag::Kind::kSwitch;
  if constexpr (std::is_integral_v<T>) return Flag::Kind::kWholeNumber;
  if constexpr (std::is_floating_point_v<T>) return Flag::Kind::kNumber;
  if constexpr (std::is_same_v<T, std::string>) return Flag::Kind::kText;
  return kIsList<T> ? Flag::Kind::kList : Flag::Kind::kOther;
}

// The word by which help calls a value; empty: that of its kind.
template <class T>
constexpr const char* TypeOf() {
  if constexpr (kIsOptional<T>) {
    return TypeOf<typename T::value_type>();
  } else if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
    return std::is_signed_v<T> ? "INT" : "UINT";
  } else {
    return "";
  }
}

// The flags of options, in the order of their fields. They refer to the options.
template <class Options>
std::vector<Flag> FlagsOf(Options& options) {
  std::vector<Flag> flags;
  Options::VisitFields(options, [&flags](const Option& option, auto& value) {
    using T = std::decay_t<decltype(value)>;
    Flag& flag = flags.emplace_back();
    flag.option = option;
    flag.kind = KindOf<T>();
    flag.type = TypeOf<T>();
    flag.given = [option, &value] { return GivenTexts(option, value); };
    flag.read = [&value](const std::vector<std::string>& texts) { return ReadTexts(texts, value); };
  });
  return flags;
}

// The help of an option, with what holds where it is not given.
std::string HelpOf(const Option& option);
// "-o,--output", or the name alone of an argument that has a place.
std::string FlagText(const Option& option);
// Adds a flag, or an argument, to a verb, with checks of its values and what it needs; the default
// is the field's.
void AddFlag(CLI::App& verb, const Flag& flag);
void AddFlags(CLI::App& verb, std::span<const Flag> flags);

// {"beta": 200, "save": null}: every option with its value, or null.
Json OptionsJson(std::span<const Flag> flags);

// A subcommand of `app`.
CLI::App& Subcommand(CLI::App& app, const std::string& name, const std::string& help);

// A verb's flags, and what runs with the options that they have filled in. Its answer has them as
// member "options".
void AddVerb(CLI::App& verb, VerbTable& verbs, std::vector<Flag> flags, VerbFunction run);
template <class Options, class Run>
void AddVerb(CLI::App& verb, VerbTable& verbs, std::shared_ptr<Options> options, Run run) {
  AddVerb(verb, verbs, FlagsOf(*options),
          [options, run = std::move(run)]() -> absl::StatusOr<Answer> { return run(*options); });
}

}  // namespace partita
