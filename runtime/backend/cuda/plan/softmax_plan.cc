#include <algorithm>

#include "runtime/backend/cuda/plan/kernel_planner.h"

// Softmax, losses and updates.

namespace partita {
namespace {

// x[rows..., classes] as a matrix, and where its classes lie in the whole tensor.
struct RowsOf {
  int64_t rows = 1, classes = 1, first_class = 0;

  explicit RowsOf(KernelPlanner& planner) {
    const Shape& x = planner.in_shape(0);
    classes = x.back();
    first_class = planner.in_piece(0).box[static_cast<int>(x.size()) - 1].lo;
    for (size_t d = 0; d + 1 < x.size(); ++d) rows *= x[d];
  }
  int64_t volume() const { return rows * classes; }
};

// Inputs x, then m and s from `m_at` on.
RowProbability ProbabilityOf(const RowsOf& rows, size_t m_at, KernelPlanner& planner) {
  return {planner.In(0), planner.In(m_at), planner.In(m_at + 1),
          Divisor::Of(std::max<int64_t>(1, rows.classes))};
}

void PlanSumExp(KernelPlanner& planner, bool with_dy) {
  const RowsOf rows(planner);
  SumExpReduction sum;
  sum.x = planner.In(0);
  sum.m = planner.In(1);
  sum.s = with_dy ? planner.In(2) : nullptr;
  sum.dy = with_dy ? planner.In(3) : nullptr;
  sum.with_dy = with_dy;
  sum.classes = rows.classes;
  sum.y = planner.Out();
  planner.Reduce(rows.rows, rows.classes, false, sum);
}

void PlanRunning(const RunningFields& fields, bool variance, KernelPlanner& planner) {
  const auto n = static_cast<double>(fields.count);
  RunningElement running;
  running.old = planner.In(0);
  running.s1 = planner.WideIn(1);
  running.s2 = variance ? planner.WideIn(2) : nullptr;
  running.next = planner.Out();
  running.one_over_n = 1 / n;
  running.unbias = n / std::max(n - 1, 1.0);
  running.momentum = fields.momentum;
  planner.ForEach(Volume(planner.out_shape()), running);
}

}  // namespace

void PlanOperator(const RowMax&, KernelPlanner& planner) {
  const RowsOf rows(planner);
  planner.Reduce(rows.rows, rows.classes, false,
                 RowMaxReduction{planner.In(0), rows.classes, planner.Out()});
}

void PlanOperator(const RowSum&, KernelPlanner& planner) {
  const RowsOf rows(planner);
  const std::vector<int64_t> one = {1}, classes = {rows.classes};
  SumReduction sum;
  sum.a = planner.In(0);
  sum.a_rows = planner.Walk(std::vector<int64_t>{rows.rows}, classes);
  sum.a_terms = planner.Walk(classes, one);
  sum.y = planner.Out();
  planner.Reduce(rows.rows, rows.classes, false, sum);
}

void PlanOperator(const SumExp&, KernelPlanner& planner) { PlanSumExp(planner, false); }

void PlanOperator(const SoftmaxDot&, KernelPlanner& planner) { PlanSumExp(planner, true); }

void PlanOperator(const SoftmaxApply&, KernelPlanner& planner) {
  const RowsOf rows(planner);
  planner.ForEach(rows.volume(), SoftmaxElement{ProbabilityOf(rows, 1, planner), planner.Out()});
}

void PlanOperator(const SoftmaxGrad&, KernelPlanner& planner) {
  const RowsOf rows(planner);
  planner.ForEach(rows.volume(),
                  SoftmaxGradientElement{ProbabilityOf(rows, 1, planner), planner.In(3),
                                         planner.In(4), planner.Out()});
}

void PlanOperator(const LogSoftmaxApply&, KernelPlanner& planner) {
  const RowsOf rows(planner);
  planner.ForEach(rows.volume(), LogSoftmaxElement{ProbabilityOf(rows, 1, planner), planner.Out()});
}

void PlanOperator(const LogSoftmaxGrad&, KernelPlanner& planner) {
  const RowsOf rows(planner);
  planner.ForEach(rows.volume(),
                  LogSoftmaxGradientElement{ProbabilityOf(rows, 1, planner), planner.In(3),
                                            planner.In(4), planner.Out()});
}

void PlanOperator(const CrossEntropy& loss, KernelPlanner& planner) {
  const RowsOf rows(planner);
  CrossEntropyReduction sum;
  sum.x = planner.In(0);
  sum.labels = planner.LabelsIn(1);
  sum.m = planner.In(2);
  sum.s = planner.In(3);
  sum.classes = rows.classes;
  sum.first_class = rows.first_class;
  sum.one_over_rows = 1 / static_cast<double>(loss.rows);
  sum.y = planner.Out();
  planner.Reduce(1, rows.rows, false, sum);
}

void PlanOperator(const CrossEntropyGrad& loss, KernelPlanner& planner) {
  const RowsOf rows(planner);
  CrossEntropyGradientElement gradient;
  gradient.p = ProbabilityOf(rows, 2, planner);
  gradient.labels = planner.LabelsIn(1);
  gradient.gradient = planner.In(4);
  gradient.dx = planner.Out();
  gradient.first_class = rows.first_class;
  gradient.one_over_rows = static_cast<float>(1 / static_cast<double>(loss.rows));
  planner.ForEach(rows.volume(), gradient);
}

void PlanOperator(const CountCorrect&, KernelPlanner& planner) {
  const RowsOf rows(planner);
  planner.Reduce(1, rows.rows, false,
                 CountCorrectReduction{planner.In(0), planner.In(2), planner.LabelsIn(1),
                                       rows.classes, rows.first_class, planner.Out()});
}

void PlanOperator(const Sgd& sgd, KernelPlanner& planner) {
  SgdElement element{planner.In(0), planner.In(1), planner.In(2), planner.Out(0), planner.Out(1)};
  element.numbers = planner.numbers();
  element.nesterov = sgd.nesterov;
  planner.ForEach(Volume(planner.out_shape()), element);
}

void PlanOperator(const Adam&, KernelPlanner& planner) {
  AdamElement element{planner.In(0),  planner.In(1),  planner.In(2), planner.In(3),
                      planner.Out(0), planner.Out(1), planner.Out(2)};
  element.numbers = planner.numbers();
  planner.ForEach(Volume(planner.out_shape()), element);
}

void PlanOperator(const RunningMean& running, KernelPlanner& planner) {
  PlanRunning(running, false, planner);
}

void PlanOperator(const RunningVariance& running, KernelPlanner& planner) {
  PlanRunning(running, true, planner);
}

}  // namespace partita
