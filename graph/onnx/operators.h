#pragma once

#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "graph/onnx/importer.h"

namespace partita::onnx {

// Adds what the node computes to the graph and sets its outputs. Unimplemented says what of the
// operator is not supported; any other error is a fault of the model.
using ImportFunction = absl::Status (*)(NodeImport& node);

// Computes the node's first output when all inputs are constants (an absent one: null).
using FoldFunction = absl::StatusOr<Constant> (*)(NodeImport& node,
                                                  std::span<const Constant* const> inputs);

struct OperatorRow {
  absl::string_view name;
  int64_t min_opset;
  ImportFunction import;  // null: only on constants
  FoldFunction fold;      // null: never folded
  absl::string_view description;
  bool takes_rows = false;  // reads values that are rows of the file (rows.h) as they are
};

// THE table of ONNX operators, sorted by name. To add one: write its function in one of the files
// named below and add a row.
std::span<const OperatorRow> OperatorRows();
const OperatorRow* FindOperator(absl::string_view name);

// conv_and_pool.cc
absl::Status ImportConv(NodeImport& node);
absl::Status ImportMaxPool(NodeImport& node);
absl::Status ImportAveragePool(NodeImport& node);
absl::Status ImportGlobalAveragePool(NodeImport& node);
absl::Status ImportGlobalMaxPool(NodeImport& node);
absl::Status ImportReduceMean(NodeImport& node);
absl::Status ImportPad(NodeImport& node);

// linear_and_elementwise.cc
absl::Status ImportGemm(NodeImport& node);
absl::Status ImportMatMul(NodeImport& node);
absl::Status ImportRelu(NodeImport& node);
absl::Status ImportUnary(NodeImport& node);
absl::Status ImportAdd(NodeImport& node);
absl::Status ImportSub(NodeImport& node);
absl::Status ImportMul(NodeImport& node);
absl::Status ImportDiv(NodeImport& node);

// normalisation.cc
absl::Status ImportBatchNormalization(NodeImport& node);
absl::Status ImportLrn(NodeImport& node);
absl::Status ImportDropout(NodeImport& node);
absl::Status ImportLayerNormalization(NodeImport& node);
absl::Status ImportSoftmax(NodeImport& node);
absl::Status ImportLogSoftmax(NodeImport& node);

// lstm.cc
absl::Status ImportLstm(NodeImport& node);

// shapes.cc
absl::Status ImportIdentity(NodeImport& node);
absl::Status ImportConstant(NodeImport& node);
absl::Status ImportShape(NodeImport& node);
absl::Status ImportSize(NodeImport& node);
absl::Status ImportFlatten(NodeImport& node);
absl::Status ImportReshape(NodeImport& node);
absl::Status ImportSqueeze(NodeImport& node);
absl::Status ImportUnsqueeze(NodeImport& node);
absl::Status ImportExpand(NodeImport& node);
absl::Status ImportTranspose(NodeImport& node);
absl::Status ImportConcat(NodeImport& node);
absl::Status ImportGather(NodeImport& node);
absl::Status ImportSlice(NodeImport& node);
absl::Status ImportCast(NodeImport& node);
absl::Status ImportCastLike(NodeImport& node);

// folding.cc
absl::StatusOr<Constant> FoldIdentity(NodeImport& node, std::span<const Constant* const> inputs);
absl::StatusOr<Constant> FoldFlatten(NodeImport& node, std::span<const Constant* const> inputs);
absl::StatusOr<Constant> FoldReshape(NodeImport& node, std::span<const Constant* const> inputs);
absl::StatusOr<Constant> FoldSqueeze(NodeImport& node, std::span<const Constant* const> inputs);
absl::StatusOr<Constant> FoldUnsqueeze(NodeImport& node, std::span<const Constant* const> inputs);
absl::StatusOr<Constant> FoldConcat(NodeImport& node, std::span<const Constant* const> inputs);
absl::StatusOr<Constant> FoldGather(NodeImport& node, std::span<const Constant* const> inputs);
absl::StatusOr<Constant> FoldSlice(NodeImport& node, std::span<const Constant* const> inputs);
absl::StatusOr<Constant> FoldExpand(NodeImport& node, std::span<const Constant* const> inputs);
absl::StatusOr<Constant> FoldRange(NodeImport& node, std::span<const Constant* const> inputs);
absl::StatusOr<Constant> FoldConstantOfShape(NodeImport& node,
                                             std::span<const Constant* const> inputs);

// folding_arithmetic.cc
absl::StatusOr<Constant> FoldAdd(NodeImport& node, std::span<const Constant* const> inputs);
absl::StatusOr<Constant> FoldSub(NodeImport& node, std::span<const Constant* const> inputs);
absl::StatusOr<Constant> FoldMul(NodeImport& node, std::span<const Constant* const> inputs);
absl::StatusOr<Constant> FoldDiv(NodeImport& node, std::span<const Constant* const> inputs);
absl::StatusOr<Constant> FoldSqrt(NodeImport& node, std::span<const Constant* const> inputs);
absl::StatusOr<Constant> FoldFloor(NodeImport& node, std::span<const Constant* const> inputs);
absl::StatusOr<Constant> FoldNeg(NodeImport& node, std::span<const Constant* const> inputs);
absl::StatusOr<Constant> FoldCast(NodeImport& node, std::span<const Constant* const> inputs);
absl::StatusOr<Constant> FoldCastLike(NodeImport& node, std::span<const Constant* const> inputs);

}  // namespace partita::onnx
