#include <cstring>

#include "absl/strings/str_cat.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/model_inputs.h"
#include "tests/graph/onnx/onnx_builder.h"

namespace partita {
namespace {

// A type of ONNX's tensors, with its number 1.
struct TypeOfOne {
  int type;
  std::string one;  // bytes
};

std::vector<TypeOfOne> RealTypes() {
  return {{1, RawBytes(1.0F)},
          {11, RawBytes(1.0)},
          {10, RawBytes(uint16_t{0x3c00})},
          {16, RawBytes(uint16_t{0x3f80})}};
}

std::vector<TypeOfOne> AllTypes() {
  std::vector<TypeOfOne> types = RealTypes();
  for (const int type : {2, 3, 9}) types.push_back({type, RawBytes(uint8_t{1})});
  for (const int type : {4, 5}) types.push_back({type, RawBytes(uint16_t{1})});
  for (const int type : {6, 12}) types.push_back({type, RawBytes(1)});
  for (const int type : {7, 13}) types.push_back({type, RawBytes(int64_t{1})});
  return types;
}

// A constant of two ones: as bytes, or in the list that the type has.
void AddOnes(OnnxBuilder& builder, const std::string& name, const TypeOfOne& type, bool as_bytes) {
  onnx::NodeProto& node = builder.Node("Constant", {}, {name});
  onnx::TensorProto& tensor = *OnnxBuilder::Attribute(node, "value", 4).mutable_t();
  tensor.set_data_type(type.type);
  tensor.add_dims(2);
  if (as_bytes) {
    tensor.set_raw_data(type.one + type.one);
    return;
  }
  for (int k = 0; k < 2; ++k) {
    uint16_t half = 0;
    std::memcpy(&half, type.one.data(), type.type == 10 || type.type == 16 ? sizeof half : 0);
    switch (type.type) {
      case 1:
        tensor.add_float_data(1);
        break;
      case 11:
        tensor.add_double_data(1);
        break;
      case 7:
        tensor.add_int64_data(1);
        break;
      case 12:
      case 13:
        tensor.add_uint64_data(1);
        break;
      default:
        tensor.add_int32_data(half != 0 ? half : 1);
        break;
    }
  }
}

// y, from x in a shape.
void Finish(OnnxBuilder& builder, const std::string& shape) {
  builder.Node("Reshape", {"x", shape}, {"reshaped"});
  builder.Node("Relu", {"reshaped"}, {"y"});
}

// x [4, 6] reshaped to [4, 6], times ones of each type.
std::string ShapeOfAllTypes(bool as_bytes) {
  OnnxBuilder builder({4, 6});
  builder.Integers("shape", {4, 6});
  std::string shape = "shape";
  for (const TypeOfOne& type : AllTypes()) {
    const std::string name = absl::StrCat("ones", type.type);
    AddOnes(builder, name, type, as_bytes);
    OnnxBuilder::Int(builder.Node("Cast", {name}, {name + "i"}), "to", 7);
    builder.Node("Mul", {shape, name + "i"}, {name + "s"});
    shape = name + "s";
  }
  Finish(builder, shape);
  return builder.bytes();
}

// [4, 6] by arithmetic on integers and floats.
std::string ShapeByArithmetic() {
  OnnxBuilder builder({4, 6});
  for (const auto& [name, value] : {std::pair("one", 1), std::pair("two", 2), std::pair("six", -6),
                                    std::pair("forty", 40), std::pair("minus", -1)}) {
    builder.Integers(name, {value});
  }
  builder.Node("Add", {"one", "two"}, {"three"});
  builder.Node("Mul", {"three", "three"}, {"nine"});
  builder.Node("Sub", {"forty", "nine"}, {"left"});  // 31
  builder.Node("Div", {"left", "two"}, {"half"});    // 15
  builder.Node("Add", {"half", "one"}, {"sixteen"});
  OnnxBuilder::Int(builder.Node("Cast", {"sixteen"}, {"real"}), "to", 1);
  builder.Node("Sqrt", {"real"}, {"root"});
  builder.Node("Sub", {"root", "root"}, {"zero"});
  builder.Node("Add", {"root", "zero"}, {"sum"});
  builder.Node("Div", {"real", "sum"}, {"quotient"});
  builder.Node("Floor", {"quotient"}, {"floor"});
  builder.Node("CastLike", {"floor", "one"}, {"rows"});
  builder.Node("Neg", {"six"}, {"negated"});
  builder.Node("Div", {"negated", "minus"}, {"again"});
  builder.Node("Neg", {"again"}, {"columns"});
  OnnxBuilder::Int(builder.Node("Concat", {"rows", "columns"}, {"shape"}), "axis", 0);
  Finish(builder, "shape");
  return builder.bytes();
}

// [4, 6] as a range, and by way of how many elements there are.
std::string ShapeByCounting() {
  OnnxBuilder builder({4, 6});
  for (const auto& [name, value] :
       {std::pair("four", 4), std::pair("eight", 8), std::pair("two", 2)}) {
    builder.Integers(name, {value});
  }
  builder.Node("Range", {"four", "eight", "two"}, {"range"});
  builder.Node("Size", {"x"}, {"size"});  // 24
  builder.Node("Div", {"size", "four"}, {"six"});
  OnnxBuilder::Int(builder.Node("Concat", {"four", "six"}, {"other"}), "axis", 0);
  builder.Node("Reshape", {"x", "other"}, {"same"});
  builder.Node("Relu", {"same"}, {"relu"});
  builder.Node("Reshape", {"relu", "range"}, {"again"});
  builder.Node("Relu", {"again"}, {"y"});
  return builder.bytes();
}

// [4, 6] by way of other shapes.
std::string ShapeByShapes() {
  OnnxBuilder builder({4, 6});
  builder.Integers("numbers", {4, 6});
  builder.Integers("zero", {0});
  builder.Integers("column", {2, 1});
  builder.Integers("row", {0, -1});
  builder.Node("Identity", {"numbers"}, {"same"});
  builder.Node("Unsqueeze", {"same", "zero"}, {"unsqueezed"});  // [1, 2]
  OnnxBuilder::Int(builder.Node("Flatten", {"unsqueezed"}, {"flat"}), "axis", 1);
  builder.Node("Reshape", {"flat", "column"}, {"tall"});  // [2, 1]
  builder.Node("Reshape", {"tall", "row"}, {"taller"});
  builder.Node("Squeeze", {"taller"}, {"shape"});
  Finish(builder, "shape");
  return builder.bytes();
}

}  // namespace

std::string OnnxWithLstm() {
  OnnxBuilder builder({3, 2, 4});
  builder.Weight("w", {1, 20, 4});
  builder.Weight("r", {1, 20, 5});
  builder.Weight("b", {1, 40});
  onnx::TensorProto& lengths = *builder.graph().add_initializer();
  lengths.set_name("lengths");
  lengths.set_data_type(6);
  lengths.add_dims(2);
  for (int sample = 0; sample < 2; ++sample) lengths.add_int32_data(3);
  onnx::NodeProto& node = builder.Node("LSTM", {"x", "w", "r", "b", "lengths"}, {"y"}, "cell");
  OnnxBuilder::Int(node, "hidden_size", 5);
  OnnxBuilder::Int(node, "layout", 0);
  OnnxBuilder::Int(node, "input_forget", 0);
  OnnxBuilder::Attribute(node, "direction", 3).set_s("forward");
  onnx::AttributeProto& activations = OnnxBuilder::Attribute(node, "activations", 8);
  for (const char* name : {"Sigmoid", "Tanh", "Tanh"}) activations.add_strings(name);
  return builder.bytes();
}

std::vector<std::string> OnnxOfConstants() {
  return {ShapeOfAllTypes(true), ShapeOfAllTypes(false), ShapeByArithmetic(), ShapeByShapes(),
          ShapeByCounting()};
}

std::vector<std::string> OnnxWithSideFile(const std::string& side_file) {
  OnnxBuilder builder({4, 6});
  std::string values, last = "x";
  for (const TypeOfOne& type : RealTypes()) {
    const std::string name = absl::StrCat("layer", type.type);
    onnx::TensorProto& weight = builder.Weight(name + ".weight", {6, 6});
    weight.set_data_type(type.type);
    const size_t begin = values.size();
    for (int k = 0; k < 36; ++k) values += type.one;
    OnnxBuilder::MakeExternal(weight, side_file, static_cast<int64_t>(begin),
                              static_cast<int64_t>(values.size() - begin));
    builder.Weight(name + ".bias", {6});
    const std::string result = type.type == 16 ? "y" : name;
    OnnxBuilder::Int(builder.Node("Gemm", {last, name + ".weight", name + ".bias"}, {result}),
                     "transB", 1);
    last = result;
  }
  return {builder.bytes(), values};
}

std::string OnnxWithBatchNorm() {
  OnnxBuilder builder({4, 2, 4, 4});
  builder.Weight("conv.weight", {3, 2, 3, 3});
  for (const char* name : {"scale", "bias", "mean", "variance"}) {
    builder.Weight(absl::StrCat("norm.", name), {3});
  }
  builder.Weight("out.weight", {5, 48}).set_raw_data(std::string(5 * 48 * 4, '\x3f'));
  builder.Weight("out.bias", {5});
  OnnxBuilder::Ints(builder.Node("Conv", {"x", "conv.weight"}, {"c"}), "pads", {1, 1, 1, 1});
  builder.Node("BatchNormalization", {"c", "norm.scale", "norm.bias", "norm.mean", "norm.variance"},
               {"n"});
  builder.Node("Relu", {"n"}, {"r"});
  OnnxBuilder::Int(builder.Node("Flatten", {"r"}, {"f"}), "axis", 1);
  OnnxBuilder::Int(builder.Node("Gemm", {"f", "out.weight", "out.bias"}, {"y"}), "transB", 1);
  return builder.bytes();
}

}  // namespace partita
