#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "graph/task/task_graph.h"
#include "runtime/backend/backend.h"

namespace partita {

// One rank's side of a communication task, with addresses. For collectives these are the rank's
// slices, several for a bucket; for transfers there is one entry for each transfer that
// leaves or reaches the device, in the task's order, null on the side that is not this device's.
struct CommunicationArguments {
  const Task* task = nullptr;  // CollectiveTask or TransferTask; outlives the call's work
  DeviceId device;
  std::vector<void*> send;
  std::vector<void*> receive;
};

// Moves data between the devices of a program. Every member of a task's group enqueues it on its
// own communication stream, and all members enqueue common tasks in the same order (the plan's
// total order); then no schedule of threads can deadlock.
class Communicator {
 public:
  virtual ~Communicator() = default;

  // Prepares the communicator; called once, before any task, with every communication task of the
  // program and its devices by id: null for those of other processes; they outlive the
  // communicator's work.
  virtual absl::Status Prepare(std::span<const Task* const> tasks,
                               std::span<BackendDevice* const> devices) = 0;

  // Connects the devices; called after every Prepare, before its tasks are enqueued, with the
  // communication streams of this process's devices, by device; null for those of other processes.
  // Sets up what has to know the devices, and waits for the other processes that do the same.
  // DeadlineExceeded where one of them does not.
  virtual absl::Status Connect(std::span<Stream* const>) { return absl::OkStatus(); }

  // Whether Enqueue for one device may wait until its peers have enqueued the same task: then each
  // device of a process wants a thread of its own to enqueue from.
  virtual bool EnqueueMeetsPeers() const { return false; }

  // Enqueues the device's side. Unless EnqueueMeetsPeers, all members of a task that are in this
  // process enqueue their sides one after another, with no other task's between them. The work ends
  // when the device's buffers may be used again.
  virtual void Enqueue(const CommunicationArguments& arguments, int64_t round, Stream& stream,
                       WorkTiming* timing) = 0;

  // Whether a step's work is nothing but what Enqueue gives to the streams of this process, the
  // same in every step: then it can be recorded and run again. Behind Prepare. If EnqueueMeetsPeers,
  // each device is recorded by itself, and all members of a task record it or none does.
  virtual bool EnqueuesTheSame() const { return false; }

  // Prepares for recordings of what is enqueued from now on, which end before the communicator does.
  virtual void KeepForRecordings() {}

  // The first asynchronous error, as of a peer that is gone, or OK. From any thread, any time:
  // streams do not learn of it.
  virtual absl::Status AsynchronousError() { return absl::OkStatus(); }

  // Releases every rank that waits for a peer, with this error.
  virtual void Abort(const absl::Status& reason) = 0;

  // Bytes that arrived from other devices so far, by device.
  virtual std::vector<Bytes> BytesReceived() const = 0;
};

}  // namespace partita
