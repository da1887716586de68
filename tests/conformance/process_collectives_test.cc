// Collectives and transfers between processes, each with a device of its own: every process knows
// what all of them start with and compares what it ends with, bit for bit, with the schedule run on
// plain vectors.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "graph/collective/algorithms.h"
#include "graph/collective/run_schedule.h"
#include "graph/support/status_macros.h"
#include "runtime/backend/reference/reference_backend.h"
#include "runtime/comm/host_circle.h"
#include "runtime/comm/message_communicator.h"
#include "runtime/comm/shared_key.h"
#include "tests/conformance/processes.h"

namespace partita {
namespace {

// The ranks as if they were on hosts of their own, `per_host` on each.
class HostsPort : public MessagePort {
 public:
  // Collective.
  HostsPort(MessagePort& outer, int per_host) : outer_(outer), per_host_(per_host) {
    const RunKey key = KeyFromRank0(outer, std::nullopt).value();
    circle_ = HostCircle::Open(outer, SharingRanks(), key).value();
  }
  int rank() const override { return outer_.rank(); }
  int size() const override { return outer_.size(); }
  std::vector<int> SharingRanks() const override {
    std::vector<int> ranks;
    for (int r : outer_.SharingRanks()) {
      if (r / per_host_ == rank() / per_host_) ranks.push_back(r);
    }
    return ranks;
  }
  HostCircle* circle() override { return circle_.get(); }
  absl::Status Begin(std::span<const Message> messages, int tag) override {
    return outer_.Begin(messages, tag);
  }
  absl::StatusOr<bool> Advance() override { return outer_.Advance(); }

 private:
  MessagePort& outer_;
  const int per_host_;
  std::unique_ptr<HostCircle> circle_;
};

// This process's device, as an executor has it.
class Rig {
 public:
  static absl::StatusOr<std::unique_ptr<Rig>> Open(MessagePort& port,
                                                   const std::vector<Task>& tasks) {
    auto rig = std::make_unique<Rig>();
    rig->own_ = DeviceId(port.rank());
    rig->communicator_ = MakeMessageCommunicator(port);
    ASSIGN_OR_RETURN(rig->device_, MakeReferenceBackend()->Open({.index = port.rank()}));
    std::vector<BackendDevice*> devices(static_cast<size_t>(port.size()));
    std::vector<Stream*> streams(devices.size());
    devices[rig->own_.index()] = rig->device_.get();
    std::vector<const Task*> pointers;
    for (const Task& task : tasks) pointers.push_back(&task);
    RETURN_IF_ERROR(rig->communicator_->Prepare(pointers, devices));
    ASSIGN_OR_RETURN(rig->memory_, rig->device_->Allocate(kBytes));
    ASSIGN_OR_RETURN(rig->stream_,
                     rig->device_->NewStream("communication", StreamUse::kCommunication));
    streams[rig->own_.index()] = rig->stream_.get();
    RETURN_IF_ERROR(rig->communicator_->Connect(streams));
    return rig;
  }

  static constexpr int64_t kBytes = 4 << 20;
  char* memory() const { return static_cast<char*>(memory_->data()); }
  Communicator& communicator() { return *communicator_; }

  absl::Status Run(const Task& task, std::vector<void*> send, std::vector<void*> receive) {
    const CommunicationArguments arguments{&task, own_, std::move(send), std::move(receive)};
    communicator_->Enqueue(arguments, 0, *stream_, nullptr);
    return stream_->Synchronize();
  }

 private:
  DeviceId own_;
  std::unique_ptr<Communicator> communicator_;
  std::unique_ptr<BackendDevice> device_;
  std::unique_ptr<DeviceMemory> memory_;
  std::unique_ptr<Stream> stream_;
};

int64_t Below(std::mt19937_64& random, int64_t n) {
  return static_cast<int64_t>(random() % static_cast<uint64_t>(n));
}

Collective RandomCollective(int ranks, std::mt19937_64& random) {
  const auto reduction = Below(random, 4) == 0 ? Reduction::kMax : Reduction::kSum;
  const int64_t most = Below(random, 6) == 0 ? 3'000 : 200;
  std::vector<int64_t> blocks;
  for (int r = 0; r < ranks; ++r) {
    blocks.push_back(Below(random, 4) == 0 ? 0 : Below(random, most));
  }
  switch (Below(random, 4)) {
    case 0:
      return MakeAllReduce(ranks, Below(random, 8 * most), reduction);
    case 1:
      return MakeReduceScatter(blocks, reduction);
    case 2:
      return MakeAllGather(blocks);
    default:
      break;
  }
  std::vector<std::vector<int64_t>> counts(static_cast<size_t>(ranks), blocks);
  for (auto& row : counts) std::shuffle(row.begin(), row.end(), random);
  return MakeAllToAll(counts);
}

class ProcessCollectivesTest : public ::testing::Test {
 protected:
  int rank() const { return ProcessesPort().rank(); }
  int size() const { return ProcessesPort().size(); }

  // Some of the devices in any order.
  std::vector<DeviceId> RandomGroup() {
    std::vector<DeviceId> group;
    for (int d = 0; d < size(); ++d) group.push_back(DeviceId(d));
    std::shuffle(group.begin(), group.end(), random_);
    group.resize(static_cast<size_t>(1 + Below(random_, size())));
    return group;
  }

  std::vector<Task> RandomCollectives(int count) {
    constexpr DType kTypes[] = {DType::kFloat32, DType::kRing64, DType::kFloat64, DType::kInt32};
    std::vector<Task> tasks;
    while (static_cast<int>(tasks.size()) < count) {
      CollectiveTask body{.group = RandomGroup()};
      const int ranks = static_cast<int>(body.group.size());
      body.collective = RandomCollective(ranks, random_);
      body.dtype = kTypes[Below(random_, 4)];
      const auto all = CollectiveAlgorithms();
      const CollectiveAlgorithm& row = all[random_() % all.size()];
      if (!row.kinds.contains(body.collective.kind) || !row.applicable(ranks)) continue;
      std::vector<int> nodes;
      for (DeviceId id : body.group) nodes.push_back(id.value() / 2);
      body.algorithm = ForNodes(row.name, nodes);
      tasks.push_back({TaskId(static_cast<int>(tasks.size())), {}, std::move(body), {}});
    }
    return tasks;
  }

  template <class T>
  void RunAndCompare(Rig& rig, const Task& task, uint64_t seed) {
    const auto& body = std::get<CollectiveTask>(task.body);
    const Collective& c = body.collective;
    std::vector<std::vector<T>> send(body.group.size()), receive(body.group.size());
    std::mt19937_64 random(seed);
    for (int r = 0; r < c.ranks; ++r) {
      for (int64_t i = 0; i < SendElements(c, r); ++i) {
        const auto number = static_cast<T>(random() % 1'000'003);
        send[static_cast<size_t>(r)].push_back(number / static_cast<T>(1 + random() % 7));
      }
      receive[static_cast<size_t>(r)].resize(static_cast<size_t>(ReceiveElements(c, r)));
    }
    const auto at = std::find(body.group.begin(), body.group.end(), DeviceId(rank()));
    if (at == body.group.end()) return;
    const auto own = static_cast<size_t>(at - body.group.begin());
    const bool in_place = c.kind != CollectiveKind::kAllToAll;
    const size_t bytes = send[own].size() * sizeof(T);
    char* into = rig.memory() + (in_place ? 0 : bytes);
    std::copy_n(reinterpret_cast<const char*>(send[own].data()), bytes, rig.memory());
    const absl::Status status = rig.Run(task, {rig.memory()}, {into});
    ASSERT_TRUE(status.ok()) << status;
    const auto schedule = BuildSchedule(body.algorithm, c);
    RunSchedule(*schedule, c.reduction, send, in_place ? send : receive);
    const std::vector<T>& want = in_place ? send[own] : receive[own];
    ElementRange range{0, static_cast<int64_t>(want.size())};
    if (c.kind == CollectiveKind::kReduceScatter) range = c.blocks[own];
    const auto size = static_cast<int64_t>(sizeof(T));
    ASSERT_TRUE(std::equal(into + range.offset * size, into + range.end() * size,
                           reinterpret_cast<const char*>(want.data()) + range.offset * size))
        << ToString(c) << " by " << body.algorithm << ", rank " << own;
  }

  void ExpectCollectives(MessagePort& port, int count) {
    const std::vector<Task> tasks = RandomCollectives(count);
    auto rig = Rig::Open(port, tasks);
    ASSERT_TRUE(rig.ok()) << rig.status();
    int64_t received = 0;
    for (const Task& task : tasks) {
      const auto& body = std::get<CollectiveTask>(task.body);
      const uint64_t seed = random_();
      if (body.dtype == DType::kFloat32) RunAndCompare<float>(**rig, task, seed);
      if (body.dtype == DType::kFloat64) RunAndCompare<double>(**rig, task, seed);
      if (body.dtype == DType::kInt32) RunAndCompare<int32_t>(**rig, task, seed);
      if (body.dtype == DType::kRing64) RunAndCompare<uint64_t>(**rig, task, seed);
      if (HasFatalFailure()) return;
      received += ElementsReceived(body, DeviceId(rank())) * SizeOf(body.dtype);
    }
    const auto own = static_cast<size_t>(rank());
    EXPECT_EQ((*rig)->communicator().BytesReceived()[own].value(), received);
  }

  std::mt19937_64 random_{77};  // the same in all processes
};

TEST_F(ProcessCollectivesTest, GiveTheBitsOfTheirSchedules) {
  ExpectCollectives(ProcessesPort(), 150);
}

TEST_F(ProcessCollectivesTest, GiveThemBetweenHostsOfTwoAndOfThree) {
  for (const int per_host : {2, 3}) {
    HostsPort port(ProcessesPort(), per_host);
    ExpectCollectives(port, 100);
  }
}

TEST_F(ProcessCollectivesTest, GiveThemWhereEveryRankIsAHost) {
  HostsPort port(ProcessesPort(), 1);
  ExpectCollectives(port, 100);
}

// Between any devices, to themselves too, several between two, and empty ones.
TEST_F(ProcessCollectivesTest, TransfersArriveWithinHostsAndBetweenThem) {
  for (const int per_host : {size(), 2}) {
    HostsPort port(ProcessesPort(), per_host);
    std::vector<Task> tasks;
    for (int k = 0; k < 60; ++k) {
      TransferTask body{.dtype = DType::kFloat32, .group = RandomGroup()};
      std::sort(body.group.begin(), body.group.end());
      for (int64_t t = 1 + Below(random_, 9); t > 0; --t) {
        const int64_t count = Below(random_, 4) == 0 ? 0 : Below(random_, 5000);
        const Slice slice{kNoBuffer, 0, count};
        const auto any = [&] { return body.group[random_() % body.group.size()]; };
        body.transfers.push_back({any(), any(), slice, slice});
      }
      tasks.push_back({TaskId(k), {}, std::move(body), {}});
    }
    auto rig = Rig::Open(port, tasks);
    ASSERT_TRUE(rig.ok()) << rig.status();
    for (const Task& task : tasks) {
      const auto& body = std::get<TransferTask>(task.body);
      if (std::find(body.group.begin(), body.group.end(), DeviceId(rank())) == body.group.end()) {
        continue;
      }
      std::vector<void*> send, receive;
      std::vector<std::pair<float*, size_t>> arrivals;  // and which transfer
      auto* next = reinterpret_cast<float*>((*rig)->memory());
      for (size_t t = 0; t < body.transfers.size(); ++t) {
        const Transfer& transfer = body.transfers[t];
        const int64_t count = transfer.send.count;
        const bool sends = transfer.from == DeviceId(rank());
        const bool receives = transfer.to == DeviceId(rank());
        if (!sends && !receives) continue;
        send.push_back(sends ? next : nullptr);
        if (sends) {
          for (int64_t i = 0; i < count; ++i) *next++ = static_cast<float>(t * 10'000 + i);
        }
        receive.push_back(receives ? next : nullptr);
        if (receives) {
          arrivals.emplace_back(next, t);
          std::fill_n(next, count, -1.0f);
          next += count;
        }
      }
      const absl::Status status = (*rig)->Run(task, send, receive);
      ASSERT_TRUE(status.ok()) << status;
      for (const auto& [values, t] : arrivals) {
        for (int64_t i = 0; i < body.transfers[t].send.count; ++i) {
          ASSERT_EQ(values[i], static_cast<float>(t * 10'000 + i)) << "transfer " << t;
        }
      }
    }
  }
}

TEST_F(ProcessCollectivesTest, AnAbortReleasesThoseWhoWaitForARankThatDoesNotCome) {
  HostsPort port(ProcessesPort(), size());
  CollectiveTask body{.collective = MakeAllReduce(size(), 1000), .algorithm = "ring"};
  for (int d = 0; d < size(); ++d) body.group.push_back(DeviceId(d));
  const std::vector<Task> tasks = {{TaskId(0), {}, std::move(body), {}}};
  auto rig = Rig::Open(port, tasks);
  ASSERT_TRUE(rig.ok()) << rig.status();
  const bool in_place = ProcessesPort().SharingRanks().size() > 1;
  if (rank() != 0 && in_place) {  // a message would remain on its way
    std::thread abort([&] {
      while (!port.waiting()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      (*rig)->communicator().Abort(absl::InternalError("rank 0 is gone"));
    });
    const absl::Status status = (*rig)->Run(tasks[0], {(*rig)->memory()}, {(*rig)->memory()});
    abort.join();
    EXPECT_TRUE(absl::IsCancelled(status)) << status;
    EXPECT_NE(status.message().find("rank 0 is gone"), absl::string_view::npos) << status;
  }
  char byte = 0;  // all leave together
  for (int root = 0; root < size(); ++root) {
    ASSERT_TRUE(Broadcast(ProcessesPort(), root, &byte, 1).ok());
  }
}

}  // namespace
}  // namespace partita
