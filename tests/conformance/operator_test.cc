// One suite over every row of the operator table: rules are well formed, gradients are derivatives,
// and every legal split equals the unsplit operator bit for bit.

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/conformance/operator_runner.h"

namespace partita {
namespace {

class OperatorTest : public ::testing::TestWithParam<OperatorExample> {};

struct Values {
  std::vector<TestTensor> operands, results, gradients;
};

Values RandomValues(const OperatorExample& example, const OperatorRun& run, FillMode mode) {
  std::mt19937_64 random(20240607);
  Values values;
  for (size_t k = 0; k < run.operands().size(); ++k) {
    const OperandFill fill = k < example.fills.size() ? example.fills[k] : OperandFill{};
    values.operands.push_back(Filled(run.operands()[k], fill, mode, random));
  }
  values.results = run.RunWhole(Pass::Forward(), values.operands);
  for (const TensorType& type : run.results()) {
    values.gradients.push_back(Filled(type, {}, FillMode::kRandom, random));
  }
  return values;
}

// The sum over all results of <gradient, result>.
template <class T>
T Dot(const std::vector<TestTensor>& a, const std::vector<TestTensor>& b) {
  T sum{};
  for (size_t k = 0; k < a.size(); ++k) {
    if (a[k].type.dtype == DType::kInt32) continue;
    for (size_t i = 0; i < a[k].as<T>().size(); ++i) sum += a[k].as<T>()[i] * b[k].as<T>()[i];
  }
  return sum;
}

TEST_P(OperatorTest, RuleFitsTheTensors) {
  const OperatorRun run(GetParam(), DType::kRing64);
  EXPECT_TRUE(ValidateRule(run.rule(), run.operands(), run.results()).ok())
      << ValidateRule(run.rule(), run.operands(), run.results());
  for (Pass pass : PassesOf(run.rule())) {
    const auto status = ValidateRule(run.RuleOf(pass), run.InputTypes(pass), run.OutputTypes(pass));
    EXPECT_TRUE(status.ok()) << status;
  }
}

TEST_P(OperatorTest, UnsplitOperatorWritesItsResultsWhole) {
  const OperatorRun run(GetParam(), DType::kRing64);
  std::vector<Shape> operands, results;
  for (const TensorType& type : run.operands()) operands.push_back(type.shape);
  for (const TensorType& type : run.results()) results.push_back(type.shape);
  const PartView whole = ViewWhole(run.rule(), operands, results);
  for (size_t k = 0; k < results.size(); ++k) {
    EXPECT_EQ(whole.results[k].box, Box::Full(results[k]));
  }
}

TEST_P(OperatorTest, GradientsAreFiniteDifferences) {
  const OperatorRun run(GetParam(), DType::kFloat64);
  Values values = RandomValues(GetParam(), run, FillMode::kRandom);
  constexpr double kStep = 1e-5;
  for (Pass pass : PassesOf(run.rule())) {
    if (pass.is_forward()) continue;
    const TestTensor gradient = run.RunWhole(
        pass, run.InputsOf(pass, values.operands, values.results, values.gradients))[0];
    auto x = values.operands[static_cast<size_t>(pass.gradient)].as<double>();
    for (size_t i = 0; i < x.size(); ++i) {
      const double before = x[i];
      auto value_at = [&](double at) {
        x[i] = at;
        return Dot<double>(values.gradients, run.RunWhole(Pass::Forward(), values.operands));
      };
      const double slope = (value_at(before + kStep) - value_at(before - kStep)) / (2 * kStep);
      x[i] = before;
      ASSERT_NEAR(gradient.as<double>()[i], slope, 1e-6 * std::max(1.0, std::abs(slope)))
          << "operand " << int{pass.gradient} << " element " << i;
    }
  }
}

TEST_P(OperatorTest, AffineOperandsSatisfyTheTransposeIdentity) {
  const OperatorRun run(GetParam(), DType::kRing64);
  for (FillMode mode : {FillMode::kRandom, FillMode::kTies}) {
    const Values values = RandomValues(GetParam(), run, mode);
    for (int k : GetParam().affine) {
      const Pass pass = Pass::Gradient(k);
      const auto gradient =
          run.RunWhole(pass, run.InputsOf(pass, values.operands, values.results, values.gradients));
      std::vector<TestTensor> at_zero = values.operands;
      TestTensor& x = at_zero[static_cast<size_t>(k)];
      std::fill(x.bytes.begin(), x.bytes.end(), std::byte{0});
      const uint64_t forward =
          Dot<uint64_t>(values.gradients, values.results) -
          Dot<uint64_t>(values.gradients, run.RunWhole(Pass::Forward(), at_zero));
      EXPECT_EQ(forward, Dot<uint64_t>(gradient, {values.operands[static_cast<size_t>(k)]}))
          << "operand " << k;
    }
  }
}

// Every vector of degrees with at most three blocks of each loop, and each loop cut to single
// indices on its own.
std::vector<std::vector<int64_t>> DegreeVectors(const std::vector<LoopDim>& loops) {
  std::vector<std::vector<int64_t>> all = {{}};
  for (const LoopDim& loop : loops) {
    std::vector<std::vector<int64_t>> longer;
    const int64_t most = loop.splittable ? std::min<int64_t>(3, loop.extent) : 1;
    for (const auto& degrees : all) {
      for (int64_t d = 1; d <= std::max<int64_t>(1, most); ++d) {
        longer.push_back(degrees);
        longer.back().push_back(d);
      }
    }
    all = std::move(longer);
  }
  for (size_t l = 0; l < loops.size(); ++l) {
    if (!loops[l].splittable || loops[l].extent <= 3) continue;
    all.emplace_back(loops.size(), 1);
    all.back()[l] = loops[l].extent;
  }
  return all;
}

TEST_P(OperatorTest, EveryLegalSplitEqualsTheWholeBitForBit) {
  const OperatorRun run(GetParam(), DType::kRing64);
  int64_t legal = 0, rejected = 0, empty_operands = 0;
  for (FillMode mode : {FillMode::kRandom, FillMode::kTies}) {
    const Values values = RandomValues(GetParam(), run, mode);
    for (Pass pass : PassesOf(run.rule())) {
      const auto inputs = run.InputsOf(pass, values.operands, values.results, values.gradients);
      const auto whole = run.RunWhole(pass, inputs);
      for (const auto& degrees : DegreeVectors(run.rule().loops)) {
        const auto split = run.RunSplit(pass, inputs, degrees, &empty_operands);
        if (!split.ok()) {
          ++rejected;
          continue;
        }
        ++legal;
        ASSERT_TRUE(*split == whole)
            << "pass " << int{pass.gradient} << " split by " << ::testing::PrintToString(degrees);
      }
    }
  }
  EXPECT_GT(legal, 0);
  std::printf("%s: %ld legal splits, %ld rejected, %ld empty operands\n", GetParam().name.c_str(),
              static_cast<long>(legal), static_cast<long>(rejected),
              static_cast<long>(empty_operands));
}

TEST_P(OperatorTest, KernelsMayWriteOverTheInputsThatTheyName) {
  const OperatorRun run(GetParam(), DType::kRing64);
  const Values values = RandomValues(GetParam(), run, FillMode::kRandom);
  for (Pass pass : PassesOf(run.rule())) {
    const auto inputs = run.InputsOf(pass, values.operands, values.results, values.gradients);
    const auto apart = run.RunWhole(pass, inputs);
    for (InPlacePair pair : InPlace(GetParam().attrs, pass)) {
      ASSERT_LT(static_cast<size_t>(pair.input), inputs.size());
      ASSERT_LT(static_cast<size_t>(pair.output), apart.size());
      const TestTensor& input = inputs[static_cast<size_t>(pair.input)];
      const TestTensor& output = apart[static_cast<size_t>(pair.output)];
      if (input.bytes.size() != output.bytes.size()) continue;
      EXPECT_TRUE(run.RunInPlace(pass, inputs, pair).bytes == output.bytes)
          << "pass " << int{pass.gradient} << " input " << pair.input << " output " << pair.output;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Examples, OperatorTest, ::testing::ValuesIn(OperatorExamples()),
                         [](const auto& info) { return info.param.name; });

TEST(OperatorExamplesTest, CoverEveryRowOfTheTable) {
  std::set<std::string> covered, missing;
  for (const OperatorExample& example : OperatorExamples()) {
    covered.insert(std::string(NameOf(example.attrs)));
  }
  for (const auto& [name, description] : OperatorTable()) {
    if (!covered.contains(std::string(name))) missing.insert(std::string(name));
  }
  EXPECT_THAT(missing, ::testing::IsEmpty());
}

}  // namespace
}  // namespace partita
