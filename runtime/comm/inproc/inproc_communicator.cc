#include "runtime/comm/inproc/inproc_communicator.h"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "absl/container/flat_hash_map.h"
#include "graph/support/check.h"
#include "graph/support/error_category.h"
#include "graph/support/status_macros.h"
#include "runtime/comm/fold.h"
#include "runtime/comm/inproc/group_barrier.h"
#include "runtime/comm/slices.h"

namespace partita {
namespace {

std::vector<DeviceId> RanksOf(const Task& task) {
  const auto* collective = std::get_if<CollectiveTask>(&task.body);
  return collective != nullptr ? collective->group : DevicesOf(task);
}

// What the members of one task share.
struct Shared {
  explicit Shared(const Task& task)
      : devices(RanksOf(task)), barrier(static_cast<int>(devices.size())) {
    send.resize(devices.size());
    receive.resize(devices.size());
  }
  size_t RankOf(DeviceId device) const {
    return static_cast<size_t>(std::find(devices.begin(), devices.end(), device) - devices.begin());
  }

  std::vector<DeviceId> devices;  // by rank
  GroupBarrier barrier;
  // By rank; published before the first barrier of every run.
  std::vector<std::vector<void*>> send, receive;
  std::vector<std::vector<RankRound>> rounds;  // collectives: by rank
  std::vector<int64_t> starts;                 // collectives: SliceStarts
};

absl::Status Broken() { return AbandonedError("another device failed"); }

class InprocCommunicator : public Communicator {
 public:
  explicit InprocCommunicator(int devices) : received_(static_cast<size_t>(devices)) {}

  absl::Status Prepare(std::span<const Task* const> tasks,
                       std::span<BackendDevice* const>) override {
    for (const Task* task : tasks) {
      auto shared = std::make_unique<Shared>(*task);
      if (const auto* collective = std::get_if<CollectiveTask>(&task->body)) {
        ASSIGN_OR_RETURN(const CollectiveSchedule schedule, ScheduleOf(*collective));
        shared->starts = SliceStarts(*collective);
        for (size_t r = 0; r < collective->group.size(); ++r) {
          shared->rounds.push_back(RoundsOfRank(schedule, static_cast<int>(r)));
        }
      }
      shared_[task->id] = std::move(shared);
    }
    return absl::OkStatus();
  }

  void Enqueue(const CommunicationArguments& arguments, int64_t, Stream& stream,
               WorkTiming* timing) override {
    const auto it = shared_.find(arguments.task->id);
    CHECK(it != shared_.end()) << "a task that was not prepared";
    Shared* shared = it->second.get();
    const CommunicationArguments* args = &arguments;
    stream.HostCall([this, shared, args] { return Run(*args, *shared); }, timing);
  }

  void Abort(const absl::Status&) override {
    for (auto& [id, shared] : shared_) shared->barrier.Break();
  }

  std::vector<Bytes> BytesReceived() const override {
    std::vector<Bytes> bytes;
    for (const auto& count : received_) bytes.push_back(Bytes(count.load()));
    return bytes;
  }

 private:
  absl::Status Run(const CommunicationArguments& args, Shared& shared) {
    const size_t rank = shared.RankOf(args.device);
    shared.send[rank] = args.send;
    shared.receive[rank] = args.receive;
    if (!shared.barrier.Arrive()) return Broken();
    if (const auto* collective = std::get_if<CollectiveTask>(&args.task->body)) {
      return RunCollective(*collective, shared, rank);
    }
    return RunTransfers(std::get<TransferTask>(args.task->body), args, shared);
  }

  absl::Status RunCollective(const CollectiveTask& task, Shared& shared, size_t rank) {
    const int64_t size = SizeOf(task.dtype);
    const auto own = [&](int64_t offset) {
      return ElementAt(shared.receive[rank], shared.starts, offset, size);
    };
    std::vector<char> arrived;
    for (const RankRound& round : shared.rounds[rank]) {
      const auto& steps = round.receives;
      arrived.clear();
      ForEachRange(steps, [&](std::span<const CollectiveStep> range, size_t) {
        const CollectiveStep& step = range[0];
        char* into = own(step.destination_offset);
        const auto values = ValuesInOrder(range, into, [&](size_t k) -> const void* {
          return ElementAt(shared.send[static_cast<size_t>(range[k].from)], shared.starts,
                           range[k].source_offset, size);
        });
        if (round.sends_snapshot) {
          arrived.resize(arrived.size() + static_cast<size_t>(step.count * size));
          into = arrived.data() + arrived.size() - step.count * size;
        }
        Fold({task.dtype, task.collective.reduction}, values, into, step.count);
      });
      if (!shared.barrier.Arrive()) return Broken();
      if (round.sends_snapshot) {
        Commit(steps, arrived, own, size);
        if (!shared.barrier.Arrive()) return Broken();
      }
      Count(task.group[rank], steps, size);
    }
    return absl::OkStatus();
  }

  // `own`: address of the rank's element at an offset.
  template <class Own>
  static void Commit(const std::vector<CollectiveStep>& steps, const std::vector<char>& arrived,
                     const Own& own, int64_t size) {
    const char* from = arrived.data();
    ForEachRange(steps, [&](std::span<const CollectiveStep> range, size_t) {
      const int64_t bytes = range[0].count * size;
      std::memcpy(own(range[0].destination_offset), from, static_cast<size_t>(bytes));
      from += bytes;
    });
  }

  void Count(DeviceId device, const std::vector<CollectiveStep>& steps, int64_t size) {
    int64_t bytes = 0;
    for (const CollectiveStep& step : steps) bytes += step.from == step.to ? 0 : step.count * size;
    received_[device.index()].fetch_add(bytes, std::memory_order_relaxed);
  }

  absl::Status RunTransfers(const TransferTask& task, const CommunicationArguments& args,
                            Shared& shared) {
    size_t k = 0;  // of this device's transfers
    for (size_t t = 0; t < task.transfers.size(); ++t) {
      const Transfer& transfer = task.transfers[t];
      const bool receives = transfer.to == args.device;
      if (!receives && transfer.from != args.device) continue;
      if (receives) {
        const int64_t bytes = transfer.receive.count * SizeOf(task.dtype);
        std::memcpy(args.receive[k], SenderAddress(task, t, shared), static_cast<size_t>(bytes));
        if (transfer.from != transfer.to) {
          received_[args.device.index()].fetch_add(bytes, std::memory_order_relaxed);
        }
      }
      ++k;
    }
    return shared.barrier.Arrive() ? absl::OkStatus() : Broken();
  }

  // Where transfer t starts in its sender's memory: the sender lists its own transfers in task
  // order.
  static const void* SenderAddress(const TransferTask& task, size_t t, const Shared& shared) {
    const DeviceId from = task.transfers[t].from;
    size_t k = 0;
    for (size_t i = 0; i < t; ++i) {
      k += task.transfers[i].from == from || task.transfers[i].to == from ? 1 : 0;
    }
    return shared.send[shared.RankOf(from)][k];
  }

  absl::flat_hash_map<TaskId, std::unique_ptr<Shared>> shared_;
  std::vector<std::atomic<int64_t>> received_;
};

}  // namespace

std::unique_ptr<Communicator> MakeInprocCommunicator(int devices) {
  return std::make_unique<InprocCommunicator>(devices);
}

}  // namespace partita
