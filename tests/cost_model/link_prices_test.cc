// Prices over links on random machines against the formula of LinkCost's contract, message by
// message.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cost_model/link_cost.h"
#include "graph/collective/algorithms.h"
#include "graph/parallel/routes.h"
#include "tests/cost_model/made_topologies.h"

namespace partita {
namespace {

DeviceClass Class(const char* name, double scale) {
  return {.name = name,
          .matrix_flops = 1e12,
          .other_flops = 1e11,
          .memory_bytes_per_second = 1e11,
          .copy = {100, 1e9 * scale},
          .add = {70, 3e8 * scale},
          .fill = {100, 1e10}};
}

Machine MachineOf(DeviceTopology topology) {
  return {.name = "made",
          .topology = std::move(topology),
          .classes = {Class("cpu", 1), Class("gpu", 2)}};
}

// GPUs and CPU devices on a few nodes; nothing where the links leave some unconnected.
std::shared_ptr<const Machine> RandomMachine(std::mt19937& random) {
  const int count = 3 + static_cast<int>(random() % 8);
  std::vector<Device> devices;
  for (int d = 0; d < count; ++d) {
    Device device = Gpu(d);
    device.node = static_cast<int>(random() % 3);
    device.device_class = "gpu";
    if (random() % 2 == 0) {
      device.kind = DeviceKind::kCpu;
      device.device_class = "cpu";
    }
    devices.push_back(device);
  }
  const int switches = static_cast<int>(random() % 6);
  auto topology = DeviceTopology::Create(
      devices, RandomLinks(count, switches, count + static_cast<int>(random() % 20), random));
  if (!topology.ok()) return nullptr;
  return std::make_shared<const Machine>(MachineOf(*std::move(topology)));
}

bool IsRead(const DeviceTopology& topology, DeviceId from, DeviceId to) {
  const Device &a = topology.device(from), &b = topology.device(to);
  return a.kind == DeviceKind::kCpu && b.kind == DeviceKind::kCpu && a.node == b.node;
}

struct PlainMessage {
  DeviceId from, to;
  int64_t bytes;
  bool reduce;
};

// Each message by itself on each channel of its route.
double PlainSeconds(const Machine& machine, const std::vector<PlainMessage>& messages) {
  const DeviceTopology& topology = machine.topology;
  std::vector<int64_t> load(topology.channels().size(), 0);
  std::vector<double> added(static_cast<size_t>(topology.size()), 0);
  double longest = 0;
  Nanos latency;
  for (const PlainMessage& m : messages) {
    const DeviceClass& device_class = machine.ClassOf(m.to);
    const auto bytes = static_cast<double>(m.bytes);
    if (m.reduce) {
      double& sum = added[m.to.index()];
      sum += device_class.add.Seconds(bytes);
      longest = std::max(longest, sum);
    }
    if (m.from == m.to) {
      longest = std::max(longest, device_class.copy.Seconds(bytes));
      continue;
    }
    const RouteChannels route = topology.Route(m.from, m.to);
    latency = std::max(latency, topology.RouteLatency(m.from, m.to));
    const size_t first = IsRead(topology, m.from, m.to) ? route.size() - 1 : 0;
    for (size_t k = first; k < route.size(); ++k) load[route[k].index()] += m.bytes;
  }
  for (size_t c = 0; c < load.size(); ++c) {
    longest = std::max(longest, static_cast<double>(load[c]) /
                                    static_cast<double>(topology.channels()[c].bytes_per_second));
  }
  return longest + static_cast<double>(latency.value()) * 1e-9;
}

double PlainSeconds(const Machine& machine, const CollectiveCall& call) {
  double seconds = 0;
  const auto schedule = BuildSchedule(call.algorithm, *call.collective).value();
  for (const CollectiveRound& round : schedule.rounds) {
    std::vector<PlainMessage> messages;
    for (const CollectiveStep& step : round.steps) {
      messages.push_back({call.group[static_cast<size_t>(step.from)],
                          call.group[static_cast<size_t>(step.to)], step.count * SizeOf(call.dtype),
                          step.action == StepAction::kReduce});
    }
    seconds += PlainSeconds(machine, messages);
  }
  return seconds;
}

Nanos TimeOf(double seconds) { return CostOfSeconds(seconds, CostSource::kRoofline).time; }

Collective RandomCollective(CollectiveKind kind, int ranks, std::mt19937& random) {
  const auto some = [&random] {
    return random() % 4 == 0 ? int64_t{0} : static_cast<int64_t>(random() % 100'000);
  };
  // Blocks of one size, for which rounds are alike.
  const bool is_even = random() % 3 == 0;
  const auto size_of_all = static_cast<int64_t>(random() % 200) * 512;
  std::vector<int64_t> blocks;
  std::vector<std::vector<int64_t>> counts;
  for (int r = 0; r < ranks; ++r) {
    blocks.push_back(is_even ? size_of_all : some());
    counts.emplace_back();
    for (int s = 0; s < ranks; ++s) counts.back().push_back(some());
  }
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return MakeAllReduce(ranks, is_even ? ranks * size_of_all : some());
    case CollectiveKind::kReduceScatter:
      return MakeReduceScatter(blocks);
    case CollectiveKind::kAllGather:
      return MakeAllGather(blocks);
    case CollectiveKind::kAllToAll:
      return MakeAllToAll(counts);
  }
  return {};
}

// A price to beat changes no answer that beats it, and no other becomes one that does.
void CheckLimits(const LinkCost& model, CollectiveCall call, const TaskCost& exact,
                 std::mt19937& random) {
  const int64_t time = exact.time.value();
  for (const int64_t limit :
       {int64_t{1}, static_cast<int64_t>(random()) % time, time - 1, time, time + 1, 3 * time}) {
    for (const CostSource source :
         {CostSource::kMeasured, CostSource::kInterpolated, CostSource::kRoofline}) {
      const TaskCost to_beat{.time = Nanos(limit), .source = source};
      call.to_beat = &to_beat;
      const TaskCost cost = *model.CollectiveCost(call);
      EXPECT_EQ(Beats(cost, to_beat), Beats(exact, to_beat)) << call.algorithm << " " << limit;
      if (!Beats(cost, to_beat)) continue;
      EXPECT_EQ(cost, exact) << call.algorithm << " " << limit;
    }
  }
}

// Of all kinds by all algorithms; returns how many.
int CheckCollectives(const std::shared_ptr<const Machine>& machine,
                     const std::vector<DeviceId>& group, std::mt19937& random) {
  const LinkCost model(machine);
  std::vector<int> nodes;
  for (DeviceId device : group) nodes.push_back(machine->topology.device(device).node);
  int checked = 0;
  for (const CollectiveKind kind : kCollectiveKinds) {
    const Collective collective = RandomCollective(kind, static_cast<int>(group.size()), random);
    for (const CollectiveAlgorithm& row : CollectiveAlgorithms()) {
      if (!row.kinds.contains(kind) || !row.applicable(collective.ranks)) continue;
      const std::string name = ForNodes(row.name, nodes);
      const CollectiveCall call{&collective, name, group};
      const TaskCost exact = *model.CollectiveCost(call);
      EXPECT_EQ(exact.time, TimeOf(PlainSeconds(*machine, call)))
          << name << " " << ToString(collective);
      CheckLimits(model, call, exact, random);
      ++checked;
    }
  }
  return checked;
}

void CheckTransfers(const std::shared_ptr<const Machine>& machine, std::mt19937& random) {
  std::vector<TransferCall> group;
  std::vector<PlainMessage> messages;
  const auto devices = static_cast<unsigned>(machine->topology.size());
  for (unsigned k = random() % 30 + 1; k > 0; --k) {
    const DeviceId from(static_cast<int>(random() % devices));
    const DeviceId to(static_cast<int>(random() % devices));
    const auto bytes = static_cast<int64_t>(random() % 1'000'000);
    group.push_back({from, to, bytes});
    messages.push_back({from, to, bytes, false});
  }
  EXPECT_EQ(LinkCost(machine).TransferCost(group)->time, TimeOf(PlainSeconds(*machine, messages)));
}

TEST(LinkPricesTest, AreThoseOfEachMessageOnEachChannelOfItsRoute) {
  int machines = 0, collectives = 0;
  for (unsigned seed = 0; seed < 800; ++seed) {
    std::mt19937 random(seed);
    const auto machine = RandomMachine(random);
    if (machine == nullptr) continue;
    ++machines;
    std::vector<DeviceId> group;
    for (int d = 0; d < machine->topology.size(); ++d) group.push_back(DeviceId(d));
    std::shuffle(group.begin(), group.end(), random);
    group.resize(2 + random() % (group.size() - 1));
    collectives += CheckCollectives(machine, group, random);
    CheckTransfers(machine, random);
  }
  std::printf("seeds 0..799: %d machines, %d collectives\n", machines, collectives);
  EXPECT_GE(machines, 150);
  EXPECT_GE(collectives, 1500);
}

TEST(LinkPricesTest, AreThoseOfEachMessageOnAChainAndATree) {
  std::mt19937 random(1);
  for (const DeviceTopology& topology : {Chain(40), TwoLevelTree(40, 8)}) {
    std::vector<Device> devices(topology.devices().begin(), topology.devices().end());
    for (Device& device : devices) device.device_class = "gpu";
    const auto machine = std::make_shared<const Machine>(MachineOf(
        DeviceTopology::Create(devices, {topology.links().begin(), topology.links().end()})
            .value()));
    std::vector<DeviceId> group;
    for (int d = 0; d < topology.size(); ++d) group.push_back(DeviceId(d));
    CheckCollectives(machine, group, random);
    std::shuffle(group.begin(), group.end(), random);
    CheckCollectives(machine, group, random);
  }
}

// Collectives of 4,096 ranks in which everybody sends to everybody.
TEST(LinkPricesTest, RoutesOfAChainOf4096DevicesAreFoundOnceForAllCollectives) {
  DeviceTopology chain = Chain(4096);
  std::vector<Device> devices(chain.devices().begin(), chain.devices().end());
  for (Device& device : devices) device.device_class = "gpu";
  const auto machine = std::make_shared<const Machine>(MachineOf(
      DeviceTopology::Create(devices, {chain.links().begin(), chain.links().end()}).value()));
  const LinkCost model(machine);
  std::vector<DeviceId> group;
  for (int d = 0; d < 4096; ++d) group.push_back(DeviceId(d));
  Nanos last;
  for (const int64_t elements : {1000, 33600}) {
    const Collective sum = MakeAllReduce(4096, elements);
    const Nanos time = model.CollectiveCost({&sum, "scatter_gather", group})->time;
    EXPECT_GT(time, last);
    last = time;
  }
  // First k ranks send their shares of what the others sum over the wire behind them, then their
  // own sums to all others; so do the others the other way. A way has 4,097 links.
  const std::vector<ElementRange> blocks = EvenBlocks(33600, 4096);
  int64_t scattered = 0, gathered = 0;
  for (int64_t k = 1; k < 4096; ++k) {
    const int64_t before = blocks[static_cast<size_t>(k)].offset, behind = 33600 - before;
    scattered = std::max({scattered, k * behind, (4096 - k) * before});
    gathered = std::max({gathered, before * (4096 - k), behind * k});
  }
  const auto seconds = [](int64_t elements) {
    return static_cast<double>(elements * 4) / 1e9 + 4097 * 100 * 1e-9;
  };
  EXPECT_EQ(last, TimeOf(seconds(scattered) + seconds(gathered)));
  EXPECT_EQ(machine->topology.routes().trees_found(), 4096);
  EXPECT_LE(machine->topology.routes().kept_bytes(), Routes::kMostKept);
}

}  // namespace
}  // namespace partita
