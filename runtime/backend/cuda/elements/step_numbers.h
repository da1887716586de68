#pragma once

#include <cstdint>

#include "runtime/backend/cuda/host_device_code.h"

namespace partita {

// Numbers that change from step to step, as kernels use them (see StepArguments).
struct StepNumbers {
  uint64_t dropout_key = 0;
  float rate = 0, momentum = 0, decay = 0, epsilon = 0;
  // Decay factors of Adam's means, and their complements
  float keep1 = 0, take1 = 0, keep2 = 0, take2 = 0;
  // Corrections of their bias towards 0 in the first steps
  float correct1 = 1, correct2 = 1;
};

// A functor's: its own, or, so that the same launch serves every step, those that lie in memory.
struct StepNumbersArgument {
  StepNumbers own;
  const StepNumbers* in_memory = nullptr;
  // By value: an address of `own` would put a kernel's argument into its local memory.
  PARTITA_HOST_DEVICE StepNumbers operator*() const {
    return in_memory == nullptr ? own : *in_memory;
  }
};

}  // namespace partita
