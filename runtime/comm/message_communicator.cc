#include "runtime/comm/message_communicator.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "absl/container/flat_hash_map.h"
#include "graph/support/check.h"
#include "graph/support/status_macros.h"
#include "runtime/comm/collective_phases.h"
#include "runtime/comm/collective_run.h"
#include "runtime/comm/host_window.h"

namespace partita {
namespace {

int TagOf(const Task& task) { return static_cast<int>(task.id.value() & 0x3fff); }

class MessageCommunicator : public Communicator {
 public:
  explicit MessageCommunicator(MessagePort& port)
      : port_(port), own_(static_cast<int32_t>(port.rank())) {}

  absl::Status Prepare(std::span<const Task* const> tasks,
                       std::span<BackendDevice* const> devices) override {
    device_ = devices[own_.index()];
    if (device_->HostAddressable()) device_->ShareMemory();
    tasks_.assign(tasks.begin(), tasks.end());
    return absl::OkStatus();
  }

  // Now the device has its memory.
  absl::Status Connect(std::span<Stream* const>) override {
    std::vector<const SharedMemory*> memory;
    if (device_->HostAddressable()) memory = device_->shared_memory();
    ASSIGN_OR_RETURN(window_, HostWindow::Open(port_, memory));
    for (const Task* task : tasks_) {
      if (const auto* transfers = std::get_if<TransferTask>(&task->body)) {
        sharers_[task->id] = SharersOf(*transfers);
        continue;
      }
      const auto& collective = std::get<CollectiveTask>(task->body);
      const auto& group = collective.group;
      const auto own = std::find(group.begin(), group.end(), own_);
      if (own == group.end()) continue;
      ASSIGN_OR_RETURN(phases_[task->id],
                       PhasesOf(collective, static_cast<int>(own - group.begin()), Sharing()));
      elements_[task->id] = ElementsReceived(collective, own_);
      starts_[task->id] = SliceStarts(collective);
    }
    return absl::OkStatus();
  }

  void Enqueue(const CommunicationArguments& arguments, int64_t, Stream& stream,
               WorkTiming* timing) override {
    CHECK(arguments.device == own_) << "a device of another process";
    const CommunicationArguments* args = &arguments;
    stream.HostCall([this, args] { return Run(*args); }, timing);
  }

  void Abort(const absl::Status& reason) override { port_.Abort(reason); }

  std::vector<Bytes> BytesReceived() const override {
    std::vector<Bytes> bytes(static_cast<size_t>(port_.size()));
    bytes[own_.index()] = Bytes(received_.load());
    return bytes;
  }

 private:
  absl::Status Run(const CommunicationArguments& args) {
    if (const auto* task = std::get_if<CollectiveTask>(&args.task->body)) {
      return RunCollective(*task, args);
    }
    return RunTransfers(std::get<TransferTask>(args.task->body), args);
  }

  // The ranks whose memory this one reaches.
  std::span<const int> Sharing() const {
    return window_ == nullptr ? std::span<const int>() : window_->ranks();
  }
  bool IsSharing(DeviceId id) const {
    const auto ranks = Sharing();
    return std::binary_search(ranks.begin(), ranks.end(), id.value());
  }

  // The devices of this host that exchange in place, if there is anything to exchange between them.
  std::vector<int> SharersOf(const TransferTask& task) const {
    std::vector<int> sharers;
    if (!IsSharing(own_)) return sharers;
    std::vector<size_t> places(static_cast<size_t>(port_.size()), 0);
    bool any = false, fits = true;
    for (const Transfer& transfer : task.transfers) {
      any = any ||
            (transfer.from != transfer.to && IsSharing(transfer.from) && IsSharing(transfer.to));
      fits = fits && ++places[transfer.from.index()] <= HostWindow::kMostPlaces;
      if (transfer.to == transfer.from) continue;
      fits = fits && ++places[transfer.to.index()] <= HostWindow::kMostPlaces;
    }
    if (!any || !fits) return sharers;
    for (DeviceId id : task.group) {
      if (IsSharing(id)) sharers.push_back(id.value());
    }
    return sharers;
  }

  absl::Status RunCollective(const CollectiveTask& task, const CommunicationArguments& args) {
    const auto phases = phases_.find(args.task->id);
    CHECK(phases != phases_.end()) << "a task that was not prepared";
    CollectiveRun run(port_, task, TagOf(*args.task),
                      {args.send, args.receive, starts_[args.task->id], &scratch_});
    for (CollectivePhase& phase : phases->second) {
      if (auto* shared = std::get_if<SharedPhase>(&phase)) {
        RETURN_IF_ERROR(RunShared(task, args, *shared));
        continue;
      }
      for (const RankRound& round : std::get<MessagePhase>(phase).rounds) {
        RETURN_IF_ERROR(run.Run(round));
      }
    }
    received_ += elements_[args.task->id] * SizeOf(task.dtype);
    return absl::OkStatus();
  }

  absl::Status RunShared(const CollectiveTask& task, const CommunicationArguments& args,
                         SharedPhase& phase) {
    RETURN_IF_ERROR(window_->Meet(phase.peers, TagOf(*args.task), args.send));
    const int64_t size = SizeOf(task.dtype);
    buffers_.assign(task.group.size(), nullptr);
    for (size_t k = 0; k < task.slices(); ++k) {
      for (size_t m = 0; m < phase.members.size(); ++m) {
        const auto member = static_cast<size_t>(phase.members[m]);
        ASSIGN_OR_RETURN(buffers_[member],
                         window_->Place(phase.peers[m], k, ElementsSent(task, member, k) * size));
      }
      if (k < phase.pieces.size()) phase.pieces[k].Run(buffers_);
    }
    for (const CollectiveStep& step : phase.steps) {
      std::memcpy(static_cast<char*>(args.receive[0]) + step.destination_offset * size,
                  buffers_[static_cast<size_t>(step.from)] + step.source_offset * size,
                  static_cast<size_t>(step.count * size));
    }
    return window_->Part(phase.peers);
  }

  absl::Status RunTransfers(const TransferTask& task, const CommunicationArguments& args) {
    const auto sharers = sharers_.find(args.task->id);
    CHECK(sharers != sharers_.end()) << "a task that was not prepared";
    const int tag = TagOf(*args.task);
    const bool shares = !sharers->second.empty();
    if (shares) RETURN_IF_ERROR(window_->Meet(sharers->second, tag, args.send));
    std::vector<MessagePort::Message> messages;
    int64_t received = 0;
    std::vector<size_t> next(static_cast<size_t>(port_.size()), 0);  // of each device's transfers
    for (const Transfer& transfer : task.transfers) {
      const size_t at_sender = next[transfer.from.index()]++;
      const size_t at_receiver =
          transfer.from == transfer.to ? at_sender : next[transfer.to.index()]++;
      if (transfer.from != own_ && transfer.to != own_) continue;
      const int64_t bytes = transfer.receive.count * SizeOf(task.dtype);
      const bool in_place = shares && IsSharing(transfer.from) && IsSharing(transfer.to);
      if (transfer.to == own_ && transfer.from != own_) received += bytes;
      if (transfer.from == transfer.to) {
        std::memcpy(args.receive[at_receiver], args.send[at_sender], static_cast<size_t>(bytes));
      } else if (in_place) {
        if (transfer.from == own_ || bytes == 0) continue;
        ASSIGN_OR_RETURN(const char* from, window_->Place(transfer.from.value(), at_sender, bytes));
        std::memcpy(args.receive[at_receiver], from, static_cast<size_t>(bytes));
      } else if (transfer.to == own_) {
        messages.push_back({transfer.from.value(), true, args.receive[at_receiver], bytes});
      } else {
        messages.push_back({transfer.to.value(), false, args.send[at_sender], bytes});
      }
    }
    if (shares) RETURN_IF_ERROR(window_->Part(sharers->second));
    RETURN_IF_ERROR(port_.Exchange(messages, tag));
    received_ += received;
    return absl::OkStatus();
  }

  MessagePort& port_;
  const DeviceId own_;
  BackendDevice* device_ = nullptr;
  std::vector<const Task*> tasks_;      // that were prepared last
  std::unique_ptr<HostWindow> window_;  // null: messages only
  // Of this rank, by task.
  absl::flat_hash_map<TaskId, std::vector<CollectivePhase>> phases_;
  absl::flat_hash_map<TaskId, int64_t> elements_;             // that it receives in a collective
  absl::flat_hash_map<TaskId, std::vector<int64_t>> starts_;  // of slices
  absl::flat_hash_map<TaskId, std::vector<int>> sharers_;
  std::vector<char*> buffers_;
  std::vector<char> scratch_;
  std::atomic<int64_t> received_{0};
};

}  // namespace

std::unique_ptr<Communicator> MakeMessageCommunicator(MessagePort& port) {
  return std::make_unique<MessageCommunicator>(port);
}

}  // namespace partita
