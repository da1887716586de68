#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "runtime/train/data/data_source.h"

namespace partita {

struct SyntheticOptions {
  SampleShape shape = {};  // any shape
  int classes = 10;
  int64_t size = 0;  // 0: 51,200 to train on, 10,240 to evaluate on
  uint64_t seed = 0;
  DataSplit split = DataSplit::kTrain;
  float noise = 1.0f;  // standard deviation of the noise added to a pattern of variance 1
};

// A set that any model can learn: each class has a pattern, drawn from the seed, and a sample is
// its class's pattern plus noise, scaled to variance 1. A pattern is a coarse grid (8 x 8 cells for
// images, 256 for flat features) of near-normal values per channel, plus one value per channel, so
// it survives pooling. Classes are balanced: each run of `classes` samples has every class once.
// Both splits share the patterns and no noise. Everything is integer arithmetic of Philox words
// until the last sum, so all machines agree.
absl::StatusOr<std::unique_ptr<DataSource>> MakeSyntheticSource(const SyntheticOptions& options);

}  // namespace partita
