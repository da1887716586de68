#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "graph/task/task_graph.h"
#include "runtime/profiler/disturbance.h"
#include "runtime/profiler/kernel_profiler.h"
#include "runtime/profiler/link_profiler.h"
#include "tools/workflow/priced_machine.h"

namespace partita {

struct ProfilingRequest {
  std::string profile = "partita.profile.db";
  double seconds = 60;  // stop measuring after so long
  bool foreign_profile = false;
  // Runs of each task on each device, after one that is not counted; slow tasks get fewer. At least
  // 1. They are not taken in a row but in passes over all tasks, a few of each at a time: a machine
  // that others share may be slow for a minute, and a median over many moments does not notice.
  int samples = 9;
  int samples_per_pass = 3;  // samples in each pass, at least 1
  // Tasks that are known are measured again, and their samples added to what is there.
  bool add_samples = false;
  int most_samples = 64;  // samples kept of one task, the latest ones
  // Tasks whose samples are far apart (SteadinessOf) are measured again, with as many samples each
  // time, while there is time and at most so often; after that they are known, and unsteady.
  int most_repeats = 2;
  // Profilers of devices; empty: KernelProfiler::Open, and LinkProfiler::Open with the communicator
  // that suits them.
  std::function<absl::StatusOr<std::unique_ptr<KernelProfiler>>(std::span<const PlacedDevice>)>
      open_kernels;
  std::function<absl::StatusOr<std::unique_ptr<LinkProfiler>>(std::span<const PlacedDevice>)>
      open_links;
  const std::atomic<bool>* stop = nullptr;
  // `done` grows from what is known to `wanted`; in every pass by a pass's part of a task.
  std::function<void(int64_t done, int64_t wanted, const std::string& what)> progress;
};

struct ProfilingResult {
  int64_t wanted = 0;       // distinct tasks: kernels, moves, communication, empty steps
  int64_t known = 0;        // measured before, and not now
  int64_t measured = 0;     // measured now, in one pass at least
  int64_t repeated = 0;     // known tasks to be measured again, as their samples are far apart
  int64_t unsteady = 0;     // known or measured tasks whose samples are far apart or few
  bool complete = false;    // true: there was time for all of them: known + measured == wanted
  Disturbance disturbance;  // work of other processes meanwhile
};

// Signatures that a search over the graph on the machine asks for: tasks of the experts and of
// every single change of them, most work first.
struct WantedSignatures {
  std::vector<KernelWork> kernels;
  std::vector<MoveSignature> moves;
  std::vector<TaskBody> communication;  // communication of the experts; CollectiveTask and
                                        // TransferTask
  bool complete = true;                 // true: there was time to find all of them
  int64_t footprint = 0;  // bytes that a device needs at most for one of the task graphs
};
// Finds them. This takes time too, on many devices more than measuring: after `seconds` or once
// `request.stop` is true, the rest is left out.
WantedSignatures SignaturesOfSearch(const Graph& graph, const PricedMachine& priced, double seconds,
                                    const std::atomic<bool>* stop = nullptr);
// Signatures of these task graphs.
WantedSignatures SignaturesOf(std::span<const TaskGraph* const> graphs);
WantedSignatures SignaturesOf(const TaskGraph& tasks);

// Measures the tasks that the profile database does not have for this host, and again those that
// are unsteady in it (with `add_samples`: all tasks wanted, known or not): what a step costs as
// such, communication (of the machine at several sizes and groups, then what is wanted), kernels
// and moves; with all devices of a class busy, and with the others idle; one class after the other.
// One pass after the other: the first reaches as many tasks as there is time for, and what each has
// found so far is in the database. Then call PriceMachine again. FailedPrecondition if the database
// is another device's.
absl::StatusOr<ProfilingResult> ProfileSignatures(const WantedSignatures& wanted,
                                                  const PricedMachine& priced,
                                                  const ProfilingRequest& request);
// The same for everything that a search asks for.
absl::StatusOr<ProfilingResult> ProfileForSearch(const Graph& graph, const PricedMachine& priced,
                                                 const ProfilingRequest& request);

}  // namespace partita
