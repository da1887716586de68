#include "tests/testing/far_memory_backend.h"

#include <deque>
#include <utility>

#include "graph/support/check.h"
#include "graph/support/status_macros.h"

namespace partita {
namespace {

// No address of a process has this bit: to use one that does is a fault.
constexpr uintptr_t kFar = uintptr_t{1} << 62;

bool IsFar(const void* address) { return (reinterpret_cast<uintptr_t>(address) & kFar) != 0; }

void* Far(void* address) {
  if (address == nullptr) return nullptr;
  return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(address) | kFar);
}

template <class T>
T* Near(T* address) {
  if (address == nullptr) return nullptr;
  CHECK(IsFar(address)) << "an address that is not the device's";
  return reinterpret_cast<T*>(reinterpret_cast<uintptr_t>(address) & ~kFar);
}

class FarMemory : public DeviceMemory {
 public:
  explicit FarMemory(std::unique_ptr<DeviceMemory> inner)
      : DeviceMemory(Far(inner->data()), inner->bytes()), inner_(std::move(inner)) {}

 private:
  std::unique_ptr<DeviceMemory> inner_;
};

class FarEvent : public Event {
 public:
  FarEvent(std::unique_ptr<Event> inner, int island) : inner_(std::move(inner)), island_(island) {}
  Event& For(int island) const {
    CHECK_EQ(island, island_) << "an event of a device that is not reached";
    return *inner_;
  }

 private:
  std::unique_ptr<Event> inner_;
  const int island_;
};

class FarStream : public Stream {
 public:
  FarStream(std::unique_ptr<Stream> inner, int island)
      : inner_(std::move(inner)), island_(island) {}

  void Launch(const Kernel& kernel, const KernelArguments& arguments, void* scratch,
              WorkTiming* timing) override {
    KernelArguments near = arguments;
    near.inputs = Kept(arguments.inputs);
    near.outputs = Kept(arguments.outputs);
    inner_->Launch(kernel, near, Near(scratch), timing);
  }
  void RunMoves(std::span<const MoveArguments> moves, WorkTiming* timing) override {
    auto& near = moves_.emplace_back(moves.begin(), moves.end());
    for (MoveArguments& move : near) {
      move.from = Near(move.from);
      move.to = Near(move.to);
    }
    inner_->RunMoves(near, timing);
  }
  void CopyFromHost(const MoveArguments& move, WorkTiming* timing) override {
    CHECK(!IsFar(move.from)) << "not host memory";
    MoveArguments near = move;
    near.to = Near(move.to);
    inner_->CopyFromHost(near, timing);
  }
  void CopyToHost(const MoveArguments& move, WorkTiming* timing) override {
    CHECK(!IsFar(move.to)) << "not host memory";
    MoveArguments near = move;
    near.from = Near(move.from);
    inner_->CopyToHost(near, timing);
  }
  void CheckFinite(DType dtype, const void* data, int64_t count,
                   std::function<absl::Status()> error) override {
    inner_->CheckFinite(dtype, Near(data), count, std::move(error));
  }
  void Stamp(int64_t* ns) override { inner_->Stamp(ns); }
  void Record(Event& event, int64_t round) override {
    inner_->Record(dynamic_cast<FarEvent&>(event).For(island_), round);
  }
  void Wait(Event& event, int64_t round) override {
    inner_->Wait(dynamic_cast<FarEvent&>(event).For(island_), round);
  }
  void Set(HostSignal& signal, int64_t round) override { inner_->Set(signal, round); }
  void Await(HostSignal& signal, int64_t round) override { inner_->Await(signal, round); }
  void HostCall(std::function<absl::Status()> call, WorkTiming* timing) override {
    inner_->HostCall(std::move(call), timing);
  }
  void EnqueueNative(std::function<absl::Status(void*)> call, WorkTiming* timing) override {
    inner_->EnqueueNative(std::move(call), timing);
  }
  absl::Status Synchronize() override {
    const absl::Status status = inner_->Synchronize();
    arguments_.clear();
    moves_.clear();
    return status;
  }
  int64_t completed() const override { return inner_->completed(); }
  std::string Describe() const override { return inner_->Describe(); }

 private:
  std::span<const TensorArgument> Kept(std::span<const TensorArgument> arguments) {
    auto& near = arguments_.emplace_back(arguments.begin(), arguments.end());
    for (TensorArgument& argument : near) argument.data = Near(argument.data);
    return near;
  }

  std::unique_ptr<Stream> inner_;
  const int island_;
  // What the inner stream may still have to run.
  std::deque<std::vector<TensorArgument>> arguments_;
  std::deque<std::vector<MoveArguments>> moves_;
};

class FarDevice : public BackendDevice {
 public:
  FarDevice(std::unique_ptr<BackendDevice> inner, int island)
      : inner_(std::move(inner)), island_(island) {}

  absl::StatusOr<std::unique_ptr<DeviceMemory>> Allocate(int64_t bytes) override {
    ASSIGN_OR_RETURN(auto memory, inner_->Allocate(bytes));
    return std::make_unique<FarMemory>(std::move(memory));
  }
  absl::StatusOr<std::unique_ptr<DeviceMemory>> AllocateHost(int64_t bytes) override {
    return inner_->Allocate(bytes);
  }
  bool HostAddressable() const override { return false; }
  bool Reaches(const BackendDevice& other) const override {
    const auto* far = dynamic_cast<const FarDevice*>(&other);
    return far != nullptr && far->island_ == island_;
  }
  absl::StatusOr<std::unique_ptr<Stream>> NewStream(const std::string& name,
                                                    StreamUse use) override {
    ASSIGN_OR_RETURN(auto stream, inner_->NewStream(name, use));
    return std::make_unique<FarStream>(std::move(stream), island_);
  }
  std::unique_ptr<Event> NewEvent() override {
    return std::make_unique<FarEvent>(inner_->NewEvent(), island_);
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
  const int island_;
};

class FarBackend : public Backend {
 public:
  explicit FarBackend(std::shared_ptr<const Backend> inner) : inner_(std::move(inner)) {}
  std::string name() const override { return inner_->name() + " in far memory"; }
  absl::Status Available() const override { return inner_->Available(); }
  bool RunsOnHost() const override { return false; }
  absl::StatusOr<std::unique_ptr<BackendDevice>> Open(const DeviceSpec& spec) const override {
    ASSIGN_OR_RETURN(auto device, inner_->Open(spec));
    return std::make_unique<FarDevice>(std::move(device), spec.index);
  }

 private:
  std::shared_ptr<const Backend> inner_;
};

}  // namespace

std::shared_ptr<const Backend> FarMemoryBackend(std::shared_ptr<const Backend> inner) {
  return std::make_shared<FarBackend>(std::move(inner));
}

}  // namespace partita
