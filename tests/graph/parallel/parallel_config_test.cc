#include "graph/parallel/parallel_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/ops/ops.h"

namespace partita {
namespace {

using ::testing::HasSubstr;

std::vector<DeviceId> Devices(const std::vector<int>& numbers) {
  std::vector<DeviceId> devices;
  for (int number : numbers) devices.push_back(DeviceId(number));
  return devices;
}

ShardingRule MatMulRule() {
  const std::vector<TensorType> operands = {
      {DType::kFloat32, {4, 6}}, {DType::kFloat32, {5, 6}}, {DType::kFloat32, {5}}};
  const auto results = InferResults(MatMul{}, operands);
  return MakeRule(MatMul{}, operands, *results);
}

std::string ErrorOf(const ParallelConfig& config, int devices = 4) {
  return std::string(ValidateConfig(MatMulRule(), config, devices).message());
}

TEST(ParallelConfigTest, PartsAreTheProductOfDegreesAndReplicas) {
  const ShardingRule rule = MatMulRule();
  EXPECT_EQ(PartCount(Unsplit(rule, DeviceId(2))), 1);
  EXPECT_EQ(PartCount({{2, 1, 3}, 2, {}}), 12);
  EXPECT_TRUE(ValidateConfig(rule, Unsplit(rule, DeviceId(2)), 3).ok());
}

TEST(ParallelConfigTest, AnyDegreeUpToTheExtentAndAnyDevicesAreValid) {
  EXPECT_EQ(ErrorOf({{3, 1, 1}, 1, Devices({3, 0, 3})}), "");
  EXPECT_EQ(ErrorOf({{4, 1, 1}, 2, Devices({3, 2, 1, 0, 0, 1, 2, 3})}), "");
}

TEST(ParallelConfigTest, ErrorsNameLoopsAndDevices) {
  EXPECT_THAT(ErrorOf({{1, 1}, 1, Devices({0})}), HasSubstr("3 loops"));
  EXPECT_THAT(ErrorOf({{5, 1, 1}, 1, Devices({0, 1, 2, 3, 0})}), HasSubstr("'n' of extent 4"));
  EXPECT_THAT(ErrorOf({{0, 1, 1}, 1, Devices({0})}), HasSubstr("0 ways"));
  EXPECT_THAT(ErrorOf({{2, 1, 1}, 1, Devices({0})}), HasSubstr("1 devices for 2 parts"));
  EXPECT_THAT(ErrorOf({{2, 1, 1}, 1, Devices({0, 4})}), HasSubstr("device 4"));
  EXPECT_THAT(ErrorOf({{1, 1, 1}, 0, Devices({})}), HasSubstr("replicas"));
  EXPECT_THAT(ErrorOf({{4, 5, 6}, 1 << 30, Devices({0})}), HasSubstr("2^24"));
}

TEST(ParallelConfigTest, ALoopThatDoesNotSplitIsNamed) {
  ShardingRule rule = MatMulRule();
  rule.loops[1].splittable = false;
  const auto status = ValidateConfig(rule, {{1, 2, 1}, 1, Devices({0, 1})}, 4);
  EXPECT_THAT(std::string(status.message()), HasSubstr(rule.loops[1].name));
}

TEST(ParallelConfigTest, TextIsShort) {
  const ShardingRule rule = MatMulRule();
  EXPECT_EQ(ToString(rule, Unsplit(rule, DeviceId(3))), "whole on 3");
  EXPECT_EQ(ToString(rule, {{4, 1, 1}, 1, Devices({0, 1, 2, 3})}), "n=4 on 0-3");
  EXPECT_EQ(ToString(rule, {{2, 1, 1}, 2, Devices({0, 1, 1, 0})}), "n=2 x2 on 0,1,1,0");
  std::vector<int32_t> many;
  for (int32_t first = 0; first < 6; ++first) {
    for (int32_t d = first; d < 24; d += 6) many.push_back(d);
  }
  const std::string text = ToString(rule, {{4, 1, 1}, 6, Devices(many)});
  EXPECT_EQ(text, "n=4 x6 on 0-18 by 6, 1-19 by 6, 2-20 by 6, .., 5-23 by 6");
  many.assign(17, 3);
  many.back() = 5;
  EXPECT_EQ(ToString(rule, {{1, 1, 1}, 17, Devices(many)}), "x17 on 3, 3, 3, .., 3-5 by 2");
}

TEST(ParallelConfigTest, RolesAreThoseOfTheLiterature) {
  const std::vector<TensorType> operands = {{DType::kFloat32, {4, 6, 8, 8}},
                                            {DType::kFloat32, {5, 6, 3, 3}}};
  const auto results = InferResults(Conv2d{}, operands);
  const ShardingRule rule = MakeRule(Conv2d{}, operands, *results);
  const bool is_weight[] = {false, true};
  auto role = [&](const char* loop) { return RoleOf(rule, rule.FindLoop(loop), is_weight); };
  EXPECT_EQ(role("n"), LoopRole::kSample);
  EXPECT_EQ(role("oh"), LoopRole::kAttribute);
  EXPECT_EQ(role("k"), LoopRole::kParameter);
  EXPECT_EQ(role("c"), LoopRole::kReduction);
}

}  // namespace
}  // namespace partita
