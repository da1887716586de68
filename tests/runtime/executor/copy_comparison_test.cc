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

bool FloatsAgree(const std::vector<float>& left, const std::vector<float>& right) {
  return CopiesAgree(DType::kFloat32, BytesOf(left), BytesOf(right));
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
  EXPECT_FALSE(FloatsAgree({nan, 1.0f}, {1.0f, 1.0f}));
  EXPECT_FALSE(FloatsAgree({1.0f, 1.0f}, {nan, 1.0f}));
  EXPECT_FALSE(FloatsAgree({infinity, 1.0f}, {1.0f, 1.0f}));
  EXPECT_FALSE(FloatsAgree({1.0f, 1.0f}, {infinity, 1.0f}));
}

TEST(CopyComparisonTest, OtherTypesAndSizesAgreeBitForBitOnly) {
  EXPECT_TRUE(CopiesAgree(DType::kInt32, BytesOf<int32_t>({7}), BytesOf<int32_t>({7})));
  EXPECT_FALSE(CopiesAgree(DType::kInt32, BytesOf<int32_t>({700}), BytesOf<int32_t>({701})));
  EXPECT_FALSE(CopiesAgree(DType::kFloat32, BytesOf<float>({1}), BytesOf<float>({1, 1})));
  EXPECT_TRUE(CopiesAgree(DType::kFloat64, BytesOf<double>({1}), BytesOf<double>({1 + 1e-9})));
}

}  // namespace
}  // namespace partita
