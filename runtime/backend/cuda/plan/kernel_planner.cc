#include "runtime/backend/cuda/plan/kernel_planner.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "graph/support/status_macros.h"
#include "runtime/backend/kernel_stages.h"

namespace partita {
namespace {

// Blocks that keep every GPU busy; fixed, so that all GPUs add in the same order.
constexpr int64_t kWantedBlocks = 1024;
constexpr int64_t kMostChunks = 512;
constexpr int64_t kLeastTermsPerThread = 16;

ReductionShape ShapeOf(int64_t rows, int64_t terms, bool rows_are_neighbours) {
  ReductionShape shape;
  shape.rows = rows;
  shape.terms = terms;
  shape.rows_are_neighbours = rows_are_neighbours;
  shape.lanes = rows_are_neighbours || terms <= 16 ? 8 : terms <= 128 ? 32 : shape.kBlockThreads;
  const int64_t rows_of_block = shape.kBlockThreads / shape.lanes;
  const int64_t blocks = (rows + rows_of_block - 1) / rows_of_block;
  shape.groups = BlocksFor(rows, rows_of_block, ReductionShape::kMostGroups);
  const int64_t most = std::min(kMostChunks, terms / (shape.lanes * kLeastTermsPerThread));
  shape.chunks = std::clamp<int64_t>(kWantedBlocks / blocks, 1, std::max<int64_t>(1, most));
  return shape;
}

// The second pass of a reduction of that shape.
ReductionShape MergeShapeOf(const ReductionShape& first) {
  ReductionShape shape;
  shape.rows = first.rows;
  shape.terms = first.chunks;
  shape.lanes = ReductionShape::kMergeLanes;
  shape.groups = BlocksFor(shape.rows, shape.kBlockThreads / shape.lanes, shape.kMostGroups);
  return shape;
}

bool HasOutput(const KernelSignature& signature) {
  return std::any_of(signature.outputs.begin(), signature.outputs.end(),
                     [](const KernelTensor& t) { return t.present; });
}

void PlanPlain(const KernelSignature& signature, KernelPlanner& planner) {
  std::visit([&](const auto& attrs) { PlanOperator(attrs, planner); }, signature.attrs);
}

// The steps of one operator after those of the other; what they do not store is in scratch memory.
void PlanFused(KernelPlanner& planner, const KernelArguments& given) {
  const KernelSignature& signature = planner.signature();
  std::vector<void*> inner;
  for (const KernelTensor& tensor : signature.fusion.inner) {
    inner.push_back(planner.Scratch<char>(tensor.type.bytes()));
  }
  for (const KernelStage& stage : StagesOf(signature)) {
    const StageArguments arguments(stage, given, inner);
    planner.Add(stage.kernel, arguments.get());
  }
}

}  // namespace

StepNumbers NumbersOf(const StepArguments& arguments) {
  const auto t = static_cast<double>(arguments.step + 1);
  StepNumbers numbers;
  numbers.dropout_key = DropoutMask(0, arguments.seed, arguments.step, 0).key;
  numbers.rate = static_cast<float>(arguments.learning_rate);
  numbers.momentum = static_cast<float>(arguments.momentum);
  numbers.decay = static_cast<float>(arguments.weight_decay);
  numbers.epsilon = static_cast<float>(arguments.epsilon);
  numbers.keep1 = static_cast<float>(arguments.beta1);
  numbers.take1 = static_cast<float>(1 - arguments.beta1);
  numbers.keep2 = static_cast<float>(arguments.beta2);
  numbers.take2 = static_cast<float>(1 - arguments.beta2);
  numbers.correct1 = static_cast<float>(1 / (1 - std::pow(arguments.beta1, t)));
  numbers.correct2 = static_cast<float>(1 / (1 - std::pow(arguments.beta2, t)));
  return numbers;
}

std::vector<KernelOptions> WaysToPlan(Precision precision) {
  const KernelOptions second{precision}, last{precision, true};
  const KernelOptions second_blocks{precision, false, true}, last_blocks{precision, true, true};
  switch (precision) {
    case Precision::kFloat32:
      return {second, second_blocks};
    case Precision::kTf32:
      return {second, last, last_blocks, KernelOptions{}};
    case Precision::kFloat16:
    case Precision::kBfloat16:
      break;
  }
  return {last, second, last_blocks, KernelOptions{}};
}

std::vector<int64_t> RowMajorStridesOf(const Shape& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  return strides;
}

std::vector<int64_t> BroadcastStrides(const Shape& operand, const Shape& shape) {
  std::vector<int64_t> strides(shape.size(), 0);
  int64_t stride = 1;
  for (size_t d = 1; d <= operand.size(); ++d) {
    const int64_t extent = operand[operand.size() - d];
    if (extent != 1) strides[shape.size() - d] = stride;
    stride *= extent;
  }
  return strides;
}

StridedIndex KernelPlanner::Walk(std::span<const int64_t> extents, std::span<const int64_t> strides,
                                 int64_t offset) {
  struct Dimension {
    int64_t extent, stride;
  };
  std::vector<Dimension> dimensions;  // innermost first
  for (size_t d = extents.size(); d-- > 0;) {
    if (extents[d] == 1) continue;
    if (!dimensions.empty() && strides[d] == dimensions.back().stride * dimensions.back().extent) {
      dimensions.back().extent *= extents[d];
    } else {
      dimensions.push_back({extents[d], strides[d]});
    }
  }
  StridedIndex index;
  index.offset = offset;
  if (dimensions.size() > StridedIndex::kMaxRank) {
    Fail(absl::StrCat("more than ", int{StridedIndex::kMaxRank}, " dimensions"));
    return index;
  }
  index.rank = static_cast<int>(dimensions.size());
  for (size_t k = 0; k < dimensions.size(); ++k) {
    const Dimension& dimension = dimensions[dimensions.size() - 1 - k];
    index.extent[k] = Divisor::Of(std::max<int64_t>(1, dimension.extent));
    index.stride[k] = dimension.stride;
  }
  return index;
}

void KernelPlanner::ForEach(int64_t count, const ElementFunctor& functor, int64_t places) {
  if (count > 0) plan_.steps.emplace_back(ElementWork::Of(count, functor, places));
}

void KernelPlanner::Reduce(int64_t rows, int64_t terms, bool rows_are_neighbours,
                           ReductionFunctor functor) {
  if (rows == 0) return;
  ReductionWork work{std::move(functor), ShapeOf(rows, terms, rows_are_neighbours)};
  if (work.shape.chunks > 1) {
    work.merge = MergeShapeOf(work.shape);
    const auto partial_bytes = std::visit(
        [](const auto& f) { return sizeof(typename std::decay_t<decltype(f)>::Partial); },
        work.functor);
    work.partials = Scratch<char>(rows * work.shape.chunks * static_cast<int64_t>(partial_bytes));
  }
  plan_.steps.emplace_back(std::move(work));
}

void KernelPlanner::Transpose(const Conversion& conversion, int64_t batch, int64_t rows,
                              int64_t columns) {
  constexpr int64_t kMostOfMatrix = 1 << 30;  // its kernel's offsets are of 32 bits
  if (batch * rows * columns == 0) return;
  if (rows * columns > kMostOfMatrix) return Fail("too many elements of a sample");
  if (rows > NarrowTransposeElement::kMostRows) {
    plan_.steps.emplace_back(TransposeWork::Of(conversion, batch, rows, columns));
  } else {
    ForEach(batch * columns,
            NarrowTransposeElement{conversion, static_cast<int>(rows), Divisor::Of(columns)});
  }
}

void KernelPlanner::Add(const KernelSignature& signature, const KernelArguments& arguments) {
  KernelPlanner other(signature, arguments, {scratch_, numbers_}, options_);
  other.plan_.scratch_bytes = plan_.scratch_bytes;
  PlanPlain(signature, other);
  status_.Update(other.status_);
  plan_.depends_on_place = plan_.depends_on_place || other.plan_.depends_on_place;
  plan_.scratch_bytes = other.plan_.scratch_bytes;
  for (KernelStep& step : other.plan_.steps) plan_.steps.push_back(std::move(step));
}

void KernelPlanner::Fail(const std::string& why) {
  status_.Update(absl::UnimplementedError(
      absl::StrCat("the cuda backend has no kernel for ", ToString(signature_), ": ", why)));
}

absl::StatusOr<KernelSteps> KernelPlanner::Finish() {
  if (!status_.ok()) return status_;
  return std::move(plan_);
}

void* KernelPlanner::Piece(const KernelTensor& tensor, const TensorArgument& argument,
                           DType dtype) {
  if (!tensor.present) return nullptr;
  if (tensor.type.dtype != dtype) {
    Fail(absl::StrCat("it wants ", Name(dtype), " where it is given ", ToString(tensor.type)));
    return nullptr;
  }
  if (tensor.format != Format::kDense) Fail("its buffers are dense");
  return argument.data;
}

uintptr_t KernelPlanner::TakeScratch(int64_t bytes) {
  const auto at =
      reinterpret_cast<uintptr_t>(scratch_) + static_cast<uintptr_t>(plan_.scratch_bytes);
  plan_.scratch_bytes += (bytes + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment;
  return at;
}

absl::StatusOr<KernelSteps> PlanKernel(const KernelSignature& signature,
                                       const KernelArguments& arguments, const LaunchMemory& memory,
                                       const KernelOptions& options) {
  KernelPlanner planner(signature, arguments, memory, options);
  if (arguments.inputs.size() != signature.inputs.size() ||
      arguments.outputs.size() != signature.outputs.size()) {
    return absl::InternalError(absl::StrCat("a launch with ", arguments.inputs.size(),
                                            " inputs and ", arguments.outputs.size(),
                                            " outputs of ", ToString(signature)));
  }
  if (!HasOutput(signature)) return KernelSteps{};
  // Rows that take an epilogue apply it in their own plans.
  if (signature.is_fused() && !(HasOnlyEpilogue(signature) && TakesEpilogue(signature.attrs))) {
    PlanFused(planner, arguments);
  } else {
    PlanPlain(signature, planner);
  }
  return planner.Finish();
}

WholePieces WholePiecesOf(const KernelSignature& signature) {
  const auto pieces = [](const std::vector<KernelTensor>& tensors) {
    std::vector<TensorArgument> arguments;
    for (const KernelTensor& t : tensors) {
      arguments.push_back({nullptr, Box::Full(t.type.shape), t.type.shape});
    }
    return arguments;
  };
  return {pieces(signature.inputs), pieces(signature.outputs)};
}

absl::StatusOr<KernelSteps> PlanShapes(const KernelSignature& signature,
                                       const KernelOptions& options) {
  const WholePieces pieces = WholePiecesOf(signature);
  return PlanKernel(signature, {pieces.inputs, pieces.outputs, {}, 0}, nullptr, options);
}

}  // namespace partita
