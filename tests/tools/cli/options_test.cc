// Every field of every verb's options, walked: what derives from the lists of fields does so for
// each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "tools/cli/flags.h"
#include "tools/cli/verb_options.h"

namespace partita {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

std::string OneLine(const std::string& text) {
  return absl::StrJoin(absl::StrSplit(text, absl::ByAnyChar(" \n"), absl::SkipEmpty()), " ");
}

// Calls visit(verb, options, option, value) for every field of every verb.
template <class Visitor>
void VisitAll(Visitor&& visit) {
  VisitVerbOptions([&visit](const std::string& verb, auto options) {
    using Options = decltype(options);
    Options::VisitFields(options, [&](const Option& option, auto& value) {
      SCOPED_TRACE(absl::StrCat(verb, " --", option.name));
      visit(options, option, value);
    });
  });
}

// Texts that are values of a field, its default's among them.
template <class T>
std::vector<std::string> Texts(const Option& option, const T& value) {
  std::vector<std::string> texts = GivenTexts(option, value);
  const std::vector<std::string>& examples = option.check.examples;
  texts.insert(texts.end(), examples.begin(), examples.end());
  if (std::is_same_v<T, bool>) texts = {"true", "false"};
  if (texts.empty() || (texts.size() == 1 && examples.empty())) texts.push_back("some/text");
  return texts;
}

// Calls use(field) with the field of that name.
template <class Options, class Use>
void WithField(Options& options, const std::string& name, Use&& use) {
  Options::VisitFields(options, [&](const Option& option, auto& value) {
    if (option.name == name) use(option, value);
  });
}

// The options with one field given on the command line.
template <class Options>
Options Parsed(Options options, const std::string& name, const std::string& text) {
  CLI::App app;
  app.option_defaults()->always_capture_default();
  std::vector<std::string> line;
  WithField(options, name, [&](Option option, auto& value) {
    option.needs.clear();
    option.required = false;
    Constrain(option, app, *AddOption(app, option, value));
    line = {option.positional ? text : absl::StrCat("--", name, "=", text)};
  });
  app.parse(line);
  return options;
}

TEST(OptionsTest, EveryFieldIsInTheHelpWithItsDefault) {
  VisitVerbOptions([](const std::string& verb, auto options) {
    CLI::App app;
    app.option_defaults()->always_capture_default();
    AddOptions(app, options);
    const std::string help = OneLine(app.help());
    std::set<std::string> names;
    decltype(options)::VisitFields(options, [&](const Option& option, const auto& value) {
      SCOPED_TRACE(absl::StrCat(verb, " --", option.name));
      EXPECT_TRUE(names.insert(option.name).second) << "twice";
      EXPECT_GT(option.help.size(), 4u);
      EXPECT_THAT(help, HasSubstr(FlagOf(option)));
      EXPECT_THAT(help, HasSubstr(OneLine(HelpOf(option))));
      using T = std::decay_t<decltype(value)>;
      if constexpr (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) {
        const std::string flag = option.positional ? option.name : "--" + option.name;
        EXPECT_EQ(app.get_option(flag)->get_default_str(),
                  absl::StrJoin(GivenTexts(option, value), ""));
      }
    });
  });
}

TEST(OptionsTest, EveryFieldParsesFromItsOwnPrintedForm) {
  int tried = 0;
  VisitAll([&](const auto& options, const Option& option, const auto& value) {
    for (const std::string& text : Texts(option, value)) {
      if (option.check.fault) {
        ASSERT_EQ(option.check.fault(text), "");
      }
      auto parsed = Parsed(options, option.name, text);
      WithField(parsed, option.name, [&](const Option& field, const auto& read) {
        EXPECT_THAT(GivenTexts(field, read), ElementsAre(text));
        ++tried;
      });
    }
  });
  EXPECT_GT(tried, 200);
}

TEST(OptionsTest, RanksCompareEveryFieldButThoseOfOneRank) {
  std::set<std::string> of_one_rank;
  VisitAll([&](const auto& options, const Option& option, const auto& value) {
    std::set<std::string> texts;
    std::vector<std::string> values = Texts(option, value);
    const std::set<std::string> different(values.begin(), values.end());
    for (const std::string& text : different) {
      texts.insert(OptionsText(Parsed(options, option.name, text)));
    }
    EXPECT_EQ(texts.size(), option.of_one_rank ? 1 : different.size());
  });
  RunFlags::VisitFields(*std::make_unique<RunFlags>(), [&](const Option& option, const auto&) {
    if (option.of_one_rank) of_one_rank.insert(option.name);
  });
  EXPECT_THAT(of_one_rank,
              UnorderedElementsAre("plan", "model", "timeline", "data_workers", "data_cache",
                                   "no_replay", "profile", "hang_seconds", "key_file", "dump_dir"));
}

TEST(OptionsTest, AProvenanceHasEveryFieldThatChangesThePlan) {
  VisitAll([&](const auto& options, const Option& option, const auto& value) {
    for (const std::string& text : Texts(option, value)) {
      const std::vector<std::string> found = PlanOptions(Parsed(options, option.name, text));
      const std::string own = absl::StrCat(option.name, "=", text);
      const bool has = std::find(found.begin(), found.end(), own) != found.end();
      EXPECT_EQ(has, option.changes_plan) << own;
    }
  });
  std::set<std::string> others;
  PlanFlags flags;
  PlanFlags::VisitFields(flags, [&](const Option& option, const auto&) {
    if (!option.changes_plan) others.insert(option.name);
  });
  EXPECT_THAT(others, UnorderedElementsAre("output", "replace", "dump_dir", "stop_after"));
}

TEST(OptionsTest, AnswersHaveEveryField) {
  VisitVerbOptions([](const std::string& verb, auto options) {
    const Json json = OptionsJson(options);
    size_t fields = 0;
    decltype(options)::VisitFields(options, [&](const Option& option, const auto&) {
      EXPECT_TRUE(json.contains(option.name)) << verb << " --" << option.name;
      ++fields;
    });
    EXPECT_EQ(json.size(), fields) << verb;
  });
}

TEST(OptionsTest, AWrongValueIsNamedWithItsFlagAndWhatIsWanted) {
  int tried = 0;
  VisitAll([&](const auto& options, const Option& option, const auto&) {
    if (!option.check.fault) return;
    for (const std::string text : {"-", "-7", "none_such", "1e400"}) {
      const std::string fault = option.check.fault(text);
      if (fault.empty()) continue;
      EXPECT_THAT(fault, HasSubstr(absl::StrCat("'", text, "'")));
      if (option.positional && text[0] == '-') continue;
      try {
        Parsed(options, option.name, text);
        ADD_FAILURE() << text << " is taken";
      } catch (const CLI::ParseError& error) {
        EXPECT_THAT(error.what(), HasSubstr(option.name));
        EXPECT_THAT(error.what(), HasSubstr(fault));
        ++tried;
      }
    }
  });
  EXPECT_GT(tried, 100);
}

TEST(OptionsTest, ListsAndAbsentValuesReadBack) {
  RunFlags flags = Parsed(RunFlags(), "backend", "gpu=cuda");
  EXPECT_EQ(flags.request.backends[0].device_class, "gpu");
  EXPECT_EQ(flags.request.backends[0].backend, "cuda");
  EXPECT_EQ(Parsed(RunFlags(), "precision", "tf32").precision, Precision::kTf32);
  EXPECT_FALSE(RunFlags().keep.has_value());
  EXPECT_EQ(Parsed(RunFlags(), "keep", "5").keep, 5);
}

}  // namespace
}  // namespace partita
