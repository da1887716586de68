#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <memory_resource>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "graph/parallel/plan.h"
#include "graph/support/stop_flag.h"
#include "runtime/executor/executor.h"
#include "runtime/train/training_state.h"
#include "tools/workflow/priced_machine.h"
#include "tools/workflow/profiling/kept_algorithms.h"

namespace partita {

struct MeasuringOptions {
  std::vector<BackendOfClass> backends;        // see DevicesOf
  Precision precision = Precision::kFloat32;   // precision of the devices that have it
  bool nondeterministic = false;               // as in BuildPlannedStep
  std::string profile = "partita.profile.db";  // with the algorithms that are fast on GPUs
  bool record_timeline = false;
  std::function<void()> on_step = nullptr;  // InterleavedMeasurement: after each counted step
};

// One plan, running on this host's devices on random data: for measuring step times side by side.
// Where devices have memory of their own, the next step's batch is copied there beside a step, as in
// training.
class MeasuredPlan {
 public:
  // `start`: the values that its weights and states begin with. `graph` outlives it.
  static absl::StatusOr<std::unique_ptr<MeasuredPlan>> Open(const Graph& graph, const Plan& plan,
                                                            const TrainingState& start,
                                                            const MeasuringOptions& options = {});

  // One step: its wall time, and with `record_timeline` when each task ran.
  absl::StatusOr<StepResult> Step();
  const TaskGraph& tasks() const { return opened_.executor->program().tasks; }
  Bytes Allocated(DeviceId device) const { return opened_.executor->AllocatedBytes(device); }
  // The largest number of bytes allocated on a device.
  Bytes LargestAllocation() const;
  // Note for people of what was not done; empty: nothing.
  const std::string& note() const { return opened_.note; }
  std::vector<Bytes> BytesReceived() const { return opened_.executor->BytesReceived(); }

 private:
  // A whole batch, in the executor's memory for batches.
  struct HostBatch {
    explicit HostBatch(std::pmr::memory_resource* memory)
        : samples(memory), integers(memory), labels(memory) {}
    HostTensor Samples() const {
      return integers.empty() ? HostTensorOf(samples) : HostTensorOf(integers);
    }
    HostTensor Labels() const { return HostTensorOf(labels); }

    std::pmr::vector<float> samples;
    std::pmr::vector<int32_t> integers;  // in place of `samples`
    std::pmr::vector<int32_t> labels;
  };

  MeasuredPlan() = default;
  static void Fill(const Graph& graph, HostBatch& batch);

  KeptAlgorithms::WithExecutor opened_;
  // Batches that steps take in turn: two alike where they are staged, else one.
  std::vector<HostBatch> batches_;
  int64_t step_ = 0;
};

// Step times of plans, side by side: in rounds, in each of which every plan makes a few steps. Long
// steps are made one by one in turn with the other plans', so that what else the machine does in
// the meantime meets all plans alike. Several short ones are a turn, after one that is not counted:
// a step after another plan's finds its data out of the caches, and training has no such steps.
// Plans whose devices have teams of several threads are opened for their turns only, one in each
// round: the teams of two open plans would be more threads than cores, and then no team waits
// actively. The others stay open, idle between turns, as long as all fit in the devices' memory.
// Once `stop` is true or the deadline has passed, turns end early and rounds do nothing.
class InterleavedMeasurement {
 public:
  static constexpr int kRound = 3;  // counted steps

  // `graph` and `stop` outlive it.
  InterleavedMeasurement(const Graph& graph, std::vector<Plan> plans, MeasuringOptions options = {},
                         const std::atomic<bool>* stop = nullptr);

  void EndAt(std::chrono::steady_clock::time_point deadline) { deadline_ = deadline; }
  // Leaves a plan out of all further rounds.
  void Drop(size_t plan);

  // Steps that the next round best has: one of each plan where some were long, or none was made yet.
  int StepsOfRound() const;
  // `steps` counted steps of every plan.
  absl::Status Round(int steps = kRound);
  // Rounds until every plan has made so many steps more.
  absl::Status Rounds(int steps);

  // Counted steps of a plan so far, in ns; and their median in each round, for RatioOf of plans that
  // were in the same rounds.
  std::span<const int64_t> TimesOf(size_t plan) const { return entries_[plan].times; }
  std::span<const int64_t> RoundsOf(size_t plan) const { return entries_[plan].rounds; }
  // Median of each plan over its counted steps so far; nullopt if it has none.
  std::vector<std::optional<Nanos>> Medians() const;

  // A plan's that was measured: the last that has one.
  const std::string& note() const { return note_; }

 private:
  struct Entry {
    Plan plan;
    std::unique_ptr<MeasuredPlan> open;  // null: is not
    int64_t last_ns = 0;                 // time of the last step
    std::vector<int64_t> times;          // times of counted steps
    std::vector<int64_t> rounds;         // their medians by round
    bool is_dropped = false;
  };
  bool IsOver() const { return IsSet(stop_) || std::chrono::steady_clock::now() >= deadline_; }
  absl::Status TakeTurns(int steps);
  absl::Status TakeTurn(Entry& entry, int& left);
  absl::Status Step(Entry& entry, bool counts);
  // Closes the open plan if another does not fit in memory with it.
  void MakeRoomFor(const Plan& plan);

  const Graph& graph_;
  const MeasuringOptions options_;
  const std::atomic<bool>* const stop_;
  std::chrono::steady_clock::time_point deadline_ = std::chrono::steady_clock::time_point::max();
  std::vector<Entry> entries_;
  std::optional<TrainingState> start_;  // of all plans; made for the first that is opened
  std::string note_;
  bool has_teams_ = false;
};

}  // namespace partita
