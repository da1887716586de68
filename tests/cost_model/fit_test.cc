#include "cost_model/fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "cost_model/link_cost.h"
#include "cost_model/machines.h"
#include "graph/collective/collective.h"
#include "tests/cost_model/signatures.h"

namespace partita {
namespace {

using ::testing::SizeIs;

TEST(FitTest, ExactLinesAreFound) {
  std::vector<FitPoint> points;
  for (double bytes : {0.0, 1e3, 1e6, 1e9}) points.push_back({2, bytes, 2 * 500 + bytes / 4});
  const FittedLine fitted = FitLine(points).value();
  EXPECT_NEAR(fitted.line.latency_ns, 500, 1e-6);
  EXPECT_NEAR(fitted.line.bytes_per_second, 4e9, 1);
  EXPECT_NEAR(fitted.spread, 0, 1e-9);
}

TEST(FitTest, FiguresAreNeverNegative) {
  const FitPoint falling[] = {{1, 1000, 100}, {1, 2000, 50}};
  const FittedLine flat = FitLine(falling).value();
  EXPECT_GE(flat.line.latency_ns, 0);
  EXPECT_GT(flat.line.bytes_per_second, 0);
  const FitPoint steep[] = {{1, 1000, 10}, {1, 2000, 1000}};
  const FittedLine proportional = FitLine(steep).value();
  EXPECT_EQ(proportional.line.latency_ns, 0);
  EXPECT_GT(proportional.spread, 0.1);
  EXPECT_FALSE(FitLine({}).has_value());
  const FitPoint nothing[] = {{1, 0, 10}};
  EXPECT_FALSE(FitLine(nothing).has_value());
}

TEST(FitTest, OneSizeTellsABandwidthOnlyWhereItIsLarge) {
  const FitPoint large[] = {{1, 1e6, 1e4}, {2, 2e6, 2e4}};
  EXPECT_NEAR(FitLine(large)->line.bytes_per_second, 1e11, 1);
  // 4 bytes in 7 ms are no 600 bytes/s.
  const FitPoint small[] = {{1, 4, 7e6}, {2, 8, 6e6}};
  EXPECT_FALSE(FitLine(small).has_value());
  const FitPoint two_sizes[] = {{1, 4, 1000}, {1, 4096, 2000}};
  EXPECT_NEAR(FitLine(two_sizes)->line.latency_ns, 1000, 10);
}

ProfileRecord Timed(ProfileRecord record, double nanos) {
  record.samples_ns = {std::llround(nanos)};
  return record;
}

TEST(FitTest, RatesOfRecordsPriceThoseRecords) {
  const std::vector<DeviceId> pair = {DeviceId(0), DeviceId(1)};
  std::vector<ProfileRecord> records = {
      // 3.58 GFLOP in 36 ms; 16 MiB in 2 ms; a tiny kernel.
      Timed(RecordOf(ConvForward(8)), 36e6),
      Timed(RecordOf(ReluForward(2 << 20)), 2e6),
      Timed(RecordOf(ReluForward(8)), 700),
  };
  for (int64_t elements : {1000, 100'000, 10'000'000}) {
    const auto bytes = static_cast<double>(elements * 4);
    const TransferCall message[] = {{DeviceId(0), DeviceId(1), elements * 4}};
    records.push_back(
        Timed(RecordOf(MoveSignature{.elements = elements, .run = elements}), 100 + bytes / 8));
    records.push_back(Timed(RecordOf(MoveSignature{.elements = elements, .run = 1}), bytes));
    records.push_back(Timed(RecordOf(message), 3000 + bytes / 5));
    // Two rounds; each rank receives all elements once over both.
    const Collective collective = MakeAllReduce(2, elements);
    records.push_back(
        Timed(RecordOf(CollectiveCall{&collective, "ring", pair}), 2 * 4000 + bytes / 3));
  }
  const MeasuredRates rates = RatesFrom(records);
  EXPECT_NEAR(rates.matrix_flops.value(), 2.0 * 8 * 223'948'800 / 36e-3, 1e6);
  EXPECT_NEAR(rates.memory_bytes_per_second.value(), 16.0 * (1 << 20) / 2e-3, 1e3);
  EXPECT_EQ(rates.kernel_overhead_ns, 700);
  EXPECT_NEAR(rates.copy->bytes_per_second, 8e9, 1e7);
  EXPECT_FALSE(rates.fill.has_value());
  EXPECT_NEAR(rates.exchange->latency_ns, 3000, 10);
  ASSERT_THAT(rates.collective_rates, SizeIs(1));
  EXPECT_EQ(rates.collective_rates[0].algorithm, "ring");
  EXPECT_EQ(rates.collective_rates[0].ranks, 2);
  EXPECT_NEAR(rates.collective_rates[0].line.latency_ns, 4000, 10);

  const auto machine = std::make_shared<const Machine>(
      ApplyRates(FindMachine("local", 2, true).value(), "cpu", rates).value());
  const LinkCost model(machine);
  const TransferCall message[] = {{DeviceId(0), DeviceId(1), 400'000}};
  const TaskCost transfer = model.TransferCost(message).value();
  EXPECT_EQ(transfer.source, CostSource::kInterpolated);
  EXPECT_NEAR(static_cast<double>(transfer.time.value()), 83'000, 100);
  const Collective collective = MakeAllReduce(2, 100'000);
  const TaskCost reduce = model.CollectiveCost({&collective, "ring", pair}).value();
  EXPECT_NEAR(static_cast<double>(reduce.time.value()), 8000 + 400'000 / 3.0, 200);
}

TEST(FitTest, ProductsCountInTheirOwnPrecisionOnly) {
  const KernelSignature tf32 = InPrecision(ConvForward(8), Precision::kTf32);
  const ProfileRecord records[] = {Timed(RecordOf(ConvForward(8)), 36e6),
                                   Timed(RecordOf(tf32), 9e6), Timed(RecordOf(tf32), 18e6),
                                   Timed(RecordOf(ReluForward(8)), 700)};
  const MeasuredRates rates = RatesFrom(records);
  ASSERT_EQ(rates.precision_rates.size(), 1u);
  EXPECT_EQ(rates.precision_rates[0].precision, Precision::kTf32);
  EXPECT_NEAR(rates.precision_rates[0].matrix_flops / *rates.matrix_flops, 4, 1e-6);
  EXPECT_EQ(rates.kernel_overhead_ns, 700);
  Machine machine = FindMachine("p100-4x4", 1).value();
  machine.classes[0].precision_rates = {{Precision::kTf32, 1}, {Precision::kFloat16, 2}};
  machine = ApplyRates(machine, "p100", rates).value();
  EXPECT_EQ(machine.classes[0].MatrixFlops(Precision::kTf32),
            rates.precision_rates[0].matrix_flops);
  EXPECT_EQ(machine.classes[0].MatrixFlops(Precision::kFloat16), 2);
  EXPECT_EQ(machine.classes[0].MatrixFlops(Precision::kFloat32), *rates.matrix_flops);
}

}  // namespace
}  // namespace partita
