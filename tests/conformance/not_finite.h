#pragma once

#include <string>
#include <vector>

#include "tests/conformance/kernel_examples.h"

namespace partita {

// The rule of every backend for NaN and infinity: where a result of the reference kernel is not
// finite, the backend's is not; operators that copy, select or add few elements keep which it is.

struct PlantedInputs {
  std::string what;  // was planted where
  InputsWithResults values;
};
// Inputs of a kernel, each time with NaN, infinity and minus infinity at some places of one of
// them, and what the reference kernel makes of that. `places` moves the places.
std::vector<PlantedInputs> WithNotFinite(const WholeKernel& kernel, const InputsWithResults& usual,
                                         uint64_t places);

// How many results that are not finite were compared.
int64_t ExpectNotFiniteKept(const WholeKernel& kernel, const std::vector<TestTensor>& expected,
                            const std::vector<TestTensor>& found);

}  // namespace partita
