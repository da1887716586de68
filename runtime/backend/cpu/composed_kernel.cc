#include "runtime/backend/cpu/composed_kernel.h"

#include <algorithm>
#include <utility>

#include "graph/support/aligned.h"
#include "graph/support/status_macros.h"
#include "runtime/backend/kernel_stages.h"

namespace partita {
namespace {

class ComposedKernel : public HostKernel {
 public:
  ComposedKernel(const KernelSignature& signature, std::vector<std::unique_ptr<Kernel>> kernels)
      : stages_(StagesOf(signature)), kernels_(std::move(kernels)) {
    for (const KernelTensor& tensor : signature.fusion.inner) {
      offsets_.push_back(inner_bytes_);
      inner_bytes_ += Aligned(tensor.type.bytes());
    }
  }

  int64_t scratch_bytes() const override {
    int64_t largest = 0;
    for (const auto& kernel : kernels_) largest = std::max(largest, kernel->scratch_bytes());
    return inner_bytes_ + largest;
  }

  absl::Status Run(const KernelArguments& given, void* scratch) const override {
    auto* memory = static_cast<char*>(scratch);
    std::vector<void*> inner;
    for (int64_t offset : offsets_) inner.push_back(memory + offset);
    for (size_t s = 0; s < stages_.size(); ++s) {
      const StageArguments arguments(stages_[s], given, inner);
      const auto& kernel = static_cast<const HostKernel&>(*kernels_[s]);
      RETURN_IF_ERROR(kernel.Run(arguments.get(), memory + inner_bytes_));
    }
    return absl::OkStatus();
  }

 private:
  const std::vector<KernelStage> stages_;
  const std::vector<std::unique_ptr<Kernel>> kernels_;
  std::vector<int64_t> offsets_;  // in scratch, indexed by inner tensor
  int64_t inner_bytes_ = 0;
};

}  // namespace

std::unique_ptr<HostKernel> MakeComposedKernel(const KernelSignature& signature,
                                               std::vector<std::unique_ptr<Kernel>> stages) {
  return std::make_unique<ComposedKernel>(signature, std::move(stages));
}

}  // namespace partita
