#pragma once

#include <charconv>
#include <concepts>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "graph/support/strong_int.h"

// The options of a component are a plain struct that lists its fields once:
//
//   struct SearchOptions {
//     int64_t evaluations = 2000;
//     template <class Self, class Visitor>
//     static void VisitFields(Self& self, Visitor&& visit) {
//       visit(Option{.name = "evaluations", .help = "strategies to evaluate",
//                    .check = WholeNumber(1), .changes_plan = true}, self.evaluations);
//     }
//   };
//
// Flags and --help, the options in JSON answers, a plan's provenance and what the ranks of a run
// compare follow from that list (OptionsText, PlanOptions, tools/cli/flags.h). A struct of several
// components visits the fields of each. Members that are no options (callbacks, stop flags) are not
// listed.

namespace partita {

// Check of a value's text, before it is parsed.
struct OptionCheck {
  // States what was found and what is wanted; empty where the text is a value. No function: any
  // text is.
  std::function<std::string(const std::string& text)> fault;
  std::vector<std::string> examples;    // some that are values
  std::vector<std::string> names = {};  // all values, but for files, where they are names
  bool is_name_or_file = false;
};

// A whole number from `low` to `high`.
OptionCheck WholeNumber(int64_t low, int64_t high = std::numeric_limits<int64_t>::max());
// A whole number of 64 bits without sign.
OptionCheck Seed();
// A finite number that is at least `low`, or above it.
OptionCheck NumberFrom(double low);
OptionCheck NumberAbove(double low);
// A number in [0, 1).
OptionCheck Fraction();
// A number of bytes above 0, alone or with a unit: 800MB (10^6), 12GiB (2^30), ...
OptionCheck ByteCount();
// One of these names, which the message lists. `what`: "search".
OptionCheck NameOf(const std::string& what, std::vector<std::string> names);
// The names of a table whose rows have one.
template <class Table>
std::vector<std::string> NamesOf(const Table& table) {
  std::vector<std::string> names;
  for (const auto& row : table) names.emplace_back(row.name);
  return names;
}

// Facts of a field besides its type and its default, which the struct has.
struct Option {
  std::string name;  // of its flag, without dashes
  std::string help;  // one sentence, or the predicate of one
  OptionCheck check = {};
  std::string unset = {};     // the text of the value that stands for "not given"
  std::string fallback = {};  // what holds where it is not given, if the default does not say that
  std::string type = {};      // what the help calls a value; empty: the type's name
  std::string needs = {};     // the option without which it means nothing
  std::string group = {};     // the heading under which help shows it; empty: InGroup says
  char letter = 0;            // of a short flag
  bool positional = false;    // an argument of its place, without a flag
  bool required = false;
  bool changes_plan = false;  // part of a plan's provenance
  bool of_one_rank = false;   // may differ between the ranks of a run
};

// A visitor that visits fields as `visit` does, those without a heading of their own under this one.
// `visit` outlives it.
template <class Visitor>
auto InGroup(std::string group, Visitor& visit) {
  return [group = std::move(group), &visit](Option option, auto& value) {
    if (option.group.empty()) option.group = group;
    visit(option, value);
  };
}

// The text of a value, from which ReadOption reads it again. Types of components add overloads.
template <class T>
  requires std::is_arithmetic_v<T>
std::string OptionText(T value) {
  if constexpr (std::same_as<T, bool>) {
    return value ? "true" : "false";
  } else {
    char buffer[32];  // the shortest text that reads back as the value
    return std::string(buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr);
  }
}
inline std::string OptionText(const std::string& value) { return value; }

template <class T>
  requires std::is_arithmetic_v<T>
bool ReadOption(absl::string_view text, T& value) {
  if constexpr (std::same_as<T, bool>) {
    value = text == "true";
    return value || text == "false";
  } else {
    const char* end = text.data() + text.size();
    const auto read = std::from_chars(text.data(), end, value);
    return read.ec == std::errc() && read.ptr == end;
  }
}
inline bool ReadOption(absl::string_view text, std::string& value) {
  value = std::string(text);
  return true;
}

std::string OptionText(Bytes value);
bool ReadOption(absl::string_view text, Bytes& value);

template <class T>
inline constexpr bool kIsList = false;
template <class T>
inline constexpr bool kIsList<std::vector<T>> = true;
template <class T>
inline constexpr bool kIsOptional = false;
template <class T>
inline constexpr bool kIsOptional<std::optional<T>> = true;

// The texts with which a field is given: one, several of a list, none where it is not given.
template <class T>
std::vector<std::string> GivenTexts(const Option& option, const T& value) {
  std::vector<std::string> texts;
  if constexpr (kIsList<T>) {
    for (const auto& one : value) texts.push_back(OptionText(one));
  } else if constexpr (kIsOptional<T>) {
    if (value.has_value()) texts.push_back(OptionText(*value));
  } else {
    texts.push_back(OptionText(value));
    if (texts[0] == option.unset) texts.clear();
  }
  return texts;
}

// Reads a field from its texts; false where one is no value of its type.
template <class T>
bool ReadTexts(const std::vector<std::string>& texts, T& value) {
  if constexpr (kIsList<T>) {
    value.clear();
    for (const std::string& text : texts) {
      if (!ReadOption(text, value.emplace_back())) return false;
    }
    return true;
  } else if constexpr (kIsOptional<T>) {
    value.reset();
    return texts.empty() || ReadOption(texts.back(), value.emplace());
  } else {
    return texts.empty() || ReadOption(texts.back(), value);
  }
}

// " --evaluations 2000 --seed 0": what the ranks of a run have in common. Equal options have equal
// texts, and others have others.
template <class Options>
std::string OptionsText(const Options& options) {
  std::string all;
  Options::VisitFields(options, [&all](const Option& option, const auto& value) {
    if (option.of_one_rank) return;
    for (const std::string& text : GivenTexts(option, value)) {
      absl::StrAppend(&all, " --", option.name, " ", text);
    }
  });
  return all;
}

// {"evaluations=2000", "seed=0"}: those with which a plan was found.
template <class Options>
std::vector<std::string> PlanOptions(const Options& options) {
  std::vector<std::string> all;
  Options::VisitFields(options, [&all](const Option& option, const auto& value) {
    if (!option.changes_plan) return;
    for (const std::string& text : GivenTexts(option, value)) {
      all.push_back(absl::StrCat(option.name, "=", text));
    }
  });
  return all;
}

}  // namespace partita
