#include "tests/conformance/operator_runner.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "graph/support/check.h"
#include "graph/support/status_macros.h"
#include "runtime/backend/reference/kernels.h"

namespace partita {
namespace {

std::vector<Shape> ShapesOf(std::span<const TensorType> types) {
  std::vector<Shape> shapes;
  for (const TensorType& type : types) shapes.push_back(type.shape);
  return shapes;
}

// Calls visit(offset in the whole, offset in the piece, length) for each run of `box`.
template <class Visit>
void ForEachRun(const Shape& whole, const Box& box, Visit&& visit) {
  if (box.empty()) return;
  const int rank = box.rank();
  const int64_t run = rank == 0 ? 1 : box[rank - 1].size();
  for (int64_t i = 0; i < box.volume(); i += run) {
    int64_t rest = i, offset = 0, stride = 1;
    for (int d = rank - 1; d >= 0; --d) {
      offset += (box[d].lo + rest % box[d].size()) * stride;
      rest /= box[d].size();
      stride *= whole[static_cast<size_t>(d)];
    }
    visit(offset, i, run);
  }
}

void CopyInto(TestTensor& total, const Box& box, const TestTensor& piece) {
  const int64_t size = SizeOf(total.type.dtype);
  ForEachRun(total.type.shape, box, [&](int64_t to, int64_t from, int64_t run) {
    std::memcpy(total.bytes.data() + to * size, piece.bytes.data() + from * size,
                static_cast<size_t>(run * size));
  });
}

StepArguments TestStep() {
  StepArguments step;
  step.step = 3;
  step.seed = 77;
  step.weight_decay = 0.125;
  return step;
}

// The next block of every loop; false after the last.
bool Advance(std::vector<int64_t>& index, std::span<const int64_t> degrees) {
  for (size_t l = index.size(); l-- > 0;) {
    if (++index[l] < degrees[l]) return true;
    index[l] = 0;
  }
  return false;
}

}  // namespace

TensorType Floats(const Shape& shape) { return {DType::kFloat32, shape}; }

TestTensor PieceOf(const TestTensor& tensor, const Box& box) {
  TestTensor piece({tensor.type.dtype, box.shape()});
  const int64_t size = SizeOf(tensor.type.dtype);
  ForEachRun(tensor.type.shape, box, [&](int64_t from, int64_t to, int64_t run) {
    std::memcpy(piece.bytes.data() + to * size, tensor.bytes.data() + from * size,
                static_cast<size_t>(run * size));
  });
  return piece;
}

void CombineInto(TestTensor& total, const Box& box, const TestTensor& piece, Reduction reduction) {
  CHECK(total.type.dtype == DType::kRing64);
  const auto to = total.as<uint64_t>();
  const auto from = piece.as<uint64_t>();
  ForEachRun(total.type.shape, box, [&](int64_t whole, int64_t part, int64_t run) {
    for (int64_t i = 0; i < run; ++i) {
      uint64_t& sum = to[static_cast<size_t>(whole + i)];
      const uint64_t value = from[static_cast<size_t>(part + i)];
      if (reduction == Reduction::kSum) {
        sum += value;
      } else {
        sum =
            static_cast<uint64_t>(std::max(static_cast<int64_t>(sum), static_cast<int64_t>(value)));
      }
    }
  });
}

TestTensor Filled(const TensorType& type, const OperandFill& fill, FillMode mode,
                  std::mt19937_64& random) {
  TestTensor tensor(type);
  const bool wide = fill.kind == OperandFill::Kind::kWide;
  const double lowest = wide ? -5 : fill.kind == OperandFill::Kind::kPositive ? 0.5 : -1;
  std::uniform_real_distribution<double> real(lowest, lowest + (wide ? 10 : 2));
  switch (type.dtype) {
    case DType::kInt32:
      for (int32_t& x : tensor.as<int32_t>()) {
        x = static_cast<int32_t>(random() % static_cast<uint64_t>(fill.bound));
      }
      break;
    case DType::kRing64:
      for (uint64_t& x : tensor.as<uint64_t>())
        x = mode == FillMode::kTies ? random() % 2 : random();
      break;
    case DType::kFloat64:
      for (double& x : tensor.as<double>()) x = real(random);
      break;
    case DType::kFloat32:
      for (float& x : tensor.as<float>()) x = static_cast<float>(real(random));
      break;
  }
  return tensor;
}

std::vector<TensorType> WithArithmetic(std::vector<TensorType> types, DType dtype) {
  for (TensorType& type : types) {
    if (type.dtype != DType::kInt32 && dtype != DType::kFloat32) type.dtype = dtype;
  }
  return types;
}

std::vector<Pass> PassesOf(const ShardingRule& rule) {
  std::vector<Pass> passes = {Pass::Forward()};
  for (size_t k = 0; k < rule.operands.size(); ++k) {
    if (rule.operands[k].differentiable) passes.push_back(Pass::Gradient(static_cast<int>(k)));
  }
  return passes;
}

OperatorRun::OperatorRun(const OperatorExample& example, DType dtype) : attrs_(example.attrs) {
  const auto results = InferResults(attrs_, example.operands);
  CHECK(results.ok()) << example.name << ": " << results.status();
  rule_ = MakeRule(attrs_, example.operands, *results);
  operands_ = WithArithmetic(example.operands, dtype);
  results_ = WithArithmetic(*results, dtype);
}

ShardingRule OperatorRun::RuleOf(Pass pass) const {
  if (pass.is_forward()) return rule_;
  return GradientRule(rule_, pass.gradient, ReadsForGradient(attrs_, pass.gradient));
}

std::vector<TensorType> OperatorRun::InputTypes(Pass pass) const {
  if (pass.is_forward()) return operands_;
  const GradientReads reads = ReadsForGradient(attrs_, pass.gradient);
  std::vector<TensorType> types;
  for (int k : reads.operands) types.push_back(operands_[static_cast<size_t>(k)]);
  for (int k : reads.results) types.push_back(results_[static_cast<size_t>(k)]);
  types.insert(types.end(), results_.begin(), results_.end());
  return types;
}

std::vector<TensorType> OperatorRun::OutputTypes(Pass pass) const {
  if (pass.is_forward()) return results_;
  return {operands_[static_cast<size_t>(pass.gradient)]};
}

std::vector<TestTensor> OperatorRun::InputsOf(Pass pass, const std::vector<TestTensor>& operands,
                                              const std::vector<TestTensor>& results,
                                              const std::vector<TestTensor>& gradients) const {
  if (pass.is_forward()) return operands;
  const GradientReads reads = ReadsForGradient(attrs_, pass.gradient);
  std::vector<TestTensor> inputs;
  for (int k : reads.operands) inputs.push_back(operands[static_cast<size_t>(k)]);
  for (int k : reads.results) inputs.push_back(results[static_cast<size_t>(k)]);
  inputs.insert(inputs.end(), gradients.begin(), gradients.end());
  return inputs;
}

absl::StatusOr<OperatorRun::Part> OperatorRun::ViewBlocks(Pass pass,
                                                          std::vector<Interval> blocks) const {
  ASSIGN_OR_RETURN(PartView forward,
                   ViewPart(rule_, ShapesOf(operands_), ShapesOf(results_), blocks));
  ASSIGN_OR_RETURN(PartView view, ViewPart(RuleOf(pass), ShapesOf(InputTypes(pass)),
                                           ShapesOf(OutputTypes(pass)), std::move(blocks)));
  return Part{std::move(forward), std::move(view)};
}

std::vector<TestTensor> OperatorRun::RunPart(Pass pass, const Part& part,
                                             const std::vector<TestTensor>& whole,
                                             int64_t* empty_operands) const {
  KernelSignature signature{Localize(attrs_, part.forward), pass};
  std::vector<TestTensor> pieces, outputs;
  std::vector<TensorArgument> in, out;
  for (size_t k = 0; k < whole.size(); ++k) {
    const TensorView& view = part.pass.operands[k];
    pieces.push_back(PieceOf(whole[k], view.box));
    signature.inputs.push_back({pieces[k].type, Format::kDense, view.present});
    const bool has_data = view.present && !view.box.empty();
    if (empty_operands != nullptr && view.present && view.box.empty()) ++*empty_operands;
    in.push_back({has_data ? pieces[k].bytes.data() : nullptr, view.box, whole[k].type.shape});
  }
  const std::vector<TensorType> types = OutputTypes(pass);
  for (size_t k = 0; k < types.size(); ++k) {
    const TensorView& view = part.pass.results[k];
    outputs.emplace_back(TensorType{types[k].dtype, view.box.shape()});
    std::fill(outputs[k].bytes.begin(), outputs[k].bytes.end(), std::byte{0xA5});
    signature.outputs.push_back({outputs[k].type, Format::kDense, view.present});
    const bool has_data = view.present && !view.box.empty();
    out.push_back({has_data ? outputs[k].bytes.data() : nullptr, view.box, types[k].shape});
  }
  const absl::Status status = RunReferenceKernel(signature, {in, out, TestStep(), 0x1234});
  CHECK(status.ok()) << ToString(signature) << ": " << status;
  return outputs;
}

WholeKernel OperatorRun::KernelOf(Pass pass) const {
  std::vector<Interval> blocks;
  for (const LoopDim& loop : rule_.loops) blocks.push_back({0, loop.extent});
  const auto part = ViewBlocks(pass, blocks);
  CHECK(part.ok()) << part.status();
  return KernelOf(pass, *part);
}

WholeKernel OperatorRun::KernelOf(Pass pass, const Part& part) const {
  WholeKernel kernel{{Localize(attrs_, part.forward), pass, {}, {}}, {}, {}, {}, {}};
  const std::vector<TensorType> inputs = InputTypes(pass), outputs = OutputTypes(pass);
  for (size_t k = 0; k < inputs.size(); ++k) {
    const TensorView& view = part.pass.operands[k];
    kernel.signature.inputs.push_back(
        {{inputs[k].dtype, view.box.shape()}, Format::kDense, view.present});
    kernel.input_boxes.push_back(view.box);
    kernel.input_shapes.push_back(inputs[k].shape);
  }
  for (size_t k = 0; k < outputs.size(); ++k) {
    const TensorView& view = part.pass.results[k];
    kernel.signature.outputs.push_back(
        {{outputs[k].dtype, view.box.shape()}, Format::kDense, view.present});
    kernel.output_boxes.push_back(view.box);
    kernel.output_shapes.push_back(outputs[k].shape);
  }
  return kernel;
}

absl::Status OperatorRun::VisitParts(
    Pass pass, const std::vector<TestTensor>& inputs, std::span<const int64_t> degrees,
    const std::function<void(const WholeKernel&, const std::vector<TestTensor>&)>& visit) const {
  std::vector<int64_t> index(degrees.size(), 0);
  do {
    std::vector<Interval> blocks;
    for (size_t l = 0; l < degrees.size(); ++l) {
      blocks.push_back(BlockOf(rule_.loops[l].extent, degrees[l], index[l]));
    }
    ASSIGN_OR_RETURN(const Part part, ViewBlocks(pass, std::move(blocks)));
    std::vector<TestTensor> pieces;
    for (size_t k = 0; k < inputs.size(); ++k) {
      pieces.push_back(PieceOf(inputs[k], part.pass.operands[k].box));
    }
    visit(KernelOf(pass, part), pieces);
  } while (Advance(index, degrees));
  return absl::OkStatus();
}

std::vector<TestTensor> OperatorRun::RunWhole(Pass pass,
                                              const std::vector<TestTensor>& inputs) const {
  std::vector<Interval> blocks;
  for (const LoopDim& loop : rule_.loops) blocks.push_back({0, loop.extent});
  const auto part = ViewBlocks(pass, blocks);
  CHECK(part.ok()) << part.status();
  const std::vector<TestTensor> pieces = RunPart(pass, *part, inputs, nullptr);
  std::vector<TestTensor> totals;
  for (const TensorType& type : OutputTypes(pass)) totals.emplace_back(type);
  for (size_t k = 0; k < totals.size(); ++k) {
    CopyInto(totals[k], part->pass.results[k].box, pieces[k]);
  }
  return totals;
}

absl::StatusOr<std::vector<TestTensor>> OperatorRun::RunSplit(Pass pass,
                                                              const std::vector<TestTensor>& inputs,
                                                              std::span<const int64_t> degrees,
                                                              int64_t* empty_operands) const {
  const ShardingRule rule = RuleOf(pass);
  std::vector<TestTensor> totals;
  for (const TensorType& type : OutputTypes(pass)) totals.emplace_back(type);
  for (size_t k = 0; k < totals.size(); ++k) {
    if (rule.results[k].reduction != Reduction::kMax) continue;
    for (uint64_t& x : totals[k].as<uint64_t>()) x = uint64_t{1} << 63;
  }
  std::vector<int64_t> index(degrees.size(), 0);
  do {
    std::vector<Interval> blocks;
    for (size_t l = 0; l < degrees.size(); ++l) {
      blocks.push_back(BlockOf(rule.loops[l].extent, degrees[l], index[l]));
    }
    ASSIGN_OR_RETURN(const Part part, ViewBlocks(pass, std::move(blocks)));
    const std::vector<TestTensor> outputs = RunPart(pass, part, inputs, empty_operands);
    for (size_t k = 0; k < outputs.size(); ++k) {
      const TensorView& view = part.pass.results[k];
      if (view.present) CombineInto(totals[k], view.box, outputs[k], rule.results[k].reduction);
    }
  } while (Advance(index, degrees));
  return totals;
}

TestTensor OperatorRun::RunInPlace(Pass pass, std::vector<TestTensor> inputs,
                                   InPlacePair pair) const {
  std::vector<Interval> blocks;
  for (const LoopDim& loop : rule_.loops) blocks.push_back({0, loop.extent});
  const auto part = ViewBlocks(pass, blocks);
  CHECK(part.ok()) << part.status();
  KernelSignature signature{Localize(attrs_, part->forward), pass};
  std::vector<TestTensor> outputs;
  std::vector<TensorArgument> in, out;
  for (TestTensor& input : inputs) {
    signature.inputs.push_back({input.type});
    in.push_back({input.bytes.data(), Box::Full(input.type.shape), input.type.shape});
  }
  for (const TensorType& type : OutputTypes(pass)) outputs.emplace_back(type);
  for (TestTensor& output : outputs) {
    signature.outputs.push_back({output.type});
    out.push_back({output.bytes.data(), Box::Full(output.type.shape), output.type.shape});
  }
  TestTensor& shared = inputs[static_cast<size_t>(pair.input)];
  out[static_cast<size_t>(pair.output)].data = shared.bytes.data();
  const absl::Status status = RunReferenceKernel(signature, {in, out, TestStep(), 0x1234});
  CHECK(status.ok()) << ToString(signature) << ": " << status;
  return shared;
}

}  // namespace partita
