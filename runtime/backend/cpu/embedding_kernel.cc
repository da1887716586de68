#include <algorithm>

#include "runtime/backend/cpu/cpu_kernels.h"
#include "runtime/backend/cpu/thread_team.h"

namespace partita {
namespace {

// A row of the table, or zeros; threads share the indices.
class LookupKernel : public HostKernel {
 public:
  explicit LookupKernel(const KernelSignature& s)
      : count_(Volume(s.inputs[0].type.shape)), channels_(s.outputs[0].type.shape.back()) {}
  int64_t scratch_bytes() const override { return 0; }
  absl::Status Run(const KernelArguments& a, void*) const override {
    const auto* indices = static_cast<const int32_t*>(a.inputs[0].data);
    const auto* table = static_cast<const float*>(a.inputs[1].data);
    auto* y = static_cast<float*>(a.outputs[0].data);
    const Interval rows = a.inputs[1].box[0];
    const int64_t grain = std::max<int64_t>(1, 16384 / channels_);
    ParallelBlocks(count_, grain, [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) {
        float* to = y + k * channels_;
        if (indices[k] < rows.lo || indices[k] >= rows.hi) {
          std::fill_n(to, channels_, 0.f);
        } else {
          std::copy_n(table + (indices[k] - rows.lo) * channels_, channels_, to);
        }
      }
    });
    return absl::OkStatus();
  }

 private:
  const int64_t count_, channels_;
};

// The sum of the gradients of each row; threads share the rows.
class LookupGradientKernel : public HostKernel {
 public:
  explicit LookupGradientKernel(const KernelSignature& s)
      : count_(Volume(s.inputs[0].type.shape)),
        rows_(s.outputs[0].type.shape[0]),
        channels_(s.outputs[0].type.shape[1]) {}
  int64_t scratch_bytes() const override { return 0; }
  absl::Status Run(const KernelArguments& a, void*) const override {
    const auto* indices = static_cast<const int32_t*>(a.inputs[0].data);
    const auto* dy = static_cast<const float*>(a.inputs[1].data);
    auto* dtable = static_cast<float*>(a.outputs[0].data);
    const int64_t first_row = a.outputs[0].box[0].lo;
    // Each block of rows walks all indices.
    const int64_t grain = std::max<int64_t>(count_ / 8 + 1, 16384 / channels_);
    ParallelBlocks(rows_, grain, [&](int64_t begin, int64_t end) {
      std::fill(dtable + begin * channels_, dtable + end * channels_, 0.f);
      for (int64_t k = 0; k < count_; ++k) {
        const int64_t row = indices[k] - first_row;
        if (row < begin || row >= end) continue;
        float* to = dtable + row * channels_;
        const float* from = dy + k * channels_;
#pragma GCC ivdep
        for (int64_t c = 0; c < channels_; ++c) to[c] += from[c];
      }
    });
    return absl::OkStatus();
  }

 private:
  const int64_t count_, rows_, channels_;
};

}  // namespace

std::unique_ptr<HostKernel> MakeEmbeddingKernel(const KernelSignature& s) {
  for (const KernelTensor& t : {s.inputs[0], s.inputs[1], s.outputs[0]}) {
    if (!t.present || Volume(t.type.shape) == 0) return nullptr;
  }
  if (s.inputs[1].type.dtype != DType::kFloat32) return nullptr;
  if (s.pass.is_forward()) return std::make_unique<LookupKernel>(s);
  return std::make_unique<LookupGradientKernel>(s);
}

}  // namespace partita
