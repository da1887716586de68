#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/ops/fields.h"
#include "graph/ops/tensor_form.h"
#include "graph/ops/unary_function.h"

namespace partita {

// A smooth function of one number, element by element, all as in PyTorch:
//
//   erf         2 / sqrt(pi) * integral of exp(-t^2) from 0 to x
//   gelu        x * (1 + erf(x / sqrt(2))) / 2 (Hendrycks, Gimpel 2016)
//   gelu_tanh   x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) / 2, its approximation
//   hard_swish  x * clamp(x + 3, 0, 6) / 6 (Howard et al., "Searching for MobileNetV3", ICCV 2019);
//               the gradient is 0 for x <= -3, 1 for x >= 3 and (2 x + 3) / 6 between
//   sigmoid     1 / (1 + exp(-x))
//   tanh        (exp(x) - exp(-x)) / (exp(x) + exp(-x))
//
// NaN stays NaN; minus infinity becomes it where it is multiplied by 0 (gelu, hard_swish). The
// gradients of sigmoid and tanh read the result, the others the operand.
struct Unary {
  static constexpr char kName[] = "unary";
  static constexpr char kDescription[] =
      "erf, gelu, gelu_tanh, hard_swish, sigmoid or tanh, element by element";
  static constexpr bool kKeepsNotFinite = true;
  static constexpr bool kOneFormat = true;
  static constexpr char kForm[] = "x*->x";
  static constexpr int64_t kOperations = 5;
  std::string function = "sigmoid";
  template <class Self, class Visitor>
  static void VisitFields(Self& self, Visitor&& visit) {
    visit("function", self.function);
  }
  absl::Status Check() const;
  friend bool operator==(const Unary&, const Unary&) = default;
};
GradientReads ReadsForGradient(const Unary& unary, int operand);
std::vector<InPlacePair> InPlace(const Unary& unary, Pass pass);

// The function that attributes name; they passed Check().
UnaryFunction FunctionOf(const Unary& unary);

static_assert(OperatorAttrs<Unary>);

}  // namespace partita
