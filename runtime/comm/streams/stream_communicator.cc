#include "runtime/comm/streams/stream_communicator.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "graph/support/check.h"
#include "graph/support/status_macros.h"
#include "runtime/comm/streams/stream_schedule.h"

namespace partita {
namespace {

// One member of a task.
struct Member {
  DeviceId device;
  Stream* stream = nullptr;  // set when the member has enqueued, until all have
  WorkTiming* timing = nullptr;
  const CommunicationArguments* arguments = nullptr;
  std::vector<StreamRound> rounds;
  // By barrier: for members that reach this one, and for those that do not.
  std::vector<std::unique_ptr<Event>> events;
  std::vector<HostSignal> signals;
  std::vector<bool> reached_by;  // by rank
};

struct Group {
  std::optional<StreamSchedule> plan;
  std::vector<Member> members;  // by rank
  size_t here = 0;              // members that have enqueued
  int64_t runs = 0;             // so far: the round of events and signals
  std::vector<void*> planned;   // the addresses that the moves are made for
};

class StreamCommunicator : public Communicator {
 public:
  explicit StreamCommunicator(int devices)
      : received_(static_cast<size_t>(devices)),
        wanted_(static_cast<size_t>(devices)),
        memory_(static_cast<size_t>(devices)) {}

  absl::Status Prepare(std::span<const Task* const> tasks,
                       std::span<BackendDevice* const> devices) override {
    std::vector<StreamMemory> wanted = wanted_;
    for (const Task* task : tasks) {
      Group& group = groups_[task->id] = Group{};
      ASSIGN_OR_RETURN(group.plan, StreamSchedule::Create(*task, devices));
      const std::vector<StreamMemory> by_rank = group.plan->WantedMemory();
      for (size_t r = 0; r < by_rank.size(); ++r) {
        wanted[group.plan->members()[r].index()].Enlarge(by_rank[r]);
      }
      RETURN_IF_ERROR(PrepareMembers(group, devices));
    }
    return AllocateMemory(wanted, devices);
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

  // Signals are set by the host, and count the steps.
  bool EnqueuesTheSame() const override { return signals_.empty(); }

  // The devices release the threads that wait for events.
  void Abort(const absl::Status&) override {
    for (auto& [id, group] : groups_) {
      for (Member& member : group.members) {
        for (HostSignal& signal : member.signals) signal.Release();
      }
    }
  }

  std::vector<Bytes> BytesReceived() const override { return received_; }

 private:
  // Of one device.
  struct Memory {
    std::unique_ptr<DeviceMemory> device, host;
    StreamPlaces places;
  };

  // Before every round, after what it keeps apart, and at the end.
  static size_t Barriers(const Group& group) { return 2 * group.plan->rounds() + 1; }

  absl::Status PrepareMembers(Group& group, std::span<BackendDevice* const> devices) {
    for (DeviceId device : group.plan->members()) {
      Member& member = group.members.emplace_back();
      member.device = device;
      BackendDevice& own = *devices[device.index()];
      for (DeviceId other : group.plan->members()) {
        member.reached_by.push_back(devices[other.index()]->Reaches(own));
      }
      for (size_t k = 0; k < Barriers(group); ++k) member.events.push_back(own.NewEvent());
      const bool signals = std::find(member.reached_by.begin(), member.reached_by.end(), false) !=
                           member.reached_by.end();
      if (signals) RETURN_IF_ERROR(PrepareSignals(Barriers(group), devices, member));
    }
    return absl::OkStatus();
  }

  absl::Status PrepareSignals(size_t count, std::span<BackendDevice* const> devices,
                              Member& member) {
    ASSIGN_OR_RETURN(signals_.emplace_back(),
                     AllocateShared(static_cast<int64_t>(count * sizeof(int64_t)), devices));
    auto* words = static_cast<int64_t*>(signals_.back()->data());
    for (size_t k = 0; k < count; ++k) member.signals.emplace_back(words + k);
    return absl::OkStatus();
  }

  // Host memory for all devices: of the first whose memory is not the host's own, if there is one.
  static absl::StatusOr<std::unique_ptr<DeviceMemory>> AllocateShared(
      int64_t bytes, std::span<BackendDevice* const> devices) {
    const auto apart = std::find_if(devices.begin(), devices.end(),
                                    [](BackendDevice* d) { return !d->HostAddressable(); });
    return (apart == devices.end() ? devices[0] : *apart)->AllocateHost(bytes);
  }

  absl::Status AllocateMemory(const std::vector<StreamMemory>& wanted,
                              std::span<BackendDevice* const> devices) {
    for (size_t d = 0; d < devices.size(); ++d) {
      Memory& memory = memory_[d];
      const int64_t own = wanted[d].assembled + wanted[d].fetched;
      if (own > (memory.device == nullptr ? 0 : memory.device->bytes())) {
        ASSIGN_OR_RETURN(memory.device, devices[d]->Allocate(own));
      }
      if (2 * wanted[d].published > (memory.host == nullptr ? 0 : memory.host->bytes())) {
        ASSIGN_OR_RETURN(memory.host, AllocateShared(2 * wanted[d].published, devices));
      }
      if (memory.device != nullptr) {
        memory.places.assembled = static_cast<char*>(memory.device->data());
        memory.places.fetched = memory.places.assembled + wanted[d].assembled;
      }
      if (memory.host != nullptr) {
        memory.places.published[0] = static_cast<char*>(memory.host->data());
        memory.places.published[1] = memory.places.published[0] + wanted[d].published;
      }
    }
    wanted_ = wanted;
    for (auto& [id, group] : groups_) group.planned.clear();
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

  void Plan(Group& group) const {
    std::vector<const CommunicationArguments*> arguments;
    std::vector<StreamPlaces> places;
    for (const Member& member : group.members) {
      arguments.push_back(member.arguments);
      places.push_back(memory_[member.device.index()].places);
    }
    auto moves = group.plan->MovesFor(arguments, places);
    for (size_t r = 0; r < moves.size(); ++r) group.members[r].rounds = std::move(moves[r]);
  }

  void EnqueueAll(Group& group, int64_t round) {
    size_t barrier = 0;
    for (Member& member : group.members) {
      if (member.timing != nullptr) member.stream->Stamp(&member.timing->start_ns);
    }
    for (size_t k = 0; k < group.plan->rounds(); ++k) {
      for (Member& member : group.members) {
        for (const auto& move : member.rounds[k].publish) member.stream->CopyToHost(move, nullptr);
      }
      Meet(group, barrier++, round);
      for (Member& member : group.members) {
        for (const auto& move : member.rounds[k].fetch) member.stream->CopyFromHost(move, nullptr);
        RunMoves(member, member.rounds[k].now);
      }
      if (!group.plan->SendsSnapshot(k)) continue;
      Meet(group, barrier++, round);
      for (Member& member : group.members) RunMoves(member, member.rounds[k].commit);
    }
    Meet(group, barrier, round);
    for (size_t r = 0; r < group.members.size(); ++r) {
      Member& member = group.members[r];
      if (member.timing != nullptr) member.stream->Stamp(&member.timing->end_ns);
      Bytes& received = received_[member.device.index()];
      received = Bytes(received.value() + group.plan->BytesReceived(r));
    }
  }

  static void RunMoves(Member& member, const StreamRound::Moves& moves) {
    if (!moves.empty()) member.stream->RunMoves(moves, nullptr);
  }

  // No stream goes on before all are here.
  static void Meet(Group& group, size_t barrier, int64_t round) {
    for (Member& member : group.members) {
      member.stream->Record(*member.events[barrier], round);
      if (!member.signals.empty()) member.stream->Set(member.signals[barrier], round);
    }
    for (size_t r = 0; r < group.members.size(); ++r) {
      Stream& stream = *group.members[r].stream;
      for (size_t other = 0; other < group.members.size(); ++other) {
        Member& awaited = group.members[other];
        if (other == r) continue;
        if (awaited.reached_by[r]) {
          stream.Wait(*awaited.events[barrier], round);
        } else {
          stream.Await(awaited.signals[barrier], round);
        }
      }
    }
  }

  absl::flat_hash_map<TaskId, Group> groups_;
  std::vector<Bytes> received_;
  std::vector<StreamMemory> wanted_;  // by device: what memory_ is made for
  std::vector<Memory> memory_;        // by device
  std::vector<std::unique_ptr<DeviceMemory>> signals_;
};

}  // namespace

std::unique_ptr<Communicator> MakeStreamCommunicator(int devices) {
  return std::make_unique<StreamCommunicator>(devices);
}

}  // namespace partita
