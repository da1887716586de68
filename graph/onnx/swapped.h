#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/onnx/importer.h"

namespace partita::onnx {

// The permutation that swaps the first two of `rank` dimensions.
std::vector<int64_t> FirstTwoSwapped(size_t rank);

// The operator that makes `x`; null for inputs and weights.
const Operator* ProducerOf(const GraphBuilder& builder, TensorId x);

// The tensor of which `x` is the transposed, its first two dimensions swapped: seen through
// reshapes that end in the shape where they began. kNoTensor: there is none.
TensorId SwappedFrom(const GraphBuilder& builder, TensorId x);

// `x` with its first two dimensions swapped: the tensor that it was swapped from, or a new one.
absl::StatusOr<TensorId> AddSwapped(NodeImport& node, TensorId x, const std::string& suffix);

}  // namespace partita::onnx
