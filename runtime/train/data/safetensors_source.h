#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/train/data/data_source.h"

namespace partita {

struct SafetensorsSourceOptions {
  std::string path = {};
  SampleShape shape = {};  // shape wanted; empty: as found
  int classes = 0;         // classes wanted; 0: largest label + 1
};

// Samples from a file with tensors x and y: x [n, ...] with y [n], or x [steps, batch, ...] with
// y [steps, batch], whose samples then count in that order. x is floats of
// 16 to 64 bits, integers of 8 to 64 bits or BOOL and is delivered as it is, converted to float and
// not normalised; y is integers or BOOL. The file stays mapped.
absl::StatusOr<std::unique_ptr<DataSource>> OpenSafetensorsSource(
    const SafetensorsSourceOptions& options);

}  // namespace partita
