// Plans over several processes, one for each device. mpirun starts this program N times; messages
// go through memory that the processes share, or by argument "mpi" or "tcp". Every process makes
// the same graphs and plans from the same seeds and compares what the processes have computed
// together with a serial run of its own.
#include "tests/conformance/processes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/partition/partition.h"
#include "graph/support/check.h"
#include "graph/support/status_macros.h"
#include "runtime/backend/backends.h"
#include "runtime/comm/message_port.h"
#include "runtime/comm/mpi/mpi_port.h"
#include "runtime/comm/shared_key.h"
#include "runtime/comm/shared_port.h"
#include "runtime/comm/tcp/connection.h"
#include "runtime/comm/tcp/tcp_port.h"
#include "tests/conformance/executed_run.h"
#include "tests/testing/far_memory_backend.h"
#include "tests/testing/random_graph.h"
#include "tests/testing/random_strategy.h"
#include "tests/testing/ring_equality.h"

namespace partita {
namespace {

MessagePort* g_port = nullptr;  // of the whole program

class ProcessesTest : public ::testing::Test {
 protected:
  int rank() const { return g_port->rank(); }
  int size() const { return g_port->size(); }
};

std::vector<char> Pattern(int rank, int64_t bytes) {
  std::vector<char> data(static_cast<size_t>(bytes));
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i * 7 + i / 251 + rank);
  return data;
}

TEST_F(ProcessesTest, EveryRankSendsToEveryOtherAtOnce) {
  for (const int64_t bytes : {0, 1, 4096, (1 << 15) - 1, 1 << 15, (1 << 20) + 13, 5 << 20}) {
    std::vector<char> own = Pattern(rank(), bytes);
    std::vector<std::vector<char>> from(static_cast<size_t>(size()));
    std::vector<MessagePort::Message> messages;
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank()) continue;
      auto& into = from[static_cast<size_t>(peer)];
      into.resize(own.size());
      messages.push_back({peer, false, own.data(), bytes});
      messages.push_back({peer, true, into.data(), bytes});
    }
    ASSERT_TRUE(g_port->Exchange(messages, 3).ok());
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank()) continue;
      EXPECT_EQ(from[static_cast<size_t>(peer)], Pattern(peer, bytes)) << peer;
    }
  }
}

TEST_F(ProcessesTest, MessagesOfAPairKeepTheirOrder) {
  const int right = (rank() + 1) % size(), left = (rank() + size() - 1) % size();
  std::vector<int> sent(64), got(64, -1);
  std::vector<MessagePort::Message> messages;
  for (int k = 0; k < 64; ++k) {
    sent[static_cast<size_t>(k)] = 1000 * rank() + k;
    messages.push_back({right, false, &sent[static_cast<size_t>(k)], sizeof(int)});
    messages.push_back({left, true, &got[static_cast<size_t>(k)], sizeof(int)});
  }
  ASSERT_TRUE(g_port->Exchange(messages, 5).ok());
  for (int k = 0; k < 64; ++k) EXPECT_EQ(got[static_cast<size_t>(k)], 1000 * left + k);
}

// A ring of messages long enough for several turns of whatever they go through.
TEST_F(ProcessesTest, WhatArrivesIsCombinedInTheOrderAskedFor) {
  constexpr size_t kCount = 300'001;
  const int right = (rank() + 1) % size(), left = (rank() + size() - 1) % size();
  const auto value = [](int of, size_t i) { return static_cast<uint64_t>(of + 1) << (i % 58); };
  std::vector<uint64_t> sent(kCount), sums(kCount), largest(kCount);
  for (size_t i = 0; i < kCount; ++i) sent[i] = sums[i] = largest[i] = value(rank(), i);
  constexpr int64_t kBytes = kCount * sizeof(uint64_t);
  for (const Reduction reduction : {Reduction::kSum, Reduction::kMax}) {
    auto& into = reduction == Reduction::kSum ? sums : largest;
    std::vector<MessagePort::Message> messages = {
        {right, false, sent.data(), kBytes},
        {left, true, into.data(), kBytes, {{DType::kRing64, reduction, rank() < left}}}};
    ASSERT_TRUE(g_port->Exchange(messages, 9).ok());
  }
  for (size_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(sums[i], value(rank(), i) + value(left, i)) << i;
    ASSERT_EQ(largest[i], value(std::max(rank(), left), i)) << i;
  }
}

// Who waits for a network leaves the cores to others; messages in shared memory are waited for.
TEST_F(ProcessesTest, APortAwaitsTheNetworkUnlessItsRanksShareMemory) {
  std::vector<char> sent(100), got(100);
  const int right = (rank() + 1) % size(), left = (rank() + size() - 1) % size();
  const std::vector<MessagePort::Message> messages = {{right, false, sent.data(), 100},
                                                      {left, true, got.data(), 100}};
  ASSERT_TRUE(g_port->Exchange(messages, 4).ok());
  EXPECT_EQ(g_port->AwaitsNetwork(), g_port->SharingRanks().size() == 1);
}

TEST_F(ProcessesTest, ABroadcastReachesEveryRank) {
  for (int root = 0; root < size(); ++root) {
    std::vector<char> data = Pattern(rank() == root ? root : 100, 1000);
    ASSERT_TRUE(Broadcast(*g_port, root, data.data(), 1000).ok());
    EXPECT_EQ(data, Pattern(root, 1000));
  }
}

// Graphs of all operators under random strategies, in the order that the planner gives them. For
// every third graph rank 1's device has a memory of its own, as a GPU has.
TEST_F(ProcessesTest, RandomPlansEqualTheSerialModelInTheRing) {
  constexpr int kPlans = 2, kSteps = 3;
  const int graphs = size() > 4 ? 30 : 60;
  const auto host = MakeBackend("reference");
  ASSERT_TRUE(host.ok()) << host.status();
  const auto far = FarMemoryBackend(*host);
  PlannerOrders orders;
  int communicating = 0;
  for (uint64_t seed = 0; seed < static_cast<uint64_t>(graphs); ++seed) {
    std::mt19937_64 random(7'000'000 + seed);
    const Graph graph = WithRingArithmetic(RandomTrainingGraph(random));
    const SerialRun serial(graph, kSteps, RingValues::kRandom, random);
    for (int plan = 0; plan < kPlans; ++plan) {
      PartitionOptions options = RandomPartitionOptions(random);
      options.devices = size();
      options.node_of_device.clear();
      const Strategy strategy = RandomStrategy(graph, size(), random);
      auto step = orders.StepOf(graph, strategy, options, random);
      ASSERT_TRUE(step.ok()) << step.status();
      const std::vector<Bytes> wanted = BytesReceived(step->tasks);
      auto run = ExecutedRun::Open(graph, std::move(step->tasks), std::move(step->order),
                                   rank() == 1 && seed % 3 == 0 ? far : *host, g_port);
      ASSERT_TRUE(run.ok()) << "seed " << seed << " plan " << plan << ": " << run.status();
      const absl::Status equal = serial.Compare(**run);
      ASSERT_TRUE(equal.ok()) << "seed " << seed << " plan " << plan << ": " << equal;
      const auto own = static_cast<size_t>(rank());
      EXPECT_EQ((*run)->BytesReceived()[own].value(), kSteps * wanted[own].value());
      communicating += wanted[own].value() > 0 ? 1 : 0;
    }
  }
  if (rank() == 0) {
    std::cout << graphs * kPlans << " plans on " << size() << " processes, " << communicating
              << " in which rank 0 receives\n";
  }
  EXPECT_GE(communicating, graphs * kPlans / 4);
}

// The last: behind it the ranks are out of step. Each pair of ranks tries other lengths.
TEST_F(ProcessesTest, OtherBytesThanWantedAreAnErrorThatNamesTheRank) {
  struct Lengths {
    int64_t sent, wanted;
  };
  constexpr Lengths kLengths[] = {{200'000, 300'000}, {128, 256}, {128, 300'000}};
  if (rank() / 2 * 2 + 1 >= size()) return;
  const Lengths lengths = kLengths[rank() / 2 % 3];
  const bool sends = rank() % 2 == 0;
  std::vector<char> data(static_cast<size_t>(std::max(lengths.sent, lengths.wanted)));
  const std::vector<MessagePort::Message> messages = {
      {rank() ^ 1, !sends, data.data(), sends ? lengths.sent : lengths.wanted}};
  const absl::Status status = g_port->Exchange(messages, 11);
  if (sends) return;
  EXPECT_TRUE(absl::IsInternal(status)) << status;
  const std::string peer = absl::StrCat("from rank ", rank() - 1, " has ");
  EXPECT_NE(status.message().find(peer), absl::string_view::npos) << status;
  if (lengths.sent == 128 && lengths.wanted > 256) return;  // MPI says no more than that
  EXPECT_NE(status.message().find(absl::StrCat(peer, lengths.sent, " bytes")),
            absl::string_view::npos)
      << status;
}

// Connections between the processes, who meet where the other port says.
absl::StatusOr<std::unique_ptr<MessagePort>> OverTcp(MessagePort& other) {
  TcpMeeting meeting{.rank = other.rank(), .size = other.size()};
  if (other.rank() == 0) {
    meeting.port = (*Listener::Open(Listener::Reach::kThisHost))->port();  // free now
  }
  CHECK(Broadcast(other, 0, &meeting.port, sizeof meeting.port).ok());
  ASSIGN_OR_RETURN(KeyedPort met, OpenTcpPort(meeting));
  return std::move(met.port);
}

}  // namespace

MessagePort& ProcessesPort() { return *g_port; }

}  // namespace partita

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  auto mpi = partita::OpenMpiPort();
  const std::string way = argc > 1 ? argv[1] : "";
  absl::StatusOr<std::unique_ptr<partita::MessagePort>> port = nullptr;
  if (!mpi.ok()) {
    port = mpi.status();
  } else if (way == "tcp") {
    port = partita::OverTcp(**mpi);
  } else if (way == "mpi") {
    port = std::move(mpi);
  } else {
    const auto key = partita::KeyFromRank0(**mpi, std::nullopt);
    port = std::move(mpi);
    const absl::Status shared = key.ok() ? partita::ShareMemory(*port, *key) : key.status();
    if (!shared.ok()) port = shared;
  }
  if (!port.ok()) {
    std::cerr << port.status() << "\n";
    return 1;
  }
  partita::g_port = port->get();
  ::testing::GTEST_FLAG(fail_fast) = true;  // behind a failure ranks are out of step
  if (partita::g_port->rank() != 0) {  // rank 0 reports; the others speak where something fails
    ::testing::GTEST_FLAG(output) = "";
    ::testing::GTEST_FLAG(brief) = true;
  }
  const int result = RUN_ALL_TESTS();
  // Who has failed is out of step with the others: ends them too.
  if (result != 0) partita::g_port->Abort(absl::InternalError("a test failed"));
  return result;
}
