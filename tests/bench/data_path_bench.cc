// How much of the time that data take is hidden behind the steps: a source of limited rate, read
// ahead by the loader's workers, against steps of fixed length. With transfer/compute ratio r the
// steps take max(1, r) of their own length where everything is hidden, and 1 + r where nothing is,
// so the gain is (1 + r) / max(1, r). Exits 1 where a loader with workers is more than 10 % away
// from it.
//
//   data_path_bench [MILLISECONDS OF A STEP]
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <mutex>
#include <thread>

#include "absl/strings/str_format.h"
#include "graph/support/clock.h"
#include "graph/support/status_macros.h"
#include "runtime/train/data/loader.h"

namespace partita {
namespace {

constexpr int64_t kBatch = 8;
constexpr int kSteps = 30;
constexpr double kTolerance = 0.10;

void SleepUntil(int64_t steady_ns) {
  const int64_t left = steady_ns - SteadyNow();
  if (left > 0) std::this_thread::sleep_for(std::chrono::nanoseconds(left));
}

// Gives one sample after the other, each after so long, however many threads ask; nothing while
// nobody asks.
class LimitedSource : public DataSource {
 public:
  explicit LimitedSource(int64_t ns_per_sample) : ns_per_sample_(ns_per_sample) {}

  int64_t size() const override { return 4 * kBatch * kSteps; }
  const SampleShape& shape() const override { return shape_; }
  int classes() const override { return 2; }
  std::string Describe() const override { return "samples at a limited rate"; }

  absl::Status Read(int64_t index, int64_t, std::span<float> x, int32_t* label) const override {
    int64_t ready;
    {
      const std::lock_guard lock(mutex_);
      ready = free_ = std::max(free_, SteadyNow()) + ns_per_sample_;
    }
    SleepUntil(ready);
    std::fill(x.begin(), x.end(), static_cast<float>(index));
    *label = static_cast<int32_t>(index % 2);
    return absl::OkStatus();
  }

 private:
  const int64_t ns_per_sample_;
  const SampleShape shape_{{16}};
  mutable std::mutex mutex_;
  mutable int64_t free_ = 0;  // when the source can begin with the next sample
};

// Time of a step, data included.
absl::StatusOr<double> StepTime(double ratio, int workers, int64_t step_ns) {
  const auto per_sample = static_cast<int64_t>(ratio * static_cast<double>(step_ns) / kBatch);
  LoaderOptions options;
  options.batch_size = kBatch;
  options.workers = workers;
  options.prefetch = 2;  // double buffering
  ASSIGN_OR_RETURN(const auto loader,
                   BatchLoader::Create(std::make_shared<LimitedSource>(per_sample), options));
  int64_t begin = 0;
  for (int step = -3; step < kSteps; ++step) {
    if (step == 0) begin = SteadyNow();
    ASSIGN_OR_RETURN(Batch batch, loader->Next());
    SleepUntil(SteadyNow() + step_ns);
    loader->Recycle(std::move(batch));
  }
  return static_cast<double>(SteadyNow() - begin) / kSteps;
}

absl::StatusOr<bool> Run(int64_t step_ns) {
  bool good = true;
  absl::PrintF("steps of %.1f ms; gain over no workers, and what is possible\n",
               static_cast<double>(step_ns) / 1e6);
  absl::PrintF("%8s %9s %9s %9s %9s %9s\n", "ratio", "0 workers", "1", "2", "4", "possible");
  for (const double ratio : {0.2, 0.4, 0.6, 0.8, 1.0, 1.5, 2.0}) {
    const double possible = (1 + ratio) / std::max(1.0, ratio);
    double serial = 0;
    absl::PrintF("%8.1f", ratio);
    for (const int workers : {0, 1, 2, 4}) {
      ASSIGN_OR_RETURN(const double time, StepTime(ratio, workers, step_ns));
      if (workers == 0) serial = time;
      const double gain = serial / time;
      good = good && (workers == 0 || std::abs(gain / possible - 1) <= kTolerance);
      absl::PrintF(" %8.2fx", gain);
      std::fflush(stdout);
    }
    absl::PrintF(" %8.2fx\n", possible);
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
