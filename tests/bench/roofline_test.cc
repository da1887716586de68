#include "tests/bench/roofline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "cost_model/machines.h"
#include "graph/training/training_graph.h"
#include "graph/zoo/models.h"
#include "tests/testing/ok.h"

namespace partita {
namespace {

using ::testing::HasSubstr;

constexpr char kReport[] = PARTITA_SOURCE_DIR "/tests/gpu_reports/h200-2026-11-26.json";

// 10 TFLOP/s of products, 40 in bfloat16, 1 of other arithmetic, 1 TB/s.
DeviceClass ExampleClass() {
  DeviceClass device;
  device.matrix_flops = 10e12;
  device.other_flops = 1e12;
  device.memory_bytes_per_second = 1e12;
  device.precision_rates = {{Precision::kBfloat16, 40e12}};
  return device;
}

KernelTensor Floats(const Shape& shape) { return {{DType::kFloat32, shape}}; }

KernelSignature Product(int64_t rows, int64_t in, int64_t out, Precision precision) {
  const KernelSignature matmul{
      MatMul{}, Pass::Forward(), {Floats({rows, in}), Floats({out, in})}, {Floats({rows, out})}};
  return InPrecision(matmul, precision);
}

TEST(RooflineTest, ALargeProductIsBoundByArithmetic) {
  const RooflineRow row =
      Ok(RooflineOf(Product(1000, 500, 200, Precision::kFloat32), ExampleClass()));
  EXPECT_EQ(row.flops, 2 * 1000 * 500 * 200);
  EXPECT_EQ(row.bytes, 4 * (1000 * 500 + 500 * 200 + 1000 * 200));
  EXPECT_EQ(row.of_scratch, 0);
  EXPECT_DOUBLE_EQ(row.arithmetic_us, 20);
  EXPECT_DOUBLE_EQ(row.memory_us, 3.2);
  EXPECT_FALSE(row.bound_by_memory());
  EXPECT_DOUBLE_EQ(row.roof_us(), 20);
  EXPECT_DOUBLE_EQ(row.intensity(), 62.5);
}

// Both factors are written in 16 bits and read again.
TEST(RooflineTest, FactorsOf16BitsAreConverted) {
  const RooflineRow row =
      Ok(RooflineOf(Product(1000, 500, 200, Precision::kBfloat16), ExampleClass()));
  EXPECT_EQ(row.of_scratch, 2 * 2 * (1000 * 500 + 500 * 200));
  EXPECT_EQ(row.bytes, 3200000 + row.of_scratch);
  EXPECT_DOUBLE_EQ(row.arithmetic_us, 5);
  EXPECT_DOUBLE_EQ(row.memory_us, 5.6);
  EXPECT_TRUE(row.bound_by_memory());
}

TEST(RooflineTest, AConvolutionsWorkIsThatOfItsWindows) {
  const Conv2d conv{.pads = {1, 1, 1, 1}};
  const KernelSignature signature{
      conv, Pass::Forward(), {Floats({2, 3, 8, 8}), Floats({4, 3, 3, 3})}, {Floats({2, 4, 8, 8})}};
  const RooflineRow row = Ok(RooflineOf(signature, ExampleClass()));
  EXPECT_EQ(row.bytes, 4 * (2 * 3 * 64 + 4 * 3 * 9 + 2 * 4 * 64));
  EXPECT_EQ(row.flops, 2 * (2 * 4 * 64) * (3 * 9));
}

TEST(RooflineTest, AReluReadsAndWritesEachElementOnce) {
  const KernelSignature relu{Relu{}, Pass::Forward(), {Floats({1000})}, {Floats({1000})}};
  const RooflineRow row = Ok(RooflineOf(relu, ExampleClass()));
  EXPECT_EQ(row.flops, 1000);
  EXPECT_EQ(row.bytes, 8000);
  EXPECT_TRUE(row.bound_by_memory());
  EXPECT_EQ(row.work, "relu");
  const KernelSignature gradient{
      Relu{}, Pass::Gradient(0), {Floats({1000}), Floats({1000})}, {Floats({1000})}};
  EXPECT_EQ(Ok(RooflineOf(gradient, ExampleClass())).work, "relu.d0");
  EXPECT_EQ(Ok(RooflineOf(gradient, ExampleClass())).bytes, 12000);
}

TEST(RooflineTest, WhatOnlyKeepsOrderMovesNothing) {
  const KernelSignature reshape{Reshape{}, Pass::Forward(), {Floats({4, 6})}, {Floats({24})}};
  const RooflineRow row = Ok(RooflineOf(reshape, ExampleClass()));
  EXPECT_EQ(row.bytes, 0);
  EXPECT_EQ(row.roof_us(), 0);
  EXPECT_EQ(row.launches, 0);
}

// The gradient is stored and read again: the backend does one operator after the other.
TEST(RooflineTest, WhatFusedOperatorsHandToEachOtherIsMoved) {
  const KernelTensor w = Floats({200, 500});
  const KernelSignature gradient{
      MatMul{}, Pass::Gradient(1), {Floats({1000, 500}), Floats({1000, 200})}, {w}};
  const KernelSignature update{Sgd{}, Pass::Forward(), {w, w, w}, {w, w}};
  const RooflineRow row = Ok(RooflineOf(FusedUpdate(gradient, update), ExampleClass()));
  EXPECT_EQ(row.of_scratch, 2 * 4 * 200 * 500);
  EXPECT_EQ(row.bytes, 4 * (1000 * 500 + 1000 * 200 + 6 * 200 * 500));
  EXPECT_EQ(row.launches, 2);
}

TEST(RooflineTest, AStepHasTheTasksThatTheReportMeasured) {
  const Graph graph = Ok(BuildTrainingGraph(Ok(MakeZooModel("alexnet", 256)), {}));
  const Machine machine = Ok(FindMachine("h200-1x8", 1));
  const StepRoofline step{Precision::kTf32, Ok(RooflineOfStep(graph, machine, Precision::kTf32)),
                          Ok(ReadMeasuredStep(kReport, 256, Precision::kTf32))};
  const auto& [precision, rows, measured] = step;
  EXPECT_NEAR(measured->step_us, 9246.679, 1e-3);
  EXPECT_GT(rows.size(), 60u);
  for (const RooflineRow& row : rows) {
    ASSERT_TRUE(measured->task_us.contains(row.task)) << row.task;
    EXPECT_LT(row.roof_us(), measured->task_us.at(row.task)) << row.task;
  }
  const RooflineSum sum = SumOf(rows);
  EXPECT_GT(sum.roof_us, 0);
  EXPECT_LT(sum.memory_bound_us, sum.roof_us);
  EXPECT_LT(sum.roof_us, sum.priced_us);
  const std::string table = RooflineTable({step});
  EXPECT_THAT(table, HasSubstr("| features.0 | conv2d + relu |"));
  EXPECT_THAT(table, HasSubstr("| step |"));
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), static_cast<int>(rows.size()) + 3);
  const std::string furthest = FurthestFromTheRoof(step, 2);
  EXPECT_EQ(std::count(furthest.begin(), furthest.end(), '\n'), 2);
  EXPECT_THAT(furthest, HasSubstr("us over a roof of"));
}

TEST(RooflineTest, AReportThatIsNoneIsAnError) {
  EXPECT_EQ(ReadMeasuredStep("/no/such/report", 256, Precision::kTf32).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(ReadMeasuredStep(kReport, 7, Precision::kTf32).status().code(),
            absl::StatusCode::kNotFound);
  const auto none = ReadMeasuredStep(PARTITA_SOURCE_DIR "/README.md", 256, Precision::kTf32);
  EXPECT_EQ(none.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(none.status().message()), HasSubstr("a report of the GPU suite"));
}

}  // namespace
}  // namespace partita
