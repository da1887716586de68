#include "runtime/executor/copy_comparison.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "gtest/gtest.h"

namespace partita {
namespace {

template <class T>
std::vector<char> BytesOf(const std::vector<T>& values) {
  std::vector<char> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

template <class T>
std::string Difference(DType dtype, const std::vector<T>& left, const std::vector<T>& right,
                       bool rounded_apart) {
  return DifferenceOfCopies(dtype, BytesOf(left), BytesOf(right), rounded_apart).value_or("");
}

bool FloatsAgree(const std::vector<float>& left, const std::vector<float>& right,
                 bool rounded_apart = true) {
  return Difference(DType::kFloat32, left, right, rounded_apart).empty();
}

TEST(CopyComparisonTest, CopiesOfOneBackendAgreeBitForBit) {
  EXPECT_TRUE(FloatsAgree({100.0f, 1.0f}, {100.0f, 1.0f}, false));
  EXPECT_FALSE(FloatsAgree({100.0f, 1.0f}, {100.0f, 1.0000001f}, false));
  EXPECT_FALSE(FloatsAgree({0.0f}, {-0.0f}, false));
}

TEST(CopyComparisonTest, TheWorstElementIsNamed) {
  EXPECT_EQ(Difference<float>(DType::kFloat32, {8, 1, 2, 3}, {8, 1.5, 4, 3}, true),
            "most at element 2: 2 and 4, the largest is 8");
  EXPECT_EQ(Difference<float>(DType::kFloat32, {1}, {std::nanf("")}, false),
            "most at element 0: 1 and nan, the largest is 1");
  EXPECT_EQ(Difference<float>(DType::kFloat32, {1}, {1, 1}, true), "4 and 8 bytes");
}

TEST(CopyComparisonTest, RoundingIsJudgedByTheLargestElement) {
  EXPECT_TRUE(FloatsAgree({100.0f, 1e-6f}, {100.0f, 2e-6f}));
  EXPECT_TRUE(FloatsAgree({0.0f, 0.0f}, {0.0f, -0.0f}));
  EXPECT_FALSE(FloatsAgree({100.0f, 1.0f}, {100.0f, 2.0f}));
  EXPECT_FALSE(FloatsAgree({1e-6f}, {2e-6f}));
}

TEST(CopyComparisonTest, WhatIsNotFiniteAgreesBitForBitOnly) {
  const float nan = std::nanf(""), infinity = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(FloatsAgree({nan, 1.0f}, {nan, 1.0f}));
  EXPECT_FALSE(FloatsAgree({nan, 1.0f}, {nan, 1.0000001f}));
  EXPECT_FALSE(FloatsAgree({nan, 1.0f}, {1.0f, 1.0f}));
  EXPECT_FALSE(FloatsAgree({1.0f, 1.0f}, {nan, 1.0f}));
  EXPECT_FALSE(FloatsAgree({infinity, 1.0f}, {1.0f, 1.0f}));
  EXPECT_FALSE(FloatsAgree({1.0f, 1.0f}, {infinity, 1.0f}));
}

TEST(CopyComparisonTest, IntegersAgreeBitForBitOnly) {
  EXPECT_EQ(Difference<int32_t>(DType::kInt32, {7}, {7}, true), "");
  EXPECT_EQ(Difference<int32_t>(DType::kInt32, {700}, {701}, true),
            "most at element 0: 700 and 701, the largest is 700");
  EXPECT_EQ(Difference<double>(DType::kFloat64, {1}, {1 + 1e-9}, true), "");
}

}  // namespace
}  // namespace partita
