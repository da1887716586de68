#include "runtime/backend/cuda/plan/kernel_planner.h"

namespace partita {
namespace {

BinaryOp OpOf(const Binary& binary) {
  return binary.function == "add"   ? BinaryOp::kAdd
         : binary.function == "sub" ? BinaryOp::kSubtract
                                    : BinaryOp::kMultiply;
}

// A sum's result has some dimensions of what is summed: those walk over rows, the others over
// terms.
struct RowsAndTerms {
  std::vector<int64_t> row_extents, term_extents;
  std::vector<size_t> row_dims, term_dims;

  // `kept`: whether a dimension of `shape` is one of the result's.
  RowsAndTerms(const Shape& shape, const std::vector<bool>& kept) {
    for (size_t d = 0; d < shape.size(); ++d) {
      (kept[d] ? row_dims : term_dims).push_back(d);
      (kept[d] ? row_extents : term_extents).push_back(shape[d]);
    }
  }
  StridedIndex Rows(KernelPlanner& planner, const std::vector<int64_t>& strides) const {
    return planner.Walk(row_extents, Chosen(row_dims, strides));
  }
  StridedIndex Terms(KernelPlanner& planner, const std::vector<int64_t>& strides) const {
    return planner.Walk(term_extents, Chosen(term_dims, strides));
  }
  int64_t rows() const { return Volume(Shape(row_extents.begin(), row_extents.end())); }
  int64_t terms() const { return Volume(Shape(term_extents.begin(), term_extents.end())); }

 private:
  static std::vector<int64_t> Chosen(const std::vector<size_t>& dims,
                                     const std::vector<int64_t>& strides) {
    std::vector<int64_t> chosen;
    for (size_t d : dims) chosen.push_back(strides[d]);
    return chosen;
  }
};

// Sums `sum.a` of that shape, and `sum.b` where its strides are given, over what is not kept.
void PlanSum(const Shape& shape, const std::vector<bool>& kept, SumReduction sum,
             const std::vector<int64_t>* b_strides, KernelPlanner& planner) {
  const RowsAndTerms split(shape, kept);
  const std::vector<int64_t> strides = RowMajorStridesOf(shape);
  sum.a_rows = split.Rows(planner, strides);
  sum.a_terms = split.Terms(planner, strides);
  if (b_strides != nullptr) {
    sum.b_rows = split.Rows(planner, *b_strides);
    sum.b_terms = split.Terms(planner, *b_strides);
  }
  const bool neighbours = sum.a_rows.rank > 0 && sum.a_rows.stride[sum.a_rows.rank - 1] == 1;
  planner.Reduce(split.rows(), split.terms(), neighbours, sum);
}

void PlanBinary(const BinaryElement& element, int64_t count, KernelPlanner& planner) {
  if (element.a_at.in_order() && element.b_at.in_order()) {
    planner.ForEach(count, BinaryInOrderElement{element.op, element.a, element.b, element.y});
  } else {
    planner.ForEach(count, element);
  }
}

void PlanBinaryGradient(const Binary& binary, KernelPlanner& planner) {
  const BinaryOp op = OpOf(binary);
  const size_t dy_at = planner.inputs() - 1;
  const Shape& dy = planner.in_shape(dy_at);
  const Shape& out = planner.out_shape();
  const bool product = op == BinaryOp::kMultiply;
  const float sign = op == BinaryOp::kSubtract && planner.pass().gradient == 1 ? -1.0f : 1.0f;
  const std::vector<int64_t> other =
      product ? BroadcastStrides(planner.in_shape(0), dy) : std::vector<int64_t>();
  if (Volume(out) == Volume(dy)) {
    if (product) {
      PlanBinary({op, planner.In(dy_at), planner.In(0), planner.Out(),
                  planner.Walk(dy, RowMajorStridesOf(dy)), planner.Walk(dy, other)},
                 Volume(dy), planner);
    } else {
      planner.ForEach(Volume(dy), CopyElement{planner.In(dy_at), planner.Out(), sign});
    }
    return;
  }
  std::vector<bool> kept(dy.size());
  const std::vector<int64_t> strides = BroadcastStrides(out, dy);
  for (size_t d = 0; d < dy.size(); ++d) kept[d] = strides[d] != 0;
  SumReduction sum;
  sum.a = planner.In(dy_at);
  sum.b = product ? planner.In(0) : nullptr;
  sum.factor = static_cast<double>(sign);
  sum.y = planner.Out();
  PlanSum(dy, kept, sum, product ? &other : nullptr, planner);
}

}  // namespace

void PlanOperator(const Relu&, KernelPlanner& planner) {
  const int64_t count = Volume(planner.out_shape());
  if (planner.pass().is_forward()) {
    planner.ForEach(count, ReluElement{planner.In(0), planner.Out()});
  } else {
    planner.ForEach(count, ReluGradientElement{planner.In(0), planner.In(1), planner.Out()});
  }
}

void PlanOperator(const Unary& unary, KernelPlanner& planner) {
  const UnaryFunction function = FunctionOf(unary);
  const int64_t count = Volume(planner.out_shape());
  if (planner.pass().is_forward()) {
    planner.ForEach(count, UnaryElement{function, planner.In(0), planner.Out()});
  } else {
    planner.ForEach(count,
                    UnaryGradientElement{function, planner.In(0), planner.In(1), planner.Out()});
  }
}

void PlanOperator(const Scale& scale, KernelPlanner& planner) {
  const double beta = planner.pass().is_forward() ? scale.beta : 0;
  planner.ForEach(Volume(planner.out_shape()),
                  ScaleElement{planner.In(0), nullptr, planner.Out(),
                               static_cast<float>(scale.alpha), static_cast<float>(beta)});
}

void PlanOperator(const Binary& binary, KernelPlanner& planner) {
  if (!planner.pass().is_forward()) return PlanBinaryGradient(binary, planner);
  const Shape& y = planner.out_shape();
  PlanBinary({OpOf(binary), planner.In(0), planner.In(1), planner.Out(),
              planner.Walk(y, BroadcastStrides(planner.in_shape(0), y)),
              planner.Walk(y, BroadcastStrides(planner.in_shape(1), y))},
             Volume(y), planner);
}

void PlanOperator(const ReduceMean& mean, KernelPlanner& planner) {
  const bool forward = planner.pass().is_forward();
  const Shape& x = forward ? planner.in_shape(0) : planner.out_shape();
  std::vector<bool> kept(x.size(), true);
  for (int64_t axis : mean.axes) kept[static_cast<size_t>(axis)] = false;
  const double share = 1 / static_cast<double>(mean.count);
  if (forward) {
    SumReduction sum;
    sum.a = planner.In(0);
    sum.y = planner.Out();
    sum.factor = share;
    return PlanSum(x, kept, sum, nullptr, planner);
  }
  Shape y = x;
  for (size_t d = 0; d < x.size(); ++d) y[d] = kept[d] ? x[d] : 1;
  planner.ForEach(
      Volume(x), GatherElement{planner.In(0), planner.Out(),
                               planner.Walk(x, BroadcastStrides(y, x)), static_cast<float>(share)});
}

void PlanOperator(const SumOfSquares&, KernelPlanner& planner) {
  const float* x = planner.In(0);
  const int64_t count = Volume(planner.in_shape(0));
  if (!planner.pass().is_forward()) {
    planner.ForEach(count, ScaleElement{x, planner.In(1), planner.Out(), 2.0f, 0.0f});
    return;
  }
  SumReduction sum;
  sum.a = sum.b = x;
  sum.a_terms = sum.b_terms = planner.Walk(std::vector<int64_t>{count}, std::vector<int64_t>{1});
  sum.y = planner.Out();
  planner.Reduce(1, count, false, sum);
}

}  // namespace partita
