#include "tests/bench/step_turns.h"

#include "absl/strings/str_format.h"
#include "graph/support/status_macros.h"
#include "runtime/executor/executor_setup.h"
#include "runtime/train/checkpoint.h"
#include "runtime/train/data/safetensors.h"
#include "runtime/train/training_state.h"

namespace partita {

RepeatedBatch::RepeatedBatch(std::span<const float> x, std::span<const int32_t> y,
                             Executor& executor)
    : executor_(executor),
      x_(x.begin(), x.end(), executor.batch_memory()),
      y_(y.begin(), y.end(), executor.batch_memory()) {
  executor_.Stage(input(), labels());
}

absl::StatusOr<StepResult> RepeatedBatch::Step(const StepArguments& arguments) {
  executor_.Stage(input(), labels());  // the next one; this one was staged before
  return executor_.Step(input(), labels(), arguments);
}

absl::Status TakeTurns(const Graph& graph, Executor& executor, StepTurns turns, std::istream& in,
                       std::ostream& out) {
  const std::optional<size_t> loss =
      OutputIndex(executor.program().tasks, graph.only(TensorRole::kLoss));
  if (!loss.has_value()) return absl::InvalidArgumentError("the step has no loss");
  ASSIGN_OR_RETURN(TrainingState state, InitialState(graph, 0));
  RETURN_IF_ERROR(LoadWeights(turns.weights, graph, state));
  RETURN_IF_ERROR(WriteValues(graph, state, executor));
  ASSIGN_OR_RETURN(const SafetensorsFile batch, SafetensorsFile::Open(turns.batch));
  ASSIGN_OR_RETURN(const std::span<const float> x, batch.View<float>("x"));
  ASSIGN_OR_RETURN(const std::vector<int64_t> wide, batch.Integers("y"));
  const std::vector<int32_t> y(wide.begin(), wide.end());
  RepeatedBatch repeated(x, y, executor);
  std::string line;
  while (std::getline(in, line)) {
    ASSIGN_OR_RETURN(const StepResult result, repeated.Step(turns.step));
    ++turns.step.step;
    out << absl::StrFormat("{\"ms\": %.4f, \"loss\": %.9g}\n",
                           static_cast<double>(result.wall_ns) / 1e6, result.outputs[*loss])
        << std::flush;
  }
  return absl::OkStatus();
}

}  // namespace partita
