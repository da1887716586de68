// Suggestions for names that were mistyped.
#include "graph/support/known_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace partita {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const std::vector<std::string> kModels = {"alexnet",  "lenet",     "resnet18",
                                          "resnet50", "resnet101", "inception_v3"};

TEST(KnownNamesTest, TheNearestIsMeant) {
  EXPECT_THAT(NearestNames("alexnt", kModels), ElementsAre("alexnet")) << "a letter is missing";
  EXPECT_THAT(NearestNames("allexnet", kModels), ElementsAre("alexnet")) << "one is too many";
  EXPECT_THAT(NearestNames("alexmet", kModels), ElementsAre("alexnet")) << "one is another";
  EXPECT_THAT(NearestNames("aelxnet", kModels), ElementsAre("alexnet")) << "two are swapped";
  EXPECT_THAT(NearestNames("AlexNet", kModels), ElementsAre("alexnet"));
  EXPECT_THAT(NearestNames("Inception-v3", kModels), ElementsAre("inception_v3"));
  EXPECT_THAT(NearestNames("resnet10", kModels), ElementsAre("resnet18", "resnet50", "resnet101"))
      << "as near as each other";
}

TEST(KnownNamesTest, TheBeginningOfANameIsEnough) {
  EXPECT_THAT(NearestNames("inc", kModels), ElementsAre("inception_v3"));
  EXPECT_THAT(NearestNames("RESNET", kModels), ElementsAre("resnet18", "resnet50", "resnet101"));
  EXPECT_THAT(NearestNames("in", kModels), IsEmpty()) << "two letters say little";
  EXPECT_THAT(NearestNames("lene", kModels), ElementsAre("lenet"));
  const std::vector<std::string> flags = {"--batch", "--machine"};
  EXPECT_THAT(NearestNames("--mach", flags), ElementsAre("--machine"));
  EXPECT_THAT(NearestNames("--", flags), IsEmpty());
  const std::vector<std::string> many = {"gpt_a", "gpt_b", "gpt_c", "gpt_d"};
  EXPECT_THAT(NearestNames("gpt", many), IsEmpty()) << "too many to be a guess";
}

TEST(KnownNamesTest, WhatIsFarFromAllIsNotGuessed) {
  EXPECT_THAT(NearestNames("vit", kModels), IsEmpty());
  EXPECT_THAT(NearestNames("", kModels), IsEmpty());
  EXPECT_THAT(NearestNames("alexnet", {}), IsEmpty());
  EXPECT_THAT(NearestNames(std::string(1'000'000, 'a'), kModels), IsEmpty());
  const std::vector<std::string> letters = {"a", "b"};
  EXPECT_THAT(NearestNames("c", letters), IsEmpty()) << "another letter is another name";
}

TEST(KnownNamesTest, TheErrorHasAllNames) {
  const std::vector<std::string> searches = {"auto", "annealing"};
  EXPECT_EQ(UnknownNameText("search", "anealing", searches),
            "unknown search 'anealing'; did you mean 'annealing'? Known are: auto, annealing");
  EXPECT_EQ(UnknownNameText("search", "magic", searches),
            "unknown search 'magic'; known are: auto, annealing");
  EXPECT_EQ(UnknownNameError("search", "magic", searches).code(), absl::StatusCode::kNotFound);
  const std::vector<std::string> two = {"lenet5", "lenet6"};
  EXPECT_EQ(DidYouMean("lenet7", two), "; did you mean 'lenet5' or 'lenet6'?");
}

}  // namespace
}  // namespace partita
