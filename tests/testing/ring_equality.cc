#include "tests/testing/ring_equality.h"

#include "absl/strings/str_cat.h"
#include "graph/support/check.h"
#include "graph/support/status_macros.h"
#include "tests/testing/task_interpreter.h"

namespace partita {
namespace {

bool IsPersistent(const Tensor& tensor) {
  return tensor.kind == TensorKind::kWeight || tensor.kind == TensorKind::kState;
}

absl::Status Difference(const Tensor& tensor, size_t step, const DenseTensor& expected,
                        const DenseTensor& found) {
  if (expected.bytes == found.bytes) return absl::OkStatus();
  const auto size = static_cast<size_t>(SizeOf(expected.type.dtype));
  size_t at = 0;
  while (at < expected.bytes.size() && expected.bytes[at] == found.bytes[at]) ++at;
  return absl::DataLossError(absl::StrCat("'", tensor.name, "' ", ToString(tensor.type),
                                          " differs after step ", step, ", first at element ",
                                          at / size));
}

// Steps in the interpreter; the last one in a random order, if it is given a source of that.
class InterpretedRun : public SplitRun {
 public:
  InterpretedRun(const Graph& graph, const TaskGraph& tasks, size_t steps, std::mt19937_64* random)
      : tasks_(tasks), interpreter_(&graph, tasks), steps_left_(steps), random_(random) {}

  absl::Status SetPersistent(TensorId id, const DenseTensor& value) override {
    interpreter_.SetPersistent(id, value);
    return absl::OkStatus();
  }
  absl::Status RunStep(const Inputs& inputs, const StepArguments& arguments) override {
    for (const auto& [id, value] : inputs) interpreter_.SetInput(id, value);
    if (--steps_left_ > 0 || random_ == nullptr) return interpreter_.RunStep(arguments);
    return interpreter_.RunStep(arguments, RandomOrder(tasks_, *random_));
  }
  absl::StatusOr<DenseTensor> Output(TensorId id) override { return interpreter_.Output(id); }
  absl::StatusOr<DenseTensor> Persistent(TensorId id) override {
    return interpreter_.Persistent(id);
  }

 private:
  const TaskGraph& tasks_;
  TaskInterpreter interpreter_;
  size_t steps_left_;
  std::mt19937_64* random_;
};

}  // namespace

DenseTensor SerialRun::RandomValue(const Tensor& tensor, RingValues values,
                                   std::mt19937_64& random) const {
  DenseTensor value(tensor.type);
  switch (tensor.type.dtype) {
    case DType::kRing64:
      for (uint64_t& x : value.as<uint64_t>()) {
        x = values == RingValues::kSmall ? random() % 3 - 1 : random();
      }
      break;
    case DType::kInt32: {
      const auto classes =
          static_cast<uint64_t>(graph_.WholeType(TensorRole::kLogits).shape.back());
      for (int32_t& x : value.as<int32_t>()) x = static_cast<int32_t>(random() % classes);
      break;
    }
    case DType::kFloat32:
      for (float& x : value.as<float>()) x = static_cast<float>(random() >> 40) * 0x1p-23f - 1;
      break;
    case DType::kFloat64:
      for (double& x : value.as<double>()) x = static_cast<double>(random() >> 11) * 0x1p-52 - 1;
      break;
  }
  return value;
}

SerialRun::SerialRun(const Graph& graph, int steps, RingValues values, std::mt19937_64& random)
    : graph_(graph) {
  SerialTrainer trainer(graph);
  for (const Tensor& tensor : graph.tensors()) {
    if (!IsPersistent(tensor)) continue;
    trainer.mutable_value(tensor.id) = RandomValue(tensor, values, random);
    start_.emplace_back(tensor.id, trainer.value(tensor.id));
  }
  for (int s = 0; s < steps; ++s) {
    Step step;
    step.arguments = {.step = s, .seed = 77, .weight_decay = 0.125};
    for (const Tensor& tensor : graph.tensors()) {
      if (tensor.kind == TensorKind::kInput || tensor.kind == TensorKind::kLabels) {
        trainer.mutable_value(tensor.id) = RandomValue(tensor, values, random);
      }
      if (tensor.kind == TensorKind::kInput || tensor.kind == TensorKind::kLabels ||
          tensor.kind == TensorKind::kSeed) {
        step.inputs.emplace_back(tensor.id, trainer.value(tensor.id));
      }
    }
    const absl::Status status = trainer.Step(step.arguments);
    CHECK(status.ok()) << status;
    for (TensorId id : {graph.only(TensorRole::kLoss), graph.only(TensorRole::kCorrect)}) {
      if (id != kNoTensor) step.outputs.emplace_back(id, trainer.value(id));
    }
    for (const auto& [id, value] : start_) step.persistent.emplace_back(id, trainer.value(id));
    steps_.push_back(std::move(step));
  }
}

absl::Status SerialRun::Compare(SplitRun& run) const {
  for (const auto& [id, value] : start_) RETURN_IF_ERROR(run.SetPersistent(id, value));
  for (size_t s = 0; s < steps_.size(); ++s) {
    const Step& step = steps_[s];
    RETURN_IF_ERROR(run.RunStep(step.inputs, step.arguments));
    for (const auto& [id, expected] : step.outputs) {
      ASSIGN_OR_RETURN(const DenseTensor found, run.Output(id));
      RETURN_IF_ERROR(Difference(graph_.tensor(id), s, expected, found));
    }
    for (const auto& [id, expected] : step.persistent) {
      ASSIGN_OR_RETURN(const DenseTensor found, run.Persistent(id));
      RETURN_IF_ERROR(Difference(graph_.tensor(id), s, expected, found));
    }
  }
  return absl::OkStatus();
}

absl::Status SerialRun::Compare(const TaskGraph& tasks, std::mt19937_64* random) const {
  InterpretedRun run(graph_, tasks, steps_.size(), random);
  return Compare(run);
}

}  // namespace partita
