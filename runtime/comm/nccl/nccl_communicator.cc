#include "runtime/comm/nccl/nccl_communicator.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/collective/algorithms.h"
#include "graph/support/check.h"
#include "graph/support/error_category.h"
#include "graph/support/status_macros.h"
#include "runtime/comm/nccl/nccl_calls.h"
#include "runtime/comm/nccl/nccl_library.h"
#include "runtime/comm/nccl/nccl_rank.h"

namespace partita {
namespace {

using Clock = NcclRank::Clock;

// Long enough for calls that do not block to return.
constexpr auto kGraceOfAbort = std::chrono::milliseconds(200);
constexpr auto kGraceOfEnd = std::chrono::seconds(5);

// The ranks of one list of devices.
struct Group {
  std::vector<DeviceId> devices;                 // in rank order
  std::vector<std::unique_ptr<NcclRank>> ranks;  // null: of another process
  bool connected = false;

  std::string ToString() const {
    return absl::StrCat("devices ", absl::StrJoin(devices, ",", [](std::string* out, DeviceId id) {
                          absl::StrAppend(out, id.value());
                        }));
  }
};

// One device's part in a task.
struct Side {
  NcclRank* rank = nullptr;
  std::vector<NcclCall> calls;
  int64_t bytes = 0;  // that it receives
};

struct Prepared {
  std::string what;
  absl::flat_hash_map<DeviceId, Side> sides;  // of this process's devices
};

// Clock::now() + seconds, however many.
Clock::time_point In(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(
                            std::chrono::duration<double>(std::min(seconds, 1e6)));
}

class NcclCommunicator : public Communicator {
 public:
  NcclCommunicator(std::shared_ptr<const NcclLibrary> nccl, const NcclSetup& setup)
      : nccl_(std::move(nccl)), setup_(setup), received_(static_cast<size_t>(setup.devices)) {}

  ~NcclCommunicator() override {
    const auto ranks = RanksHere();
    for (NcclRank* rank : ranks) rank->StartToFinalize();
    const Clock::time_point until = Clock::now() + kGraceOfEnd;
    for (NcclRank* rank : ranks) rank->Destroy(until);
  }

  absl::Status Prepare(std::span<const Task* const> tasks,
                       std::span<BackendDevice* const>) override {
    for (const Task* task : tasks) {
      int64_t size = 0;
      if (const auto* collective = std::get_if<CollectiveTask>(&task->body)) {
        RETURN_IF_ERROR(BuildSchedule(collective->algorithm, collective->collective).status());
        size = SizeOf(collective->dtype);
      } else {
        size = SizeOf(std::get<TransferTask>(task->body).dtype);
      }
      Group& group = GroupOf(*task);
      auto prepared = std::make_unique<Prepared>();
      prepared->what = DescribeForNccl(*task);
      for (size_t r = 0; r < group.devices.size(); ++r) {
        const DeviceId device = group.devices[r];
        if (group.ranks[r] == nullptr) continue;
        prepared->sides[device] = {group.ranks[r].get(), NcclCallsOf(*task, device),
                                   ElementsArriving(*task, device) * size};
      }
      prepared_[task->id] = std::move(prepared);
    }
    return absl::OkStatus();
  }

  absl::Status Connect(std::span<Stream* const> streams) override {
    for (const auto& group : groups_) {
      if (group->connected) continue;
      const absl::Status status = ConnectGroup(*group, streams);
      if (!status.ok()) {
        Abort(status);
        return status;
      }
      group->connected = true;
    }
    return absl::OkStatus();
  }

  bool EnqueueMeetsPeers() const override { return true; }

  void Enqueue(const CommunicationArguments& arguments, int64_t, Stream& stream,
               WorkTiming* timing) override {
    const auto it = prepared_.find(arguments.task->id);
    CHECK(it != prepared_.end()) << "a task that was not prepared";
    const auto side = it->second->sides.find(arguments.device);
    CHECK(side != it->second->sides.end()) << "a device of another process";
    stream.EnqueueNative([this, part = Part{it->second.get(), &side->second, &arguments}](
                             void* native) { return Run(part, native); },
                         timing);
  }

  absl::Status AsynchronousError() override {
    for (const auto& group : groups_) {
      if (!group->connected) continue;
      for (const auto& rank : group->ranks) {
        if (rank == nullptr) continue;
        const absl::Status status = rank->AsynchronousError();
        if (!status.ok()) {
          return WithMessage(status, absl::StrCat(group->ToString(), ": ", status.message()));
        }
      }
    }
    return absl::OkStatus();
  }

  void Abort(const absl::Status&) override {
    const auto ranks = RanksHere();
    for (NcclRank* rank : ranks) rank->RefuseCalls();
    const Clock::time_point until = Clock::now() + kGraceOfAbort;
    for (NcclRank* rank : ranks) rank->Abort(until);
  }

  std::vector<Bytes> BytesReceived() const override {
    std::vector<Bytes> bytes;
    for (const auto& count : received_) bytes.push_back(Bytes(count.load()));
    return bytes;
  }

 private:
  static int64_t ElementsArriving(const Task& task, DeviceId device) {
    const auto* collective = std::get_if<CollectiveTask>(&task.body);
    return collective != nullptr ? ElementsReceived(*collective, device)
                                 : ElementsReceived(std::get<TransferTask>(task.body), device);
  }

  bool IsHere(DeviceId device) const {
    return setup_.port == nullptr || setup_.port->rank() == device.value();
  }

  Group& GroupOf(const Task& task) {
    const std::vector<DeviceId>& devices = NcclGroupOf(task);
    for (const auto& group : groups_) {
      if (group->devices == devices) return *group;
    }
    auto group = std::make_unique<Group>();
    group->devices = devices;
    for (DeviceId device : devices) {
      group->ranks.push_back(IsHere(device) ? std::make_unique<NcclRank>(nccl_) : nullptr);
    }
    groups_.push_back(std::move(group));
    return *groups_.back();
  }

  std::vector<NcclRank*> RanksHere() const {
    std::vector<NcclRank*> ranks;
    for (const auto& group : groups_) {
      for (const auto& rank : group->ranks) {
        if (rank != nullptr) ranks.push_back(rank.get());
      }
    }
    return ranks;
  }

  // The id of a new communicator, from the process of its first device.
  absl::StatusOr<ncclUniqueId> IdOf(const Group& group) {
    struct {
      ncclUniqueId id;
      ncclResult_t result = ncclSuccess;
    } answer;
    std::memset(&answer.id, 0, sizeof(answer.id));
    if (IsHere(group.devices[0])) answer.result = nccl_->get_unique_id(&answer.id);
    if (setup_.port != nullptr) {
      RETURN_IF_ERROR(Broadcast(*setup_.port, group.devices[0].value(), &answer, sizeof(answer)));
    }
    RETURN_IF_ERROR(NcclStatus(*nccl_, answer.result, nullptr, "an id for a communicator"));
    return answer.id;
  }

  absl::Status ConnectGroup(Group& group, std::span<Stream* const> streams) {
    ASSIGN_OR_RETURN(const ncclUniqueId id, IdOf(group));
    const int ranks = static_cast<int>(group.devices.size());
    // Device by device, since a rank belongs to the GPU that is current where it starts.
    for (int r = 0; r < ranks; ++r) {
      NcclRank* rank = group.ranks[static_cast<size_t>(r)].get();
      if (rank == nullptr) continue;
      Stream* stream = streams[group.devices[static_cast<size_t>(r)].index()];
      CHECK(stream != nullptr) << "no stream for a device of this process";
      stream->EnqueueNative([=](void*) { return rank->StartToConnect(ranks, id, r); }, nullptr);
      RETURN_IF_ERROR(stream->Synchronize());
    }
    return AwaitConnection(group);
  }

  absl::Status AwaitConnection(const Group& group) {
    const Clock::time_point until = In(setup_.connect_seconds);
    for (;;) {
      bool all = true;
      for (const auto& rank : group.ranks) {
        if (rank == nullptr) continue;
        ASSIGN_OR_RETURN(const bool connected, rank->IsConnected());
        all &= connected;
      }
      if (all) return absl::OkStatus();
      if (Clock::now() > until) {
        return absl::DeadlineExceededError(absl::StrCat(
            "nccl: the ranks of ", group.ToString(), " have not found each other within ",
            setup_.connect_seconds, " seconds; does every process run, and reach the others?"));
      }
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  }

  // One device's part in a task that it enqueues.
  struct Part {
    const Prepared* prepared;
    const Side* side;
    const CommunicationArguments* arguments;
  };

  absl::Status Run(const Part& part, void* native) {
    if (!part.side->calls.empty()) {
      auto* stream = static_cast<cudaStream_t>(native);
      RETURN_IF_ERROR(part.side->rank->Run(
          [&](ncclComm_t comm) { return MakeCalls(part, comm, stream); }, part.prepared->what));
    }
    received_[part.arguments->device.index()].fetch_add(part.side->bytes,
                                                        std::memory_order_relaxed);
    return absl::OkStatus();
  }

  ncclResult_t MakeCalls(const Part& part, ncclComm_t comm, cudaStream_t stream) const {
    const bool grouped = part.side->calls.size() > 1;
    ncclResult_t result = grouped ? nccl_->group_start() : ncclSuccess;
    if (result != ncclSuccess) return result;
    const auto failed = [&result] { return result != ncclSuccess && result != ncclInProgress; };
    for (const NcclCall& call : part.side->calls) {
      if (failed()) break;
      result = MakeCall(*nccl_, call, *part.arguments, comm, stream);
    }
    if (!grouped) return result;
    const ncclResult_t end = nccl_->group_end();  // also after an error: the group is the thread's
    return failed() ? result : end;
  }

  const std::shared_ptr<const NcclLibrary> nccl_;
  const NcclSetup setup_;
  std::vector<std::unique_ptr<Group>> groups_;  // in the order in which tasks name them
  absl::flat_hash_map<TaskId, std::unique_ptr<Prepared>> prepared_;
  std::vector<std::atomic<int64_t>> received_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Communicator>> MakeNcclCommunicator(const NcclSetup& setup) {
  if (setup.port != nullptr && setup.port->size() != setup.devices) {
    return absl::InvalidArgumentError(
        absl::StrCat("the program has ", setup.devices, " devices and the run ", setup.port->size(),
                     " processes; wanted one process for each device"));
  }
  ASSIGN_OR_RETURN(auto nccl, OpenNcclLibrary(setup.soname));
  return std::make_unique<NcclCommunicator>(std::move(nccl), setup);
}

}  // namespace partita
