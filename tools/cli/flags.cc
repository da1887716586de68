#include "tools/cli/flags.h"

#include <CLI/CLI.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/support/check.h"

namespace partita {
namespace {

CLI::Option* AddSwitch(CLI::App& verb, const Flag& flag) {
  return verb.add_flag_function(
      FlagText(flag.option),
      [read = flag.read](int64_t count) { CHECK(read({count > 0 ? "true" : "false"})); },
      HelpOf(flag.option));
}

CLI::Option* AddList(CLI::App& verb, const Flag& flag) {
  return verb.add_option_function<std::vector<std::string>>(
      FlagText(flag.option),
      [read = flag.read](const std::vector<std::string>& texts) {
        if (!read(texts)) throw CLI::ConversionError(absl::StrJoin(texts, ","));
      },
      HelpOf(flag.option));
}

CLI::Option* AddValue(CLI::App& verb, const Flag& flag) {
  CLI::Option* added = verb.add_option_function<std::string>(
      FlagText(flag.option),
      [read = flag.read](const std::string& text) {
        if (!read({text})) throw CLI::ConversionError(text);
      },
      HelpOf(flag.option));
  if (flag.kind == Flag::Kind::kOther) return added;
  if (*flag.type != '\0') added->type_name(flag.type);
  if (flag.kind == Flag::Kind::kNumber) added->type_name("FLOAT");
  added->default_str(absl::StrJoin(flag.given(), ""));
  return added;
}

Json JsonOf(const Flag& flag) {
  const std::vector<std::string> texts = flag.given();
  if (flag.kind == Flag::Kind::kList) return texts;
  if (texts.empty()) return nullptr;
  switch (flag.kind) {
    case Flag::Kind::kSwitch:
      return texts[0] == "true";
    case Flag::Kind::kWholeNumber:
      return Json::parse(texts[0]);
    case Flag::Kind::kNumber:
      return std::stod(texts[0]);
    default:
      return texts[0];
  }
}

void Constrain(const Option& option, CLI::App& verb, CLI::Option& flag) {
  if (!option.type.empty()) flag.type_name(option.type);
  if (option.required) flag.required();
  if (!option.needs.empty()) flag.needs(verb.get_option("--" + option.needs));
  if (!option.check.fault) return;
  const auto fault = option.check.fault;
  flag.check(CLI::Validator([fault](std::string& text) { return fault(text); }, ""));
}

}  // namespace

std::string HelpOf(const Option& option) {
  if (option.fallback.empty()) return option.help;
  return absl::StrCat(option.help, "; default ", option.fallback);
}

std::string FlagText(const Option& option) {
  if (option.positional) return option.name;
  const std::string letter =
      option.letter == 0 ? "" : absl::StrCat("-", std::string(1, option.letter), ",");
  return absl::StrCat(letter, "--", option.name);
}

void AddFlag(CLI::App& verb, const Flag& flag) {
  CLI::Option* added = nullptr;
  switch (flag.kind) {
    case Flag::Kind::kSwitch:
      added = AddSwitch(verb, flag);
      break;
    case Flag::Kind::kList:
      added = AddList(verb, flag);
      break;
    default:
      added = AddValue(verb, flag);
  }
  Constrain(flag.option, verb, *added);
}

void AddFlags(CLI::App& verb, std::span<const Flag> flags) {
  for (const Flag& flag : flags) AddFlag(verb, flag);
}

Json OptionsJson(std::span<const Flag> flags) {
  Json json = Json::object();
  for (const Flag& flag : flags) json[flag.option.name] = JsonOf(flag);
  return json;
}

CLI::App& Subcommand(CLI::App& app, const std::string& name, const std::string& help) {
  return *app.add_subcommand(name, help);
}

void AddVerb(CLI::App& verb, VerbTable& verbs, std::vector<Flag> flags, VerbFunction run) {
  AddFlags(verb, flags);
  verbs.Add(&verb, [flags = std::move(flags), run = std::move(run)]() -> absl::StatusOr<Answer> {
    Json given = OptionsJson(flags);
    absl::StatusOr<Answer> answer = run();
    if (answer.ok()) answer->json["options"] = std::move(given);
    return answer;
  });
}

}  // namespace partita
