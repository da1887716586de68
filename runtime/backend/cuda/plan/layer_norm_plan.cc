#include <algorithm>

#include "runtime/backend/cuda/plan/kernel_planner.h"

namespace partita {
namespace {

struct Rows {
  int64_t rows = 0, size = 0;

  explicit Rows(const Shape& x) : size(x.back()) {
    if (size > 0) rows = Volume(x) / size;
  }
  int64_t volume() const { return rows * size; }
  Divisor divisor() const { return Divisor::Of(std::max<int64_t>(1, size)); }
};

// The statistics of each row of input 0, in scratch memory.
const RowStatistics* PlanRowStatistics(const LayerNorm& norm, const Rows& x,
                                       KernelPlanner& planner) {
  auto* statistics = planner.Scratch<RowStatistics>(x.rows);
  const double one_over_size = 1 / static_cast<double>(std::max<int64_t>(1, x.size));
  planner.Reduce(
      x.rows, x.size, false,
      RowStatisticsReduction{planner.In(0), x.size, one_over_size, norm.epsilon, statistics});
  return statistics;
}

// Column sums of dy.
void PlanBetaGradient(const Rows& x, KernelPlanner& planner) {
  const std::vector<int64_t> one = {1}, columns = {x.size}, rows = {x.rows};
  SumReduction sum;
  sum.a = planner.In(0);
  sum.a_rows = planner.Walk(columns, one);
  sum.a_terms = planner.Walk(rows, columns);
  sum.y = planner.Out();
  planner.Reduce(x.size, x.rows, true, sum);
}

}  // namespace

void PlanOperator(const LayerNorm& norm, KernelPlanner& planner) {
  const Rows x(planner.in_shape(0));
  const int gradient = planner.pass().gradient;
  if (gradient == 2) return PlanBetaGradient(x, planner);
  const RowStatistics* statistics = PlanRowStatistics(norm, x, planner);
  if (gradient == 1) {
    return planner.Reduce(
        x.size, x.rows, true,
        LayerNormGammaReduction{statistics, planner.In(0), planner.In(1), x.size, planner.Out()});
  }
  if (gradient < 0) {
    return planner.ForEach(x.volume(), LayerNormElement{statistics, planner.In(0), planner.In(1),
                                                        planner.In(2), planner.Out(), x.divisor()});
  }
  auto* means = planner.Scratch<RowMeans>(x.rows);
  planner.Reduce(x.rows, x.size, false,
                 LayerNormRowReduction{statistics, planner.In(0), planner.In(1), planner.In(2),
                                       x.size, means});
  planner.ForEach(x.volume(),
                  LayerNormGradientElement{statistics, means, planner.In(0), planner.In(1),
                                           planner.In(2), planner.Out(), x.divisor()});
}

}  // namespace partita
