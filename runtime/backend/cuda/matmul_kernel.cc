#include "runtime/backend/cuda/matmul_kernel.h"

#include "absl/strings/str_cat.h"
#include "graph/support/status_macros.h"

namespace partita {
namespace {

cudaDataType DataTypeOf(NumberType type) {
  switch (type) {
    case NumberType::kFloat16:
      return CUDA_R_16F;
    case NumberType::kBfloat16:
      return CUDA_R_16BF;
    case NumberType::kFloat32:
      break;
  }
  return CUDA_R_32F;
}

absl::StatusOr<cublasLtMatrixLayout_t> Layout(const CublasLt& blas, NumberType type, int64_t rows,
                                              int64_t columns, int64_t leading) {
  cublasLtMatrixLayout_t layout = nullptr;
  RETURN_IF_ERROR(blas.Check(
      blas.f.cublasLtMatrixLayoutCreate(&layout, DataTypeOf(type), static_cast<uint64_t>(rows),
                                        static_cast<uint64_t>(columns), leading),
      "a matrix"));
  return layout;
}

template <class Value>
absl::Status SetAttribute(const CublasLt& blas, cublasLtMatmulDesc_t product,
                          cublasLtMatmulDescAttributes_t attribute, const Value& value) {
  return blas.Check(blas.f.cublasLtMatmulDescSetAttribute(product, attribute, &value, sizeof value),
                    "a product");
}

template <class Value>
absl::Status SetPreference(const CublasLt& blas, cublasLtMatmulPreference_t preference,
                           cublasLtMatmulPreferenceAttributes_t attribute, const Value& value) {
  return blas.Check(
      blas.f.cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value),
      "a preference");
}

cublasLtEpilogue_t EpilogueOf(const GemmShape& shape) {
  if (shape.bias) return shape.relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS;
  return shape.relu ? CUBLASLT_EPILOGUE_RELU : CUBLASLT_EPILOGUE_DEFAULT;
}

absl::Status SetPreferences(const CublasLt& blas, cublasLtMatmulPreference_t preference) {
  const auto workspace = static_cast<uint64_t>(kMostWorkspace);
  RETURN_IF_ERROR(
      SetPreference(blas, preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace));
  for (const auto attribute :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    RETURN_IF_ERROR(SetPreference(blas, preference, attribute, GemmRunner::kAlignment));
  }
  return absl::OkStatus();
}

// Whether what the product is multiplied by lies in the device's memory.
bool HasFactors(const GemmShape& shape) { return shape.precision == Precision::kFloat16; }

bool IsAligned(const void* data) {
  return reinterpret_cast<uintptr_t>(data) % GemmRunner::kAlignment == 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<GemmRunner>> GemmRunner::Prepare(const GemmShape& shape,
                                                                CublasLt* blas) {
  std::unique_ptr<GemmRunner> runner(new GemmRunner(shape, blas));
  RETURN_IF_ERROR(runner->Describe());
  std::lock_guard lock(blas->mutex);
  const auto known = blas->choices.find(shape);
  if (known != blas->choices.end()) {
    runner->choice_ = known->second;
    return runner;
  }
  ASSIGN_OR_RETURN(runner->choice_, runner->Choose());
  blas->choices.emplace(shape, runner->choice_);
  return runner;
}

GemmRunner::~GemmRunner() {
  for (cublasLtMatrixLayout_t layout : {a_, b_, c_}) {
    if (layout != nullptr) blas_.f.cublasLtMatrixLayoutDestroy(layout);
  }
  if (product_ != nullptr) blas_.f.cublasLtMatmulDescDestroy(product_);
}

absl::Status GemmRunner::Describe() {
  const GemmShape& s = shape_;
  const auto type =
      s.precision == Precision::kTf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  RETURN_IF_ERROR(
      blas_.Check(blas_.f.cublasLtMatmulDescCreate(&product_, type, CUDA_R_32F), "a product"));
  const auto operation = [](bool transpose) { return transpose ? CUBLAS_OP_T : CUBLAS_OP_N; };
  RETURN_IF_ERROR(
      SetAttribute(blas_, product_, CUBLASLT_MATMUL_DESC_TRANSA, operation(s.transpose_a)));
  RETURN_IF_ERROR(
      SetAttribute(blas_, product_, CUBLASLT_MATMUL_DESC_TRANSB, operation(s.transpose_b)));
  RETURN_IF_ERROR(SetAttribute(blas_, product_, CUBLASLT_MATMUL_DESC_EPILOGUE, EpilogueOf(s)));
  if (HasFactors(s)) {
    RETURN_IF_ERROR(SetAttribute(blas_, product_, CUBLASLT_MATMUL_DESC_POINTER_MODE,
                                 CUBLASLT_POINTER_MODE_DEVICE));
  }
  const NumberType factor = TypeOf(s.precision);
  // Layouts are of what lies in memory, before a transposition.
  ASSIGN_OR_RETURN(
      a_, Layout(blas_, factor, s.transpose_a ? s.k : s.m, s.transpose_a ? s.m : s.k, s.lda));
  ASSIGN_OR_RETURN(
      b_, Layout(blas_, factor, s.transpose_b ? s.n : s.k, s.transpose_b ? s.k : s.n, s.ldb));
  ASSIGN_OR_RETURN(c_, Layout(blas_, NumberType::kFloat32, s.m, s.n, s.ldc));
  return absl::OkStatus();
}

absl::Status GemmRunner::SetBias(const float* bias) const {
  if (!shape_.bias) return absl::OkStatus();
  return SetAttribute(blas_, product_, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                      static_cast<const void*>(bias));
}

absl::StatusOr<GemmChoice> GemmRunner::Choose() const {
  // The library looks at the bias's alignment only.
  RETURN_IF_ERROR(SetBias(reinterpret_cast<const float*>(uintptr_t{kAlignment})));
  cublasLtMatmulPreference_t preference = nullptr;
  RETURN_IF_ERROR(blas_.Check(blas_.f.cublasLtMatmulPreferenceCreate(&preference), "a preference"));
  cublasLtMatmulHeuristicResult_t result = {};
  int found = 0;
  absl::Status status = SetPreferences(blas_, preference);
  if (status.ok()) {
    status = blas_.Check(blas_.f.cublasLtMatmulAlgoGetHeuristic(blas_.handle, product_, a_, b_, c_,
                                                                c_, preference, 1, &result, &found),
                         "choosing an algorithm");
  }
  blas_.f.cublasLtMatmulPreferenceDestroy(preference);
  RETURN_IF_ERROR(status);
  if (found == 0) {
    return absl::UnimplementedError(absl::StrCat("cuBLASLt has no algorithm for a product of ",
                                                 shape_.m, " x ", shape_.k, " by ", shape_.k, " x ",
                                                 shape_.n));
  }
  return GemmChoice{result.algo, static_cast<int64_t>(result.workspaceSize)};
}

absl::Status GemmRunner::Enqueue(const Gemm& gemm, void* workspace, cudaStream_t stream) const {
  if (!IsAligned(gemm.a) || !IsAligned(gemm.b) || !IsAligned(gemm.c) || !IsAligned(gemm.bias)) {
    return absl::InternalError(
        absl::StrCat("a product's matrices should start at multiples of ", kAlignment, " bytes"));
  }
  RETURN_IF_ERROR(SetBias(gemm.bias));
  const float one = 1, zero = 0;
  const float* times = HasFactors(shape_) ? gemm.factors : &one;
  const float* before = HasFactors(shape_) ? gemm.factors + 1 : &zero;
  return blas_.Check(
      blas_.f.cublasLtMatmul(blas_.handle, product_, times, gemm.a, a_, gemm.b, b_, before, gemm.c,
                             c_, gemm.c, c_, &choice_.algorithm, workspace,
                             static_cast<size_t>(choice_.workspace_bytes), stream),
      "a product");
}

}  // namespace partita
