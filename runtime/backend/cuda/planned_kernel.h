#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/backend/cuda/conv_kernel.h"
#include "runtime/backend/cuda/cuda_stream.h"
#include "runtime/backend/cuda/matmul_kernel.h"
#include "runtime/backend/cuda/plan/launch_plan.h"
#include "runtime/backend/cuda/vendor_handles.h"

namespace partita {

// Every kernel of the cuda backend: enqueues the steps of its plan (plan/launch_plan.h), which is made
// when it is prepared; a launch puts its addresses and the step's numbers in.
class PlannedKernel : public CudaKernel {
 public:
  // Prepares a kernel on the current device, whose libraries these are. A convolution takes the
  // fastest algorithm of its compute type: the store's, or else measured on zeros and kept in the
  // store; one that the library does not have is left out. Where it has none of that type, the kernel
  // is in float32, and its note says why. Waits for the device. ResourceExhausted without memory.
  static absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelSignature& signature,
                                                         std::shared_ptr<VendorHandles> handles);

  // Scratch size, with room to start at a multiple of kScratchAlignment.
  int64_t scratch_bytes() const override;
  std::string note() const override { return note_; }
  absl::Status Enqueue(const KernelArguments& arguments, const LaunchMemory& memory,
                       cudaStream_t stream) const override;

 private:
  PlannedKernel(const KernelSignature& signature, const KernelOptions& options,
                std::shared_ptr<VendorHandles> handles)
      : signature_(signature), options_(options), handles_(std::move(handles)) {}
  absl::Status PrepareSteps();
  // HUGE_VAL where it cannot be measured.
  double Milliseconds(TrialDevice* trials) const;
  // The number of the fastest of these kernels of one signature; the first's, where none can be
  // measured. Not empty.
  static absl::StatusOr<size_t> Fastest(const std::vector<std::unique_ptr<PlannedKernel>>& kernels);

  const KernelSignature signature_;
  const KernelOptions options_;
  std::shared_ptr<VendorHandles> handles_;  // outlive the runners
  // Runners of the plan's products and convolutions, in their order.
  std::vector<std::unique_ptr<GemmRunner>> products_;
  std::vector<std::unique_ptr<ConvolutionRunner>> convolutions_;
  std::unique_ptr<LaunchPlans> plans_;
  int64_t plan_bytes_ = 0, workspace_bytes_ = 0;
  std::string note_;
};

}  // namespace partita
