#include "runtime/train/data/loader.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/support/clock.h"
#include "graph/support/error_category.h"
#include "graph/support/status_macros.h"
#include "graph/support/thread.h"
#include "runtime/train/data/batch_reader.h"

// The batches from the start position on are numbered 0, 1, ... A window of `prefetch` of them, the
// first being the one that Next() waits for, is open at any time. Workers take chunks of rows of
// the open batches strictly in order, so the batch that is wanted first is read by all of them
// together. An error closes its batch: the error of the earliest row wins, and rows after it need
// not be read.

namespace partita {
namespace {

// Rows that a worker takes at a time, so that taking costs little against reading.
constexpr int64_t kChunk = 4;

LoaderPosition Advance(LoaderPosition position, int64_t batches, int64_t per_epoch) {
  const int64_t batch = position.batch + batches;
  return {position.epoch + batch / per_epoch, batch % per_epoch};
}

class InlineLoader : public BatchLoader {
 public:
  InlineLoader(std::unique_ptr<BatchReader> reader, int64_t epochs, LoaderPosition start)
      : reader_(std::move(reader)), epochs_(epochs), position_(start) {}

  absl::StatusOr<Batch> Next() override {
    if (epochs_ > 0 && position_.epoch >= epochs_) return EndError("no more epochs");
    Batch batch = std::exchange(spare_, {});
    reader_->Prepare(position_, &batch);
    const int64_t begin = SteadyNow();
    RETURN_IF_ERROR(reader_->Fill(0, reader_->batch_size(), &batch));
    batch.read_ns = SteadyNow() - begin;
    position_ = Advance(position_, 1, reader_->batches_per_epoch());
    return batch;
  }

  void Recycle(Batch batch) override { spare_ = std::move(batch); }
  LoaderPosition position() const override { return position_; }
  int64_t batches_per_epoch() const override { return reader_->batches_per_epoch(); }
  int64_t skipped() const override { return reader_->skipped(); }

 private:
  std::unique_ptr<BatchReader> reader_;
  int64_t epochs_;
  LoaderPosition position_;
  Batch spare_;
};

class ThreadedLoader : public BatchLoader {
 public:
  ThreadedLoader(std::unique_ptr<BatchReader> reader, const LoaderOptions& options,
                 LoaderPosition start)
      : reader_(std::move(reader)),
        epochs_(options.epochs),
        prefetch_(options.prefetch),
        position_(start) {}

  absl::Status Start(int workers) {
    workers_.reserve(static_cast<size_t>(workers));
    for (int i = 0; i < workers; ++i) {
      ASSIGN_OR_RETURN(Thread worker,
                       Thread::Start(
                           "reading samples", [this] { Work(); },
                           [this](const absl::Status& status) { EndWithout(status); }));
      workers_.push_back(std::move(worker));
    }
    return absl::OkStatus();
  }

  ~ThreadedLoader() override {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    work_.notify_all();
    for (Thread& worker : workers_) worker.Join();
  }

  absl::StatusOr<Batch> Next() override {
    std::unique_lock lock(mutex_);
    if (Past(position_)) return EndError("no more epochs");
    ready_.wait(lock,
                [this] { return !failed_.ok() || (!open_.empty() && open_.front()->Done()); });
    RETURN_IF_ERROR(failed_);
    if (!open_.front()->error.ok()) return open_.front()->error;
    Batch batch = std::move(open_.front()->batch);
    open_.pop_front();
    position_ = Advance(position_, 1, reader_->batches_per_epoch());
    lock.unlock();
    work_.notify_all();
    return batch;
  }

  void Recycle(Batch batch) override {
    const std::lock_guard lock(mutex_);
    // As many as are ever in use: the window and the one that the caller had.
    if (static_cast<int64_t>(spares_.size()) <= prefetch_) spares_.push_back(std::move(batch));
  }

  LoaderPosition position() const override {
    const std::lock_guard lock(mutex_);
    return position_;
  }
  int64_t batches_per_epoch() const override { return reader_->batches_per_epoch(); }
  int64_t skipped() const override { return reader_->skipped(); }

 private:
  struct Slot {
    Batch batch;
    int64_t rows;         // all
    int64_t taken = 0;    // rows given to workers: a prefix
    int64_t reading = 0;  // chunks in workers' hands
    int64_t error_row = 0;
    absl::Status error;
    bool Done() const { return reading == 0 && (taken == rows || !error.ok()); }
    bool HasWork() const { return taken < rows && error.ok(); }
  };

  bool Past(LoaderPosition position) const { return epochs_ > 0 && position.epoch >= epochs_; }

  // The first open batch with rows to take; opens another where there is room. Null: nothing to do.
  // With mutex_ held.
  std::shared_ptr<Slot> FindWork() {
    for (const std::shared_ptr<Slot>& slot : open_) {
      if (!slot->error.ok()) return nullptr;  // nothing after an error is ever returned
      if (slot->HasWork()) return slot;
    }
    const auto next =
        Advance(position_, static_cast<int64_t>(open_.size()), reader_->batches_per_epoch());
    if (static_cast<int64_t>(open_.size()) == prefetch_ || Past(next)) return nullptr;
    auto slot = std::make_shared<Slot>();
    if (!spares_.empty()) {
      slot->batch = std::move(spares_.back());
      spares_.pop_back();
    }
    slot->rows = reader_->batch_size();
    reader_->Prepare(next, &slot->batch);
    slot->batch.read_ns = 0;
    open_.push_back(slot);
    return slot;
  }

  // A worker is gone, and with it perhaps the rows that it had taken.
  void EndWithout(const absl::Status& status) {
    {
      const std::lock_guard lock(mutex_);
      failed_.Update(status);
    }
    ready_.notify_one();
  }

  void Work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      std::shared_ptr<Slot> slot;
      work_.wait(lock, [&] { return stop_ || (slot = FindWork()) != nullptr; });
      if (stop_) return;
      const int64_t begin = slot->taken, end = std::min(begin + kChunk, slot->rows);
      slot->taken = end;
      ++slot->reading;
      lock.unlock();
      const int64_t start = SteadyNow();
      const absl::Status status = reader_->Fill(begin, end, &slot->batch);
      const int64_t taken = SteadyNow() - start;
      lock.lock();
      slot->batch.read_ns += taken;
      --slot->reading;
      if (!status.ok() && (slot->error.ok() || begin < slot->error_row)) {
        slot->error = status;
        slot->error_row = begin;
      }
      if (slot->Done()) ready_.notify_one();
    }
  }

  const std::unique_ptr<BatchReader> reader_;
  const int64_t epochs_;
  const int64_t prefetch_;

  mutable std::mutex mutex_;
  std::condition_variable work_;   // for workers: room, or stop_
  std::condition_variable ready_;  // for Next(): a batch is done
  bool stop_ = false;
  LoaderPosition position_;                 // of open_.front(), or of what will be it
  std::deque<std::shared_ptr<Slot>> open_;  // batches in order from position_ on
  std::vector<Batch> spares_;
  absl::Status failed_;  // of the first worker that is gone
  std::vector<Thread> workers_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<BatchLoader>> BatchLoader::Create(
    std::shared_ptr<const DataSource> source, LoaderOptions options, LoaderPosition start) {
  ASSIGN_OR_RETURN(std::unique_ptr<BatchReader> reader,
                   BatchReader::Create(std::move(source), options));
  const bool inside =
      start.epoch >= 0 && start.batch >= 0 && start.batch < reader->batches_per_epoch();
  const bool at_end = start.batch == 0 && start.epoch == options.epochs;
  if (!inside || (options.epochs > 0 && start.epoch >= options.epochs && !at_end)) {
    return absl::InvalidArgumentError(absl::StrCat("no batch ", start.batch, " in epoch ",
                                                   start.epoch, ": an epoch has ",
                                                   reader->batches_per_epoch(), " batches"));
  }
  if (options.workers == 0) {
    return std::make_unique<InlineLoader>(std::move(reader), options.epochs, start);
  }
  auto loader = std::make_unique<ThreadedLoader>(std::move(reader), options, start);
  RETURN_IF_ERROR(loader->Start(options.workers));
  return loader;
}

}  // namespace partita
