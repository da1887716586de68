#include "runtime/comm/staged_communicator.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "graph/support/aligned.h"
#include "graph/support/status_macros.h"

namespace partita {
namespace {

// Elements of one of a rank's buffers: CommunicationArguments::send[slot] or receive[slot].
struct SlotRange {
  size_t slot = 0;
  ElementRange elements;
};

// A device's side of one task in host memory.
struct Side {
  CommunicationArguments arguments;  // with host addresses
  DType dtype = DType::kFloat32;
  std::vector<SlotRange> sent, received;     // what has to be copied
  std::vector<int64_t> send_at, receive_at;  // bytes from the start of the host memory; -1: null
  int64_t bytes = 0;

  // Room for so many elements after what is taken.
  int64_t Take(int64_t elements) {
    return std::exchange(bytes, bytes + Aligned(elements * SizeOf(dtype)));
  }
};

void LayOut(const CollectiveTask& task, DeviceId device, Side& side) {
  side.dtype = task.dtype;
  const auto at = std::find(task.group.begin(), task.group.end(), device);
  const auto own = static_cast<size_t>(at - task.group.begin());
  const Collective& c = task.collective;
  const bool in_place = c.kind != CollectiveKind::kAllToAll;
  const bool gathers = c.kind == CollectiveKind::kAllGather;
  const bool scatters = c.kind == CollectiveKind::kReduceScatter;
  for (size_t k = 0; k < task.slices(); ++k) {
    const ElementRange all_sent{0, ElementsSent(task, own, k)};
    const ElementRange all_received{0, ElementsToReceive(task, own, k)};
    side.sent.push_back({k, gathers ? c.blocks[own] : all_sent});
    side.received.push_back({k, scatters ? c.blocks[own] : all_received});
    side.send_at.push_back(side.Take(all_sent.count));
    side.receive_at.push_back(in_place ? side.send_at[k] : side.Take(all_received.count));
  }
}

void LayOut(const TransferTask& task, DeviceId device, Side& side) {
  side.dtype = task.dtype;
  for (const Transfer& transfer : task.transfers) {
    const bool sends = transfer.from == device, receives = transfer.to == device;
    if (!sends && !receives) continue;
    const size_t slot = side.send_at.size();
    const ElementRange elements{0, transfer.receive.count};
    side.send_at.push_back(sends ? side.Take(elements.count) : -1);
    side.receive_at.push_back(receives ? side.Take(elements.count) : -1);
    if (sends) side.sent.push_back({slot, elements});
    if (receives) side.received.push_back({slot, elements});
  }
}

std::vector<void*> AddressesOf(const std::vector<int64_t>& places, void* memory) {
  std::vector<void*> addresses;
  for (int64_t at : places) {
    addresses.push_back(at < 0 ? nullptr : static_cast<char*>(memory) + at);
  }
  return addresses;
}

// One that is not the host's: what it sends and receives passes through host memory.
struct StagedDevice {
  std::unique_ptr<DeviceMemory> memory;
  absl::flat_hash_map<TaskId, std::unique_ptr<Side>> sides;
};

class StagedCommunicator : public Communicator {
 public:
  explicit StagedCommunicator(std::unique_ptr<Communicator> inner) : inner_(std::move(inner)) {}

  absl::Status Prepare(std::span<const Task* const> tasks,
                       std::span<BackendDevice* const> devices) override {
    for (size_t d = 0; d < devices.size(); ++d) {
      if (devices[d] == nullptr || devices[d]->HostAddressable()) continue;
      RETURN_IF_ERROR(PrepareDevice(tasks, DeviceId(static_cast<int>(d)), *devices[d]));
    }
    return inner_->Prepare(tasks, devices);
  }
  absl::Status Connect(std::span<Stream* const> streams) override {
    return inner_->Connect(streams);
  }
  bool EnqueueMeetsPeers() const override { return inner_->EnqueueMeetsPeers(); }

  void Enqueue(const CommunicationArguments& arguments, int64_t round, Stream& stream,
               WorkTiming* timing) override {
    const auto device = devices_.find(arguments.device);
    if (device == devices_.end()) return inner_->Enqueue(arguments, round, stream, timing);
    const Side& side = *device->second.sides.at(arguments.task->id);
    if (timing != nullptr) stream.Stamp(&timing->start_ns);
    for (const SlotRange& range : side.sent) {
      const auto move = CopyOf(side, range, arguments.send, side.arguments.send);
      if (!move.region.empty()) stream.CopyToHost(move, nullptr);
    }
    inner_->Enqueue(side.arguments, round, stream, nullptr);
    for (const SlotRange& range : side.received) {
      const auto move = CopyOf(side, range, side.arguments.receive, arguments.receive);
      if (!move.region.empty()) stream.CopyFromHost(move, nullptr);
    }
    if (timing != nullptr) stream.Stamp(&timing->end_ns);
  }

  absl::Status AsynchronousError() override { return inner_->AsynchronousError(); }
  void Abort(const absl::Status& reason) override { inner_->Abort(reason); }
  std::vector<Bytes> BytesReceived() const override { return inner_->BytesReceived(); }

 private:
  // Tasks of one stream follow each other, so all use the same memory.
  absl::Status PrepareDevice(std::span<const Task* const> tasks, DeviceId id,
                             BackendDevice& device) {
    StagedDevice& staged = devices_[id];
    int64_t bytes = staged.memory == nullptr ? 0 : staged.memory->bytes();
    for (const Task* task : tasks) {
      const std::vector<DeviceId> members = DevicesOf(*task);
      if (std::find(members.begin(), members.end(), id) == members.end()) continue;
      auto side = std::make_unique<Side>();
      if (const auto* collective = std::get_if<CollectiveTask>(&task->body)) {
        LayOut(*collective, id, *side);
      } else {
        LayOut(std::get<TransferTask>(task->body), id, *side);
      }
      side->arguments.task = task;
      side->arguments.device = id;
      bytes = std::max(bytes, side->bytes);
      staged.sides[task->id] = std::move(side);
    }
    if (staged.memory == nullptr || bytes > staged.memory->bytes()) {
      ASSIGN_OR_RETURN(staged.memory, device.AllocateHost(bytes));
    }
    for (auto& [task, side] : staged.sides) {
      side->arguments.send = AddressesOf(side->send_at, staged.memory->data());
      side->arguments.receive = AddressesOf(side->receive_at, staged.memory->data());
    }
    return absl::OkStatus();
  }

  static Stream::MoveArguments CopyOf(const Side& side, const SlotRange& range,
                                      const std::vector<void*>& from,
                                      const std::vector<void*>& to) {
    const int64_t offset = range.elements.offset * SizeOf(side.dtype);
    return Stream::FlatMove(MoveSignature::Kind::kCopy, side.dtype,
                            static_cast<const char*>(from[range.slot]) + offset,
                            static_cast<char*>(to[range.slot]) + offset, range.elements.count);
  }

  std::unique_ptr<Communicator> inner_;
  absl::flat_hash_map<DeviceId, StagedDevice> devices_;
};

}  // namespace

std::unique_ptr<Communicator> MakeStagedCommunicator(std::unique_ptr<Communicator> inner) {
  return std::make_unique<StagedCommunicator>(std::move(inner));
}

}  // namespace partita
