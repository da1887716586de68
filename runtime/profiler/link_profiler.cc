#include "runtime/profiler/link_profiler.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <utility>

#include "graph/collective/collective.h"
#include "graph/support/check.h"
#include "graph/support/clock.h"
#include "graph/support/exceptions.h"
#include "graph/support/median.h"
#include "graph/support/status_macros.h"
#include "graph/support/thread.h"
#include "runtime/profiler/recorded_work.h"

namespace partita {
namespace {

constexpr int64_t kLong = 5'000'000;       // ns beyond which waking threads does not matter
constexpr int64_t kBusyPiece = 20'000;     // ns of work between two looks at the clock
constexpr int64_t kLeastBusy = 2'000'000;  // ns of work concurrent with communication
constexpr int kInARow = 8;

// So many rounds of arithmetic that touches no memory.
absl::Status Compute(int64_t rounds) {
  uint64_t x = 1;
  for (int64_t k = 0; k < rounds; ++k) x = x * 6364136223846793005u + 1442695040888963407u;
  return x == 0 ? absl::InternalError("unreachable") : absl::OkStatus();
}

struct EndDevice {
  std::shared_ptr<const Backend> backend;
  std::unique_ptr<BackendDevice> device;
  std::unique_ptr<Stream> compute, communication;
  std::unique_ptr<Event> ready, done;
};

// One device's side of the task, with memory of its own.
struct Side {
  CommunicationArguments arguments;
  std::unique_ptr<DeviceMemory> memory;
  int64_t bytes = 0;             // of it that this device sends
  Stream::MoveArguments fill{};  // writes them

  void PrepareFill() {
    fill = Stream::FlatMove(MoveSignature::Kind::kFill, DType::kInt32, nullptr, memory->data(),
                            bytes / SizeOf(DType::kInt32));
  }
};

// Lays out slices one after another in memory to come.
class Layout {
 public:
  int64_t Take(int64_t elements, int64_t size) {
    const int64_t offset = bytes_;
    bytes_ += (elements * size + 63) / 64 * 64;
    return offset;
  }
  int64_t bytes() const { return bytes_; }

 private:
  int64_t bytes_ = 0;
};

absl::Status PlaceCollective(const CollectiveTask& task, int rank, BackendDevice& device,
                             Side& side) {
  const int64_t size = SizeOf(task.dtype);
  Layout layout;
  const bool in_place = task.collective.kind != CollectiveKind::kAllToAll;
  const int64_t send = layout.Take(SendElements(task.collective, rank), size);
  side.bytes = SendElements(task.collective, rank) * size;
  const int64_t receive =
      in_place ? send : layout.Take(ReceiveElements(task.collective, rank), size);
  ASSIGN_OR_RETURN(side.memory, device.Allocate(std::max<int64_t>(64, layout.bytes())));
  auto* base = static_cast<char*>(side.memory->data());
  side.arguments.send = {base + send};
  side.arguments.receive = {base + receive};
  return absl::OkStatus();
}

absl::Status PlaceTransfers(const TransferTask& task, DeviceId id, BackendDevice& device,
                            Side& side) {
  const int64_t size = SizeOf(task.dtype);
  Layout layout;
  std::vector<std::pair<int64_t, int64_t>> offsets;  // send, receive; -1: not this device's
  for (const Transfer& t : task.transfers) {
    if (t.from == id) {
      offsets.push_back({layout.Take(t.send.count, size), -1});
      side.bytes = layout.bytes();
    }
  }
  size_t sends = 0;
  std::vector<std::pair<int64_t, int64_t>> own;
  for (const Transfer& t : task.transfers) {
    if (t.from != id && t.to != id) continue;
    const int64_t send = t.from == id ? offsets[sends++].first : -1;
    own.push_back({send, t.to == id ? layout.Take(t.receive.count, size) : -1});
  }
  ASSIGN_OR_RETURN(side.memory, device.Allocate(std::max<int64_t>(64, layout.bytes())));
  auto* base = static_cast<char*>(side.memory->data());
  for (const auto& [send, receive] : own) {
    side.arguments.send.push_back(send < 0 ? nullptr : base + send);
    side.arguments.receive.push_back(receive < 0 ? nullptr : base + receive);
  }
  return absl::OkStatus();
}

class StreamLinkProfiler : public LinkProfiler {
 public:
  explicit StreamLinkProfiler(std::unique_ptr<Communicator> communicator)
      : communicator_(std::move(communicator)) {}

  absl::Status OpenAll(std::span<const PlacedDevice> devices) {
    for (const PlacedDevice& device : devices) {
      EndDevice open{.backend = device.backend};
      ASSIGN_OR_RETURN(open.device, device.Open());
      open.device->OnError([this](const absl::Status& status) { AbortAll(status); });
      ASSIGN_OR_RETURN(open.compute, open.device->NewStream("links", StreamUse::kCompute));
      ASSIGN_OR_RETURN(open.communication,
                       open.device->NewStream("links", StreamUse::kCommunication));
      open.ready = open.device->NewEvent();
      open.done = open.device->NewEvent();
      devices_.push_back(std::move(open));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Measurement> Measure(const TaskBody& body,
                                      const ProfilerOptions& options) override {
    Task& task = tasks_.emplace_back(Task{TaskId(next_task_++), {}, body, {}});
    std::vector<Side> sides;
    for (DeviceId id : DevicesOf(task)) {
      Side& side = sides.emplace_back();
      side.arguments.task = &task;
      side.arguments.device = id;
      BackendDevice& device = *devices_[id.index()].device;
      if (const auto* collective = std::get_if<CollectiveTask>(&task.body)) {
        RETURN_IF_ERROR(
            PlaceCollective(*collective, static_cast<int>(sides.size()) - 1, device, side));
      } else {
        RETURN_IF_ERROR(PlaceTransfers(std::get<TransferTask>(task.body), id, device, side));
      }
      side.PrepareFill();
    }
    const Task* only = &task;
    std::vector<BackendDevice*> devices;
    for (const EndDevice& open : devices_) devices.push_back(open.device.get());
    RETURN_IF_ERROR(communicator_->Prepare(std::span(&only, 1), devices));
    std::vector<Stream*> streams;
    for (const EndDevice& open : devices_) streams.push_back(open.communication.get());
    RETURN_IF_ERROR(communicator_->Connect(streams));
    Measurement result;
    const int64_t begin = SteadyNow();
    for (int k = -1; k < options.samples; ++k) {
      if (k >= options.least_samples && Seconds(begin) > options.seconds) break;
      ASSIGN_OR_RETURN(const int64_t nanos, WaitedFor(sides));
      if (k >= 0) result.uncontended_ns.push_back(nanos);
    }
    const int64_t alone = Median(result.uncontended_ns);
    // Work on the host shows nothing about what communication takes from a GPU.
    const bool on_host = std::all_of(devices_.begin(), devices_.end(), [](const EndDevice& open) {
      return open.device->HostAddressable();
    });
    if (alone >= kLong || !on_host) {
      result.samples_ns = result.uncontended_ns;
      return result;
    }
    RETURN_IF_ERROR(MeasureBeside(sides, alone, options, result));
    return result;
  }

  absl::StatusOr<Measurement> MeasureStep(int tasks, const ProfilerOptions& options) override {
    std::vector<std::unique_ptr<DeviceMemory>> memory;
    std::vector<Stream::MoveArguments> least;  // by device
    for (EndDevice& open : devices_) {
      ASSIGN_OR_RETURN(memory.emplace_back(), open.device->Allocate(SizeOf(DType::kInt32)));
      least.push_back(Stream::FlatMove(MoveSignature::Kind::kFill, DType::kInt32, nullptr,
                                       memory.back()->data(), 1));
    }
    const auto enqueue = [&](size_t d) {
      for (int t = 0; t < tasks; ++t) EnqueueLeast(devices_[d], least[d]);
    };
    std::vector<std::unique_ptr<StreamRecording>> recordings;  // by device; null: none is made
    for (size_t d = 0; d < devices_.size(); ++d) {
      ASSIGN_OR_RETURN(recordings.emplace_back(),
                       RecordWork(*devices_[d].backend, *devices_[d].compute, [&] { enqueue(d); }));
    }
    Measurement result;
    for (int k = -1; k < options.samples; ++k) {
      const int64_t begin = SteadyNow();
      absl::Status status;
      status.Update(Catching([&] {
        for (size_t d = 0; d < devices_.size(); ++d) {
          if (recordings[d] == nullptr) {
            enqueue(d);
          } else {
            status.Update(recordings[d]->Run({}));
          }
        }
      }));
      status.Update(Synchronize());
      RETURN_IF_ERROR(status);
      if (k >= 0) result.samples_ns.push_back(std::max<int64_t>(1, SteadyNow() - begin));
    }
    return result;
  }

 private:
  static double Seconds(int64_t begin) { return static_cast<double>(SteadyNow() - begin) * 1e-9; }

  absl::Status Synchronize() {
    absl::Status status;
    for (EndDevice& open : devices_) {
      status.Update(open.compute->Synchronize());
      status.Update(open.communication->Synchronize());
    }
    return status;
  }

  // A task that does nothing, or, where calls of the host are not what tasks are, next to nothing.
  static void EnqueueLeast(EndDevice& open, const Stream::MoveArguments& least) {
    if (open.device->HostAddressable()) {
      open.compute->HostCall([] { return absl::OkStatus(); }, nullptr);
    } else {
      open.compute->RunMoves({&least, 1}, nullptr);
    }
  }

  void AbortAll(const absl::Status& status) {
    communicator_->Abort(status);
    for (EndDevice& open : devices_) open.device->Abort(status);
  }

  // Calls enqueue(number of a side) for each side, and waits for the work. What is thrown out of
  // there, or a thread that is refused, ends the work that was given: it would wait for ever.
  // `meet`: sides may wait for each other in there.
  absl::Status RunSides(const std::vector<Side>& sides, bool meet,
                        const std::function<void(size_t)>& enqueue) {
    absl::Status enqueued;
    if (meet && sides.size() > 1) {
      enqueued = EnqueueFromThreads(sides.size(), enqueue);
    } else {
      enqueued = Catching([&] {
        for (size_t k = 0; k < sides.size(); ++k) enqueue(k);
      });
      if (!enqueued.ok()) AbortAll(enqueued);
    }
    absl::Status status = Synchronize();
    status.Update(enqueued);
    return status;
  }

  absl::Status EnqueueFromThreads(size_t count, const std::function<void(size_t)>& enqueue) {
    std::vector<Thread> threads(count);
    for (size_t k = 0; k < count; ++k) {
      absl::StatusOr<Thread> thread = Thread::Start(
          "giving work to a device", [&enqueue, k] { enqueue(k); },
          [this](const absl::Status& status) { AbortAll(status); });
      if (!thread.ok()) {
        AbortAll(thread.status());
        return thread.status();
      }
      threads[k] = *std::move(thread);
    }
    return absl::OkStatus();
  }

  // One run for which the compute streams wait.
  absl::StatusOr<int64_t> WaitedFor(std::vector<Side>& sides) {
    ++round_;
    std::vector<WorkTiming> before(sides.size());
    std::vector<int64_t> after(sides.size());
    const int64_t busy = 5 * RoundsPerPiece();
    RETURN_IF_ERROR(RunSides(sides, communicator_->EnqueueMeetsPeers(), [&](size_t k) {
      Side& side = sides[k];
      EndDevice& open = devices_[side.arguments.device.index()];
      // Long enough for all devices to have been given theirs before the first is ready.
      open.compute->HostCall([busy] { return Compute(busy); }, nullptr);
      open.compute->RunMoves({&side.fill, 1}, &before[k]);
      open.compute->Record(*open.ready, round_);
      open.communication->Wait(*open.ready, round_);
      communicator_->Enqueue(side.arguments, round_, *open.communication, nullptr);
      open.communication->Record(*open.done, round_);
      open.compute->Wait(*open.done, round_);
      open.compute->Stamp(&after[k]);
    }));
    int64_t start = 0, end = 0;
    for (size_t k = 0; k < sides.size(); ++k) {
      start = std::max(start, before[k].end_ns);
      end = std::max(end, after[k]);
    }
    return std::max<int64_t>(1, end - start);
  }

  // How long the compute streams take for `pieces` of work, with `runs` of communication concurrent
  // with it; until both have ended.
  absl::StatusOr<int64_t> Busy(std::vector<Side>& sides, int64_t pieces, int runs) {
    const int64_t rounds = RoundsPerPiece();
    const int64_t begin = SteadyNow();
    RETURN_IF_ERROR(RunSides(sides, /*meet=*/false, [&](size_t k) {
      EndDevice& open = devices_[sides[k].arguments.device.index()];
      for (int r = 0; r < runs; ++r) {
        communicator_->Enqueue(sides[k].arguments, ++round_, *open.communication, nullptr);
      }
      for (int64_t p = 0; p < pieces; ++p) {
        open.compute->HostCall([rounds] { return Compute(rounds); }, nullptr);
      }
    }));
    return SteadyNow() - begin;
  }

  absl::Status MeasureBeside(std::vector<Side>& sides, int64_t alone,
                             const ProfilerOptions& options, Measurement& result) {
    const int64_t pieces = std::max(kLeastBusy, 2 * kInARow * alone) / kBusyPiece;
    const int64_t begin = SteadyNow();
    for (int k = 0; k < options.samples; ++k) {
      if (k >= options.least_samples && Seconds(begin) > options.seconds) break;
      ASSIGN_OR_RETURN(const int64_t without, Busy(sides, pieces, 0));
      ASSIGN_OR_RETURN(const int64_t with, Busy(sides, pieces, kInARow));
      result.samples_ns.push_back(std::max<int64_t>(1, (with - without) / kInARow));
    }
    return absl::OkStatus();
  }

  // Rounds of arithmetic that take kBusyPiece; measured at first use.
  int64_t RoundsPerPiece() {
    if (rounds_per_piece_ > 0) return rounds_per_piece_;
    constexpr int64_t kTrial = 100'000;
    int64_t best = int64_t{1} << 60;
    for (int k = 0; k < 5; ++k) {
      const int64_t begin = SteadyNow();
      CHECK(Compute(kTrial).ok());
      best = std::min(best, std::max<int64_t>(1, SteadyNow() - begin));
    }
    rounds_per_piece_ = std::max<int64_t>(1, kTrial * kBusyPiece / best);
    return rounds_per_piece_;
  }

  std::unique_ptr<Communicator> communicator_;
  std::deque<Task> tasks_;  // the communicator keeps their addresses
  int32_t next_task_ = 0;
  int64_t round_ = 0;
  int64_t rounds_per_piece_ = 0;
  std::vector<EndDevice> devices_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LinkProfiler>> LinkProfiler::Open(
    std::span<const PlacedDevice> devices, std::unique_ptr<Communicator> communicator) {
  auto profiler = std::make_unique<StreamLinkProfiler>(std::move(communicator));
  RETURN_IF_ERROR(profiler->OpenAll(devices));
  return profiler;
}

}  // namespace partita
