#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "graph/support/option.h"
#include "tools/cli/verb.h"

// Flags and help, derived from the field lists of options (see graph/support/option.h).

namespace partita {

// The help of an option, with what holds where it is not given.
std::string HelpOf(const Option& option);
// "-o,--output", or the name alone of an argument that has a place.
std::string FlagOf(const Option& option);
// Checks of the option's values, and what it needs.
void Constrain(const Option& option, CLI::App& verb, CLI::Option& flag);

template <class T>
CLI::Option* AddOption(CLI::App& verb, const Option& option, T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    return verb.add_flag(FlagOf(option), value, HelpOf(option));
  } else if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
    CLI::Option* flag = verb.add_option(FlagOf(option), value, HelpOf(option));
    if (OptionText(value) == option.unset) flag->default_str("");
    return flag;
  } else {
    CLI::Option* flag = verb.add_option_function<std::vector<std::string>>(
        FlagOf(option),
        [&value](const std::vector<std::string>& texts) {
          if (!ReadTexts(texts, value)) throw CLI::ConversionError(CLI::detail::join(texts));
        },
        HelpOf(option));
    if (!kIsList<T>) flag->expected(1);
    return flag;
  }
}

// A flag, or an argument, for each field; a flag's default is the field's.
template <class Options>
void AddOptions(CLI::App& verb, Options& options) {
  Options::VisitFields(options, [&verb](const Option& option, auto& value) {
    Constrain(option, verb, *AddOption(verb, option, value));
  });
}

// {"evaluations": 2000, "save": null}: every option with its value, or null.
template <class Options>
Json OptionsJson(const Options& options) {
  Json json = Json::object();
  Options::VisitFields(options, [&json](const Option& option, const auto& value) {
    using T = std::decay_t<decltype(value)>;
    const std::vector<std::string> texts = GivenTexts(option, value);
    if constexpr (kIsList<T>) {
      json[option.name] = texts;
    } else if constexpr (std::is_arithmetic_v<T>) {
      json[option.name] = texts.empty() ? Json(nullptr) : Json(value);
    } else {
      json[option.name] = texts.empty() ? Json(nullptr) : Json(texts[0]);
    }
  });
  return json;
}

// Declares a verb's flags and what it runs: `run` is given the options. Its answer has them as
// member "options".
template <class Options, class Run>
void AddVerb(CLI::App& verb, VerbTable& verbs, std::shared_ptr<Options> options, Run run) {
  AddOptions(verb, *options);
  verbs.Add(&verb, [options, run = std::move(run)]() -> absl::StatusOr<Answer> {
    Json given = OptionsJson(*options);
    absl::StatusOr<Answer> answer = run(*options);
    if (answer.ok()) answer->json["options"] = std::move(given);
    return answer;
  });
}

}  // namespace partita
