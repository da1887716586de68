#include "runtime/comm/nccl/nccl_communicator.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string_view>
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
#include "graph/support/thread.h"
#include "runtime/comm/nccl/nccl_calls.h"
#include "runtime/comm/nccl/nccl_library.h"
#include "runtime/comm/nccl/nccl_rank.h"
#include "runtime/comm/nccl/split_rounds.h"

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

  // The device's rank; as many as there are devices where it has none.
  size_t PlaceOf(DeviceId device) const {
    return static_cast<size_t>(std::find(devices.begin(), devices.end(), device) - devices.begin());
  }
  NcclRank* RankOf(DeviceId device) const {
    const size_t place = PlaceOf(device);
    return place == devices.size() ? nullptr : ranks[place].get();
  }
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
      : nccl_(std::move(nccl)), setup_(setup), received_(static_cast<size_t>(setup.devices)) {
    std::vector<DeviceId> devices;
    for (int d = 0; d < setup.devices; ++d) devices.push_back(DeviceId(d));
    all_ = NewGroup(std::move(devices));
  }

  ~NcclCommunicator() override {
    FinalizeAll();
    for (NcclRank* rank : RanksHere(groups_)) rank->Destroy();
    for (NcclRank* rank : RanksOf(*all_)) rank->Destroy();
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
    const absl::Status status =
        nccl_->comm_split != nullptr ? SplitGroups(streams) : ConnectGroups(streams);
    if (!status.ok()) Abort(status);
    return status;
  }

  bool EnqueueMeetsPeers() const override { return true; }
  bool EnqueuesTheSame() const override { return nccl_->comm_split != nullptr; }
  void KeepForRecordings() override { is_recorded_ = true; }

  void Enqueue(const CommunicationArguments& arguments, int64_t, Stream& stream,
               WorkTiming* timing) override {
    const auto it = prepared_.find(arguments.task->id);
    CHECK(it != prepared_.end()) << "a task that was not prepared";
    const auto side = it->second->sides.find(arguments.device);
    CHECK(side != it->second->sides.end()) << "a device of another process";
    received_[arguments.device.index()].fetch_add(side->second.bytes, std::memory_order_relaxed);
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

  // No call is under way in the ranks of `all_`: their abort needs no wait, and ends the calls of
  // what was split from them, and what runs on GPUs. What is recorded with a communicator keeps
  // NCCL from freeing it: it would wait, here, for the recordings' end.
  void Abort(const absl::Status&) override {
    const auto split_from = RanksOf(*all_), ranks = RanksHere(groups_);
    for (NcclRank* rank : split_from) rank->RefuseCalls();
    for (NcclRank* rank : ranks) rank->RefuseCalls();
    for (NcclRank* rank : split_from) rank->Abort(Clock::now());
    if (is_recorded_) return;
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
    groups_.push_back(NewGroup(devices));
    return *groups_.back();
  }

  std::unique_ptr<Group> NewGroup(std::vector<DeviceId> devices) const {
    auto group = std::make_unique<Group>();
    group->devices = std::move(devices);
    for (DeviceId device : group->devices) {
      group->ranks.push_back(IsHere(device) ? std::make_unique<NcclRank>(nccl_) : nullptr);
    }
    return group;
  }

  static std::vector<NcclRank*> RanksOf(const Group& group) {
    std::vector<NcclRank*> ranks;
    for (const auto& rank : group.ranks) {
      if (rank != nullptr) ranks.push_back(rank.get());
    }
    return ranks;
  }
  static std::vector<NcclRank*> RanksHere(std::span<const std::unique_ptr<Group>> groups) {
    std::vector<NcclRank*> ranks;
    for (const auto& group : groups) {
      for (NcclRank* rank : RanksOf(*group)) ranks.push_back(rank);
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

  // Each group by an id of its own.
  absl::Status ConnectGroups(std::span<Stream* const> streams) {
    for (const auto& group : groups_) RETURN_IF_ERROR(ConnectGroup(*group, streams));
    return absl::OkStatus();
  }

  absl::Status ConnectGroup(Group& group, std::span<Stream* const> streams) {
    if (group.connected) return absl::OkStatus();
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
    RETURN_IF_ERROR(AwaitConnection(group, group.ToString()));
    group.connected = true;
    return absl::OkStatus();
  }

  // All groups from the one of all devices, which is connected first.
  absl::Status SplitGroups(std::span<Stream* const> streams) {
    std::vector<Group*> groups;
    std::vector<const std::vector<DeviceId>*> devices;
    for (const auto& group : groups_) {
      if (group->connected) continue;
      groups.push_back(group.get());
      devices.push_back(&group->devices);
    }
    if (groups.empty()) return absl::OkStatus();
    RETURN_IF_ERROR(ConnectGroup(*all_, streams));
    for (const SplitRound& round : SplitRoundsOf(devices)) {
      std::vector<Group*> parts;
      for (size_t g : round) parts.push_back(groups[g]);
      RETURN_IF_ERROR(Split(parts));
    }
    return absl::OkStatus();
  }

  // Groups that share no device, by one split.
  absl::Status Split(const std::vector<Group*>& groups) {
    for (size_t d = 0; d < all_->devices.size(); ++d) {
      if (all_->ranks[d] == nullptr) continue;
      int color = 0, key = 0;
      NcclRank* part = nullptr;
      for (size_t g = 0; g < groups.size() && part == nullptr; ++g) {
        part = groups[g]->RankOf(all_->devices[d]);
        color = static_cast<int>(g);
        key = static_cast<int>(groups[g]->PlaceOf(all_->devices[d]));
      }
      RETURN_IF_ERROR(all_->ranks[d]->StartToSplit(color, key, part));
    }
    const std::string more =
        groups.size() == 1 ? "" : absl::StrCat(" and ", groups.size() - 1, " more groups");
    RETURN_IF_ERROR(AwaitConnection(*all_, groups[0]->ToString() + more));
    for (Group* group : groups) group->connected = true;
    return absl::OkStatus();
  }

  // Until all ranks of `group` are connected, and what is split from them, which is `what`.
  absl::Status AwaitConnection(const Group& group, const std::string& what) {
    const Clock::time_point until = In(setup_.connect_seconds);
    for (;;) {
      bool all = true;
      for (NcclRank* rank : RanksOf(group)) {
        ASSIGN_OR_RETURN(const bool connected, rank->IsConnected());
        all &= connected;
      }
      if (all) return absl::OkStatus();
      if (Clock::now() > until) {
        return absl::DeadlineExceededError(absl::StrCat(
            "nccl: the ranks of ", what, " have not found each other within ",
            setup_.connect_seconds, " seconds; does every process run, and reach the others?"));
      }
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  }

  // Ranks may wait for their peers: each device's are finalized on a thread of its own, in the same
  // order everywhere. What does not end in time is aborted.
  void FinalizeAll() {
    struct Open {
      std::mutex mutex;
      std::condition_variable changed;
      int devices = 0;
      void End() {
        std::lock_guard lock(mutex);
        --devices;
        changed.notify_all();
      }
    } open;
    std::vector<Thread> threads;
    for (DeviceId device : all_->devices) {
      if (!IsHere(device)) continue;
      {
        std::lock_guard lock(open.mutex);
        ++open.devices;
      }
      const auto finalize = [this, device, &open] {
        for (const auto& group : groups_) {
          if (NcclRank* rank = group->RankOf(device)) rank->Finalize();
        }
        all_->RankOf(device)->Finalize();
        open.End();
      };
      auto thread = Thread::Start("ending NCCL's communicators", finalize,
                                  [&open](const absl::Status&) { open.End(); });
      if (!thread.ok()) open.End();
      if (thread.ok()) threads.push_back(*std::move(thread));
    }
    std::unique_lock lock(open.mutex);
    const bool all =
        open.changed.wait_for(lock, kGraceOfEnd, [&open] { return open.devices == 0; });
    lock.unlock();
    if (!all) Abort(absl::OkStatus());
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
  std::unique_ptr<Group> all_;                  // all devices, whose communicator is split
  std::vector<std::unique_ptr<Group>> groups_;  // in the order in which tasks name them
  absl::flat_hash_map<TaskId, std::unique_ptr<Prepared>> prepared_;
  std::vector<std::atomic<int64_t>> received_;  // by what was enqueued
  std::atomic<bool> is_recorded_{false};
};

// Variables of NCCL's that overrule how communicators are made here.
absl::Status CheckVariables() {
  constexpr struct {
    const char *name, *value, *why;
  } kWrong[] = {
      {"NCCL_COMM_BLOCKING", "1", "ranks that connect one after another would wait for ever"},
      {"NCCL_COMM_SPLIT_SHARE_RESOURCES", "0", "an abort would not end recorded steps"}};
  for (const auto& wrong : kWrong) {
    const char* value = std::getenv(wrong.name);
    if (value == nullptr || std::string_view(value) != wrong.value) continue;
    return UsageError(absl::StrCat(wrong.name, "=", value,
                                   " is set in the environment: ", wrong.why, ". Unset it"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Communicator>> MakeNcclCommunicator(const NcclSetup& setup) {
  RETURN_IF_ERROR(CheckVariables());
  if (setup.port != nullptr && setup.port->size() != setup.devices) {
    return absl::InvalidArgumentError(
        absl::StrCat("the program has ", setup.devices, " devices and the run ", setup.port->size(),
                     " processes; wanted one process for each device"));
  }
  ASSIGN_OR_RETURN(auto nccl, OpenNcclLibrary(setup.soname));
  return std::make_unique<NcclCommunicator>(std::move(nccl), setup);
}

}  // namespace partita
