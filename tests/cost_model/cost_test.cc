#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <thread>

#include "absl/strings/str_cat.h"
#include "cost_model/combinators.h"
#include "cost_model/default_cost_model.h"
#include "cost_model/link_cost.h"
#include "cost_model/machines.h"
#include "cost_model/measured_cost.h"
#include "cost_model/roofline_cost.h"
#include "cost_model/synthetic.h"
#include "graph/collective/algorithms.h"
#include "graph/collective/collective.h"
#include "tests/cost_model/signatures.h"

namespace partita {
namespace {

using ::testing::AllOf;
using ::testing::Ge;
using ::testing::Le;

std::shared_ptr<const Machine> Shared(const std::string& name,
                                      std::optional<int> devices = std::nullopt) {
  return std::make_shared<const Machine>(FindMachine(name, devices).value());
}

double Millis(const std::optional<TaskCost>& cost) {
  return static_cast<double>(cost.value().time.value()) * 1e-6;
}

std::vector<DeviceId> FirstDevices(int count) {
  std::vector<DeviceId> group;
  for (int d = 0; d < count; ++d) group.push_back(DeviceId(d));
  return group;
}

TaskCost PriceOf(const CostModel& model, const Collective& collective, absl::string_view algorithm,
                 std::span<const DeviceId> group) {
  return model.CollectiveCost({&collective, algorithm, group, DType::kFloat32}).value();
}

TEST(TaskCostTest, TimesAreBetweenANanosecondAndForever) {
  EXPECT_EQ(CostOfSeconds(0, CostSource::kRoofline).time, Nanos(1));
  EXPECT_EQ(CostOfSeconds(-5, CostSource::kRoofline).time, Nanos(1));
  EXPECT_EQ(CostOfSeconds(1.25e-6, CostSource::kMeasured).time, Nanos(1250));
  for (double endless : {1e300, std::numeric_limits<double>::infinity(), std::nan("")}) {
    EXPECT_EQ(CostOfSeconds(endless, CostSource::kRoofline).time, Nanos(int64_t{1} << 62));
  }
}

TEST(RooflineTest, AlexNetConvolutionOnP100TakesMilliseconds) {
  const RooflineCost model(Shared("p100-4x4"));
  // Batch 64: 64 * 223.9 M multiply-adds = 28.7 GFLOP; 2.7 ms at the peak of 10.6 TFLOP/s.
  EXPECT_EQ(WorkOf(ConvForward(64)).multiply_adds, 64 * 223'948'800LL);
  const TaskCost cost = *model.KernelCost(ConvForward(64), DeviceId(0));
  EXPECT_EQ(cost.source, CostSource::kRoofline);
  EXPECT_THAT(Millis(cost), AllOf(Ge(2.7), Le(6.0)));
}

TEST(RooflineTest, ElementwiseKernelsAreBoundByMemory) {
  const RooflineCost model(Shared("p100-4x4"));
  // 64 M floats read and written: 512 MiB at 732 GB/s and 75 %.
  EXPECT_NEAR(Millis(model.KernelCost(ReluForward(64 << 20), DeviceId(0))),
              536.87e6 / (732e9 * kMemoryEfficiency) * 1e3 + 0.005, 0.01);
}

TEST(RooflineTest, MoreWorkTakesMoreTime) {
  for (const char* name : {"p100-4x4", "k80-16x4", "ethernet-4x1g", "local"}) {
    const RooflineCost model(Shared(name));
    Nanos last{0};
    for (int64_t batch : {0, 1, 2, 7, 8, 64, 256}) {
      const Nanos time = model.KernelCost(ConvForward(batch), DeviceId(0))->time;
      EXPECT_GE(time, last);
      last = time;
    }
    last = Nanos(0);
    for (int64_t elements : {0, 1, 100, 10'000, 1'000'000, 100'000'000}) {
      const MoveSignature move{.elements = elements, .run = elements};
      const Nanos time = model.MoveCost(move, DeviceId(0))->time;
      EXPECT_GE(time, last);
      last = time;
    }
  }
}

TEST(RooflineTest, ScatteredMovesTakeLonger) {
  const RooflineCost model(Shared("local", 1));
  const auto time = [&](int64_t run) {
    return model.MoveCost({.elements = 1 << 20, .run = run}, DeviceId(0))->time;
  };
  EXPECT_LT(time(1 << 20), time(64));
  EXPECT_LT(time(64), time(1));
}

TEST(LinkCostTest, TransferTakesLatencyAndBytesOverBandwidth) {
  const LinkCost model(Shared("ethernet-4x1g"));
  const TransferCall one[] = {{DeviceId(0), DeviceId(1), 125'000'000}};
  EXPECT_EQ(model.TransferCost(one)->time, Nanos(1'000'050'000));
  const TransferCall nothing[] = {{DeviceId(0), DeviceId(1), 0}};
  EXPECT_EQ(model.TransferCost(nothing)->time, Nanos(50'000));
  EXPECT_EQ(model.TransferCost({})->time, Nanos(1));
}

TEST(LinkCostTest, GroupsAreFullDuplexAndShareTheirLinks) {
  const LinkCost model(Shared("ethernet-4x1g"));
  const int64_t second = 125'000'000;
  const auto millis = [&](std::vector<TransferCall> group) {
    return std::round(Millis(model.TransferCost(group)));
  };
  const DeviceId a(0), b(1), c(2), d(3);
  EXPECT_EQ(millis({{a, b, second}, {b, a, second}}), 1000);
  EXPECT_EQ(millis({{a, b, second}, {b, c, second}, {c, d, second}, {d, a, second}}), 1000);
  EXPECT_EQ(millis({{a, b, second}, {a, c, second}}), 2000);
  EXPECT_EQ(millis({{a, c, second}, {b, c, second}, {d, c, second}}), 3000);
}

TEST(LinkCostTest, RingAllReduceOfFourHostsMatchesItsFormula) {
  const LinkCost model(Shared("ethernet-4x1g"));
  // The gradients of AlexNet: 2 * 3/4 * 4 * 61,100,840 bytes through each link, 6 latencies.
  const TaskCost cost = PriceOf(model, MakeAllReduce(4, 61'100'840), "ring", FirstDevices(4));
  EXPECT_EQ(cost.time.value(), std::llround(1e9 * 366'605'040 / 125e6 + 6 * 50e3));
}

TEST(LinkCostTest, EveryAlgorithmHasAPriceAndNoneBeatsTheBandwidth) {
  const LinkCost model(Shared("ethernet-4x1g"));
  const int64_t total = 1 << 20;
  for (const CollectiveAlgorithm& row : CollectiveAlgorithms()) {
    if (!row.kinds.contains(CollectiveKind::kAllReduce) || !row.applicable(4)) continue;
    const TaskCost cost = PriceOf(model, MakeAllReduce(4, total), row.name, FirstDevices(4));
    EXPECT_GE(Millis(cost), 2.0 * 3 / 4 * 4 * total / 125e6 * 1e3) << row.name;
    EXPECT_LE(Millis(cost), 20.0 * 4 * total / 125e6 * 1e3) << row.name;
  }
  const Collective collective = MakeAllReduce(4, total);
  EXPECT_FALSE(model.CollectiveCost({&collective, "carrier_pigeon", FirstDevices(4)}).has_value());
}

TEST(LinkCostTest, CrossingNodesCostsMore) {
  const LinkCost model(Shared("p100-4x4"));
  const std::vector<DeviceId> inside = FirstDevices(4);
  const std::vector<DeviceId> across = {DeviceId(0), DeviceId(4), DeviceId(8), DeviceId(12)};
  EXPECT_LT(PriceOf(model, MakeAllReduce(4, 1 << 22), "ring", inside).time,
            PriceOf(model, MakeAllReduce(4, 1 << 22), "ring", across).time);
}

// Two nodes of two GPUs; between the nodes it is ten times as slow as to the GPUs.
Machine TwoByTwo() {
  Machine machine = FindMachine("p100-4x4").value();
  std::vector<Device> devices;
  std::vector<Link> links;
  for (int d = 0; d < 4; ++d) {
    Device device = machine.topology.device(DeviceId(d));
    device.node = d / 2;
    links.push_back({absl::StrCat("bus", d),
                     {device.name, absl::StrCat("switch", d / 2)},
                     10'000'000'000,
                     Nanos(0)});
    devices.push_back(std::move(device));
  }
  links.push_back({"wire", {"switch0", "switch1"}, 1'000'000'000, Nanos(0)});
  machine.topology = DeviceTopology::Create(std::move(devices), std::move(links)).value();
  return machine;
}

TEST(LinkCostTest, AHierarchicalAllReduceIsPricedPhaseByPhaseOnItsLinks) {
  const LinkCost model(std::make_shared<const Machine>(TwoByTwo()));
  const Collective c = MakeAllReduce(4, 25'000'000);  // 100 MB
  // Half of it to and from each GPU within the nodes, twice; between them both of the halves go a
  // round of two GPUs, a quarter of the bytes at a time, twice.
  EXPECT_NEAR(Millis(PriceOf(model, c, "hierarchical(nodes=0*2+1*2)", FirstDevices(4))),
              2 * 5 + 2 * 50, 0.01);
  // A ring of four: 6 rounds of a quarter over the wire.
  EXPECT_NEAR(Millis(PriceOf(model, c, "ring", FirstDevices(4))), 6 * 25, 0.01);
}

TEST(LinkCostTest, MeasuredRatesComeFirst) {
  Machine machine = FindMachine("local", 2, true).value();
  machine.collective_rates = {{"", 2, {1e6, 1e9}, 0.2}, {"ring", 2, {1000, 1e9}, 0.1}};
  const LinkCost model(std::make_shared<const Machine>(machine));
  const TaskCost ring = PriceOf(model, MakeAllReduce(2, 1'000'000), "ring", FirstDevices(2));
  EXPECT_EQ(ring.time, Nanos(2 * 1000 + 4'000'000));
  EXPECT_EQ(ring.source, CostSource::kInterpolated);
  EXPECT_EQ(ring.spread, 0.1);
  const TaskCost other =
      PriceOf(model, MakeAllReduce(2, 1'000'000), "halving_doubling", FirstDevices(2));
  EXPECT_EQ(other.spread, 0.2);
}

// Two devices of this host, the second of a class of its own.
Machine TwoClasses() {
  Machine machine = FindMachine("local", 2, true).value();
  machine.classes.push_back(machine.classes[0]);
  machine.classes[1].name = "slow";
  std::vector<Device> devices(machine.topology.devices().begin(), machine.topology.devices().end());
  devices[1].device_class = "slow";
  machine.topology = DeviceTopology::Create(devices, {machine.topology.links().begin(),
                                                      machine.topology.links().end()})
                         .value();
  return machine;
}

TEST(LinkCostTest, RatesOfOneClassSayNothingAboutGroupsOfAnotherOrOfSeveral) {
  Machine machine = TwoClasses();
  machine.collective_rates = {{"ring", 2, {1000, 1e9}, 0.1, "slow"}};
  const LinkCost mixed(std::make_shared<const Machine>(machine));
  EXPECT_NE(PriceOf(mixed, MakeAllReduce(2, 1'000'000), "ring", FirstDevices(2)).spread, 0.1);
  machine = FindMachine("local", 2, true).value();
  machine.collective_rates = {{"ring", 2, {1000, 1e9}, 0.1, "slow"}};
  const LinkCost other(std::make_shared<const Machine>(machine));
  EXPECT_NE(PriceOf(other, MakeAllReduce(2, 1'000'000), "ring", FirstDevices(2)).spread, 0.1);
  machine.collective_rates[0].device_class = "cpu";
  const LinkCost own(std::make_shared<const Machine>(machine));
  EXPECT_EQ(PriceOf(own, MakeAllReduce(2, 1'000'000), "ring", FirstDevices(2)).spread, 0.1);
}

TEST(MeasuredTest, TransfersBetweenClassesAreNotThoseWithinOne) {
  const std::vector<TransferCall> group = {{DeviceId(0), DeviceId(1), 4096}};
  ProfileRecord record = RecordOf(group);
  record.samples_ns = {777};
  const auto profile = std::make_shared<const Profile>(DeviceFingerprint{}, std::span(&record, 1));
  const DeviceProfiles profiles(2, profile);
  const MeasuredCost alike(std::make_shared<const Machine>(FindMachine("local", 2, true).value()),
                           profiles);
  EXPECT_EQ(alike.TransferCost(group)->time, Nanos(777));
  const MeasuredCost mixed(std::make_shared<const Machine>(TwoClasses()), profiles);
  EXPECT_EQ(mixed.TransferCost(group), std::nullopt);
}

ProfileRecord Timed(const KernelSignature& signature, int64_t nanos) {
  ProfileRecord record = RecordOf(signature);
  record.samples_ns = {nanos, nanos, nanos};
  return record;
}

DeviceProfiles OneProfile(const Machine& machine, const std::vector<ProfileRecord>& records) {
  return DeviceProfiles(machine.topology.size(),
                        std::make_shared<const Profile>(DeviceFingerprint{}, records));
}

TEST(MeasuredTest, ExactSignaturesAreKnownAndNoOthers) {
  const auto machine = Shared("local", 1);
  const MeasuredCost model(machine, OneProfile(*machine, {Timed(ConvForward(8), 12345)}));
  const TaskCost cost = *model.KernelCost(ConvForward(8), DeviceId(0));
  EXPECT_EQ(cost, (TaskCost{Nanos(12345), CostSource::kMeasured, 0}));
  EXPECT_FALSE(model.KernelCost(ConvForward(9), DeviceId(0)).has_value());
}

// Twice the bytes of its wider side; the copy of as many is half of that.
TEST(RooflineTest, AConversionTakesTwoPasses) {
  const RooflineCost model(Shared("p100-4x4"));
  const auto time = [&](MoveSignature::Kind kind, DType to, DType from) {
    return Millis(model.MoveCost({kind, to, 1 << 24, 1 << 24, from}, DeviceId(0)));
  };
  using Kind = MoveSignature::Kind;
  const double wide = time(Kind::kCopy, DType::kFloat64, DType::kFloat64);
  EXPECT_NEAR(time(Kind::kReorder, DType::kFloat32, DType::kFloat64) / wide, 2, 0.1);
  EXPECT_NEAR(time(Kind::kReorder, DType::kFloat64, DType::kFloat32) / wide, 2, 0.1);
}

TEST(InterpolatedTest, FactorStaysWithinTheNeighbours) {
  const auto machine = Shared("p100-4x4");
  const RooflineCost roofline(machine);
  const DeviceClass& p100 = machine->classes[0];
  const auto base = [&](int64_t batch) {
    return 1e9 * RooflineSeconds(p100, Precision::kFloat32, WorkOf(ConvForward(batch)),
                                 MinimumBytes(ConvForward(batch)));
  };
  // Measured at 1.5 and 2.5 times the roofline.
  const InterpolatedCost model(
      machine, OneProfile(*machine, {Timed(ConvForward(8), std::llround(1.5 * base(8))),
                                     Timed(ConvForward(64), std::llround(2.5 * base(64)))}));
  double last = 0;
  for (int64_t batch : {4, 8, 12, 16, 24, 32, 48, 64, 128}) {
    const TaskCost cost = *model.KernelCost(ConvForward(batch), DeviceId(0));
    EXPECT_EQ(cost.source, CostSource::kInterpolated);
    const double factor = static_cast<double>(cost.time.value()) / base(batch);
    EXPECT_THAT(factor, AllOf(Ge(1.49), Le(2.51))) << batch;
    EXPECT_GT(static_cast<double>(cost.time.value()), last) << batch;
    last = static_cast<double>(cost.time.value());
  }
}

TEST(InterpolatedTest, OtherFamiliesAndFarSizesAreUnknown) {
  const auto machine = Shared("p100-4x4");
  const InterpolatedCost model(machine, OneProfile(*machine, {Timed(ReluForward(1000), 10'000)}));
  EXPECT_TRUE(model.KernelCost(ReluForward(2000), DeviceId(3)).has_value());
  EXPECT_FALSE(model.KernelCost(ReluForward(1 << 30), DeviceId(3)).has_value());
  EXPECT_FALSE(model.KernelCost(ConvForward(8), DeviceId(3)).has_value());
}

TEST(InterpolatedTest, SparseProfileOfSmoothTimesIsMetWithinTwentyPercent) {
  const auto machine = Shared("ethernet-4x1g");
  const DeviceClass& device = machine->classes[0];
  std::vector<ProfileRecord> records;
  for (int64_t batch : {8, 32, 128}) {
    for (int64_t outputs : {256, 1024, 4096}) {
      ProfileRecord record = RecordOf(Linear(batch, 4096, outputs));
      record.samples_ns = SyntheticSamples(Linear(batch, 4096, outputs), device);
      records.push_back(record);
    }
  }
  const InterpolatedCost model(machine, OneProfile(*machine, records));
  const SyntheticCost truth(machine);
  for (int64_t batch : {8, 16, 64, 100}) {
    for (int64_t outputs : {300, 512, 1000, 2048}) {
      const KernelSignature signature = Linear(batch, 4096, outputs);
      const double found = Millis(model.KernelCost(signature, DeviceId(0)));
      EXPECT_NEAR(found / Millis(truth.KernelCost(signature, DeviceId(0))), 1, 0.2);
    }
  }
}

TEST(InterpolatedTest, MovesAndCollectivesScaleWithTheirBytes) {
  const auto machine = Shared("local", 2);
  std::vector<ProfileRecord> records;
  for (int64_t elements : {1000, 100'000, 10'000'000}) {
    records.push_back(RecordOf(MoveSignature{.elements = elements, .run = elements}));
    records.back().samples_ns = {1000 + elements / 2};
    const Collective collective = MakeAllReduce(2, elements);
    records.push_back(RecordOf(CollectiveCall{&collective, "ring", FirstDevices(2)}));
    records.back().samples_ns = {20'000 + elements * 2};
  }
  const InterpolatedCost model(machine, OneProfile(*machine, records));
  for (int64_t elements : {100'000, 1'000'000, 5'000'000}) {
    const MoveSignature move{.elements = elements, .run = elements};
    EXPECT_NEAR(Millis(model.MoveCost(move, DeviceId(1))) / (1e-3 + 0.5e-6 * elements), 1, 0.35);
    const TaskCost ring = PriceOf(model, MakeAllReduce(2, elements), "ring", FirstDevices(2));
    EXPECT_EQ(ring.source, CostSource::kInterpolated);
    EXPECT_NEAR(Millis(ring) / (20e-3 + 2e-6 * elements), 1, 0.35);
  }
  EXPECT_FALSE(
      model
          .MoveCost({.kind = MoveSignature::Kind::kAdd, .elements = 1000, .run = 1000}, DeviceId(0))
          .has_value());
}

TEST(DefaultCostModelTest, TakesTheBestSourceAndKnowsAll) {
  const auto machine = Shared("local", 2);
  const auto model =
      MakeDefaultCostModel(machine, OneProfile(*machine, {Timed(ConvForward(8), 12345)}));
  const DeviceId d(1);
  EXPECT_EQ(model->KernelCost(ConvForward(8), d)->source, CostSource::kMeasured);
  EXPECT_EQ(model->KernelCost(ConvForward(9), d)->source, CostSource::kInterpolated);
  EXPECT_EQ(model->KernelCost(Linear(8, 9, 10), d)->source, CostSource::kRoofline);
  EXPECT_TRUE(model->MoveCost({.elements = 5, .run = 5}, d).has_value());
  EXPECT_GE(PriceOf(*model, MakeAllReduce(2, 0), "ring", FirstDevices(2)).time, Nanos(1));
  EXPECT_TRUE(model->TransferCost({}).has_value());
}

TEST(DefaultCostModelTest, EmptyKernelsTakeTime) {
  const auto model = MakeDefaultCostModel(Shared("p100-4x4"));
  EXPECT_GE(model->KernelCost(ReluForward(0), DeviceId(0))->time, Nanos(1));
  EXPECT_GE(model->KernelCost(ConvForward(0), DeviceId(0))->time, Nanos(1));
}

// Counts how often it is asked.
class Counting : public CostModel {
 public:
  explicit Counting(int& asked) : asked_(asked) {}
  std::optional<TaskCost> KernelCost(const KernelSignature&, DeviceId device) const override {
    ++asked_;
    return TaskCost{Nanos(10 + device.value()), CostSource::kMeasured, 0};
  }
  std::optional<TaskCost> MoveCost(const MoveSignature&, DeviceId) const override {
    ++asked_;
    return std::nullopt;
  }
  std::optional<TaskCost> CollectiveCost(const CollectiveCall& call) const override {
    ++asked_;
    return TaskCost{Nanos(call.collective->total + 1)};
  }
  std::optional<TaskCost> TransferCost(std::span<const TransferCall>) const override {
    return std::nullopt;
  }

 private:
  int& asked_;
};

TEST(CombinatorsTest, CachedAsksOnceForEqualDevices) {
  int asked = 0;
  const Cached cached(std::make_unique<Counting>(asked), {DeviceId(0), DeviceId(0), DeviceId(2)});
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(cached.KernelCost(ConvForward(8), DeviceId(0))->time, Nanos(10));
    EXPECT_EQ(cached.KernelCost(ConvForward(8), DeviceId(1))->time, Nanos(10));
    EXPECT_EQ(cached.KernelCost(ConvForward(8), DeviceId(2))->time, Nanos(12));
    EXPECT_FALSE(cached.MoveCost({.elements = 3}, DeviceId(0)).has_value());
    EXPECT_EQ(PriceOf(cached, MakeAllReduce(16, 30), "ring", FirstDevices(16)).time, Nanos(31));
    EXPECT_EQ(PriceOf(cached, MakeAllReduce(16, 31), "ring", FirstDevices(16)).time, Nanos(32));
  }
  EXPECT_EQ(asked, 2 + 1 + 2);
}

TEST(CombinatorsTest, CachedForgetsTheOlderHalfBeyondItsLimit) {
  int asked = 0;
  const Cached cached(std::make_unique<Counting>(asked), {DeviceId(0), DeviceId(1)}, std::nullopt,
                      Bytes(4096));
  const auto ask = [&](int total) {
    const int before = asked;
    EXPECT_EQ(PriceOf(cached, MakeAllReduce(16, total), "ring", FirstDevices(16)).time,
              Nanos(total + 1));
    return asked > before;
  };
  for (int total = 1; total <= 1000; ++total) {
    EXPECT_TRUE(ask(total));
    EXPECT_FALSE(ask(total));
  }
  EXPECT_FALSE(ask(999));
  EXPECT_TRUE(ask(1));
}

// Answers what is not better than what is to be beaten, as models may.
class NotBetter : public Counting {
 public:
  using Counting::Counting;
  std::optional<TaskCost> CollectiveCost(const CollectiveCall& call) const override {
    const auto exact = Counting::CollectiveCost(call);
    return call.to_beat == nullptr || Beats(*exact, *call.to_beat) ? exact : *call.to_beat;
  }
};

TEST(CombinatorsTest, CachedKnowsWhatWasNotBeaten) {
  int asked = 0;
  const Cached cached(std::make_unique<NotBetter>(asked), {DeviceId(0), DeviceId(1)});
  const Collective collective = MakeAllReduce(16, 99);  // takes 100
  const std::vector<DeviceId> group = FirstDevices(16);
  const auto beats = [&](int64_t time) {
    const TaskCost to_beat{Nanos(time)};
    const auto cost =
        cached.CollectiveCost({&collective, "ring", group, DType::kFloat32, &to_beat});
    return Beats(*cost, to_beat);
  };
  EXPECT_FALSE(beats(50));
  EXPECT_FALSE(beats(50));
  EXPECT_FALSE(beats(40));
  EXPECT_EQ(asked, 1);
  EXPECT_FALSE(beats(60));  // more than is known
  EXPECT_FALSE(beats(60));
  EXPECT_EQ(asked, 2);
  EXPECT_TRUE(beats(101));
  EXPECT_EQ(asked, 3);
  EXPECT_FALSE(beats(100));
  EXPECT_TRUE(beats(200));
  EXPECT_EQ(PriceOf(cached, collective, "ring", group).time, Nanos(100));
  EXPECT_EQ(asked, 3);
}

TEST(CombinatorsTest, CachedIsForSeveralThreads) {
  const auto model = MakeDefaultCostModel(Shared("p100-4x4"));
  std::vector<std::thread> threads;
  std::vector<int64_t> sums(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int k = 0; k < 2000; ++k) {
        sums[t] += model->KernelCost(ConvForward(k % 50), DeviceId(k % 16))->time.value();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sums, std::vector<int64_t>(4, sums[0]));
}

TEST(CombinatorsTest, ScaledMultipliesByKind) {
  int asked = 0;
  const Scaled scaled(std::make_unique<Counting>(asked), {.kernels = 2, .collectives = 0.5});
  EXPECT_EQ(scaled.KernelCost(ConvForward(8), DeviceId(0))->time, Nanos(20));
  EXPECT_EQ(PriceOf(scaled, MakeAllReduce(2, 39), "ring", FirstDevices(2)).time, Nanos(20));
  EXPECT_FALSE(scaled.MoveCost({}, DeviceId(0)).has_value());
}

TEST(SyntheticTest, IsTheSameEverywhere) {
  const auto machine = Shared("ethernet-4x1g");
  const SyntheticCost model(machine);
  const TaskCost cost = *model.KernelCost(ConvForward(64), DeviceId(0));
  EXPECT_EQ(cost.source, CostSource::kMeasured);
  EXPECT_EQ(cost, *model.KernelCost(ConvForward(64), DeviceId(3)));
  // 28.67 GFLOP at 2 TFLOP/s, times the family's and the signature's factor.
  EXPECT_THAT(Millis(cost) / 14.33, AllOf(Ge(0.9 * 0.98), Le(1.3 * 1.02)));
  EXPECT_EQ(SyntheticSamples(ConvForward(64), machine->classes[0])[2], cost.time.value());
}

// A class of which products with factors of 16 bits are eight times as fast.
std::shared_ptr<const Machine> WithRatesOf16Bits() {
  Machine machine = FindMachine("p100-4x4", 1).value();
  DeviceClass& p100 = machine.classes[0];
  p100.precision_rates = {{Precision::kFloat16, 8 * p100.matrix_flops},
                          {Precision::kBfloat16, 8 * p100.matrix_flops}};
  return std::make_shared<const Machine>(std::move(machine));
}

TEST(PrecisionTest, RooflineTakesTheRateAndAddsTheCasts) {
  const auto time = [](const KernelSignature& signature, Precision precision) {
    const RooflineCost model(WithRatesOf16Bits());
    return Millis(model.KernelCost(InPrecision(signature, precision), DeviceId(0)));
  };
  // Large enough that its casts are little: 2 * 4096^3 operations.
  const KernelSignature product = Linear(4096, 4096, 4096);
  EXPECT_NEAR(time(product, Precision::kFloat32) / time(product, Precision::kBfloat16), 8, 0.5);
  EXPECT_EQ(time(product, Precision::kTf32), time(product, Precision::kFloat32));
  // A product with a vector is its traffic: factors are read and written once more.
  const KernelSignature thin = Linear(1, 8192, 8192);
  EXPECT_NEAR(time(thin, Precision::kBfloat16) / time(thin, Precision::kFloat32), 2, 0.1);
  EXPECT_GT(time(thin, Precision::kFloat16), time(thin, Precision::kBfloat16));
  EXPECT_EQ(time(ReluForward(1 << 20), Precision::kFloat16),
            time(ReluForward(1 << 20), Precision::kFloat32));
}

TEST(PrecisionTest, MeasuredAndInterpolatedPricesAreThoseOfTheComputeType) {
  ProfileRecord half = RecordOf(InPrecision(ConvForward(8), Precision::kFloat16));
  half.samples_ns = {1000};
  const std::vector<ProfileRecord> records = {Timed(ConvForward(8), 5000), half};
  const auto machine = WithRatesOf16Bits();
  const MeasuredCost measured(machine, OneProfile(*machine, records));
  const InterpolatedCost interpolated(machine, OneProfile(*machine, records));
  for (const auto& [precision, nanos] :
       {std::pair(Precision::kFloat32, 5000), std::pair(Precision::kFloat16, 1000)}) {
    const KernelSignature kernel = InPrecision(ConvForward(8), precision);
    EXPECT_EQ(measured.KernelCost(kernel, DeviceId(0))->time, Nanos(nanos));
    EXPECT_EQ(interpolated.KernelCost(kernel, DeviceId(0))->time, Nanos(nanos));
  }
  const KernelSignature brain = InPrecision(ConvForward(8), Precision::kBfloat16);
  EXPECT_FALSE(measured.KernelCost(brain, DeviceId(0)).has_value());
}

}  // namespace
}  // namespace partita
