#include "runtime/backend/cuda/trial_device.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>
#include <vector>

#include "graph/support/median.h"
#include "graph/support/status_macros.h"
#include "runtime/backend/cuda/cuda_status.h"

namespace partita {
namespace {

constexpr size_t kRuns = 5;
constexpr auto kWarmUp = std::chrono::milliseconds(150);

struct TimingEvent {
  ~TimingEvent() {
    if (event != nullptr) cudaEventDestroy(event);
  }
  absl::Status Make() { return CudaStatus(cudaEventCreate(&event), "a new event"); }
  cudaEvent_t event = nullptr;
};

class CudaTrialDevice : public TrialDevice {
 public:
  std::shared_ptr<void> Take(int64_t bytes, float first) override {
    void* data = nullptr;
    const auto size = static_cast<size_t>(std::max<int64_t>(bytes, sizeof first));
    if (cudaMalloc(&data, size) != cudaSuccess) {
      (void)cudaGetLastError();
      return nullptr;
    }
    std::shared_ptr<void> memory(data, [](void* p) { cudaFree(p); });
    if (cudaMemset(data, 0, size) != cudaSuccess) return nullptr;
    const cudaError_t code = cudaMemcpy(data, &first, sizeof first, cudaMemcpyHostToDevice);
    return code == cudaSuccess ? memory : nullptr;
  }

  absl::Status Fill(void* data, unsigned char byte, int64_t bytes) override {
    return CudaStatus(cudaMemset(data, byte, static_cast<size_t>(bytes)), "filling memory");
  }
  absl::Status Read(const void* data, int64_t bytes, void* to) override {
    return CudaStatus(cudaMemcpy(to, data, static_cast<size_t>(bytes), cudaMemcpyDeviceToHost),
                      "reading memory");
  }

  int64_t FreeBytes() const override {
    size_t free = 0, total = 0;
    if (cudaMemGetInfo(&free, &total) == cudaSuccess) return static_cast<int64_t>(free);
    (void)cudaGetLastError();
    return 0;
  }

  absl::StatusOr<double> Milliseconds(
      const std::function<absl::Status(cudaStream_t)>& enqueue) override {
    std::array<TimingEvent, kRuns + 1> marks;
    for (TimingEvent& mark : marks) RETURN_IF_ERROR(mark.Make());
    RETURN_IF_ERROR(enqueue(nullptr));
    RETURN_IF_ERROR(WarmUp(enqueue));
    // One after the other, so that the device need not wait for the host between them.
    for (size_t k = 0; k <= kRuns; ++k) {
      if (k > 0) RETURN_IF_ERROR(enqueue(nullptr));
      RETURN_IF_ERROR(CudaStatus(cudaEventRecord(marks[k].event, nullptr), "measuring"));
    }
    RETURN_IF_ERROR(CudaStatus(cudaEventSynchronize(marks[kRuns].event), "measuring"));
    std::vector<double> times;
    for (size_t k = 0; k < kRuns; ++k) {
      float ms = 0;
      RETURN_IF_ERROR(
          CudaStatus(cudaEventElapsedTime(&ms, marks[k].event, marks[k + 1].event), "measuring"));
      times.push_back(static_cast<double>(ms));
    }
    return Median(std::move(times));
  }

 private:
  // A GPU that had nothing to do raises its clocks: what is measured later would seem faster.
  absl::Status WarmUp(const std::function<absl::Status(cudaStream_t)>& enqueue) {
    if (is_warm_) return absl::OkStatus();
    const auto until = std::chrono::steady_clock::now() + kWarmUp;
    while (std::chrono::steady_clock::now() < until) {
      RETURN_IF_ERROR(enqueue(nullptr));
      RETURN_IF_ERROR(CudaStatus(cudaStreamSynchronize(nullptr), "measuring"));
    }
    is_warm_ = true;
    return absl::OkStatus();
  }

  bool is_warm_ = false;
};

}  // namespace

std::unique_ptr<TrialDevice> MakeCudaTrialDevice() { return std::make_unique<CudaTrialDevice>(); }

}  // namespace partita
