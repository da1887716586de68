#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "graph/task/task_graph.h"
#include "runtime/profiler/kernel_profiler.h"
#include "tools/workflow/priced_machine.h"

namespace partita {

struct ProfilingRequest {
  std::string profile = "partita.profile.db";
  double seconds = 60;  // stop measuring after so long
  bool foreign_profile = false;
  int samples = 9;  // of each task
  const std::atomic<bool>* stop = nullptr;
  std::function<void(int64_t done, int64_t wanted, const std::string& what)> progress;
};

struct ProfilingResult {
  int64_t wanted = 0;    // kernels, moves and communication that a search may ask for
  int64_t known = 0;     // measured before
  int64_t measured = 0;  // measured now
  bool complete = false;
};

// What a search over the graph on the machine asks for: tasks of the experts and of every single
// change of them, most work first.
struct WantedSignatures {
  std::vector<KernelWork> kernels;
  std::vector<MoveSignature> moves;
  std::vector<TaskBody> communication;  // of the experts; CollectiveTask and TransferTask
  int64_t footprint = 0;  // bytes that a device needs at most for one of the task graphs
};
WantedSignatures SignaturesOfSearch(const Graph& graph, const PricedMachine& priced);
// Those of one task graph.
WantedSignatures SignaturesOf(const TaskGraph& tasks);

// Measures what the profile database lacks on this host, and writes it there as it goes: what a
// step costs as such, communication (of the machine at several sizes and groups, then what is
// wanted), kernels and moves; with all devices of the machine busy, and with the others idle. Then
// call PriceMachine again. FailedPrecondition if the database is another device's.
absl::StatusOr<ProfilingResult> ProfileSignatures(const WantedSignatures& wanted,
                                                  const PricedMachine& priced,
                                                  const ProfilingRequest& request);
// The same for everything that a search asks for.
absl::StatusOr<ProfilingResult> ProfileForSearch(const Graph& graph, const PricedMachine& priced,
                                                 const ProfilingRequest& request);

}  // namespace partita
