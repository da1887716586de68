#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "graph/ops/fields.h"
#include "graph/ops/tensor_form.h"

// Softmax and its logarithm over the last dimension, in pieces, none of which needs a sum over a
// split dimension inside. With p = exp(x - m) / s:
//
//   m  = row_max(x)                      parts that split a row combine by max
//   s  = sum_exp(x, m)                   sum of exp(x - m)
//   y  = softmax_apply(x, m, s)          p
//   t  = softmax_dot(x, m, s, dy)        sum of p * dy
//   dx = softmax_grad(x, m, s, dy, t)    p * (dy - t)
//   y  = log_softmax_apply(x, m, s)      x - m - log(s)
//   t  = row_sum(dy)
//   dx = log_softmax_grad(x, m, s, dy, t)  dy - p * t

namespace partita {

// A row without attributes.
struct NoFields {
  template <class Self, class Visitor>
  static void VisitFields(Self&, Visitor&&) {}
  friend bool operator==(const NoFields&, const NoFields&) = default;
};

struct RowMax : NoFields {
  static constexpr char kName[] = "row_max";
  static constexpr char kDescription[] = "largest element of each row";
  static constexpr char kForm[] = "x->r^";
  static constexpr int64_t kOperations = 1;
  friend bool operator==(const RowMax&, const RowMax&) = default;
};

struct RowSum : NoFields {
  static constexpr char kName[] = "row_sum";
  static constexpr char kDescription[] = "sum of each row";
  static constexpr char kForm[] = "x->r";
  static constexpr int64_t kOperations = 1;
  friend bool operator==(const RowSum&, const RowSum&) = default;
};

struct SumExp : NoFields {
  static constexpr char kName[] = "sum_exp";
  static constexpr char kDescription[] = "sum of exp(x - m) over each row";
  static constexpr std::array<absl::string_view, 1> kTakesIn = {"row_max"};
  static constexpr char kForm[] = "x,r->r";
  static constexpr int64_t kOperations = 3;
  friend bool operator==(const SumExp&, const SumExp&) = default;
};

struct SoftmaxApply : NoFields {
  static constexpr char kName[] = "softmax_apply";
  static constexpr char kDescription[] = "exp(x - m) / s";
  static constexpr std::array<absl::string_view, 1> kTakesIn = {"sum_exp"};
  static constexpr bool kInCrossEntropy = true;
  static constexpr char kForm[] = "x,r,r->x";
  static constexpr int64_t kOperations = 3;
  friend bool operator==(const SoftmaxApply&, const SoftmaxApply&) = default;
};
std::vector<InPlacePair> InPlace(const SoftmaxApply&, Pass);

struct SoftmaxDot : NoFields {
  static constexpr char kName[] = "softmax_dot";
  static constexpr char kDescription[] = "sum of softmax(x) * dy over each row";
  static constexpr char kForm[] = "x,r,r,x->r";
  static constexpr int64_t kOperations = 4;
  friend bool operator==(const SoftmaxDot&, const SoftmaxDot&) = default;
};

struct SoftmaxGrad : NoFields {
  static constexpr char kName[] = "softmax_grad";
  static constexpr char kDescription[] = "the gradient of softmax's input";
  static constexpr std::array<absl::string_view, 1> kTakesIn = {"softmax_dot"};
  static constexpr char kForm[] = "x,r,r,x,r->x";
  static constexpr int64_t kOperations = 5;
  friend bool operator==(const SoftmaxGrad&, const SoftmaxGrad&) = default;
};
std::vector<InPlacePair> InPlace(const SoftmaxGrad&, Pass);

struct LogSoftmaxApply : NoFields {
  static constexpr char kName[] = "log_softmax_apply";
  static constexpr char kDescription[] = "x - m - log(s)";
  static constexpr std::array<absl::string_view, 1> kTakesIn = {"sum_exp"};
  static constexpr bool kInCrossEntropy = true;
  static constexpr char kForm[] = "x,r,r->x";
  static constexpr int64_t kOperations = 2;
  friend bool operator==(const LogSoftmaxApply&, const LogSoftmaxApply&) = default;
};
std::vector<InPlacePair> InPlace(const LogSoftmaxApply&, Pass);

struct LogSoftmaxGrad : NoFields {
  static constexpr char kName[] = "log_softmax_grad";
  static constexpr char kDescription[] = "the gradient of log-softmax's input";
  static constexpr std::array<absl::string_view, 1> kTakesIn = {"row_sum"};
  static constexpr char kForm[] = "x,r,r,x,r->x";
  static constexpr int64_t kOperations = 5;
  friend bool operator==(const LogSoftmaxGrad&, const LogSoftmaxGrad&) = default;
};
std::vector<InPlacePair> InPlace(const LogSoftmaxGrad&, Pass);

template <class Attrs>
std::vector<GradientPiece<Attrs>> GradientPieces(const SoftmaxApply&) {
  using enum GradientTensor::Kind;
  const GradientTensor x{kOperand, 0}, m{kOperand, 1}, s{kOperand, 2}, dy{kResultGradient, 0};
  return {{"dot", SoftmaxDot{}, {x, m, s, dy}},
          {"grad", SoftmaxGrad{}, {x, m, s, dy, {kEarlier, 0}}, {0}}};
}

template <class Attrs>
std::vector<GradientPiece<Attrs>> GradientPieces(const LogSoftmaxApply&) {
  using enum GradientTensor::Kind;
  const GradientTensor x{kOperand, 0}, m{kOperand, 1}, s{kOperand, 2}, dy{kResultGradient, 0};
  return {{"dot", RowSum{}, {dy}}, {"grad", LogSoftmaxGrad{}, {x, m, s, dy, {kEarlier, 0}}, {0}}};
}

static_assert(OperatorAttrs<RowMax>);
static_assert(OperatorAttrs<RowSum>);
static_assert(OperatorAttrs<SumExp>);
static_assert(OperatorAttrs<SoftmaxApply>);
static_assert(OperatorAttrs<SoftmaxDot>);
static_assert(OperatorAttrs<SoftmaxGrad>);
static_assert(OperatorAttrs<LogSoftmaxApply>);
static_assert(OperatorAttrs<LogSoftmaxGrad>);

}  // namespace partita
