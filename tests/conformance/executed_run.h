#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <memory_resource>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "cost_model/cost_model.h"
#include "cost_model/machine.h"
#include "graph/graph.h"
#include "graph/parallel/strategy.h"
#include "graph/partition/partition.h"
#include "planner/evaluator.h"
#include "runtime/backend/backend.h"
#include "runtime/executor/executor.h"
#include "runtime/executor/executor_setup.h"
#include "tests/testing/ring_equality.h"

namespace partita {

// Steps as the product runs them: an executor on the reference backend, every device's lanes as
// threads, one arena for each device, messages through the inproc communicator.
class ExecutedRun : public SplitRun {
 public:
  // Tasks, order and graph as an Executor takes them; the graph outlives the run. With a
  // port: one process for each device, through the mpi communicator.
  static absl::StatusOr<std::unique_ptr<ExecutedRun>> Open(const Graph& graph, TaskGraph tasks,
                                                           std::vector<TaskId> order,
                                                           std::shared_ptr<const Backend> backend,
                                                           MessagePort* port = nullptr);
  // The same on any backend and communicator.
  static absl::StatusOr<std::unique_ptr<ExecutedRun>> Open(const Graph& graph, PlannedStep step,
                                                           const ExecutorSetup& setup);

  absl::Status SetPersistent(TensorId id, const DenseTensor& value) override;
  absl::Status RunStep(const Inputs& inputs, const StepArguments& arguments) override;
  absl::StatusOr<DenseTensor> Output(TensorId id) override;
  absl::StatusOr<DenseTensor> Persistent(TensorId id) override;

  const Program& program() const { return executor_->program(); }
  std::vector<Bytes> BytesReceived() const { return executor_->BytesReceived(); }
  int64_t replayed_steps() const { return replayed_steps_; }

 private:
  using Memory = std::pmr::vector<std::byte>;

  ExecutedRun(const Graph& graph, std::unique_ptr<Executor> executor)
      : graph_(graph),
        executor_(std::move(executor)),
        input_(executor_->batch_memory()),
        labels_(executor_->batch_memory()) {}
  // The batch of a role in `memory`.
  HostTensor Take(TensorRole role, const Inputs& inputs, Memory& memory) const;

  const Graph& graph_;
  std::unique_ptr<Executor> executor_;
  Memory input_, labels_;  // of the last step
  int64_t replayed_steps_ = 0;
};

// Evaluates strategies as the planner does, on the first devices of the named machines.
class PlannerOrders {
 public:
  // The step of a strategy for options.devices devices of some named machine, whose nodes replace
  // those of `options`, with random choices for its collectives (WithRandomCollectives). At most 16
  // devices. Errors as Evaluator::EvaluateStep.
  absl::StatusOr<EvaluatedStep> StepOf(const Graph& graph, const Strategy& strategy,
                                       const PartitionOptions& options, std::mt19937_64& random);

 private:
  struct PricedDevices {
    std::shared_ptr<const Machine> machine;
    std::unique_ptr<CostModel> model;
  };
  std::map<std::pair<std::string, int>, PricedDevices> priced_;  // by machine and devices
};

}  // namespace partita
