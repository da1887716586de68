#include "runtime/executor/executor.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "graph/support/clock.h"
#include "graph/support/error_category.h"
#include "graph/support/exceptions.h"
#include "graph/support/fingerprint.h"
#include "graph/support/status_macros.h"
#include "graph/support/stop_flag.h"
#include "runtime/backend/algorithm_store.h"
#include "runtime/backend/host/host_device.h"
#include "runtime/executor/copy_comparison.h"
#include "runtime/executor/device_lanes.h"
#include "runtime/executor/device_threads.h"
#include "runtime/executor/host_memory_resource.h"
#include "runtime/executor/replayed_steps.h"
#include "runtime/executor/step_watch.h"

namespace partita {

class Executor::Impl {
 public:
  Impl(const Graph& graph, std::unique_ptr<Communicator> communicator, ExecutorOptions options)
      : graph_(graph), communicator_(std::move(communicator)), options_(std::move(options)) {}

  absl::Status Open(TaskGraph tasks, std::vector<TaskId> order) {
    if (options_.devices.size() != static_cast<size_t>(tasks.devices())) {
      return absl::InvalidArgumentError(absl::StrCat("the program has ", tasks.devices(),
                                                     " devices; ", options_.devices.size(),
                                                     " are given"));
    }
    devices_.resize(options_.devices.size());
    lanes_.resize(options_.devices.size());
    for (PlacedDevice& device : options_.devices) {
      if (device.spec.algorithms != nullptr) continue;
      device.spec.algorithms = &algorithms_;
      device.spec.measure_algorithms &= options_.port == nullptr;
    }
    for (size_t d = 0; d < devices_.size(); ++d) {
      if (!IsHere(d)) continue;
      ASSIGN_OR_RETURN(devices_[d], options_.devices[d].Open());
      devices_[d]->OnError([this](const absl::Status& status) { AbortAll(status); });
    }
    RETURN_IF_ERROR(FindBackends());
    ASSIGN_OR_RETURN(std::vector<DeviceKernels> kernels, PrepareKernels(tasks));
    ASSIGN_OR_RETURN(program_, LowerFor(std::move(tasks), std::move(order), kernels));
    std::vector<const Task*> communication;
    for (const Task& task : program_.tasks.tasks()) {
      if (IsCommunication(task)) communication.push_back(&task);
    }
    std::vector<BackendDevice*> devices;
    for (const auto& device : devices_) devices.push_back(device.get());
    RETURN_IF_ERROR(communicator_->Prepare(communication, devices));
    for (size_t d = 0; d < devices_.size(); ++d) {
      if (!IsHere(d)) continue;
      ASSIGN_OR_RETURN(lanes_[d], DeviceLanes::Create(program_, graph_,
                                                      {DeviceId(static_cast<int>(d)),
                                                       devices_[d].get(), std::move(kernels[d])},
                                                      options_));
    }
    RETURN_IF_ERROR(Connect());
    for (const auto& device : devices_) {
      if (device == nullptr || device->HostAddressable() || batch_memory_ != nullptr) continue;
      batch_memory_ = std::make_unique<HostMemoryResource>(*device);
    }
    replay_ = std::make_unique<ReplayedSteps>(
        ReplayedSteps::Setup{program_.tasks, options_.devices, devices_, lanes_, *communicator_,
                             threads_.get(), options_.port},
        options_.replay);
    for (DeviceLanes* lanes : Lanes()) {
      for (size_t k = 0; k < lanes->size(); ++k) turns_.push_back({lanes->PlaceOf(k), lanes, k});
    }
    std::stable_sort(turns_.begin(), turns_.end(),
                     [](const Turn& a, const Turn& b) { return a.place < b.place; });
    watch_ = std::make_unique<StepWatch>(
        options_.hang_seconds, options_.stop,
        StepWatch::Calls{.progress = [this] { return Completed(); },
                         .give_up = [this] { GiveUp(); },
                         .cancel = [this] { AbortAll(InterruptedError("interrupted")); },
                         .check = [this] { CheckCommunicator(); },
                         .fail = [this](const absl::Status& status) { AbortAll(status); }});
    return watch_->Start();
  }

  ~Impl() {
    watch_.reset();
    replay_.reset();
    lanes_.clear();
  }

  absl::Status WriteTensor(TensorId id, HostTensor values) {
    const TensorType& type = graph_.tensor(id).type;
    RETURN_IF_ERROR(CheckHoldsTensor(values, id));
    const Box full = Box::Full(type.shape);
    bool found = false;
    const absl::Status enqueued = Enqueue([&] {
      for (const Buffer& buffer : program_.tasks.buffers()) {
        if (!buffer.persistent() || buffer.tensor != id || !IsPlaced(buffer)) continue;
        found = true;
        if (DeviceLanes* lanes = LanesOf(buffer)) {
          lanes->CopyFromHost(buffer, full, values.bytes.data());
        }
      }
    });
    absl::Status status = Synchronize();  // nothing reads there any more, however it ended
    status.Update(enqueued);
    if (status.ok() && !found && !full.empty()) {
      return absl::NotFoundError(
          absl::StrCat("tensor '", graph_.tensor(id).name, "' is not kept on any device"));
    }
    return status;
  }

  absl::Status ReadTensor(TensorId id, std::span<std::byte> values) {
    const TensorType& type = graph_.tensor(id).type;
    RETURN_IF_ERROR(CheckHoldsTensor({type.dtype, values}, id));
    const Box full = Box::Full(type.shape);
    for (size_t b = program_.tasks.buffers().size(); b-- > 0;) {
      const Buffer& buffer = program_.tasks.buffers()[b];
      if (!buffer.persistent() || buffer.tensor != id || !IsPlaced(buffer)) continue;
      ASSIGN_OR_RETURN(const auto pieces, ValuesOf({&buffer}));
      RETURN_IF_ERROR(RunDenseMove({MoveSignature::Kind::kCopy, type.dtype, pieces[0].data(),
                                    values.data(), buffer.box, full, buffer.box}));
    }
    return absl::OkStatus();
  }

  absl::Status CheckCopies() {
    std::vector<std::vector<const Buffer*>> pieces(graph_.tensors().size());
    for (const Buffer& buffer : program_.tasks.buffers()) {
      if (!buffer.persistent() || !IsPlaced(buffer)) continue;
      pieces[buffer.tensor.index()].push_back(&buffer);
    }
    for (const Tensor& tensor : graph_.tensors()) {
      RETURN_IF_ERROR(CheckCopiesOf(tensor, pieces[tensor.id.index()]));
    }
    return absl::OkStatus();
  }

  absl::Status CheckValues(std::span<const TensorId> tensors) {
    std::vector<char> asked(graph_.tensors().size());
    for (TensorId id : tensors) asked[id.index()] = 1;
    const absl::Status enqueued = Enqueue([&] {
      for (const Buffer& buffer : program_.tasks.buffers()) {
        if (!buffer.persistent() || !IsPlaced(buffer)) continue;
        DeviceLanes* lanes = LanesOf(buffer);
        if (lanes == nullptr || asked[buffer.tensor.index()] == 0) continue;
        lanes->CheckFinite(
            buffer, buffer.id.value(),
            absl::StrCat("'", graph_.tensor(buffer.tensor).name, "' ", ToString(buffer.box),
                         " on device ", buffer.device.value(), " holds NaN or infinity"),
            not_finite_);
      }
    });
    RETURN_IF_ERROR(Synchronize());
    RETURN_IF_ERROR(enqueued);
    return not_finite_.Take(options_.port);
  }

  Progress CurrentProgress() const {
    return {in_step_.load(), Completed(), communicator_->EnqueueMeetsPeers()};
  }

  void CheckFinite(bool on) { options_.check_finite = on; }
  void RecordTimeline(bool on) { options_.record_timeline = on; }

  absl::Status CanReplay() const { return replay_->status(); }

  absl::StatusOr<StepResult> Step(HostTensor input, HostTensor labels,
                                  const StepArguments& arguments) {
    if (IsSet(options_.stop)) {
      return InterruptedError("interrupted before the step");
    }
    RETURN_IF_ERROR(CheckBatch(input, labels));
    const StepFeed feed{input, labels, arguments, ++round_,
                        options_.check_finite ? &not_finite_ : nullptr};
    const int64_t start = SteadyNow();
    watch_->Arm(true);
    in_step_ = true;
    StepResult result;
    const int64_t replayed = replayed_steps();
    absl::Status status = Enqueue([&] { return EnqueueStep(feed, result); });
    result.replayed = replayed_steps() > replayed;
    status.Update(Synchronize());
    watch_->Arm(false);
    in_step_ = false;
    if (!status.ok()) {
      std::lock_guard lock(mutex_);
      return first_error_.ok() ? status : first_error_;
    }
    result.wall_ns = SteadyNow() - start;
    if (options_.check_finite) RETURN_IF_ERROR(not_finite_.Take(options_.port));
    std::vector<const Buffer*> outputs;
    for (const HostOutput& output : program_.tasks.outputs()) {
      outputs.push_back(&program_.tasks.buffer(output.buffer));
    }
    ASSIGN_OR_RETURN(const auto values, ValuesOf(outputs));
    for (size_t k = 0; k < outputs.size(); ++k) {
      result.outputs.push_back(NumberIn(outputs[k]->dtype, values[k]));
    }
    if (options_.record_timeline) {
      for (DeviceLanes* lanes : Lanes()) lanes->AppendTimeline(start, result.timeline);
    }
    return result;
  }

  // The step that wants the batch says what went wrong.
  void Stage(HostTensor input, HostTensor labels) {
    if (!CheckBatch(input, labels).ok()) return;
    (void)Enqueue([&] {
      for (DeviceLanes* lanes : Lanes()) {
        if (lanes->stage() != nullptr) lanes->stage()->Begin(input, labels);
      }
    });
  }
  bool Stages() const {
    const auto lanes = Lanes();
    return std::any_of(lanes.begin(), lanes.end(),
                       [](DeviceLanes* lane) { return lane->stage() != nullptr; });
  }
  std::pmr::memory_resource* batch_memory() const {
    return batch_memory_ == nullptr ? std::pmr::new_delete_resource() : batch_memory_.get();
  }

  absl::Status ReadOutput(size_t output, std::span<std::byte> values) {
    const Buffer& buffer = program_.tasks.buffer(program_.tasks.outputs()[output].buffer);
    RETURN_IF_ERROR(CheckHolds({buffer.dtype, values}, {buffer.dtype, buffer.box.shape()},
                               absl::StrCat("output ", output)));
    ASSIGN_OR_RETURN(const auto value, ValuesOf({&buffer}));
    std::ranges::copy(std::as_bytes(std::span(value[0])), values.begin());
    return absl::OkStatus();
  }

  const Program& program() const { return program_; }
  Bytes AllocatedBytes(DeviceId device) const {
    return IsHere(device.index()) ? lanes_[device.index()]->allocated() : Bytes(0);
  }
  // The communicator counts what it enqueues, which is the same in every step that is recorded.
  std::vector<std::string> KernelNotes() const {
    std::vector<std::string> notes;
    for (const auto& [note, count] : kernel_notes_) {
      notes.push_back(absl::StrCat(count, count == 1 ? " kernel: " : " kernels: ", note));
    }
    return notes;
  }
  std::vector<Bytes> BytesReceived() const {
    std::vector<Bytes> bytes = communicator_->BytesReceived();
    if (replayed_steps() == 0) return bytes;
    for (Bytes& count : bytes) count = Bytes(count.value() / enqueued_ * round_);
    return bytes;
  }

 private:
  absl::Status CheckHoldsTensor(const HostTensor& values, TensorId id) const {
    const Tensor& tensor = graph_.tensor(id);
    return CheckHolds(values, tensor.type, absl::StrCat("tensor '", tensor.name, "'"));
  }

  absl::Status CheckBatch(const HostTensor& input, const HostTensor& labels) const {
    for (const auto& [role, given, what] :
         {std::tuple(TensorRole::kSamples, input, "a batch of samples"),
          std::tuple(TensorRole::kLabels, labels, "a batch of labels")}) {
      if (graph_.tensors(role).empty()) continue;
      RETURN_IF_ERROR(CheckHolds(given, graph_.WholeType(role), what));
    }
    return absl::OkStatus();
  }

  absl::Status Connect() {
    std::vector<Stream*> streams;
    for (const auto& lanes : lanes_) {
      streams.push_back(lanes == nullptr ? nullptr : &lanes->communication());
    }
    RETURN_IF_ERROR(communicator_->Connect(streams));
    if (communicator_->EnqueueMeetsPeers() && Lanes().size() > 1) {
      ASSIGN_OR_RETURN(threads_, DeviceThreads::Start(Lanes().size()));
    }
    return absl::OkStatus();
  }

  int64_t replayed_steps() const { return replay_ == nullptr ? 0 : replay_->runs(); }

  // Calls what gives work to streams. What is thrown out of there ends the work that was given, as
  // some of it would wait for ever for what was not.
  template <class Call>
  absl::Status Enqueue(Call&& call) {
    const absl::Status status = Catching(std::forward<Call>(call));
    if (!status.ok()) AbortAll(status);
    return status;
  }

  absl::Status EnqueueStep(const StepFeed& feed, StepResult& result) {
    result.staged = Stages();
    for (DeviceLanes* lanes : Lanes()) {
      if (!lanes->BeginStep(feed)) result.staged = false;
    }
    const bool piecewise = options_.check_finite || options_.record_timeline;
    RETURN_IF_ERROR(replay_->Enqueue(feed, piecewise, [&] { EnqueueAll(feed); }));
    for (DeviceLanes* lanes : Lanes()) lanes->EndStep();
    return absl::OkStatus();
  }

  // Collective where there are other processes.
  absl::Status FindBackends() {
    for (size_t d = 0; d < devices_.size(); ++d) {
      uint64_t& backend = backends_.emplace_back(0);
      if (IsHere(d)) backend = FingerprintOf(options_.devices[d].backend->name());
      if (options_.port == nullptr) continue;
      RETURN_IF_ERROR(Broadcast(*options_.port, static_cast<int>(d), &backend, sizeof backend));
    }
    return absl::OkStatus();
  }

  void EnqueueAll(const StepFeed& feed) {
    ++enqueued_;
    if (threads_ == nullptr) return EnqueueInTurn(feed);
    const std::vector<DeviceLanes*> lanes = Lanes();
    threads_->Run([&](size_t d) {
      (void)Enqueue([&] {
        for (size_t k = 0; k < lanes[d]->size(); ++k) {
          lanes[d]->Enqueue(k, feed, *communicator_);
          lanes[d]->Signal(k, feed.round);
        }
      });
    });
  }

  // The instructions of all devices in the program's order.
  void EnqueueInTurn(const StepFeed& feed) {
    for (size_t first = 0, last = 0; first < turns_.size(); first = last) {
      for (; last < turns_.size() && turns_[last].place == turns_[first].place; ++last) {
        turns_[last].lanes->Enqueue(turns_[last].instruction, feed, *communicator_);
      }
      for (size_t k = first; k < last; ++k) {
        turns_[k].lanes->Signal(turns_[k].instruction, feed.round);
      }
    }
  }

  void CheckCommunicator() {
    const absl::Status status = communicator_->AsynchronousError();
    if (!status.ok()) AbortAll(status);
  }

  absl::Status CheckCopiesOf(const Tensor& tensor, const std::vector<const Buffer*>& pieces) {
    int64_t elements = 0;
    for (const Buffer* piece : pieces) elements += piece->elements();
    if (elements <= Volume(tensor.type.shape)) return absl::OkStatus();  // each has one holder
    // What copies are computed from may come from elsewhere.
    const bool several = std::any_of(backends_.begin(), backends_.end(),
                                     [&](uint64_t backend) { return backend != backends_[0]; });
    std::vector<std::byte> whole(static_cast<size_t>(tensor.type.bytes()));
    std::vector<char> want;
    RETURN_IF_ERROR(ReadTensor(tensor.id, whole));
    for (const Buffer* piece : pieces) {
      if (LanesOf(*piece) == nullptr) continue;
      ASSIGN_OR_RETURN(const auto own, OwnValuesOf({piece}));
      want.resize(own[0].size());
      RETURN_IF_ERROR(
          RunDenseMove({MoveSignature::Kind::kCopy, piece->dtype, whole.data(), want.data(),
                        Box::Full(tensor.type.shape), piece->box, piece->box}));
      const auto difference = DifferenceOfCopies(piece->dtype, want, own[0], several);
      if (!difference.has_value()) continue;
      return absl::DataLossError(absl::StrCat(
          "copies of '", tensor.name, "' ", ToString(piece->box), " differ; device ",
          piece->device.value(), " holds another value than the first: ", *difference));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<DeviceKernels>> PrepareKernels(const TaskGraph& tasks) {
    std::vector<DeviceKernels> kernels(devices_.size());
    for (auto& list : kernels) list.resize(tasks.signatures().size());
    for (const Task& task : tasks.tasks()) {
      const auto* compute = std::get_if<ComputeTask>(&task.body);
      if (compute == nullptr || !IsHere(compute->device.index())) continue;
      const auto s = static_cast<size_t>(compute->signature);
      auto& kernel = kernels[compute->device.index()][s];
      if (kernel != nullptr) continue;
      ASSIGN_OR_RETURN(kernel, devices_[compute->device.index()]->Prepare(tasks.signatures()[s]));
      if (std::string note = kernel->note(); !note.empty()) ++kernel_notes_[std::move(note)];
    }
    return kernels;
  }

  absl::StatusOr<Program> LowerFor(TaskGraph tasks, std::vector<TaskId> order,
                                   const std::vector<DeviceKernels>& kernels) {
    // Scratch is the largest that any device's kernel of the signature asks for.
    absl::flat_hash_map<std::string, int64_t> scratch;
    for (size_t s = 0; s < tasks.signatures().size(); ++s) {
      int64_t& most = scratch[ToString(tasks.signatures()[s])];
      for (const DeviceKernels& list : kernels) {
        if (list[s] != nullptr) most = std::max(most, list[s]->scratch_bytes());
      }
    }
    return Lower(std::move(tasks), std::move(order),
                 {[this](const Buffer& buffer) {
                    const TensorType type{buffer.dtype, buffer.shape()};
                    return buffer.format == Format::kNative
                               ? devices_[Nearest(buffer.device)]->NativeBytes(type)
                               : type.bytes();
                  },
                  [&scratch](const KernelSignature& s) { return scratch[ToString(s)]; }});
  }

  bool IsHere(size_t device) const {
    return options_.port == nullptr || options_.port->rank() == static_cast<int>(device);
  }
  // The device itself if it is here, else one that is and is taken to be alike.
  size_t Nearest(DeviceId device) const {
    return IsHere(device.index()) ? device.index() : static_cast<size_t>(options_.port->rank());
  }
  std::vector<DeviceLanes*> Lanes() const {
    std::vector<DeviceLanes*> lanes;
    for (const auto& list : lanes_) {
      if (list != nullptr) lanes.push_back(list.get());
    }
    return lanes;
  }

  bool IsPlaced(const Buffer& buffer) const {
    return program_.memory.offset[buffer.id.index()] >= 0;
  }
  // Null where it is another process's.
  DeviceLanes* LanesOf(const Buffer& buffer) const { return lanes_[buffer.device.index()].get(); }

  absl::Status Synchronize() {
    absl::Status status;
    for (DeviceLanes* lanes : Lanes()) status.Update(lanes->Synchronize());
    return status;
  }

  using Values = std::vector<std::vector<char>>;  // bytes of each of some buffers

  // Of other processes' buffers only the sizes are right.
  absl::StatusOr<Values> OwnValuesOf(const std::vector<const Buffer*>& buffers) {
    Values values;
    for (const Buffer* buffer : buffers) {
      values.emplace_back(static_cast<size_t>(buffer->elements() * SizeOf(buffer->dtype)));
    }
    const absl::Status enqueued = Enqueue([&] {
      for (size_t k = 0; k < buffers.size(); ++k) {
        if (DeviceLanes* lanes = LanesOf(*buffers[k])) {
          lanes->CopyToHost(*buffers[k], values[k].data());
        }
      }
    });
    absl::Status status = Synchronize();  // nothing writes there any more, however it ended
    status.Update(enqueued);
    RETURN_IF_ERROR(status);
    return values;
  }

  // Wherever they are: their processes send them to all.
  absl::StatusOr<Values> ValuesOf(const std::vector<const Buffer*>& buffers) {
    ASSIGN_OR_RETURN(Values values, OwnValuesOf(buffers));
    for (size_t k = 0; k < buffers.size() && options_.port != nullptr; ++k) {
      RETURN_IF_ERROR(Broadcast(*options_.port, buffers[k]->device.value(), values[k].data(),
                                static_cast<int64_t>(values[k].size())));
    }
    return values;
  }

  static double NumberIn(DType dtype, const std::vector<char>& value) {
    auto as = [&value]<class T>(T number) {
      std::memcpy(&number, value.data(), sizeof(number));
      return static_cast<double>(number);
    };
    switch (dtype) {
      case DType::kFloat32:
        return as(float{});
      case DType::kFloat64:
        return as(double{});
      case DType::kInt32:
        return as(int32_t{});
      case DType::kRing64:
        return as(uint64_t{});
    }
    return 0;
  }

  int64_t Completed() const {
    int64_t sum = 0;
    for (const DeviceLanes* lanes : Lanes()) sum += lanes->completed();
    return sum;
  }

  void GiveUp() {
    std::string lanes =
        absl::StrCat("no device made progress for ", options_.hang_seconds, " seconds; lanes:\n");
    for (const DeviceLanes* lane : Lanes()) lanes += lane->Describe();
    AbortAll(absl::DeadlineExceededError(lanes));
  }

  // Called from any thread, also while another abort is under way.
  void AbortAll(const absl::Status& status) {
    {
      std::lock_guard lock(mutex_);
      if (!first_error_.ok()) return;
      first_error_ = status;
    }
    communicator_->Abort(status);
    for (auto& device : devices_) {
      if (device != nullptr) device->Abort(status);
    }
  }

  const Graph& graph_;
  NotFinite not_finite_;  // outlives the streams that add to it
  std::unique_ptr<Communicator> communicator_;
  ExecutorOptions options_;
  Program program_;
  AlgorithmStore algorithms_;                // of devices that were given none
  std::map<std::string, int> kernel_notes_;  // how many kernels have each
  std::vector<uint64_t> backends_;           // by device: fingerprints of their names
  // By device; null for those of other processes.
  std::vector<std::unique_ptr<BackendDevice>> devices_;
  std::vector<std::unique_ptr<DeviceLanes>> lanes_;
  std::unique_ptr<HostMemoryResource> batch_memory_;  // null: ordinary memory
  std::unique_ptr<DeviceThreads> threads_;            // null: one thread enqueues for all
  std::unique_ptr<ReplayedSteps> replay_;
  struct Turn {
    size_t place;
    DeviceLanes* lanes;
    size_t instruction;
  };
  std::vector<Turn> turns_;
  int64_t round_ = 0;
  int64_t enqueued_ = 0;  // steps, piece by piece: some to be recorded
  std::atomic<bool> in_step_{false};
  std::mutex mutex_;
  absl::Status first_error_;
  std::unique_ptr<StepWatch> watch_;
};

absl::StatusOr<std::unique_ptr<Executor>> Executor::Create(
    TaskGraph tasks, std::vector<TaskId> order, const Graph& graph,
    std::unique_ptr<Communicator> communicator, ExecutorOptions options) {
  auto impl = std::make_unique<Impl>(graph, std::move(communicator), std::move(options));
  RETURN_IF_ERROR(impl->Open(std::move(tasks), std::move(order)));
  return std::unique_ptr<Executor>(new Executor(std::move(impl)));
}

Executor::Executor(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Executor::~Executor() = default;

absl::Status Executor::WriteTensor(TensorId id, HostTensor values) {
  return impl_->WriteTensor(id, values);
}
absl::Status Executor::ReadTensor(TensorId id, std::span<std::byte> values) {
  return impl_->ReadTensor(id, values);
}
absl::Status Executor::CheckCopies() { return impl_->CheckCopies(); }
absl::Status Executor::CheckValues(std::span<const TensorId> tensors) {
  return impl_->CheckValues(tensors);
}
Executor::Progress Executor::CurrentProgress() const { return impl_->CurrentProgress(); }
void Executor::CheckFinite(bool on) { impl_->CheckFinite(on); }
void Executor::RecordTimeline(bool on) { impl_->RecordTimeline(on); }
absl::Status Executor::CanReplay() const { return impl_->CanReplay(); }
absl::StatusOr<StepResult> Executor::Step(HostTensor input, HostTensor labels,
                                          const StepArguments& arguments) {
  return impl_->Step(input, labels, arguments);
}
void Executor::Stage(HostTensor input, HostTensor labels) { impl_->Stage(input, labels); }
bool Executor::Stages() const { return impl_->Stages(); }
std::pmr::memory_resource* Executor::batch_memory() const { return impl_->batch_memory(); }
absl::Status Executor::ReadOutput(size_t output, std::span<std::byte> values) {
  return impl_->ReadOutput(output, values);
}
const Program& Executor::program() const { return impl_->program(); }
Bytes Executor::AllocatedBytes(DeviceId device) const { return impl_->AllocatedBytes(device); }
std::vector<std::string> Executor::KernelNotes() const { return impl_->KernelNotes(); }

std::vector<Bytes> Executor::BytesReceived() const { return impl_->BytesReceived(); }

}  // namespace partita
