#include "graph/ops/batch_norm.h"

#include "absl/strings/str_cat.h"

namespace partita {
namespace {

absl::Status CheckEpsilon(double epsilon) {
  if (epsilon >= 0 && epsilon < 1e30) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("batch normalisation: epsilon ", epsilon, " should be a number >= 0"));
}

}  // namespace

absl::Status BatchNormFields::Check() const {
  if (count < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("batch normalisation over ", count, " elements; wanted at least 1"));
  }
  return CheckEpsilon(epsilon);
}

absl::Status AffineNormalize::Check() const { return CheckEpsilon(epsilon); }

std::vector<InPlacePair> InPlace(const BatchNormalize&, Pass) { return {{0, 0}}; }

std::vector<InPlacePair> InPlace(const BatchNormGradApply&, Pass) { return {{4, 0}, {0, 0}}; }

GradientReads ReadsForGradient(const AffineNormalize&, int operand) {
  if (operand == 0) return {.operands = {2, 3}};
  if (operand == 3) return {.operands = {0, 1, 2}};
  return {};
}

std::vector<InPlacePair> InPlace(const AffineNormalize&, Pass pass) {
  if (pass.is_forward()) return {{0, 0}};
  if (pass.gradient == 0) return {{2, 0}};  // variance, gamma, dy -> dx
  return {};
}

FixedForm<AffineNormalize> FixedFormOf(const BatchNormalize& norm) {
  return {AffineNormalize{.epsilon = norm.epsilon},
          {{0}, {-1, Statistic::kMean}, {-1, Statistic::kVariance}, {3}, {4}}};
}

}  // namespace partita
