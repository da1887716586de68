#include "tests/fuzz/mutator.h"

#include <algorithm>
#include <cctype>

namespace partita {

int64_t Mutator::ExtremeInteger() {
  static constexpr int64_t kValues[] = {0,
                                        1,
                                        -1,
                                        2,
                                        3,
                                        7,
                                        -2,
                                        64,
                                        255,
                                        65'535,
                                        65'536,
                                        1 << 20,
                                        (1LL << 31),
                                        (1LL << 31) - 1,
                                        1LL << 32,
                                        1LL << 40,
                                        1LL << 46,
                                        1LL << 62,
                                        INT64_MAX,
                                        INT64_MIN,
                                        -(1LL << 31),
                                        1'000'000'007};
  return kValues[Below(std::size(kValues))];
}

void Mutator::MutateBytesOnce(std::string& bytes, const std::string& other) {
  const size_t at = Below(bytes.size());
  const size_t run = 1 + Below(Below(4) == 0 ? 1000 : 12);
  switch (Below(8)) {
    case 0:
      if (!bytes.empty()) bytes[at] = static_cast<char>(bytes[at] ^ (1 << Below(8)));
      break;
    case 1:
      for (size_t i = at; i < std::min(bytes.size(), at + run); ++i) {
        bytes[i] = static_cast<char>(random_());
      }
      break;
    case 2:
      bytes.resize(at);
      break;
    case 3:
      bytes.insert(at, std::string(run, static_cast<char>(random_())));
      break;
    case 4:
      bytes.erase(at, run);
      break;
    case 5:
      bytes.insert(at, bytes.substr(Below(bytes.size()), run));
      break;
    case 6: {  // a length field: behind most tags stands one
      static constexpr const char* kLengths[] = {"\xff\xff\xff\xff\x07",
                                                 "\xff\xff\xff\xff\x0f",
                                                 "\x80\x80\x80\x80\x08",
                                                 "\x7f",
                                                 "\xff\x7f",
                                                 "\x01"};
      const std::string length = kLengths[Below(std::size(kLengths))];
      bytes.replace(at, std::min(length.size(), bytes.size() - at), length);
      break;
    }
    default:
      bytes.insert(at, other.substr(Below(other.size()), run * 10));
      break;
  }
}

std::string Mutator::MutateBytes(std::string bytes, const std::string& other) {
  for (size_t n = 1 + Below(4); n > 0; --n) MutateBytesOnce(bytes, other);
  return bytes;
}

void Mutator::MutateTextOnce(std::string& text) {
  const auto line_at = [&](size_t at) {
    const size_t begin = text.rfind('\n', at);
    const size_t end = text.find('\n', at);
    return std::pair(begin == std::string::npos ? 0 : begin + 1,
                     end == std::string::npos ? text.size() : end + 1);
  };
  size_t at = Below(text.size());
  switch (Below(4)) {
    case 0:
    case 1: {  // the next number
      while (at < text.size() && !std::isdigit(static_cast<unsigned char>(text[at]))) ++at;
      size_t end = at;
      while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end]))) ++end;
      if (end > at) text.replace(at, end - at, std::to_string(ExtremeInteger()));
      break;
    }
    case 2: {
      const auto [begin, end] = line_at(at);
      text.erase(begin, end - begin);
      break;
    }
    default: {
      const auto [begin, end] = line_at(at);
      text.insert(line_at(Below(text.size())).first, text.substr(begin, end - begin));
      break;
    }
  }
}

std::string Mutator::MutateText(std::string text, const std::string& other) {
  for (size_t n = 1 + Below(4); n > 0; --n) {
    if (Below(3) == 0) {
      MutateBytesOnce(text, other);
    } else {
      MutateTextOnce(text);
    }
  }
  return text;
}

const std::string& Mutator::AnyName(const onnx::GraphProto& graph) {
  static const std::string kNone;
  const size_t kind = Below(3);
  if (kind == 0 && graph.initializer_size() > 0) {
    return graph.initializer(static_cast<int>(Below(graph.initializer().size()))).name();
  }
  if (kind == 1 && graph.input_size() > 0) return graph.input(0).name();
  if (graph.node_size() == 0) return kNone;
  const onnx::NodeProto& node = graph.node(static_cast<int>(Below(graph.node().size())));
  return node.output_size() > 0 ? node.output(0) : kNone;
}

void Mutator::MutateTensor(onnx::TensorProto& tensor) {
  switch (Below(6)) {
    case 0:
      tensor.add_dims(ExtremeInteger());
      break;
    case 1:
      if (tensor.dims_size() > 0) {
        tensor.set_dims(static_cast<int>(Below(tensor.dims().size())), ExtremeInteger());
      }
      break;
    case 2:
      tensor.set_data_type(static_cast<int32_t>(Below(30)));
      break;
    case 3:
      tensor.clear_raw_data();
      break;
    case 4:
      tensor.set_data_location(static_cast<int32_t>(Below(3)));
      break;
    default:
      if (tensor.dims_size() > 1) tensor.mutable_dims()->SwapElements(0, tensor.dims_size() - 1);
      break;
  }
}

void Mutator::MutateAttribute(onnx::AttributeProto& attribute) {
  switch (Below(5)) {
    case 0:
      attribute.set_i(ExtremeInteger());
      break;
    case 1:
      if (attribute.ints_size() > 0) {
        attribute.set_ints(static_cast<int>(Below(attribute.ints().size())), ExtremeInteger());
      }
      break;
    case 2:
      attribute.set_f(static_cast<float>(ExtremeInteger()));
      break;
    case 3:
      attribute.set_type(static_cast<int32_t>(Below(12)));
      break;
    default:
      if (attribute.has_t()) {
        MutateTensor(*attribute.mutable_t());
      } else {
        attribute.add_ints(ExtremeInteger());
      }
      break;
  }
}

void Mutator::MutateNode(onnx::GraphProto& graph) {
  static constexpr const char* kOperators[] = {
      "Reshape", "Concat",    "Slice",  "Transpose",  "Expand",  "Flatten",
      "Add",     "MatMul",    "Gemm",   "Conv",       "Softmax", "ReduceMean",
      "Squeeze", "Unsqueeze", "Gather", "Identity",   "Shape",   "Pad",
      "LRN",     "MaxPool",   "Cast",   "CastLike",   "Range",   "ConstantOfShape",
      "Div",     "Dropout",   "Erf",    "LogSoftmax", "Sqrt",    "BatchNormalization"};
  if (graph.node_size() == 0) return;
  onnx::NodeProto& node = *graph.mutable_node(static_cast<int>(Below(graph.node().size())));
  switch (Below(6)) {
    case 0:
      node.set_op_type(kOperators[Below(std::size(kOperators))]);
      break;
    case 1:
      if (node.input_size() > 0) {
        node.set_input(static_cast<int>(Below(node.input().size())), AnyName(graph));
      }
      break;
    case 2:
      node.add_input(AnyName(graph));
      break;
    case 3:
      if (node.output_size() > 0) node.set_output(0, AnyName(graph));
      break;
    case 4:
      if (node.input_size() > 0) node.mutable_input()->RemoveLast();
      break;
    default:
      if (node.attribute_size() > 0) {
        MutateAttribute(*node.mutable_attribute(static_cast<int>(Below(node.attribute().size()))));
      }
      break;
  }
}

void Mutator::MutateGraph(onnx::GraphProto& graph) {
  const auto last = graph.node_size() - 1;
  switch (Below(10)) {
    case 0:
      if (last >= 0)
        graph.mutable_node()->SwapElements(static_cast<int>(Below(graph.node().size())), last);
      break;
    case 1:
      if (last >= 0) graph.mutable_node()->RemoveLast();
      break;
    case 2:
      if (last >= 0) *graph.add_node() = graph.node(static_cast<int>(Below(graph.node().size())));
      break;
    case 3:
    case 4:
      if (graph.initializer_size() > 0) {
        MutateTensor(
            *graph.mutable_initializer(static_cast<int>(Below(graph.initializer().size()))));
      }
      break;
    case 5:
      if (graph.input_size() > 0 && graph.input(0).type().tensor_type().shape().dim_size() > 0) {
        auto* shape =
            graph.mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
        shape->mutable_dim(static_cast<int>(Below(shape->dim().size())))
            ->set_dim_value(ExtremeInteger());
      }
      break;
    default:
      MutateNode(graph);
      break;
  }
}

std::string Mutator::MutateModel(onnx::ModelProto model) {
  for (size_t n = 1 + Below(3); n > 0; --n) MutateGraph(*model.mutable_graph());
  return model.SerializeAsString();
}

}  // namespace partita
