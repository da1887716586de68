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

// The moments of each row of input 0, in scratch memory.
ChannelStatistics PlanRowMoments(const LayerNorm& norm, const Rows& x, KernelPlanner& planner) {
  ChannelStatistics statistics;
  auto* s1 = planner.Scratch<double>(x.rows);
  auto* s2 = planner.Scratch<double>(x.rows);
  statistics.s1 = s1;
  statistics.s2 = s2;
  statistics.one_over_n = 1 / static_cast<double>(std::max<int64_t>(1, x.size));
  statistics.epsilon = norm.epsilon;
  const ChannelElements elements{x.rows, x.divisor()};
  planner.Reduce(x.rows, x.size, false, MomentsReduction{elements, planner.In(0), s1, s2});
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
  const ChannelStatistics statistics = PlanRowMoments(norm, x, planner);
  if (gradient == 1) {
    return planner.Reduce(
        x.size, x.rows, true,
        LayerNormGammaReduction{statistics, planner.In(0), planner.In(1), x.size, planner.Out()});
  }
  if (gradient < 0) {
    return planner.ForEach(x.volume(), LayerNormElement{statistics, planner.In(0), planner.In(1),
                                                        planner.In(2), planner.Out(), x.divisor()});
  }
  auto* mean = planner.Scratch<double>(x.rows);
  auto* along = planner.Scratch<double>(x.rows);
  planner.Reduce(x.rows, x.size, false,
                 LayerNormRowReduction{statistics, planner.In(0), planner.In(1), planner.In(2),
                                       x.size, mean, along});
  planner.ForEach(x.volume(),
                  LayerNormGradientElement{statistics, planner.In(0), planner.In(1), planner.In(2),
                                           mean, along, planner.Out(), x.divisor()});
}

}  // namespace partita
