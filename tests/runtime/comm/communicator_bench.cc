#include "tests/runtime/comm/communicator_bench.h"

#include <algorithm>

#include "graph/support/status_macros.h"
#include "runtime/backend/backends.h"
#include "tests/testing/far_memory_backend.h"

namespace partita {

CommunicatorSetup TestSetup(int devices) {
  CommunicatorSetup setup;
  setup.devices = devices;
#ifdef PARTITA_NCCL_ON_HOST
  setup.nccl_library = PARTITA_NCCL_ON_HOST;
#endif
  return setup;
}

absl::StatusOr<std::unique_ptr<CommunicatorBench>> CommunicatorBench::Open(
    const std::string& communicator, const CommunicatorSetup& setup, const Islands& islands) {
  ASSIGN_OR_RETURN(auto made, MakeCommunicator(communicator, setup));
  return Open(std::move(made), setup.devices, islands);
}

absl::StatusOr<std::unique_ptr<CommunicatorBench>> CommunicatorBench::Open(
    std::unique_ptr<Communicator> communicator, int devices, const Islands& islands) {
  ASSIGN_OR_RETURN(const std::shared_ptr<const Backend> near, MakeBackend("reference"));
  const std::shared_ptr<const Backend> far = FarMemoryBackend(near);
  std::vector<PlacedDevice> placed;
  for (int d = 0; d < devices; ++d) {
    const int island = islands.empty() ? 0 : islands[static_cast<size_t>(d)];
    placed.push_back({island == 0 ? near : far, {.index = island}});
  }
  return Open(std::move(communicator), placed);
}

absl::StatusOr<std::unique_ptr<CommunicatorBench>> CommunicatorBench::Open(
    std::unique_ptr<Communicator> communicator, const std::vector<PlacedDevice>& devices) {
  auto bench = std::make_unique<CommunicatorBench>();
  bench->communicator_ = std::move(communicator);
  for (const PlacedDevice& placed : devices) {
    ASSIGN_OR_RETURN(auto device, placed.Open());
    device->OnError([own = bench.get()](const absl::Status& status) {
      {
        // Those whom it releases say only that another failed.
        const std::lock_guard lock(own->mutex_);
        if (own->first_error_.ok()) own->first_error_ = status;
      }
      own->communicator_->Abort(status);
      for (auto& other : own->devices_) other->Abort(status);
    });
    ASSIGN_OR_RETURN(auto stream, device->NewStream("bench", StreamUse::kCommunication));
    bench->devices_.push_back(std::move(device));
    bench->streams_.push_back(std::move(stream));
  }
  return bench;
}

absl::Status CommunicatorBench::Prepare(const std::vector<Job>& jobs) {
  std::vector<const Task*> tasks;
  for (const Job& job : jobs) tasks.push_back(&job.task);
  std::vector<BackendDevice*> devices;
  for (const auto& device : devices_) devices.push_back(device.get());
  RETURN_IF_ERROR(communicator_->Prepare(tasks, devices));
  std::vector<Stream*> streams;
  for (const auto& stream : streams_) streams.push_back(stream.get());
  return communicator_->Connect(streams);
}

absl::Status CommunicatorBench::Run(const std::vector<Job>& jobs, Memory& memory) {
  return Run(jobs, memory, [](size_t, DeviceId) { return true; });
}

absl::Status CommunicatorBench::Run(const std::vector<Job>& jobs, Memory& memory,
                                    const std::function<bool(size_t, DeviceId)>& runs) {
  ASSIGN_OR_RETURN(const auto places_in, Upload(memory));
  std::vector<std::unique_ptr<CommunicationArguments>> kept;
  for (size_t j = 0; j < jobs.size(); ++j) {
    for (DeviceId device : DevicesOf(jobs[j].task)) {
      if (!runs(j, device)) continue;
      const Places& places = jobs[j].places[device.index()];
      auto args = std::make_unique<CommunicationArguments>();
      args->task = &jobs[j].task;
      args->device = device;
      char* base = static_cast<char*>(places_in[device.index()]->data());
      for (int64_t offset : places.send) args->send.push_back(offset < 0 ? nullptr : base + offset);
      for (int64_t offset : places.receive) {
        args->receive.push_back(offset < 0 ? nullptr : base + offset);
      }
      communicator_->Enqueue(*args, 0, *streams_[device.index()], nullptr);
      kept.push_back(std::move(args));
    }
  }
  Download(places_in, memory);
  return Synchronize();
}

namespace {

Stream::MoveArguments CopyOf(const void* from, void* to, int64_t bytes) {
  return Stream::FlatMove(MoveSignature::Kind::kCopy, DType::kInt32, from, to,
                          bytes / SizeOf(DType::kInt32));
}

}  // namespace

absl::StatusOr<std::vector<std::unique_ptr<DeviceMemory>>> CommunicatorBench::Upload(
    const Memory& memory) {
  std::vector<std::unique_ptr<DeviceMemory>> uploaded;
  for (size_t d = 0; d < memory.size(); ++d) {
    const auto bytes = static_cast<int64_t>(memory[d].size());
    ASSIGN_OR_RETURN(uploaded.emplace_back(), devices_[d]->Allocate(bytes));
    streams_[d]->CopyFromHost(CopyOf(memory[d].data(), uploaded[d]->data(), bytes), nullptr);
  }
  RETURN_IF_ERROR(Synchronize());
  return uploaded;
}

void CommunicatorBench::Download(const std::vector<std::unique_ptr<DeviceMemory>>& from,
                                 Memory& memory) {
  for (size_t d = 0; d < memory.size(); ++d) {
    streams_[d]->CopyToHost(
        CopyOf(from[d]->data(), memory[d].data(), static_cast<int64_t>(memory[d].size())), nullptr);
  }
}

absl::Status CommunicatorBench::Synchronize() {
  absl::Status status;
  for (const auto& stream : streams_) status.Update(stream->Synchronize());
  const std::lock_guard lock(mutex_);
  return status.ok() || first_error_.ok() ? status : first_error_;
}

CommunicatorBench::Job CollectiveJob(TaskId id, std::vector<DeviceId> group, CollectiveCase run,
                                     int devices) {
  auto& [collective, algorithm, dtype] = run;
  CommunicatorBench::Job job;
  job.places.resize(static_cast<size_t>(devices));
  for (size_t r = 0; r < group.size(); ++r) {
    const int rank = static_cast<int>(r);
    const bool in_place = collective.kind != CollectiveKind::kAllToAll;
    const int64_t sent = in_place ? 0 : SendElements(collective, rank) * SizeOf(dtype);
    job.places[group[r].index()] = {{0}, {sent}};
  }
  job.task = Task{
      id,
      {},
      CollectiveTask{std::move(group), std::move(collective), std::move(algorithm), dtype, {}, {}},
      {}};
  return job;
}

int64_t BytesOf(const Collective& collective, int rank, DType dtype) {
  int64_t elements = SendElements(collective, rank);
  if (collective.kind == CollectiveKind::kAllToAll) elements += ReceiveElements(collective, rank);
  return elements * SizeOf(dtype);
}

}  // namespace partita
