#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "graph/ops/ops.h"
#include "graph/tensor.h"

namespace partita {

// Elements of an operand in a test.
struct OperandFill {
  enum class Kind {
    kReal,      // in [-1, 1)
    kWide,      // in [-5, 5)
    kPositive,  // in [0.5, 2.5)
    kLabels,    // integers in [0, bound)
  };
  Kind kind = Kind::kReal;
  int64_t bound = 0;
};

// One use of an operator, small enough for every legal split of it to be tried.
struct OperatorExample {
  std::string name;  // unique; letters and digits
  OpAttrs attrs;
  std::vector<TensorType> operands;  // floating types are kFloat32 (kFloat64 for wide sums)
  // The operands in which the operator is affine, the others held fixed, or homogeneous piece by
  // piece (ReLU): <dy, f(x) - f(0)> = <gradient, x> must hold exactly in the ring.
  std::vector<int> affine = {};
  std::vector<OperandFill> fills = {};  // kReal where missing
};

// Failures show the name.
inline void PrintTo(const OperatorExample& example, std::ostream* out) { *out << example.name; }

// A float32 tensor type.
TensorType Floats(const Shape& shape);

// Each family of operators lists its examples in a file of its own.
std::vector<OperatorExample> LinearExamples();
std::vector<OperatorExample> PoolExamples();
std::vector<OperatorExample> ElementwiseExamples();
std::vector<OperatorExample> EmbeddingExamples();
std::vector<OperatorExample> RecurrentExamples();
std::vector<OperatorExample> ShapeExamples();
std::vector<OperatorExample> NormExamples();
std::vector<OperatorExample> SoftmaxExamples();
std::vector<OperatorExample> UpdateExamples();

// All of them.
std::vector<OperatorExample> OperatorExamples();

}  // namespace partita
