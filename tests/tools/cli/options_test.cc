// Every field of every verb's options, walked: what derives from the lists of fields does so for
// each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <memory>
#include <set>
#include <string>
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

// The options of a verb as they stand before a command line is read, whatever their type.
struct Verb {
  std::string name;
  std::shared_ptr<void> options;
  std::vector<Flag> flags;                               // of `options`
  std::function<std::string()> text;                     // OptionsText
  std::function<std::vector<std::string>()> provenance;  // PlanOptions
};

using MakeVerb = std::function<Verb()>;
std::vector<MakeVerb> VerbMakers() {
  std::vector<MakeVerb> makers;
  VisitVerbOptions([&makers](const std::string& name, auto options) {
    makers.push_back([name, options] {
      const auto own = std::make_shared<decltype(options)>(options);
      return Verb{name, own, FlagsOf(*own), [own] { return OptionsText(*own); },
                  [own] { return PlanOptions(*own); }};
    });
  });
  return makers;
}

const Flag& FlagNamed(const Verb& verb, const std::string& name) {
  const auto found = std::find_if(verb.flags.begin(), verb.flags.end(),
                                  [&](const Flag& flag) { return flag.option.name == name; });
  EXPECT_TRUE(found != verb.flags.end()) << name;
  return *found;
}

// Calls visit(make, flag) for every field of every verb.
void VisitAll(const std::function<void(const MakeVerb&, const Flag&)>& visit) {
  for (const MakeVerb& make : VerbMakers()) {
    const Verb verb = make();
    for (const Flag& flag : verb.flags) {
      SCOPED_TRACE(absl::StrCat(verb.name, " --", flag.option.name));
      visit(make, flag);
    }
  }
}

// Texts that are values of a field, its default's among them.
std::vector<std::string> Texts(const Flag& flag) {
  std::vector<std::string> texts = flag.given();
  const std::vector<std::string>& examples = flag.option.check.examples;
  texts.insert(texts.end(), examples.begin(), examples.end());
  if (flag.kind == Flag::Kind::kSwitch) texts = {"true", "false"};
  if (texts.empty() || (texts.size() == 1 && examples.empty())) texts.push_back("some/text");
  return texts;
}

// Reads a command line with one option.
void Parse(const Verb& verb, const std::string& name, const std::string& text) {
  CLI::App app;
  app.option_defaults()->always_capture_default();
  Flag flag = FlagNamed(verb, name);
  flag.option.needs.clear();
  flag.option.required = false;
  AddFlag(app, flag);
  std::vector<std::string> line = {flag.option.positional ? text
                                                          : absl::StrCat("--", name, "=", text)};
  app.parse(line);
}

Verb Parsed(const MakeVerb& make, const std::string& name, const std::string& text) {
  Verb verb = make();
  Parse(verb, name, text);
  return verb;
}

TEST(OptionsTest, EveryFieldIsInTheHelpWithItsDefault) {
  for (const MakeVerb& make : VerbMakers()) {
    const Verb verb = make();
    CLI::App app;
    app.option_defaults()->always_capture_default();
    AddFlags(app, verb.flags);
    const std::string help = OneLine(app.help());
    std::set<std::string> names;
    for (const Flag& flag : verb.flags) {
      const Option& option = flag.option;
      SCOPED_TRACE(absl::StrCat(verb.name, " --", option.name));
      EXPECT_TRUE(names.insert(option.name).second) << "twice";
      EXPECT_GT(option.help.size(), 4u);
      EXPECT_THAT(help, HasSubstr(FlagText(option)));
      EXPECT_THAT(help, HasSubstr(OneLine(HelpOf(option))));
      if (flag.kind != Flag::Kind::kWholeNumber && flag.kind != Flag::Kind::kNumber) continue;
      const std::string name = option.positional ? option.name : "--" + option.name;
      EXPECT_EQ(app.get_option(name)->get_default_str(), absl::StrJoin(flag.given(), ""));
    }
  }
}

TEST(OptionsTest, EveryFieldParsesFromItsOwnPrintedForm) {
  int tried = 0;
  VisitAll([&](const MakeVerb& make, const Flag& flag) {
    for (const std::string& text : Texts(flag)) {
      if (flag.option.check.fault) {
        ASSERT_EQ(flag.option.check.fault(text), "");
      }
      const Verb parsed = Parsed(make, flag.option.name, text);
      EXPECT_THAT(FlagNamed(parsed, flag.option.name).given(), ElementsAre(text));
      ++tried;
    }
  });
  EXPECT_GT(tried, 200);
}

TEST(OptionsTest, RanksCompareEveryFieldButThoseOfOneRank) {
  std::set<std::string> of_one_rank;
  VisitAll([&](const MakeVerb& make, const Flag& flag) {
    std::set<std::string> texts;
    std::vector<std::string> values = Texts(flag);
    const std::set<std::string> different(values.begin(), values.end());
    for (const std::string& text : different) {
      texts.insert(Parsed(make, flag.option.name, text).text());
    }
    EXPECT_EQ(texts.size(), flag.option.of_one_rank ? 1 : different.size());
  });
  RunFlags flags;
  for (const Flag& flag : FlagsOf(flags)) {
    if (flag.option.of_one_rank) of_one_rank.insert(flag.option.name);
  }
  EXPECT_THAT(of_one_rank,
              UnorderedElementsAre("plan", "model", "timeline", "data_workers", "data_cache",
                                   "no_replay", "profile", "hang_seconds", "key_file", "dump_dir"));
}

TEST(OptionsTest, AProvenanceHasEveryFieldThatChangesThePlan) {
  VisitAll([&](const MakeVerb& make, const Flag& flag) {
    for (const std::string& text : Texts(flag)) {
      const std::string own = absl::StrCat(flag.option.name, "=", text);
      const std::vector<std::string> found = Parsed(make, flag.option.name, text).provenance();
      const bool has = std::find(found.begin(), found.end(), own) != found.end();
      EXPECT_EQ(has, flag.option.changes_plan) << own;
    }
  });
  std::set<std::string> others;
  PlanFlags flags;
  for (const Flag& flag : FlagsOf(flags)) {
    if (!flag.option.changes_plan) others.insert(flag.option.name);
  }
  EXPECT_THAT(others, UnorderedElementsAre("output", "pareto", "replace", "search_threads",
                                           "dump_dir", "stop_after"));
}

TEST(OptionsTest, AnswersHaveEveryField) {
  for (const MakeVerb& make : VerbMakers()) {
    const Verb verb = make();
    const Json json = OptionsJson(verb.flags);
    for (const Flag& flag : verb.flags) {
      EXPECT_TRUE(json.contains(flag.option.name)) << verb.name << " --" << flag.option.name;
    }
    EXPECT_EQ(json.size(), verb.flags.size()) << verb.name;
  }
}

TEST(OptionsTest, ValuesInAnswersHaveTheTypesOfTheirFields) {
  PlanFlags plan;
  plan.model.batch = 64;
  plan.profile_time = 0.5;
  const Json json = OptionsJson(FlagsOf(plan));
  EXPECT_EQ(json["batch"], 64);
  EXPECT_TRUE(json["microbatches"].is_number_integer());
  EXPECT_EQ(json["profile_time"], 0.5);
  EXPECT_EQ(json["freeze_bn"], false);
  EXPECT_EQ(json["optimizer"], "sgd");
}

TEST(OptionsTest, AWrongValueIsNamedWithItsFlagAndWhatIsWanted) {
  int tried = 0;
  VisitAll([&](const MakeVerb& make, const Flag& flag) {
    const Option& option = flag.option;
    if (!option.check.fault) return;
    for (const std::string text : {"-", "-7", "none_such", "1e400"}) {
      const std::string fault = option.check.fault(text);
      if (fault.empty()) continue;
      EXPECT_THAT(fault, HasSubstr(absl::StrCat("'", text, "'")));
      if (option.positional && text[0] == '-') continue;
      try {
        Parsed(make, option.name, text);
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
  const auto parsed = [](const char* name, const char* text) {
    const auto flags = std::make_shared<RunFlags>();
    Parse({"run", flags, FlagsOf(*flags), {}, {}}, name, text);
    return *flags;
  };
  const RunFlags flags = parsed("backend", "gpu=cuda");
  EXPECT_EQ(flags.request.backends[0].device_class, "gpu");
  EXPECT_EQ(flags.request.backends[0].backend, "cuda");
  EXPECT_EQ(parsed("precision", "tf32").precision, Precision::kTf32);
  EXPECT_FALSE(RunFlags().keep.has_value());
  EXPECT_EQ(parsed("keep", "5").keep, 5);
}

TEST(OptionsTest, AnArgumentOfOneValueLeavesTheRestToTheNext) {
  CompareFlags flags;
  CLI::App app;
  AddFlags(app, FlagsOf(flags));
  std::vector<std::string> line = {"other/plan.textproto", "a/plan.textproto",
                                   "lenet"};  // reversed
  app.parse(line);
  EXPECT_EQ(flags.model.model, "lenet");
  EXPECT_THAT(flags.plans, ElementsAre("a/plan.textproto", "other/plan.textproto"));
}

TEST(OptionsTest, AnOptionThatIsGivenTwiceIsRefused) {
  for (const char* name : {"steps", "data", "save_every"}) {
    RunFlags flags;
    CLI::App app;
    AddFlags(app, FlagsOf(flags));
    std::vector<std::string> line = {absl::StrCat("--", name, "=5"),
                                     absl::StrCat("--", name, "=6")};
    EXPECT_THROW(app.parse(line), CLI::ParseError) << name;
  }
}

}  // namespace
}  // namespace partita
