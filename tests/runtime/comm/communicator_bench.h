#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "graph/task/task_graph.h"
#include "runtime/backend/backend.h"
#include "runtime/comm/communicator.h"
#include "runtime/comm/communicators.h"

namespace partita {

// The setup of the communicator of that name for tests: nccl opens the test library.
CommunicatorSetup TestSetup(int devices);

// Devices of the reference backend with a communicator between them, to run single tasks.
class CommunicatorBench {
 public:
  using Memory = std::vector<std::vector<char>>;  // by device
  // By device: 0 for one in host memory, else the number of the far memory that it is in (see
  // FarMemoryBackend). Empty: all in host memory.
  using Islands = std::vector<int>;

  static absl::StatusOr<std::unique_ptr<CommunicatorBench>> Open(const std::string& communicator,
                                                                 const CommunicatorSetup& setup,
                                                                 const Islands& islands = {});
  static absl::StatusOr<std::unique_ptr<CommunicatorBench>> Open(
      std::unique_ptr<Communicator> communicator, int devices, const Islands& islands = {});

  // On these devices.
  static absl::StatusOr<std::unique_ptr<CommunicatorBench>> Open(
      std::unique_ptr<Communicator> communicator, const std::vector<PlacedDevice>& devices);

  // One rank's buffers for a task: as CommunicationArguments has them, offsets into the device's
  // memory; -1: null.
  struct Places {
    std::vector<int64_t> send, receive;
  };
  struct Job {
    Task task;
    std::vector<Places> places;  // by device; ignored for those that are not the task's
  };

  // Prepares and connects; jobs outlive their runs.
  absl::Status Prepare(const std::vector<Job>& jobs);
  // Enqueues all jobs on every device that takes part, in order, and waits.
  absl::Status Run(const std::vector<Job>& jobs, Memory& memory);
  // The same, but each job only on its devices for which `runs` says so.
  absl::Status Run(const std::vector<Job>& jobs, Memory& memory,
                   const std::function<bool(size_t job, DeviceId device)>& runs);

  Communicator& communicator() { return *communicator_; }

 private:
  std::unique_ptr<Communicator> communicator_;
  std::mutex mutex_;
  absl::Status first_error_;  // that a device reported
  // Memory that a run works on.
  absl::StatusOr<std::vector<std::unique_ptr<DeviceMemory>>> Upload(const Memory& memory);
  void Download(const std::vector<std::unique_ptr<DeviceMemory>>& from, Memory& memory);
  absl::Status Synchronize();

  std::vector<std::unique_ptr<BackendDevice>> devices_;
  std::vector<std::unique_ptr<Stream>> streams_;
};

// How a collective is done, and on what.
struct CollectiveCase {
  Collective collective;
  std::string algorithm;
  DType dtype;
};
// A job of a collective on `group`, in place (all-to-all: what is received lies behind what is
// sent) at the start of each device's memory.
CommunicatorBench::Job CollectiveJob(TaskId id, std::vector<DeviceId> group, CollectiveCase run,
                                     int devices);
// Bytes of memory that it wants on a rank's device.
int64_t BytesOf(const Collective& collective, int rank, DType dtype);

}  // namespace partita
