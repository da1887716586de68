#include <cmath>
#include <cstring>

#include "runtime/backend/cpu/cpu_kernels.h"
#include "runtime/backend/cpu/sgd_rates.h"
#include "runtime/backend/cpu/thread_team.h"

namespace partita {
namespace {

constexpr int64_t kGrain = 16384;

// A kernel given as a function of its pieces' addresses over a range of elements. All pieces have
// one order.
template <class Body>
class FlatKernel : public HostKernel {
 public:
  FlatKernel(int64_t elements, Body body) : elements_(elements), body_(std::move(body)) {}
  int64_t scratch_bytes() const override { return 0; }
  absl::Status Run(const KernelArguments& arguments, void*) const override {
    ParallelBlocks(elements_, kGrain,
                   [&](int64_t begin, int64_t end) { body_(arguments, begin, end); });
    return absl::OkStatus();
  }

 private:
  int64_t elements_;
  Body body_;
};

template <class Body>
std::unique_ptr<HostKernel> Flat(const KernelSignature& s, Body body) {
  return std::make_unique<FlatKernel<Body>>(Volume(s.outputs[0].type.shape), std::move(body));
}

const float* In(const KernelArguments& a, size_t k) {
  return static_cast<const float*>(a.inputs[k].data);
}
float* Out(const KernelArguments& a, size_t k) { return static_cast<float*>(a.outputs[k].data); }

// Selects rather than branches, whatever the signs are.
void RectifyRange(const float* x, float* y, int64_t begin, int64_t end) {
#pragma GCC ivdep
  for (int64_t i = begin; i < end; ++i) {
    const float value = x[i];
    y[i] = value <= 0 ? 0.f : value;
  }
}

// Every input has the first output's shape and order.
bool IsUniform(const KernelSignature& s) {
  for (const KernelTensor& t : s.inputs) {
    if (t.type != s.outputs[0].type || t.format != s.outputs[0].format) return false;
  }
  return true;
}

// Functions of one number: y = Value(x), dx = Gradient(x or y, dy).
struct ErfFunction {
  static float Value(float x) { return std::erf(x); }
  static float Gradient(float x, float dy) { return dy * (1.12837917f * std::exp(-x * x)); }
};
struct GeluFunction {
  static float Share(float x) { return 0.5f * (1 + std::erf(0.707106781f * x)); }
  static float Value(float x) { return x * Share(x); }
  static float Gradient(float x, float dy) {
    return dy * (Share(x) + x * (0.398942280f * std::exp(-0.5f * x * x)));
  }
};
struct SigmoidFunction {
  static float Value(float x) { return 1 / (1 + std::exp(-x)); }
  static float Gradient(float y, float dy) { return dy * (y * (1 - y)); }
};
struct GeluTanhFunction {
  static float Share(float x) {
    return SigmoidFunction::Value(1.59576912f * (x + 0.044715f * (x * (x * x))));
  }
  static float Value(float x) { return x * Share(x); }
  static float Gradient(float x, float dy) {
    const float share = Share(x), slope = 1.59576912f * (1 + 0.134145f * (x * x));
    return dy * (share + x * (share * (1 - share)) * slope);
  }
};
struct HardSwishFunction {
  static float Value(float x) {
    const float between = (x + 3) * (1.f / 6);
    return x * (x <= -3 ? 0.f : x >= 3 ? 1.f : between);
  }
  static float Gradient(float x, float dy) {
    const float between = dy * ((2 * x + 3) * (1.f / 6));
    return x <= -3 ? 0.f : x >= 3 ? dy : between;
  }
};
struct TanhFunction {
  static float Value(float x) { return std::tanh(x); }
  static float Gradient(float y, float dy) { return dy * (1 - y * y); }
};

template <class Function>
std::unique_ptr<HostKernel> FlatFunction(const KernelSignature& s, Function) {
  if (s.pass.is_forward()) {
    return Flat(s, [](const KernelArguments& a, int64_t begin, int64_t end) {
      const float* x = In(a, 0);
      float* y = Out(a, 0);
#pragma GCC ivdep
      for (int64_t i = begin; i < end; ++i) y[i] = Function::Value(x[i]);
    });
  }
  return Flat(s, [](const KernelArguments& a, int64_t begin, int64_t end) {
    const float* read = In(a, 0);
    const float* dy = In(a, 1);
    float* dx = Out(a, 0);
#pragma GCC ivdep
    for (int64_t i = begin; i < end; ++i) dx[i] = Function::Gradient(read[i], dy[i]);
  });
}

}  // namespace

void Rectify(const float* x, float* y, int64_t elements) {
  ParallelBlocks(elements, kGrain,
                 [&](int64_t begin, int64_t end) { RectifyRange(x, y, begin, end); });
}

bool IsPlainFloat(const KernelSignature& signature) {
  for (const auto* list : {&signature.inputs, &signature.outputs}) {
    for (const KernelTensor& t : *list) {
      if (t.present && (t.type.dtype != DType::kFloat32 || Volume(t.type.shape) == 0)) return false;
    }
  }
  return true;
}

std::unique_ptr<HostKernel> MakeReluKernel(const Relu&, const KernelSignature& s) {
  if (!IsPlainFloat(s) || !IsUniform(s)) return nullptr;
  if (s.pass.is_forward()) {
    return Flat(s, [](const KernelArguments& a, int64_t begin, int64_t end) {
      RectifyRange(In(a, 0), Out(a, 0), begin, end);
    });
  }
  return Flat(s, [](const KernelArguments& a, int64_t begin, int64_t end) {
    const float* y = In(a, 0);
    const float* dy = In(a, 1);
    float* dx = Out(a, 0);
    for (int64_t i = begin; i < end; ++i) dx[i] = y[i] > 0 ? dy[i] : 0.f;
  });
}

std::unique_ptr<HostKernel> MakeUnaryKernel(const Unary& unary, const KernelSignature& s) {
  if (!IsPlainFloat(s) || !IsUniform(s)) return nullptr;
  switch (FunctionOf(unary)) {
    case UnaryFunction::kErf:
      return FlatFunction(s, ErfFunction());
    case UnaryFunction::kGelu:
      return FlatFunction(s, GeluFunction());
    case UnaryFunction::kGeluTanh:
      return FlatFunction(s, GeluTanhFunction());
    case UnaryFunction::kHardSwish:
      return FlatFunction(s, HardSwishFunction());
    case UnaryFunction::kSigmoid:
      return FlatFunction(s, SigmoidFunction());
    case UnaryFunction::kTanh:
      return FlatFunction(s, TanhFunction());
  }
  return nullptr;
}

std::unique_ptr<HostKernel> MakeBinaryKernel(const Binary& binary, const KernelSignature& s) {
  if (!IsPlainFloat(s) || !IsUniform(s)) return nullptr;
  if (!s.pass.is_forward()) {
    if (binary.function == "mul") {
      return Flat(s, [](const KernelArguments& a, int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) Out(a, 0)[i] = In(a, 0)[i] * In(a, 1)[i];
      });
    }
    const float sign = binary.function == "sub" && s.pass.gradient == 1 ? -1.f : 1.f;
    return Flat(s, [sign](const KernelArguments& a, int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) Out(a, 0)[i] = sign * In(a, 0)[i];
    });
  }
  if (binary.function == "add") {
    return Flat(s, [](const KernelArguments& a, int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) Out(a, 0)[i] = In(a, 0)[i] + In(a, 1)[i];
    });
  }
  if (binary.function == "sub") {
    return Flat(s, [](const KernelArguments& a, int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) Out(a, 0)[i] = In(a, 0)[i] - In(a, 1)[i];
    });
  }
  return Flat(s, [](const KernelArguments& a, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) Out(a, 0)[i] = In(a, 0)[i] * In(a, 1)[i];
  });
}

std::unique_ptr<HostKernel> MakeReshapeKernel(const Reshape&, const KernelSignature& s) {
  if (!IsPlainFloat(s) || s.inputs[0].format != Format::kDense ||
      s.outputs[0].format != Format::kDense) {
    return nullptr;
  }
  return Flat(s, [](const KernelArguments& a, int64_t begin, int64_t end) {
    if (In(a, 0) == Out(a, 0)) return;
    std::memcpy(Out(a, 0) + begin, In(a, 0) + begin,
                static_cast<size_t>(end - begin) * sizeof(float));
  });
}

std::unique_ptr<HostKernel> MakeSgdKernel(const Sgd& sgd, const KernelSignature& s) {
  if (!IsPlainFloat(s) || !IsUniform(s)) return nullptr;
  return Flat(s, [nesterov = sgd.nesterov](const KernelArguments& a, int64_t begin, int64_t end) {
    const SgdRates rates(a.step, nesterov);
    const float* w = In(a, 0);
    const float* g = In(a, 1);
    const float* v = In(a, 2);
    float* w_next = Out(a, 0);
    float* v_next = Out(a, 1);
    // Each element is read before it is written, so the results may lie over the inputs.
#pragma GCC ivdep
    for (int64_t i = begin; i < end; ++i) {
      rates.Step(g[i], w[i], v[i], w_next[i], v_next[i]);
    }
  });
}

std::unique_ptr<HostKernel> MakeAdamKernel(const KernelSignature& s) {
  if (!IsPlainFloat(s) || !IsUniform(s)) return nullptr;
  return Flat(s, [](const KernelArguments& a, int64_t begin, int64_t end) {
    const double t = static_cast<double>(a.step.step + 1);
    const auto rate = static_cast<float>(a.step.learning_rate / (1 - std::pow(a.step.beta1, t)));
    const auto correction = static_cast<float>(1 / (1 - std::pow(a.step.beta2, t)));
    const auto decay = static_cast<float>(a.step.weight_decay);
    const auto epsilon = static_cast<float>(a.step.epsilon);
    const auto keep1 = static_cast<float>(a.step.beta1), take1 = 1 - keep1;
    const auto keep2 = static_cast<float>(a.step.beta2), take2 = 1 - keep2;
    const float *w = In(a, 0), *g = In(a, 1), *m = In(a, 2), *v = In(a, 3);
    float *w_next = Out(a, 0), *m_next = Out(a, 1), *v_next = Out(a, 2);
#pragma GCC ivdep
    for (int64_t i = begin; i < end; ++i) {
      const float weight = w[i], gradient = g[i] + decay * weight;
      const float first = keep1 * m[i] + take1 * gradient;
      const float second = keep2 * v[i] + take2 * gradient * gradient;
      m_next[i] = first;
      v_next[i] = second;
      w_next[i] = weight - rate * first / (std::sqrt(second * correction) + epsilon);
    }
  });
}

}  // namespace partita
