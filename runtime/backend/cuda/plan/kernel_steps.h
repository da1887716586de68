#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/task/kernel_signature.h"
#include "runtime/backend/cuda/elements/works.h"
#include "runtime/backend/kernel_arguments.h"
#include "runtime/backend/precision.h"

// Steps of the cuda backend for one launch of a kernel, as plain structures: made on the host,
// without any call to CUDA, and therefore tested on the host, where the same functors run in loops.

namespace partita {

// Products of column-major matrices as BLAS writes them: c[m, n] = op(a)[m, k] * op(b)[k, n], with
// bias[i] added to row i where there is a bias. A leading dimension is the distance of two columns
// in memory, a batch stride that of two matrices. No extent is 0.
// a and b are of `precision`'s type, the rest is float32.
struct GemmShape {
  bool transpose_a = false, transpose_b = false;
  int64_t m = 0, n = 0, k = 0;
  int64_t lda = 0, ldb = 0, ldc = 0;
  bool bias = false;
  Precision precision = Precision::kFloat32;
  bool deterministic = true;  // false: sums may be made in an order that differs from run to run
  int64_t batch = 1;          // number of products
  int64_t stride_a = 0, stride_b = 0, stride_c = 0;

  friend bool operator==(const GemmShape&, const GemmShape&) = default;
  template <class H>
  friend H AbslHashValue(H h, const GemmShape& s) {
    return H::combine(std::move(h), s.transpose_a, s.transpose_b, s.m, s.n, s.k, s.lda, s.ldb,
                      s.ldc, s.bias, s.precision, s.deterministic, s.batch, s.stride_a, s.stride_b,
                      s.stride_c);
  }
};

struct Gemm {
  GemmShape shape;
  const void *a = nullptr, *b = nullptr;
  const float* bias = nullptr;
  float* c = nullptr;
  // float16: in memory, what a product is multiplied by, before the bias, and 0.
  const float* factors = nullptr;

  template <class Visit>
  void VisitPointers(Visit&& visit) {
    visit(a, b, bias, c, factors);
  }
};

constexpr int64_t VolumeOf(const std::array<int64_t, 4>& extents) {
  return extents[0] * extents[1] * extents[2] * extents[3];
}

// A convolution of x[n, c, h, w] by w[k, c / groups, kh, kw] into y[n, k, oh, ow], all dense, with
// the same padding on both sides of each dimension: y's extents are those that the padding gives.
// All three are of `precision`'s type; with channels_last their second dimension is the innermost
// in memory. No extent is 0.
enum class ConvolutionPass : uint8_t { kForward, kData, kFilter };
struct ConvolutionShape {
  ConvolutionPass pass = ConvolutionPass::kForward;
  std::array<int64_t, 4> x = {}, w = {}, y = {};
  std::array<int64_t, 2> pad = {}, stride = {1, 1}, dilation = {1, 1};
  int64_t groups = 1;
  bool bias = false, relu = false;  // forward, float32 only: added to y, then applied
  Precision precision = Precision::kFloat32;
  bool channels_last = false;
  bool deterministic = true;  // as in GemmShape

  // Extents of what the pass writes.
  const std::array<int64_t, 4>& result() const {
    return pass == ConvolutionPass::kForward ? y : pass == ConvolutionPass::kData ? x : w;
  }

  friend bool operator==(const ConvolutionShape&, const ConvolutionShape&) = default;
  template <class H>
  friend H AbslHashValue(H h, const ConvolutionShape& s) {
    return H::combine(std::move(h), s.pass, s.x, s.w, s.y, s.pad, s.stride, s.dilation, s.groups,
                      s.bias, s.relu, s.precision, s.channels_last, s.deterministic);
  }
};

// Reads two of x, w, y and writes the third: y (kForward), x (kData: x and y are gradients) or w
// (kFilter: w and y are gradients).
struct Convolution {
  ConvolutionShape shape;
  void *x = nullptr, *w = nullptr, *y = nullptr;
  const float* bias = nullptr;
  // Work of bias and ReLU where the library does not do them; count 0 without them.
  ElementWork epilogue;

  template <class Visit>
  void VisitPointers(Visit&& visit) {
    visit(x, w, y, bias);
    if (epilogue.count > 0) epilogue.VisitPointers(visit);
  }
  // The tensor that the pass writes.
  void* result() const {
    return shape.pass == ConvolutionPass::kForward ? y
           : shape.pass == ConvolutionPass::kData  ? x
                                                   : w;
  }
};

using KernelStep =
    std::variant<ElementWork, ReductionWork, TransposeWork, MaxPoolWork, Gemm, Convolution>;

struct KernelSteps {
  std::vector<KernelStep> steps;  // steps in order
  int64_t scratch_bytes = 0;      // scratch that the steps use, after `scratch`
  // Whether steps depend on the boxes of the pieces, or on the operator's key.
  bool depends_on_place = false;
};

// The start of a kernel's scratch memory is a multiple of this, and so is every piece of it.
constexpr int64_t kScratchAlignment = 256;

// Precision of a kernel's products and convolutions. Those with factors of 16 bits convert their
// operands into scratch memory, and their results, where these are of 16 bits, back from it.
struct KernelOptions {
  Precision precision = Precision::kFloat32;
  bool channels_last = false;  // convolutions, through scratch memory
  // Convolutions with a stride of images of few channels, which tensor cores are made for badly:
  // blocks of stride x stride pixels become channels of a convolution without stride.
  bool blocks = false;
  bool deterministic = true;  // as in GemmShape

  friend bool operator==(const KernelOptions&, const KernelOptions&) = default;
};

// The ways to do kernels in, of which the fastest is to be found by measuring; where that cannot
// be, the first. Tensor cores read channels last: factors of 16 bits, which are converted anyway,
// go into that order at once; floats of TF32 go through scratch memory for it, as the library may
// do itself. Blocks are for few convolutions, there is no plan for others. A last way of another
// precision is for what the library has in float32 only.
std::vector<KernelOptions> WaysToPlan(Precision precision);

// The type of the factors.
constexpr NumberType TypeOf(Precision precision) {
  return precision == Precision::kFloat16    ? NumberType::kFloat16
         : precision == Precision::kBfloat16 ? NumberType::kBfloat16
                                             : NumberType::kFloat32;
}

// The step's numbers. The dropout's key is that of DropoutMask.
StepNumbers NumbersOf(const StepArguments& arguments);

// Memory of a launch: scratch memory, and where there is one the place that holds the step's
// numbers when the launch runs, which are the arguments' otherwise.
struct LaunchMemory {
  LaunchMemory(void* scratch_memory, const StepNumbers* numbers_memory = nullptr)  // NOLINT
      : scratch(scratch_memory), numbers(numbers_memory) {}
  void* scratch;
  const StepNumbers* numbers;
};

// The steps of a launch. The memory's scratch holds the plan's scratch_bytes, which, like the
// products and convolutions among the steps, follow from the signature and the options only.
// Pointers are only passed on. Unimplemented for what the backend cannot compute: other types than
// float32 (int32 labels, float64 sums of batch normalisation), native formats, more than
// StridedIndex::kMaxRank dimensions.
absl::StatusOr<KernelSteps> PlanKernel(const KernelSignature& signature,
                                       const KernelArguments& arguments, const LaunchMemory& memory,
                                       const KernelOptions& options = {});

// Arguments of a launch whose pieces are whole tensors, at null.
struct WholePieces {
  std::vector<TensorArgument> inputs, outputs;
};
WholePieces WholePiecesOf(const KernelSignature& signature);

// The plan of a signature without data: of its whole pieces.
absl::StatusOr<KernelSteps> PlanShapes(const KernelSignature& signature,
                                       const KernelOptions& options = {});

}  // namespace partita
