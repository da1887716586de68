#include "tests/testing/exact_model.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "graph/support/check.h"
#include "graph/training/training_graph.h"
#include "runtime/backend/reference/kernels.h"
#include "tests/testing/ok.h"

namespace partita {
namespace {

class ExactModel {
 public:
  explicit ExactModel(std::mt19937_64& random) : random_(random), builder_("exact") {}

  Graph Run() {
    TensorId x = Ok(builder_.AddInput(
        "x", {DType::kFloat32, {2 + Below(3), 1 + Below(3), 4 + Below(4), 3 + Below(4)}}));
    for (int64_t i = 2 + Below(3); i > 0; --i) x = AddLayer(x);
    const Shape s = ShapeOf(x);
    x = Ok(builder_.Add({.name = "flatten", .attrs = Reshape{.shape = {s[0], -1}}, .inputs = {x}}));
    if (Below(2) == 0) x = Add(Relu{}, {Linear(x)});
    builder_.AddRole(TensorRole::kLogits, Linear(x));
    return Ok(std::move(builder_).Build());
  }

 private:
  int64_t Below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  Shape ShapeOf(TensorId x) const { return builder_.tensor(x).type.shape; }
  TensorId Weight(const Shape& shape) {
    return Ok(builder_.AddWeight(absl::StrCat("w", names_++), {DType::kFloat32, shape}, {}));
  }
  // The result, or the first input if these attributes do not fit.
  TensorId Add(OpAttrs attrs, std::vector<TensorId> inputs) {
    const auto y = builder_.Add(
        {.name = absl::StrCat("op", names_++), .attrs = std::move(attrs), .inputs = inputs});
    return y.ok() ? *y : inputs[0];
  }
  TensorId Linear(TensorId x) {
    const int64_t inputs = ShapeOf(x).back(), outputs = 2 + Below(4);
    return Add(MatMul{}, {x, Weight({outputs, inputs}), Weight({outputs})});
  }
  TensorId Conv(TensorId x, int64_t outputs) {
    const Conv2d conv{.stride = {1 + Below(2), 1 + Below(2)},
                      .pads = {Below(2), Below(2), Below(2), Below(2)}};
    const TensorId w = Weight({outputs, ShapeOf(x)[1], 1 + Below(3), 1 + Below(3)});
    return Below(2) == 0 ? Add(conv, {x, w}) : Add(conv, {x, w, Weight({outputs})});
  }
  TensorId AddLayer(TensorId x) {
    switch (Below(6)) {
      case 0:
      case 1:
        return Add(Relu{}, {Conv(x, 1 + Below(4))});
      case 2:
        return Add(Pool2d{.kernel = {2, 2 + Below(2)}, .stride = {1 + Below(2), 2}}, {x});
      case 3: {
        const int64_t c = ShapeOf(x)[1];
        return Add(Binary{.function = "add"},
                   {x, Add(Conv2d{.pads = {1, 1, 1, 1}}, {x, Weight({c, c, 3, 3})})});
      }
      case 4:
        return Add(Concat{.axis = 1}, {x, Add(Conv2d{}, {x, Weight({2, ShapeOf(x)[1], 1, 1})})});
      default:
        return Conv(x, 1 + Below(4));
    }
  }

  std::mt19937_64& random_;
  GraphBuilder builder_;
  int names_ = 0;
};

double LargestMagnitude(const DenseTensor& tensor) {
  double largest = 0;
  for (float x : tensor.as<float>()) largest = std::max<double>(largest, std::abs(x));
  return largest;
}

// What `op` computes from the magnitudes of its inputs.
std::vector<DenseTensor> RunOnMagnitudes(const SerialTrainer& trainer, const Operator& op,
                                         const StepArguments& arguments) {
  const Graph& graph = trainer.graph();
  const Operator& forward = graph.op(op.forward);
  KernelSignature signature{
      .attrs = Localize(op.attrs, ViewWhole(graph.rule(forward.id), graph.InputShapes(forward),
                                            graph.OutputShapes(forward))),
      .pass = op.pass};
  std::vector<DenseTensor> inputs, outputs;
  std::vector<TensorArgument> in, out;
  for (size_t k = 0; k < op.inputs.size(); ++k) {
    inputs.push_back(trainer.value(op.inputs[k]));
    const bool keep = RoutesByValue(op.attrs) && k + 1 < op.inputs.size();
    if (keep) continue;
    for (float& x : inputs.back().as<float>()) x = std::abs(x);
  }
  for (DenseTensor& input : inputs) {
    signature.inputs.push_back({.type = input.type});
    in.push_back({input.bytes.data(), Box::Full(input.type.shape), input.type.shape});
  }
  for (TensorId id : op.outputs) outputs.emplace_back(graph.tensor(id).type);
  for (DenseTensor& output : outputs) {
    signature.outputs.push_back({.type = output.type});
    out.push_back({output.bytes.data(), Box::Full(output.type.shape), output.type.shape});
  }
  const absl::Status status =
      RunReferenceKernel(signature, {.inputs = in, .outputs = out, .step = arguments});
  CHECK(status.ok()) << status;
  return outputs;
}

}  // namespace

Graph RandomExactGraph(std::mt19937_64& random) {
  const Graph model = ExactModel(random).Run();
  for (const Operator& op : model.ops()) CHECK(IsExactOnIntegers(op.attrs)) << op.name;
  return Ok(BuildTrainingGraph(
      model, {.optimizer = random() % 2 == 0 ? TrainingOptions::kSgd : TrainingOptions::kNesterov,
              .loss = TrainingOptions::kSumOfSquares}));
}

void FillWithSmallIntegers(SerialTrainer& trainer, std::mt19937_64& random) {
  for (const Tensor& tensor : trainer.graph().tensors()) {
    const bool weight = tensor.kind == TensorKind::kWeight || tensor.kind == TensorKind::kState;
    if (!weight && tensor.kind != TensorKind::kInput) continue;
    for (float& x : trainer.mutable_value(tensor.id).as<float>()) {
      const bool zero = random() % 8 < (weight ? 5 : 2);
      x = zero ? 0.0f : static_cast<float>(random() % 2) * 2 - 1;
    }
  }
}

StepArguments ExactStep() {
  StepArguments arguments;
  arguments.learning_rate = 0.5;
  arguments.momentum = 0.5;
  arguments.weight_decay = 0.25;
  return arguments;
}

double LargestSumOfMagnitudes(const SerialTrainer& trainer, const StepArguments& arguments) {
  const Graph& graph = trainer.graph();
  std::vector<DenseTensor> sums;  // by tensor
  for (const Tensor& tensor : graph.tensors()) sums.emplace_back(tensor.type);
  double largest = 0;
  for (const Operator& op : graph.ops()) {
    if (op.anchor_weight != kNoTensor) continue;  // element for element: no sums
    const std::vector<DenseTensor> outputs = RunOnMagnitudes(trainer, op, arguments);
    for (size_t k = 0; k < outputs.size(); ++k) {
      DenseTensor& sum = sums[op.outputs[k].index()];
      AddInto(sum, Box::Full(sum.type.shape), outputs[k]);
      largest = std::max(largest, LargestMagnitude(sum));
    }
  }
  return largest;
}

}  // namespace partita
