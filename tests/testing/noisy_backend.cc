#include "tests/testing/noisy_backend.h"

#include <atomic>
#include <cmath>
#include <random>

#include "runtime/backend/host/host_device.h"
#include "runtime/backend/reference/kernels.h"

namespace partita {
namespace {

class NoisyKernel : public HostKernel {
 public:
  NoisyKernel(KernelSignature signature, bool is_noisy)
      : signature_(std::move(signature)), is_noisy_(is_noisy) {}
  int64_t scratch_bytes() const override { return 0; }
  absl::Status Run(const KernelArguments& arguments, void*) const override {
    const absl::Status status = RunReferenceKernel(signature_, arguments);
    for (size_t k = 0; k < arguments.outputs.size() && is_noisy_; ++k) {
      if (signature_.outputs[k].type.dtype != DType::kFloat32) continue;
      auto* values = static_cast<float*>(arguments.outputs[k].data);
      if (values == nullptr) continue;
      static std::atomic<uint64_t> runs = 0;
      std::mt19937_64 random(++runs);
      for (int64_t i = 0; i < Volume(arguments.outputs[k].box.shape()); ++i) {
        if (random() % 2 == 0) values[i] = std::nextafter(values[i], HUGE_VALF);
      }
    }
    return status;
  }

 private:
  const KernelSignature signature_;
  const bool is_noisy_;
};

class NoisyDevice : public HostDevice {
 public:
  NoisyDevice(const DeviceSpec& spec, bool all) : HostDevice(spec), all_(all) {}
  absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelSignature& signature) override {
    const bool has_products = WorkOf(signature).multiply_adds > 0;
    return std::make_unique<NoisyKernel>(signature,
                                         !signature.deterministic || (all_ && has_products));
  }

 private:
  const bool all_;
};

class NoisyHost : public Backend {
 public:
  explicit NoisyHost(bool all) : all_(all) {}
  std::string name() const override { return "noisy"; }
  absl::Status Available() const override { return absl::OkStatus(); }
  bool RunsOnHost() const override { return true; }
  absl::StatusOr<std::unique_ptr<BackendDevice>> Open(const DeviceSpec& spec) const override {
    return std::make_unique<NoisyDevice>(spec, all_);
  }

 private:
  const bool all_;
};

}  // namespace

std::shared_ptr<const Backend> NoisyBackend(bool all) { return std::make_shared<NoisyHost>(all); }

}  // namespace partita
