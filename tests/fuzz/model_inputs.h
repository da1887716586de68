#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"
#include "tests/fuzz/mutator.h"

namespace partita {

// Parts that several targets which read models have in common.

// What is accepted can be summarised, trained and planned, or is refused for that.
void TryToPlan(const Graph& model);

// Fields and bytes of an ONNX model.
std::string MutateOnnx(Mutator& mutator, const std::string& input, const std::string& other);

// Names of tensors and metadata, shapes and dtypes of a file damaged, the rest rewritten as a sound
// file, with checksums; bytes damaged where it is no sound file, and in a part of the cases.
std::string MutateSafetensors(Mutator& mutator, const std::string& input, const std::string& other);

// ONNX models with a shape that is computed from constants, of all types and by all operators.
std::vector<std::string> OnnxOfConstants();
// An LSTM of 5 units over 3 steps of 2 samples, with the inputs and attributes that it may have.
std::string OnnxWithLstm();
// An ONNX model with weights in a file beside it called `side_file`, of all types: both files.
std::vector<std::string> OnnxWithSideFile(const std::string& side_file);
// An ONNX model with a convolution and a batch normalisation, whose weights have values.
std::string OnnxWithBatchNorm();

}  // namespace partita
