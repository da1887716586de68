#include "graph/ops/batch_matmul.h"

#include "absl/strings/str_cat.h"
#include "graph/ops/attribute_checks.h"
#include "graph/ops/elementwise.h"
#include "graph/support/status_macros.h"

namespace partita {

absl::StatusOr<std::vector<TensorType>> InferResults(const BatchMatMul& matmul,
                                                     std::span<const TensorType> operands) {
  RETURN_IF_ERROR(CheckOperands("batch_matmul", operands, 2, 2));
  const Shape& a = operands[0].shape;
  const Shape& b = operands[1].shape;
  const size_t rank = a.size();
  bool fits = rank >= 2 && b.size() == rank;
  for (size_t d = 0; fits && d + 2 < rank; ++d) fits = a[d] == b[d];
  fits = fits && a[rank - 1] == b[matmul.transposed ? rank - 1 : rank - 2];
  if (!fits) {
    return absl::InvalidArgumentError(absl::StrCat("batch_matmul: ", ToString(a), " does not fit ",
                                                   matmul.transposed ? "the transposes of " : "",
                                                   ToString(b)));
  }
  Shape y = a;
  y[rank - 1] = b[matmul.transposed ? rank - 2 : rank - 1];
  return std::vector<TensorType>{{operands[0].dtype, y}};
}

ShardingRule MakeRule(const BatchMatMul& matmul, std::span<const TensorType> operands,
                      std::span<const TensorType> results) {
  const Shape& a = operands[0].shape;
  const int batch = static_cast<int>(a.size()) - 2;
  const int r = batch, i = batch + 1, o = batch + 2;
  ShardingRule rule;
  std::vector<DimMap> a_dims, b_dims, y_dims;
  for (int d = 0; d < batch; ++d) {
    rule.loops.push_back({DimensionName(d), a[static_cast<size_t>(d)]});
    for (auto* dims : {&a_dims, &b_dims, &y_dims}) dims->push_back(Along(d));
  }
  rule.loops.push_back({"r", a[static_cast<size_t>(batch)]});
  rule.loops.push_back({"i", a.back()});
  rule.loops.push_back({"o", results[0].shape.back()});
  const auto append = [](std::vector<DimMap>& dims, int row, int column) {
    dims.push_back(Along(row));
    dims.push_back(Along(column));
  };
  append(a_dims, r, i);
  append(b_dims, matmul.transposed ? o : i, matmul.transposed ? i : o);
  append(y_dims, r, o);
  rule.operands = {{.dims = a_dims}, {.dims = b_dims}};
  rule.results = {{.dims = y_dims}};
  return std::move(rule).Finished();
}

GradientReads ReadsForGradient(const BatchMatMul&, int operand) {
  return {.operands = {1 - operand}};
}

BatchMatMul Localize(const BatchMatMul& matmul, const PartView&) { return matmul; }

BatchMatMulExtents ExtentsOf(const BatchMatMul& matmul, Pass pass, const Shape& first,
                             const Shape& second, const Shape& result) {
  // The gradient of a reads b and dy, that of b reads a and dy.
  const Shape& y = pass.is_forward() ? result : second;
  const size_t rank = y.size();
  BatchMatMulExtents extents{.rows = y[rank - 2], .out = y[rank - 1]};
  for (size_t d = 0; d + 2 < rank; ++d) extents.products *= y[d];
  const bool reads_b = pass.gradient == 0;
  extents.in = first[reads_b && !matmul.transposed ? rank - 2 : rank - 1];
  return extents;
}

Work WorkOf(const BatchMatMul& matmul, Pass pass, std::span<const TensorType> inputs,
            std::span<const TensorType> outputs) {
  const BatchMatMulExtents z =
      ExtentsOf(matmul, pass, inputs[0].shape, inputs[1].shape, outputs[0].shape);
  return {.multiply_adds = z.products * z.rows * z.in * z.out};
}

std::vector<InPlacePair> InPlace(const BatchMatMul&, Pass) { return {}; }

double WorkPerElement(const BatchMatMul&, std::span<const Shape> operands) {
  if (operands.empty() || operands[0].empty()) return 1;
  return static_cast<double>(operands[0].back());
}

}  // namespace partita
