#include "runtime/backend/cuda/matmul_kernel.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "graph/support/status_macros.h"

namespace partita {
namespace {

constexpr int kMostAlgorithms = 8;  // that are measured

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

// Matrices of one product, as they lie in memory.
struct Matrices {
  NumberType type;
  int64_t rows, columns, leading, batch, stride;
};

absl::Status Describe(const CublasLt& blas, const Matrices& m, cublasLtMatrixLayout_t* layout) {
  RETURN_IF_ERROR(blas.Check(
      blas.f.cublasLtMatrixLayoutCreate(layout, DataTypeOf(m.type), static_cast<uint64_t>(m.rows),
                                        static_cast<uint64_t>(m.columns), m.leading),
      "a matrix"));
  const auto batch = static_cast<int32_t>(m.batch);
  RETURN_IF_ERROR(blas.Check(blas.f.cublasLtMatrixLayoutSetAttribute(
                                 *layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch),
                             "a batch of matrices"));
  return blas.Check(
      blas.f.cublasLtMatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                              &m.stride, sizeof m.stride),
      "a batch of matrices");
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
  return shape.bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

absl::Status SetPreferences(const CublasLt& blas, const GemmShape& shape,
                            cublasLtMatmulPreference_t preference) {
  const auto workspace = static_cast<uint64_t>(kMostProductWorkspace);
  RETURN_IF_ERROR(
      SetPreference(blas, preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace));
  // Sums in place are made in an order that may change from run to run.
  const auto sums = static_cast<uint32_t>(
      CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE |
      (shape.deterministic ? 0 : CUBLASLT_REDUCTION_SCHEME_INPLACE));
  RETURN_IF_ERROR(
      SetPreference(blas, preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, sums));
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
  ASSIGN_OR_RETURN(runner->choice_, runner->Choose());
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
  const auto describe = [&](const Matrices& matrices, cublasLtMatrixLayout_t* layout) {
    return partita::Describe(blas_, matrices, layout);
  };
  RETURN_IF_ERROR(describe(
      {factor, s.transpose_a ? s.k : s.m, s.transpose_a ? s.m : s.k, s.lda, s.batch, s.stride_a},
      &a_));
  RETURN_IF_ERROR(describe(
      {factor, s.transpose_b ? s.n : s.k, s.transpose_b ? s.k : s.n, s.ldb, s.batch, s.stride_b},
      &b_));
  return describe({NumberType::kFloat32, s.m, s.n, s.ldc, s.batch, s.stride_c}, &c_);
}

absl::Status GemmRunner::SetBias(const float* bias) const {
  if (!shape_.bias) return absl::OkStatus();
  return SetAttribute(blas_, product_, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                      static_cast<const void*>(bias));
}

absl::StatusOr<GemmRunner::Choice> GemmRunner::Choose() const {
  // The library looks at the bias's alignment only.
  RETURN_IF_ERROR(SetBias(reinterpret_cast<const float*>(uintptr_t{kAlignment})));
  return blas_.search.Choose(*this, WorkOf(shape_));
}

// An algorithm is plain words that another process may use with the same version of the library.
std::string GemmRunner::TextOf(const Choice& choice) {
  std::string text = absl::StrCat("workspace=", choice.workspace_bytes);
  for (uint64_t word : choice.algorithm.data) absl::StrAppend(&text, " ", absl::Hex(word));
  return text;
}

std::optional<GemmRunner::Choice> GemmRunner::Parsed(const std::string& text) const {
  const std::vector<std::string> words = absl::StrSplit(text, ' ');
  const auto workspace = NumberNamed("workspace", text, kMostProductWorkspace);
  Choice choice;
  if (!workspace || words.size() != 1 + std::size(choice.algorithm.data)) return std::nullopt;
  choice.workspace_bytes = *workspace;
  for (size_t k = 0; k + 1 < words.size(); ++k) {
    uint64_t word = 0;
    if (!absl::SimpleHexAtoi(words[k + 1], &word)) return std::nullopt;
    choice.algorithm.data[k] = word;
  }
  cublasLtMatmulHeuristicResult_t result = {};
  const cublasStatus_t code = blas_.f.cublasLtMatmulAlgoCheck(blas_.handle, product_, a_, b_, c_,
                                                              c_, &choice.algorithm, &result);
  const bool fits = code == CUBLAS_STATUS_SUCCESS &&
                    result.workspaceSize <= static_cast<size_t>(choice.workspace_bytes);
  if (!fits) return std::nullopt;
  return choice;
}

absl::StatusOr<std::vector<GemmRunner::Choice>> GemmRunner::Candidates() const {
  cublasLtMatmulPreference_t preference = nullptr;
  RETURN_IF_ERROR(blas_.Check(blas_.f.cublasLtMatmulPreferenceCreate(&preference), "a preference"));
  std::array<cublasLtMatmulHeuristicResult_t, kMostAlgorithms> results = {};
  int found = 0;
  absl::Status status = SetPreferences(blas_, shape_, preference);
  if (status.ok()) {
    status = blas_.Check(
        blas_.f.cublasLtMatmulAlgoGetHeuristic(blas_.handle, product_, a_, b_, c_, c_, preference,
                                               kMostAlgorithms, results.data(), &found),
        "choosing an algorithm");
  }
  blas_.f.cublasLtMatmulPreferenceDestroy(preference);
  RETURN_IF_ERROR(status);
  std::vector<Choice> choices;
  for (int k = 0; k < found; ++k) {
    const auto& result = results[static_cast<size_t>(k)];
    if (result.state != CUBLAS_STATUS_SUCCESS) continue;
    choices.push_back({result.algo, static_cast<int64_t>(result.workspaceSize)});
  }
  if (!choices.empty()) return choices;
  return absl::UnimplementedError(absl::StrCat(
      "cuBLASLt has no algorithm within ", kMostProductWorkspace, " bytes for a ", WorkOf(shape_)));
}

std::optional<Trial<Gemm>> GemmRunner::MakeTrial(const std::vector<Choice>& candidates) const {
  if (blas_.search.trials == nullptr) return std::nullopt;
  const GemmShape& s = shape_;
  int64_t most = 0;
  for (const Choice& candidate : candidates) most = std::max(most, candidate.workspace_bytes);
  const int64_t factor = BytesOf(TypeOf(s.precision));
  constexpr size_t kFactors = 4;
  Trial<Gemm> trial;
  for (int64_t bytes : {factor * s.batch * s.lda * (s.transpose_a ? s.m : s.k),
                        factor * s.batch * s.ldb * (s.transpose_b ? s.k : s.n),
                        4 * s.batch * s.ldc * s.n, 4 * s.m, int64_t{2} * 4, most}) {
    // A product that is multiplied by 0 may be left out: factors are 1 and 0.
    const float first = trial.memory.size() == kFactors ? 1 : 0;
    trial.memory.push_back(blas_.search.trials->Take(bytes, first));
    if (trial.memory.back() == nullptr) return std::nullopt;
  }
  const auto floats = [&](size_t k) { return static_cast<float*>(trial.memory[k].get()); };
  trial.work = {s, floats(0), floats(1), s.bias ? floats(3) : nullptr, floats(2), floats(kFactors)};
  trial.workspace = trial.memory[5];
  return trial;
}

// The first of them where none can be measured.
GemmRunner::Choice GemmRunner::Fastest(const std::vector<Choice>& candidates,
                                       const Trial<Gemm>& trial) const {
  Choice best = candidates[0];
  double least = HUGE_VAL;
  for (const Choice& candidate : candidates) {
    const auto ms = blas_.search.trials->Milliseconds([&](cudaStream_t stream) {
      return EnqueueBy(candidate, trial.work, trial.workspace.get(), stream);
    });
    if (!ms.ok() || *ms >= least) continue;
    least = *ms;
    best = candidate;
  }
  return best;
}

absl::Status GemmRunner::Enqueue(const Gemm& gemm, void* workspace, cudaStream_t stream) const {
  if (!IsAligned(gemm.a) || !IsAligned(gemm.b) || !IsAligned(gemm.c) || !IsAligned(gemm.bias)) {
    return absl::InternalError(
        absl::StrCat("a product's matrices should start at multiples of ", kAlignment, " bytes"));
  }
  return EnqueueBy(choice_, gemm, workspace, stream);
}

absl::Status GemmRunner::EnqueueBy(const Choice& choice, const Gemm& gemm, void* workspace,
                                   cudaStream_t stream) const {
  RETURN_IF_ERROR(SetBias(gemm.bias));
  const float one = 1, zero = 0;
  const float* times = HasFactors(shape_) ? gemm.factors : &one;
  const float* before = HasFactors(shape_) ? gemm.factors + 1 : &zero;
  return blas_.Check(
      blas_.f.cublasLtMatmul(blas_.handle, product_, times, gemm.a, a_, gemm.b, b_, before, gemm.c,
                             c_, gemm.c, c_, &choice.algorithm, workspace,
                             static_cast<size_t>(choice.workspace_bytes), stream),
      "a product");
}

}  // namespace partita
