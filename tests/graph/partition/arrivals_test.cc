// What an exchange step is said to make arrive at least never exceeds what any algorithm sends.
#include "graph/partition/arrivals.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "graph/collective/algorithms.h"
#include "graph/partition/step_communication.h"
#include "tests/graph/partition/random_exchange.h"
#include "tests/testing/ok.h"

namespace partita {
namespace {

// Elements that arrive at devices, and at nodes from other nodes.
struct Received {
  std::vector<int64_t> at_device, at_node;
  int64_t at_devices = 0, at_nodes = 0;

  Received(int devices, int nodes)
      : at_device(static_cast<size_t>(devices)), at_node(static_cast<size_t>(nodes)) {}
  void Add(DeviceId from, DeviceId to, int64_t count, const std::vector<int32_t>& node) {
    if (from == to) return;
    at_device[to.index()] += count;
    at_devices += count;
    if (node[from.index()] == node[to.index()]) return;
    at_node[static_cast<size_t>(node[to.index()])] += count;
    at_nodes += count;
  }
};

Received ReceivedBy(const CollectiveSchedule& schedule, const std::vector<DeviceId>& group,
                    const std::vector<int32_t>& node) {
  Received received(static_cast<int>(node.size()), static_cast<int>(node.size()));
  for (const CollectiveRound& round : schedule.rounds) {
    for (const CollectiveStep& step : round.steps) {
      received.Add(group[static_cast<size_t>(step.from)], group[static_cast<size_t>(step.to)],
                   step.count, node);
    }
  }
  return received;
}

// `exact`: they are equal, otherwise at least as many are received.
void ExpectAtLeast(const StepArrivals& least, const Received& received,
                   const std::vector<DeviceId>& group, bool exact) {
  const auto expect = [exact](int64_t bound, int64_t value) {
    if (exact) {
      EXPECT_EQ(bound, value);
    } else {
      EXPECT_LE(bound, value);
    }
  };
  for (DeviceId device : group) {
    expect(least.at_device(device), received.at_device[device.index()]);
  }
  for (int32_t n : least.nodes())
    expect(least.at_node(n), received.at_node[static_cast<size_t>(n)]);
  expect(least.at_devices(), received.at_devices);
  expect(least.at_nodes(), received.at_nodes);
}

TEST(StepArrivalsTest, NoAlgorithmReceivesLess) {
  int collectives = 0, transfers = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const ExchangeCase c = RandomExchange(random);
    std::vector<int32_t> node(static_cast<size_t>(c.devices));
    for (size_t d = 0; d < node.size(); ++d) node[d] = static_cast<int32_t>(d) / 3;
    ExchangeTaskOptions options = c.options;
    options.exchange.node_of_device = node;
    const SolvedExchange solved = Exchange(c.pieces, c.demands, options.exchange);
    StepArrivals least(c.devices, node);
    for (const ExchangeStep& step : solved.steps()) {
      const StepCommunication plan = CommunicationOf(step, c.dtype, "", options);
      if (!plan.task.has_value()) continue;
      least.Find(step);
      if (const auto* task = std::get_if<TransferTask>(&*plan.task)) {
        Received received(c.devices, c.devices);
        for (const Transfer& t : task->transfers) received.Add(t.from, t.to, t.receive.count, node);
        ExpectAtLeast(least, received, step.group, true);
        ++transfers;
        continue;
      }
      const Collective& collective = std::get<CollectiveTask>(*plan.task).collective;
      for (const CollectiveAlgorithm& row : CollectiveAlgorithms()) {
        if (!CheckDoes(row.name, collective).ok()) continue;
        SCOPED_TRACE(std::string(row.name));
        std::vector<int> nodes;
        for (DeviceId device : step.group) nodes.push_back(node[device.index()]);
        const auto schedule = Ok(BuildSchedule(ForNodes(row.name, nodes), collective));
        ExpectAtLeast(least, ReceivedBy(schedule, step.group, node), step.group, false);
        ++collectives;
      }
    }
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(collectives, 300);
  EXPECT_GT(transfers, 100);
}

}  // namespace
}  // namespace partita
