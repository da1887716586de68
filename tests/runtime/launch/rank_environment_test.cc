#include "runtime/launch/rank_environment.h"

#include <map>

#include "gmock/gmock.h"
#include "graph/support/error_category.h"
#include "gtest/gtest.h"

namespace partita {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

absl::StatusOr<std::optional<RankEnvironment>> Read(const Variables& variables) {
  return ReadRankEnvironment([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

// What torchrun says to rank 1 of 2, with some variables set otherwise.
Variables Torchrun(const Variables& others = {}) {
  Variables all = {
      {"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "10.0.0.1"}, {"MASTER_PORT", "29501"}};
  for (const auto& [name, value] : others) all[name] = value;
  return all;
}

TEST(RankEnvironmentTest, AProcessWithoutALauncherOrAloneIsNoRank) {
  for (const Variables& variables :
       {Variables{}, Variables{{"MASTER_PORT", "70000"}},  // not ours to judge
        Variables{{"RANK", "0"}, {"WORLD_SIZE", "1"}},
        Variables{{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}}}) {
    const auto found = Read(variables);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_FALSE(found->has_value());
  }
}

TEST(RankEnvironmentTest, WhatALauncherSaysIsTaken) {
  const auto torchrun = Read(Torchrun({{"LOCAL_WORLD_SIZE", "1"}}));
  ASSERT_TRUE(torchrun.ok()) << torchrun.status();
  ASSERT_TRUE(torchrun->has_value());
  EXPECT_EQ((*torchrun)->launcher, RankEnvironment::Launcher::kTorchrun);
  EXPECT_EQ((*torchrun)->rank, 1);
  EXPECT_EQ((*torchrun)->size, 2);
  EXPECT_EQ((*torchrun)->address, "10.0.0.1");
  EXPECT_EQ((*torchrun)->port, 29501);
  EXPECT_EQ((*torchrun)->local_size, 1);
  const auto beside = Read(Torchrun({{"TORCHELASTIC_USE_AGENT_STORE", "True"}}));
  ASSERT_TRUE(beside.ok()) << beside.status();
  EXPECT_EQ((*beside)->port, 29502);
  for (const char* kind : {"OMPI_COMM_WORLD_", "PMI_"}) {
    Variables mpi = Torchrun();
    mpi[std::string(kind) + "RANK"] = "2";
    mpi[std::string(kind) + "SIZE"] = "3";
    const auto found = Read(mpi);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ((*found)->launcher, RankEnvironment::Launcher::kMpi);
    EXPECT_EQ((*found)->rank, 2);
    EXPECT_EQ((*found)->size, 3);
  }
}

// Each is a whole environment, and what its refusal names.
TEST(RankEnvironmentTest, WhatCannotBeIsWrongUsageThatSaysWhatWasFoundAndWanted) {
  const std::string long_name(300, 'h');
  const struct {
    Variables variables;
    std::string found, wanted;
  } kCases[] = {
      {{{"RANK", "x"}}, "RANK='x'", "WORLD_SIZE"},
      {{{"RANK", "0"}}, "no WORLD_SIZE", "both"},
      {{{"WORLD_SIZE", "2"}}, "no RANK", "both"},
      {Torchrun({{"RANK", ""}}), "RANK=''", "from 0 to 1"},
      {Torchrun({{"RANK", "2"}}), "RANK='2'", "from 0 to 1"},
      {Torchrun({{"RANK", "-1"}}), "RANK='-1'", "from 0 to 1"},
      {Torchrun({{"RANK", "1.5"}}), "RANK='1.5'", "whole number"},
      {Torchrun({{"RANK", "4294967297"}}), "RANK='4294967297'", "from 0 to 1"},
      {Torchrun({{"WORLD_SIZE", "0"}}), "WORLD_SIZE='0'", "from 1 to"},
      {Torchrun({{"WORLD_SIZE", "-2"}}), "WORLD_SIZE='-2'", "from 1 to"},
      {Torchrun({{"WORLD_SIZE", "1000000"}}), "WORLD_SIZE='1000000'", "from 1 to 65536"},
      {Torchrun({{"WORLD_SIZE", "two"}}), "WORLD_SIZE='two'", "whole number"},
      {Torchrun({{"MASTER_PORT", "70000"}}), "MASTER_PORT='70000'", "from 1 to 65535"},
      {Torchrun({{"MASTER_PORT", "0"}}), "MASTER_PORT='0'", "from 1 to 65535"},
      {Torchrun({{"MASTER_PORT", "http"}}), "MASTER_PORT='http'", "from 1 to 65535"},
      {Torchrun({{"MASTER_PORT", "65535"}, {"TORCHELASTIC_USE_AGENT_STORE", "True"}}),
       "MASTER_PORT='65535'", "from 1 to 65534"},
      {Torchrun({{"MASTER_ADDR", ""}}), "MASTER_ADDR=''", "IPv4 address"},
      {Torchrun({{"MASTER_ADDR", "http://a"}}), "MASTER_ADDR='http://a'", "host's name"},
      {Torchrun({{"MASTER_ADDR", "a b\x1b[2J"}}), "MASTER_ADDR='a b?[2J'", "host's name"},
      {Torchrun({{"MASTER_ADDR", long_name}}), "hhh...'", "host's name"},
      {Torchrun({{"LOCAL_WORLD_SIZE", "3"}}), "LOCAL_WORLD_SIZE='3'", "from 1 to 2"},
      {{{"OMPI_COMM_WORLD_SIZE", "2"}}, "no OMPI_COMM_WORLD_RANK", "both"},
      {{{"OMPI_COMM_WORLD_SIZE", "many"}, {"OMPI_COMM_WORLD_RANK", "0"}},
       "OMPI_COMM_WORLD_SIZE='many'",
       "whole number"},
      {{{"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_RANK", "2"}},
       "OMPI_COMM_WORLD_RANK='2'",
       "from 0 to 1"},
      {{{"PMI_SIZE", "2"}, {"PMI_RANK", "one"}}, "PMI_RANK='one'", "from 0 to 1"},
      {{{"PMI_RANK", "0"}}, "no PMI_SIZE", "both"},
  };
  for (const auto& one : kCases) {
    const auto found = Read(one.variables);
    ASSERT_FALSE(found.ok()) << one.found;
    EXPECT_TRUE(IsUsageError(found.status())) << found.status();
    EXPECT_THAT(found.status().message(), AllOf(HasSubstr(one.found), HasSubstr(one.wanted)));
  }
}

}  // namespace
}  // namespace partita
