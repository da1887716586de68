#include "runtime/train/data/batch_reader.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/train/data/permutation.h"

namespace partita {
namespace {

constexpr int64_t kMaxBatchFloats = int64_t{1} << 36;

// Set apart from the streams that sources draw from the same seed.
constexpr uint64_t kShuffle = 0x73687566666c65u;

}  // namespace

BatchReader::BatchReader(std::shared_ptr<const DataSource> source, LoaderOptions options,
                         int64_t batches)
    : source_(std::move(source)),
      options_(std::move(options)),
      batches_(batches),
      row_(source_->shape().elements()),
      labels_(source_->labels()) {}

absl::StatusOr<std::unique_ptr<BatchReader>> BatchReader::Create(
    std::shared_ptr<const DataSource> source, LoaderOptions options) {
  const int64_t batch = options.batch_size;
  if (batch < 1 || options.workers < 0 || options.workers > 1024 || options.prefetch < 1 ||
      options.epochs < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a loader of batches of ", batch, " with ", options.workers, " workers, ", options.prefetch,
        " batches ahead, ", options.epochs,
        " epochs; at least 1 sample, 0 to 1024 workers, 1 batch ahead, 0 epochs are wanted"));
  }
  if (std::max(source->shape().elements(), source->labels()) > kMaxBatchFloats / batch) {
    return absl::InvalidArgumentError(absl::StrCat("a batch of ", batch, " samples of ",
                                                   source->shape().ToString(), " is too large"));
  }
  const int64_t rest = source->size() % batch;
  const bool padded = options.last_batch == LastBatch::kPad && rest > 0;
  const int64_t batches = source->size() / batch + (padded ? 1 : 0);
  if (batches == 0) {
    return absl::InvalidArgumentError(absl::StrCat("not one full batch of ", batch, " samples: ",
                                                   source->Describe(), "; take a smaller batch"));
  }
  return std::unique_ptr<BatchReader>(
      new BatchReader(std::move(source), std::move(options), batches));
}

int64_t BatchReader::valid(int64_t batch) const {
  return std::min(options_.batch_size, source_->size() - batch * options_.batch_size);
}

void BatchReader::Prepare(LoaderPosition position, Batch* batch) const {
  if (batch->x.capacity() == 0) {
    batch->x = BatchVector<float>(BatchAllocator<float>(options_.memory));
    batch->labels = BatchVector<int32_t>(BatchAllocator<int32_t>(options_.memory));
  }
  batch->x.resize(static_cast<size_t>(options_.batch_size * row_));
  batch->labels.resize(static_cast<size_t>(options_.batch_size * labels_));
  batch->samples.resize(static_cast<size_t>(options_.batch_size));
  batch->index = position.batch;
  batch->epoch = position.epoch;
  batch->valid = valid(position.batch);
}

absl::Status BatchReader::Fill(int64_t begin, int64_t end, Batch* batch) {
  const EpochPermutation order(options_.seed ^ kShuffle, batch->epoch, source_->size());
  const int64_t first = batch->index * options_.batch_size;
  for (int64_t row = begin; row < end; ++row) {
    const int64_t place = first + (row < batch->valid ? row : 0);
    int64_t& index = batch->samples[static_cast<size_t>(row)];
    index = options_.shuffle ? order(place) : place;
    const std::span<float> x(batch->x.data() + row * row_, static_cast<size_t>(row_));
    absl::Status status = ReadOrSkip(index, batch->epoch, x, batch->labels.data() + row * labels_);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status BatchReader::ReadOrSkip(int64_t& index, int64_t epoch, std::span<float> x,
                                     int32_t* label) {
  for (int64_t tried = 0; tried < source_->size(); ++tried) {
    if (!KnownBroken(index)) {
      const absl::Status status = source_->Read(index, epoch, x, label);
      const bool skip =
          options_.broken == BrokenSample::kSkip && status.code() == absl::StatusCode::kDataLoss;
      if (!skip) return status;
      ReportBroken(index, status);
    }
    index = (index + 1) % source_->size();
  }
  return absl::DataLossError(absl::StrCat("every sample is broken: ", source_->Describe()));
}

bool BatchReader::KnownBroken(int64_t index) const {
  const std::lock_guard lock(mutex_);
  return broken_.contains(index);
}

void BatchReader::ReportBroken(int64_t index, const absl::Status& error) {
  const std::lock_guard lock(mutex_);
  if (!broken_.insert(index).second || !options_.on_skip) return;
  options_.on_skip(error.message());
}

int64_t BatchReader::skipped() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int64_t>(broken_.size());
}

}  // namespace partita
