#include "cost_model/gpu_machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cost_model/discovery.h"
#include "cost_model/profile.h"

namespace partita {
namespace {

using ::testing::HasSubstr;

GpuProperties PropertiesOf(int index) {
  return {.index = index,
          .name = "NVIDIA H200",
          .memory = Bytes(int64_t{143771} << 20),
          .major = 9,
          .minor = 0,
          .multiprocessors = 132,
          .clock_mhz = 1980,
          .memory_clock_mhz = 3201,
          .memory_bus_bits = 6144,
          .l2_bytes = 60 << 20,
          .pcie_generation = 5,
          .pcie_width = 16};
}

GpuHost Gpus(int count) {
  GpuHost host{.driver = "580.159.03"};
  for (int g = 0; g < count; ++g) host.gpus.push_back(PropertiesOf(g));
  return host;
}

TEST(GpuMachineTest, HardwareNamesWhatTimesDependOn) {
  EXPECT_EQ(HardwareText(PropertiesOf(0), "580.159.03"),
            "NVIDIA H200, 143771 MiB, 132 multiprocessors, clock 1980 MHz, memory clock 3201 MHz, "
            "driver 580.159.03");
  GpuProperties slower = PropertiesOf(0);
  slower.clock_mhz = 1200;
  EXPECT_NE(HardwareText(slower, "580"), HardwareText(PropertiesOf(0), "580"));
  EXPECT_NE(HardwareText(PropertiesOf(0), "570"), HardwareText(PropertiesOf(0), "580"));
}

TEST(GpuMachineTest, ClassesAreNamedAsPeopleNameGpus) {
  GpuProperties gpu;
  for (const auto& [name, want] :
       {std::pair("NVIDIA H200", "h200"), std::pair("NVIDIA A100-SXM4-40GB", "a100-sxm4-40gb"),
        std::pair("Tesla V100-PCIE-16GB", "v100-pcie-16gb"),
        std::pair("NVIDIA GeForce RTX 4090", "geforce-rtx-4090"), std::pair("", "gpu")}) {
    gpu.name = name;
    EXPECT_EQ(ClassNameOf(gpu), want);
  }
}

TEST(GpuMachineTest, GpusOfOneKindAreOneClassOnPcieLinks) {
  const auto machine = MachineOf(Gpus(2), {});
  ASSERT_TRUE(machine.ok()) << machine.status();
  EXPECT_EQ(machine->name, "local");
  ASSERT_EQ(machine->topology.size(), 2);
  ASSERT_EQ(machine->classes.size(), 1u);
  const Device& device = machine->topology.device(DeviceId(1));
  EXPECT_EQ(device.name, "gpu1");
  EXPECT_EQ(device.kind, DeviceKind::kGpu);
  EXPECT_EQ(device.device_class, "h200");
  EXPECT_EQ(device.memory.value(), static_cast<int64_t>(0.9 * (int64_t{143771} << 20)));
  // PCIe 5.0 x16: 63 GB/s, of which four fifths.
  EXPECT_NEAR(static_cast<double>(machine->topology.RouteBytesPerSecond(DeviceId(0), DeviceId(1))),
              50.4e9, 0.1e9);
  // H200's data sheet: 67 TFLOP/s in float32, 4.8 TB/s.
  EXPECT_NEAR(machine->classes[0].matrix_flops, 0.75 * 67e12, 1e12);
  EXPECT_NEAR(machine->classes[0].memory_bytes_per_second, 0.8 * 4.9e12, 0.1e12);
  EXPECT_EQ(machine->classes[0].hardware, HardwareText(PropertiesOf(0), "580.159.03"));
}

TEST(GpuMachineTest, ReducedPrecisionsHaveTheRatesOfTensorCores) {
  const auto rates = [](const char* name, int major, int minor) {
    GpuHost host = Gpus(1);
    host.gpus[0].name = name;
    host.gpus[0].major = major;
    host.gpus[0].minor = minor;
    return MachineOf(host, {})->classes[0].precision_rates;
  };
  const auto hopper = rates("NVIDIA H200", 9, 0);
  ASSERT_EQ(hopper.size(), 3u);
  // H200's data sheet, at 1830 MHz and without sparsity: 494 TFLOP/s in TF32, twice that in 16
  // bits.
  EXPECT_NEAR(hopper[0].matrix_flops, 0.75 * 494e12 * 1980 / 1830, 2e12);
  EXPECT_EQ(hopper[1].matrix_flops, 2 * hopper[0].matrix_flops);
  EXPECT_EQ(hopper[2], (PrecisionRate{Precision::kBfloat16, hopper[1].matrix_flops}));
  EXPECT_EQ(rates("Tesla V100", 7, 0).size(), 1u);
  EXPECT_EQ(rates("Tesla P100", 6, 0).size(), 0u);
  EXPECT_EQ(rates("NVIDIA A40", 8, 6)[0].matrix_flops,
            2 * rates("NVIDIA GeForce RTX 3090", 8, 6)[0].matrix_flops);
}

TEST(GpuMachineTest, FingerprintsHaveClocksDriverAndBackend) {
  const auto machine = MachineOf(Gpus(2), {.gpus = 1});
  ASSERT_TRUE(machine.ok()) << machine.status();
  const DeviceFingerprint fingerprint = FingerprintOf(*machine, DeviceId(0), "cuda");
  EXPECT_THAT(fingerprint.hardware, HasSubstr("clock 1980 MHz"));
  EXPECT_THAT(fingerprint.hardware, HasSubstr("driver 580.159.03"));
  EXPECT_THAT(fingerprint.configuration, HasSubstr("backend=cuda"));
  EXPECT_THAT(fingerprint.configuration, HasSubstr("devices=1"));
}

TEST(GpuMachineTest, CoresComeBehindTheGpus) {
  const Host host{.hardware = "some processor", .cores = {0, 1}, .memory = Bytes(1 << 30)};
  for (const int devices : {1, 2}) {
    const auto cores = MachineOf(host, {.devices = devices});
    ASSERT_TRUE(cores.ok()) << cores.status();
    const auto machine = MachineOf(Gpus(1), {}, *cores);
    ASSERT_TRUE(machine.ok()) << machine.status();
    ASSERT_EQ(machine->topology.size(), 1 + devices);
    EXPECT_EQ(machine->topology.device(DeviceId(0)).name, "gpu0");
    EXPECT_EQ(machine->topology.device(DeviceId(1)).name, "cpu0");
    EXPECT_EQ(machine->classes.size(), 2u);
    EXPECT_GT(machine->topology.RouteBytesPerSecond(DeviceId(0), DeviceId(devices)), 0);
    EXPECT_TRUE(ParseMachine(MachineText(*machine), "test").ok());
  }
}

TEST(GpuMachineTest, DriversThatTellLittleStillGiveAMachine) {
  GpuHost host{.driver = "CUDA 13.0"};
  host.gpus.push_back({.name = "Some GPU", .memory = Bytes(1 << 30)});
  EXPECT_TRUE(MachineOf(host, {}).ok()) << MachineOf(host, {}).status();
}

TEST(GpuMachineTest, MoreGpusThanThereAreAreRefused) {
  for (const int wanted : {0, 3}) {
    const auto machine = MachineOf(Gpus(2), {.gpus = wanted});
    EXPECT_EQ(machine.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(machine.status().message()), HasSubstr("has 2 GPUs"));
  }
  EXPECT_FALSE(MachineOf(GpuHost{}, GpuMachineOptions{}).ok());
}

}  // namespace
}  // namespace partita
