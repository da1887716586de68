#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cost_model/machine.h"
#include "graph/collective/bandwidth.h"
#include "runtime/profiler/disturbance.h"
#include "runtime/profiler/host_copy_profiler.h"
#include "runtime/profiler/kernel_profiler.h"

namespace partita {

// A collective between the devices of one class, as nccl-tests reports them.
struct MeasuredCollective {
  std::string device_class, kind, algorithm;
  int ranks = 0;
  int64_t nanos = 0;  // median
  CollectiveBandwidth bandwidth;
};

// Machine description of this host whose figures were measured, with all devices of a class busy.
struct MeasuredMachine {
  Machine machine;
  std::string method;  // lines that say of each figure how it was found, for people
  std::vector<MeasuredCollective> collectives;
  std::vector<HostCopy> host_copies;  // host copies of the first GPU, if there is one
  Disturbance disturbance;            // work of other processes meanwhile
};

struct MachineMeasurementRequest {
  std::optional<int> devices;  // number of devices among which the cores are divided; default one
                               // for each core
  // The first so many GPUs; the cores are then left out unless `devices` is given. Absent: cores.
  std::optional<int> gpus;
  bool oversubscribe = false;  // see FindMachine
  // Told before each measurement how many of them are done; at the end `done` is `wanted`.
  std::function<void(int64_t done, int64_t wanted, const std::string& what)> progress;
};

// Takes some seconds. Errors: those of FindMachine("local") or ExamineGpus, and of the devices.
absl::StatusOr<MeasuredMachine> MeasureMachine(const MachineMeasurementRequest& request);

// The text form; its comment has `method` and the tables of collectives and copies.
std::string MeasuredMachineText(const MeasuredMachine& measured);

// Kernels and moves from which the figures of a device class follow.
std::vector<ProfiledWork> TypicalWork();

// "kind algorithm ranks bytes time algbw busbw", a line for each; empty for none.
std::string CollectiveTable(std::span<const MeasuredCollective> collectives);
// "memory direction bytes time bandwidth", a line for each; empty for none.
std::string HostCopyTable(std::span<const HostCopy> copies);

// The links of GPUs to host memory get the speed of pinned copies, the slower direction's.
// InvalidArgument if no speed follows from the copies.
absl::StatusOr<Machine> WithHostCopies(Machine machine, std::span<const HostCopy> copies);

}  // namespace partita
