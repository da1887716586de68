#pragma once

#include <cstdint>

#include "runtime/backend/cuda/host_device_code.h"

namespace partita {

// What changes from step to step, as kernels use it (StepArguments says what it is).
struct StepNumbers {
  uint64_t dropout_key = 0;
  float rate = 0, momentum = 0, decay = 0, epsilon = 0;
  float keep1 = 0, take1 = 0, keep2 = 0, take2 = 0;  // of Adam's means
  float correct1 = 1, correct2 = 1;                  // of their bias towards 0 in the first steps
};

// A functor's: its own, or, so that the same launch serves every step, those that lie in memory.
struct StepNumbersArgument {
  StepNumbers own;
  const StepNumbers* in_memory = nullptr;
  PARTITA_HOST_DEVICE const StepNumbers& operator*() const {
    return in_memory == nullptr ? own : *in_memory;
  }
};

}  // namespace partita
