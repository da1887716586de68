#include "runtime/backend/reference/reference_backend.h"

#include "graph/support/status_macros.h"
#include "runtime/backend/host/host_device.h"
#include "runtime/backend/reference/kernels.h"

namespace partita {
namespace {

class ReferenceKernel : public HostKernel {
 public:
  explicit ReferenceKernel(KernelSignature signature) : signature_(std::move(signature)) {}
  int64_t scratch_bytes() const override { return 0; }
  absl::Status Run(const KernelArguments& arguments, void*) const override {
    return RunReferenceKernel(signature_, arguments);
  }

 private:
  KernelSignature signature_;
};

class ReferenceDevice : public HostDevice {
 public:
  using HostDevice::HostDevice;
  absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelSignature& signature) override {
    return std::make_unique<ReferenceKernel>(signature);
  }
};

class ReferenceBackend : public Backend {
 public:
  std::string name() const override { return "reference"; }
  absl::Status Available() const override { return absl::OkStatus(); }
  bool RunsOnHost() const override { return true; }
  absl::StatusOr<std::unique_ptr<BackendDevice>> Open(const DeviceSpec& spec) const override {
    return std::make_unique<ReferenceDevice>(spec);
  }
};

}  // namespace

std::unique_ptr<Backend> MakeReferenceBackend() { return std::make_unique<ReferenceBackend>(); }

}  // namespace partita
