#include "runtime/comm/message_communicator.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "graph/collective/algorithms.h"
#include "graph/support/check.h"
#include "graph/support/status_macros.h"
#include "runtime/comm/collective_run.h"

namespace partita {
namespace {

int TagOf(const Task& task) { return static_cast<int>(task.id.value() & 0x3fff); }

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
    CollectiveRun run(
        port_, task, TagOf(*args.task),
        {static_cast<char*>(args.send[0]), static_cast<char*>(args.receive[0]), &scratch_});
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
