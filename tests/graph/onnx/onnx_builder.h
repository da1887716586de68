#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "proto/onnx/onnx.pb.h"

namespace partita {

// Writes small ONNX models for tests: input x, output y unless set otherwise.
class OnnxBuilder {
 public:
  explicit OnnxBuilder(std::vector<int64_t> input_shape, int64_t opset = 18) {
    model_.set_ir_version(8);
    model_.add_opset_import()->set_version(opset);
    *graph().add_input() = ValueInfo("x", 1, input_shape);
    graph().add_output()->set_name("y");
  }

  onnx::ModelProto& model() { return model_; }
  onnx::GraphProto& graph() { return *model_.mutable_graph(); }
  std::string bytes() const { return model_.SerializeAsString(); }

  // An extent of -1 is open.
  static onnx::ValueInfoProto ValueInfo(const std::string& name, int type,
                                        const std::vector<int64_t>& shape) {
    onnx::ValueInfoProto value;
    value.set_name(name);
    auto* tensor = value.mutable_type()->mutable_tensor_type();
    tensor->set_elem_type(type);
    for (int64_t extent : shape) {
      auto* dim = tensor->mutable_shape()->add_dim();
      if (extent < 0) {
        dim->set_dim_param("n");
      } else {
        dim->set_dim_value(extent);
      }
    }
    return value;
  }

  onnx::NodeProto& Node(const std::string& op, const std::vector<std::string>& inputs,
                        const std::vector<std::string>& outputs, const std::string& name = "") {
    onnx::NodeProto& node = *graph().add_node();
    node.set_op_type(op);
    node.set_name(name);
    for (const std::string& input : inputs) node.add_input(input);
    for (const std::string& output : outputs) node.add_output(output);
    return node;
  }

  // An attribute without a value yet, by the number of its type.
  static onnx::AttributeProto& Attribute(onnx::NodeProto& node, const std::string& name, int type) {
    onnx::AttributeProto& attribute = *node.add_attribute();
    attribute.set_name(name);
    attribute.set_type(type);
    return attribute;
  }
  static void Int(onnx::NodeProto& node, const std::string& name, int64_t value) {
    Attribute(node, name, 2).set_i(value);
  }
  static void Ints(onnx::NodeProto& node, const std::string& name,
                   std::initializer_list<int64_t> values) {
    onnx::AttributeProto& attribute = Attribute(node, name, 7);
    for (int64_t value : values) attribute.add_ints(value);
  }

  // A float weight of zeros.
  onnx::TensorProto& Weight(const std::string& name, const std::vector<int64_t>& shape) {
    int64_t volume = 1;
    for (int64_t extent : shape) volume *= extent;
    onnx::TensorProto& tensor = *graph().add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(1);
    for (int64_t extent : shape) tensor.add_dims(extent);
    tensor.set_raw_data(std::string(static_cast<size_t>(volume) * 4, '\0'));
    return tensor;
  }

  onnx::TensorProto& Integers(const std::string& name, std::initializer_list<int64_t> values) {
    onnx::TensorProto& tensor = *graph().add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(7);
    tensor.add_dims(static_cast<int64_t>(values.size()));
    for (int64_t value : values) tensor.add_int64_data(value);
    return tensor;
  }

  static void MakeExternal(onnx::TensorProto& tensor, const std::string& location, int64_t offset,
                           int64_t length) {
    tensor.clear_raw_data();
    tensor.set_data_location(1);
    const auto add = [&tensor](const std::string& key, const std::string& value) {
      auto* entry = tensor.add_external_data();
      entry->set_key(key);
      entry->set_value(value);
    };
    add("location", location);
    add("offset", std::to_string(offset));
    add("length", std::to_string(length));
  }

 private:
  onnx::ModelProto model_;
};

}  // namespace partita
