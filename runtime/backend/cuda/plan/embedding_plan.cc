#include "runtime/backend/cuda/plan/kernel_planner.h"

namespace partita {

void PlanOperator(const Embedding&, KernelPlanner& planner) {
  const int32_t* indices = planner.LabelsIn(0);
  const int64_t count = Volume(planner.in_shape(0));
  if (planner.pass().is_forward()) {
    const Shape& table = planner.in_shape(1);
    return planner.ForEach(
        Volume(planner.out_shape()),
        EmbeddingElement{indices, planner.In(1), planner.Out(), planner.in_piece(1).box[0].lo,
                         table[0], Divisor::Of(std::max<int64_t>(1, table[1]))});
  }
  const Shape& table = planner.out_shape();
  planner.ForEach(Volume(table), FillElement{planner.Out(), 0.0f});
  if (Volume(table) == 0) return;
  auto* next = planner.Scratch<int32_t>(count);
  auto* first = planner.Scratch<int32_t>(count);
  planner.ForEach(count, EqualIndexElement{indices, next, first, count});
  planner.ForEach(
      count * table[1],
      EmbeddingGradientElement{indices, next, first, planner.In(1), planner.Out(),
                               planner.out_piece(0).box[0].lo, table[0], Divisor::Of(table[1])});
}

}  // namespace partita
