// Pooling plane by plane, on the host, against the definition of pooling.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/ops/pool2d.h"
#include "runtime/backend/cuda/plan/kernel_steps.h"
#include "runtime/backend/cuda/plan/launch_plan.h"
#include "tests/runtime/cuda/host_run.h"
#include "tests/runtime/cuda/planned_run.h"

namespace partita {
namespace {

struct Case {
  Pool2d pool;
  Shape x, y;
};

// Windows that overlap or leave gaps, with padding and dilation, and some that hang over the end.
// `windows`: fewest and most along a dimension.
Case RandomCase(std::mt19937_64& random, std::pair<int64_t, int64_t> windows,
                int64_t most_channels) {
  const auto pick = [&](int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random);
  };
  Case c;
  c.x = c.y = {pick(1, 3), pick(1, most_channels), 0, 0};
  c.pool.pads.assign(4, 0);
  for (size_t d = 0; d < 2; ++d) {
    c.pool.kernel[d] = pick(1, 4);
    c.pool.stride[d] = pick(1, 4);
    c.pool.dilation[d] = pick(1, 2);
    const int64_t reach = c.pool.dilation[d] * (c.pool.kernel[d] - 1) + 1;
    c.pool.pads[d] = pick(0, reach - 1);
    c.y[d + 2] = pick(windows.first, windows.second);
    const int64_t all = (c.y[d + 2] - 1) * c.pool.stride[d] + reach - c.pool.pads[d];
    c.x[d + 2] = std::max<int64_t>(1, all + pick(-1, 3));
    c.pool.pads[d + 2] = std::max<int64_t>(0, all - c.x[d + 2]);
  }
  return c;
}

std::vector<float> RandomValues(int64_t count, std::mt19937_64& random) {
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) {  // few, so that many are equal
    const auto number = static_cast<int>(random() % 40);
    value = number == 0 ? NAN : static_cast<float>(number % 7 - 3);
  }
  return values;
}

KernelTensor TensorOf(const Shape& shape) { return {{DType::kFloat32, shape}}; }

std::vector<float> RunPlan(const KernelSignature& signature,
                           const std::vector<std::vector<float>>& inputs, size_t* planes) {
  WholePieces pieces = WholePiecesOf(signature);
  for (size_t k = 0; k < inputs.size(); ++k) {
    pieces.inputs[k].data = const_cast<float*>(inputs[k].data());
  }
  std::vector<float> result(static_cast<size_t>(Volume(signature.outputs[0].type.shape)), -99);
  pieces.outputs[0].data = result.data();
  const auto plan = LaunchPlan::Make(signature, {});
  EXPECT_TRUE(plan.ok()) << plan.status();
  ScratchMemory scratch(plan->steps().scratch_bytes);
  const absl::Status status = plan->ForEachStep(
      {pieces.inputs, pieces.outputs, {}, 0}, scratch.data(), [&](const auto& work) {
        *planes += std::is_same_v<decltype(work), const MaxPoolWork&>;
        RunOnHost(work);
        return absl::OkStatus();
      });
  EXPECT_TRUE(status.ok()) << status;
  return result;
}

void ExpectSame(const std::vector<float>& want, const std::vector<float>& got) {
  ASSERT_EQ(want.size(), got.size());
  for (size_t i = 0; i < want.size(); ++i) {
    if (std::isnan(want[i]) && std::isnan(got[i])) continue;
    ASSERT_EQ(want[i], got[i]) << "element " << i;
  }
}

// What the windows of one plane give, by their definition in graph/ops/pool2d.h.
int64_t FirstMaximum(const Case& c, const float* plane, int64_t i, int64_t j) {
  int64_t best = -1;
  for (int64_t a = 0; a < c.pool.kernel[0]; ++a) {
    for (int64_t b = 0; b < c.pool.kernel[1]; ++b) {
      const int64_t row = i * c.pool.stride[0] - c.pool.pads[0] + a * c.pool.dilation[0];
      const int64_t column = j * c.pool.stride[1] - c.pool.pads[1] + b * c.pool.dilation[1];
      if (row < 0 || row >= c.x[2] || column < 0 || column >= c.x[3]) continue;
      const int64_t at = row * c.x[3] + column;
      if (best < 0 || plane[best] < plane[at] || std::isnan(plane[at])) best = at;
    }
  }
  return best;
}

// Both passes of a pooling on random numbers. Counts steps that take planes.
void ExpectTheDefinition(const Case& c, std::mt19937_64& random, size_t* planes) {
  const std::vector<float> x = RandomValues(Volume(c.x), random);
  std::vector<float> dy(static_cast<size_t>(Volume(c.y)));
  for (float& value : dy) value = static_cast<float>(static_cast<int>(random() % 9) - 4);
  std::vector<float> want_y(dy.size()), want_dx(x.size());
  for (int64_t p = 0; p < c.x[0] * c.x[1]; ++p) {
    const float* plane = x.data() + p * c.x[2] * c.x[3];
    for (int64_t w = 0; w < c.y[2] * c.y[3]; ++w) {
      const int64_t best = FirstMaximum(c, plane, w / c.y[3], w % c.y[3]);
      const auto at = static_cast<size_t>(p * c.y[2] * c.y[3] + w);
      want_y[at] = best < 0 ? 0.0f : plane[best];
      if (best >= 0) want_dx[static_cast<size_t>(p * c.x[2] * c.x[3] + best)] += dy[at];
    }
  }
  ExpectSame(want_y,
             RunPlan({c.pool, Pass::Forward(), {TensorOf(c.x)}, {TensorOf(c.y)}}, {x}, planes));
  ExpectSame(want_dx,
             RunPlan({c.pool, Pass::Gradient(0), {TensorOf(c.x), TensorOf(c.y)}, {TensorOf(c.x)}},
                     {x, dy}, planes));
}

TEST(MaxPoolPlanesTest, EqualTheDefinitionOfPooling) {
  std::mt19937_64 random(7);
  size_t planes = 0;
  constexpr int kCases = 400;
  for (int k = 0; k < kCases; ++k) {
    SCOPED_TRACE(absl::StrCat("case ", k));
    ExpectTheDefinition(RandomCase(random, {1, 9}, 40), random, &planes);
  }
  EXPECT_EQ(planes, size_t{2} * kCases);
}

// A block of some GPUs (sm_86, sm_89, sm_120) has 99 KiB.
TEST(MaxPoolPlanesTest, PlanesFitIntoTheLeastSharedMemory) {
  std::mt19937_64 random(9);
  for (const auto& [side, is_by_planes] : {std::pair(112, true), std::pair(162, false)}) {
    Case c;
    c.pool.stride = {4, 4};
    c.x = {1, 1, side, side};
    c.y = {1, 1, (side + 3) / 4, (side + 3) / 4};
    size_t planes = 0;
    ExpectTheDefinition(c, random, &planes);
    EXPECT_EQ(planes, is_by_planes ? 2u : 0u) << side;
  }
}

// Planes that no block holds.
TEST(MaxPoolPlanesTest, LargePlanesArePooledElementByElement) {
  std::mt19937_64 random(8);
  size_t planes = 0;
  for (int k = 0; k < 12; ++k) {
    SCOPED_TRACE(absl::StrCat("case ", k));
    ExpectTheDefinition(RandomCase(random, {180, 190}, 1), random, &planes);
  }
  EXPECT_EQ(planes, 0u);
}

}  // namespace
}  // namespace partita
