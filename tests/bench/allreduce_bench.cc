// All-reduce between processes, side by side in one run: the MPI library's, and every algorithm of
// ours over memory that the ranks share and over MPI's messages. The sums are compared first.
//
//   mpirun -n 2 allreduce_bench [BYTES ...]
//
// For each size and each way: the minimum and the median of the time in which the slowest rank has
// its sums, bus bandwidth (as nccl-tests have it, from the median), and how many times as fast as
// the library's.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "graph/collective/algorithms.h"
#include "graph/support/clock.h"
#include "graph/support/status_macros.h"
#include "runtime/comm/collective_run.h"
#include "runtime/comm/mpi/mpi_allreduce.h"
#include "runtime/comm/mpi/mpi_port.h"
#include "runtime/comm/shared_port.h"

namespace partita {
namespace {

// One way to sum `values` of all ranks.
struct Way {
  std::string name;
  std::function<absl::Status(std::vector<float>& values)> run;
  std::vector<int64_t> times = {};  // ns
};

absl::Status AddWays(MessagePort& port, const std::string& path, int64_t count,
                     std::vector<Way>& ways) {
  for (const CollectiveAlgorithm& row : CollectiveAlgorithms()) {
    if (!row.kinds.contains(CollectiveKind::kAllReduce)) continue;
    CollectiveTask task{.collective = {CollectiveKind::kAllReduce, port.size(), count}};
    for (int rank = 0; rank < port.size(); ++rank) task.group.push_back(DeviceId(rank));
    ASSIGN_OR_RETURN(const CollectiveSchedule schedule, BuildSchedule(row.name, task.collective));
    ways.push_back({std::string(row.name) + ", " + path,
                    [&port, task, rounds = RoundsOfRank(schedule, port.rank()),
                     scratch = std::vector<char>()](std::vector<float>& values) mutable {
                      auto* data = reinterpret_cast<char*>(values.data());
                      CollectiveRun run(port, task, 1, {data, data, &scratch});
                      for (const RankRound& round : rounds) RETURN_IF_ERROR(run.Run(round));
                      return absl::OkStatus();
                    }});
  }
  return absl::OkStatus();
}

// Until all ranks are here.
absl::Status Meet(MessagePort& port) {
  char byte = 0;
  for (int rank = 0; rank < port.size(); ++rank) RETURN_IF_ERROR(Broadcast(port, rank, &byte, 1));
  return absl::OkStatus();
}

// The largest of all ranks' numbers.
absl::StatusOr<int64_t> Slowest(MessagePort& port, int64_t own) {
  int64_t slowest = 0;
  for (int rank = 0; rank < port.size(); ++rank) {
    int64_t theirs = own;
    RETURN_IF_ERROR(Broadcast(port, rank, &theirs, sizeof theirs));
    slowest = std::max(slowest, theirs);
  }
  return slowest;
}

absl::Status CheckSums(MessagePort& port, int64_t count, const Way& way) {
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(port.rank() + 1) * static_cast<float>(i % 100);
  }
  RETURN_IF_ERROR(way.run(values));
  const float ranks = static_cast<float>(port.size());
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] == ranks * (ranks + 1) / 2 * static_cast<float>(i % 100)) continue;
    return absl::InternalError(absl::StrFormat("%s: element %d is wrong", way.name, i));
  }
  return absl::OkStatus();
}

absl::Status RunSize(MessagePort& shared, MessagePort& mpi, int64_t bytes) {
  const int64_t count = bytes / static_cast<int64_t>(sizeof(float));
  std::vector<Way> ways;
  ways.push_back({"the MPI library's", [count](std::vector<float>& values) {
                    return LibraryAllReduce(values.data(), count);
                  }});
  RETURN_IF_ERROR(AddWays(shared, "shared memory", count, ways));
  RETURN_IF_ERROR(AddWays(mpi, "MPI's messages", count, ways));
  for (const Way& way : ways) RETURN_IF_ERROR(CheckSums(mpi, count, way));
  std::vector<float> values(static_cast<size_t>(count));
  const int rounds = bytes > 8 << 20 ? 15 : 50;
  for (int round = 0; round < rounds; ++round) {
    for (Way& way : ways) {
      RETURN_IF_ERROR(Meet(mpi));
      const int64_t begin = SteadyNow();
      RETURN_IF_ERROR(way.run(values));
      ASSIGN_OR_RETURN(const int64_t time, Slowest(mpi, SteadyNow() - begin));
      way.times.push_back(time);
    }
  }
  if (mpi.rank() != 0) return absl::OkStatus();
  double library = 0;
  for (Way& way : ways) {
    std::sort(way.times.begin(), way.times.end());
    const auto median = static_cast<double>(way.times[way.times.size() / 2]);
    if (library == 0) library = median;
    const double ranks = mpi.size();
    absl::PrintF("%10d  %-34s %9.3f %9.3f ms  busbw %7.2f GB/s  x%.2f\n", bytes, way.name,
                 static_cast<double>(way.times[0]) / 1e6, median / 1e6,
                 static_cast<double>(bytes) / median * 2 * (ranks - 1) / ranks, library / median);
  }
  return absl::OkStatus();
}

absl::Status Run(const std::vector<int64_t>& sizes) {
  ASSIGN_OR_RETURN(auto mpi, OpenMpiPort());
  MessagePort* outer = mpi.get();
  ASSIGN_OR_RETURN(const auto shared, ShareMemory(std::move(mpi)));
  for (const int64_t bytes : sizes) RETURN_IF_ERROR(RunSize(*shared, *outer, bytes));
  return absl::OkStatus();
}

}  // namespace
}  // namespace partita

int main(int argc, char** argv) {
  std::vector<int64_t> sizes;
  for (int k = 1; k < argc; ++k) sizes.push_back(std::atoll(argv[k]));
  if (sizes.empty()) sizes = {8 << 10, 512 << 10, 8 << 20, 64 << 20};
  const absl::Status status = partita::Run(sizes);
  if (!status.ok()) std::cerr << status << "\n";
  return status.ok() ? 0 : 1;
}
