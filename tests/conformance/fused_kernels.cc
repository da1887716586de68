#include "tests/conformance/fused_kernels.h"

#include <optional>
#include <utility>

namespace partita {
namespace {

// Operands of the next operator: place in the kernel so far, or the type of a new input.
struct Operand {
  std::optional<TensorPlace> place;
  TensorType type = {};
};
Operand In(int32_t index) { return {TensorPlace{TensorPlace::List::kInput, index}}; }
Operand Out(int32_t index) { return {TensorPlace{TensorPlace::List::kOutput, index}}; }
Operand New(TensorType type) { return {std::nullopt, std::move(type)}; }

void AddWhole(const TensorType& type, std::vector<Box>& boxes, std::vector<Shape>& shapes) {
  boxes.push_back(Box::Full(type.shape));
  shapes.push_back(type.shape);
}

WholeKernel Then(WholeKernel kernel, const OpAttrs& next, const std::vector<Operand>& operands) {
  KernelSignature one{next, Pass::Forward(), {}, {}};
  InputLinks links;
  std::vector<TensorType> types;
  for (const Operand& operand : operands) {
    links.push_back(operand.place);
    TensorType type = operand.type;
    if (operand.place.has_value()) {
      const auto index = static_cast<size_t>(operand.place->index);
      const bool is_input = operand.place->list == TensorPlace::List::kInput;
      type = (is_input ? kernel.signature.inputs : kernel.signature.outputs)[index].type;
    } else {
      AddWhole(type, kernel.input_boxes, kernel.input_shapes);
    }
    one.inputs.push_back({type});
    types.push_back(type);
  }
  const auto results = InferResults(next, types);
  for (const TensorType& type : results.value()) {
    one.outputs.push_back({type});
    AddWhole(type, kernel.output_boxes, kernel.output_shapes);
  }
  kernel.signature = Fused(std::move(kernel.signature), one, links);
  return kernel;
}

WholeKernel WithRelu(WholeKernel kernel) {
  kernel.signature = WithEpilogue(std::move(kernel.signature), Relu{});
  return kernel;
}

// `plain`, a gradient, going into an update.
WholeKernel FusedWith(const OpAttrs& update, const WholeKernel& plain) {
  const KernelTensor weight = plain.signature.outputs[0];
  std::vector<KernelTensor> operands;
  absl::StatusOr<std::vector<TensorType>> results;
  while (!results.ok()) {  // a weight, a gradient and as many states as it wants
    operands.push_back(weight);
    results = InferResults(update, std::vector<TensorType>(operands.size(), weight.type));
  }
  WholeKernel fused = plain;
  fused.signature = FusedUpdate(
      plain.signature,
      {update, Pass::Forward(), operands, std::vector<KernelTensor>(results->size(), weight)});
  fused.input_boxes.resize(fused.signature.inputs.size(), plain.output_boxes[0]);
  fused.input_shapes.resize(fused.signature.inputs.size(), plain.output_shapes[0]);
  fused.output_boxes.resize(results->size(), plain.output_boxes[0]);
  fused.output_shapes.resize(results->size(), plain.output_shapes[0]);
  return fused;
}

TensorType ChannelsOf(const TensorType& x) { return {x.dtype, {x.shape[1]}}; }

// The kernels of layers that are decomposed into several operators, by their first.
std::vector<WholeKernel> After(const BatchMoments&, const WholeKernel& first) {
  const TensorType x = first.signature.inputs[0].type, c = ChannelsOf(x);
  const BatchNormFields fields{.count = Volume(x.shape) / x.shape[1], .epsilon = 1e-3};
  const WholeKernel norm =
      Then(first, BatchNormalize{fields}, {In(0), Out(0), Out(1), New(c), New(c)});
  return {norm, WithRelu(norm)};
}

std::vector<WholeKernel> After(const BatchNormGradMoments& moments, const WholeKernel& first) {
  const BatchNormFields& fields = moments;
  const TensorType gamma = ChannelsOf(first.signature.inputs[0].type);
  return {Then(first, BatchNormGradApply{fields},
               {In(0), In(1), In(2), New(gamma), In(3), Out(1), Out(0)})};
}

std::vector<WholeKernel> After(const RowMax&, const WholeKernel& first) {
  const WholeKernel sums = Then(first, SumExp{}, {In(0), Out(0)});
  const TensorType rows = first.signature.outputs[0].type;
  const TensorType labels = {DType::kInt32, rows.shape};
  const CrossEntropy loss{CrossEntropyFields{.rows = Volume(rows.shape)}};
  return {sums, Then(sums, loss, {In(0), New(labels), Out(0), Out(1)}),
          Then(sums, SoftmaxApply{}, {In(0), Out(0), Out(1)}),
          Then(sums, LogSoftmaxApply{}, {In(0), Out(0), Out(1)})};
}

std::vector<WholeKernel> After(const SoftmaxDot&, const WholeKernel& first) {
  return {Then(first, SoftmaxGrad{}, {In(0), In(1), In(2), In(3), Out(0)})};
}

std::vector<WholeKernel> After(const RowSum&, const WholeKernel& first) {
  const TensorType x = first.signature.inputs[0].type, rows = first.signature.outputs[0].type;
  return {Then(first, LogSoftmaxGrad{}, {New(x), New(rows), New(rows), In(0), Out(0)})};
}

template <class Row>
std::vector<WholeKernel> After(const Row&, const WholeKernel&) {
  return {};
}

}  // namespace

std::vector<WholeKernel> FusedKernels(const WholeKernel& first) {
  const KernelSignature& signature = first.signature;
  std::vector<WholeKernel> all;
  if (signature.pass.is_forward()) {
    all = std::visit([&](const auto& row) { return After(row, first); }, signature.attrs);
    if (TakesEpilogue(signature.attrs)) all.push_back(WithRelu(first));
  }
  if (CanFuseUpdate(signature.attrs, signature.pass)) {
    for (const OpAttrs& update :
         {OpAttrs{Sgd{}}, OpAttrs{Sgd{.nesterov = true}}, OpAttrs{Adam{}}}) {
      all.push_back(FusedWith(update, first));
    }
  }
  return all;
}

}  // namespace partita
