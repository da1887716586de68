#include "runtime/backend/cpu/cpu_backend.h"

#include "graph/support/status_macros.h"
#include "graph/support/thread.h"
#include "runtime/backend/cpu/composed_kernel.h"
#include "runtime/backend/cpu/cpu_kernels.h"
#include "runtime/backend/cpu/dense_adapter.h"
#include "runtime/backend/cpu/fused_update.h"
#include "runtime/backend/cpu/thread_team.h"
#include "runtime/backend/reference/kernels.h"

namespace partita {
namespace {

// Which rows have kernels of their own.
struct KernelFactory {
  const KernelSignature& s;

  std::unique_ptr<HostKernel> operator()(const Conv2d& a) const { return MakeConvKernel(a, s); }
  std::unique_ptr<HostKernel> operator()(const MatMul& a) const { return MakeMatMulKernel(a, s); }
  std::unique_ptr<HostKernel> operator()(const BatchMatMul& a) const {
    return MakeBatchMatMulKernel(a, s);
  }
  std::unique_ptr<HostKernel> operator()(const LayerNorm& a) const {
    return MakeLayerNormKernel(a, s);
  }
  std::unique_ptr<HostKernel> operator()(const Pool2d& a) const { return MakePoolKernel(a, s); }
  std::unique_ptr<HostKernel> operator()(const Relu& a) const { return MakeReluKernel(a, s); }
  std::unique_ptr<HostKernel> operator()(const Unary& a) const { return MakeUnaryKernel(a, s); }
  std::unique_ptr<HostKernel> operator()(const Embedding&) const { return MakeEmbeddingKernel(s); }
  std::unique_ptr<HostKernel> operator()(const LstmGates& a) const {
    return MakeLstmGatesKernel(a, s);
  }
  std::unique_ptr<HostKernel> operator()(const Binary& a) const { return MakeBinaryKernel(a, s); }
  std::unique_ptr<HostKernel> operator()(const Reshape& a) const { return MakeReshapeKernel(a, s); }
  std::unique_ptr<HostKernel> operator()(const Sgd& a) const { return MakeSgdKernel(a, s); }
  std::unique_ptr<HostKernel> operator()(const Adam&) const { return MakeAdamKernel(s); }
  std::unique_ptr<HostKernel> operator()(const BatchMoments& a) const {
    return MakeBatchMomentsKernel(a, s);
  }
  std::unique_ptr<HostKernel> operator()(const BatchNormalize& a) const {
    return MakeBatchNormalizeKernel(a, s);
  }
  std::unique_ptr<HostKernel> operator()(const BatchNormGradMoments& a) const {
    return MakeBatchNormGradMomentsKernel(a, s);
  }
  std::unique_ptr<HostKernel> operator()(const BatchNormGradApply& a) const {
    return MakeBatchNormGradApplyKernel(a, s);
  }
  std::unique_ptr<HostKernel> operator()(const CrossEntropyGrad& a) const {
    return MakeCrossEntropyGradKernel(a, s);
  }
  template <class Other>
  std::unique_ptr<HostKernel> operator()(const Other&) const {
    return nullptr;
  }
};

class ReferenceFallback : public HostKernel {
 public:
  explicit ReferenceFallback(KernelSignature signature) : signature_(std::move(signature)) {}
  int64_t scratch_bytes() const override { return 0; }
  absl::Status Run(const KernelArguments& arguments, void*) const override {
    return RunReferenceKernel(signature_, arguments);
  }

 private:
  KernelSignature signature_;
};

class CpuStream : public HostStream {
 public:
  using HostStream::HostStream;

 protected:
  absl::Status RunReorder(const MoveArguments& move) override {
    if (move.from_format == move.to_format) return RunConversion(move);
    const Shape shape = move.from_box.shape();
    const bool to_dense = move.to_format == Format::kDense;
    if ((to_dense ? move.from_dtype : move.dtype) != DType::kFloat32 || shape.size() != 4) {
      return absl::UnimplementedError("only float32 images are ever native on the CPU");
    }
    const auto* from = static_cast<const float*>(move.from);
    auto* to = static_cast<float*>(move.to);
    if (move.dtype == move.from_dtype) {
      CopyOrder(shape, from, to, to_dense);
      return absl::OkStatus();
    }
    // Of the two types one is float32, which the side in native format has.
    std::vector<float> other(static_cast<size_t>(Volume(shape)));
    MoveArguments conversion = move;
    if (to_dense) {
      CopyOrder(shape, from, other.data(), true);
      conversion.from = other.data();
      return RunConversion(conversion);
    }
    conversion.to = other.data();
    RETURN_IF_ERROR(RunConversion(conversion));
    CopyOrder(shape, other.data(), to, false);
    return absl::OkStatus();
  }
};

class CpuDevice : public HostDevice {
 public:
  using HostDevice::HostDevice;

  absl::StatusOr<std::unique_ptr<Stream>> NewStream(const std::string& name,
                                                    StreamUse use) override {
    // Idle teams keep others from waiting actively: with more threads than cores every kernel would
    // have to wake its team.
    const int threads = use == StreamUse::kCompute ? std::max(1, spec().threads) : 1;
    // OpenMP ends the program where it is refused a thread.
    RETURN_IF_ERROR(CheckThreads(threads, "computing kernels"));
    auto stream = std::make_unique<CpuStream>(name, state());
    RETURN_IF_ERROR(
        stream->Start([threads, cores = spec().cores] { SetUpThreadTeam(threads, cores); }));
    return stream;
  }

  absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelSignature& signature) override {
    // Kernels that take an epilogue apply it themselves.
    if (signature.is_fused() && !HasOnlyEpilogue(signature)) return PrepareFused(signature);
    const TeamSize size(std::max(1, spec().threads));
    if (auto kernel = std::visit(KernelFactory{signature}, signature.attrs)) return kernel;
    if (HasNative(signature)) {
      return MakeDenseAdapter(signature,
                              std::make_unique<ReferenceFallback>(DenseSignature(signature)));
    }
    return std::make_unique<ReferenceFallback>(signature);
  }

 private:
  absl::StatusOr<std::unique_ptr<Kernel>> PrepareFused(const KernelSignature& signature) {
    const TeamSize size(std::max(1, spec().threads));
    if (auto kernel = MakeFusedSgdProduct(signature)) return kernel;
    if (auto kernel = MakeFusedBatchNormKernel(signature)) return kernel;
    if (auto kernel = MakeFusedSoftmaxKernel(signature)) return kernel;
    std::vector<std::unique_ptr<Kernel>> kernels;
    for (const KernelStage& stage : StagesOf(signature)) {
      ASSIGN_OR_RETURN(auto kernel, Prepare(stage.kernel));
      kernels.push_back(std::move(kernel));
    }
    return MakeComposedKernel(signature, std::move(kernels));
  }
};

class CpuBackend : public Backend {
 public:
  std::string name() const override { return "cpu"; }
  absl::Status Available() const override { return absl::OkStatus(); }
  bool RunsOnHost() const override { return true; }
  absl::StatusOr<std::unique_ptr<BackendDevice>> Open(const DeviceSpec& spec) const override {
    return std::make_unique<CpuDevice>(spec);
  }
};

}  // namespace

std::unique_ptr<Backend> MakeCpuBackend() { return std::make_unique<CpuBackend>(); }

}  // namespace partita
