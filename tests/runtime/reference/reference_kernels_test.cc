// Values of reference kernels against hand-worked cases and direct formulas: what splits and
// gradients cannot show, since they share the kernels.

#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/backend/reference/kernels.h"

namespace partita {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Floats {
  Shape shape;
  std::vector<float> values;
};

// Runs a kernel whose operands and result are whole tensors.
Floats KernelResult(const OpAttrs& attrs, Pass pass, std::vector<Floats> inputs,
                    const Shape& result, bool with_relu = false) {
  KernelSignature signature{attrs, pass, {}, {}};
  std::vector<TensorArgument> in, out;
  for (Floats& input : inputs) {
    signature.inputs.push_back({{DType::kFloat32, input.shape}});
    in.push_back({input.values.data(), Box::Full(input.shape), input.shape});
  }
  Floats y{result, std::vector<float>(static_cast<size_t>(Volume(result)), 99.0f)};
  signature.outputs.push_back({{DType::kFloat32, result}});
  out.push_back({y.values.data(), Box::Full(result), result});
  if (with_relu) signature = WithEpilogue(std::move(signature), Relu{});
  const absl::Status status = RunReferenceKernel(signature, {in, out, {}, 0});
  EXPECT_TRUE(status.ok()) << status;
  return y;
}

Floats Counting(const Shape& shape) {
  Floats x{shape, std::vector<float>(static_cast<size_t>(Volume(shape)))};
  for (size_t i = 0; i < x.values.size(); ++i) {
    x.values[i] = static_cast<float>(static_cast<int>(i * 7 % 11) - 5);
  }
  return x;
}

float At(const Floats& x, int64_t a, int64_t b, int64_t c, int64_t d) {
  return x.values[static_cast<size_t>(((a * x.shape[1] + b) * x.shape[2] + c) * x.shape[3] + d)];
}

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

TEST(ReferenceConv2dTest, IsTheDirectFormula) {
  const Conv2d conv{.stride = {2, 1}, .dilation = {1, 2}, .pads = {1, 2, 0, 1}, .groups = 2};
  const Floats x = Counting({2, 4, 6, 7}), w = Counting({6, 2, 3, 2}), b = Counting({6});
  const Shape shape = {2, 6, 3, 8};
  const Floats y = KernelResult(conv, Pass::Forward(), {x, w, b}, shape);
  for (int64_t n = 0; n < 2; ++n) {
    for (int64_t k = 0; k < 6; ++k) {
      for (int64_t i = 0; i < 3; ++i) {
        for (int64_t j = 0; j < 8; ++j) {
          float sum = b.values[static_cast<size_t>(k)];
          for (int64_t tap = 0; tap < 2 * 3 * 2; ++tap) {
            const int64_t c = tap / 6, p = tap / 2 % 3, q = tap % 2;
            const int64_t h = 2 * i - 1 + p, v = j - 2 + 2 * q;
            if (h < 0 || h >= 6 || v < 0 || v >= 7) continue;
            sum += At(w, k, c, p, q) * At(x, n, k / 3 * 2 + c, h, v);
          }
          ASSERT_EQ(At(y, n, k, i, j), sum) << n << ' ' << k << ' ' << i << ' ' << j;
        }
      }
    }
  }
}

TEST(ReferenceMatMulTest, LargeProductsEqualTheDirectFormula) {
  const int64_t rows = 70, in = 131, out = 300;  // larger than the product's tiles
  const Floats x = Counting({rows, in}), w = Counting({out, in});
  const Floats y = KernelResult(MatMul{}, Pass::Forward(), {x, w}, {rows, out});
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t o = 0; o < out; ++o) {
      const auto a = x.values.begin() + r * in, b = w.values.begin() + o * in;
      ASSERT_EQ(y.values[static_cast<size_t>(r * out + o)], std::inner_product(a, a + in, b, 0.0f));
    }
  }
}

TEST(ReferenceMaxPoolTest, TheFirstOfEqualMaximaTakesTheGradient) {
  const Pool2d pool{.kernel = {2, 2}, .stride = {2, 2}};
  const Floats x{{1, 1, 2, 4}, {1, 3, 2, 2, 3, 3, 2, 2}};
  const Floats dy{{1, 1, 1, 2}, {10, 20}};
  EXPECT_THAT(KernelResult(pool, Pass::Gradient(0), {x, dy}, x.shape).values,
              ElementsAre(0, 10, 20, 0, 0, 0, 0, 0));
}

TEST(ReferenceMaxPoolTest, PaddingNeverWins) {
  const Pool2d pool{.kernel = {1, 3}, .pads = {0, 1, 0, 1}};
  const Floats x{{1, 1, 1, 3}, {-5, -7, -6}};
  EXPECT_THAT(KernelResult(pool, Pass::Forward(), {x}, {1, 1, 1, 3}).values,
              ElementsAre(-5, -5, -6));
}

TEST(ReferenceMaxPoolTest, NotANumberStays) {
  const Pool2d pool{.kernel = {1, 2}};
  const Floats x{{1, 1, 1, 4}, {1, kNaN, 2, 3}};
  const Floats y = KernelResult(pool, Pass::Forward(), {x}, {1, 1, 1, 3});
  EXPECT_TRUE(std::isnan(y.values[0]) && std::isnan(y.values[1]));
  EXPECT_EQ(y.values[2], 3);
}

TEST(ReferenceAveragePoolTest, DividesByWhatCounts) {
  // Windows of rows -1:2, 1:4, 3:6, 5:8 over 6 rows; row 6 is padding, row 7 overhang of ceil.
  Pool2d pool{.function = "average",
              .kernel = {3, 1},
              .stride = {2, 1},
              .pads = {1, 0, 2, 0},
              .counted = {1, 0, 1, 0}};
  const Floats ones{{1, 1, 6, 1}, std::vector<float>(6, 6.0f)};
  EXPECT_THAT(KernelResult(pool, Pass::Forward(), {ones}, {1, 1, 4, 1}).values,
              ElementsAre(4, 6, 6, 3));
  pool.counted = {0, 0, 0, 0};
  EXPECT_THAT(KernelResult(pool, Pass::Forward(), {ones}, {1, 1, 4, 1}).values,
              ElementsAre(6, 6, 6, 6));
}

TEST(ReferenceReduceMeanTest, DividesByTheGivenCount) {
  const ReduceMean mean{.axes = {1}, .keepdims = false, .count = 8};
  const Floats x{{2, 2}, {8, 16, 24, 32}};
  EXPECT_THAT(KernelResult(mean, Pass::Forward(), {x}, {2}).values, ElementsAre(3, 7));
}

TEST(ReferenceReluTest, NotANumberStays) {
  const Floats y = KernelResult(Relu{}, Pass::Forward(), {{{3}, {-1, kNaN, 2}}}, {3});
  EXPECT_EQ(y.values[0], 0);
  EXPECT_TRUE(std::isnan(y.values[1]));
  EXPECT_EQ(y.values[2], 2);
}

TEST(ReferenceHardSwishTest, IsPyTorchsAtTheEndsOfItsRangesToo) {
  const Unary hard_swish{"hard_swish"};
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const Floats x{{9}, {-4, -3, -1.5, 0, 1.5, 3, 4, kInfinity, kNaN}};
  Floats y = KernelResult(hard_swish, Pass::Forward(), {x}, x.shape);
  EXPECT_TRUE(std::isnan(y.values.back()));
  y.values.pop_back();
  EXPECT_THAT(y.values, ElementsAre(0, 0, -0.375f, 0, 1.125f, 3, 4, kInfinity));
  const Floats dy{{9}, std::vector<float>(9, 2.0f)};
  Floats dx = KernelResult(hard_swish, Pass::Gradient(0), {x, dy}, x.shape);
  EXPECT_TRUE(std::isnan(dx.values.back()));
  dx.values.pop_back();
  EXPECT_THAT(dx.values, ElementsAre(0, 0, 0, 1, 2, 2, 2, 2));
  const Floats z = KernelResult(hard_swish, Pass::Forward(), {{{1}, {-kInfinity}}}, {1});
  EXPECT_TRUE(std::isnan(z.values[0]));
}

TEST(ReferenceUnaryTest, ValuesAndSlopesArePyTorchs) {
  // At -2, 0 and 1: the function; its derivative.
  const std::map<std::string, std::array<double, 6>> known = {
      {"erf", {-0.9953222650, 0, 0.8427007929, 0.0206669854, 1.1283791671, 0.4151074974}},
      {"gelu", {-0.0455002639, 0, 0.8413447461, -0.0852318011, 0.5, 1.0833154706}},
      {"gelu_tanh", {-0.0454023059, 0, 0.8411919906, -0.0860992566, 0.5, 1.0829640839}},
      {"sigmoid", {0.1192029220, 0.5, 0.7310585786, 0.1049935854, 0.25, 0.1966119332}},
      {"tanh", {-0.9640275801, 0, 0.7615941560, 0.0706508249, 1, 0.4199743416}},
  };
  const Floats x{{4}, {-2, 0, 1, kNaN}}, ones{{4}, {1, 1, 1, 1}};
  for (const auto& [function, wanted] : known) {
    SCOPED_TRACE(function);
    const Unary unary{function};
    const Floats y = KernelResult(unary, Pass::Forward(), {x}, x.shape);
    const bool of_result = !ReadsForGradient(unary, 0).results.empty();
    const Floats dx = KernelResult(unary, Pass::Gradient(0), {of_result ? y : x, ones}, x.shape);
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_NEAR(y.values[i], wanted[i], 1e-6);
      EXPECT_NEAR(dx.values[i], wanted[3 + i], 1e-6);
    }
    EXPECT_TRUE(std::isnan(y.values[3]) && std::isnan(dx.values[3]));
  }
}

TEST(ReferenceBatchMatMulTest, MultipliesMatrixByMatrix) {
  const Floats a{{2, 1, 2}, {1, 2, 3, 4}}, b{{2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}};
  EXPECT_THAT(KernelResult(BatchMatMul{}, Pass::Forward(), {a, b}, {2, 1, 2}).values,
              ElementsAre(7, 10, 43, 50));
  EXPECT_THAT(
      KernelResult(BatchMatMul{.transposed = true}, Pass::Forward(), {a, b}, {2, 1, 2}).values,
      ElementsAre(5, 11, 39, 53));
  const Floats dy{{2, 1, 2}, {1, 0, 0, 1}};
  EXPECT_THAT(KernelResult(BatchMatMul{}, Pass::Gradient(0), {b, dy}, {2, 1, 2}).values,
              ElementsAre(1, 3, 6, 8));
  EXPECT_THAT(KernelResult(BatchMatMul{}, Pass::Gradient(1), {a, dy}, {2, 2, 2}).values,
              ElementsAre(1, 0, 2, 0, 0, 3, 0, 4));
}

TEST(ReferenceLayerNormTest, NormalisesEachRow) {
  const Floats x{{2, 4}, {1, 1, 3, 3, kNaN, 0, 0, 0}}, gamma{{4}, {1, 2, 3, 4}};
  const Floats beta{{4}, {0, 0, 1, 1}};
  const LayerNorm norm{.epsilon = 3};  // the first row's variance is 1, its mean 2
  const Floats y = KernelResult(norm, Pass::Forward(), {x, gamma, beta}, x.shape);
  EXPECT_THAT(std::vector<float>(y.values.begin(), y.values.begin() + 4),
              ElementsAre(-0.5f, -1, 2.5f, 3));
  for (size_t i = 4; i < 8; ++i) EXPECT_TRUE(std::isnan(y.values[i]));
  const Floats row{{1, 4}, {1, 1, 3, 3}}, dy{{1, 4}, {2, 2, 2, 4}};
  EXPECT_THAT(KernelResult(norm, Pass::Gradient(1), {row, dy}, {4}).values,
              ElementsAre(-1, -1, 1, 2));
  EXPECT_THAT(KernelResult(norm, Pass::Gradient(2), {dy}, {4}).values, ElementsAre(2, 2, 2, 4));
}

TEST(ReferenceLstmGatesTest, GatesHavePyTorchsOrder) {
  // One unit: its input gate is open, the forget gate and the output gate are half open.
  constexpr double kHalf = 0.5;
  const KernelTensor z{{DType::kFloat32, {1, 4}}}, state{{DType::kFloat32, {1, 1}}};
  std::vector<float> a = {50, 0, 1, 0}, b = {50, 0, 1, 0}, c = {3}, h_after(1), c_after(1);
  const auto at = [](std::vector<float>& values, int64_t extent) {
    return TensorArgument{values.data(), Box::Full({1, extent}), {1, extent}};
  };
  const std::vector<TensorArgument> in = {at(a, 4), at(b, 4), at(c, 1)};
  const std::vector<TensorArgument> out = {at(h_after, 1), at(c_after, 1)};
  ASSERT_TRUE(
      RunReferenceKernel({LstmGates{}, Pass::Forward(), {z, z, state}, {state, state}}, {in, out})
          .ok());
  EXPECT_NEAR(c_after[0], kHalf * 3 + std::tanh(2.0), 1e-6);
  EXPECT_NEAR(h_after[0], kHalf * std::tanh(kHalf * 3 + std::tanh(2.0)), 1e-6);
  // Of the first cell b and c are zero.
  const Floats first =
      KernelResult(LstmGates{.first = true}, Pass::Gradient(0),
                   {{{1, 4}, {50, 7, 1, 0}}, {{1, 1}, {0}}, {{1, 1}, {1}}}, {1, 4});
  EXPECT_NEAR(first.values[0], 0, 1e-6);
  EXPECT_EQ(first.values[1], 0);
  EXPECT_NEAR(first.values[2], 1 - std::tanh(1.0) * std::tanh(1.0), 1e-6);
  EXPECT_EQ(first.values[3], 0);
}

TEST(ReferenceEmbeddingTest, TakesRowsAndAddsTheirGradients) {
  // A part that has rows 2, 3 and 4 of a table of 6.
  std::vector<int32_t> indices = {3, 0, 2, 3};
  std::vector<float> table = {1, 2, 3, kNaN, 5, 6}, y(8), dtable(6);
  const Box rows{{2, 5}, {0, 2}};
  const TensorArgument chosen{indices.data(), Box::Full({4}), {4}};
  const TensorArgument taken{y.data(), Box::Full({4, 2}), {4, 2}};
  const KernelTensor index_type{{DType::kInt32, {4}}}, row_type{{DType::kFloat32, {4, 2}}};
  const KernelTensor table_type{{DType::kFloat32, {3, 2}}};
  const std::vector<TensorArgument> in = {chosen, {table.data(), rows, {6, 2}}}, out = {taken};
  ASSERT_TRUE(RunReferenceKernel(
                  {Embedding{}, Pass::Forward(), {index_type, table_type}, {row_type}}, {in, out})
                  .ok());
  EXPECT_TRUE(std::isnan(y[1]) && std::isnan(y[7]));
  y[1] = y[7] = 4;
  EXPECT_THAT(y, ElementsAre(3, 4, 0, 0, 1, 2, 3, 4));
  y = {1, 2, 3, 4, 5, 6, 7, 8};
  const std::vector<TensorArgument> dy = {chosen, taken}, dx = {{dtable.data(), rows, {6, 2}}};
  ASSERT_TRUE(RunReferenceKernel(
                  {Embedding{}, Pass::Gradient(1), {index_type, row_type}, {table_type}}, {dy, dx})
                  .ok());
  EXPECT_THAT(dtable, ElementsAre(5, 6, 8, 10, 0, 0));
}

TEST(ReferenceKernelTest, FusedReluIsTheComposition) {
  const Floats x{{1, 2}, {1, 2}}, w{{2, 2}, {1, -1, -1, 1}};
  EXPECT_THAT(KernelResult(MatMul{}, Pass::Forward(), {x, w}, {1, 2}, true).values,
              ElementsAre(0, 1));
}

TEST(ReferenceShapeKernelsTest, MoveElements) {
  const Floats x{{2, 3}, {1, 2, 3, 4, 5, 6}};
  EXPECT_THAT(KernelResult(Transpose{{1, 0}}, Pass::Forward(), {x}, {3, 2}).values,
              ElementsAre(1, 4, 2, 5, 3, 6));
  EXPECT_THAT(KernelResult(Concat{.axis = 1, .sizes = {3, 1}}, Pass::Forward(),
                           {x, {{2, 1}, {7, 8}}}, {2, 4})
                  .values,
              ElementsAre(1, 2, 3, 7, 4, 5, 6, 8));
  EXPECT_THAT(KernelResult(Pad{{0, 1, 1, 0}, 9}, Pass::Forward(), {x}, {3, 4}).values,
              ElementsAre(9, 1, 2, 3, 9, 4, 5, 6, 9, 9, 9, 9));
  EXPECT_THAT(KernelResult(Scale{.alpha = 2, .beta = -1}, Pass::Forward(), {x}, {2, 3}).values,
              ElementsAre(1, 3, 5, 7, 9, 11));
}

TEST(ReferenceKernelTest, ArgumentsThatDisagreeWithTheSignatureAreErrors) {
  KernelSignature signature{
      Relu{}, Pass::Forward(), {{{DType::kFloat32, {2}}}}, {{{DType::kFloat32, {2}}}}};
  std::vector<float> data(3);
  const TensorArgument two{data.data(), Box::Full({2}), {2}};
  const TensorArgument three{data.data(), Box::Full({3}), {3}};
  const TensorArgument none{nullptr, Box::Full({2}), {2}};
  const auto run = [&](std::vector<TensorArgument> in, std::vector<TensorArgument> out) {
    return RunReferenceKernel(signature, {in, out, {}, 0});
  };
  EXPECT_TRUE(run({two}, {two}).ok());
  EXPECT_THAT(std::string(run({three}, {two}).message()), HasSubstr("input 0"));
  EXPECT_THAT(std::string(run({two}, {none}).message()), HasSubstr("output 0: no data"));
  EXPECT_THAT(std::string(run({two, two}, {two}).message()), HasSubstr("the launch 2"));
}

}  // namespace
}  // namespace partita
