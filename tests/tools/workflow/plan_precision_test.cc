// Which precision a plan runs in, on which of its devices.
#include "tools/workflow/plan_precision.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cost_model/casts.h"
#include "cost_model/machines.h"
#include "graph/parallel/device_topology.h"
#include "graph/partition/planned_step.h"
#include "graph/support/error_category.h"
#include "runtime/backend/backends.h"
#include "runtime/backend/cuda/plan/kernel_steps.h"
#include "tests/cost_model/signatures.h"
#include "tools/workflow/priced_machine.h"

namespace partita {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A core and a GPU.
Plan MixedPlan(Precision precision) {
  Plan plan;
  plan.topology =
      DeviceTopology::Create(
          {{.name = "core", .device_class = "xeon", .memory = Bytes(1), .cores = {0}},
           {.name = "gpu", .kind = DeviceKind::kGpu, .device_class = "h200", .memory = Bytes(1)}},
          {{.name = "pcie", .ends = {"core", "gpu"}, .bytes_per_second = 1}})
          .value();
  plan.choices.precision = precision;
  return plan;
}

// Has the name of one that computes in every precision; nothing is opened.
class NamedBackend : public Backend {
 public:
  explicit NamedBackend(std::string name) : name_(std::move(name)) {}
  std::string name() const override { return name_; }
  absl::Status Available() const override { return absl::OkStatus(); }
  bool RunsOnHost() const override { return false; }
  absl::StatusOr<std::unique_ptr<BackendDevice>> Open(const DeviceSpec&) const override {
    return absl::UnimplementedError("not for opening");
  }

 private:
  const std::string name_;
};

TEST(PlanPrecisionTest, APlanRunsAsItWasPricedUnlessAskedOtherwise) {
  const Plan plan = MixedPlan(Precision::kTf32);
  const std::vector<BackendOfClass> gpus = {{"", "cuda"}};
  auto run = PrecisionFor(plan, std::nullopt, gpus);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->precision, Precision::kTf32);
  EXPECT_THAT(run->notes, IsEmpty());
  run = PrecisionFor(plan, Precision::kFloat32, gpus);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->precision, Precision::kFloat32);
  EXPECT_THAT(run->notes, ElementsAre(HasSubstr("priced in tf32 and runs in float32")));
}

TEST(PlanPrecisionTest, ClassesWithoutItStayWithFloat32AndAreNamed) {
  const std::vector<BackendOfClass> mixed = {{"xeon", "reference"}};
  const auto run = PrecisionFor(MixedPlan(Precision::kBfloat16), std::nullopt, mixed);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->precision, Precision::kBfloat16);
  EXPECT_THAT(run->notes, ElementsAre("bfloat16 on devices of class h200; those of class xeon "
                                      "compute in float32"));
}

TEST(PlanPrecisionTest, WithoutAnyClassThatHasItOnlyAskingIsAnError) {
  const std::vector<BackendOfClass> cores = {{"", "reference"}};
  const Plan plan = MixedPlan(Precision::kFloat16);
  const auto run = PrecisionFor(plan, std::nullopt, cores);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->precision, Precision::kFloat32);
  EXPECT_THAT(run->notes, ElementsAre(HasSubstr("the reference backend computes in float32")));
  EXPECT_TRUE(IsUsageError(PrecisionFor(plan, Precision::kFloat16, cores).status()));
}

TEST(PlanPrecisionTest, ARunThatIsAsDeterministicAsThePredictionNeedsNoNote) {
  Plan plan = MixedPlan(Precision::kFloat32);
  EXPECT_EQ(NoteOfDeterminism(plan, false), "");
  EXPECT_THAT(NoteOfDeterminism(plan, true), HasSubstr("priced for deterministic GPUs"));
  plan.choices.nondeterministic = true;
  EXPECT_EQ(NoteOfDeterminism(plan, true), "");
  EXPECT_THAT(NoteOfDeterminism(plan, false), HasSubstr("priced with --nondeterministic"));
  plan.topology = VirtualCpuDevices(2, Bytes(1));
  EXPECT_EQ(NoteOfDeterminism(plan, false), "");
}

TEST(PlanPrecisionTest, OnlyGpusArePricedOtherwise) {
  Plan plan = MixedPlan(Precision::kFloat32);
  EXPECT_THAT(PartitionOptionsOf(plan.topology, plan.choices).nondeterministic_of_device,
              IsEmpty());
  plan.choices.nondeterministic = true;
  EXPECT_THAT(PartitionOptionsOf(plan.topology, plan.choices).nondeterministic_of_device,
              ElementsAre(false, true));
}

// The ranks of a mixed plan: each has the backend of its own device only.
TEST(PrecisionsOnTest, ARankWithoutDevicesThatHaveItStaysWithFloat32) {
  const std::vector<PlacedDevice> core = {{std::make_shared<NamedBackend>("cpu"), {}},
                                          {nullptr, {}}};
  const std::vector<PlacedDevice> gpu = {{nullptr, {}},
                                         {std::make_shared<NamedBackend>("cuda"), {}}};
  EXPECT_THAT(PrecisionsOn(core, Precision::kTf32),
              ElementsAre(Precision::kFloat32, Precision::kFloat32));
  EXPECT_THAT(PrecisionsOn(gpu, Precision::kTf32),
              ElementsAre(Precision::kFloat32, Precision::kTf32));
}

// Two GPUs, with a rate for bfloat16 or without.
std::string MachineFile(bool has_rate) {
  auto machine = FindMachine("p100-4x4", 2);
  EXPECT_TRUE(machine.ok()) << machine.status();
  if (has_rate) machine->classes[0].precision_rates = {{Precision::kBfloat16, 1e14}};
  const std::string path = absl::StrCat(testing::TempDir(), "/rate", has_rate, ".textproto");
  EXPECT_TRUE(SaveMachine(*machine, path).ok());
  return path;
}

TEST(PricedMachineTest, AClassWithoutARateOfThePrecisionIsRefused) {
  for (const std::string& machine : {std::string("p100-4x4"), MachineFile(false)}) {
    MachineRequest request{.machine = machine, .precision = Precision::kBfloat16};
    for (const bool will_measure : {false, true}) {
      request.will_measure = will_measure;
      const absl::Status status = PriceMachine(request).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
      EXPECT_FALSE(IsUsageError(status));
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr("device class 'p100'; it would be priced as float32. Add"));
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr("precision_rates { precision: \"bfloat16\" matrix_flops:"));
    }
    request.precision = Precision::kFloat32;
    EXPECT_TRUE(PriceMachine(request).ok());
  }
}

TEST(PricedMachineTest, ClassesThatHaveThePrecisionArePricedInIt) {
  MachineRequest request{.machine = MachineFile(true)};
  request.precision = Precision::kBfloat16;
  auto priced = PriceMachine(request);
  ASSERT_TRUE(priced.ok()) << priced.status();
  EXPECT_EQ(priced->PrecisionOf(DeviceId(0)), Precision::kBfloat16);
  EXPECT_EQ(priced->precision, Precision::kBfloat16);
  EXPECT_EQ(DefaultChoices(*priced).precision, Precision::kBfloat16);
  request.backends = {{"p100", "reference"}};
  priced = PriceMachine(request);
  EXPECT_TRUE(IsUsageError(priced.status())) << priced.status();
}

// What is priced for casts is what the backend's plans take, but for rounding up of their pieces.
TEST(CastsTest, ScratchIsWhatGpusTakeForConversions) {
  const Shape x = {8, 32, 14, 14}, w = {64, 32, 3, 3}, y = {8, 64, 14, 14};
  const MatMul product{.transposed = false};
  const KernelSignature kernels[] = {
      {Conv2d{.pads = {1, 1, 1, 1}},
       Pass::Forward(),
       {Float(x), Float(w), Float({64})},
       {Float(y)}},
      {Conv2d{.pads = {1, 1, 1, 1}}, Pass::Gradient(0), {Float(w), Float(y)}, {Float(x)}},
      {Conv2d{.pads = {1, 1, 1, 1}}, Pass::Gradient(1), {Float(x), Float(y)}, {Float(w)}},
      {product, Pass::Forward(), {Float({64, 256}), Float({256, 512})}, {Float({64, 512})}},
      {product, Pass::Gradient(1), {Float({64, 256}), Float({64, 512})}, {Float({256, 512})}},
  };
  for (const KernelSignature& kernel : kernels) {
    for (const Precision precision : {Precision::kFloat16, Precision::kBfloat16}) {
      const auto plan = PlanShapes(kernel, WaysToPlan(precision)[0]);
      ASSERT_TRUE(plan.ok()) << plan.status();
      const Casts casts = CastsOf(InPrecision(kernel, precision));
      EXPECT_GE(plan->scratch_bytes, casts.scratch_bytes) << ToString(kernel);
      // Partial maxima of float16 come on top.
      EXPECT_LE(plan->scratch_bytes, casts.scratch_bytes + 32 * 1024) << ToString(kernel);
      EXPECT_GE(static_cast<int64_t>(plan->steps.size()), 1 + casts.kernels) << ToString(kernel);
    }
    EXPECT_EQ(CastsOf(InPrecision(kernel, Precision::kTf32)), Casts());
  }
}

}  // namespace
}  // namespace partita
