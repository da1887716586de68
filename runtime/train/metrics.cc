#include "runtime/train/metrics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "graph/support/median.h"

namespace partita {
namespace {

double PerSecond(double count, double nanos) { return nanos > 0 ? count * 1e9 / nanos : 0; }

}  // namespace

std::string RateText(double samples_per_second) {
  constexpr double kWhole = 100;  // from here on whole numbers say enough
  return samples_per_second < kWhole ? absl::StrFormat("%.3g samples/s", samples_per_second)
                                     : absl::StrFormat("%.0f samples/s", samples_per_second);
}

double StepReport::images_per_second() const {
  return PerSecond(static_cast<double>(images), static_cast<double>(wall_ns));
}

std::string StepReport::ToString() const {
  std::string text = absl::StrFormat("step %d/%d  loss %.4f", step, steps, loss);
  if (!std::isnan(accuracy)) absl::StrAppendFormat(&text, "  accuracy %.1f %%", 100 * accuracy);
  return absl::StrCat(text, "  ", RateText(images_per_second()));
}

void TrainingMetrics::Add(const StepReport& report) {
  losses_.push_back(report.loss);
  accuracies_.push_back(report.accuracy);
  wall_ns_.push_back(report.wall_ns);
  images_ += report.images;
  waited_ns_ += report.waited_ns;
  read_ns_ += report.read_ns;
  total_ns_ += report.wall_ns + report.waited_ns;
  staged_steps_ += report.staged ? 1 : 0;
  replayed_steps_ += report.replayed ? 1 : 0;
}

double TrainingMetrics::Recent(const std::vector<double>& values) const {
  const auto count = std::min<int64_t>(window_, steps());
  if (count == 0) return std::nan("");
  return std::accumulate(values.end() - count, values.end(), 0.0) / static_cast<double>(count);
}

double TrainingMetrics::running_loss() const { return Recent(losses_); }
double TrainingMetrics::running_accuracy() const { return Recent(accuracies_); }

int64_t TrainingMetrics::median_step_ns() const {
  if (wall_ns_.empty()) return 0;
  return Median(wall_ns_);
}

double TrainingMetrics::median_images_per_second() const {
  if (wall_ns_.empty()) return 0;
  const double images = static_cast<double>(images_) / static_cast<double>(steps());
  return PerSecond(images, static_cast<double>(median_step_ns()));
}

double TrainingMetrics::images_per_second() const {
  return PerSecond(static_cast<double>(images_), static_cast<double>(total_ns_));
}

double TrainingMetrics::waiting_share() const {
  return total_ns_ == 0 ? 0 : static_cast<double>(waited_ns_) / static_cast<double>(total_ns_);
}

std::string TrainingMetrics::ToString() const {
  std::string text = absl::StrFormat("loss %.4f", running_loss());
  if (!std::isnan(running_accuracy())) {
    absl::StrAppendFormat(&text, ", accuracy %.1f %%", 100 * running_accuracy());
  }
  absl::StrAppendFormat(&text, ", %s (median %s), %.1f %% waiting for data",
                        RateText(images_per_second()), RateText(median_images_per_second()),
                        100 * waiting_share());
  constexpr int64_t kWorthAWord = 1'000'000;  // ns
  if (hidden_read_ns() >= kWorthAWord) {
    absl::StrAppendFormat(&text, ", %.3f s of reading hidden behind compute",
                          static_cast<double>(hidden_read_ns()) / 1e9);
  }
  if (staged_steps_ > 0) {
    absl::StrAppendFormat(&text, ", %d batches copied to the devices behind compute",
                          staged_steps_);
  }
  if (replayed_steps_ > 0) {
    absl::StrAppendFormat(&text, ", %d steps replayed as recorded", replayed_steps_);
  }
  return text;
}

}  // namespace partita
