#include "tests/testing/far_memory_backend.h"

#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/support/check.h"
#include "graph/support/status_macros.h"

namespace partita {
namespace {

// Addresses of devices: the process's own, or with a bit that no address of a process has: to use
// one that does is a fault.
class Addresses {
 public:
  explicit Addresses(bool are_far) : bit_(are_far ? uintptr_t{1} << 62 : 0) {}
  bool IsFar(const void* address) const {
    return (reinterpret_cast<uintptr_t>(address) & bit_) != 0;
  }
  void* Far(void* address) const {
    if (address == nullptr) return nullptr;
    return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(address) | bit_);
  }
  template <class T>
  T* Near(T* address) const {
    if (address == nullptr) return nullptr;
    CHECK(bit_ == 0 || IsFar(address)) << "an address that is not the device's";
    return reinterpret_cast<T*>(reinterpret_cast<uintptr_t>(address) & ~bit_);
  }

 private:
  uintptr_t bit_;
};

class FarMemory : public DeviceMemory {
 public:
  FarMemory(std::unique_ptr<DeviceMemory> inner, Addresses addresses)
      : DeviceMemory(addresses.Far(inner->data()), inner->bytes()), inner_(std::move(inner)) {}

 private:
  std::unique_ptr<DeviceMemory> inner_;
};

// Host memory that was allocated through a device, by its end: what may be read later than asked.
class HostRanges {
 public:
  void Add(const DeviceMemory& memory) {
    const std::lock_guard lock(mutex_);
    begin_of_[End(memory)] = static_cast<const char*>(memory.data());
  }
  void Remove(const DeviceMemory& memory) {
    const std::lock_guard lock(mutex_);
    begin_of_.erase(End(memory));
  }
  bool Contain(const void* address) const {
    const std::lock_guard lock(mutex_);
    const auto found = begin_of_.upper_bound(static_cast<const char*>(address));
    return found != begin_of_.end() && found->second <= address;
  }

 private:
  static const char* End(const DeviceMemory& memory) {
    return static_cast<const char*>(memory.data()) + memory.bytes();
  }
  mutable std::mutex mutex_;
  std::map<const char*, const char*> begin_of_;
};

class HostMemoryOfDevice : public DeviceMemory {
 public:
  HostMemoryOfDevice(std::unique_ptr<DeviceMemory> inner, std::shared_ptr<HostRanges> ranges)
      : DeviceMemory(inner->data(), inner->bytes()),
        inner_(std::move(inner)),
        ranges_(std::move(ranges)) {
    ranges_->Add(*inner_);
  }
  ~HostMemoryOfDevice() override { ranges_->Remove(*inner_); }

 private:
  const std::unique_ptr<DeviceMemory> inner_;
  const std::shared_ptr<HostRanges> ranges_;
};

class FarEvent;

// Work of several streams as one. Its events are its own: those that it was recorded with are not
// touched when it runs.
struct FarGraph {
  using Node = std::function<void(const StepArguments& arguments, int64_t run)>;
  std::vector<Node> nodes;
  std::map<const FarEvent*, std::unique_ptr<Event>> events;
  absl::Status status;  // the first reason why something is not in it; the rest is skipped then
};

class FarEvent : public Event {
 public:
  FarEvent(std::unique_ptr<Event> inner, int island) : inner_(std::move(inner)), island_(island) {}
  Event& For(int island) const {
    CHECK_EQ(island, island_) << "an event of a device that is not reached";
    return *inner_;
  }
  // Whether it was last recorded as part of a graph: nobody outside may wait for that.
  bool in_graph = false;

 private:
  std::unique_ptr<Event> inner_;
  const int island_;
};

// Place of a device.
struct Island {
  int number = 0;
  Addresses addresses;
  std::shared_ptr<HostRanges> ranges;
};

class FarStream : public Stream {
 public:
  FarStream(std::unique_ptr<Stream> inner, BackendDevice& device, const Island& island)
      : inner_(std::move(inner)),
        device_(device),
        island_(island.number),
        addresses_(island.addresses),
        ranges_(island.ranges) {}

  void Launch(const Kernel& kernel, const KernelArguments& arguments, void* scratch,
              WorkTiming* timing) override {
    if (graph_ != nullptr) {
      return AddToGraph([this, &kernel, timing, near = NearLaunch(arguments),
                         scratch = addresses_.Near(scratch)](const StepArguments& step, int64_t) {
        near->arguments.step = step;
        inner_->Launch(kernel, near->arguments, scratch, timing);
      });
    }
    launches_.push_back(NearLaunch(arguments));
    inner_->Launch(kernel, launches_.back()->arguments, addresses_.Near(scratch), timing);
  }
  void RunMoves(std::span<const MoveArguments> moves, WorkTiming* timing) override {
    auto near = std::make_shared<std::vector<MoveArguments>>(moves.begin(), moves.end());
    for (MoveArguments& move : *near) {
      move.from = addresses_.Near(move.from);
      move.to = addresses_.Near(move.to);
    }
    if (graph_ != nullptr) {
      return AddToGraph(
          [this, near, timing](const StepArguments&, int64_t) { inner_->RunMoves(*near, timing); });
    }
    moves_.push_back(near);
    inner_->RunMoves(*near, timing);
  }
  void CopyFromHost(const MoveArguments& move, WorkTiming* timing) override {
    CHECK(!addresses_.IsFar(move.from)) << "not host memory";
    MoveArguments near = move;
    near.to = addresses_.Near(move.to);
    if (graph_ == nullptr) return inner_->CopyFromHost(near, timing);
    if (!ranges_->Contain(move.from)) return Refuse("a copy from host memory that is not pinned");
    AddToGraph([this, near, timing](const StepArguments&, int64_t) {
      inner_->CopyFromHost(near, timing);
    });
  }
  void CopyToHost(const MoveArguments& move, WorkTiming* timing) override {
    CHECK(!addresses_.IsFar(move.to)) << "not host memory";
    if (graph_ != nullptr) return Refuse("a copy to the host");
    MoveArguments near = move;
    near.from = addresses_.Near(move.from);
    inner_->CopyToHost(near, timing);
  }
  void CheckFinite(DType dtype, const void* data, int64_t count,
                   std::function<absl::Status()> error) override {
    if (graph_ != nullptr) return Refuse("a check of finite values");
    inner_->CheckFinite(dtype, addresses_.Near(data), count, std::move(error));
  }
  void Stamp(int64_t* ns) override {
    if (graph_ == nullptr) return inner_->Stamp(ns);
    AddToGraph([this, ns](const StepArguments&, int64_t) { inner_->Stamp(ns); });
  }
  void Record(Event& event, int64_t round) override {
    auto& far = dynamic_cast<FarEvent&>(event);
    far.in_graph = graph_ != nullptr;
    if (graph_ == nullptr) return inner_->Record(far.For(island_), round);
    auto& own = graph_->events[&far];
    if (own == nullptr) own = device_.NewEvent();
    AddToGraph(
        [this, own = own.get()](const StepArguments&, int64_t run) { inner_->Record(*own, run); });
  }
  void Wait(Event& event, int64_t round) override {
    auto& far = dynamic_cast<FarEvent&>(event);
    if (graph_ == nullptr) {
      CHECK(!far.in_graph) << "a wait for an event that was recorded in a graph";
      return inner_->Wait(far.For(island_), round);
    }
    const auto own = graph_->events.find(&far);
    if (own == graph_->events.end()) return Refuse("a wait for work outside of it");
    AddToGraph([this, own = own->second.get()](const StepArguments&, int64_t run) {
      inner_->Wait(*own, run);
    });
  }
  void Set(HostSignal& signal, int64_t round) override {
    if (graph_ != nullptr) return Refuse("a signal");
    inner_->Set(signal, round);
  }
  void Await(HostSignal& signal, int64_t round) override {
    if (graph_ != nullptr) return Refuse("a wait for a signal");
    inner_->Await(signal, round);
  }
  void HostCall(std::function<absl::Status()> call, WorkTiming* timing) override {
    if (graph_ != nullptr) return Refuse("a call of the host");
    inner_->HostCall(std::move(call), timing);
  }
  void EnqueueNative(std::function<absl::Status(void*)> call, WorkTiming* timing) override {
    if (graph_ == nullptr) return inner_->EnqueueNative(std::move(call), timing);
    // A library for GPUs would put what the graph is to do onto the stream; one for host memory does
    // it when it is called.
    AddToGraph([this, call, timing](const StepArguments&, int64_t) {
      inner_->EnqueueNative(call, timing);
    });
  }
  absl::Status Synchronize() override {
    const absl::Status status = inner_->Synchronize();
    launches_.clear();
    moves_.clear();
    return status;
  }
  int64_t completed() const override { return inner_->completed(); }
  std::string Describe() const override { return inner_->Describe(); }

  // Null: no more.
  void RecordInto(FarGraph* graph) { graph_ = graph; }
  Stream& inner() const { return *inner_; }
  BackendDevice& device() const { return device_; }

 private:
  // A launch at addresses that the inner stream can use.
  struct NearArguments {
    KernelArguments arguments;
    std::vector<TensorArgument> inputs, outputs;
  };
  std::shared_ptr<NearArguments> NearLaunch(const KernelArguments& arguments) const {
    auto near = std::make_shared<NearArguments>();
    near->arguments = arguments;
    near->inputs.assign(arguments.inputs.begin(), arguments.inputs.end());
    near->outputs.assign(arguments.outputs.begin(), arguments.outputs.end());
    for (auto* list : {&near->inputs, &near->outputs}) {
      for (TensorArgument& argument : *list) argument.data = addresses_.Near(argument.data);
    }
    near->arguments.inputs = near->inputs;
    near->arguments.outputs = near->outputs;
    return near;
  }

  void AddToGraph(FarGraph::Node node) {
    if (graph_->status.ok()) graph_->nodes.push_back(std::move(node));
  }
  void Refuse(const char* what) {
    graph_->status.Update(
        absl::UnimplementedError(absl::StrCat(what, " cannot be part of a recorded step")));
  }

  std::unique_ptr<Stream> inner_;
  BackendDevice& device_;
  const int island_;
  const Addresses addresses_;
  const std::shared_ptr<const HostRanges> ranges_;
  FarGraph* graph_ = nullptr;  // while work is recorded
  // What the inner stream may still have to run.
  std::deque<std::shared_ptr<NearArguments>> launches_;
  std::deque<std::shared_ptr<std::vector<MoveArguments>>> moves_;
};

// As a CUDA graph: it begins when all streams have come so far, and they go on when it has ended.
class FarRecording : public StreamRecording {
 public:
  explicit FarRecording(std::span<Stream* const> streams) {
    for (Stream* stream : streams) streams_.push_back(&dynamic_cast<FarStream&>(*stream));
  }

  absl::Status Begin() override {
    for (FarStream* stream : streams_) {
      stream->RecordInto(&graph_);
      events_.push_back(stream->device().NewEvent());
    }
    return absl::OkStatus();
  }
  absl::Status End() override {
    for (FarStream* stream : streams_) stream->RecordInto(nullptr);
    return graph_.status;
  }
  absl::Status Run(const StepArguments& arguments) override {
    Meet(2 * ++runs_);
    for (const FarGraph::Node& node : graph_.nodes) node(arguments, runs_);
    Meet(2 * runs_ + 1);
    return absl::OkStatus();
  }

 private:
  void Meet(int64_t round) {
    Stream& first = streams_[0]->inner();
    for (size_t k = 1; k < streams_.size(); ++k) {
      streams_[k]->inner().Record(*events_[k], round);
      first.Wait(*events_[k], round);
    }
    first.Record(*events_[0], round);
    for (size_t k = 1; k < streams_.size(); ++k) streams_[k]->inner().Wait(*events_[0], round);
  }

  std::vector<FarStream*> streams_;
  std::vector<std::unique_ptr<Event>> events_;  // by stream
  FarGraph graph_;
  int64_t runs_ = 0;
};

class FarDevice : public BackendDevice {
 public:
  FarDevice(std::unique_ptr<BackendDevice> inner, Island island)
      : inner_(std::move(inner)), island_(std::move(island)) {}

  absl::StatusOr<std::unique_ptr<DeviceMemory>> Allocate(int64_t bytes) override {
    ASSIGN_OR_RETURN(auto memory, inner_->Allocate(bytes));
    return std::make_unique<FarMemory>(std::move(memory), island_.addresses);
  }
  absl::StatusOr<std::unique_ptr<DeviceMemory>> AllocateHost(int64_t bytes) override {
    ASSIGN_OR_RETURN(auto memory, inner_->Allocate(bytes));
    return std::make_unique<HostMemoryOfDevice>(std::move(memory), island_.ranges);
  }
  bool HostAddressable() const override { return false; }
  bool Reaches(const BackendDevice& other) const override {
    const auto* far = dynamic_cast<const FarDevice*>(&other);
    return far != nullptr && far->island_.number == island_.number;
  }
  absl::StatusOr<std::unique_ptr<Stream>> NewStream(const std::string& name,
                                                    StreamUse use) override {
    ASSIGN_OR_RETURN(auto stream, inner_->NewStream(name, use));
    return std::make_unique<FarStream>(std::move(stream), *inner_, island_);
  }
  std::unique_ptr<Event> NewEvent() override {
    return std::make_unique<FarEvent>(inner_->NewEvent(), island_.number);
  }
  absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelSignature& signature) override {
    return inner_->Prepare(signature);
  }
  int64_t NativeBytes(const TensorType& type) const override { return inner_->NativeBytes(type); }
  void OnError(std::function<void(const absl::Status&)> report) override {
    inner_->OnError(std::move(report));
  }
  void Abort(const absl::Status& reason) override { inner_->Abort(reason); }

 private:
  std::unique_ptr<BackendDevice> inner_;
  const Island island_;
};

class FarBackend : public Backend {
 public:
  FarBackend(std::shared_ptr<const Backend> inner, std::string name, bool is_far)
      : inner_(std::move(inner)), name_(std::move(name)), addresses_(is_far) {}
  std::string name() const override { return name_; }
  absl::Status Available() const override { return inner_->Available(); }
  bool RunsOnHost() const override { return false; }
  absl::StatusOr<std::unique_ptr<BackendDevice>> Open(const DeviceSpec& spec) const override {
    ASSIGN_OR_RETURN(auto device, inner_->Open(spec));
    return std::make_unique<FarDevice>(std::move(device), Island{spec.index, addresses_, ranges_});
  }
  std::unique_ptr<StreamRecording> NewRecording(std::span<Stream* const> streams) const override {
    return std::make_unique<FarRecording>(streams);
  }

 private:
  std::shared_ptr<const Backend> inner_;
  const std::string name_;
  const Addresses addresses_;
  const std::shared_ptr<HostRanges> ranges_ = std::make_shared<HostRanges>();
};

}  // namespace

std::shared_ptr<const Backend> FarMemoryBackend(std::shared_ptr<const Backend> inner) {
  std::string name = inner->name() + " in far memory";
  return std::make_shared<FarBackend>(std::move(inner), std::move(name), true);
}

std::shared_ptr<const Backend> RecordingBackend(std::shared_ptr<const Backend> inner) {
  std::string name = inner->name() + " that records";
  return std::make_shared<FarBackend>(std::move(inner), std::move(name), false);
}

}  // namespace partita
