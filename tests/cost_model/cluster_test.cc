#include "cost_model/cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cost_model/machines.h"
#include "graph/parallel/level_routes.h"
#include "graph/parallel/routes.h"
#include "graph/support/error_category.h"
#include "tests/cost_model/made_topologies.h"

namespace partita {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

int64_t Slowest(const Machine& machine, int from, int to) {
  return machine.topology.RouteBytesPerSecond(DeviceId(from), DeviceId(to));
}

size_t Hops(const Machine& machine, int from, int to) {
  return machine.topology.Route(DeviceId(from), DeviceId(to)).size();
}

// How many there are; all routes over one begin or end at one device.
int CheckChannelsAtDevices(const DeviceTopology& topology) {
  const auto count = static_cast<int32_t>(topology.channels().size());
  std::vector<std::set<DeviceId>> common(static_cast<size_t>(count));
  std::vector<bool> met(common.size(), false);
  for (DeviceId from(0); from.value() < topology.size(); from = DeviceId(from.value() + 1)) {
    for (DeviceId to(0); to.value() < topology.size(); to = DeviceId(to.value() + 1)) {
      for (ChannelId channel : topology.Route(from, to)) {
        const size_t c = channel.index();
        if (!met[c]) common[c] = {from, to};
        met[c] = true;
        std::erase_if(common[c], [&](DeviceId device) { return device != from && device != to; });
      }
    }
  }
  int at_devices = 0;
  for (int32_t c = 0; c < count; ++c) {
    const Channel& channel = topology.channel(ChannelId(c));
    const auto k = static_cast<size_t>(c);
    at_devices += channel.at_device;
    EXPECT_TRUE(!channel.at_device || !met[k] || !common[k].empty()) << channel.name;
  }
  return at_devices;
}

TEST(MachineFamiliesTest, ChannelsAtDevicesServeOneDevice) {
  for (const NamedMachine& named : NamedMachines()) {
    SCOPED_TRACE(std::string(named.name));
    const DeviceTopology topology = named.make()->topology;
    EXPECT_GE(CheckChannelsAtDevices(topology), topology.size());
  }
  for (const MachineFamily& family : MachineFamilies()) {
    SCOPED_TRACE(std::string(family.example));
    const int size = FindMachine(std::string(family.example))->topology.size();
    const DeviceTopology topology =
        FindMachine(std::string(family.example), std::min(size, 48))->topology;
    EXPECT_GE(CheckChannelsAtDevices(topology), topology.size());
  }
  int at_devices = 0, others = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    const int devices = 3 + static_cast<int>(random() % 8);
    std::vector<Device> all;
    for (int d = 0; d < devices; ++d) all.push_back(Gpu(d));
    const auto topology =
        DeviceTopology::Create(all, RandomLinks(devices, 5, devices + 20, random));
    if (!topology.ok()) continue;
    const int found = CheckChannelsAtDevices(*topology);
    at_devices += found;
    others += static_cast<int>(topology->channels().size()) - found;
  }
  EXPECT_GT(at_devices, 100);
  EXPECT_GT(others, 100);
}

TEST(MachineFamiliesTest, EveryExampleIsValidSurvivesItsFileAndTakesTheFastestRoutes) {
  for (const MachineFamily& family : MachineFamilies()) {
    SCOPED_TRACE(std::string(family.example));
    const auto machine = FindMachine(std::string(family.example));
    ASSERT_TRUE(machine.ok()) << machine.status();
    EXPECT_EQ(machine->name, family.example);
    const std::string text = MachineText(*machine);
    EXPECT_LT(text.size(), 3000u);
    const auto again = ParseMachine(text, "text");
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(*again, *machine);
    const DeviceTopology& topology = machine->topology;
    const auto searched = Routes::Create(topology.devices(), topology.links()).value();
    const auto nanos = [&topology](const RouteChannels& route) {
      double sum = 0;
      for (ChannelId id : route) {
        const Channel& channel = topology.channel(id);
        sum += static_cast<double>(channel.latency.value()) +
               1e9 * (1 << 20) / static_cast<double>(channel.bytes_per_second);
      }
      return sum;
    };
    for (int from = 0; from < topology.size(); ++from) {
      for (int to = 0; to < topology.size(); ++to) {
        const DeviceId a(from), b(to);
        ASSERT_NEAR(nanos(topology.Route(a, b)), nanos(searched->Find(a, b)), 50)
            << from << " " << to;
      }
    }
  }
}

TEST(MachineFamiliesTest, NamesStandForSizes) {
  EXPECT_EQ(FindMachine("minsky-64x4")->topology.size(), 256);
  EXPECT_EQ(FindMachine("h100-1x8")->topology.size(), 8);
  EXPECT_EQ(FindMachine("tpu-3x5x7")->topology.size(), 105);
  EXPECT_EQ(FindMachine("ethernet-1")->topology.size(), 1);
  EXPECT_EQ(FindMachine("h100-4x8", 9)->topology.size(), 9);
  for (const char* name : {"h100-0x8", "h100-x8", "h100-4x9", "h100-4x8x", "tpu-2x2", "h100-Nx8",
                           "h100-1234567x8", "xh100-1x8"}) {
    EXPECT_EQ(FindMachine(name).status().code(), absl::StatusCode::kNotFound) << name;
    EXPECT_FALSE(IsMachineName(name)) << name;
  }
  EXPECT_THAT(std::string(FindMachine("v100").status().message()), HasSubstr("h100-Nx8"));
  for (const char* name :
       {"h100-999999x8", "tpu-999999x999999x999999", "ethernet-999999", "minsky-999999x4"}) {
    EXPECT_THAT(std::string(FindMachine(name).status().message()), HasSubstr("131072")) << name;
  }
}

TEST(MachineFamiliesTest, FiguresAreThoseOfTheirParts) {
  const Machine minsky = FindMachine("minsky-32x4").value();
  EXPECT_EQ(Slowest(minsky, 0, 1), 40'000'000'000);
  EXPECT_EQ(Slowest(minsky, 0, 2), 38'400'000'000);  // over both processors
  EXPECT_EQ(Slowest(minsky, 0, 4), 12'500'000'000);
  EXPECT_EQ(Hops(minsky, 0, 1), 1u);
  EXPECT_EQ(minsky.topology.device(DeviceId(7)).node, 1);
  const Machine h100 = FindMachine("h100-64x8").value();
  EXPECT_EQ(Slowest(h100, 0, 7), 450'000'000'000);
  EXPECT_EQ(Slowest(h100, 0, 8), 50'000'000'000);
  EXPECT_EQ(Hops(h100, 0, 8), 4u);    // of one rail
  EXPECT_EQ(Hops(h100, 0, 9), 6u);    // over the spine
  EXPECT_EQ(Hops(h100, 0, 256), 6u);  // likewise: another leaf
  const Machine b200 = FindMachine("b200-2x72").value();
  EXPECT_EQ(Slowest(b200, 0, 71), 900'000'000'000);
  EXPECT_EQ(b200.topology.device(DeviceId(71)).node, 17);  // trays of four
  const Machine tpu = FindMachine("tpu-4x4x4").value();
  EXPECT_EQ(Hops(tpu, 0, 2 + 4 * 2 + 16 * 2), 2u + 6);
  EXPECT_EQ(tpu.topology.device(DeviceId(5)).node, 1);
  const Machine racks = FindMachine("ethernet-96").value();
  EXPECT_EQ(Hops(racks, 0, 47), 2u);
  EXPECT_EQ(Hops(racks, 0, 48), 4u);
}

TEST(MachineFamiliesTest, SixtyFiveThousandDevicesAreAFewLines) {
  for (const char* name : {"h100-8192x8", "tpu-32x32x64", "b200-910x72", "ethernet-65536"}) {
    const auto machine = FindMachine(name);
    ASSERT_TRUE(machine.ok()) << machine.status();
    EXPECT_GE(machine->topology.size(), 65'520);
    EXPECT_LT(MachineText(*machine).size(), 3000u);
  }
}

TEST(AcceleratorsTest, EveryOneMakesAMachineAloneAndInNodes) {
  for (const AcceleratorModel& model : AcceleratorModels()) {
    SCOPED_TRACE(std::string(model.name));
    EXPECT_EQ(FindAccelerator(model.name), &model);
    for (const auto& [nodes, gpus] : {std::pair(1, 1), {1, 4}, {3, 4}, {2, 1}}) {
      const auto machine =
          MakeCluster({.nodes = nodes, .gpus = gpus, .gpu = std::string(model.name)});
      ASSERT_TRUE(machine.ok()) << machine.status();
      EXPECT_EQ(machine->topology.size(), nodes * gpus);
      EXPECT_EQ(machine->topology.device(DeviceId(nodes * gpus - 1)).node, nodes - 1);
    }
  }
}

TEST(ClusterTest, LinksAndCardsAreChosen) {
  const ClusterRequest l40s{.nodes = 2, .gpus = 4, .gpu = "l40s", .network = "100Gb/s", .cards = 2};
  const Machine buses = MakeCluster(l40s).value();
  EXPECT_EQ(Hops(buses, 0, 3), 2u);
  EXPECT_EQ(Hops(buses, 0, 4), 4u);
  EXPECT_EQ(Slowest(buses, 0, 4), 25'000'000'000);
  const Machine shared = MakeCluster({.nodes = 2, .cards = 4}).value();
  EXPECT_EQ(Hops(shared, 0, 8), 4u);
  EXPECT_EQ(shared.topology.Route(DeviceId(0), DeviceId(8))[1],
            shared.topology.Route(DeviceId(1), DeviceId(8))[1]);
  EXPECT_EQ(Hops(MakeCluster({.gpus = 4, .link = "pairs"}).value(), 0, 3), 1u);
  EXPECT_EQ(Slowest(MakeCluster({.gpus = 8, .link = "pcie"}).value(), 0, 7), 50'000'000'000);
  const Machine narrow =
      MakeCluster({.nodes = 64, .gpus = 1, .network = "8Gb/s", .oversubscription = 64}).value();
  EXPECT_EQ(Slowest(narrow, 0, 1), 1'000'000'000);
  EXPECT_EQ(Slowest(narrow, 0, 63), 500'000'000);
}

TEST(ClusterTest, WhatCannotBeIsRefused) {
  const std::pair<ClusterRequest, std::string> cases[] = {
      {{.gpus = 9}, "on a switch up to 8; wanted are 9"},
      {{.gpus = 8, .link = "pairs"}, "in pairs up to 4"},
      {{.gpus = 2, .gpu = "l4", .link = "switch"}, "--link pcie"},
      {{.nodes = 2, .cards = 3}, "3 network cards"},
      {{.gpu = "h1000"}, "not 'h1000'"},
      {{.network = "fast"}, "'fast'"},
  };
  for (const auto& [request, said] : cases) {
    const absl::Status status = MakeCluster(request).status();
    EXPECT_TRUE(IsUsageError(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(said));
  }
  EXPECT_TRUE(IsUsageError(MakeCluster({.nodes = 100'000}).status()));
}

TEST(ClusterTest, RatesAreBitsOrBytes) {
  EXPECT_EQ(RateOf("400Gb/s"), 50'000'000'000);
  EXPECT_EQ(RateOf("12.5GB/s"), 12'500'000'000);
  EXPECT_EQ(RateOf("100Mb/s"), 12'500'000);
  EXPECT_EQ(RateOf("8b/s"), 1);
  for (const char* text :
       {"", "400", "Gb/s", "-1Gb/s", "nanGb/s", "infGb/s", "0Gb/s", "400Gbps", "1e30GB/s"}) {
    EXPECT_EQ(RateOf(text), std::nullopt) << text;
  }
}

TEST(ClusterTest, SettingsReachEveryFigure) {
  const Machine machine = MakeCluster({.nodes = 2}).value();
  const Machine set = WithSettings(machine, {"h100.matrix_flops=5e13", "h100.copy.latency_ns=7",
                                             "leaf.latency_ns=99", "gpu.memory_bytes=1000"})
                          .value();
  EXPECT_EQ(set.classes[0].matrix_flops, 5e13);
  EXPECT_EQ(set.classes[0].copy.latency_ns, 7);
  EXPECT_EQ(set.classes[0].copy.bytes_per_second, machine.classes[0].copy.bytes_per_second);
  EXPECT_EQ(set.topology.device(DeviceId(15)).memory, Bytes(1000));
  EXPECT_EQ(set.topology.level_routes()->levels().levels[2].latency, Nanos(99));
  EXPECT_EQ(WithSettings(machine, {}).value(), machine);
  const std::pair<std::string, std::string> cases[] = {
      {"h100", "NAME.FIELD=VALUE"},
      {"=3", "NAME.FIELD=VALUE"},
      {"h100=1.5", "NAME.FIELD=VALUE"},
      {"a100.matrix_flops=1", "there are: h100, card, switch, leaf, spine, gpu"},
      {"h100.speed=1", "matrix_flops, other_flops"},
      {"h100.matrix_flops=fast", "cannot set"},
      {"h100.matrix_flops=1 } name: \"x\"", "cannot set"},
      {"h100.matrix_flops=-1", "with the settings there are faults"},
      {"spine.rails=3", "3 switches or devices that nothing joins"},
  };
  for (const auto& [setting, said] : cases) {
    const absl::Status status = WithSettings(machine, {setting}).status();
    EXPECT_TRUE(IsUsageError(status)) << setting << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(said)) << setting;
  }
}

}  // namespace
}  // namespace partita
