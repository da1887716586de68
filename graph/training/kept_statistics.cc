#include "graph/training/kept_statistics.h"

#include <optional>
#include <utility>
#include <vector>

#include "graph/support/status_macros.h"

namespace partita {
namespace {

// The weight that an update makes of one of the operator's operands; kNoTensor if none does.
TensorId FindStatistic(const Graph& model, const Operator& op, Statistic statistic) {
  for (TensorId operand : op.inputs) {
    for (OpId id : model.consumers(operand)) {
      const Operator& update = model.op(id);
      if (update.anchor_weight != kNoTensor && StatisticOf(update.attrs) == statistic) {
        return update.anchor_weight;
      }
    }
  }
  return kNoTensor;
}

}  // namespace

absl::StatusOr<bool> CopyInFixedForm(const Graph& model, const Operator& op, GraphCopy& copy) {
  std::optional<FixedForm<OpAttrs>> form = FixedFormOf(op.attrs);
  if (!form.has_value()) return false;
  std::vector<TensorId> inputs;
  for (const FixedOperand& wanted : form->operands) {
    const TensorId id = wanted.operand < 0 ? FindStatistic(model, op, wanted.statistic)
                                           : op.inputs[static_cast<size_t>(wanted.operand)];
    if (id == kNoTensor) return false;
    inputs.push_back(copy.Map(id));
  }
  ASSIGN_OR_RETURN(const TensorId y, copy.builder().Add({.name = op.name,
                                                         .attrs = std::move(form->attrs),
                                                         .inputs = std::move(inputs)}));
  copy.Replace(op.outputs[0], y);
  return true;
}

}  // namespace partita
