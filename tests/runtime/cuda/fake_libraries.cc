#include "tests/runtime/cuda/fake_libraries.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "graph/support/check.h"
#include "tests/runtime/cuda/host_run.h"

namespace partita {
namespace {

// A handle is a pointer to the calls that it counts.
template <class Handle>
FakeCalls& CallsOf(Handle handle) {
  return *reinterpret_cast<FakeCalls*>(handle);
}

// Descriptors.
struct FakeExtents {
  std::array<int64_t, 4> extents;
  cudnnTensorFormat_t format = CUDNN_TENSOR_NCHW;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
};
struct FakeConvolution {
  std::array<int64_t, 2> pad, stride, dilation;
  int64_t groups = 1;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
};

template <class Fake, class Descriptor>
Fake& FakeOf(Descriptor descriptor) {
  return *reinterpret_cast<Fake*>(descriptor);
}
template <class Fake, class Descriptor>
cudnnStatus_t Make(Descriptor* descriptor) {
  *descriptor = reinterpret_cast<Descriptor>(new Fake());
  return CUDNN_STATUS_SUCCESS;
}
template <class Fake, class Descriptor>
cudnnStatus_t Drop(Descriptor descriptor) {
  delete reinterpret_cast<Fake*>(descriptor);
  return CUDNN_STATUS_SUCCESS;
}

void FillDescriptors(CudnnFunctions& f) {
  f.cudnnCreateTensorDescriptor = Make<FakeExtents, cudnnTensorDescriptor_t>;
  f.cudnnDestroyTensorDescriptor = Drop<FakeExtents, cudnnTensorDescriptor_t>;
  f.cudnnSetTensor4dDescriptor = [](cudnnTensorDescriptor_t d, cudnnTensorFormat_t format,
                                    cudnnDataType_t type, int n, int c, int h, int w) {
    FakeOf<FakeExtents>(d) = {{n, c, h, w}, format, type};
    return CUDNN_STATUS_SUCCESS;
  };
  f.cudnnCreateFilterDescriptor = Make<FakeExtents, cudnnFilterDescriptor_t>;
  f.cudnnDestroyFilterDescriptor = Drop<FakeExtents, cudnnFilterDescriptor_t>;
  f.cudnnSetFilter4dDescriptor = [](cudnnFilterDescriptor_t d, cudnnDataType_t type,
                                    cudnnTensorFormat_t format, int k, int c, int h, int w) {
    FakeOf<FakeExtents>(d) = {{k, c, h, w}, format, type};
    return CUDNN_STATUS_SUCCESS;
  };
  f.cudnnCreateConvolutionDescriptor = Make<FakeConvolution, cudnnConvolutionDescriptor_t>;
  f.cudnnDestroyConvolutionDescriptor = Drop<FakeConvolution, cudnnConvolutionDescriptor_t>;
  f.cudnnSetConvolution2dDescriptor = [](cudnnConvolutionDescriptor_t d, int pad_h, int pad_w,
                                         int u, int v, int dilation_h, int dilation_w,
                                         cudnnConvolutionMode_t mode, cudnnDataType_t sums) {
    CHECK(mode == CUDNN_CROSS_CORRELATION && sums == CUDNN_DATA_FLOAT);
    auto& fake = FakeOf<FakeConvolution>(d);
    fake.pad = {pad_h, pad_w};
    fake.stride = {u, v};
    fake.dilation = {dilation_h, dilation_w};
    return CUDNN_STATUS_SUCCESS;
  };
  f.cudnnSetConvolutionGroupCount = [](cudnnConvolutionDescriptor_t d, int groups) {
    FakeOf<FakeConvolution>(d).groups = groups;
    return CUDNN_STATUS_SUCCESS;
  };
  f.cudnnSetConvolutionMathType = [](cudnnConvolutionDescriptor_t d, cudnnMathType_t math) {
    FakeOf<FakeConvolution>(d).math = math;
    return CUDNN_STATUS_SUCCESS;
  };
  f.cudnnCreateActivationDescriptor = Make<int, cudnnActivationDescriptor_t>;
  f.cudnnDestroyActivationDescriptor = Drop<int, cudnnActivationDescriptor_t>;
  f.cudnnSetActivationDescriptor = [](cudnnActivationDescriptor_t, cudnnActivationMode_t,
                                      cudnnNanPropagation_t,
                                      double) { return CUDNN_STATUS_SUCCESS; };
}

template <class Perf>
cudnnStatus_t Guess(cudnnHandle_t handle, int wanted, int* found, Perf* results) {
  ++CallsOf(handle).guesses;
  CHECK(wanted >= kLastAlgorithm);
  *found = kLastAlgorithm;
  for (int k = 0; k < kLastAlgorithm; ++k) {
    results[k].algo = static_cast<decltype(results[k].algo)>(k + 1);
    results[k].status = CUDNN_STATUS_SUCCESS;
    results[k].determinism =
        k + 1 == kChangingAlgorithm ? CUDNN_NON_DETERMINISTIC : CUDNN_DETERMINISTIC;
    results[k].mathType = CUDNN_TENSOR_OP_MATH;
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t Workspace(int algorithm, size_t* bytes) {
  if (algorithm > kLastAlgorithm) return CUDNN_STATUS_NOT_SUPPORTED;
  const bool fits = algorithm == kChangingAlgorithm || algorithm >= kFirstFittingAlgorithm;
  *bytes = fits ? kFittingWorkspace : static_cast<size_t>(kMostWorkspace) + 1;
  return CUDNN_STATUS_SUCCESS;
}

void FillChoices(CudnnFunctions& f) {
  f.cudnnGetConvolutionForwardAlgorithm_v7 = [](cudnnHandle_t h, auto, auto, auto, auto, int n,
                                                int* found, cudnnConvolutionFwdAlgoPerf_t* r) {
    return Guess(h, n, found, r);
  };
  f.cudnnGetConvolutionBackwardDataAlgorithm_v7 =
      [](cudnnHandle_t h, auto, auto, auto, auto, int n, int* found,
         cudnnConvolutionBwdDataAlgoPerf_t* r) { return Guess(h, n, found, r); };
  f.cudnnGetConvolutionBackwardFilterAlgorithm_v7 =
      [](cudnnHandle_t h, auto, auto, auto, auto, int n, int* found,
         cudnnConvolutionBwdFilterAlgoPerf_t* r) { return Guess(h, n, found, r); };
  f.cudnnGetConvolutionForwardWorkspaceSize = [](auto, auto, auto, auto, auto,
                                                 cudnnConvolutionFwdAlgo_t a,
                                                 size_t* bytes) { return Workspace(a, bytes); };
  f.cudnnGetConvolutionBackwardDataWorkspaceSize =
      [](auto, auto, auto, auto, auto, cudnnConvolutionBwdDataAlgo_t a, size_t* bytes) {
        return Workspace(a, bytes);
      };
  f.cudnnGetConvolutionBackwardFilterWorkspaceSize =
      [](auto, auto, auto, auto, auto, cudnnConvolutionBwdFilterAlgo_t a, size_t* bytes) {
        return Workspace(a, bytes);
      };
}

// The operands of one call, whichever of them it writes.
struct Operands {
  ConvolutionPass pass;
  cudnnTensorDescriptor_t x_descriptor;
  const void* x;
  cudnnFilterDescriptor_t w_descriptor;
  const void* w;
  cudnnTensorDescriptor_t y_descriptor;
  const void* y;
};

Precision PrecisionOf(cudnnDataType_t type) {
  CHECK(type == CUDNN_DATA_FLOAT || type == CUDNN_DATA_HALF || type == CUDNN_DATA_BFLOAT16);
  return type == CUDNN_DATA_HALF       ? Precision::kFloat16
         : type == CUDNN_DATA_BFLOAT16 ? Precision::kBfloat16
                                       : Precision::kFloat32;
}

// Makes the largest number of what is none in a result of floats.
void CutOff(const Convolution& c) {
  auto* const floats = static_cast<float*>(c.result());
  for (int64_t i = 0; i < VolumeOf(c.shape.result()); ++i) {
    if (!std::isfinite(floats[i])) floats[i] = -std::numeric_limits<float>::max();
  }
}

cudnnStatus_t Convolve(cudnnHandle_t handle, cudnnConvolutionDescriptor_t d, int algorithm,
                       size_t workspace, const Operands& o) {
  FakeCalls& calls = CallsOf(handle);
  ++calls.convolutions;
  const auto& convolution = FakeOf<FakeConvolution>(d);
  calls.last_algorithm = algorithm;
  calls.last_workspace = workspace;
  calls.last_math = convolution.math;
  Convolution step;
  step.shape = {o.pass,
                FakeOf<FakeExtents>(o.x_descriptor).extents,
                FakeOf<FakeExtents>(o.w_descriptor).extents,
                FakeOf<FakeExtents>(o.y_descriptor).extents,
                convolution.pad,
                convolution.stride,
                convolution.dilation,
                convolution.groups};
  const auto& x = FakeOf<FakeExtents>(o.x_descriptor);
  for (const auto* other :
       {&FakeOf<FakeExtents>(o.w_descriptor), &FakeOf<FakeExtents>(o.y_descriptor)}) {
    CHECK(other->format == x.format && other->type == x.type);
  }
  step.shape.precision = PrecisionOf(x.type);
  step.shape.channels_last = x.format == CUDNN_TENSOR_NHWC;
  step.x = const_cast<void*>(o.x);
  step.w = const_cast<void*>(o.w);
  step.y = const_cast<void*>(o.y);
  KernelSteps plan;
  plan.steps.emplace_back(step);
  RunOnHost(plan);
  if (algorithm == calls.cutting_off) CutOff(step);
  return CUDNN_STATUS_SUCCESS;
}

void FillConvolutions(CudnnFunctions& f) {
  f.cudnnConvolutionForward = [](cudnnHandle_t h, const void*, cudnnTensorDescriptor_t xd,
                                 const void* x, cudnnFilterDescriptor_t wd, const void* w,
                                 cudnnConvolutionDescriptor_t d, cudnnConvolutionFwdAlgo_t a, void*,
                                 size_t bytes, const void*, cudnnTensorDescriptor_t yd, void* y) {
    return Convolve(h, d, a, bytes, {ConvolutionPass::kForward, xd, x, wd, w, yd, y});
  };
  f.cudnnConvolutionBiasActivationForward =
      [](cudnnHandle_t h, const void*, cudnnTensorDescriptor_t xd, const void* x,
         cudnnFilterDescriptor_t wd, const void* w, cudnnConvolutionDescriptor_t d,
         cudnnConvolutionFwdAlgo_t a, void*, size_t bytes, const void*, cudnnTensorDescriptor_t,
         const void*, cudnnTensorDescriptor_t, const void*, cudnnActivationDescriptor_t,
         cudnnTensorDescriptor_t yd, void* y) {
        ++CallsOf(h).fused;
        return Convolve(h, d, a, bytes, {ConvolutionPass::kForward, xd, x, wd, w, yd, y});
      };
  f.cudnnConvolutionBackwardData = [](cudnnHandle_t h, const void*, cudnnFilterDescriptor_t wd,
                                      const void* w, cudnnTensorDescriptor_t yd, const void* y,
                                      cudnnConvolutionDescriptor_t d,
                                      cudnnConvolutionBwdDataAlgo_t a, void*, size_t bytes,
                                      const void*, cudnnTensorDescriptor_t xd, void* x) {
    return Convolve(h, d, a, bytes, {ConvolutionPass::kData, xd, x, wd, w, yd, y});
  };
  f.cudnnConvolutionBackwardFilter = [](cudnnHandle_t h, const void*, cudnnTensorDescriptor_t xd,
                                        const void* x, cudnnTensorDescriptor_t yd, const void* y,
                                        cudnnConvolutionDescriptor_t d,
                                        cudnnConvolutionBwdFilterAlgo_t a, void*, size_t bytes,
                                        const void*, cudnnFilterDescriptor_t wd, void* w) {
    return Convolve(h, d, a, bytes, {ConvolutionPass::kFilter, xd, x, wd, w, yd, y});
  };
}

struct FakeLayout {
  cudaDataType type;
  int64_t rows, columns, leading;
  int64_t batch = 1, stride = 0;
};
struct FakeProduct {
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  cublasOperation_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const float* bias = nullptr;
  cublasLtPointerMode_t pointers = CUBLASLT_POINTER_MODE_HOST;
};

cublasStatus_t SetProduct(cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t attribute,
                          const void* value, size_t bytes) {
  auto& product = FakeOf<FakeProduct>(d);
  const auto set = [&](auto& field) {
    CHECK_EQ(bytes, sizeof field);
    std::memcpy(&field, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
  };
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return set(product.transpose_a);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return set(product.transpose_b);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return set(product.epilogue);
    case CUBLASLT_MATMUL_DESC_POINTER_MODE:
      return set(product.pointers);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return set(product.bias);
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t SetLayout(cublasLtMatrixLayout_t d, cublasLtMatrixLayoutAttribute_t attribute,
                         const void* value, size_t bytes) {
  auto& layout = FakeOf<FakeLayout>(d);
  int32_t batch = 0;
  switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
      CHECK_EQ(bytes, sizeof batch);
      std::memcpy(&batch, value, bytes);
      layout.batch = batch;
      return CUBLAS_STATUS_SUCCESS;
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
      CHECK_EQ(bytes, sizeof layout.stride);
      std::memcpy(&layout.stride, value, bytes);
      return CUBLAS_STATUS_SUCCESS;
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

// op(a) * op(b) as the layouts say, which must fit each other.
Gemm GemmOf(const FakeProduct& p, const FakeLayout& a, const FakeLayout& b, const FakeLayout& c) {
  Gemm gemm;
  GemmShape& s = gemm.shape;
  s.transpose_a = p.transpose_a == CUBLAS_OP_T;
  s.transpose_b = p.transpose_b == CUBLAS_OP_T;
  s.m = s.transpose_a ? a.columns : a.rows;
  s.k = s.transpose_a ? a.rows : a.columns;
  s.n = s.transpose_b ? b.rows : b.columns;
  CHECK_EQ(s.k, s.transpose_b ? b.columns : b.rows);
  CHECK_EQ(s.m, c.rows);
  CHECK_EQ(s.n, c.columns);
  for (const FakeLayout* layout : {&a, &b, &c}) CHECK(layout->leading >= layout->rows);
  CHECK(a.batch == b.batch && a.batch == c.batch);
  s.batch = a.batch;
  s.stride_a = a.stride;
  s.stride_b = b.stride;
  s.stride_c = c.stride;
  s.lda = a.leading;
  s.ldb = b.leading;
  s.ldc = c.leading;
  CHECK(a.type == b.type && c.type == CUDA_R_32F);
  s.precision = a.type == CUDA_R_16F    ? Precision::kFloat16
                : a.type == CUDA_R_16BF ? Precision::kBfloat16
                                        : Precision::kFloat32;
  CHECK(a.type == CUDA_R_32F || (a.leading % 8 == 0 && b.leading % 8 == 0));
  CHECK((p.pointers == CUBLASLT_POINTER_MODE_DEVICE) == (a.type == CUDA_R_16F));
  s.bias = (p.epilogue & CUBLASLT_EPILOGUE_BIAS) != 0;
  CHECK((p.epilogue & CUBLASLT_EPILOGUE_RELU) == 0) << "it may lose NaN";
  gemm.bias = p.bias;
  return gemm;
}

void FillProducts(CublasLtFunctions& f) {
  f.cublasLtMatmulAlgoGetHeuristic = [](cublasLtHandle_t handle, cublasLtMatmulDesc_t p,
                                        cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                        cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t,
                                        cublasLtMatmulPreference_t preference, int wanted,
                                        cublasLtMatmulHeuristicResult_t* results, int* found) {
    ++CallsOf(handle).guesses;
    CallsOf(handle).sums = *reinterpret_cast<const uint32_t*>(preference);
    CHECK(wanted > kLastProduct - kFirstProduct);
    (void)GemmOf(FakeOf<FakeProduct>(p), FakeOf<FakeLayout>(a), FakeOf<FakeLayout>(b),
                 FakeOf<FakeLayout>(c));
    *found = 0;
    for (int algorithm = kFirstProduct; algorithm <= kLastProduct; ++algorithm) {
      results[*found].algo.data[0] = static_cast<uint64_t>(algorithm);
      results[*found].algo.data[7] = ~uint64_t{0};
      results[*found].workspaceSize = kFittingWorkspace;
      results[*found].state = CUBLAS_STATUS_SUCCESS;
      ++*found;
    }
    return CUBLAS_STATUS_SUCCESS;
  };
  f.cublasLtMatmulAlgoCheck = [](auto, auto, auto, auto, auto, auto,
                                 const cublasLtMatmulAlgo_t* algorithm,
                                 cublasLtMatmulHeuristicResult_t* result) {
    const bool known = algorithm->data[0] >= kFirstProduct && algorithm->data[0] <= kLastProduct &&
                       algorithm->data[7] == ~uint64_t{0};
    result->workspaceSize = kFittingWorkspace;
    return known ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
  };
  f.cublasLtMatmul = [](cublasLtHandle_t handle, cublasLtMatmulDesc_t p, const void* times,
                        const void* a, cublasLtMatrixLayout_t ad, const void* b,
                        cublasLtMatrixLayout_t bd, const void* before, const void* c,
                        cublasLtMatrixLayout_t cd, void* d, cublasLtMatrixLayout_t dd,
                        const cublasLtMatmulAlgo_t* algorithm, void*, size_t workspace, auto) {
    FakeCalls& calls = CallsOf(handle);
    ++calls.products;
    calls.last_algorithm = static_cast<int>(algorithm->data[0]);
    calls.last_workspace = workspace;
    CHECK(c == d && cd == dd);
    Gemm gemm = GemmOf(FakeOf<FakeProduct>(p), FakeOf<FakeLayout>(ad), FakeOf<FakeLayout>(bd),
                       FakeOf<FakeLayout>(dd));
    gemm.a = a;
    gemm.b = b;
    const auto* factors = static_cast<const float*>(times);
    if (gemm.shape.precision == Precision::kFloat16) {
      CHECK(before == factors + 1 && factors[0] != 0 && factors[1] == 0);
      gemm.factors = factors;
    } else {
      CHECK(factors[0] == 1 && *static_cast<const float*>(before) == 0);
    }
    gemm.c = static_cast<float*>(d);
    KernelSteps plan;
    plan.steps.emplace_back(gemm);
    RunOnHost(plan);
    return CUBLAS_STATUS_SUCCESS;
  };
}

}  // namespace

std::shared_ptr<void> FakeTrials::Take(int64_t bytes, float first) {
  if (clock_ == nullptr) return nullptr;
  constexpr auto kAlignment = std::align_val_t{256};
  const auto size = std::max(static_cast<size_t>(bytes), sizeof first);
  void* const data = ::operator new(size, kAlignment);
  std::memset(data, 0, size);
  std::memcpy(data, &first, sizeof first);
  return std::shared_ptr<void>(data, [](void* p) { ::operator delete(p, kAlignment); });
}

absl::Status FakeTrials::Fill(void* data, unsigned char byte, int64_t bytes) {
  std::memset(data, byte, static_cast<size_t>(bytes));
  return absl::OkStatus();
}

absl::Status FakeTrials::Read(const void* data, int64_t bytes, void* to) {
  std::memcpy(to, data, static_cast<size_t>(bytes));
  return absl::OkStatus();
}

absl::StatusOr<double> FakeTrials::Milliseconds(
    const std::function<absl::Status(cudaStream_t)>& enqueue) {
  const absl::Status status = enqueue(nullptr);
  if (!status.ok() && !ignore_errors_) return status;
  ++measured_;
  return clock_();
}

std::unique_ptr<Cudnn> FakeCudnn(FakeCalls* calls, const AlgorithmSearch& search) {
  auto cudnn = std::make_unique<Cudnn>();
  cudnn->search = search;
  CudnnFunctions& f = cudnn->f;
  f.cudnnGetErrorString = [](cudnnStatus_t) { return "a fake library's error"; };
  f.cudnnDestroy = [](cudnnHandle_t) { return CUDNN_STATUS_SUCCESS; };
  f.cudnnSetStream = [](cudnnHandle_t, cudaStream_t) { return CUDNN_STATUS_SUCCESS; };
  FillDescriptors(f);
  FillChoices(f);
  FillConvolutions(f);
  cudnn->handle = reinterpret_cast<cudnnHandle_t>(calls);
  return cudnn;
}

std::unique_ptr<CublasLt> FakeCublasLt(FakeCalls* calls, const AlgorithmSearch& search) {
  auto blas = std::make_unique<CublasLt>();
  blas->search = search;
  CublasLtFunctions& f = blas->f;
  f.cublasLtGetStatusString = [](cublasStatus_t) { return "a fake library's error"; };
  f.cublasLtDestroy = [](cublasLtHandle_t) { return CUBLAS_STATUS_SUCCESS; };
  f.cublasLtMatrixLayoutCreate = [](cublasLtMatrixLayout_t* layout, cudaDataType type,
                                    uint64_t rows, uint64_t columns, int64_t leading) {
    *layout = reinterpret_cast<cublasLtMatrixLayout_t>(
        new FakeLayout{type, static_cast<int64_t>(rows), static_cast<int64_t>(columns), leading});
    return CUBLAS_STATUS_SUCCESS;
  };
  f.cublasLtMatrixLayoutDestroy = [](cublasLtMatrixLayout_t layout) {
    delete &FakeOf<FakeLayout>(layout);
    return CUBLAS_STATUS_SUCCESS;
  };
  f.cublasLtMatrixLayoutSetAttribute = SetLayout;
  f.cublasLtMatmulDescCreate = [](cublasLtMatmulDesc_t* product, cublasComputeType_t compute,
                                  cudaDataType_t) {
    *product = reinterpret_cast<cublasLtMatmulDesc_t>(new FakeProduct{compute});
    return CUBLAS_STATUS_SUCCESS;
  };
  f.cublasLtMatmulDescDestroy = [](cublasLtMatmulDesc_t product) {
    delete &FakeOf<FakeProduct>(product);
    return CUBLAS_STATUS_SUCCESS;
  };
  f.cublasLtMatmulDescSetAttribute = SetProduct;
  f.cublasLtMatmulPreferenceCreate = [](cublasLtMatmulPreference_t* preference) {
    *preference = reinterpret_cast<cublasLtMatmulPreference_t>(new uint32_t(0));
    return CUBLAS_STATUS_SUCCESS;
  };
  f.cublasLtMatmulPreferenceDestroy = [](cublasLtMatmulPreference_t preference) {
    delete reinterpret_cast<uint32_t*>(preference);
    return CUBLAS_STATUS_SUCCESS;
  };
  f.cublasLtMatmulPreferenceSetAttribute = [](cublasLtMatmulPreference_t preference,
                                              cublasLtMatmulPreferenceAttributes_t attribute,
                                              const void* value, size_t bytes) {
    if (attribute == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK) {
      CHECK(bytes == sizeof(uint32_t));
      std::memcpy(reinterpret_cast<uint32_t*>(preference), value, bytes);
    }
    return CUBLAS_STATUS_SUCCESS;
  };
  FillProducts(f);
  blas->handle = reinterpret_cast<cublasLtHandle_t>(calls);
  return blas;
}

}  // namespace partita
