#pragma once

#include <span>
#include <string>
#include <vector>

#include "proto/onnx/onnx.pb.h"

// Batch normalisation that an exporter or an optimizer has folded into the convolution or linear
// layer before it. Such a model computes the same in evaluation, but is another network in
// training.

namespace partita::onnx {

// The layers of which the nodes' metadata say so: they name the rewriting rule (as PyTorch's
// exporter does), or the module of batch normalisation on a node of another kind. A layer is called
// by its weight ("conv1" for "conv1.weight"), else by its node.
std::vector<std::string> LayersWithFoldedBatchNorm(std::span<const NodeProto* const> nodes);

// One note for the user where only names suggest it, as in models that were exported for
// evaluation; empty if nothing does. Layers of the list above are left out.
std::string NoteOfLikelyFolds(std::span<const NodeProto* const> nodes);

}  // namespace partita::onnx
