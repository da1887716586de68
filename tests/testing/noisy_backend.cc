#include "tests/testing/noisy_backend.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <optional>
#include <random>
#include <span>

#include "runtime/backend/host/host_device.h"
#include "runtime/backend/reference/kernels.h"

namespace partita {
namespace {

enum class Noise : uint8_t { kNextLarger, kOfLargest };

void AddNoise(Noise noise, std::span<float> values) {
  static std::atomic<uint64_t> runs = 0;
  std::mt19937_64 random(++runs);
  if (noise == Noise::kNextLarger) {
    for (float& value : values) {
      if (random() % 2 == 0) value = std::nextafter(value, HUGE_VALF);
    }
    return;
  }
  float largest = 0;
  for (const float value : values) largest = std::max(largest, std::abs(value));
  std::uniform_real_distribution<float> off(-0x1p-23f * largest, 0x1p-23f * largest);
  for (float& value : values) value += off(random);
}

class NoisyKernel : public HostKernel {
 public:
  NoisyKernel(KernelSignature signature, std::optional<Noise> noise)
      : signature_(std::move(signature)), noise_(noise) {}
  int64_t scratch_bytes() const override { return 0; }
  absl::Status Run(const KernelArguments& arguments, void*) const override {
    const absl::Status status = RunReferenceKernel(signature_, arguments);
    for (size_t k = 0; k < arguments.outputs.size() && noise_.has_value(); ++k) {
      const TensorArgument& output = arguments.outputs[k];
      if (signature_.outputs[k].type.dtype != DType::kFloat32 || output.data == nullptr) continue;
      const auto count = static_cast<size_t>(Volume(output.box.shape()));
      AddNoise(*noise_, {static_cast<float*>(output.data), count});
    }
    return status;
  }

 private:
  const KernelSignature signature_;
  const std::optional<Noise> noise_;
};

// Which kernels are noisy.
enum class Noisy : uint8_t { kNondeterministic, kProducts };

class NoisyDevice : public HostDevice {
 public:
  NoisyDevice(const DeviceSpec& spec, Noise noise, Noisy which)
      : HostDevice(spec), noise_(noise), which_(which) {}
  absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelSignature& signature) override {
    const bool is_noisy = !signature.deterministic ||
                          (which_ == Noisy::kProducts && WorkOf(signature).multiply_adds > 0);
    return std::make_unique<NoisyKernel>(signature,
                                         is_noisy ? std::optional(noise_) : std::nullopt);
  }

 private:
  const Noise noise_;
  const Noisy which_;
};

class NoisyHost : public Backend {
 public:
  NoisyHost(Noise noise, Noisy which) : noise_(noise), which_(which) {}
  std::string name() const override { return "noisy"; }
  absl::Status Available() const override { return absl::OkStatus(); }
  bool RunsOnHost() const override { return true; }
  absl::StatusOr<std::unique_ptr<BackendDevice>> Open(const DeviceSpec& spec) const override {
    return std::make_unique<NoisyDevice>(spec, noise_, which_);
  }

 private:
  const Noise noise_;
  const Noisy which_;
};

}  // namespace

std::shared_ptr<const Backend> NoisyBackend(bool all) {
  return std::make_shared<NoisyHost>(Noise::kNextLarger,
                                     all ? Noisy::kProducts : Noisy::kNondeterministic);
}

std::shared_ptr<const Backend> RoundingBackend() {
  return std::make_shared<NoisyHost>(Noise::kOfLargest, Noisy::kProducts);
}

}  // namespace partita
