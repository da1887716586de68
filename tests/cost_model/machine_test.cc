#include "cost_model/machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "cost_model/discovery.h"
#include "cost_model/machines.h"
#include "graph/support/error_category.h"
#include "graph/support/faults.h"
#include "graph/support/file.h"

namespace partita {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

TEST(MachinesTest, EveryNamedMachineIsValidAndSurvivesItsFile) {
  for (const NamedMachine& row : NamedMachines()) {
    SCOPED_TRACE(std::string(row.name));
    const auto machine = row.make();
    ASSERT_TRUE(machine.ok()) << machine.status();
    EXPECT_EQ(machine->name, row.name);
    EXPECT_TRUE(Validate(*machine).ok());
    const auto again = ParseMachine(MachineText(*machine), "text");
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(*again, *machine);
  }
}

TEST(MachinesTest, RatesOfPrecisionsSurviveTheFile) {
  Machine machine = FindMachine("p100-4x4").value();
  machine.classes[0].precision_rates = {{Precision::kFloat16, 2e13}, {Precision::kTf32, 1e13}};
  const auto again = ParseMachine(MachineText(machine), "text");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, machine);
  const DeviceClass& p100 = machine.classes[0];
  EXPECT_EQ(p100.MatrixFlops(Precision::kFloat16), 2e13);
  EXPECT_EQ(p100.MatrixFlops(Precision::kBfloat16), p100.matrix_flops) << "without a rate";
}

TEST(MachinesTest, ClustersHaveTheirSizesAndLinks) {
  const Machine p100 = FindMachine("p100-4x4").value();
  EXPECT_EQ(p100.topology.size(), 16);
  // Neighbours by NVLink; other nodes by PCIe, InfiniBand twice, PCIe.
  EXPECT_THAT(p100.topology.Route(DeviceId(0), DeviceId(3)), SizeIs(1));
  EXPECT_THAT(p100.topology.Route(DeviceId(0), DeviceId(4)), SizeIs(4));
  EXPECT_EQ(p100.topology.RouteBytesPerSecond(DeviceId(0), DeviceId(3)), 20'000'000'000);
  EXPECT_EQ(p100.topology.RouteBytesPerSecond(DeviceId(0), DeviceId(15)), 12'000'000'000);
  const Machine k80 = FindMachine("k80-16x4").value();
  EXPECT_EQ(k80.topology.size(), 64);
  EXPECT_THAT(k80.topology.Route(DeviceId(0), DeviceId(1)), SizeIs(2));
  EXPECT_THAT(k80.topology.Route(DeviceId(0), DeviceId(2)), SizeIs(4));
  EXPECT_EQ(k80.topology.RouteBytesPerSecond(DeviceId(0), DeviceId(63)), 6'800'000'000);
}

TEST(MachinesTest, FirstDevicesAreTaken) {
  EXPECT_EQ(FindMachine("k80-16x4", 6)->topology.size(), 6);
  EXPECT_EQ(FindMachine("k80-16x4", 65).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(MachinesTest, UnknownNamesListTheKnown) {
  const auto machine = FindMachine("v100");
  EXPECT_EQ(machine.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(machine.status().message()), HasSubstr("local, p100-4x4"));
  EXPECT_THAT(FindMachine("/no/such.textproto").status().code(), absl::StatusCode::kNotFound);
}

TEST(MachineTest, BadFilesAreInvalidArguments) {
  const std::string good = MachineText(FindMachine("ethernet-4x1g").value());
  const std::pair<std::string, std::string> cases[] = {
      {"", "0 devices"},
      {"devices {", "m.textproto:1:"},
      {absl::StrReplaceAll(good, {{"device_class: \"xeon32\"", "device_class: \"xeon\""}}),
       "class 'xeon'"},
      {absl::StrReplaceAll(good, {{"matrix_flops: 2000000000000", "matrix_flops: nan"}}),
       "matrix_flops"},
      {absl::StrReplaceAll(good, {{"matrix_flops: 2000000000000", "matrix_flops: -1"}}), "above 0"},
      {absl::StrReplaceAll(good, {{"kind: CPU", ""}}), "no kind"},
      {absl::StrReplaceAll(good, {{"125000000", "99999999999999999999"}}), "m.textproto:"},
      {absl::StrReplaceAll(good, {{"device_classes {",
                                   "device_classes { precision_rates { "
                                   "precision: \"half\" matrix_flops: 1 }"}}),
       "precision 'half'"},
      {absl::StrReplaceAll(good, {{"device_classes {",
                                   "device_classes { precision_rates { "
                                   "precision: \"tf32\" }"}}),
       "tf32 has matrix_flops 0"},
      {good + "nonsense: 1", "nonsense"},
      {good + good, "multiple times"},
      {std::string("\x00\xff\x12", 3), "m.textproto:1:"},
  };
  for (const auto& [text, said] : cases) {
    const auto machine = ParseMachine(text, "m.textproto");
    EXPECT_EQ(machine.status().code(), absl::StatusCode::kInvalidArgument) << said;
    EXPECT_THAT(std::string(machine.status().message()), HasSubstr(said));
    EXPECT_THAT(std::string(machine.status().message()), HasSubstr("m.textproto"));
  }
}

TEST(MachineTest, AllFaultsOfAFileAreNamedAtOnce) {
  const std::string good = MachineText(FindMachine("ethernet-4x1g").value());
  const std::string bad =
      absl::StrReplaceAll(good, {{"device_class: \"xeon32\"", "device_class: \"xeon\""},
                                 {"name: \"host3\"\n    kind: CPU", "name: \"host3\""},
                                 {"name: \"eth2\"", "name: \"eth1\""},
                                 {"other_flops: 500000000000", "other_flops: -1"},
                                 {"latency_ns: 25000", "latency_ns: -25000"}});
  const std::string said(ParseMachine(bad, "m.textproto").status().message());
  // 4 links' latency, 4 devices' class, and one each.
  for (const char* fault :
       {"m.textproto: 11 faults:\n", "'host3' has no kind", "'host3' is of class",
        "'eth1' is there twice", "'eth3' has a latency of -25000", "'host0' is of class 'xeon'",
        "other_flops -1"}) {
    EXPECT_THAT(said, HasSubstr(fault));
  }
}

// The text between `name: "small"` and the end of its braces, which the README shows.
TEST(MachineTest, TheFileOfTheReadmeIsAMachine) {
  const std::string readme =
      ReadFile(absl::StrCat(PARTITA_SOURCE_DIR, "/README.md"), 1 << 20).value();
  const size_t start = readme.find("    name: \"small\"");
  ASSERT_NE(start, std::string::npos);
  const auto machine =
      ParseMachine(readme.substr(start, readme.find("\n\n", start) - start), "README.md");
  ASSERT_TRUE(machine.ok()) << machine.status();
  EXPECT_EQ(machine->topology.size(), 16);
  EXPECT_EQ(machine->topology.device(DeviceId(9)).name, "n1.gpu1");
}

// Every number of a machine by levels, replaced by others.
TEST(MachineTest, AnyNumberMakesAMachineOrAFault) {
  int made = 0, refused = 0;
  for (const char* name : {"h100-4x8", "tpu-4x4x4", "minsky-32x4", "ethernet-96"}) {
    const std::string text = MachineText(FindMachine(name).value());
    for (size_t at = text.find(": "); at != std::string::npos; at = text.find(": ", at + 1)) {
      const size_t first = at + 2, end = text.find('\n', first);
      if (text[first] < '0' || text[first] > '9') continue;
      for (const char* number :
           {"0", "-1", "1", "3", "64", "70000", "2147483647", "1e300", "9223372036854775807"}) {
        std::string changed = text;
        changed.replace(first, end - first, number);
        const auto machine = ParseMachine(changed, "m.textproto");
        ++(machine.ok() ? made : refused);
        if (machine.ok()) {
          const int last = machine->topology.size() - 1;
          EXPECT_EQ(machine->topology.Route(DeviceId(0), DeviceId(last)).empty(), last == 0);
          EXPECT_EQ(ParseMachine(MachineText(*machine), "again").value(), *machine);
        } else {
          EXPECT_EQ(machine.status().code(), absl::StatusCode::kInvalidArgument) << changed;
        }
      }
    }
  }
  std::printf("%d machines, %d refused\n", made, refused);
  EXPECT_GT(made, 200);
  EXPECT_GT(refused, 200);
}

TEST(MachineTest, OfVeryManyFaultsTheFirstAreNamed) {
  Faults faults;
  for (int k = 0; k < 100; ++k) faults.Add(absl::StrCat("fault ", k));
  Faults again;
  again.Add(faults.ToStatus());
  again.Add(absl::InvalidArgumentError("the last"));
  const std::string said(again.ToStatus().message());
  EXPECT_THAT(said, HasSubstr("101 faults:\n  fault 0\n"));
  EXPECT_THAT(said, HasSubstr("fault 19\n  and 81 more"));
}

Host EightCores() {
  return {.hardware = "test",
          .cores = {0, 2, 4, 6, 8, 10, 12, 14},
          .memory = Bytes(8000),
          .megahertz = 1000,
          .float_lanes = 8,
          .has_fma = true};
}

TEST(DiscoveryTest, CoresAreDividedEvenly) {
  const Machine three = MachineOf(EightCores(), {.devices = 3, .memory_fraction = 0.75}).value();
  ASSERT_EQ(three.topology.size(), 3);
  EXPECT_EQ(three.topology.device(DeviceId(2)).cores, (std::vector<int>{8, 10}));
  EXPECT_EQ(three.topology.device(DeviceId(2)).threads, 2);
  EXPECT_EQ(three.topology.device(DeviceId(0)).memory, Bytes(2000));
  EXPECT_FALSE(three.topology.ShareCore(DeviceId(0), DeviceId(1)));
  const Machine all = MachineOf(EightCores(), {}).value();
  EXPECT_EQ(all.topology.size(), 8);
  // 1 GHz * 8 lanes * 2 * 2 units * 3/4.
  EXPECT_DOUBLE_EQ(all.classes[0].matrix_flops, 24e9);
}

TEST(DiscoveryTest, AHostIsTheSameWheneverItIsExamined) {
  const auto first = DiscoverMachine({.devices = 1});
  ASSERT_TRUE(first.ok()) << first.status();
  const auto again = DiscoverMachine({.devices = 1});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, *first);
}

TEST(DiscoveryTest, MoreDevicesThanCoresShareThem) {
  const Machine machine = MachineOf(EightCores(), {.devices = 10, .oversubscribe = true}).value();
  EXPECT_TRUE(machine.topology.ShareCore(DeviceId(0), DeviceId(8)));
  EXPECT_FALSE(machine.topology.ShareCore(DeviceId(0), DeviceId(7)));
  EXPECT_EQ(machine.topology.device(DeviceId(9)).threads, 1);
  EXPECT_FALSE(MachineOf(EightCores(), {.devices = 0}).ok());
  EXPECT_FALSE(MachineOf(EightCores(), {.devices = 100000}).ok());
}

TEST(DiscoveryTest, MoreDevicesThanCoresAreOnlyMadeWhenAskedFor) {
  for (const int devices : {9, 10, 99}) {
    const absl::Status status = MachineOf(EightCores(), {.devices = devices}).status();
    EXPECT_TRUE(IsUsageError(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("--devices 8, or --oversubscribe"));
    EXPECT_EQ(MachineOf(EightCores(), {.devices = devices, .oversubscribe = true})->topology.size(),
              devices);
  }
  EXPECT_EQ(MachineOf(EightCores(), {.devices = 8, .oversubscribe = true}).value(),
            MachineOf(EightCores(), {.devices = 8}).value());
  const int cores = static_cast<int>(ExamineHost()->cores.size());
  EXPECT_EQ(FindMachine("local")->topology.size(), cores);
  EXPECT_TRUE(IsUsageError(FindMachine("local", cores + 1).status()));
  EXPECT_EQ(FindMachine("local", cores + 1, true)->topology.size(), cores + 1);
  EXPECT_TRUE(IsUsageError(FindMachine("p100-4x4", 2, true).status()));
}

TEST(DiscoveryTest, AQuotaOfProcessorTimeIsSoManyCores) {
  const std::pair<const char*, std::optional<int>> cases[] = {
      {"max 100000", std::nullopt}, {"200000 100000", 2},        {"150000 100000", 1},
      {"50000 100000", 1},          {"800000 100000", 8},        {"-1 100000", std::nullopt},
      {"", std::nullopt},           {"100000", std::nullopt},    {"1 0", std::nullopt},
      {"0 100000", std::nullopt},   {"two 100000", std::nullopt}};
  for (const auto& [text, cores] : cases) EXPECT_EQ(CoresOfQuota(text), cores) << text;
}

TEST(DiscoveryTest, ThisMachineIsFound) {
  const Host host = ExamineHost().value();
  EXPECT_GE(host.cores.size(), 1u);
  EXPECT_GT(host.memory.value(), int64_t{100} << 20);
  EXPECT_GT(host.available, Bytes(0));
  EXPECT_LE(host.available, host.memory);
  const Machine two = FindMachine("local", 2, true).value();
  EXPECT_EQ(two.topology.size(), 2);
  EXPECT_EQ(two.classes[0].hardware, host.hardware);
}

TEST(DiscoveryTest, MeasuredRatesReplaceEstimates) {
  Machine machine = MachineOf(EightCores(), {.devices = 2}).value();
  MeasuredRates rates{.matrix_flops = 5e9, .exchange = Line{3000, 7e9}};
  rates.collective_rates = {{"ring", 2, {100, 1e9}, 0.01}, {"ring", 2, {200, 1e9}, 0.01}};
  machine = ApplyRates(machine, "cpu", rates).value();
  EXPECT_EQ(machine.classes[0].matrix_flops, 5e9);
  EXPECT_EQ(machine.topology.RouteBytesPerSecond(DeviceId(0), DeviceId(1)), 7'000'000'000);
  EXPECT_EQ(machine.topology.RouteLatency(DeviceId(0), DeviceId(1)), Nanos(3000));
  ASSERT_THAT(machine.collective_rates, SizeIs(1));
  EXPECT_EQ(machine.collective_rates[0].line.latency_ns, 200);
  EXPECT_EQ(machine.collective_rates[0].device_class, "cpu");
  EXPECT_EQ(ApplyRates(machine, "gpu", rates).status().code(), absl::StatusCode::kNotFound);
  rates.matrix_flops = std::numeric_limits<double>::infinity();
  EXPECT_EQ(ApplyRates(machine, "cpu", rates).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace partita
