#include "graph/onnx/operators.h"

#include <algorithm>
#include <array>

namespace partita::onnx {
namespace {

constexpr OperatorRow kRows[] = {
    {"Add", 7, ImportAdd, FoldAdd, "sum with broadcasting"},
    {"AveragePool", 7, ImportAveragePool, nullptr, "2-D average pooling, all pads and size rules"},
    {"BatchNormalization", 7, ImportBatchNormalization, nullptr,
     "by the statistics of the batch, whatever form the file has"},
    {"Cast", 6, ImportCast, FoldCast, "constants to any number type; tensors among floating types"},
    {"CastLike", 15, ImportCastLike, FoldCastLike, "as Cast"},
    {"Concat", 4, ImportConcat, FoldConcat, "along any axis"},
    {"Constant", 1, ImportConstant, nullptr, "all forms of values"},
    {"ConstantOfShape", 9, nullptr, FoldConstantOfShape, "folded"},
    {"Conv", 1, ImportConv, nullptr, "2-D: groups, strides, dilations, any pads, SAME, VALID"},
    {"Div", 7, ImportDiv, FoldDiv, "by a constant number"},
    {"Dropout", 7, ImportDropout, nullptr, "as in training, whatever form the file has"},
    {"Erf", 9, ImportUnary, nullptr, "the error function"},
    {"Expand", 8, ImportExpand, FoldExpand, "constants; tensors only to their own shape"},
    {"Flatten", 1, ImportFlatten, FoldFlatten, "at any axis"},
    {"Floor", 6, nullptr, FoldFloor, "folded"},
    {"Gather", 1, ImportGather, FoldGather,
     "constants; one index; rows of a matrix of weights, by integers that are not negative"},
    {"Gelu", 20, ImportUnary, nullptr, "exact, or approximate by tanh"},
    {"Gemm", 7, ImportGemm, nullptr, "matrix product with bias: alpha, beta, transA, transB"},
    {"GlobalAveragePool", 1, ImportGlobalAveragePool, nullptr, "mean over the spatial dimensions"},
    {"GlobalMaxPool", 1, ImportGlobalMaxPool, nullptr, "maximum over two spatial dimensions"},
    {"HardSwish", 14, ImportUnary, nullptr, "x * clamp(x + 3, 0, 6) / 6"},
    {"Identity", 1, ImportIdentity, FoldIdentity, "left out", /*takes_rows=*/true},
    {"LRN", 1, ImportLrn, nullptr, "local response normalisation across channels"},
    {"LSTM", 7, ImportLstm, nullptr,
     "forward, with the default activations, of as many steps as its input has",
     /*takes_rows=*/true},
    {"LayerNormalization", 17, ImportLayerNormalization, nullptr, "along the last axis"},
    {"LogSoftmax", 1, ImportLogSoftmax, nullptr, "along the last axis"},
    {"MatMul", 1, ImportMatMul, nullptr, "any tensor times a matrix; matrix by matrix"},
    {"MaxPool", 1, ImportMaxPool, nullptr, "2-D maximum pooling without indices"},
    {"Mul", 7, ImportMul, FoldMul, "product with broadcasting"},
    {"Neg", 6, nullptr, FoldNeg, "folded"},
    {"Pad", 2, ImportPad, nullptr, "a border of a constant"},
    {"Range", 11, nullptr, FoldRange, "folded"},
    {"ReduceMean", 1, ImportReduceMean, nullptr, "over any axes, as an attribute or an input"},
    {"Relu", 6, ImportRelu, nullptr, "max(x, 0)"},
    {"Reshape", 5, ImportReshape, FoldReshape, "to a shape known when the file is read"},
    {"Shape", 1, ImportShape, nullptr, "folded", /*takes_rows=*/true},
    {"Sigmoid", 6, ImportUnary, nullptr, "1 / (1 + exp(-x))"},
    {"Size", 1, ImportSize, nullptr, "folded", /*takes_rows=*/true},
    {"Slice", 1, ImportSlice, FoldSlice, "constants; of tensors, ranges with step 1"},
    {"Softmax", 1, ImportSoftmax, nullptr, "along the last axis"},
    {"Sqrt", 6, nullptr, FoldSqrt, "folded"},
    {"Squeeze", 1, ImportSqueeze, FoldSqueeze, "a reshape"},
    {"Sub", 7, ImportSub, FoldSub, "difference with broadcasting"},
    {"Tanh", 6, ImportUnary, nullptr, "the hyperbolic tangent"},
    {"Transpose", 1, ImportTranspose, nullptr, "left out in front of a matrix product"},
    {"Unsqueeze", 1, ImportUnsqueeze, FoldUnsqueeze, "a reshape"},
};

static_assert(std::ranges::is_sorted(kRows, {}, &OperatorRow::name));

}  // namespace

std::span<const OperatorRow> OperatorRows() { return kRows; }

const OperatorRow* FindOperator(absl::string_view name) {
  for (const OperatorRow& row : kRows) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

}  // namespace partita::onnx
