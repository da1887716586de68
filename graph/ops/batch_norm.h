#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <vector>

#include "graph/ops/attribute_checks.h"
#include "graph/ops/fields.h"
#include "graph/ops/tensor_form.h"

// Batch normalisation of x[n, c, ...] over everything but c, in pieces, none of which needs a sum
// over a split dimension inside:
//
//   s1, s2 = batch_moments(x)                              sums of x and x^2, in double
//   y      = batch_normalize(x, s1, s2, gamma, beta)       (x - mean) * rstd * gamma + beta
//   t2, t1 = batch_norm_grad_moments(x, s1, s2, dy)        sums of dy * xhat and of dy
//   dx     = batch_norm_grad_apply(x, s1, s2, gamma, dy, t1, t2)
//          = gamma * rstd * (dy - t1 / count - xhat * t2 / count)
//
// mean = s1 / count, var = s2 / count - mean^2 (biased), rstd = 1 / sqrt(var + epsilon), xhat =
// (x - mean) * rstd. t2 is the gradient of gamma, t1 that of beta. `count` is the number of
// elements of one channel in the whole batch, so it is an attribute: a part cannot know it.

namespace partita {

struct BatchMoments {
  static constexpr char kName[] = "batch_moments";
  static constexpr char kDescription[] = "sums of x and of x^2 for each channel";
  static constexpr bool kOneFormat = true;
  static constexpr char kForm[] = "x->c2,c2";
  static constexpr int64_t kOperations = 3;
  template <class Self, class Visitor>
  static void VisitFields(Self&, Visitor&&) {}
  friend bool operator==(const BatchMoments&, const BatchMoments&) = default;
};

// Attributes common to the operators into which one batch normalisation is decomposed.
struct BatchNormFields {
  int64_t count = 1;      // elements of one channel in the whole batch
  double epsilon = 1e-5;  // added to the variance

  template <class Self, class Visitor>
  static void VisitFields(Self& self, Visitor&& visit) {
    visit("count", self.count);
    visit("epsilon", self.epsilon);
  }
  absl::Status Check() const;
  friend bool operator==(const BatchNormFields&, const BatchNormFields&) = default;
};

template <class A>
  requires std::derived_from<A, BatchNormFields>
absl::Status Rebatch(A& norm, const Shape&, const BatchChange& batch) {
  return RebatchCount(norm.count, batch);
}

struct BatchNormalize : BatchNormFields {
  static constexpr char kName[] = "batch_normalize";
  static constexpr char kDescription[] = "normalise by the statistics of the batch, scale, shift";
  static constexpr bool kTakesEpilogue = true;
  static constexpr std::array<absl::string_view, 1> kTakesIn = {"batch_moments"};
  static constexpr bool kOneFormat = true;
  static constexpr char kForm[] = "x,c2,c2,c,c->x";
  static constexpr int64_t kOperations = 2;
  friend bool operator==(const BatchNormalize&, const BatchNormalize&) = default;
};
std::vector<InPlacePair> InPlace(const BatchNormalize&, Pass);

// Results in the order t2, t1, as the gradients of gamma and beta.
struct BatchNormGradMoments : BatchNormFields {
  static constexpr char kName[] = "batch_norm_grad_moments";
  static constexpr char kDescription[] = "sums of dy * xhat and of dy for each channel";
  static constexpr bool kOneFormat = true;
  static constexpr char kForm[] = "x,c2,c2,x->c,c";
  static constexpr int64_t kOperations = 4;
  friend bool operator==(const BatchNormGradMoments&, const BatchNormGradMoments&) = default;
};

struct BatchNormGradApply : BatchNormFields {
  static constexpr char kName[] = "batch_norm_grad_apply";
  static constexpr char kDescription[] = "the gradient of batch normalisation's input";
  static constexpr std::array<absl::string_view, 1> kTakesIn = {"batch_norm_grad_moments"};
  static constexpr bool kOneFormat = true;
  static constexpr char kForm[] = "x,c2,c2,c,x,c,c->x";
  static constexpr int64_t kOperations = 4;
  friend bool operator==(const BatchNormGradApply&, const BatchNormGradApply&) = default;
};
std::vector<InPlacePair> InPlace(const BatchNormGradApply&, Pass);

// Batch normalisation by statistics that do not depend on the batch (frozen, or in evaluation):
// x, mean, variance, gamma, beta -> (x - mean) / sqrt(variance + epsilon) * gamma + beta.
struct AffineNormalize {
  static constexpr char kName[] = "affine_normalize";
  static constexpr char kDescription[] = "normalise by fixed statistics, scale, shift";
  static constexpr char kForm[] = "x*,c,c,c*,c*->x";
  static constexpr int64_t kOperations = 2;
  double epsilon = 1e-5;
  template <class Self, class Visitor>
  static void VisitFields(Self& self, Visitor&& visit) {
    visit("epsilon", self.epsilon);
  }
  absl::Status Check() const;
  friend bool operator==(const AffineNormalize&, const AffineNormalize&) = default;
};
// Reads of the gradient of x: variance, gamma; of gamma: x, mean, variance; of beta: nothing.
GradientReads ReadsForGradient(const AffineNormalize&, int operand);
std::vector<InPlacePair> InPlace(const AffineNormalize&, Pass pass);

FixedForm<AffineNormalize> FixedFormOf(const BatchNormalize& norm);

// The sums that dx needs are the gradients of gamma and beta.
template <class Attrs>
std::vector<GradientPiece<Attrs>> GradientPieces(const BatchNormalize& norm) {
  using enum GradientTensor::Kind;
  const BatchNormFields& fields = norm;
  const GradientTensor x{kOperand, 0}, s1{kOperand, 1}, s2{kOperand, 2}, gamma{kOperand, 3};
  const GradientTensor dy{kResultGradient, 0}, t2{kEarlier, 0}, t1{kEarlier, 1};
  return {{"grad_moments", BatchNormGradMoments{fields}, {x, s1, s2, dy}, {3, 4}},
          {"grad_apply", BatchNormGradApply{fields}, {x, s1, s2, gamma, dy, t1, t2}, {0}}};
}

static_assert(OperatorAttrs<BatchMoments>);
static_assert(OperatorAttrs<BatchNormalize>);
static_assert(OperatorAttrs<BatchNormGradMoments>);
static_assert(OperatorAttrs<BatchNormGradApply>);
static_assert(OperatorAttrs<AffineNormalize>);

}  // namespace partita
