#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "graph/ops/fields.h"
#include "graph/ops/tensor_form.h"

// The mean cross-entropy (natural logarithm) of softmax(x) against int32 labels, over all rows of
// x[rows..., classes], in pieces; m = row_max(x) and s = sum_exp(x, m) as for softmax. Labels lie
// in [0, classes): loaders check them.

namespace partita {

// Attributes common to the operators into which a cross-entropy is decomposed.
struct CrossEntropyFields {
  int64_t rows = 1;  // rows of the whole batch: the divisor of the mean

  template <class Self, class Visitor>
  static void VisitFields(Self& self, Visitor&& visit) {
    visit("rows", self.rows);
  }
  absl::Status Check() const;
  friend bool operator==(const CrossEntropyFields&, const CrossEntropyFields&) = default;
};

// x, labels, m, s -> sum over rows of (log(s) + m - x[label]) / rows.
struct CrossEntropy : CrossEntropyFields {
  static constexpr char kName[] = "cross_entropy";
  static constexpr char kDescription[] = "mean cross-entropy of softmax(x) against labels";
  static constexpr std::array<absl::string_view, 1> kTakesIn = {"sum_exp"};
  static constexpr char kForm[] = "x,l,r!,r!->s";
  static constexpr int64_t kOperations = 1;
  friend bool operator==(const CrossEntropy&, const CrossEntropy&) = default;
};

// x, labels, m, s, gradient of the loss -> gradient of x.
struct CrossEntropyGrad : CrossEntropyFields {
  static constexpr char kName[] = "cross_entropy_grad";
  static constexpr char kDescription[] = "the gradient of cross-entropy's logits";
  static constexpr char kForm[] = "x,l,r,r,s->x";
  static constexpr int64_t kOperations = 4;
  friend bool operator==(const CrossEntropyGrad&, const CrossEntropyGrad&) = default;
};
std::vector<InPlacePair> InPlace(const CrossEntropyGrad&, Pass);

template <class Attrs>
std::vector<GradientPiece<Attrs>> GradientPieces(const CrossEntropy& loss) {
  using enum GradientTensor::Kind;
  const CrossEntropyFields& fields = loss;
  return {{"grad",
           CrossEntropyGrad{fields},
           {{kOperand, 0}, {kOperand, 1}, {kOperand, 2}, {kOperand, 3}, {kResultGradient, 0}},
           {0}}};
}

// x, labels, m -> the number of rows whose label has the largest logit (ties count).
struct CountCorrect {
  static constexpr char kName[] = "count_correct";
  static constexpr char kDescription[] = "number of rows whose label has the largest logit";
  static constexpr char kForm[] = "x,l,r->s";
  static constexpr int64_t kOperations = 1;
  template <class Self, class Visitor>
  static void VisitFields(Self&, Visitor&&) {}
  friend bool operator==(const CountCorrect&, const CountCorrect&) = default;
};

// x -> sum of x^2: a loss that stays an integer on integers, for proofs by equality of bits.
struct SumOfSquares {
  static constexpr char kName[] = "sum_of_squares";
  static constexpr char kDescription[] = "sum of x^2 over all elements";
  static constexpr bool kExactOnIntegers = true;
  static constexpr char kForm[] = "x*->s";
  static constexpr int64_t kOperations = 2;
  template <class Self, class Visitor>
  static void VisitFields(Self&, Visitor&&) {}
  friend bool operator==(const SumOfSquares&, const SumOfSquares&) = default;
};
GradientReads ReadsForGradient(const SumOfSquares&, int operand);
std::vector<InPlacePair> InPlace(const SumOfSquares&, Pass pass);

static_assert(OperatorAttrs<CrossEntropy>);
static_assert(OperatorAttrs<CrossEntropyGrad>);
static_assert(OperatorAttrs<CountCorrect>);
static_assert(OperatorAttrs<SumOfSquares>);

}  // namespace partita
