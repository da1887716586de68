#include "tests/conformance/executed_run.h"

#include "cost_model/default_cost_model.h"
#include "cost_model/machines.h"
#include "graph/support/status_macros.h"
#include "tests/testing/random_collectives.h"

namespace partita {

absl::StatusOr<std::unique_ptr<ExecutedRun>> ExecutedRun::Open(
    const Graph& graph, TaskGraph tasks, std::vector<TaskId> order,
    std::shared_ptr<const Backend> backend, MessagePort* port) {
  const int devices = tasks.devices();
  return Open(graph, {std::move(tasks), std::move(order)},
              {.devices = VirtualDevices(std::move(backend), devices),
               .communicator = port == nullptr ? "inproc" : "mpi",
               .hang_seconds = 600,
               .port = port});
}

absl::StatusOr<std::unique_ptr<ExecutedRun>> ExecutedRun::Open(const Graph& graph, PlannedStep step,
                                                               const ExecutorSetup& setup) {
  ASSIGN_OR_RETURN(auto executor, OpenExecutor(graph, std::move(step), setup));
  return std::unique_ptr<ExecutedRun>(new ExecutedRun(graph, std::move(executor)));
}

absl::Status ExecutedRun::SetPersistent(TensorId id, const DenseTensor& value) {
  return executor_->WriteTensor(id, {value.type.dtype, value.bytes});
}

absl::Status ExecutedRun::RunStep(const Inputs& inputs, const StepArguments& arguments) {
  const HostTensor input = Take(TensorRole::kSamples, inputs, input_);
  const HostTensor labels = Take(TensorRole::kLabels, inputs, labels_);
  ASSIGN_OR_RETURN(const StepResult result, executor_->Step(input, labels, arguments));
  replayed_steps_ += result.replayed ? 1 : 0;
  return executor_->CheckCopies();
}

HostTensor ExecutedRun::Take(TensorRole role, const Inputs& inputs, Memory& memory) const {
  memory.clear();
  HostTensor batch;
  for (TensorId wanted : graph_.tensors(role)) {
    for (const auto& [id, value] : inputs) {
      if (id != wanted) continue;
      batch.dtype = value.type.dtype;
      memory.insert(memory.end(), value.bytes.begin(), value.bytes.end());
    }
  }
  batch.bytes = memory;
  return batch;
}

absl::StatusOr<DenseTensor> ExecutedRun::Output(TensorId id) {
  const auto index = OutputIndex(program().tasks, id);
  if (!index.has_value()) return absl::NotFoundError(graph_.tensor(id).name);
  DenseTensor value(graph_.tensor(id).type);
  RETURN_IF_ERROR(executor_->ReadOutput(*index, value.bytes));
  return value;
}

absl::StatusOr<DenseTensor> ExecutedRun::Persistent(TensorId id) {
  DenseTensor value(graph_.tensor(id).type);
  RETURN_IF_ERROR(executor_->ReadTensor(id, value.bytes));
  return value;
}

absl::StatusOr<EvaluatedStep> PlannerOrders::StepOf(const Graph& graph, const Strategy& strategy,
                                                    const PartitionOptions& options,
                                                    std::mt19937_64& random) {
  std::vector<std::string> fitting = {"p100-4x4", "k80-16x4"};
  if (options.devices <= 4) fitting.insert(fitting.end(), {"ethernet-4x1g", "ethernet-4x100m"});
  const std::string name = fitting[random() % fitting.size()];
  PricedDevices& priced = priced_[{name, options.devices}];
  if (priced.machine == nullptr) {
    ASSIGN_OR_RETURN(Machine machine, FindMachine(name, options.devices));
    priced.machine = std::make_shared<const Machine>(std::move(machine));
    priced.model = MakeDefaultCostModel(priced.machine);
  }
  const Evaluator evaluator(graph, priced.machine->topology, *priced.model,
                            {.choices = {.collectives = options.collectives,
                                         .direct_bytes = options.direct_bytes,
                                         .fuse = options.fuse}});
  return evaluator.EvaluateStep(
      WithRandomCollectives(graph, strategy, evaluator.partition_options(), random));
}

}  // namespace partita
