#pragma once

#include <cmath>
#include <cstdint>

#include "graph/ops/unary_function.h"
#include "runtime/backend/cuda/host_device_code.h"

// Functions of one number (graph/ops/unary.h), one element each. NaN stays NaN.

namespace partita {

PARTITA_HOST_DEVICE inline float SigmoidOf(float x) { return 1.0f / (1.0f + expf(-x)); }

// The normal distribution's share below x.
PARTITA_HOST_DEVICE inline float NormalShare(float x) {
  return 0.5f * (1.0f + erff(0.707106781f * x));
}

// Argument of the sigmoid by which x is multiplied in gelu_tanh.
PARTITA_HOST_DEVICE inline float GeluTanhInner(float x) {
  return 1.59576912f * (x + 0.044715f * (x * (x * x)));
}

struct UnaryElement {
  UnaryFunction function = UnaryFunction::kSigmoid;
  const float* x = nullptr;
  float* y = nullptr;
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitVectors(Visit&& visit) {
    visit(x, y);
  }
  using Operands = float;
  template <class Int>
  PARTITA_HOST_DEVICE Operands Load(Int i) const {
    return x[i];
  }
  template <class Int>
  PARTITA_HOST_DEVICE void Store(Int i, float value) const {
    y[i] = Value(value);
  }

 private:
  PARTITA_HOST_DEVICE float Value(float value) const {
    switch (function) {
      case UnaryFunction::kErf:
        return erff(value);
      case UnaryFunction::kGelu:
        return value * NormalShare(value);
      case UnaryFunction::kGeluTanh:
        return value * SigmoidOf(GeluTanhInner(value));
      case UnaryFunction::kHardSwish: {
        const float between = (value + 3) * (1.0f / 6);
        return value * (value <= -3 ? 0.0f : value >= 3 ? 1.0f : between);
      }
      case UnaryFunction::kSigmoid:
        return SigmoidOf(value);
      case UnaryFunction::kTanh:
        break;
    }
    return tanhf(value);
  }
};

// `read`: the operand, or for sigmoid and tanh the result.
struct UnaryGradientElement {
  UnaryFunction function = UnaryFunction::kSigmoid;
  const float* read = nullptr;
  const float* dy = nullptr;
  float* dx = nullptr;
  template <class Visit>
  PARTITA_HOST_DEVICE void VisitVectors(Visit&& visit) {
    visit(read, dy, dx);
  }
  struct Operands {
    float read, dy;
  };
  template <class Int>
  PARTITA_HOST_DEVICE Operands Load(Int i) const {
    return {read[i], dy[i]};
  }
  template <class Int>
  PARTITA_HOST_DEVICE void Store(Int i, const Operands& of) const {
    dx[i] = Gradient(of.read, of.dy);
  }

 private:
  PARTITA_HOST_DEVICE float Gradient(float value, float gradient) const {
    switch (function) {
      case UnaryFunction::kErf:
        return gradient * (1.12837917f * expf(-value * value));
      case UnaryFunction::kGelu:
        return gradient *
               (NormalShare(value) + value * (0.398942280f * expf(-0.5f * value * value)));
      case UnaryFunction::kGeluTanh: {
        const float share = SigmoidOf(GeluTanhInner(value));
        const float slope = 1.59576912f * (1.0f + 0.134145f * (value * value));
        return gradient * (share + value * (share * (1.0f - share)) * slope);
      }
      case UnaryFunction::kHardSwish: {
        const float between = gradient * ((2 * value + 3) * (1.0f / 6));
        return value <= -3 ? 0.0f : value >= 3 ? gradient : between;
      }
      case UnaryFunction::kSigmoid:
        return gradient * (value * (1.0f - value));
      case UnaryFunction::kTanh:
        break;
    }
    return gradient * (1.0f - value * value);
  }
};

}  // namespace partita
