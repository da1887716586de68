#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace partita {

// "12240 samples/s", "0.312 samples/s".
std::string RateText(double samples_per_second);

// One training step, as progress shows it.
struct StepReport {
  int64_t step = 0;   // steps done, this one included
  int64_t steps = 0;  // total steps to do
  int64_t epoch = 0;  // epoch of its batch
  int64_t images = 0;
  double loss = 0;        // loss before the update
  double accuracy = 0;    // share of correct rows of the batch; NaN where the graph counts none
  int64_t wall_ns = 0;    // the step itself
  int64_t waited_ns = 0;  // wait for its batch before the step: reading that compute did not hide
  int64_t read_ns = 0;    // total time that threads spent reading its batch
  bool staged = false;    // true: its batch was copied to the devices while the step before ran
  bool replayed = false;  // true: it replayed a recorded step
  double images_per_second() const;
  // "step 3/100  loss 2.3091  accuracy 10.9 %  1949 samples/s"
  std::string ToString() const;
};

// Totals over many steps.
class TrainingMetrics {
 public:
  // Losses and accuracies are averaged over the last `window` steps.
  explicit TrainingMetrics(int64_t window = 50) : window_(window) {}

  void Add(const StepReport& report);

  int64_t steps() const { return static_cast<int64_t>(losses_.size()); }
  const std::vector<double>& losses() const { return losses_; }  // indexed by step
  double running_loss() const;
  double running_accuracy() const;
  // Throughput of steps only: images of a step over the median step's time. 0 without steps.
  double median_images_per_second() const;
  int64_t median_step_ns() const;
  // All images over all time, waiting for data included.
  double images_per_second() const;
  // The share of the time in which compute waited for data: what prefetching did not hide.
  double waiting_share() const;
  // Total time that threads spent reading the batches, and the part of it hidden behind compute:
  // all but the time that steps waited.
  int64_t read_ns() const { return read_ns_; }
  int64_t hidden_read_ns() const { return std::max<int64_t>(0, read_ns_ - waited_ns_); }
  // Steps whose batch was copied to devices with memory of their own during the step before.
  int64_t staged_steps() const { return staged_steps_; }
  int64_t replayed_steps() const { return replayed_steps_; }
  // "loss 0.1234, accuracy 97.1 %, 1234 samples/s (median 1250 samples/s), 0.3 % waiting for data,
  // 1.234 s of reading hidden behind compute"
  std::string ToString() const;

 private:
  double Recent(const std::vector<double>& values) const;

  int64_t window_;
  std::vector<double> losses_, accuracies_;
  std::vector<int64_t> wall_ns_;
  int64_t images_ = 0, waited_ns_ = 0, read_ns_ = 0, total_ns_ = 0;
  int64_t staged_steps_ = 0, replayed_steps_ = 0;
};

}  // namespace partita
