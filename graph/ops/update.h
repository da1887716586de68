#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <vector>

#include "graph/ops/attribute_checks.h"
#include "graph/ops/fields.h"
#include "graph/ops/tensor_form.h"

// Optimizer updates: operators that turn weights and their states into those of the next step,
// element for element. The first operand is the weight. Learning rate, momentum, weight decay and
// the step's number are arguments of a launch (StepArguments), not attributes. The formulas are
// PyTorch's.

namespace partita {

// w, g, v -> w', v':
//   g += weight_decay * w
//   v' = momentum * v + g
//   w' = w - learning_rate * (nesterov ? g + momentum * v' : v')
struct Sgd {
  static constexpr char kName[] = "sgd";
  static constexpr char kDescription[] = "gradient descent with momentum and weight decay";
  static constexpr bool kTakesGradient = true;
  static constexpr bool kExactOnIntegers = true;
  static constexpr char kForm[] = "x,x,x->x,x";
  static constexpr int64_t kOperations = 6;
  bool nesterov = false;
  template <class Self, class Visitor>
  static void VisitFields(Self& self, Visitor&& visit) {
    visit("nesterov", self.nesterov);
  }
  friend bool operator==(const Sgd&, const Sgd&) = default;
};
std::vector<InPlacePair> InPlace(const Sgd&, Pass);

// w, g, m, v -> w', m', v', with t = step + 1:
//   g += weight_decay * w
//   m' = beta1 * m + (1 - beta1) * g
//   v' = beta2 * v + (1 - beta2) * g^2
//   w' = w - learning_rate * (m' / (1 - beta1^t)) / (sqrt(v' / (1 - beta2^t)) + epsilon)
struct Adam {
  static constexpr char kName[] = "adam";
  static constexpr char kDescription[] = "Adam with bias correction and L2 weight decay";
  static constexpr bool kTakesGradient = true;
  static constexpr char kForm[] = "x,x,x,x->x,x,x";
  static constexpr int64_t kOperations = 14;
  template <class Self, class Visitor>
  static void VisitFields(Self&, Visitor&&) {}
  friend bool operator==(const Adam&, const Adam&) = default;
};
std::vector<InPlacePair> InPlace(const Adam&, Pass);

// Statistics that batch normalisation keeps for evaluation.
struct RunningFields {
  int64_t count = 1;      // elements of one channel in the whole batch
  double momentum = 0.1;  // the weight of the new value (PyTorch's; ONNX states that of the old)

  template <class Self, class Visitor>
  static void VisitFields(Self& self, Visitor&& visit) {
    visit("count", self.count);
    visit("momentum", self.momentum);
  }
  absl::Status Check() const;
  friend bool operator==(const RunningFields&, const RunningFields&) = default;
};

template <class A>
  requires std::derived_from<A, RunningFields>
absl::Status Rebatch(A& running, const Shape&, const BatchChange& batch) {
  return RebatchCount(running.count, batch);
}

// running mean, s1 -> (1 - momentum) * running + momentum * s1 / count.
struct RunningMean : RunningFields {
  static constexpr char kName[] = "running_mean";
  static constexpr char kDescription[] = "moving average of batch normalisation's mean";
  static constexpr Statistic kStatistic = Statistic::kMean;
  static constexpr char kForm[] = "x,x2->x";
  static constexpr int64_t kOperations = 4;
  friend bool operator==(const RunningMean&, const RunningMean&) = default;
};
std::vector<InPlacePair> InPlace(const RunningMean&, Pass);

// running variance, s1, s2 -> (1 - momentum) * running + momentum * var * count / (count - 1), the
// unbiased variance (with one element: the biased).
struct RunningVariance : RunningFields {
  static constexpr char kName[] = "running_variance";
  static constexpr char kDescription[] = "moving average of batch normalisation's variance";
  static constexpr Statistic kStatistic = Statistic::kVariance;
  static constexpr char kForm[] = "x,x2,x2->x";
  static constexpr int64_t kOperations = 8;
  friend bool operator==(const RunningVariance&, const RunningVariance&) = default;
};
std::vector<InPlacePair> InPlace(const RunningVariance&, Pass);

static_assert(OperatorAttrs<Sgd>);
static_assert(OperatorAttrs<Adam>);
static_assert(OperatorAttrs<RunningMean>);
static_assert(OperatorAttrs<RunningVariance>);

}  // namespace partita
