#pragma once

#include <vector>

#include "runtime/backend/cuda/plan/kernel_steps.h"
#include "tests/conformance/kernel_examples.h"
#include "tests/runtime/cuda/host_run.h"

namespace partita {

// Memory at a multiple of kScratchAlignment with a guard behind it.
class ScratchMemory {
 public:
  explicit ScratchMemory(int64_t bytes);
  void* data() { return data_; }
  bool intact() const;

 private:
  static constexpr size_t kGuard = 1024;
  size_t bytes_;
  std::vector<std::byte> memory_;
  std::byte* data_;
};

struct Launched {
  std::vector<TensorArgument> in, out;
  std::vector<TestTensor> results;
};

// Arguments with which a kernel is launched on these inputs; results are filled with noise.
Launched LaunchOf(const WholeKernel& whole, std::vector<TestTensor>& inputs);

// Results of the cuda backend's plan of a kernel, made before there are addresses, and carried out
// on the host, within its scratch memory.
std::vector<TestTensor> Planned(const WholeKernel& whole, std::vector<TestTensor> inputs,
                                const KernelOptions& options = {},
                                HostIndex index = HostIndex::kChosen);

}  // namespace partita
