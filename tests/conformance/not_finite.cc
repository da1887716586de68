#include "tests/conformance/not_finite.h"

#include <cmath>
#include <limits>
#include <random>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace partita {
namespace {

template <class T>
void Plant(TestTensor& tensor, const std::vector<double>& values, uint64_t places) {
  std::mt19937_64 random(places);
  const auto elements = tensor.as<T>();
  for (size_t k = 0; k < values.size(); ++k) {  // each in a part of its own
    const size_t begin = k * elements.size() / values.size();
    const size_t end = (k + 1) * elements.size() / values.size();
    elements[begin + random() % (end - begin)] = static_cast<T>(values[k]);
  }
}

template <class T>
int64_t Compare(const TestTensor& expected, const TestTensor& found, bool exact) {
  int64_t compared = 0;
  for (size_t i = 0; i < expected.as<T>().size(); ++i) {
    const T want = expected.as<T>()[i], got = found.as<T>()[i];
    if (std::isfinite(want) && (!exact || std::isfinite(got))) continue;
    ++compared;
    const bool same = want == got || (std::isnan(want) && std::isnan(got));
    EXPECT_TRUE(exact ? same : !std::isfinite(got))
        << "element " << i << ": wanted " << want << ", found " << got;
    if (::testing::Test::HasFailure()) return compared;
  }
  return compared;
}

}  // namespace

std::vector<PlantedInputs> WithNotFinite(const WholeKernel& kernel, const InputsWithResults& usual,
                                         uint64_t places) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr size_t kFew = 6;  // elements that each get one value at a time
  std::vector<PlantedInputs> all;
  for (size_t k = 0; k < usual.inputs.size(); ++k) {
    const DType dtype = usual.inputs[k].type.dtype;
    const auto elements = static_cast<size_t>(Volume(usual.inputs[k].type.shape));
    const bool planted = dtype == DType::kFloat32 || dtype == DType::kFloat64;
    if (!planted || elements == 0 || !kernel.signature.inputs[k].present) continue;
    std::vector<std::vector<double>> plants = {{kNan, kInfinity, -kInfinity}};
    if (elements < kFew) plants = {{kNan}, {kInfinity}, {-kInfinity}};
    for (const std::vector<double>& values : plants) {
      PlantedInputs one{
          absl::StrCat(values.size() == 1 ? absl::StrCat(values[0]) : "all three", " in input ", k),
          usual};
      if (dtype == DType::kFloat32) Plant<float>(one.values.inputs[k], values, places + k);
      if (dtype == DType::kFloat64) Plant<double>(one.values.inputs[k], values, places + k);
      one.values.expected = ReferenceResults(kernel, one.values.inputs);
      all.push_back(std::move(one));
    }
  }
  return all;
}

int64_t ExpectNotFiniteKept(const WholeKernel& kernel, const std::vector<TestTensor>& expected,
                            const std::vector<TestTensor>& found) {
  const bool exact = KeepsNotFinite(kernel.signature.attrs);
  int64_t compared = 0;
  for (size_t k = 0; k < expected.size(); ++k) {
    if (!kernel.signature.outputs[k].present) continue;
    EXPECT_EQ(expected[k].bytes.size(), found[k].bytes.size());
    if (expected[k].bytes.size() != found[k].bytes.size()) continue;
    const DType dtype = expected[k].type.dtype;
    if (dtype == DType::kFloat32) compared += Compare<float>(expected[k], found[k], exact);
    if (dtype == DType::kFloat64) compared += Compare<double>(expected[k], found[k], exact);
  }
  return compared;
}

}  // namespace partita
