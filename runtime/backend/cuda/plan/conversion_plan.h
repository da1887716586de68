#pragma once

#include <array>
#include <optional>

#include "runtime/backend/cuda/plan/kernel_planner.h"

namespace partita {

// An operand of a product in scratch memory. `scale`, in memory, is what it was multiplied by; null
// where it was not.
struct ConvertedOperand {
  void* data = nullptr;
  const NumberScale* scale = nullptr;
};

// rows x wide floats as the planner's precision has factors, `pitch` of them from row to row. Of
// float16, the largest comes to lie just below 2^exponent.
struct MatrixOperand {
  const float* data = nullptr;
  int64_t rows = 0, wide = 0, pitch = 0;
};
ConvertedOperand PlanMatrixOperand(const MatrixOperand& matrix, int exponent,
                                   KernelPlanner& planner);

// A tensor [n, c, h, w], in the order that the options say; in blocks where there are any.
struct ImageOperand {
  const void* data = nullptr;
  std::array<int64_t, 4> extents = {};
  std::optional<ImageBlocks> blocks;
};
ConvertedOperand PlanImageOperand(const ImageOperand& operand, int exponent,
                                  KernelPlanner& planner);

// Inverse conversion of a result: with scales of its two factors undone, bias and ReLU applied.
struct ImageResult {
  const void* data = nullptr;  // data in scratch memory
  std::array<int64_t, 4> extents = {};
  std::optional<ImageBlocks> blocks;
  const NumberScale *first = nullptr, *second = nullptr;
  const float* bias = nullptr;
  bool relu = false;
};
void PlanImageResult(const ImageResult& result, void* to, KernelPlanner& planner);

}  // namespace partita
