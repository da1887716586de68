// All-reduce between processes, side by side in one run: the MPI library's, and every algorithm of
// ours through the communicator that plans are executed with, on buffers in devices' memory, as the
// executor has them. Ways: in place in memory that ranks of a host share, over MPI's messages, over
// TCP connections of ours. The sums are compared first.
//
//   mpirun -n 2 allreduce_bench [BYTES ...] [--algorithms NAME ...] [--ways shared mpi tcp]
//                               [--tcp ADDRESS:PORT] [--seconds S]
//
// For each size and each way: the minimum and the median of the time in which the slowest rank has
// its sums; algorithm and bus bandwidth from the median (as nccl-tests have them); how many times
// as fast as the library's. Ranks may be on any hosts: what goes between hosts goes by messages,
// and "hierarchical" takes ranks of one host for a node.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "graph/collective/algorithms.h"
#include "graph/support/clock.h"
#include "graph/support/status_macros.h"
#include "runtime/backend/reference/reference_backend.h"
#include "runtime/comm/message_communicator.h"
#include "runtime/comm/mpi/mpi_allreduce.h"
#include "runtime/comm/mpi/mpi_port.h"
#include "runtime/comm/shared_key.h"
#include "runtime/comm/shared_port.h"
#include "runtime/comm/tcp/connection.h"
#include "runtime/comm/tcp/tcp_port.h"
#include "runtime/support/process_identity.h"

namespace partita {
namespace {

struct BenchFlags {
  std::vector<int64_t> sizes = {8 << 10, 512 << 10, 8 << 20, 64 << 20};
  std::vector<std::string> algorithms;
  std::vector<std::string> ways = {"shared", "mpi"};
  std::string tcp;
  double seconds = 20;
};

// A device of this rank with a communicator over one port, as an executor would have them.
class Lane {
 public:
  Lane(std::string way, MessagePort& port) : way_(std::move(way)), port_(port) {}

  const std::string& way() const { return way_; }

  absl::Status Open(std::vector<Task> tasks, int64_t bytes) {
    tasks_ = std::move(tasks);
    communicator_ = MakeMessageCommunicator(port_);
    ASSIGN_OR_RETURN(device_, MakeReferenceBackend()->Open({.index = port_.rank()}));
    device_->OnError([this](const absl::Status& status) { port_.Abort(status); });
    std::vector<const Task*> pointers;
    for (const Task& task : tasks_) pointers.push_back(&task);
    std::vector<BackendDevice*> devices(static_cast<size_t>(port_.size()));
    std::vector<Stream*> streams(devices.size());
    const auto own = static_cast<size_t>(port_.rank());
    devices[own] = device_.get();
    RETURN_IF_ERROR(communicator_->Prepare(pointers, devices));
    ASSIGN_OR_RETURN(memory_, device_->Allocate(bytes));
    ASSIGN_OR_RETURN(stream_, device_->NewStream("bench", StreamUse::kCommunication));
    streams[own] = stream_.get();
    return communicator_->Connect(streams);
  }

  float* values() const { return static_cast<float*>(memory_->data()); }

  // Nanoseconds.
  absl::StatusOr<int64_t> Run(size_t task) {
    const CommunicationArguments arguments{
        &tasks_[task], DeviceId(port_.rank()), {memory_->data()}, {memory_->data()}};
    WorkTiming timing;
    communicator_->Enqueue(arguments, 0, *stream_, &timing);
    RETURN_IF_ERROR(stream_->Synchronize());
    return timing.end_ns - timing.start_ns;
  }

 private:
  const std::string way_;
  MessagePort& port_;
  std::vector<Task> tasks_;
  std::unique_ptr<Communicator> communicator_;
  std::unique_ptr<BackendDevice> device_;
  std::unique_ptr<DeviceMemory> memory_;
  std::unique_ptr<Stream> stream_;
};

// One way to sum `values` of all ranks.
struct Way {
  std::string algorithm, way;
  float* values = nullptr;
  std::function<absl::StatusOr<int64_t>()> run;  // gives ns
  std::vector<int64_t> times = {};
};

class Bench {
 public:
  Bench(BenchFlags flags, MessagePort& mpi) : flags_(std::move(flags)), mpi_(mpi) {}

  absl::Status Open(std::span<const std::pair<std::string, MessagePort*>> ports) {
    ASSIGN_OR_RETURN(const std::vector<std::string> algorithms, Algorithms());
    std::vector<Task> tasks;
    for (const int64_t bytes : flags_.sizes) {
      for (const std::string& algorithm : algorithms) tasks.push_back(TaskOf(algorithm, bytes));
    }
    const int64_t most = *std::max_element(flags_.sizes.begin(), flags_.sizes.end());
    for (const auto& [way, port] : ports) {
      lanes_.push_back(std::make_unique<Lane>(way, *port));
      RETURN_IF_ERROR(lanes_.back()->Open(tasks, most));
    }
    // The library gets memory as devices have it that do not share.
    ASSIGN_OR_RETURN(device_, MakeReferenceBackend()->Open({.index = mpi_.rank()}));
    ASSIGN_OR_RETURN(memory_, device_->Allocate(most));
    algorithms_ = algorithms;
    return absl::OkStatus();
  }

  absl::Status Run() {
    if (mpi_.rank() == 0) {
      absl::PrintF("all-reduce of float32, %d ranks\n%10s  %-36s %-7s %10s %10s %9s %9s %8s\n",
                   mpi_.size(), "bytes", "algorithm", "way", "min ms", "median ms", "algbw GB/s",
                   "busbw GB/s", "library");
    }
    for (size_t s = 0; s < flags_.sizes.size(); ++s) RETURN_IF_ERROR(RunSize(s));
    return absl::OkStatus();
  }

 private:
  // By name; "hierarchical" with the hosts of the ranks.
  absl::StatusOr<std::vector<std::string>> Algorithms() {
    std::vector<std::string> names = flags_.algorithms;
    for (const CollectiveAlgorithm& row : CollectiveAlgorithms()) {
      if (!flags_.algorithms.empty()) break;
      if (row.kinds.contains(CollectiveKind::kAllReduce)) names.emplace_back(row.name);
    }
    ASSIGN_OR_RETURN(const auto hosts, GatherTexts(mpi_, HostIdentity()));
    std::vector<int> nodes;
    std::map<std::string, int> numbers;
    for (const std::string& host : hosts) {
      nodes.push_back(numbers.try_emplace(host, static_cast<int>(numbers.size())).first->second);
    }
    for (std::string& name : names) {
      name = ForNodes(name, nodes);
      RETURN_IF_ERROR(BuildSchedule(name, MakeAllReduce(mpi_.size(), 1)).status());
    }
    return names;
  }

  Task TaskOf(const std::string& algorithm, int64_t bytes) {
    CollectiveTask body;
    for (int rank = 0; rank < mpi_.size(); ++rank) body.group.push_back(DeviceId(rank));
    body.collective = MakeAllReduce(mpi_.size(), bytes / static_cast<int64_t>(sizeof(float)));
    body.algorithm = algorithm;
    return Task{TaskId(next_task_++), {}, std::move(body), {}};
  }

  std::vector<Way> WaysOf(size_t size) {
    std::vector<Way> ways;
    auto* values = static_cast<float*>(memory_->data());
    const int64_t count = flags_.sizes[size] / static_cast<int64_t>(sizeof(float));
    ways.push_back(
        {"the MPI library's", "library", values, [values, count]() -> absl::StatusOr<int64_t> {
           const int64_t begin = SteadyNow();
           RETURN_IF_ERROR(LibraryAllReduce(values, count));
           return SteadyNow() - begin;
         }});
    for (const auto& lane : lanes_) {
      for (size_t a = 0; a < algorithms_.size(); ++a) {
        const size_t task = size * algorithms_.size() + a;
        ways.push_back({algorithms_[a], lane->way(), lane->values(),
                        [own = lane.get(), task] { return own->Run(task); }});
      }
    }
    return ways;
  }

  absl::Status RunSize(size_t size) {
    const int64_t bytes = flags_.sizes[size];
    std::vector<Way> ways = WaysOf(size);
    for (Way& way : ways) RETURN_IF_ERROR(CheckSums(way, bytes));
    const int64_t begin = SteadyNow();
    const int most = bytes > 8 << 20 ? 25 : 50;
    for (int round = 0; round < most; ++round) {
      // Rank 0 says when it is enough.
      char enough = round >= 3 && static_cast<double>(SteadyNow() - begin) > 1e9 * flags_.seconds;
      RETURN_IF_ERROR(Broadcast(mpi_, 0, &enough, 1));
      if (enough != 0) break;
      for (Way& way : ways) RETURN_IF_ERROR(TimeOnce(way));
    }
    if (mpi_.rank() == 0) Print(bytes, ways);
    return absl::OkStatus();
  }

  absl::Status TimeOnce(Way& way) {
    RETURN_IF_ERROR(Meet());
    ASSIGN_OR_RETURN(const int64_t own, way.run());
    ASSIGN_OR_RETURN(const int64_t time, Slowest(own));
    way.times.push_back(time);
    return absl::OkStatus();
  }

  // Until all ranks are here.
  absl::Status Meet() {
    char byte = 0;
    for (int rank = 0; rank < mpi_.size(); ++rank) RETURN_IF_ERROR(Broadcast(mpi_, rank, &byte, 1));
    return absl::OkStatus();
  }

  // The largest of all ranks' numbers.
  absl::StatusOr<int64_t> Slowest(int64_t own) {
    int64_t slowest = 0;
    for (int rank = 0; rank < mpi_.size(); ++rank) {
      int64_t theirs = own;
      RETURN_IF_ERROR(Broadcast(mpi_, rank, &theirs, sizeof theirs));
      slowest = std::max(slowest, theirs);
    }
    return slowest;
  }

  absl::Status CheckSums(Way& way, int64_t bytes) {
    const int64_t count = bytes / static_cast<int64_t>(sizeof(float));
    for (int64_t i = 0; i < count; ++i) {
      way.values[i] = static_cast<float>((mpi_.rank() + 1) * (i % 100));
    }
    RETURN_IF_ERROR(Meet());
    RETURN_IF_ERROR(way.run().status());
    const int sum = mpi_.size() * (mpi_.size() + 1) / 2;
    for (int64_t i = 0; i < count; ++i) {
      if (way.values[i] == static_cast<float>(sum * (i % 100))) continue;
      return absl::InternalError(
          absl::StrFormat("%s, %s: element %d is wrong", way.algorithm, way.way, i));
    }
    std::fill_n(way.values, count, 0.0f);  // so that no sums grow without bound
    return absl::OkStatus();
  }

  void Print(int64_t bytes, std::vector<Way>& ways) const {
    double library = 0;
    for (Way& way : ways) {
      std::sort(way.times.begin(), way.times.end());
      const auto median = static_cast<double>(way.times[way.times.size() / 2]);
      if (library == 0) library = median;
      const double algbw = static_cast<double>(bytes) / median;
      absl::PrintF("%10d  %-36s %-7s %10.3f %10.3f %9.3f %9.3f   x%.2f\n", bytes, way.algorithm,
                   way.way, static_cast<double>(way.times[0]) / 1e6, median / 1e6, algbw,
                   algbw * BusBandwidthFactor(CollectiveKind::kAllReduce, mpi_.size()),
                   library / median);
    }
    std::fflush(stdout);
  }

  const BenchFlags flags_;
  MessagePort& mpi_;
  std::vector<std::string> algorithms_;
  int next_task_ = 0;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::unique_ptr<BackendDevice> device_;
  std::unique_ptr<DeviceMemory> memory_;
};

// Connections between the ranks; without an address, all are on this host.
absl::StatusOr<std::unique_ptr<MessagePort>> OverTcp(const std::string& address, const RunKey& key,
                                                     MessagePort& mpi) {
  TcpMeeting meeting{.rank = mpi.rank(), .size = mpi.size()};
  const std::vector<std::string> parts = absl::StrSplit(address, ':');
  if (!address.empty()) meeting.address = parts[0];
  meeting.key = key;
  if (parts.size() > 1 && !absl::SimpleAtoi(parts[1], &meeting.port)) {
    return absl::InvalidArgumentError("wanted ADDRESS:PORT, found " + address);
  }
  if (parts.size() == 1 && mpi.rank() == 0) {
    ASSIGN_OR_RETURN(const auto listener, Listener::Open(Listener::Reach::kThisHost));
    meeting.port = listener->port();  // free now
  }
  RETURN_IF_ERROR(Broadcast(mpi, 0, &meeting.port, sizeof meeting.port));
  ASSIGN_OR_RETURN(KeyedPort met, OpenTcpPort(meeting));
  return std::move(met.port);
}

absl::Status Run(const BenchFlags& flags) {
  ASSIGN_OR_RETURN(auto mpi, OpenMpiPort());
  MessagePort* outer = mpi.get();
  ASSIGN_OR_RETURN(const RunKey key, KeyFromRank0(*outer, std::nullopt));
  std::unique_ptr<MessagePort> tcp;
  if (std::count(flags.ways.begin(), flags.ways.end(), "tcp") > 0) {
    ASSIGN_OR_RETURN(tcp, OverTcp(flags.tcp, key, *outer));
  }
  std::unique_ptr<MessagePort> shared = std::move(mpi);
  RETURN_IF_ERROR(ShareMemory(shared, key));
  ASSIGN_OR_RETURN(const auto sharing,
                   GatherTexts(*outer, absl::StrCat(shared->SharingRanks().size())));
  const bool nobody = std::count(sharing.begin(), sharing.end(), "1") == outer->size();
  std::vector<std::pair<std::string, MessagePort*>> ports;
  for (const std::string& way : flags.ways) {
    if (way == "shared" && nobody) continue;  // it would be MPI's messages again
    ports.push_back({way, way == "shared" ? shared.get() : way == "mpi" ? outer : tcp.get()});
  }
  Bench bench(flags, *outer);
  absl::Status status = bench.Open(ports);
  if (status.ok()) status = bench.Run();
  if (!status.ok()) outer->Abort(status);  // ends the other ranks too
  return status;
}

}  // namespace
}  // namespace partita

int main(int argc, char** argv) {
  partita::BenchFlags flags;
  CLI::App app("All-reduce between processes beside the MPI library's");
  app.add_option("sizes", flags.sizes, "bytes")->check(CLI::PositiveNumber);
  app.add_option("--algorithms", flags.algorithms,
                 "rows of the table, with settings, as 'multicolor_tree(colors=4,segments=8)'");
  app.add_option("--ways", flags.ways, "shared, mpi, tcp")
      ->check(CLI::IsMember({"shared", "mpi", "tcp"}));
  app.add_option("--tcp", flags.tcp, "ADDRESS:PORT where rank 0 listens");
  app.add_option("--seconds", flags.seconds, "for each size, at most; three rounds at least");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  const absl::Status status = partita::Run(flags);
  if (!status.ok()) std::cerr << status << "\n";
  return status.ok() ? 0 : 1;
}
