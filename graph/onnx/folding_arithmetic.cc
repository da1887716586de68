// Arithmetic on constants, with NumPy's broadcasting. Integers wrap around, as in ONNX.

#include <cmath>

#include "absl/strings/str_cat.h"
#include "graph/onnx/operators.h"
#include "graph/onnx/shape_rules.h"
#include "graph/support/status_macros.h"

namespace partita::onnx {
namespace {

using Inputs = std::span<const Constant* const>;

int64_t Wrapped(uint64_t bits) { return static_cast<int64_t>(bits); }

template <class OnReals, class OnInts>
absl::StatusOr<Constant> Binary(Inputs inputs, OnReals on_reals, OnInts on_ints) {
  if (inputs.size() != 2 || inputs[0] == nullptr || inputs[1] == nullptr) {
    return absl::InvalidArgumentError("wanted two inputs");
  }
  const Constant& a = *inputs[0];
  const Constant& b = *inputs[1];
  if (a.type != b.type) {
    return absl::InvalidArgumentError(
        absl::StrCat("its inputs are of ", NameOf(a.type), " and ", NameOf(b.type)));
  }
  Constant result{.type = a.type};
  ASSIGN_OR_RETURN(result.shape, BroadcastShape(a.shape, b.shape));
  ASSIGN_OR_RETURN(const int64_t volume, CheckedVolume(result.shape));
  if (volume > kMaxConstantElements) {
    return absl::InvalidArgumentError("its constant result is too large");
  }
  const BroadcastIndex in_a(a.shape, result.shape);
  const BroadcastIndex in_b(b.shape, result.shape);
  for (int64_t i = 0; i < volume; ++i) {
    const auto p = static_cast<size_t>(in_a.Of(i));
    const auto q = static_cast<size_t>(in_b.Of(i));
    if (a.floating()) {
      result.reals.push_back(on_reals(a.reals[p], b.reals[q]));
    } else {
      ASSIGN_OR_RETURN(const int64_t value, on_ints(a.ints[p], b.ints[q]));
      result.ints.push_back(value);
    }
  }
  return result;
}

template <class Function>
absl::StatusOr<Constant> OnReals(Inputs inputs, Function function) {
  if (inputs.empty() || inputs[0] == nullptr || !inputs[0]->floating()) {
    return absl::InvalidArgumentError("wanted one input of a floating type");
  }
  Constant result = *inputs[0];
  for (double& value : result.reals) value = function(value);
  return result;
}

absl::StatusOr<Constant> CastTo(const Constant& c, ElementType type) {
  if (type == ElementType::kString || SizeOf(type) == 0) {
    return absl::UnimplementedError(absl::StrCat("a cast to ", NameOf(type)));
  }
  Constant result{.type = type, .shape = c.shape};
  for (size_t i = 0; i < static_cast<size_t>(c.size()); ++i) {
    if (IsFloating(type)) {
      result.reals.push_back(type == ElementType::kFloat ? static_cast<float>(c.RealAt(i))
                                                         : c.RealAt(i));
    } else if (type == ElementType::kBool) {
      result.ints.push_back(c.floating() ? c.reals[i] != 0 : c.ints[i] != 0);
    } else {
      result.ints.push_back(c.IntAt(i));
    }
  }
  return result;
}

}  // namespace

absl::StatusOr<Constant> FoldAdd(NodeImport&, Inputs inputs) {
  return Binary(
      inputs, [](double a, double b) { return a + b; },
      [](int64_t a, int64_t b) -> absl::StatusOr<int64_t> {
        return Wrapped(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
      });
}

absl::StatusOr<Constant> FoldSub(NodeImport&, Inputs inputs) {
  return Binary(
      inputs, [](double a, double b) { return a - b; },
      [](int64_t a, int64_t b) -> absl::StatusOr<int64_t> {
        return Wrapped(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
      });
}

absl::StatusOr<Constant> FoldMul(NodeImport&, Inputs inputs) {
  return Binary(
      inputs, [](double a, double b) { return a * b; },
      [](int64_t a, int64_t b) -> absl::StatusOr<int64_t> {
        return Wrapped(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
      });
}

absl::StatusOr<Constant> FoldDiv(NodeImport&, Inputs inputs) {
  return Binary(
      inputs, [](double a, double b) { return a / b; },
      [](int64_t a, int64_t b) -> absl::StatusOr<int64_t> {
        if (b == 0) return absl::InvalidArgumentError("it divides an integer by 0");
        if (b == -1) return Wrapped(-static_cast<uint64_t>(a));
        return a / b;
      });
}

absl::StatusOr<Constant> FoldSqrt(NodeImport&, Inputs inputs) {
  return OnReals(inputs, [](double v) { return std::sqrt(v); });
}

absl::StatusOr<Constant> FoldFloor(NodeImport&, Inputs inputs) {
  return OnReals(inputs, [](double v) { return std::floor(v); });
}

absl::StatusOr<Constant> FoldNeg(NodeImport&, Inputs inputs) {
  if (inputs.empty() || inputs[0] == nullptr) return absl::InvalidArgumentError("wanted one input");
  Constant result = *inputs[0];
  for (double& value : result.reals) value = -value;
  for (int64_t& value : result.ints) value = Wrapped(-static_cast<uint64_t>(value));
  return result;
}

absl::StatusOr<Constant> FoldCast(NodeImport& node, Inputs inputs) {
  if (inputs.empty() || inputs[0] == nullptr) return absl::InvalidArgumentError("wanted one input");
  return CastTo(*inputs[0], static_cast<ElementType>(node.attributes().Int("to", 0)));
}

absl::StatusOr<Constant> FoldCastLike(NodeImport&, Inputs inputs) {
  if (inputs.size() != 2 || inputs[0] == nullptr || inputs[1] == nullptr) {
    return absl::InvalidArgumentError("wanted two inputs");
  }
  return CastTo(*inputs[0], inputs[1]->type);
}

}  // namespace partita::onnx
