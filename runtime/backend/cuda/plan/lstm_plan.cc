#include "runtime/backend/cuda/plan/kernel_planner.h"

namespace partita {

void PlanOperator(const LstmGates& gates, KernelPlanner& planner) {
  const float* a = planner.In(0);
  const float* b = gates.first ? nullptr : planner.In(1);
  const float* c = gates.first ? nullptr : planner.In(2);
  const int64_t units = Volume(planner.in_shape(0)) / 4;
  if (planner.pass().is_forward()) {
    return planner.ForEach(units, LstmGatesElement{a, b, c, planner.Out(0), planner.Out(1)});
  }
  const size_t reads = gates.first ? 1 : 3;
  const float *dh = planner.In(reads), *dc = planner.In(reads + 1);
  if (planner.pass().gradient == 2) {
    planner.ForEach(units, LstmCellGradientElement{a, b, c, dh, dc, planner.Out()});
  } else {
    planner.ForEach(units, LstmGatesGradientElement{a, b, c, dh, dc, planner.Out()});
  }
}

}  // namespace partita
