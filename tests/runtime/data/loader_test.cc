#include "runtime/train/data/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <new>
#include <numeric>
#include <set>
#include <thread>

#include "absl/strings/str_cat.h"
#include "runtime/train/data/open_data_source.h"
#include "runtime/train/data/permutation.h"
#include "tests/runtime/data/jpeg_file.h"
#include "tests/runtime/data/temp_folder.h"

namespace partita {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// x = {index, epoch}, label = index; the samples named are broken or fatal. Reads take unequal
// time, so that workers finish out of order.
class CountingSource : public DataSource {
 public:
  explicit CountingSource(int64_t size, std::set<int64_t> broken = {}, std::set<int64_t> fatal = {})
      : size_(size), broken_(std::move(broken)), fatal_(std::move(fatal)) {}

  int64_t size() const override { return size_; }
  const SampleShape& shape() const override { return shape_; }
  int classes() const override { return static_cast<int>(size_); }
  std::string Describe() const override { return "counting"; }

  absl::Status Read(int64_t index, int64_t epoch, std::span<float> x,
                    int32_t* label) const override {
    ++reads_;
    if (index % 5 == 0) std::this_thread::yield();
    if (broken_.contains(index)) return absl::DataLossError(absl::StrCat("sample ", index));
    if (fatal_.contains(index)) return absl::UnavailableError(absl::StrCat("sample ", index));
    x[0] = static_cast<float>(index);
    x[1] = static_cast<float>(epoch);
    *label = static_cast<int32_t>(index);
    return absl::OkStatus();
  }

  int64_t reads() const { return reads_; }

 private:
  int64_t size_;
  SampleShape shape_{{2}};
  std::set<int64_t> broken_, fatal_;
  mutable std::atomic<int64_t> reads_ = 0;
};

std::unique_ptr<BatchLoader> MakeLoader(std::shared_ptr<const DataSource> source,
                                        LoaderOptions options, LoaderPosition start = {}) {
  auto loader = BatchLoader::Create(std::move(source), std::move(options), start);
  EXPECT_TRUE(loader.ok()) << loader.status();
  return *std::move(loader);
}

struct Taken {
  BatchVector<float> x;
  BatchVector<int32_t> labels;
  std::vector<int64_t> samples;
  int64_t index, epoch, valid;
  friend bool operator==(const Taken&, const Taken&) = default;
};

std::vector<Taken> TakeBatches(BatchLoader& loader, int count) {
  std::vector<Taken> result;
  for (int i = 0; i < count; ++i) {
    auto batch = loader.Next();
    EXPECT_TRUE(batch.ok()) << batch.status();
    if (!batch.ok()) break;
    result.push_back(
        {batch->x, batch->labels, batch->samples, batch->index, batch->epoch, batch->valid});
    if (i % 2 == 0) loader.Recycle(*std::move(batch));
  }
  return result;
}

TEST(EpochPermutationTest, EverySizeIsAPermutation) {
  for (int64_t size = 1; size <= 130; ++size) {
    const EpochPermutation order(7, 3, size);
    std::vector<bool> seen(static_cast<size_t>(size), false);
    for (int64_t i = 0; i < size; ++i) {
      const int64_t image = order(i);
      ASSERT_TRUE(image >= 0 && image < size);
      EXPECT_FALSE(seen[static_cast<size_t>(image)]);
      seen[static_cast<size_t>(image)] = true;
    }
  }
}

TEST(EpochPermutationTest, PlacesAreUniformOverEpochs) {
  constexpr int64_t kSize = 10, kEpochs = 20'000;
  std::vector<int64_t> counts(kSize * kSize, 0);
  for (int64_t epoch = 0; epoch < kEpochs; ++epoch) {
    const EpochPermutation order(1, epoch, kSize);
    for (int64_t i = 0; i < kSize; ++i) ++counts[static_cast<size_t>(i * kSize + order(i))];
  }
  // Binomial with mean 2000 and standard deviation 42.
  for (int64_t count : counts) EXPECT_NEAR(static_cast<double>(count), 2000, 220);
}

TEST(EpochPermutationTest, SeedAndEpochChangeTheOrder) {
  const EpochPermutation a(1, 0, 1000), b(1, 1, 1000), c(2, 0, 1000);
  int same_b = 0, same_c = 0;
  for (int64_t i = 0; i < 1000; ++i) {
    same_b += a(i) == b(i);
    same_c += a(i) == c(i);
  }
  EXPECT_LT(same_b, 10);
  EXPECT_LT(same_c, 10);
}

TEST(LoaderTest, BatchesAreTheSameForAnyNumberOfWorkers) {
  const auto source = std::make_shared<CountingSource>(103);
  const auto wanted =
      TakeBatches(*MakeLoader(source, {.batch_size = 10, .workers = 0, .seed = 5}), 35);
  EXPECT_EQ(wanted[34].epoch, 3);
  EXPECT_EQ(wanted[34].index, 4);
  for (const int workers : {1, 2, 4, 7}) {
    for (const int64_t prefetch : {1, 2, 5}) {
      const auto loader = MakeLoader(
          source, {.batch_size = 10, .workers = workers, .prefetch = prefetch, .seed = 5});
      EXPECT_EQ(TakeBatches(*loader, 35), wanted) << workers << " workers, prefetch " << prefetch;
    }
  }
}

TEST(LoaderTest, ImagesAreTheSameForAnyNumberOfWorkers) {
  const TempFolder root;
  for (int i = 0; i < 12; ++i) {
    root.Write(absl::StrCat(i % 2 ? "a/" : "b/", i, ".jpg"), MakeJpeg(40 + i, 50 - i, 20 * i));
  }
  const auto open = [&](DataCache cache) {
    auto source =
        OpenDataSource({.spec = root.path(), .shape = {{3, 24, 24}}, .seed = 2, .cache = cache});
    EXPECT_TRUE(source.ok()) << source.status();
    return std::shared_ptr<const DataSource>(*std::move(source));
  };
  const auto wanted =
      TakeBatches(*MakeLoader(open(DataCache::kNone), {.batch_size = 5, .workers = 0}), 8);
  for (const int workers : {1, 2, 4}) {
    for (const DataCache cache : {DataCache::kNone, DataCache::kMemory}) {
      const auto loader = MakeLoader(open(cache), {.batch_size = 5, .workers = workers});
      EXPECT_EQ(TakeBatches(*loader, 8), wanted) << workers;
    }
  }
}

TEST(LoaderTest, AnEpochHasEachSampleAtMostOnceInANewOrder) {
  const auto source = std::make_shared<CountingSource>(23);
  const auto batches = TakeBatches(*MakeLoader(source, {.batch_size = 5}), 8);
  for (size_t epoch = 0; epoch < 2; ++epoch) {
    std::set<int32_t> seen;
    for (size_t i = 0; i < 4; ++i) {
      const Taken& batch = batches[epoch * 4 + i];
      EXPECT_EQ(batch.epoch, static_cast<int64_t>(epoch));
      EXPECT_EQ(batch.index, static_cast<int64_t>(i));
      EXPECT_EQ(batch.valid, 5);
      EXPECT_EQ(batch.x[1], static_cast<float>(epoch));
      seen.insert(batch.labels.begin(), batch.labels.end());
    }
    EXPECT_EQ(seen.size(), 20u);
  }
  EXPECT_NE(batches[0].labels, batches[4].labels);
}

TEST(LoaderTest, WithoutShufflingSamplesComeByIndexAndTheLastBatchIsPadded) {
  for (const int workers : {0, 2}) {
    const auto loader =
        MakeLoader(std::make_shared<CountingSource>(5), {.batch_size = 3,
                                                         .workers = workers,
                                                         .shuffle = false,
                                                         .epochs = 1,
                                                         .last_batch = LastBatch::kPad});
    EXPECT_EQ(loader->batches_per_epoch(), 2);
    const auto batches = TakeBatches(*loader, 2);
    EXPECT_THAT(batches[0].labels, ElementsAre(0, 1, 2));
    EXPECT_EQ(batches[0].valid, 3);
    EXPECT_THAT(batches[1].labels, ElementsAre(3, 4, 3));
    EXPECT_EQ(batches[1].valid, 2);
    EXPECT_EQ(loader->Next().status().code(), absl::StatusCode::kOutOfRange);
    EXPECT_EQ(loader->Next().status().code(), absl::StatusCode::kOutOfRange);
    EXPECT_EQ(loader->position(), (LoaderPosition{1, 0}));
  }
}

TEST(LoaderTest, ALoaderResumesAtItsPosition) {
  const auto source = std::make_shared<CountingSource>(31);
  const auto wanted = TakeBatches(*MakeLoader(source, {.batch_size = 4, .seed = 8}), 20);
  for (const int workers : {0, 3}) {
    for (const int before : {0, 3, 7, 13}) {
      const LoaderOptions options{.batch_size = 4, .workers = workers, .seed = 8};
      const auto first = MakeLoader(source, options);
      TakeBatches(*first, before);
      const LoaderPosition position = first->position();
      EXPECT_EQ(position, (LoaderPosition{before / 7, before % 7}));
      const auto second = MakeLoader(source, options, position);
      EXPECT_EQ(TakeBatches(*second, 20 - before),
                std::vector<Taken>(wanted.begin() + before, wanted.end()));
    }
  }
}

TEST(LoaderTest, PositionsOutsideAreRefused) {
  const auto code = [](LoaderPosition start, int64_t epochs) {
    return BatchLoader::Create(std::make_shared<CountingSource>(10),
                               {.batch_size = 5, .workers = 0, .epochs = epochs}, start)
        .status()
        .code();
  };
  constexpr auto kBad = absl::StatusCode::kInvalidArgument;
  EXPECT_EQ(code({0, 2}, 0), kBad);
  EXPECT_EQ(code({-1, 0}, 0), kBad);
  EXPECT_EQ(code({0, -1}, 0), kBad);
  EXPECT_EQ(code({3, 0}, 2), kBad);
  EXPECT_EQ(code({2, 1}, 2), kBad);
  EXPECT_EQ(code({2, 0}, 2), absl::StatusCode::kOk) << "the end: nothing left, not an error";
  EXPECT_EQ(code({1000, 1}, 0), absl::StatusCode::kOk);
}

TEST(LoaderTest, OptionsThatMakeNoSenseAreRefused) {
  const auto status = [](LoaderOptions options) {
    return BatchLoader::Create(std::make_shared<CountingSource>(10), std::move(options)).status();
  };
  EXPECT_FALSE(status({.batch_size = 0}).ok());
  EXPECT_FALSE(status({.batch_size = 5, .workers = -1}).ok());
  EXPECT_FALSE(status({.batch_size = 5, .prefetch = 0}).ok());
  EXPECT_FALSE(status({.batch_size = 5, .epochs = -1}).ok());
  EXPECT_FALSE(status({.batch_size = INT64_MAX, .last_batch = LastBatch::kPad}).ok());
  EXPECT_THAT(std::string(status({.batch_size = 11}).message()), HasSubstr("take a smaller batch"));
  EXPECT_TRUE(status({.batch_size = 11, .last_batch = LastBatch::kPad}).ok());
}

TEST(LoaderTest, ABrokenSampleIsFatalInItsBatchesTurn) {
  for (const int workers : {0, 1, 4}) {
    const auto source = std::make_shared<CountingSource>(40, std::set<int64_t>{17, 14, 30});
    const auto loader =
        MakeLoader(source, {.batch_size = 10, .workers = workers, .shuffle = false});
    EXPECT_EQ(TakeBatches(*loader, 1)[0].labels[9], 9);
    for (int again = 0; again < 2; ++again) {
      const auto batch = loader->Next();
      EXPECT_EQ(batch.status().code(), absl::StatusCode::kDataLoss);
      EXPECT_EQ(batch.status().message(), "sample 14")
          << "the first, whoever finds another earlier";
    }
    EXPECT_EQ(loader->position(), (LoaderPosition{0, 1}));
  }
}

// For whose samples from the seventh on there is no memory.
class HeavySource : public CountingSource {
 public:
  using CountingSource::CountingSource;
  absl::Status Read(int64_t index, int64_t epoch, std::span<float> x,
                    int32_t* label) const override {
    if (index >= 7) throw std::bad_alloc();
    return CountingSource::Read(index, epoch, x, label);
  }
};

TEST(LoaderTest, MemoryThatAWorkerIsRefusedEndsTheNextBatch) {
  for (const int workers : {1, 4}) {
    const auto loader = MakeLoader(std::make_shared<HeavySource>(40),
                                   {.batch_size = 10, .workers = workers, .shuffle = false});
    for (int again = 0; again < 2; ++again) {
      const auto batch = loader->Next();
      EXPECT_EQ(batch.status().code(), absl::StatusCode::kResourceExhausted) << batch.status();
      EXPECT_THAT(std::string(batch.status().message()), HasSubstr("while reading samples"));
    }
  }
}

TEST(LoaderTest, ABrokenSampleIsReplacedByTheNextGoodOneWhenSkipping) {
  for (const int workers : {0, 1, 4}) {
    const auto source = std::make_shared<CountingSource>(12, std::set<int64_t>{2, 3, 11});
    std::multiset<std::string> reports;
    const auto loader =
        MakeLoader(source, {.batch_size = 6,
                            .workers = workers,
                            .shuffle = false,
                            .epochs = 2,
                            .broken = BrokenSample::kSkip,
                            .on_skip = [&](absl::string_view text) { reports.emplace(text); }});
    const auto batches = TakeBatches(*loader, 4);
    for (size_t epoch = 0; epoch < 2; ++epoch) {
      EXPECT_THAT(batches[2 * epoch].labels, ElementsAre(0, 1, 4, 4, 4, 5));
      EXPECT_THAT(batches[2 * epoch + 1].labels, ElementsAre(6, 7, 8, 9, 10, 0));
      EXPECT_THAT(batches[2 * epoch].samples, ElementsAre(0, 1, 4, 4, 4, 5));
      EXPECT_THAT(batches[2 * epoch + 1].samples, ElementsAre(6, 7, 8, 9, 10, 0));
    }
    EXPECT_THAT(reports, ElementsAre("sample 11", "sample 2", "sample 3"));
    EXPECT_EQ(loader->skipped(), 3);
  }
}

TEST(LoaderTest, OnlyBrokenSamplesAreSkipped) {
  const LoaderOptions skip{
      .batch_size = 4, .workers = 2, .shuffle = false, .broken = BrokenSample::kSkip};
  const auto fatal = std::make_shared<CountingSource>(4, std::set<int64_t>{}, std::set<int64_t>{1});
  EXPECT_EQ(MakeLoader(fatal, skip)->Next().status().code(), absl::StatusCode::kUnavailable);
  const auto none = std::make_shared<CountingSource>(4, std::set<int64_t>{0, 1, 2, 3});
  const auto batch = MakeLoader(none, skip)->Next();
  EXPECT_EQ(batch.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(batch.status().message(), "every sample is broken: counting");
}

TEST(LoaderTest, ABrokenImageIsSkippedOrFatalWithItsName) {
  const TempFolder root;
  for (const char* name : {"0", "1", "3"}) {
    root.Write(absl::StrCat("a/", name, ".jpg"), MakeJpeg(30, 30, 100));
  }
  root.Write("a/2.jpg", MakeJpeg(30, 30, 100).substr(0, 700));
  const std::shared_ptr<const DataSource> source =
      *OpenDataSource({.spec = root.path(), .shape = {{3, 16, 16}}, .augment = false});
  const auto fatal = MakeLoader(source, {.batch_size = 4, .workers = 2})->Next();
  EXPECT_EQ(fatal.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(fatal.status().message()), HasSubstr("a/2.jpg"));
  std::string report;
  const auto loader =
      MakeLoader(source, {.batch_size = 4,
                          .workers = 2,
                          .broken = BrokenSample::kSkip,
                          .on_skip = [&](absl::string_view text) { report = std::string(text); }});
  EXPECT_TRUE(loader->Next().ok());
  EXPECT_THAT(report, HasSubstr("a/2.jpg' is a broken JPEG"));
  EXPECT_EQ(loader->skipped(), 1);
}

TEST(LoaderTest, NoMoreThanThePrefetchIsReadAhead) {
  const auto source = std::make_shared<CountingSource>(1000);
  {
    const auto loader = MakeLoader(source, {.batch_size = 10, .workers = 4, .prefetch = 3});
    TakeBatches(*loader, 2);
  }
  EXPECT_LE(source->reads(), 50);
  EXPECT_GE(source->reads(), 20);
}

TEST(LoaderTest, RecycledMemoryIsUsedAgain) {
  const auto source = std::make_shared<CountingSource>(100);
  for (const int workers : {0, 1}) {
    const auto loader = MakeLoader(source, {.batch_size = 10, .workers = workers, .prefetch = 1});
    std::set<const float*> places;
    for (int i = 0; i < 50; ++i) {
      Batch batch = *loader->Next();
      places.insert(batch.x.data());
      loader->Recycle(std::move(batch));
    }
    EXPECT_LE(places.size(), 10u);
  }
}

TEST(LoaderTest, ALoaderStopsWhereverItIs) {
  for (int round = 0; round < 200; ++round) {
    const auto source = std::make_shared<CountingSource>(50);
    const auto loader =
        MakeLoader(source, {.batch_size = 7, .workers = 1 + round % 4, .prefetch = 2});
    TakeBatches(*loader, round % 5);
  }
}

}  // namespace
}  // namespace partita
