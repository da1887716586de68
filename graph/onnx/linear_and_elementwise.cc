// Matrix products and element-by-element arithmetic.

#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "graph/onnx/operators.h"
#include "graph/onnx/shape_rules.h"
#include "graph/support/status_macros.h"

namespace partita::onnx {
namespace {

Initializer FanIn(int64_t fan_in) {
  return {.kind = Initializer::Kind::kUniformFanIn, .fan_in = std::max<int64_t>(fan_in, 1)};
}

// The operand as a matrix [rows, in], or [in, rows] if `transposed`.
absl::StatusOr<TensorId> MatrixOperand(NodeImport& node, int i, bool transposed) {
  ASSIGN_OR_RETURN(const TensorId x, node.Tensor(i));
  if (!transposed) return x;
  return node.Add(Transpose{.perm = {1, 0}}, {x}, "transposed");
}

struct Product {
  TensorId x;
  int weight = 1;           // the node's input
  bool transposed = false;  // the weight is [out, in]
  int bias = -1;            // the node's input, or -1
  std::string suffix;
};

absl::StatusOr<TensorId> AddProduct(NodeImport& node, const Product& product) {
  ASSIGN_OR_RETURN(const Shape read, node.ShapeOf(product.weight));
  const Value& value = node.Input(product.weight);
  // The file's own matrix may be read the other way round.
  const bool flipped = value.kind == Value::Kind::kStored && value.transposed;
  const int64_t fan_in = product.transposed ? read[1] : read[0];
  std::vector<TensorId> inputs = {product.x};
  if (flipped) {
    ASSIGN_OR_RETURN(inputs.emplace_back(), node.WeightAsStored(product.weight, FanIn(fan_in)));
  } else {
    ASSIGN_OR_RETURN(inputs.emplace_back(), node.Weight(product.weight, FanIn(fan_in)));
  }
  if (product.bias >= 0) {
    ASSIGN_OR_RETURN(inputs.emplace_back(), node.Weight(product.bias, FanIn(fan_in)));
  }
  return node.Add(MatMul{.transposed = product.transposed != flipped}, std::move(inputs),
                  product.suffix);
}

// A constant that stands for one number whatever it is combined with.
bool IsScalar(NodeImport& node, int i, size_t rank) {
  return node.IsConstant(i) && node.Input(i).constant->size() == 1 &&
         node.Input(i).constant->shape.size() <= rank;
}

absl::Status SetScaled(NodeImport& node, int tensor, double alpha, double beta) {
  if (!std::isfinite(alpha) || !std::isfinite(beta)) {
    return absl::InvalidArgumentError("its constant is not a finite number");
  }
  ASSIGN_OR_RETURN(TensorId y, node.Tensor(tensor));
  if (alpha != 1 || beta != 0) {
    ASSIGN_OR_RETURN(y, node.Add(Scale{.alpha = alpha, .beta = beta}, {y}));
  }
  node.SetTensor(0, y);
  return absl::OkStatus();
}

// One of add, sub, mul, div. A single number becomes part of a scale operator.
absl::Status ImportArithmetic(NodeImport& node, const std::string& function) {
  ASSIGN_OR_RETURN(const Shape a, node.ShapeOf(0));
  ASSIGN_OR_RETURN(const Shape b, node.ShapeOf(1));
  if (IsScalar(node, 1, a.size())) {
    const double c = node.Input(1).constant->RealAt(0);
    if (function == "add") return SetScaled(node, 0, 1, c);
    if (function == "sub") return SetScaled(node, 0, 1, -c);
    if (function == "mul") return SetScaled(node, 0, c, 0);
    return SetScaled(node, 0, 1 / c, 0);
  }
  if (IsScalar(node, 0, b.size()) && function != "div") {
    const double c = node.Input(0).constant->RealAt(0);
    if (function == "add") return SetScaled(node, 1, 1, c);
    if (function == "sub") return SetScaled(node, 1, -1, c);
    return SetScaled(node, 1, c, 0);
  }
  if (function == "div") {
    return absl::UnimplementedError("division by anything but one constant number");
  }
  const Initializer start{.value = function == "mul" ? 1.0 : 0.0};
  ASSIGN_OR_RETURN(const TensorId p, node.Tensor(0, start));
  ASSIGN_OR_RETURN(const TensorId q, node.Tensor(1, start));
  ASSIGN_OR_RETURN(const TensorId y, node.Add(Binary{.function = function}, {p, q}));
  node.SetTensor(0, y);
  return absl::OkStatus();
}

}  // namespace

absl::Status ImportGemm(NodeImport& node) {
  Attributes& attributes = node.attributes();
  const double alpha = attributes.Float("alpha", 1);
  const double beta = attributes.Float("beta", 1);
  const bool trans_a = attributes.Int("transA", 0) != 0;
  const bool trans_b = attributes.Int("transB", 0) != 0;
  RETURN_IF_ERROR(attributes.status());
  ASSIGN_OR_RETURN(const Shape a, node.ShapeOf(0));
  ASSIGN_OR_RETURN(const Shape b, node.ShapeOf(1));
  if (a.size() != 2 || b.size() != 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("it wants two matrices; found ", ToString(a), " and ", ToString(b)));
  }
  ASSIGN_OR_RETURN(const TensorId x, MatrixOperand(node, 0, trans_a));
  const int64_t out = trans_b ? b[0] : b[1];
  Product product{.x = x, .transposed = trans_b};
  const bool has_bias = node.Has(2) && beta != 0;
  Shape c;
  if (has_bias) {
    ASSIGN_OR_RETURN(c, node.ShapeOf(2));
  }
  if (alpha == 1 && (!has_bias || (beta == 1 && c == Shape{out}))) {
    if (has_bias) product.bias = 2;
    ASSIGN_OR_RETURN(const TensorId y, AddProduct(node, product));
    node.SetTensor(0, y);
    return absl::OkStatus();
  }
  // alpha * product + beta * c in separate operators.
  product.suffix = "product";
  ASSIGN_OR_RETURN(TensorId y, AddProduct(node, product));
  if (alpha != 1) {
    ASSIGN_OR_RETURN(y, node.Add(Scale{.alpha = alpha}, {y}, has_bias ? "alpha" : ""));
  }
  if (has_bias) {
    ASSIGN_OR_RETURN(TensorId bias, node.Tensor(2));
    if (beta != 1) {
      ASSIGN_OR_RETURN(bias, node.Add(Scale{.alpha = beta}, {bias}, "beta"));
    }
    ASSIGN_OR_RETURN(y, node.Add(Binary{.function = "add"}, {y, bias}));
  }
  node.SetTensor(0, y);
  return absl::OkStatus();
}

absl::Status ImportMatMul(NodeImport& node) {
  ASSIGN_OR_RETURN(const Shape a, node.ShapeOf(0));
  ASSIGN_OR_RETURN(const Shape b, node.ShapeOf(1));
  if (a.size() > 2 && a.size() == b.size() &&
      std::equal(a.begin(), a.end() - 2, b.begin(), b.end() - 2)) {
    ASSIGN_OR_RETURN(const TensorId p, node.Tensor(0));
    ASSIGN_OR_RETURN(const TensorId q, node.Tensor(1));
    ASSIGN_OR_RETURN(const TensorId y, node.Add(BatchMatMul{}, {p, q}));
    node.SetTensor(0, y);
    return absl::OkStatus();
  }
  if (a.size() < 2 || b.size() != 2) {
    return absl::UnimplementedError(
        absl::StrCat("the product of ", ToString(a), " and ", ToString(b),
                     " (the second factor must be a matrix, or as many as the first has)"));
  }
  ASSIGN_OR_RETURN(const TensorId x, node.Tensor(0));
  ASSIGN_OR_RETURN(const TensorId y, AddProduct(node, {.x = x}));
  node.SetTensor(0, y);
  return absl::OkStatus();
}

absl::Status ImportRelu(NodeImport& node) {
  ASSIGN_OR_RETURN(const TensorId x, node.Tensor(0));
  ASSIGN_OR_RETURN(const TensorId y, node.Add(Relu{}, {x}));
  node.SetTensor(0, y);
  return absl::OkStatus();
}

absl::Status ImportUnary(NodeImport& node) {
  std::string function = node.node().op_type();
  if (function == "HardSwish") {
    function = "hard_swish";
  } else {
    absl::AsciiStrToLower(&function);
  }
  if (function == "gelu") {
    const std::string approximate = node.attributes().String("approximate", "none");
    RETURN_IF_ERROR(node.attributes().status());
    if (approximate == "tanh") {
      function = "gelu_tanh";
    } else if (approximate != "none") {
      return absl::InvalidArgumentError(
          absl::StrCat("its approximation is '", approximate, "'; wanted none or tanh"));
    }
  }
  ASSIGN_OR_RETURN(const TensorId x, node.Tensor(0));
  ASSIGN_OR_RETURN(const TensorId y, node.Add(Unary{.function = function}, {x}));
  node.SetTensor(0, y);
  return absl::OkStatus();
}

absl::Status ImportAdd(NodeImport& node) { return ImportArithmetic(node, "add"); }
absl::Status ImportSub(NodeImport& node) { return ImportArithmetic(node, "sub"); }
absl::Status ImportMul(NodeImport& node) { return ImportArithmetic(node, "mul"); }
absl::Status ImportDiv(NodeImport& node) { return ImportArithmetic(node, "div"); }

}  // namespace partita::onnx
