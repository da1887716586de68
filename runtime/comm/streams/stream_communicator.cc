#include "runtime/comm/streams/stream_communicator.h"

#include <algorithm>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "graph/collective/algorithms.h"
#include "graph/support/check.h"
#include "graph/support/status_macros.h"
#include "runtime/comm/fold.h"

namespace partita {
namespace {

using Moves = std::vector<Stream::MoveArguments>;
using Kind = MoveSignature::Kind;

// Moves between pieces of memory that have no shape.
class MoveList {
 public:
  MoveList(DType dtype, Moves& moves) : dtype_(dtype), moves_(moves) {}
  void Add(Kind kind, const void* from, void* to, int64_t count) {
    if (count == 0 || (kind == Kind::kCopy && from == to)) return;
    const Box box{{0, count}};
    moves_.push_back({kind, dtype_, from, to, box, box, box});
  }

 private:
  const DType dtype_;
  Moves& moves_;
};

// What one rank does in one round: into its buffer, or where the round sends a snapshot into
// scratch first, and from there once nobody reads the old values any more.
struct RoundMoves {
  Moves now, commit;
};

// One member of a task.
struct Member {
  DeviceId device;
  Stream* stream = nullptr;  // set when the member has enqueued, until all have
  WorkTiming* timing = nullptr;
  const CommunicationArguments* arguments = nullptr;
  std::vector<RoundMoves> rounds;
  int64_t received = 0;  // bytes, in one run
  std::vector<std::unique_ptr<Event>> events;
};

struct Group {
  const Task* task = nullptr;
  CollectiveSchedule schedule;  // empty: transfers
  std::vector<Member> members;  // by rank
  size_t here = 0;              // members that have enqueued
  int64_t runs = 0;             // so far: the round of the events
  std::vector<void*> planned;   // the addresses that the moves are made for
};

class StreamCommunicator : public Communicator {
 public:
  explicit StreamCommunicator(int devices)
      : received_(static_cast<size_t>(devices)), scratch_(static_cast<size_t>(devices)) {}

  absl::Status Prepare(std::span<const Task* const> tasks,
                       std::span<BackendDevice* const> devices) override {
    std::vector<int64_t> scratch(devices.size(), 0);
    for (const Task* task : tasks) {
      Group& group = groups_[task->id] = Group{};
      group.task = task;
      for (DeviceId device : MembersOf(*task)) {
        CHECK(devices[device.index()] != nullptr) << "a device of another process";
        group.members.push_back({.device = device});
      }
      RETURN_IF_ERROR(PrepareSchedule(group, scratch));
      for (Member& member : group.members) {
        for (size_t k = 0; k < Barriers(group); ++k) {
          member.events.push_back(devices[member.device.index()]->NewEvent());
        }
      }
    }
    for (size_t d = 0; d < devices.size(); ++d) {
      if (scratch[d] <= (scratch_[d] == nullptr ? 0 : scratch_[d]->bytes())) continue;
      ASSIGN_OR_RETURN(scratch_[d], devices[d]->Allocate(scratch[d]));
      for (auto& [id, group] : groups_) group.planned.clear();
    }
    return absl::OkStatus();
  }

  void Enqueue(const CommunicationArguments& arguments, int64_t, Stream& stream,
               WorkTiming* timing) override {
    const auto it = groups_.find(arguments.task->id);
    CHECK(it != groups_.end()) << "a task that was not prepared";
    Group& group = it->second;
    for (Member& member : group.members) {
      if (member.device != arguments.device) continue;
      member.stream = &stream;
      member.timing = timing;
      member.arguments = &arguments;
      ++group.here;
    }
    if (group.here < group.members.size()) return;
    group.here = 0;
    if (std::vector<void*> addresses = AddressesOf(group); addresses != group.planned) {
      Plan(group);
      group.planned = std::move(addresses);
    }
    EnqueueAll(group, ++group.runs);
  }

  void Abort(const absl::Status&) override {}  // the devices release those who wait for events

  std::vector<Bytes> BytesReceived() const override { return received_; }

 private:
  static std::vector<DeviceId> MembersOf(const Task& task) {
    const auto* collective = std::get_if<CollectiveTask>(&task.body);
    return collective != nullptr ? collective->group : DevicesOf(task);
  }

  // Before every round, after what it keeps apart, and at the end.
  static size_t Barriers(const Group& group) { return 2 * RoundsOf(group) + 1; }
  static size_t RoundsOf(const Group& group) {
    return std::max<size_t>(1, group.schedule.rounds.size());
  }

  static absl::Status PrepareSchedule(Group& group, std::vector<int64_t>& scratch) {
    const auto* task = std::get_if<CollectiveTask>(&group.task->body);
    if (task == nullptr) return absl::OkStatus();
    ASSIGN_OR_RETURN(group.schedule, BuildSchedule(task->algorithm, task->collective));
    for (const CollectiveRound& round : group.schedule.rounds) {
      std::vector<int64_t> elements(group.members.size(), 0);
      for (const CollectiveStep& step : round.steps) {
        elements[static_cast<size_t>(step.to)] += step.count;
      }
      for (size_t r = 0; r < group.members.size(); ++r) {
        int64_t& bytes = scratch[group.members[r].device.index()];
        bytes = std::max(bytes, elements[r] * SizeOf(task->dtype));
      }
    }
    return absl::OkStatus();
  }

  static std::vector<void*> AddressesOf(const Group& group) {
    std::vector<void*> addresses;
    for (const Member& member : group.members) {
      for (const auto* list : {&member.arguments->send, &member.arguments->receive}) {
        addresses.insert(addresses.end(), list->begin(), list->end());
      }
    }
    return addresses;
  }

  void Plan(Group& group) {
    for (Member& member : group.members) {
      member.rounds.clear();
      member.received = 0;
    }
    if (const auto* collective = std::get_if<CollectiveTask>(&group.task->body)) {
      for (size_t r = 0; r < group.members.size(); ++r) PlanRank(*collective, group, r);
    } else {
      PlanTransfers(std::get<TransferTask>(group.task->body), group);
    }
  }

  void PlanRank(const CollectiveTask& task, Group& group, size_t rank) const {
    Member& member = group.members[rank];
    const int64_t size = SizeOf(task.dtype);
    for (const RankRound& round : RoundsOfRank(group.schedule, static_cast<int>(rank))) {
      RoundMoves& moves = member.rounds.emplace_back();
      auto* scratch = scratch_[member.device.index()] == nullptr
                          ? nullptr
                          : static_cast<char*>(scratch_[member.device.index()]->data());
      ForEachRange(round.receives, [&](std::span<const CollectiveStep> range, size_t) {
        PlanRange(task, group, range, {round.sends_snapshot, scratch}, member, moves);
        scratch += range[0].count * size;
        for (const CollectiveStep& step : range) {
          member.received += step.from == step.to ? 0 : step.count * size;
        }
      });
    }
  }

  // Where a range is put together, if not in place.
  struct Apart {
    bool wanted = false;
    char* memory = nullptr;
  };
  static void PlanRange(const CollectiveTask& task, const Group& group,
                        std::span<const CollectiveStep> range, Apart apart, const Member& member,
                        RoundMoves& moves) {
    const int64_t size = SizeOf(task.dtype), count = range[0].count;
    char* own =
        static_cast<char*>(member.arguments->receive[0]) + range[0].destination_offset * size;
    const auto values = ValuesInOrder(range, own, [&](size_t k) -> const void* {
      const Member& from = group.members[static_cast<size_t>(range[k].from)];
      return static_cast<const char*>(from.arguments->send[0]) + range[k].source_offset * size;
    });
    const bool sum = task.collective.reduction == Reduction::kSum;
    // Two values have one sum; a maximum prefers the first of equals.
    const bool swaps = values.size() == 2 && values[1] == own && sum;
    const bool in_place = !apart.wanted && (values[0] == own || values.size() == 1 || swaps);
    char* into = in_place ? own : apart.memory;
    MoveList now(task.dtype, moves.now);
    if (swaps && in_place) {
      now.Add(Kind::kAdd, values[0], own, count);
      return;
    }
    now.Add(Kind::kCopy, values[0], into, count);
    for (size_t k = 1; k < values.size(); ++k) {
      now.Add(sum ? Kind::kAdd : Kind::kMax, values[k], into, count);
    }
    if (in_place) return;
    MoveList(task.dtype, apart.wanted ? moves.commit : moves.now)
        .Add(Kind::kCopy, into, own, count);
  }

  // The receiver copies. Every device lists its own transfers in the task's order.
  static void PlanTransfers(const TransferTask& task, Group& group) {
    std::vector<size_t> next(group.members.size(), 0);
    auto rank_of = [&](DeviceId device) {
      size_t r = 0;
      while (group.members[r].device != device) ++r;
      return r;
    };
    for (Member& member : group.members) member.rounds.resize(1);
    for (const Transfer& transfer : task.transfers) {
      const size_t from = rank_of(transfer.from), to = rank_of(transfer.to);
      Member& receiver = group.members[to];
      const void* data = group.members[from].arguments->send[next[from]];
      void* into = receiver.arguments->receive[next[to]];
      MoveList(task.dtype, receiver.rounds[0].now)
          .Add(Kind::kCopy, data, into, transfer.receive.count);
      ++next[from];
      if (from == to) continue;
      ++next[to];
      receiver.received += transfer.receive.count * SizeOf(task.dtype);
    }
  }

  void EnqueueAll(Group& group, int64_t round) {
    size_t barrier = 0;
    for (Member& member : group.members) {
      if (member.timing != nullptr) member.stream->Stamp(&member.timing->start_ns);
    }
    for (size_t k = 0; k < RoundsOf(group); ++k) {
      Meet(group, barrier++, round);
      for (Member& member : group.members) Run(member, k, &RoundMoves::now);
      if (k >= group.schedule.rounds.size() || !group.schedule.rounds[k].sends_snapshot) continue;
      Meet(group, barrier++, round);
      for (Member& member : group.members) Run(member, k, &RoundMoves::commit);
    }
    Meet(group, barrier, round);
    for (Member& member : group.members) {
      if (member.timing != nullptr) member.stream->Stamp(&member.timing->end_ns);
      Bytes& received = received_[member.device.index()];
      received = Bytes(received.value() + member.received);
    }
  }

  static void Run(Member& member, size_t round, Moves RoundMoves::* which) {
    if (round >= member.rounds.size()) return;
    const Moves& moves = member.rounds[round].*which;
    if (!moves.empty()) member.stream->RunMoves(moves, nullptr);
  }

  // No stream goes on before all are here.
  static void Meet(Group& group, size_t barrier, int64_t round) {
    for (Member& member : group.members) member.stream->Record(*member.events[barrier], round);
    for (Member& member : group.members) {
      for (Member& other : group.members) {
        if (&other != &member) member.stream->Wait(*other.events[barrier], round);
      }
    }
  }

  absl::flat_hash_map<TaskId, Group> groups_;
  std::vector<Bytes> received_;
  std::vector<std::unique_ptr<DeviceMemory>> scratch_;  // by device
};

}  // namespace

std::unique_ptr<Communicator> MakeStreamCommunicator(int devices) {
  return std::make_unique<StreamCommunicator>(devices);
}

}  // namespace partita
