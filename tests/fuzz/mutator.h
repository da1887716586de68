#pragma once

#include <google/protobuf/message.h>

#include <cstdint>
#include <random>
#include <string>

#include "proto/onnx/onnx.pb.h"

namespace partita {

// Damages files and messages for robustness tests; the same seed, the same damage.
class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}

  // Flips, overwrites, truncations, insertions, deletions, repetitions, length fields and pieces of
  // `other`, one to four of them.
  std::string MutateBytes(std::string bytes, const std::string& other);
  // Numbers replaced by extreme ones, lines dropped, repeated or swapped, else as bytes.
  std::string MutateText(std::string text, const std::string& other);
  // Well-formed ONNX with wrong content: shapes, types, attributes, names, nodes.
  std::string MutateModel(onnx::ModelProto model);
  // One to four fields of a protobuf, at any depth, set, cleared, repeated, swapped or removed.
  void MutateMessage(google::protobuf::Message& message);

  size_t Below(size_t limit) { return limit == 0 ? 0 : random_() % limit; }
  int64_t ExtremeInteger();
  std::mt19937_64& random() { return random_; }

 private:
  void MutateBytesOnce(std::string& bytes, const std::string& other);
  void MutateTextOnce(std::string& text);
  void MutateNode(onnx::GraphProto& graph);
  void MutateTensor(onnx::TensorProto& tensor);
  void MutateAttribute(onnx::AttributeProto& attribute);
  void MutateGraph(onnx::GraphProto& graph);
  const std::string& AnyName(const onnx::GraphProto& graph);

  std::mt19937_64 random_;
};

}  // namespace partita
