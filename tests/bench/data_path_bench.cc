// How much of the time that data take is hidden behind the steps: a source of limited rate, read
// ahead by the loader's workers, against steps of fixed length. With transfer/compute ratio r the
// steps take max(1, r) of their own length where everything is hidden, and 1 + r where nothing is,
// so the gain is (1 + r) / max(1, r).
//
// On a machine that others use too, threads wake late, and whole stretches are slow. So loaders
// take turns of a few steps, time is the median over all turns' steps, and exits 1 only where a
// loader with workers is more than 10 % away from what is possible both by medians and by the
// fastest turns. A source is not slower because its reader woke late.
//
//   data_path_bench [MILLISECONDS OF A STEP]
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <memory>
#include <mutex>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "graph/support/clock.h"
#include "graph/support/median.h"
#include "graph/support/status_macros.h"
#include "runtime/train/data/loader.h"

namespace partita {
namespace {

constexpr int64_t kBatch = 8;
constexpr int kWarmUp = 3, kSteps = 8, kTurns = 5;
constexpr std::array kWorkers = {0, 1, 2, 4};
constexpr double kTolerance = 0.10;

// Returns by how much it woke late.
int64_t SleepUntil(int64_t steady_ns) {
  const int64_t left = steady_ns - SteadyNow();
  if (left > 0) std::this_thread::sleep_for(std::chrono::nanoseconds(left));
  return std::max<int64_t>(0, SteadyNow() - steady_ns);
}

// Gives one sample after the other, each after so long, however many threads ask; nothing while
// nobody asks.
class LimitedSource : public DataSource {
 public:
  explicit LimitedSource(int64_t ns_per_sample) : ns_per_sample_(ns_per_sample) {}

  int64_t size() const override { return 4 * kBatch * (kWarmUp + kSteps); }
  const SampleShape& shape() const override { return shape_; }
  int classes() const override { return 2; }
  std::string Describe() const override { return "samples at a limited rate"; }

  absl::Status Read(int64_t index, int64_t, std::span<float> x, int32_t* label) const override {
    int64_t ready;
    {
      const std::lock_guard lock(mutex_);
      ready = free_ = std::max(free_, SteadyNow() - late_) + ns_per_sample_;
    }
    const int64_t late = SleepUntil(ready);
    {
      const std::lock_guard lock(mutex_);
      late_ = late;
    }
    std::fill(x.begin(), x.end(), static_cast<float>(index));
    *label = static_cast<int32_t>(index % 2);
    return absl::OkStatus();
  }

 private:
  const int64_t ns_per_sample_;
  const SampleShape shape_{{16}};
  mutable std::mutex mutex_;
  mutable int64_t free_ = 0;  // when the source can begin with the next sample
  mutable int64_t late_ = 0;  // by how much the last reader woke after its sample was there
};

// What a turn's steps take, data included.
absl::StatusOr<std::vector<double>> StepTimes(double ratio, int workers, int64_t step_ns) {
  const auto per_sample = static_cast<int64_t>(ratio * static_cast<double>(step_ns) / kBatch);
  LoaderOptions options;
  options.batch_size = kBatch;
  options.workers = workers;
  options.prefetch = 2;  // double buffering
  ASSIGN_OR_RETURN(const auto loader,
                   BatchLoader::Create(std::make_shared<LimitedSource>(per_sample), options));
  std::vector<double> times;
  for (int step = -kWarmUp; step < kSteps; ++step) {
    const int64_t begin = SteadyNow();
    ASSIGN_OR_RETURN(Batch batch, loader->Next());
    SleepUntil(SteadyNow() + step_ns);
    loader->Recycle(std::move(batch));
    if (step >= 0) times.push_back(static_cast<double>(SteadyNow() - begin));
  }
  return times;
}

double Mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// Of one number of workers, over its turns.
struct LoaderTimes {
  std::vector<double> steps;
  double fastest = std::numeric_limits<double>::infinity();  // mean of the steps of a turn

  void Add(const std::vector<double>& turn) {
    steps.insert(steps.end(), turn.begin(), turn.end());
    fastest = std::min(fastest, Mean(turn));
  }
};

using TimesByWorkers = std::array<LoaderTimes, kWorkers.size()>;

absl::StatusOr<TimesByWorkers> Measure(double ratio, int64_t step_ns) {
  TimesByWorkers times;
  for (int turn = 0; turn < kTurns; ++turn) {
    for (size_t k = 0; k < kWorkers.size(); ++k) {
      ASSIGN_OR_RETURN(const auto steps, StepTimes(ratio, kWorkers[k], step_ns));
      times[k].Add(steps);
    }
  }
  return times;
}

absl::StatusOr<bool> Run(int64_t step_ns) {
  bool good = true;
  absl::PrintF("steps of %.1f ms; gain over no workers by medians (by the fastest turns)\n",
               static_cast<double>(step_ns) / 1e6);
  absl::PrintF("%6s %14s %14s %14s %9s\n", "ratio", "1 worker", "2", "4", "possible");
  for (const double ratio : {0.2, 0.4, 0.6, 0.8, 1.0, 1.5, 2.0}) {
    const double possible = (1 + ratio) / std::max(1.0, ratio);
    ASSIGN_OR_RETURN(const TimesByWorkers times, Measure(ratio, step_ns));
    const auto near = [&](double gain) { return std::abs(gain / possible - 1) <= kTolerance; };
    absl::PrintF("%6.1f", ratio);
    for (size_t k = 1; k < kWorkers.size(); ++k) {
      const double by_median = Median(times[0].steps) / Median(times[k].steps);
      const double by_fastest = times[0].fastest / times[k].fastest;
      good = good && (near(by_median) || near(by_fastest));
      absl::PrintF("  %5.2fx (%.2fx)", by_median, by_fastest);
    }
    absl::PrintF(" %8.2fx\n", possible);
    std::fflush(stdout);
  }
  return good;
}

}  // namespace
}  // namespace partita

int main(int argc, char** argv) {
  const double milliseconds = argc > 1 ? std::atof(argv[1]) : 20;
  const auto good = partita::Run(static_cast<int64_t>(milliseconds * 1e6));
  if (!good.ok()) {
    std::cerr << good.status() << "\n";
    return 1;
  }
  return *good ? 0 : 1;
}
