#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/train/data/data_source.h"

// Sources of word numbers, for models whose inputs choose rows of a table.

namespace partita {

// Facts of what the model takes and tells.
struct WordSample {
  SampleShape shape;   // of the words of a sample
  int64_t labels = 1;  // of a sample
  int64_t words = 0;   // numbers are below this; 0: no limit
  int classes = 0;     // labels are below this; 0: the largest label + 1
};

// A text of numbers between white space, taken as one sequence. Sample i has the words from
// i * shape.elements() on; its labels are what comes behind each of its last `labels` words.
absl::StatusOr<std::unique_ptr<DataSource>> OpenWordStream(const std::string& path,
                                                           const WordSample& sample);

// A text with a sample in each line that is not empty: its words, then its labels.
absl::StatusOr<std::unique_ptr<DataSource>> OpenWordRows(const std::string& path,
                                                         const WordSample& sample);

struct SyntheticWordsOptions {
  WordSample sample;  // with its limits
  int64_t size = 0;   // 0: 51,200 to train on, 10,240 to evaluate on
  uint64_t seed = 0;
  DataSplit split = DataSplit::kTrain;
};

// Sequences that any such model can learn: behind each word follows, three times of four, the one
// that the seed puts behind it, otherwise any. Labels are what the seed puts behind the last words.
absl::StatusOr<std::unique_ptr<DataSource>> MakeSyntheticWords(
    const SyntheticWordsOptions& options);

}  // namespace partita
