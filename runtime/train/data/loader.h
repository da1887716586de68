#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <memory_resource>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/train/data/batch_memory.h"
#include "runtime/train/data/data_source.h"

namespace partita {

// Treatment of the samples that are left at the end of an epoch and fill no batch.
enum class LastBatch {
  kDrop,  // train: every batch is full, the rest is left out (another rest in each shuffled epoch)
  kPad,   // evaluate: the last batch repeats its first sample; Batch::valid says where that begins
};

// Treatment of a sample that its source reports as broken (DataLoss).
enum class BrokenSample {
  kFatal,  // Next() returns the error
  kSkip,   // the next sample of the source that is not broken stands in its place
};

struct LoaderOptions {
  int64_t batch_size = 64;
  int workers = 2;       // threads; 0: Next() reads the samples itself
  int64_t prefetch = 4;  // batches that are read ahead, at most; at least 1
  bool shuffle = true;   // a new order for each epoch, drawn from (seed, epoch); otherwise by index
  uint64_t seed = 0;
  int64_t epochs = 0;  // 0: no end
  LastBatch last_batch = LastBatch::kDrop;
  BrokenSample broken = BrokenSample::kFatal;
  // Callback for each broken sample that was skipped, with its error; perhaps from a worker's
  // thread, never concurrently. It must not call the loader.
  std::function<void(absl::string_view)> on_skip = {};
  // Memory into which batches are read; outlives them.
  std::pmr::memory_resource* memory = std::pmr::new_delete_resource();
};

// Samples of one step: x row-major [batch_size, sample shape], of the source's kind; labels
// [batch_size, labels of a sample].
struct Batch {
  BatchVector<float> x;
  BatchVector<int32_t> labels;
  std::vector<int64_t> samples;  // which of the source's each row is
  int64_t index = 0;             // within its epoch
  int64_t epoch = 0;
  int64_t valid = 0;    // samples before the padding
  int64_t read_ns = 0;  // total time that threads spent reading it
};

// A place in the sequence of batches: what a checkpoint keeps.
struct LoaderPosition {
  int64_t epoch = 0;
  int64_t batch = 0;
  friend bool operator==(const LoaderPosition&, const LoaderPosition&) = default;
};

// The batches of a source, one after the other, read ahead by worker threads. Batch i of epoch e
// holds the same bits for any number of workers, any prefetch and any earlier position: they are a
// function of source, batch size, shuffle, seed and policies only. One thread at a time may call
// the members.
class BatchLoader {
 public:
  // Starts the workers. InvalidArgument for options that make no sense, for a source without one
  // full batch (kDrop), and for a position outside an epoch or after the last.
  static absl::StatusOr<std::unique_ptr<BatchLoader>> Create(
      std::shared_ptr<const DataSource> source, LoaderOptions options, LoaderPosition start = {});

  // Stops and joins the workers; they finish the samples that they are reading.
  virtual ~BatchLoader() = default;

  // The next batch. OutOfRange after the last of the last epoch. An error of a sample comes in its
  // batch's turn, and again on each later call.
  virtual absl::StatusOr<Batch> Next() = 0;

  // Gives a batch's memory back for a later one. Optional.
  virtual void Recycle(Batch batch) = 0;

  // Position of the batch that Next() returns next.
  virtual LoaderPosition position() const = 0;

  virtual int64_t batches_per_epoch() const = 0;

  // Number of samples of the source found broken and skipped so far, read-ahead included.
  virtual int64_t skipped() const = 0;
};

}  // namespace partita
