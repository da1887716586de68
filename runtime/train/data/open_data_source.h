#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/train/data/data_source.h"
#include "runtime/train/data/pixel_normaliser.h"
#include "runtime/train/data/sample_cache.h"

namespace partita {

struct DataOptions {
  std::string spec = "synthetic";  // one of DataForms()
  DataSplit split = DataSplit::kTrain;
  SampleShape shape = {};           // shape that the model takes; empty: the source's own
  int classes = 0;                  // classes of the model; 0: the source's own
  int64_t words = 0;                // words that the model knows; 0: it takes floats
  int64_t labels = 1;               // labels of each sample, of a model of words
  uint64_t seed = 0;                // seed of synthetic samples and of augmentation
  PixelStatistics statistics = {};  // statistics of pixels; empty: the source's default
  bool augment = true;              // images, training split: random crop and mirror
  DataCache cache = DataCache::kNone;
  int64_t cache_bytes = int64_t{8} << 30;  // most bytes of the cache
};

// Path of the file or folder that a spec names, perhaps of none: "words:FILE" names FILE.
std::string PathOfData(const std::string& spec);

// One line for each form of DataOptions::spec: what to write, and what it is.
std::string DataForms();

// NotFound for a path that is not there and InvalidArgument for one that is no known form list the
// forms; else the errors of the source that the spec names. Files that are mapped (IDX,
// safetensors) need no cache: the system keeps them in memory already.
absl::StatusOr<std::unique_ptr<DataSource>> OpenDataSource(const DataOptions& options);

}  // namespace partita
