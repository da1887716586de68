#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "graph/ops/fields.h"
#include "graph/ops/tensor_form.h"
#include "graph/support/fingerprint.h"
#include "graph/support/philox.h"

namespace partita {

// x -> x * mask / (1 - ratio), where the mask is 0 with probability `ratio` and otherwise 1. The
// mask is not stored: forward and gradient compute it from the seed, the step, the operator's key
// (the forward operator's, in both) and the global row-major index of each element, so that it is
// the same in every backend and for every split.
struct Dropout {
  static constexpr char kName[] = "dropout";
  static constexpr char kDescription[] = "drops elements at random and scales the rest";
  static constexpr bool kKeepsZeros = true;
  static constexpr bool kKeepsNotFinite = true;
  static constexpr bool kIdentityInEvaluation = true;
  static constexpr char kForm[] = "x*->x";
  static constexpr int64_t kOperations = 12;
  double ratio = 0.5;
  template <class Self, class Visitor>
  static void VisitFields(Self& self, Visitor&& visit) {
    visit("ratio", self.ratio);
  }
  absl::Status Check() const;
  friend bool operator==(const Dropout&, const Dropout&) = default;
};
std::vector<InPlacePair> InPlace(const Dropout&, Pass);

// The mask of one dropout in one step: an element is kept where
// PhiloxWord(key, stream, index) >= threshold.
struct DropoutMask {
  uint64_t key;
  uint64_t stream;
  uint32_t threshold;

  DropoutMask(double ratio, uint64_t seed, int64_t step, uint64_t operator_key)
      : key(Mix64(seed + 0x9e3779b97f4a7c15u * (static_cast<uint64_t>(step) + 1))),
        stream(operator_key),
        threshold(static_cast<uint32_t>(ratio * 0x1p32)) {}
  bool Keeps(int64_t index) const {
    return PhiloxWord(key, stream, static_cast<uint64_t>(index)) >= threshold;
  }
  // Calls visit(k, keeps) for the elements first + k, 0 <= k < count. Four neighbours share a call
  // of the generator.
  template <class Visit>
  void ForEachOfRun(int64_t first, int64_t count, Visit&& visit) const {
    const auto begin = static_cast<uint64_t>(first), end = begin + static_cast<uint64_t>(count);
    for (uint64_t block = begin / 4; block * 4 < end; ++block) {
      const std::array<uint32_t, 4> words = PhiloxBlock(key, stream, block);
      const uint64_t from = std::max(begin, block * 4), to = std::min(end, block * 4 + 4);
      for (uint64_t i = from; i < to; ++i) {
        visit(static_cast<int64_t>(i - begin), words[i % 4] >= threshold);
      }
    }
  }
};

static_assert(OperatorAttrs<Dropout>);

}  // namespace partita
