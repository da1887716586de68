// What every communicator between threads of one process does: inproc, and nccl with the test
// library of NCCL's functions on host memory.
#include "runtime/comm/communicator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

#include "absl/strings/str_cat.h"
#include "graph/collective/algorithms.h"
#include "runtime/comm/staged_communicator.h"
#include "tests/runtime/comm/communicator_bench.h"
#include "tests/testing/model_writer.h"

namespace partita {
namespace {

using Job = CommunicatorBench::Job;
using Memory = CommunicatorBench::Memory;

constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat64, DType::kInt32, DType::kRing64};
constexpr Reduction kReductions[] = {Reduction::kSum, Reduction::kMax};

// Whole numbers, small enough in floating point for every sum to be exact in any order.
template <class T>
std::vector<T> Numbers(size_t count, std::mt19937_64& random) {
  std::vector<T> numbers(count);
  for (T& x : numbers) {
    x = std::is_same_v<T, uint64_t> ? static_cast<T>(random())
                                    : static_cast<T>(static_cast<int>(random() % 2001) - 1000);
  }
  return numbers;
}

template <class T>
T Combine(Reduction reduction, T a, T b) {
  if (reduction == Reduction::kSum) return a + b;
  if constexpr (std::is_same_v<T, uint64_t>) {
    return static_cast<int64_t>(a) < static_cast<int64_t>(b) ? b : a;
  } else {
    return std::max(a, b);
  }
}

// What a rank's memory holds of its result: elements [first, first + values.size()).
template <class T>
struct Expected {
  int64_t first = 0;
  std::vector<T> values;
};

template <class T>
Expected<T> ResultOf(const Collective& c, const std::vector<std::vector<T>>& own, int rank) {
  Expected<T> result;
  const auto r = static_cast<size_t>(rank);
  if (c.kind == CollectiveKind::kAllToAll) {
    result.first = SendElements(c, rank);
    for (int from = 0; from < c.ranks; ++from) {
      const auto begin = own[static_cast<size_t>(from)].begin() + SendOffset(c, from, rank);
      result.values.insert(result.values.end(), begin,
                           begin + c.counts[static_cast<size_t>(from)][r]);
    }
    return result;
  }
  if (c.kind == CollectiveKind::kAllGather) {
    for (size_t from = 0; from < own.size(); ++from) {
      const auto begin = own[from].begin() + c.blocks[from].offset;
      result.values.insert(result.values.end(), begin, begin + c.blocks[from].count);
    }
    return result;
  }
  ElementRange range{0, c.total};
  if (c.kind == CollectiveKind::kReduceScatter) range = c.blocks[r];
  result.first = range.offset;
  for (int64_t i = range.offset; i < range.end(); ++i) {
    T value = own[0][static_cast<size_t>(i)];
    for (size_t k = 1; k < own.size(); ++k) {
      value = Combine(c.reduction, value, own[k][static_cast<size_t>(i)]);
    }
    result.values.push_back(value);
  }
  return result;
}

// A communicator, and where its devices' memory is: in turns in each of `memories`, as
// CommunicatorBench numbers them.
struct Case {
  const char* name;
  const char* communicator;
  std::vector<int> memories = {0};
};

class CommunicatorTest : public ::testing::TestWithParam<Case> {
 protected:
  std::unique_ptr<CommunicatorBench> OpenBench(int devices) {
    const Case& at = GetParam();
    CommunicatorBench::Islands islands;
    for (int d = 0; d < devices; ++d) {
      islands.push_back(at.memories[static_cast<size_t>(d) % at.memories.size()]);
    }
    if (std::string(at.communicator) != "staged") {
      return ModelWriter::Get(
          CommunicatorBench::Open(at.communicator, TestSetup(devices), islands));
    }
    auto inproc = ModelWriter::Get(MakeCommunicator("inproc", TestSetup(devices)));
    return ModelWriter::Get(
        CommunicatorBench::Open(MakeStagedCommunicator(std::move(inproc)), devices, islands));
  }

  // Runs one collective on `group` and compares every rank's result and count of bytes.
  template <class T>
  void Expect(CommunicatorBench& bench, const std::vector<DeviceId>& group,
              const CollectiveCase& run, int devices) {
    const auto& [collective, algorithm, dtype] = run;
    std::vector<std::vector<T>> own;
    Memory memory(static_cast<size_t>(devices));
    for (int r = 0; r < collective.ranks; ++r) {
      own.push_back(Numbers<T>(static_cast<size_t>(SendElements(collective, r)), random_));
      auto& bytes = memory[group[static_cast<size_t>(r)].index()];
      bytes.resize(static_cast<size_t>(BytesOf(collective, r, dtype)) + 64);
      const auto* begin = reinterpret_cast<const char*>(own.back().data());
      std::copy(begin, begin + own.back().size() * sizeof(T), bytes.begin());
    }
    jobs_.push_back({});
    jobs_.back().push_back(CollectiveJob(TaskId(next_task_++), group, run, devices));
    const std::vector<Bytes> before = bench.communicator().BytesReceived();
    ASSERT_EQ(bench.Prepare(jobs_.back()), absl::OkStatus());
    ASSERT_EQ(bench.Run(jobs_.back(), memory), absl::OkStatus());
    const std::vector<Bytes> after = bench.communicator().BytesReceived();
    const auto& task = std::get<CollectiveTask>(jobs_.back()[0].task.body);
    for (int r = 0; r < collective.ranks; ++r) {
      const DeviceId device = group[static_cast<size_t>(r)];
      const Expected<T> want = ResultOf(collective, own, r);
      std::vector<T> got(want.values.size());
      const auto from = memory[device.index()].begin() + want.first * SizeOf(dtype);
      std::copy_n(from, got.size() * sizeof(T), reinterpret_cast<char*>(got.data()));
      EXPECT_EQ(got, want.values) << ToString(collective) << " by " << algorithm << ", rank " << r;
      EXPECT_EQ((after[device.index()] - before[device.index()]).value(),
                ElementsReceived(task, device) * SizeOf(dtype));
      for (size_t k = memory[device.index()].size() - 64; k < memory[device.index()].size(); ++k) {
        ASSERT_EQ(memory[device.index()][k], 0) << "written beyond the end";
      }
    }
    ++checked_;
  }

  void ExpectAllTypes(CommunicatorBench& bench, const std::vector<DeviceId>& group,
                      const Collective& collective, int devices) {
    for (const CollectiveAlgorithm& row : CollectiveAlgorithms()) {
      if (!row.kinds.contains(collective.kind) || !row.applicable(collective.ranks)) continue;
      const std::string name(row.name);
      Expect<float>(bench, group, {collective, name, DType::kFloat32}, devices);
      Expect<double>(bench, group, {collective, name, DType::kFloat64}, devices);
      Expect<int32_t>(bench, group, {collective, name, DType::kInt32}, devices);
      Expect<uint64_t>(bench, group, {collective, name, DType::kRing64}, devices);
    }
  }

  std::vector<DeviceId> Devices(int count) {
    std::vector<DeviceId> devices;
    for (int d = 0; d < count; ++d) devices.push_back(DeviceId(d));
    return devices;
  }

  std::mt19937_64 random_{12};
  std::vector<std::vector<Job>> jobs_;  // communicators keep the addresses of tasks
  int next_task_ = 0;
  int checked_ = 0;
};

TEST_P(CommunicatorTest, AllReduceOfEveryTypeOnOneToEightRanks) {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    const auto bench = OpenBench(ranks);
    for (int64_t total : {0, 1, 5, 4096, 5003}) {
      for (Reduction reduction : kReductions) {
        ExpectAllTypes(*bench, Devices(ranks), MakeAllReduce(ranks, total, reduction), ranks);
      }
    }
  }
  EXPECT_GE(checked_, 8 * 5 * 2 * 4 * 4);
}

// Blocks that are equal, uneven, some or all but one empty, all empty.
std::vector<std::vector<int64_t>> Blocks(int ranks, std::mt19937_64& random) {
  const auto n = static_cast<size_t>(ranks);
  std::vector<std::vector<int64_t>> all(6, std::vector<int64_t>(n, 0));
  for (size_t r = 0; r < n; ++r) {
    all[0][r] = 300;
    all[1][r] = 1 + static_cast<int64_t>(random() % 3000);
    all[2][r] = r % 2 == 0 ? 17 : 0;
    all[3][r] = 100 + static_cast<int64_t>(r == n - 1);
  }
  all[4][random() % n] = 777;
  return all;
}

TEST_P(CommunicatorTest, ReduceScatterAndAllGatherOfEvenUnevenAndEmptyBlocks) {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    const auto bench = OpenBench(ranks);
    for (const std::vector<int64_t>& blocks : Blocks(ranks, random_)) {
      ExpectAllTypes(*bench, Devices(ranks), MakeAllGather(blocks), ranks);
      for (Reduction reduction : kReductions) {
        ExpectAllTypes(*bench, Devices(ranks), MakeReduceScatter(blocks, reduction), ranks);
      }
    }
  }
}

TEST_P(CommunicatorTest, BroadcastAndReduceFromAndToEveryRank) {
  for (int ranks = 2; ranks <= 8; ++ranks) {
    const auto bench = OpenBench(ranks);
    for (int root = 0; root < ranks; ++root) {
      ExpectAllTypes(*bench, Devices(ranks), MakeBroadcast(ranks, root, 129), ranks);
      ExpectAllTypes(*bench, Devices(ranks), MakeReduce(ranks, root, 129), ranks);
    }
  }
}

TEST_P(CommunicatorTest, AllToAllOfUnevenAndEmptyCounts) {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    const auto bench = OpenBench(ranks);
    for (uint64_t most : {1, 2, 500}) {
      std::vector<std::vector<int64_t>> counts(static_cast<size_t>(ranks));
      for (auto& row : counts) {
        for (int d = 0; d < ranks; ++d) row.push_back(static_cast<int64_t>(random_() % most));
      }
      ExpectAllTypes(*bench, Devices(ranks), MakeAllToAll(counts), ranks);
    }
  }
}

// Ranks are places in the group, whatever the devices' numbers; and several groups overlap.
TEST_P(CommunicatorTest, GroupsOfSomeDevicesInAnyOrder) {
  constexpr int kDevices = 8;
  const auto bench = OpenBench(kDevices);
  for (int k = 0; k < 40; ++k) {
    std::vector<DeviceId> group = Devices(kDevices);
    std::shuffle(group.begin(), group.end(), random_);
    group.resize(1 + random_() % kDevices);
    const int ranks = static_cast<int>(group.size());
    std::vector<int64_t> blocks;
    for (int r = 0; r < ranks; ++r) blocks.push_back(static_cast<int64_t>(random_() % 100));
    ExpectAllTypes(*bench, group, MakeAllReduce(ranks, 1000), kDevices);
    ExpectAllTypes(*bench, group, MakeReduceScatter(blocks), kDevices);
    ExpectAllTypes(*bench, group, MakeAllGather(blocks), kDevices);
  }
}

// Tasks of several groups in one order, many times, without waiting in between.
TEST_P(CommunicatorTest, ManyTasksOfManyGroupsInOneOrder) {
  constexpr int kDevices = 4, kTasks = 60, kElements = 64;
  const auto bench = OpenBench(kDevices);
  std::vector<Job>& jobs = jobs_.emplace_back();
  std::vector<std::vector<uint64_t>> values(kDevices, std::vector<uint64_t>(kElements, 1));
  for (int k = 0; k < kTasks; ++k) {
    std::vector<DeviceId> group = Devices(kDevices);
    std::shuffle(group.begin(), group.end(), random_);
    group.resize(1 + random_() % kDevices);
    const Collective sum_of_all = MakeAllReduce(static_cast<int>(group.size()), kElements);
    jobs.push_back(CollectiveJob(TaskId(k), group, {sum_of_all, "ring", DType::kRing64}, kDevices));
    uint64_t sum = 0;
    for (DeviceId device : group) sum += values[device.index()][0];
    for (DeviceId device : group) values[device.index()].assign(kElements, sum);
  }
  Memory memory(kDevices, std::vector<char>(kElements * 8));
  for (auto& bytes : memory) {
    for (int i = 0; i < kElements; ++i) bytes[static_cast<size_t>(i) * 8] = 1;
  }
  ASSERT_EQ(bench->Prepare(jobs), absl::OkStatus());
  ASSERT_EQ(bench->Run(jobs, memory), absl::OkStatus());
  for (size_t d = 0; d < kDevices; ++d) {
    EXPECT_EQ(std::memcmp(memory[d].data(), values[d].data(), memory[d].size()), 0) << d;
  }
}

// Copies between random devices: to itself, several between the same two, and empty ones.
TEST_P(CommunicatorTest, TransfersOfManyBoxesStartTogether) {
  constexpr int kDevices = 5, kBytes = 40'000;
  const auto bench = OpenBench(kDevices);
  for (int k = 0; k < 60; ++k) {
    const DType dtype = kTypes[k % 4];
    const int64_t size = SizeOf(dtype);
    TransferTask task{.dtype = dtype};
    Job job{.places = std::vector<CommunicatorBench::Places>(kDevices)};
    Memory memory(kDevices, std::vector<char>(kBytes)), want;
    for (auto& bytes : memory) {
      for (char& byte : bytes) byte = static_cast<char>(random_());
    }
    want = memory;
    std::vector<int64_t> used(kDevices, 0), receives(kDevices, 0);
    for (uint64_t t = 0; t < 1 + random_() % 12; ++t) {
      const auto from = static_cast<size_t>(random_() % kDevices);
      const auto to = static_cast<size_t>(random_() % kDevices);
      const int64_t count = random_() % 5 == 0 ? 0 : static_cast<int64_t>(random_() % 100);
      const int64_t send = used[from];
      used[from] += count * size;
      const int64_t receive = used[to];
      used[to] += count * size;
      task.transfers.push_back({DeviceId(static_cast<int>(from)),
                                DeviceId(static_cast<int>(to)),
                                {BufferId(0), 0, count},
                                {BufferId(0), 0, count}});
      job.places[from].send.push_back(send);
      job.places[from].receive.push_back(from == to ? receive : -1);
      if (from != to) {
        job.places[to].send.push_back(-1);
        job.places[to].receive.push_back(receive);
        receives[to] += count * size;
      }
      std::copy_n(memory[from].begin() + send, count * size, want[to].begin() + receive);
      for (DeviceId id : {task.transfers.back().from, task.transfers.back().to}) {
        if (std::find(task.group.begin(), task.group.end(), id) == task.group.end()) {
          task.group.push_back(id);
        }
      }
    }
    std::sort(task.group.begin(), task.group.end());
    job.task = Task{TaskId(k), {}, task, {}};
    jobs_.push_back({});
    jobs_.back().push_back(std::move(job));
    const std::vector<Bytes> before = bench->communicator().BytesReceived();
    ASSERT_EQ(bench->Prepare(jobs_.back()), absl::OkStatus());
    ASSERT_EQ(bench->Run(jobs_.back(), memory), absl::OkStatus());
    EXPECT_EQ(memory, want) << "task " << k;
    for (size_t d = 0; d < kDevices; ++d) {
      EXPECT_EQ((bench->communicator().BytesReceived()[d] - before[d]).value(), receives[d]);
    }
  }
}

TEST_P(CommunicatorTest, AnAbortReleasesThoseWhoWait) {
  const auto bench = OpenBench(3);
  jobs_.push_back({});
  jobs_.back().push_back(
      CollectiveJob(TaskId(0), Devices(3), {MakeAllReduce(3, 10), "ring", DType::kFloat32}, 3));
  ASSERT_EQ(bench->Prepare(jobs_.back()), absl::OkStatus());
  Memory memory(3, std::vector<char>(40));
  std::thread abort([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    bench->communicator().Abort(absl::CancelledError("a test"));
  });
  const absl::Status status =
      bench->Run(jobs_.back(), memory, [](size_t, DeviceId id) { return id != DeviceId(2); });
  abort.join();
  // Of streams none has anything to wait for before all members have enqueued.
  const bool waits = std::string(GetParam().communicator) != "streams";
  EXPECT_EQ(status.code(), waits ? absl::StatusCode::kCancelled : absl::StatusCode::kOk) << status;
}

const Case kCases[] = {
    {"inproc", "inproc"},
    {"streams", "streams"},
    {"streams_on_one_gpu", "streams", {1}},
    {"streams_between_cores_and_a_gpu", "streams", {0, 1}},
    {"streams_between_cores_and_gpus", "streams", {1, 0, 2, 3, 2}},
    {"inproc_staged_for_gpus", "staged", {1, 0, 2}},
#ifdef PARTITA_NCCL_ON_HOST
    {"nccl", "nccl"},
#endif
};
INSTANTIATE_TEST_SUITE_P(Communicators, CommunicatorTest, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace partita
