#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "graph/onnx/constant.h"
#include "proto/onnx/onnx.pb.h"

namespace partita::onnx {

// A tensor that the file keeps: a weight, or a small constant.
struct StoredTensor {
  const TensorProto* proto;
  TensorSource source;
};

// The model's one input. Extents that the file leaves open are -1.
struct ModelInput {
  std::string name;
  ElementType type = ElementType::kFloat;
  Shape shape;
};

// Origin of a model: its name in messages and the folder of its side files (empty: none).
struct Origin {
  std::string name, folder;
};

// A decoded model that has been checked: every name that is read is defined once and before it is
// read, tensors have sane types, shapes and amounts of data. Shapes of intermediate values in the
// file are not used. Movable; pointers point into `proto`.
struct Model {
  std::unique_ptr<const ModelProto> proto;
  Origin origin;
  int64_t opset = 0;
  ModelInput input;
  std::string output;  // the first
  // Declared shape of the output, if the file states it wholly; open extents are -1.
  Shape output_shape;
  bool has_output_shape = false;
  // Nodes in topological order, without those that the output does not need.
  std::vector<const NodeProto*> nodes;
  absl::flat_hash_map<std::string, StoredTensor> initializers;
  std::vector<std::string> notes;
};

// InvalidArgument for anything that is wrong with it.
absl::StatusOr<Model> CheckModel(std::unique_ptr<const ModelProto> proto, Origin origin);

// "Conv 'features.0'" for messages; a node without a name is called by its first output.
std::string Describe(const NodeProto& node);

}  // namespace partita::onnx
