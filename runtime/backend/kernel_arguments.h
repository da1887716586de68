#pragma once

#include <cstdint>
#include <span>

#include "graph/box.h"

namespace partita {

// Hyper-parameters and counters that may change from step to step without changing a kernel.
struct StepArguments {
  int64_t step = 0;   // 0 for the first
  uint64_t seed = 0;  // seed of dropout
  double learning_rate = 0.01;
  double momentum = 0.9;
  double weight_decay = 0;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;  // Adam
};

// One input or output of a launch. `data` holds the part's piece, in the format that the kernel's
// signature names (dense: row-major over `box`); null where the signature says that it is not
// present, or the box is empty. Input data is not written unless an output shares the buffer.
struct TensorArgument {
  void* data = nullptr;
  Box box;       // global indices of the piece
  Shape global;  // extents of the whole tensor
};

// Arguments of a kernel's launch, besides its signature.
struct KernelArguments {
  std::span<const TensorArgument> inputs;
  std::span<const TensorArgument> outputs;
  StepArguments step;
  // Fingerprint of the operator's name (a gradient's: its forward operator's): the stream of its
  // random numbers.
  uint64_t operator_key = 0;
};

}  // namespace partita
