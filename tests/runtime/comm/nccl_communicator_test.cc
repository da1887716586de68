// What is the nccl communicator's own, with the test library of NCCL's functions on host memory.
#include "runtime/comm/nccl/nccl_communicator.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <thread>

#include "graph/support/check.h"
#include "runtime/comm/nccl/nccl_calls.h"
#include "runtime/comm/nccl/split_rounds.h"
#include "tests/runtime/comm/communicator_bench.h"
#include "tests/testing/nccl_on_host/nccl_on_host.h"
#include "tests/testing/ok.h"

namespace partita {
namespace {

using Job = CommunicatorBench::Job;
using Memory = CommunicatorBench::Memory;
using Kind = NcclCall::Kind;
using ::testing::HasSubstr;

std::vector<DeviceId> Devices(int count) {
  std::vector<DeviceId> devices;
  for (int d = 0; d < count; ++d) devices.push_back(DeviceId(d));
  return devices;
}

Task CollectiveTaskOf(Collective collective, DType dtype) {
  const std::vector<DeviceId> group = Devices(collective.ranks);
  return CollectiveJob(TaskId(3), group, {std::move(collective), "direct", dtype},
                       static_cast<int>(group.size()))
      .task;
}

TEST(NcclCallsTest, EqualBlocksAreOneCallAndOthersOneForEachBlock) {
  const auto even =
      NcclCallsOf(CollectiveTaskOf(MakeReduceScatter({5, 5, 5}), DType::kFloat64), DeviceId(2));
  ASSERT_EQ(even.size(), 1u);
  EXPECT_EQ(even[0].kind, Kind::kReduceScatter);
  EXPECT_EQ(even[0].count, 5u);
  EXPECT_EQ(even[0].send_offset, 0);
  EXPECT_EQ(even[0].receive_offset, 80);
  const auto uneven =
      NcclCallsOf(CollectiveTaskOf(MakeAllGather({5, 0, 6}), DType::kFloat32), DeviceId(1));
  ASSERT_EQ(uneven.size(), 2u);
  EXPECT_EQ(uneven[0].kind, Kind::kBroadcast);
  EXPECT_EQ(uneven[0].peer, 0);
  EXPECT_EQ(uneven[1].peer, 2);
  EXPECT_EQ(uneven[1].send_offset, 20);
  EXPECT_EQ(uneven[1].receive_offset, 20);
  EXPECT_EQ(uneven[1].count, 6u);
  EXPECT_EQ(NcclCallsOf(CollectiveTaskOf(MakeReduce(4, 1, 9), DType::kFloat32), DeviceId(3)).size(),
            1u);
  EXPECT_TRUE(
      NcclCallsOf(CollectiveTaskOf(MakeAllReduce(2, 0), DType::kFloat32), DeviceId(0)).empty());
}

TEST(NcclCallsTest, RingElementsSumUnsignedAndCompareSigned) {
  for (const Reduction reduction : {Reduction::kSum, Reduction::kMax}) {
    const auto calls =
        NcclCallsOf(CollectiveTaskOf(MakeAllReduce(2, 7, reduction), DType::kRing64), DeviceId(0));
    ASSERT_EQ(calls.size(), 1u);
    EXPECT_EQ(calls[0].type, reduction == Reduction::kSum ? ncclUint64 : ncclInt64);
    EXPECT_EQ(calls[0].op, reduction == Reduction::kSum ? ncclSum : ncclMax);
  }
}

TEST(NcclCallsTest, ABucketIsOneCallForEachSlice) {
  Task task{TaskId(3), {}, CollectiveTask{}, {}};
  auto& body = std::get<CollectiveTask>(task.body);
  body = {Devices(2), MakeAllReduce(2, 12), "ring", DType::kFloat32, {}, {}};
  body.bucket = {TensorId(5), TensorId(6), TensorId(7)};
  for (int64_t count : {5, 0, 7}) {
    for (int r = 0; r < 2; ++r) body.send.push_back({BufferId(0), 0, count});
  }
  body.receive = body.send;
  const auto calls = NcclCallsOf(task, DeviceId(1));
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(calls[0].count, 5u);
  EXPECT_EQ(calls[0].buffer, 0u);
  EXPECT_EQ(calls[1].count, 7u);
  EXPECT_EQ(calls[1].buffer, 2u);
}

TEST(NcclCallsTest, AllToAllPairsSendsWithReceives) {
  const auto calls =
      NcclCallsOf(CollectiveTaskOf(MakeAllToAll({{1, 2}, {0, 3}}), DType::kFloat32), DeviceId(0));
  ASSERT_EQ(calls.size(), 3u);  // to and from itself, to rank 1; rank 1 has nothing for rank 0
  EXPECT_EQ(calls[0].kind, Kind::kSend);
  EXPECT_EQ(calls[1].kind, Kind::kReceive);
  EXPECT_EQ(calls[2].kind, Kind::kSend);
  EXPECT_EQ(calls[2].send_offset, 4);
  EXPECT_EQ(calls[2].count, 2u);
}

TEST(NcclLibraryTest, VariablesThatChangeHowRanksConnectAreRefused) {
  for (const auto& [name, value] :
       {std::pair("NCCL_COMM_BLOCKING", "1"), std::pair("NCCL_COMM_SPLIT_SHARE_RESOURCES", "0")}) {
    setenv(name, value, 1);
    const absl::Status status =
        MakeNcclCommunicator({.devices = 1, .soname = PARTITA_NCCL_ON_HOST}).status();
    unsetenv(name);
    EXPECT_THAT(status.message(), HasSubstr(name));
  }
}

TEST(NcclLibraryTest, AMissingLibraryIsUnavailableAndNamed) {
  const auto missing = MakeNcclCommunicator({.devices = 2, .soname = "/nowhere/libnccl.so.2"});
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(missing.status().message()), HasSubstr("/nowhere/libnccl.so.2"));
  const auto other = OpenNcclLibrary("libm.so.6");
  EXPECT_EQ(other.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(other.status().message()), HasSubstr("ncclGetVersion"));
}

TEST(NcclLibraryTest, OpensByItsPath) {
  const auto library = Ok(OpenNcclLibrary(PARTITA_NCCL_ON_HOST));
  EXPECT_EQ(library->version, NCCL_VERSION_CODE);
}

// NCCL's own library opens where it is installed; nothing of it runs without a GPU.
TEST(NcclLibraryTest, OpensTheInstalledLibrary) {
#ifdef PARTITA_SANITIZED
  GTEST_SKIP() << "its own code is not made for sanitizers";
#endif
  const auto library = OpenNcclLibrary("libnccl.so.2");
  if (absl::IsUnavailable(library.status())) GTEST_SKIP() << library.status();
  EXPECT_GE((*library)->version, NCCL_VERSION(2, 14, 0));
}

TEST(SplitRoundsTest, ARoundHasGroupsThatShareNoDevice) {
  const auto rounds = [](const std::vector<std::vector<int>>& groups) {
    std::vector<std::vector<DeviceId>> lists;
    for (const auto& group : groups) {
      lists.emplace_back();
      for (int device : group) lists.back().push_back(DeviceId(device));
    }
    std::vector<const std::vector<DeviceId>*> views;
    for (const auto& list : lists) views.push_back(&list);
    return SplitRoundsOf(views);
  };
  EXPECT_TRUE(rounds({}).empty());
  EXPECT_EQ(rounds({{0, 1}, {2, 3}, {0, 1, 2, 3}, {1, 0}, {4}, {2, 0}}),
            std::vector<SplitRound>({{0, 1, 4}, {2}, {3}, {5}}));
  // All pairs of 16 devices in few more rounds than the 15 that any way takes.
  std::vector<std::vector<int>> pairs;
  for (int a = 0; a < 16; ++a) {
    for (int b = a + 1; b < 16; ++b) pairs.push_back({a, b});
  }
  const auto all = rounds(pairs);
  EXPECT_LE(all.size(), 31u);
  size_t made = 0;
  for (const SplitRound& round : all) made += round.size();
  EXPECT_EQ(made, pairs.size());
}

// Counts of calls of a test library, which is open.
NcclOnHostCounts TakeCounts(const char* library) {
  void* const handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  CHECK(handle != nullptr) << library;
  const auto take =
      reinterpret_cast<decltype(&ncclOnHostTakeCounts)>(dlsym(handle, "ncclOnHostTakeCounts"));
  const NcclOnHostCounts counts = take();
  dlclose(handle);
  return counts;
}

// All-reduces of one number on these groups.
std::vector<Job> SumsOf(const std::vector<std::vector<int>>& groups, int devices) {
  std::vector<Job> jobs;
  for (const auto& group : groups) {
    std::vector<DeviceId> ids;
    for (int device : group) ids.push_back(DeviceId(device));
    const int ranks = static_cast<int>(group.size());
    jobs.push_back(CollectiveJob(TaskId(static_cast<int>(jobs.size())), ids,
                                 {MakeAllReduce(ranks, 1), "ring", DType::kInt32}, devices));
  }
  return jobs;
}

// Device d's number is 10^d at first.
Memory PowersOfTen(int devices) {
  Memory memory;
  int32_t value = 1;
  for (int d = 0; d < devices; ++d, value *= 10) {
    memory.emplace_back(sizeof(value));
    std::memcpy(memory.back().data(), &value, sizeof(value));
  }
  return memory;
}

int32_t NumberIn(const std::vector<char>& memory) {
  int32_t value = 0;
  std::memcpy(&value, memory.data(), sizeof(value));
  return value;
}

const std::vector<std::vector<int>> kGroups = {{0, 1}, {2, 3}, {0, 1, 2, 3}, {1, 0}, {2, 0}};

TEST(NcclCommunicatorTest, GroupsAreSplitFromOneCommunicatorAndTheirCallsBlock) {
  const auto bench = Ok(CommunicatorBench::Open("nccl", TestSetup(4)));
  TakeCounts(PARTITA_NCCL_ON_HOST);
  const std::vector<Job> jobs = SumsOf(kGroups, 4);
  ASSERT_EQ(bench->Prepare(jobs), absl::OkStatus());
  const NcclOnHostCounts made = TakeCounts(PARTITA_NCCL_ON_HOST);
  EXPECT_EQ(made.connected, 4) << "ranks of the one that is split";
  EXPECT_EQ(made.splits, 4 * 4) << "four rounds: two of the groups share no device";
  Memory memory = PowersOfTen(4);
  ASSERT_EQ(bench->Run(jobs, memory), absl::OkStatus());
  for (size_t d = 0; d < 4; ++d) {
    EXPECT_EQ(NumberIn(memory[d]), std::vector<int32_t>({6666, 4444, 6666, 2222})[d]) << d;
  }
  EXPECT_EQ(TakeCounts(PARTITA_NCCL_ON_HOST).looks, 0)
      << "nobody waits by looking whether a call is in progress";
}

// With a library that cannot split.
TEST(NcclCommunicatorTest, WithoutSplitsEachGroupIsConnectedByAnIdOfItsOwn) {
  CommunicatorSetup setup = TestSetup(4);
  setup.nccl_library = PARTITA_NCCL_2_17_ON_HOST;
  const auto bench = Ok(CommunicatorBench::Open("nccl", setup));
  TakeCounts(PARTITA_NCCL_2_17_ON_HOST);
  const std::vector<Job> jobs = SumsOf(kGroups, 4);
  ASSERT_EQ(bench->Prepare(jobs), absl::OkStatus());
  const NcclOnHostCounts made = TakeCounts(PARTITA_NCCL_2_17_ON_HOST);
  EXPECT_EQ(made.connected, 2 + 2 + 4 + 2 + 2);
  EXPECT_EQ(made.splits, 0);
  Memory memory = PowersOfTen(4);
  ASSERT_EQ(bench->Run(jobs, memory), absl::OkStatus());
  EXPECT_EQ(NumberIn(memory[0]), 6666);
  EXPECT_GT(TakeCounts(PARTITA_NCCL_2_17_ON_HOST).looks, 0);
}

// One device waits in a call for a peer that does not come.
TEST(NcclCommunicatorTest, AnAbortEndsCallsThatBlock) {
  for (const char* library : {PARTITA_NCCL_ON_HOST, PARTITA_NCCL_2_17_ON_HOST}) {
    CommunicatorSetup setup = TestSetup(2);
    setup.nccl_library = library;
    const auto bench = Ok(CommunicatorBench::Open("nccl", setup));
    const std::vector<Job> jobs = SumsOf({{0, 1}}, 2);
    ASSERT_EQ(bench->Prepare(jobs), absl::OkStatus());
    TakeCounts(library);
    std::thread watch([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      bench->communicator().Abort(absl::AbortedError("enough"));
    });
    Memory memory = PowersOfTen(2);
    const auto start = std::chrono::steady_clock::now();
    const absl::Status status =
        bench->Run(jobs, memory, [](size_t, DeviceId device) { return device.value() == 0; });
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
    watch.join();
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(std::string(status.message()), HasSubstr("another device failed"));
    EXPECT_EQ(TakeCounts(library).aborted_inside, 0)
        << "NCCL allows no abort of a communicator that a thread is in a call of";
  }
}

// NCCL waits, in the abort of a communicator, for the recordings that it is part of.
TEST(NcclCommunicatorTest, WhatIsRecordedIsFreedBehindTheRecordings) {
  auto bench = Ok(CommunicatorBench::Open("nccl", TestSetup(2)));
  const std::vector<Job> jobs = SumsOf({{0, 1}}, 2);
  ASSERT_EQ(bench->Prepare(jobs), absl::OkStatus());
  EXPECT_TRUE(bench->communicator().EnqueuesTheSame());
  bench->communicator().KeepForRecordings();
  TakeCounts(PARTITA_NCCL_ON_HOST);
  std::thread watch([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    bench->communicator().Abort(absl::AbortedError("enough"));
  });
  Memory memory = PowersOfTen(2);
  EXPECT_FALSE(
      bench->Run(jobs, memory, [](size_t, DeviceId device) { return device.value() == 0; }).ok());
  watch.join();
  EXPECT_EQ(TakeCounts(PARTITA_NCCL_ON_HOST).aborted, 2) << "of the one that was split";
  bench.reset();
  const NcclOnHostCounts ended = TakeCounts(PARTITA_NCCL_ON_HOST);
  EXPECT_EQ(ended.aborted, 2) << "of its part";
  EXPECT_EQ(ended.aborted_inside, 0);
}

// A port to processes that never show up.
class LonelyPort : public MessagePort {
 public:
  int rank() const override { return 0; }
  int size() const override { return 2; }
  absl::Status Begin(std::span<const Message>, int) override { return absl::OkStatus(); }
  absl::StatusOr<bool> Advance() override { return true; }
};

TEST(NcclCommunicatorTest, AProcessThatDoesNotConnectIsAnErrorAfterTheLimit) {
  LonelyPort port;
  CommunicatorSetup setup = TestSetup(2);
  setup.port = &port;
  setup.connect_seconds = 0.05;
  const auto bench = Ok(CommunicatorBench::Open("nccl", setup));
  const std::vector<Job> jobs = {
      CollectiveJob(TaskId(0), Devices(2), {MakeAllReduce(2, 4), "ring", DType::kFloat32}, 2)};
  const absl::Status status = bench->Prepare(jobs);
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("devices 0,1"));
}

TEST(NcclCommunicatorTest, WantsOneProcessForEachDevice) {
  LonelyPort port;
  CommunicatorSetup setup = TestSetup(3);
  setup.port = &port;
  EXPECT_EQ(MakeCommunicator("nccl", setup).status().code(), absl::StatusCode::kInvalidArgument);
}

// Two devices that run the same tasks in another order, as no plan does: the test library finds
// it, and the error names the task.
TEST(NcclCommunicatorTest, AnErrorNamesTheTask) {
  const auto bench = Ok(CommunicatorBench::Open("nccl", TestSetup(2)));
  const std::vector<Job> jobs = {
      CollectiveJob(TaskId(7), Devices(2), {MakeAllReduce(2, 4), "ring", DType::kFloat32}, 2),
      CollectiveJob(TaskId(8), Devices(2), {MakeAllReduce(2, 5), "ring", DType::kFloat32}, 2)};
  ASSERT_EQ(bench->Prepare(jobs), absl::OkStatus());
  Memory memory(2, std::vector<char>(64));
  const absl::Status status = bench->Run(jobs, memory, [](size_t job, DeviceId device) {
    return static_cast<int>(job) == device.value();  // device 0 the first task, device 1 the second
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
  EXPECT_THAT(std::string(status.message()),
              ::testing::AnyOf(HasSubstr("task 7: all_reduce of 4 elements"),
                               HasSubstr("task 8: all_reduce of 5 elements")));
  EXPECT_THAT(std::string(status.message()), HasSubstr("the count differs"));
  EXPECT_FALSE(bench->communicator().AsynchronousError().code() == absl::StatusCode::kInternal)
      << "aborted ranks have nothing more to say";
}

TEST(NcclCommunicatorTest, HealthyRanksHaveNoAsynchronousError) {
  const auto bench = Ok(CommunicatorBench::Open("nccl", TestSetup(2)));
  const std::vector<Job> jobs = {
      CollectiveJob(TaskId(0), Devices(2), {MakeAllReduce(2, 4), "ring", DType::kFloat32}, 2)};
  ASSERT_EQ(bench->Prepare(jobs), absl::OkStatus());
  EXPECT_EQ(bench->communicator().AsynchronousError(), absl::OkStatus());
}

}  // namespace
}  // namespace partita
