// The mean cross-entropy of softmax(x) over the last dimension, on the device's threads: rows apart,
// a row's classes in vectors.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "runtime/backend/cpu/cpu_kernels.h"
#include "runtime/backend/cpu/thread_team.h"
#include "runtime/backend/kernel_stages.h"

namespace partita {
namespace {

constexpr int kLanes = 16;
constexpr int64_t kRowsOfThread = 4;  // less is not worth waking one

// exp(x) for x <= 0, within 2 units in the last place; 0 below the smallest normal number; NaN
// stays. exp(x) = 2^n exp(r), r in [-ln 2 / 2, ln 2 / 2], with the Taylor polynomial of degree 7.
inline float ExpOfNegative(float x) {
  constexpr float kSmallest = -87.0f, kToInteger = 12582912.0f;  // 1.5 * 2^23: rounds to integers
  const float clamped = x < kSmallest ? kSmallest : x;
  const float shifted = clamped * 1.44269504088896341f + kToInteger;
  const float n = shifted - kToInteger;
  const float r = (clamped - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.0f / 5040;
  p = p * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  // The integer is in the low bits of `shifted`.
  const auto bits = (std::bit_cast<int32_t>(shifted) - 0x4b400000 + 127) << 23;
  const float value = p * std::bit_cast<float>(bits);
  return x < kSmallest ? 0.0f : value;
}

struct Sizes {
  explicit Sizes(const KernelTensor& x) : classes(x.type.shape.back()) {
    for (size_t d = 0; d + 1 < x.type.shape.size(); ++d) rows *= x.type.shape[d];
  }
  int64_t rows = 1, classes;
};

// The largest element; NaN does not win.
float MaximumOf(const float* x, int64_t count) {
  constexpr float kLowest = -std::numeric_limits<float>::infinity();
  float lanes[kLanes];
  std::fill(lanes, lanes + kLanes, kLowest);
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int k = 0; k < kLanes; ++k) lanes[k] = lanes[k] < x[i + k] ? x[i + k] : lanes[k];
  }
  float best = kLowest;
  for (float lane : lanes) best = best < lane ? lane : best;
  for (; i < count; ++i) best = best < x[i] ? x[i] : best;
  return best;
}

// The sum of exp(x - m).
double SumOfExponentials(const float* x, float m, int64_t count) {
  float lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int k = 0; k < kLanes; ++k) lanes[k] += ExpOfNegative(x[i + k] - m);
  }
  double sum = 0;
  for (float lane : lanes) sum += lane;
  for (; i < count; ++i) sum += ExpOfNegative(x[i] - m);
  return sum;
}

// Where the label lies in a row of the piece, or -1.
int64_t PlaceOf(const TensorArgument& x, int32_t label) {
  const Interval& classes = x.box[x.box.rank() - 1];
  return label >= classes.lo && label < classes.hi ? label - classes.lo : -1;
}

template <class T>
T* Data(const TensorArgument& argument) {
  return static_cast<T*>(argument.data);
}

// row_max, sum_exp and cross_entropy.
class CrossEntropyKernel : public HostKernel {
 public:
  CrossEntropyKernel(const KernelSignature& s, std::vector<KernelStage> stages, int64_t divisor)
      : sizes_(s.inputs[0]), stages_(std::move(stages)), divisor_(divisor) {}
  int64_t scratch_bytes() const override {
    return sizes_.rows * static_cast<int64_t>(sizeof(double));
  }

  absl::Status Run(const KernelArguments& given, void* scratch) const override {
    const StageArguments maximum(stages_[0], given, {}), sum(stages_[1], given, {}),
        loss(stages_[2], given, {});
    const TensorArgument& x_piece = given.inputs[0];
    const auto* labels = Data<const int32_t>(loss.get().inputs[1]);
    auto* m = Data<float>(maximum.get().outputs[0]);
    auto* s = Data<float>(sum.get().outputs[0]);
    auto* losses = static_cast<double*>(scratch);
    ParallelBlocks(sizes_.rows, kRowsOfThread, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const float* x = Data<const float>(x_piece) + r * sizes_.classes;
        m[r] = MaximumOf(x, sizes_.classes);
        s[r] = static_cast<float>(SumOfExponentials(x, m[r], sizes_.classes));
        const int64_t label = PlaceOf(x_piece, labels[r]);
        losses[r] = std::log(static_cast<double>(s[r])) + static_cast<double>(m[r]) -
                    (label >= 0 ? static_cast<double>(x[label]) : 0.0);
      }
    });
    double total = 0;
    for (int64_t r = 0; r < sizes_.rows; ++r) total += losses[r];
    *Data<float>(loss.get().outputs[0]) = static_cast<float>(total / static_cast<double>(divisor_));
    return absl::OkStatus();
  }

 private:
  const Sizes sizes_;
  const std::vector<KernelStage> stages_;
  const int64_t divisor_;
};

// dx = (exp(x - m) / s - [is label]) * dloss / divisor.
class CrossEntropyGradKernel : public HostKernel {
 public:
  CrossEntropyGradKernel(const KernelSignature& s, int64_t divisor)
      : sizes_(s.inputs[0]), divisor_(divisor) {}
  int64_t scratch_bytes() const override { return 0; }

  absl::Status Run(const KernelArguments& a, void*) const override {
    const auto* labels = Data<const int32_t>(a.inputs[1]);
    const auto* m = Data<const float>(a.inputs[2]);
    const auto* s = Data<const float>(a.inputs[3]);
    const auto scale = static_cast<float>(static_cast<double>(*Data<const float>(a.inputs[4])) /
                                          static_cast<double>(divisor_));
    ParallelBlocks(sizes_.rows, kRowsOfThread, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const float* x = Data<const float>(a.inputs[0]) + r * sizes_.classes;
        auto* dx = Data<float>(a.outputs[0]) + r * sizes_.classes;
        const float maximum = m[r], factor = scale / s[r];
        const int64_t label = PlaceOf(a.inputs[0], labels[r]);
        for (int64_t i = 0; i < sizes_.classes; ++i) {
          dx[i] = ExpOfNegative(x[i] - maximum) * factor;
        }
        if (label >= 0) dx[label] -= scale;
      }
    });
    return absl::OkStatus();
  }

 private:
  const Sizes sizes_;
  const int64_t divisor_;
};

// float32 of rows and classes, and labels.
bool Fits(const KernelSignature& s) {
  if (Volume(s.inputs[0].type.shape) == 0) return false;
  for (const auto* tensors : {&s.inputs, &s.outputs}) {
    for (const KernelTensor& t : *tensors) {
      const bool known = t.type.dtype == DType::kFloat32 || t.type.dtype == DType::kInt32;
      if (!t.present || !known || t.format != Format::kDense) return false;
    }
  }
  return true;
}

}  // namespace

std::unique_ptr<HostKernel> MakeFusedSoftmaxKernel(const KernelSignature& s) {
  std::vector<KernelStage> stages = StagesOf(s);
  if (stages.size() != 3 || !std::holds_alternative<RowMax>(s.attrs) ||
      !std::holds_alternative<SumExp>(stages[1].kernel.attrs)) {
    return nullptr;
  }
  const auto* loss = std::get_if<CrossEntropy>(&stages[2].kernel.attrs);
  if (loss == nullptr || !Fits(s)) return nullptr;
  const int64_t rows = loss->rows;
  return std::make_unique<CrossEntropyKernel>(s, std::move(stages), rows);
}

std::unique_ptr<HostKernel> MakeCrossEntropyGradKernel(const CrossEntropyGrad& loss,
                                                       const KernelSignature& s) {
  if (!Fits(s)) return nullptr;
  return std::make_unique<CrossEntropyGradKernel>(s, loss.rows);
}

}  // namespace partita
