#include "runtime/comm/streams/stream_schedule.h"

#include <algorithm>

#include "graph/support/aligned.h"
#include "graph/support/check.h"
#include "graph/support/status_macros.h"
#include "runtime/comm/fold.h"
#include "runtime/comm/slices.h"

namespace partita {
namespace {

using Kind = MoveSignature::Kind;
using Moves = StreamRound::Moves;

DType DTypeOf(const Task& task) {
  const auto* collective = std::get_if<CollectiveTask>(&task.body);
  return collective != nullptr ? collective->dtype : std::get<TransferTask>(task.body).dtype;
}

}  // namespace

void StreamMemory::Enlarge(const StreamMemory& other) {
  assembled = std::max(assembled, Aligned(other.assembled));
  fetched = std::max(fetched, Aligned(other.fetched));
  published = std::max(published, Aligned(other.published));
}

absl::StatusOr<StreamSchedule> StreamSchedule::Create(const Task& task, ProgramDevices devices) {
  StreamSchedule plan;
  plan.task_ = &task;
  if (const auto* collective = std::get_if<CollectiveTask>(&task.body)) {
    plan.members_ = collective->group;
    ASSIGN_OR_RETURN(plan.schedule_, ScheduleOf(*collective));
    plan.starts_ = SliceStarts(*collective);
    plan.rounds_ = std::max<size_t>(1, plan.schedule_.rounds.size());
  } else {
    plan.members_ = DevicesOf(task);
  }
  for (DeviceId device : plan.members_) {
    CHECK(devices[device.index()] != nullptr) << "a device of another process";
    plan.devices_.push_back(devices[device.index()]);
  }
  plan.received_.resize(plan.members_.size());
  for (const Message& message : plan.Messages()) {
    if (message.from != message.to) plan.received_[message.to] += message.bytes;
  }
  return plan;
}

size_t StreamSchedule::RankOf(DeviceId device) const {
  return static_cast<size_t>(std::find(members_.begin(), members_.end(), device) -
                             members_.begin());
}

std::vector<StreamSchedule::Message> StreamSchedule::Messages() const {
  std::vector<Message> messages;
  const int64_t size = SizeOf(DTypeOf(*task_));
  if (const auto* transfers = std::get_if<TransferTask>(&task_->body)) {
    for (const Transfer& transfer : transfers->transfers) {
      messages.push_back(
          {RankOf(transfer.from), RankOf(transfer.to), 0, transfer.receive.count * size});
    }
  }
  for (size_t round = 0; round < schedule_.rounds.size(); ++round) {
    for (const CollectiveStep& step : schedule_.rounds[round].steps) {
      messages.push_back(
          {static_cast<size_t>(step.from), static_cast<size_t>(step.to), round, step.count * size});
    }
  }
  return messages;
}

std::vector<StreamMemory> StreamSchedule::WantedMemory() const {
  std::vector<StreamMemory> wanted(members_.size());
  std::vector<std::vector<StreamMemory>> by_round(rounds_,
                                                  std::vector<StreamMemory>(members_.size()));
  for (const Message& message : Messages()) {
    by_round[message.round][message.to].assembled += message.bytes;
    if (Reaches(message.to, message.from)) continue;
    by_round[message.round][message.from].published += message.bytes;
    by_round[message.round][message.to].fetched += message.bytes;
  }
  for (const auto& round : by_round) {
    for (size_t r = 0; r < wanted.size(); ++r) wanted[r].Enlarge(round[r]);
  }
  return wanted;
}

// Fills in the moves of a plan for given addresses.
class StreamMoves {
 public:
  StreamMoves(const StreamSchedule& plan, std::span<const CommunicationArguments* const> arguments,
              std::span<const StreamPlaces> places)
      : plan_(plan),
        dtype_(DTypeOf(*plan.task_)),
        size_(SizeOf(dtype_)),
        arguments_(arguments),
        places_(places),
        moves_(plan.members_.size(), std::vector<StreamRound>(plan.rounds_)) {}

  std::vector<std::vector<StreamRound>> Run() && {
    if (const auto* transfers = std::get_if<TransferTask>(&plan_.task_->body)) {
      BeginRound(0);
      AddTransfers(*transfers);
      return std::move(moves_);
    }
    const auto& task = std::get<CollectiveTask>(plan_.task_->body);
    std::vector<std::vector<RankRound>> rounds;
    for (size_t r = 0; r < moves_.size(); ++r) {
      rounds.push_back(RoundsOfRank(plan_.schedule_, static_cast<int>(r)));
    }
    for (size_t k = 0; k < plan_.schedule_.rounds.size(); ++k) {
      BeginRound(k);
      for (size_t r = 0; r < moves_.size(); ++r) AddReceives(task, rounds[r][k], r);
    }
    return std::move(moves_);
  }

 private:
  // State of one member in the current round.
  struct Used {
    int64_t assembled = 0, fetched = 0, published = 0;  // bytes
  };
  // Contents of host memory in the current round.
  struct Published {
    const void* data;
    int64_t count;
    const char* at;
  };

  void BeginRound(size_t round) {
    round_ = round;
    used_.assign(moves_.size(), {});
    published_.clear();
  }
  StreamRound& Now(size_t rank) { return moves_[rank][round_]; }
  void Add(Moves& moves, Kind kind, const void* from, void* to, int64_t count) const {
    if (count == 0 || (kind == Kind::kCopy && from == to)) return;
    moves.push_back(Stream::FlatMove(kind, dtype_, from, to, count));
  }

  // Where `data` of a sender will be in host memory.
  const char* Publish(size_t from, const void* data, int64_t count) {
    for (const Published& known : published_) {
      if (known.data == data && known.count == count) return known.at;
    }
    char* at = places_[from].published[round_ % 2] + used_[from].published;
    used_[from].published += count * size_;
    Add(Now(from).publish, Kind::kCopy, data, at, count);
    published_.push_back({data, count, at});
    return at;
  }

  // Where a reader's moves find a sender's `data`; if it has to be fetched, at `into` unless that
  // is null.
  const void* Read(size_t reader, size_t from, const void* data, int64_t count, void* into) {
    if (reader == from || plan_.Reaches(reader, from)) return data;
    const char* host = Publish(from, data, count);
    if (plan_.devices_[reader]->HostAddressable()) return host;
    if (into == nullptr) {
      into = places_[reader].fetched + used_[reader].fetched;
      used_[reader].fetched += count * size_;
    }
    Add(Now(reader).fetch, Kind::kCopy, host, into, count);
    return into;
  }

  void AddReceives(const CollectiveTask& task, const RankRound& round, size_t rank) {
    ForEachRange(round.receives, [&](std::span<const CollectiveStep> range, size_t) {
      AddRange(task, range, round.sends_snapshot, rank);
    });
  }

  void AddRange(const CollectiveTask& task, std::span<const CollectiveStep> range, bool apart,
                size_t rank) {
    const int64_t count = range[0].count;
    char* own =
        ElementAt(arguments_[rank]->receive, plan_.starts_, range[0].destination_offset, size_);
    char* aside = places_[rank].assembled + used_[rank].assembled;
    used_[rank].assembled += count * size_;
    const bool lone = range.size() == 1 && range[0].action == StepAction::kCopy;
    void* lands = !lone ? nullptr : apart ? aside : own;
    const auto values = ValuesInOrder(range, own, [&](size_t k) -> const void* {
      const auto from = static_cast<size_t>(range[k].from);
      const void* data =
          ElementAt(arguments_[from]->send, plan_.starts_, range[k].source_offset, size_);
      return Read(rank, from, data, count, lands);
    });
    const bool sum = task.collective.reduction == Reduction::kSum;
    // Two values have one sum; a maximum prefers the first of equals.
    const bool swaps = values.size() == 2 && values[1] == own && sum;
    const bool in_place = !apart && (values[0] == own || values.size() == 1 || swaps);
    char* into = in_place ? own : aside;
    StreamRound& moves = Now(rank);
    if (swaps && in_place) return Add(moves.now, Kind::kAdd, values[0], own, count);
    Add(moves.now, Kind::kCopy, values[0], into, count);
    for (size_t k = 1; k < values.size(); ++k) {
      Add(moves.now, sum ? Kind::kAdd : Kind::kMax, values[k], into, count);
    }
    if (!in_place) Add(apart ? moves.commit : moves.now, Kind::kCopy, into, own, count);
  }

  // The receiver copies. Every device lists its own transfers in the task's order.
  void AddTransfers(const TransferTask& task) {
    std::vector<size_t> next(moves_.size(), 0);
    for (const Transfer& transfer : task.transfers) {
      const size_t from = plan_.RankOf(transfer.from), to = plan_.RankOf(transfer.to);
      const int64_t count = transfer.receive.count;
      void* into = arguments_[to]->receive[next[to]];
      const void* data = Read(to, from, arguments_[from]->send[next[from]], count, into);
      Add(Now(to).now, Kind::kCopy, data, into, count);
      ++next[from];
      if (from != to) ++next[to];
    }
  }

  const StreamSchedule& plan_;
  const DType dtype_;
  const int64_t size_;
  const std::span<const CommunicationArguments* const> arguments_;
  const std::span<const StreamPlaces> places_;
  std::vector<std::vector<StreamRound>> moves_;
  size_t round_ = 0;
  std::vector<Used> used_;  // by rank
  std::vector<Published> published_;
};

std::vector<std::vector<StreamRound>> StreamSchedule::MovesFor(
    std::span<const CommunicationArguments* const> arguments,
    std::span<const StreamPlaces> places) const {
  return StreamMoves(*this, arguments, places).Run();
}

}  // namespace partita
