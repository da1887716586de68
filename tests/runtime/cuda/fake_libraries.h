#pragma once

#include <functional>

#include "runtime/backend/cuda/vendor_handles.h"

namespace partita {

// Tables of functions in the places of cuDNN's and cuBLASLt's that compute on the host, in plain
// loops, what their descriptors say: they show that descriptors, operands and algorithms are handed
// over as those libraries define them, where there is no GPU. Every call counts in `calls`.
struct FakeCalls {
  int guesses = 0, products = 0, convolutions = 0, fused = 0;
  int last_algorithm = -1;
  size_t last_workspace = 0;
  uint32_t sums = 0;  // reduction schemes that products may use, as they were last asked for
  cudnnMathType_t last_math = CUDNN_DEFAULT_MATH;
  // Algorithm of a convolution that makes the largest number of what is none; none: -1
  int cutting_off = -1;
};

// Algorithms that the fake cuDNN offers for each pass, best first: 1, which fits, and whose bits
// change; 2, whose workspace is too large; from 3 to 5, which fit.
constexpr int kChangingAlgorithm = 1, kFirstFittingAlgorithm = 3, kLastAlgorithm = 5;
// Algorithms that the fake cuBLASLt offers, best first.
constexpr int kFirstProduct = 42, kLastProduct = 44;
constexpr size_t kFittingWorkspace = 1 << 20;

std::unique_ptr<Cudnn> FakeCudnn(FakeCalls* calls, const AlgorithmSearch& search);
std::unique_ptr<CublasLt> FakeCublasLt(FakeCalls* calls, const AlgorithmSearch& search);

// Host memory in the place of a device's, and times that a test makes up.
class FakeTrials : public TrialDevice {
 public:
  // `clock` is asked behind each piece of work; null: there is no memory.
  explicit FakeTrials(std::function<double()> clock = nullptr) : clock_(std::move(clock)) {}
  std::shared_ptr<void> Take(int64_t bytes, float first) override;
  absl::Status Fill(void* data, unsigned char byte, int64_t bytes) override;
  absl::Status Read(const void* data, int64_t bytes, void* to) override;
  int64_t FreeBytes() const override { return int64_t{64} << 30; }
  absl::StatusOr<double> Milliseconds(
      const std::function<absl::Status(cudaStream_t)>& enqueue) override;
  // Whether work that fails is given a time all the same: own kernels, which there is no GPU for.
  void IgnoreErrors() { ignore_errors_ = true; }
  int measured() const { return measured_; }

 private:
  const std::function<double()> clock_;
  bool ignore_errors_ = false;
  int measured_ = 0;
};

}  // namespace partita
