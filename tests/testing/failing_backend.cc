#include "tests/testing/failing_backend.h"

#include <atomic>
#include <variant>

#include "runtime/backend/host/host_device.h"
#include "runtime/backend/reference/kernels.h"

namespace partita {
namespace {

class FailingKernel : public HostKernel {
 public:
  FailingKernel(KernelSignature signature, bool fails)
      : signature_(std::move(signature)), fails_(fails) {}
  int64_t scratch_bytes() const override { return 0; }
  std::string note() const override { return fails_ ? "fail as planted" : ""; }
  absl::Status Run(const KernelArguments& arguments, void*) const override {
    if (fails_) return absl::OutOfRangeError("planted failure");
    return RunReferenceKernel(signature_, arguments);
  }

 private:
  const KernelSignature signature_;
  const bool fails_;
};

class FailingDevice : public HostDevice {
 public:
  FailingDevice(const DeviceSpec& spec, bool fails) : HostDevice(spec), fails_(fails) {}
  absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelSignature& signature) override {
    const bool has_weights = std::holds_alternative<Conv2d>(signature.attrs) ||
                             std::holds_alternative<MatMul>(signature.attrs);
    return std::make_unique<FailingKernel>(signature, fails_ && has_weights);
  }

 private:
  const bool fails_;
};

class FailingHost : public Backend {
 public:
  explicit FailingHost(int failing) : failing_(failing) {}
  std::string name() const override { return "failing"; }
  absl::Status Available() const override { return absl::OkStatus(); }
  bool RunsOnHost() const override { return true; }
  absl::StatusOr<std::unique_ptr<BackendDevice>> Open(const DeviceSpec& spec) const override {
    return std::make_unique<FailingDevice>(spec, opened_++ == failing_);
  }

 private:
  const int failing_;
  mutable std::atomic<int> opened_ = 0;
};

}  // namespace

std::shared_ptr<const Backend> FailingBackend(int failing) {
  return std::make_shared<FailingHost>(failing);
}

}  // namespace partita
