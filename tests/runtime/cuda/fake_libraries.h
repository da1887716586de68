#pragma once

#include "runtime/backend/cuda/vendor_handles.h"

namespace partita {

// Tables of functions in the places of cuDNN's and cuBLASLt's that compute on the host, in plain
// loops, what their descriptors say: they show that descriptors, operands and algorithms are handed
// over as those libraries define them, where there is no GPU. They measure nothing: an algorithm is
// chosen by the library's guess. Every call counts in `calls`.
struct FakeCalls {
  int guesses = 0, products = 0, convolutions = 0;
  int last_algorithm = -1;
  size_t last_workspace = 0;
  cudnnMathType_t last_math = CUDNN_DEFAULT_MATH;
};

// What the fake cuDNN offers for each pass, best first: one whose bits change, one whose workspace
// is too large, one that fits.
constexpr int kFittingAlgorithm = 3;
constexpr size_t kFittingWorkspace = 1 << 20;
constexpr uint64_t kProductAlgorithm = 42;

std::unique_ptr<Cudnn> FakeCudnn(FakeCalls* calls);
std::unique_ptr<CublasLt> FakeCublasLt(FakeCalls* calls);

}  // namespace partita
