#include "runtime/comm/message_communicator.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "graph/collective/algorithms.h"
#include "graph/support/check.h"
#include "graph/support/status_macros.h"
#include "runtime/comm/fold.h"

namespace partita {
namespace {

int TagOf(const Task& task) { return static_cast<int>(task.id.value() & 0x3fff); }

// A collective task's rank in the port.
int PeerOf(const CollectiveTask& task, int rank) {
  return task.group[static_cast<size_t>(rank)].value();
}

// This rank's side of one run of a collective: rounds of messages over its two buffers.
class CollectiveRun {
 public:
  CollectiveRun(MessagePort& port, const CollectiveTask& task, int tag, char* send, char* receive,
                std::vector<char>& scratch)
      : port_(port),
        task_(task),
        tag_(tag),
        size_(SizeOf(task.dtype)),
        send_(send),
        receive_(receive),
        scratch_(scratch) {}

  absl::Status Run(const RankRound& round) {
    messages_.clear();
    ReserveScratch(round);
    PostSends(round);
    PostReceives(round);
    RETURN_IF_ERROR(port_.Exchange(messages_, tag_));
    FoldArrivals(round);
    return absl::OkStatus();
  }

 private:
  // Room for what has to be kept apart: what is sent while it is overwritten, what is to be folded.
  void ReserveScratch(const RankRound& round) {
    int64_t elements = 0;
    for (const CollectiveStep& step : round.sends)
      elements += round.sends_snapshot ? step.count : 0;
    const std::span<const CollectiveStep> steps(round.receives);
    for (size_t first = 0; first < steps.size();) {
      const auto range = steps.subspan(first, StepsOfRange(steps.subspan(first)));
      elements += Lands(range) ? 0 : range[0].count * static_cast<int64_t>(range.size());
      first += range.size();
    }
    const auto bytes = static_cast<size_t>(elements * size_);
    if (scratch_.size() < bytes) scratch_.resize(bytes);
    used_ = 0;
  }

  char* Take(int64_t bytes) {
    char* data = scratch_.data() + used_;
    used_ += bytes;
    return data;
  }

  void PostSends(const RankRound& round) {
    for (const CollectiveStep& step : round.sends) {
      const int64_t bytes = step.count * size_;
      char* data = send_ + step.source_offset * size_;
      if (step.from == step.to) {
        std::memcpy(receive_ + step.destination_offset * size_, data, static_cast<size_t>(bytes));
        continue;
      }
      if (round.sends_snapshot) {
        data = static_cast<char*>(std::memcpy(Take(bytes), data, static_cast<size_t>(bytes)));
      }
      messages_.push_back({PeerOf(task_, step.to), false, data, bytes});
    }
  }

  // Whether what arrives for a range goes there at once: a copy, or one value to combine with.
  static bool Lands(std::span<const CollectiveStep> range) {
    return range[0].action == StepAction::kCopy || range.size() == 1;
  }

  // A peer's messages come in ascending order of offsets, as it sends them.
  void PostReceives(const RankRound& round) {
    arrivals_.assign(round.receives.size(), nullptr);
    const std::span<const CollectiveStep> steps(round.receives);
    for (size_t first = 0; first < steps.size();) {
      const auto range = steps.subspan(first, StepsOfRange(steps.subspan(first)));
      for (size_t k = 0; k < range.size(); ++k) PostReceive(range[k], Lands(range), first + k);
      first += range.size();
    }
  }

  void PostReceive(const CollectiveStep& step, bool lands, size_t k) {
    if (step.from == step.to) return;
    const int64_t bytes = step.count * size_;
    arrivals_[k] = lands ? receive_ + step.destination_offset * size_ : Take(bytes);
    MessagePort::Message message{PeerOf(task_, step.from), true, arrivals_[k], bytes};
    if (lands && step.action == StepAction::kReduce) {
      message.combine = {task_.dtype, task_.collective.reduction, step.to < step.from};
    }
    messages_.push_back(message);
  }

  void FoldArrivals(const RankRound& round) {
    const std::span<const CollectiveStep> steps(round.receives);
    for (size_t first = 0; first < steps.size();) {
      const auto range = steps.subspan(first, StepsOfRange(steps.subspan(first)));
      if (!Lands(range)) {
        char* own = receive_ + range[0].destination_offset * size_;
        const auto values = ValuesInOrder(
            range, own, [&](size_t k) -> const void* { return arrivals_[first + k]; });
        Fold(task_.dtype, task_.collective.reduction, values, own, range[0].count);
      }
      first += range.size();
    }
  }

  MessagePort& port_;
  const CollectiveTask& task_;
  const int tag_;
  const int64_t size_;
  char* const send_;
  char* const receive_;
  std::vector<char>& scratch_;
  int64_t used_ = 0;
  std::vector<MessagePort::Message> messages_;
  std::vector<char*> arrivals_;  // by receive; null where it came from the rank itself
};

class MessageCommunicator : public Communicator {
 public:
  explicit MessageCommunicator(MessagePort& port)
      : port_(port), own_(static_cast<int32_t>(port.rank())) {}

  absl::Status Prepare(std::span<const Task* const> tasks,
                       std::span<BackendDevice* const>) override {
    for (const Task* task : tasks) {
      const auto* collective = std::get_if<CollectiveTask>(&task->body);
      if (collective == nullptr) continue;
      const auto& group = collective->group;
      const auto own = std::find(group.begin(), group.end(), own_);
      if (own == group.end()) continue;
      ASSIGN_OR_RETURN(const CollectiveSchedule schedule,
                       BuildSchedule(collective->algorithm, collective->collective));
      rounds_[task->id] = RoundsOfRank(schedule, static_cast<int>(own - group.begin()));
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

  absl::Status RunCollective(const CollectiveTask& task, const CommunicationArguments& args) {
    const auto rounds = rounds_.find(args.task->id);
    CHECK(rounds != rounds_.end()) << "a task that was not prepared";
    CollectiveRun run(port_, task, TagOf(*args.task), static_cast<char*>(args.send[0]),
                      static_cast<char*>(args.receive[0]), scratch_);
    for (const RankRound& round : rounds->second) {
      RETURN_IF_ERROR(run.Run(round));
      for (const CollectiveStep& step : round.receives) {
        if (step.from != step.to) received_ += step.count * SizeOf(task.dtype);
      }
    }
    return absl::OkStatus();
  }

  absl::Status RunTransfers(const TransferTask& task, const CommunicationArguments& args) {
    std::vector<MessagePort::Message> messages;
    int64_t received = 0;
    size_t k = 0;  // of this device's transfers
    for (const Transfer& transfer : task.transfers) {
      if (transfer.from != own_ && transfer.to != own_) continue;
      const int64_t bytes = transfer.receive.count * SizeOf(task.dtype);
      if (transfer.from == transfer.to) {
        std::memcpy(args.receive[k], args.send[k], static_cast<size_t>(bytes));
      } else if (transfer.to == own_) {
        messages.push_back({transfer.from.value(), true, args.receive[k], bytes});
        received += bytes;
      } else {
        messages.push_back({transfer.to.value(), false, args.send[k], bytes});
      }
      ++k;
    }
    RETURN_IF_ERROR(port_.Exchange(messages, TagOf(*args.task)));
    received_ += received;
    return absl::OkStatus();
  }

  MessagePort& port_;
  const DeviceId own_;
  absl::flat_hash_map<TaskId, std::vector<RankRound>> rounds_;  // of this rank
  std::vector<char> scratch_;
  std::atomic<int64_t> received_{0};
};

}  // namespace

std::unique_ptr<Communicator> MakeMessageCommunicator(MessagePort& port) {
  return std::make_unique<MessageCommunicator>(port);
}

}  // namespace partita
