#include "runtime/backend/cuda/plan/conversion_plan.h"

namespace partita {
namespace {

// Null where the precision needs none.
const NumberScale* PlanScale(const float* data, int64_t count, int exponent,
                             KernelPlanner& planner) {
  if (planner.options().precision != Precision::kFloat16) return nullptr;
  auto* scale = planner.Scratch<NumberScale>(1);
  planner.Reduce(1, count, false, ScaleReduction{data, exponent, scale});
  return scale;
}

// `count` numbers of the precision's type in scratch memory.
void* ScratchNumbers(int64_t count, KernelPlanner& planner) {
  return planner.Scratch<char>(count * BytesOf(TypeOf(planner.options().precision)));
}

Conversion ToFactors(const float* data, void* to, const NumberScale* scale,
                     const KernelPlanner& planner) {
  Conversion conversion;
  conversion.from = data;
  conversion.to = to;
  conversion.to_type = TypeOf(planner.options().precision);
  if (scale != nullptr) conversion.first_factor = &scale->times;
  return conversion;
}

// As they lie in memory.
void PlanInOrder(const Conversion& conversion, const std::array<int64_t, 4>& extents,
                 KernelPlanner& planner) {
  const int64_t inner = extents[2] * extents[3];
  const int64_t count = extents[0] * extents[1] * inner;
  planner.ForEach(count, ConversionElement{conversion, Divisor::Of(count), Divisor::Of(inner),
                                           Divisor::Of(extents[1]), count});
}

}  // namespace

ConvertedOperand PlanMatrixOperand(const MatrixOperand& matrix, int exponent,
                                   KernelPlanner& planner) {
  ConvertedOperand operand;
  operand.scale = PlanScale(matrix.data, matrix.rows * matrix.wide, exponent, planner);
  operand.data = ScratchNumbers(matrix.rows * matrix.pitch, planner);
  planner.ForEach(
      matrix.rows * matrix.wide,
      ConversionElement{ToFactors(matrix.data, operand.data, operand.scale, planner),
                        Divisor::Of(matrix.wide), Divisor::Of(1), Divisor::Of(1), matrix.pitch});
  return operand;
}

ConvertedOperand PlanImageOperand(const ImageOperand& operand, int exponent,
                                  KernelPlanner& planner) {
  const auto* floats = static_cast<const float*>(operand.data);
  const std::array<int64_t, 4>& e = operand.extents;
  const int64_t count = VolumeOf(e);
  const int64_t runs = operand.blocks.has_value() ? operand.blocks->RunsOf(e[0]) : 0;
  ConvertedOperand converted;
  converted.scale = PlanScale(floats, count, exponent, planner);
  converted.data = ScratchNumbers(runs > 0 ? runs * operand.blocks->columns.value : count, planner);
  const Conversion conversion = ToFactors(floats, converted.data, converted.scale, planner);
  if (operand.blocks.has_value()) {
    planner.ForEach(runs, ToBlocksElement{conversion, *operand.blocks});
  } else if (planner.options().channels_last) {
    planner.Transpose(conversion, e[0], e[1], e[2] * e[3]);
  } else {
    PlanInOrder(conversion, e, planner);
  }
  return converted;
}

void PlanImageResult(const ImageResult& result, void* to, KernelPlanner& planner) {
  const std::array<int64_t, 4>& e = result.extents;
  Conversion conversion;
  conversion.from = result.data;
  conversion.to = to;
  conversion.from_type = TypeOf(planner.options().precision);
  if (result.first != nullptr) conversion.first_factor = &result.first->undo;
  if (result.second != nullptr) conversion.second_factor = &result.second->undo;
  conversion.bias = result.bias;
  conversion.relu = result.relu;
  if (result.blocks.has_value()) {
    planner.ForEach(VolumeOf(e), FromBlocksElement{conversion, *result.blocks});
  } else if (planner.options().channels_last) {
    planner.Transpose(conversion, e[0], e[2] * e[3], e[1]);
  } else {
    PlanInOrder(conversion, e, planner);
  }
}

}  // namespace partita
