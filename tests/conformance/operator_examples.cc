#include "tests/conformance/operator_examples.h"

#include <iterator>

namespace partita {

std::vector<OperatorExample> LinearExamples() {
  auto conv = [](std::string name, Conv2d attrs, const Shape& x, const Shape& w, bool bias) {
    OperatorExample e{std::move(name), attrs, {Floats(x), Floats(w)}, {0, 1}};
    if (bias) {
      e.operands.push_back(Floats({w[0]}));
      e.affine.push_back(2);
    }
    return e;
  };
  return {
      conv("Conv3x3Same", {.pads = {1, 1, 1, 1}}, {2, 2, 5, 4}, {3, 2, 3, 3}, true),
      conv("ConvStride2UnevenHalo", {.stride = {2, 2}, .pads = {1, 1, 1, 1}}, {1, 2, 7, 8},
           {2, 2, 3, 3}, true),
      conv("Conv1x1Stride2", {.stride = {2, 2}}, {2, 2, 6, 7}, {2, 2, 1, 1}, false),
      conv("ConvStride3Tail", {.stride = {3, 2}}, {1, 1, 9, 6}, {2, 1, 2, 3}, true),
      conv("ConvGroups", {.pads = {1, 0, 0, 1}, .groups = 3}, {2, 6, 3, 4}, {6, 2, 2, 2}, true),
      conv("ConvDepthwise", {.pads = {1, 1, 1, 1}, .groups = 4}, {1, 4, 4, 3}, {4, 1, 3, 3}, true),
      conv("ConvAsymmetricPads", {.stride = {2, 1}, .pads = {0, 2, 3, 1}}, {1, 1, 5, 4},
           {2, 1, 3, 2}, false),
      conv("ConvDilated", {.dilation = {2, 1}, .pads = {2, 1, 2, 1}}, {1, 2, 6, 4}, {1, 2, 3, 3},
           true),
      conv("ConvWindowsInPadding", {.pads = {3, 0, 3, 0}}, {1, 1, 2, 3}, {1, 1, 2, 2}, true),
      {"MatMul", MatMul{}, {Floats({3, 5}), Floats({4, 5})}, {0, 1}},
      {"MatMulBias", MatMul{}, {Floats({3, 5}), Floats({4, 5}), Floats({4})}, {0, 1, 2}},
      {"MatMulInByOut",
       MatMul{.transposed = false},
       {Floats({4, 3}), Floats({3, 5}), Floats({5})},
       {0, 1, 2}},
      {"BatchMatMul", BatchMatMul{}, {Floats({2, 3, 4}), Floats({2, 4, 2})}, {0, 1}},
      {"BatchMatMulTransposed",
       BatchMatMul{.transposed = true},
       {Floats({2, 3, 2}), Floats({2, 4, 2})},
       {0, 1}},
      {"BatchMatMulOfHeads",
       BatchMatMul{.transposed = true},
       {Floats({2, 2, 3, 2}), Floats({2, 2, 2, 2})},
       {0, 1}},
      {"MatMulRank3", MatMul{}, {Floats({2, 3, 4}), Floats({3, 4}), Floats({3})}, {0, 1, 2}},
  };
}

std::vector<OperatorExample> ElementwiseExamples() {
  auto binary = [](std::string name, std::string function, const Shape& a, const Shape& b) {
    return OperatorExample{
        std::move(name), Binary{std::move(function)}, {Floats(a), Floats(b)}, {0, 1}};
  };
  auto unary = [](std::string name, std::string function, const Shape& x) {
    OperatorExample example{std::move(name), Unary{std::move(function)}, {Floats(x)}};
    example.fills = {{OperandFill::Kind::kWide}};
    return example;
  };
  return {
      {"Relu", Relu{}, {Floats({3, 4, 2})}, {0}},
      {"ReluImage", Relu{}, {Floats({2, 3, 2, 3})}, {0}},
      {"ReluScalar", Relu{}, {Floats({})}, {0}},
      unary("HardSwish", "hard_swish", {3, 4, 2}),
      unary("HardSwishImage", "hard_swish", {2, 3, 2, 3}),
      unary("HardSwishScalar", "hard_swish", {}),
      unary("Erf", "erf", {3, 4}),
      unary("Gelu", "gelu", {3, 4}),
      unary("GeluTanh", "gelu_tanh", {3, 4}),
      unary("Sigmoid", "sigmoid", {3, 4}),
      unary("SigmoidImage", "sigmoid", {2, 3, 2, 3}),
      unary("Tanh", "tanh", {3, 4}),
      binary("Add", "add", {3, 4}, {3, 4}),
      binary("Sub", "sub", {2, 3, 4}, {2, 3, 4}),
      binary("Mul", "mul", {3, 4}, {3, 4}),
      binary("AddChannels", "add", {2, 3, 2, 2}, {3, 1, 1}),
      binary("SubFromRow", "sub", {4}, {3, 4}),
      binary("MulColumnByRow", "mul", {3, 1}, {1, 4}),
      binary("MulScalar", "mul", {3, 4}, {}),
      {"Scale", Scale{.alpha = 0.25, .beta = -1.5}, {Floats({3, 4, 2})}, {0}},
  };
}

std::vector<OperatorExample> EmbeddingExamples() {
  auto example = [](std::string name, const Shape& indices, const Shape& table) {
    OperatorExample e{std::move(name), Embedding{}, {{DType::kInt32, indices}, Floats(table)}, {1}};
    // One index more than there are rows.
    e.fills = {{OperandFill::Kind::kLabels, table[0] + 1}};
    return e;
  };
  return {
      example("Embedding", {3, 4}, {5, 3}),
      example("EmbeddingOfEqualIndices", {7}, {2, 4}),
      example("EmbeddingRank3", {2, 2, 3}, {4, 2}),
  };
}

std::vector<OperatorExample> RecurrentExamples() {
  return {
      {"LstmGates", LstmGates{}, {Floats({3, 8}), Floats({3, 8}), Floats({3, 2})}},
      {"LstmGatesRank3", LstmGates{}, {Floats({2, 1, 12}), Floats({2, 1, 12}), Floats({2, 1, 3})}},
      {"LstmGatesFirst", LstmGates{.first = true}, {Floats({2, 12})}},
  };
}

std::vector<OperatorExample> OperatorExamples() {
  std::vector<OperatorExample> all;
  for (auto family : {LinearExamples(), PoolExamples(), ElementwiseExamples(), EmbeddingExamples(),
                      RecurrentExamples(), ShapeExamples(), NormExamples(), SoftmaxExamples(),
                      UpdateExamples()}) {
    all.insert(all.end(), std::make_move_iterator(family.begin()),
               std::make_move_iterator(family.end()));
  }
  return all;
}

}  // namespace partita
