#pragma once

#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "runtime/backend/cuda/plan/kernel_steps.h"

namespace partita {

// Strides of an operand along the dimensions of `shape`, to which it is broadcast from the last
// dimension on: 0 where it repeats.
std::vector<int64_t> BroadcastStrides(const Shape& operand, const Shape& shape);
std::vector<int64_t> RowMajorStridesOf(const Shape& shape);

// Collects the steps of one launch. What is wrong is remembered and ends in Finish: the plans of
// single operators need not ask.
class KernelPlanner {
 public:
  KernelPlanner(const KernelSignature& signature, const KernelArguments& arguments,
                const LaunchMemory& memory, const KernelOptions& options)
      : signature_(signature),
        arguments_(arguments),
        scratch_(static_cast<char*>(memory.scratch)),
        numbers_(memory.numbers),
        options_(options) {}

  const KernelSignature& signature() const { return signature_; }
  // Numbers that change from step to step.
  StepNumbersArgument numbers() const { return {NumbersOf(arguments_.step), numbers_}; }
  uint64_t operator_key() {
    plan_.depends_on_place = true;
    return arguments_.operator_key;
  }
  const KernelOptions& options() const { return options_; }
  Pass pass() const { return signature_.pass; }

  size_t inputs() const { return signature_.inputs.size(); }
  bool present(size_t k) const { return k < inputs() && signature_.inputs[k].present; }
  const Shape& in_shape(size_t k) const { return signature_.inputs[k].type.shape; }
  const Shape& out_shape(size_t k = 0) const { return signature_.outputs[k].type.shape; }
  // The place of a piece in its tensor; its address is In's and Out's.
  const TensorArgument& in_piece(size_t k) {
    plan_.depends_on_place = true;
    return arguments_.inputs[k];
  }
  const TensorArgument& out_piece(size_t k) {
    plan_.depends_on_place = true;
    return arguments_.outputs[k];
  }

  // Data of input or output k; null if it is not present or empty.
  const float* In(size_t k) { return Typed<const float>(signature_.inputs, arguments_.inputs, k); }
  const double* WideIn(size_t k) {
    return Typed<const double>(signature_.inputs, arguments_.inputs, k);
  }
  const int32_t* LabelsIn(size_t k) {
    return Typed<const int32_t>(signature_.inputs, arguments_.inputs, k);
  }
  float* Out(size_t k = 0) { return Typed<float>(signature_.outputs, arguments_.outputs, k); }
  double* WideOut(size_t k) { return Typed<double>(signature_.outputs, arguments_.outputs, k); }

  // Scratch memory for `count` elements.
  template <class T>
  T* Scratch(int64_t count) {
    return reinterpret_cast<T*>(TakeScratch(count * static_cast<int64_t>(sizeof(T))));
  }

  // A walk over `extents`; the sum of index times stride, from `offset`.
  StridedIndex Walk(std::span<const int64_t> extents, std::span<const int64_t> strides,
                    int64_t offset = 0);

  // Steps. Without elements, or rows, there is none.
  // `places`: see ElementWork.
  void ForEach(int64_t count, const ElementFunctor& functor, int64_t places = 0);
  // `rows_are_neighbours`: see ReductionShape.
  void Reduce(int64_t rows, int64_t terms, bool rows_are_neighbours, ReductionFunctor functor);
  // Each of `batch` matrices.
  void Transpose(const Conversion& conversion, int64_t batch, int64_t rows, int64_t columns);
  void Add(const MaxPoolWork& work) { plan_.steps.emplace_back(work); }
  void Add(Gemm gemm) { plan_.steps.emplace_back(std::move(gemm)); }
  void Add(Convolution convolution) { plan_.steps.emplace_back(std::move(convolution)); }

  // The plan of another kernel, after what is there.
  void Add(const KernelSignature& signature, const KernelArguments& arguments);

  void Fail(const std::string& why);
  absl::StatusOr<KernelSteps> Finish();

 private:
  template <class T>
  T* Typed(const std::vector<KernelTensor>& tensors, std::span<const TensorArgument> arguments,
           size_t k) {
    return static_cast<T*>(Piece(tensors[k], arguments[k], DTypeFor<std::remove_const_t<T>>()));
  }
  template <class T>
  static constexpr DType DTypeFor() {
    return std::is_same_v<T, float>    ? DType::kFloat32
           : std::is_same_v<T, double> ? DType::kFloat64
                                       : DType::kInt32;
  }
  void* Piece(const KernelTensor& tensor, const TensorArgument& argument, DType dtype);
  uintptr_t TakeScratch(int64_t bytes);

  const KernelSignature& signature_;
  const KernelArguments& arguments_;
  char* scratch_;
  const StepNumbers* const numbers_;
  const KernelOptions options_;
  KernelSteps plan_;
  absl::Status status_;
};

// Output 0 [c] = the sums of input 0 [n, c, ...] over all but c.
void PlanChannelSums(KernelPlanner& planner);

// The plans of the rows of the operator table.
void PlanOperator(const Conv2d& conv, KernelPlanner& planner);
void PlanOperator(const Pool2d& pool, KernelPlanner& planner);
void PlanOperator(const MatMul& matmul, KernelPlanner& planner);
void PlanOperator(const BatchMatMul& matmul, KernelPlanner& planner);
void PlanOperator(const Embedding&, KernelPlanner& planner);
void PlanOperator(const ReduceMean& mean, KernelPlanner& planner);
void PlanOperator(const Relu& relu, KernelPlanner& planner);
void PlanOperator(const Unary& unary, KernelPlanner& planner);
void PlanOperator(const LstmGates& gates, KernelPlanner& planner);
void PlanOperator(const Scale& scale, KernelPlanner& planner);
void PlanOperator(const Binary& binary, KernelPlanner& planner);
void PlanOperator(const Reshape& reshape, KernelPlanner& planner);
void PlanOperator(const Transpose& transpose, KernelPlanner& planner);
void PlanOperator(const Concat& concat, KernelPlanner& planner);
void PlanOperator(const Crop& crop, KernelPlanner& planner);
void PlanOperator(const Pad& pad, KernelPlanner& planner);
void PlanOperator(const Lrn& lrn, KernelPlanner& planner);
void PlanOperator(const Dropout& dropout, KernelPlanner& planner);
void PlanOperator(const BatchMoments& moments, KernelPlanner& planner);
void PlanOperator(const BatchNormalize& norm, KernelPlanner& planner);
void PlanOperator(const BatchNormGradMoments& norm, KernelPlanner& planner);
void PlanOperator(const BatchNormGradApply& norm, KernelPlanner& planner);
void PlanOperator(const AffineNormalize& norm, KernelPlanner& planner);
void PlanOperator(const LayerNorm& norm, KernelPlanner& planner);
void PlanOperator(const RowMax&, KernelPlanner& planner);
void PlanOperator(const RowSum&, KernelPlanner& planner);
void PlanOperator(const SumExp&, KernelPlanner& planner);
void PlanOperator(const SoftmaxApply&, KernelPlanner& planner);
void PlanOperator(const SoftmaxDot&, KernelPlanner& planner);
void PlanOperator(const SoftmaxGrad&, KernelPlanner& planner);
void PlanOperator(const LogSoftmaxApply&, KernelPlanner& planner);
void PlanOperator(const LogSoftmaxGrad&, KernelPlanner& planner);
void PlanOperator(const CrossEntropy& loss, KernelPlanner& planner);
void PlanOperator(const CrossEntropyGrad& loss, KernelPlanner& planner);
void PlanOperator(const CountCorrect&, KernelPlanner& planner);
void PlanOperator(const SumOfSquares&, KernelPlanner& planner);
void PlanOperator(const Sgd& sgd, KernelPlanner& planner);
void PlanOperator(const Adam&, KernelPlanner& planner);
void PlanOperator(const RunningMean& running, KernelPlanner& planner);
void PlanOperator(const RunningVariance& running, KernelPlanner& planner);

}  // namespace partita
