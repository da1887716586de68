#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/train/data/loader.h"

namespace partita {

// Reader of batches: chooses the samples of a batch and reads them; the part of a loader that has
// no threads. All members may be called by any number of threads.
class BatchReader {
 public:
  // Errors as BatchLoader::Create, but for the position.
  static absl::StatusOr<std::unique_ptr<BatchReader>> Create(
      std::shared_ptr<const DataSource> source, LoaderOptions options);

  int64_t batch_size() const { return options_.batch_size; }
  int64_t batches_per_epoch() const { return batches_; }
  int64_t valid(int64_t batch) const;

  // Sizes the vectors for a batch and says which one it is.
  void Prepare(LoaderPosition position, Batch* batch) const;

  // Fills rows [begin, end) of a prepared batch.
  absl::Status Fill(int64_t begin, int64_t end, Batch* batch);

  int64_t skipped() const;

 private:
  BatchReader(std::shared_ptr<const DataSource> source, LoaderOptions options, int64_t batches);
  // `index` becomes that of the sample which was read.
  absl::Status ReadOrSkip(int64_t& index, int64_t epoch, std::span<float> x, int32_t* label);
  bool KnownBroken(int64_t index) const;
  void ReportBroken(int64_t index, const absl::Status& error);

  const std::shared_ptr<const DataSource> source_;
  const LoaderOptions options_;
  const int64_t batches_;
  const int64_t row_;     // floats of one sample
  const int64_t labels_;  // of one sample
  mutable std::mutex mutex_;
  std::set<int64_t> broken_;  // guarded by mutex_
};

}  // namespace partita
