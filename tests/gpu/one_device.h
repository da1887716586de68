#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "runtime/backend/algorithm_store.h"
#include "runtime/backend/backend.h"
#include "runtime/backend/precision.h"
#include "runtime/executor/executor.h"
#include "tests/gpu/kernel_share.h"
#include "tests/gpu/suite.h"

namespace partita {

// Those that the backend has and the options name.
std::vector<PrecisionRow> PrecisionsOf(const SuiteOptions& options);

// The whole training step on one device: a GPU, or all cores of this machine.
struct OneDeviceRequest {
  std::string backend;
  Precision precision = Precision::kFloat32;
  bool record_timeline = false;
  AlgorithmStore* algorithms = nullptr;  // as DeviceSpec has it
  bool replay = true;                    // steps as they were recorded, where that can be
};
// `graph` outlives the executor.
absl::StatusOr<std::unique_ptr<Executor>> OpenOneDevice(const Graph& graph,
                                                        const OneDeviceRequest& request);

// A task of a step, and how long it took.
struct TaskTime {
  std::string name;
  double us = 0;
};

struct StepTimes {
  double median_ms = 0, least_ms = 0;
  std::vector<double> losses;  // of the first steps
  int64_t replayed = 0;        // of the timed steps, how many ran as they were recorded
  std::string not_replayed;    // why not, if so
  int64_t allocated_bytes = 0;
  KernelShare share;                              // of a step that records a timeline
  std::vector<TaskTime> tasks;                    // of the same step, in the order of their starts
  std::vector<AlgorithmStore::Entry> algorithms;  // that were chosen
};
struct TimingRequest {
  OneDeviceRequest device;
  int warm_up = 10, steps = 30;
};
// Trains on random data from initial weights, the same for every backend and precision; the batch
// is brought to a GPU from pinned memory beside the step before. Steps are timed one by one, each
// until the host has its loss, without a timeline; that is recorded apart, and its share is left
// out without request.device.replay.
absl::StatusOr<StepTimes> TimeSteps(const Graph& graph, const TimingRequest& request);

}  // namespace partita
