#include "runtime/backend/cpu/cpu_backend.h"

#include <type_traits>

#include "runtime/backend/cpu/cpu_kernels.h"
#include "runtime/backend/cpu/dense_adapter.h"
#include "runtime/backend/cpu/thread_team.h"
#include "runtime/backend/reference/kernels.h"

namespace partita {
namespace {

// Which rows have kernels of their own.
struct KernelFactory {
  const KernelSignature& s;

  std::unique_ptr<HostKernel> operator()(const Conv2d& a) const { return MakeConvKernel(a, s); }
  std::unique_ptr<HostKernel> operator()(const MatMul& a) const { return MakeMatMulKernel(a, s); }
  std::unique_ptr<HostKernel> operator()(const Pool2d& a) const { return MakePoolKernel(a, s); }
  std::unique_ptr<HostKernel> operator()(const Relu& a) const { return MakeReluKernel(a, s); }
  std::unique_ptr<HostKernel> operator()(const Binary& a) const { return MakeBinaryKernel(a, s); }
  std::unique_ptr<HostKernel> operator()(const Reshape& a) const { return MakeReshapeKernel(a, s); }
  std::unique_ptr<HostKernel> operator()(const Sgd& a) const { return MakeSgdKernel(a, s); }
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

class CpuDevice : public HostDevice {
 public:
  using HostDevice::HostDevice;

  absl::StatusOr<std::unique_ptr<Stream>> NewStream(const std::string& name) override {
    return std::make_unique<HostStream>(
        name, state(), [team = spec()] { SetUpThreadTeam(std::max(1, team.threads), team.cores); });
  }

  absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelSignature& signature) override {
    const TeamSize size(std::max(1, spec().threads));
    if (auto kernel = std::visit(KernelFactory{signature}, signature.attrs)) return kernel;
    if (HasNative(signature)) {
      return MakeDenseAdapter(signature,
                              std::make_unique<ReferenceFallback>(DenseSignature(signature)));
    }
    return std::make_unique<ReferenceFallback>(signature);
  }
};

class CpuBackend : public Backend {
 public:
  std::string name() const override { return "cpu"; }
  absl::Status Available() const override { return absl::OkStatus(); }
  absl::StatusOr<std::unique_ptr<BackendDevice>> Open(const DeviceSpec& spec) const override {
    return std::make_unique<CpuDevice>(spec);
  }
};

}  // namespace

std::unique_ptr<Backend> MakeCpuBackend() { return std::make_unique<CpuBackend>(); }

}  // namespace partita
