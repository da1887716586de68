// Models that are wrong or unusual in one way each: what is said about them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "absl/strings/str_cat.h"
#include "graph/model/model_summary.h"
#include "graph/onnx/import.h"
#include "tests/graph/onnx/onnx_builder.h"

namespace partita {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

absl::StatusOr<ImportedModel> Import(const OnnxBuilder& model, const ImportOptions& options = {}) {
  return ImportOnnxBytes(model.bytes(), "test.onnx", options);
}

// A linear layer on x[4, 6].
OnnxBuilder Linear() {
  OnnxBuilder model({4, 6});
  model.Weight("w", {6, 3});
  model.Node("MatMul", {"x", "w"}, {"y"}, "product");
  return model;
}

struct BadCase {
  const char* name;
  std::function<void(OnnxBuilder&)> damage;  // of Linear()
  const char* message;
};

const BadCase kBadCases[] = {
    {"Cycle",
     [](OnnxBuilder& m) {
       m.graph().mutable_node(0)->set_output(0, "a");
       m.Node("Add", {"a", "b"}, {"c"}, "first");
       m.Node("Relu", {"c"}, {"b"}, "second");
       m.Node("Relu", {"b"}, {"y"}, "third");
     },
     "the graph has a cycle; Add 'first'"},
    {"SelfLoop", [](OnnxBuilder& m) { m.graph().mutable_node(0)->set_input(0, "y"); },
     "the graph has a cycle"},
    {"UndefinedInput", [](OnnxBuilder& m) { m.graph().mutable_node(0)->set_input(1, "v"); },
     "MatMul 'product' reads 'v', which nothing defines"},
    {"GatherWithoutIndices",
     [](OnnxBuilder& m) {
       m.Node("Gather", {"w"}, {"z"}, "rows");
       m.Node("Add", {"y", "z"}, {"s"});
       m.graph().mutable_output(0)->set_name("s");
     },
     "input 1 is missing"},
    {"TwoProducers", [](OnnxBuilder& m) { m.Node("Relu", {"x"}, {"y"}, "other"); },
     "'y', which Relu 'other' computes, is defined twice"},
    {"InputComputed", [](OnnxBuilder& m) { m.Node("Relu", {"y"}, {"x"}, "other"); },
     "'x', which Relu 'other' computes, is defined twice"},
    {"TwoInitializers", [](OnnxBuilder& m) { m.Weight("w", {6, 3}); },
     "two initializers are named 'w'"},
    {"NegativeExtent", [](OnnxBuilder& m) { m.graph().mutable_initializer(0)->set_dims(0, -6); },
     "extent -6"},
    {"HugeTensor",
     [](OnnxBuilder& m) {
       m.graph().mutable_initializer(0)->set_dims(0, 1 << 30);
       m.graph().mutable_initializer(0)->set_dims(1, 1 << 30);
     },
     "more than 2^40 elements"},
    {"TooLittleData",
     [](OnnxBuilder& m) { m.graph().mutable_initializer(0)->mutable_raw_data()->resize(7); },
     "tensor 'w': it has 7 bytes of data; shape [6,3] of float needs 72"},
    {"NoData", [](OnnxBuilder& m) { m.graph().mutable_initializer(0)->clear_raw_data(); },
     "it has 0 values; shape [6,3] needs 18"},
    {"UnknownType", [](OnnxBuilder& m) { m.graph().mutable_initializer(0)->set_data_type(99); },
     "type 99 is unknown"},
    {"WrongShape",
     [](OnnxBuilder& m) {
       m.graph().mutable_input(0)->Clear();
       m.graph().clear_input();
       *m.graph().add_input() = OnnxBuilder::ValueInfo("x", 1, {4, 7});
     },
     "does not fit weight [6,3]"},
    {"NoInput", [](OnnxBuilder& m) { m.graph().clear_input(); }, "the model has no input"},
    {"TwoInputs",
     [](OnnxBuilder& m) { *m.graph().add_input() = OnnxBuilder::ValueInfo("z", 1, {1}); },
     "the model has 2 inputs ('x', 'z', ...)"},
    {"EmptyInput",
     [](OnnxBuilder& m) {
       m.graph().clear_input();
       *m.graph().add_input() = OnnxBuilder::ValueInfo("x", 1, {4, 0});
     },
     "has no elements"},
    {"OpenSize",
     [](OnnxBuilder& m) {
       m.graph().clear_input();
       *m.graph().add_input() = OnnxBuilder::ValueInfo("x", 1, {4, -1});
     },
     "-1 is open; only the first may be"},
    {"NoOutput", [](OnnxBuilder& m) { m.graph().clear_output(); }, "the model has no output"},
    {"OutputNotComputed", [](OnnxBuilder& m) { m.graph().mutable_output(0)->set_name("z"); },
     "no node computes the output 'z'"},
    {"OutputMistyped",
     [](OnnxBuilder& m) { *m.graph().mutable_output(0) = OnnxBuilder::ValueInfo("y", 1, {4, 5}); },
     "output 'y' is declared as [4,5] but computed as [4,3]"},
    {"NoGraph", [](OnnxBuilder& m) { m.model().clear_graph(); }, "the model has no graph"},
    {"OldOpset", [](OnnxBuilder& m) { m.model().mutable_opset_import(0)->set_version(6); },
     "uses opset 6; the oldest that is read is 7"},
    {"Functions", [](OnnxBuilder& m) { m.model().add_functions("f"); }, "defines 1 functions"},
    {"NoOperator", [](OnnxBuilder& m) { m.graph().mutable_node(0)->clear_op_type(); },
     "node 0 names no operator"},
    {"ConstantOutput",
     [](OnnxBuilder& m) {
       m.graph().clear_node();
       m.Integers("i", {1, 2});
       m.Node("Identity", {"i"}, {"y"});
     },
     "does not depend on the input"},
    {"OutputOfWeightsAlone",
     [](OnnxBuilder& m) {
       m.graph().clear_node();
       m.Node("Relu", {"w"}, {"y"});
     },
     "output 'y' does not depend on the input"},
    {"OutputOfTheInputsShapeAndWeights",
     [](OnnxBuilder& m) {
       m.graph().clear_node();
       m.Weight("v", {4, 6});
       m.Node("Shape", {"x"}, {"s"});
       m.Node("Reshape", {"v", "s"}, {"r"});
       m.Node("Relu", {"r"}, {"y"});
     },
     "output 'y' does not depend on the input"},
    {"UnreadInputWithoutType",
     [](OnnxBuilder& m) {
       m.graph().clear_node();
       m.graph().mutable_input(0)->mutable_type()->mutable_tensor_type()->set_elem_type(0);
       m.Node("Relu", {"w"}, {"y"});
     },
     "output 'y' does not depend on the input"},
};

TEST(BadModelTest, EachFaultIsNamed) {
  for (const BadCase& bad : kBadCases) {
    SCOPED_TRACE(bad.name);
    OnnxBuilder model = Linear();
    ASSERT_TRUE(Import(model).ok()) << Import(model).status();
    bad.damage(model);
    const auto imported = Import(model);
    EXPECT_EQ(imported.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(imported.status().message(), HasSubstr(bad.message));
    EXPECT_THAT(imported.status().message(), HasSubstr("'test.onnx'"));
  }
}

TEST(BadModelTest, AttributesOfTheWrongTypeOrSizeAreNamed) {
  const auto import_pool = [](const std::function<void(onnx::NodeProto&)>& set) {
    OnnxBuilder model({1, 1, 8, 8});
    onnx::NodeProto& pool = model.Node("MaxPool", {"x"}, {"y"}, "pool");
    OnnxBuilder::Ints(pool, "kernel_shape", {2, 2});
    set(pool);
    return Import(model).status();
  };
  EXPECT_TRUE(import_pool([](auto&) {}).ok());
  EXPECT_THAT(import_pool([](auto& n) { OnnxBuilder::Ints(n, "strides", {0, 2}); }).message(),
              HasSubstr("attribute 'strides' has value 0; valid are 1 to 65536"));
  EXPECT_THAT(import_pool([](auto& n) { OnnxBuilder::Ints(n, "strides", {2}); }).message(),
              HasSubstr("two strides"));
  EXPECT_THAT(import_pool([](auto& n) { OnnxBuilder::Ints(n, "kernel_shape", {2, 2}); }).message(),
              HasSubstr("'kernel_shape' is given twice"));
  EXPECT_THAT(import_pool([](auto& n) { OnnxBuilder::Attribute(n, "pads", 1); }).message(),
              HasSubstr("attribute 'pads' has type 1; wanted type 7"));
  EXPECT_THAT(import_pool([](auto& n) { OnnxBuilder::Ints(n, "pads", {9, 9, 9, 9}); }).message(),
              HasSubstr("MaxPool 'pool'"));
}

TEST(BadModelTest, UnsupportedOperatorsComeWithNodeAndReason) {
  OnnxBuilder model({2, 3, 8});
  model.Weight("w", {4, 3, 3});
  model.Node("Conv", {"x", "w"}, {"a"}, "line");
  model.Node("Softplus", {"a"}, {"b"}, "softplus");
  model.Node("Relu", {"b"}, {"c"}, "fine");
  model.Node("Fancy", {"c"}, {"y"}, "own").set_domain("com.example");
  const auto imported = Import(model);
  EXPECT_THAT(UnsupportedOperators(imported.status()),
              ElementsAre(HasSubstr("Conv 'line' (opset 18): with a weight [4,3,3]"),
                          "Softplus 'softplus' (opset 18)", "com.example::Fancy 'own' (opset 18)"));
  EXPECT_THAT(UnsupportedOperators(Import(Linear()).status()), IsEmpty());
  EXPECT_THAT(UnsupportedOperators(absl::InvalidArgumentError("another")), IsEmpty());
}

TEST(BadModelTest, UnsupportedOperatorsAreGroupedWithAdvice) {
  OnnxBuilder model({2, 3});
  std::string before = "x";
  for (const char* op : {"Softplus", "QuantizeLinear", "Softplus", "If", "Softplus", "GRU"}) {
    const std::string after = absl::StrCat("v", model.graph().node_size());
    model.Node(op, {before}, {after}, absl::StrCat(op, "_", after));
    before = after;
  }
  model.Node("Fancy", {before}, {"y"}, "own").set_domain("com.example");
  const std::string text(Import(model).status().message());
  EXPECT_THAT(text, HasSubstr("not supported (7 nodes, 5 operators):\n"
                              "  Softplus, 3 nodes: first Softplus 'Softplus_v0' (opset 18)"));
  EXPECT_THAT(text, HasSubstr("QuantizeLinear_v1' (opset 18). Try: export the model before"));
  EXPECT_THAT(text, HasSubstr("If, 1 node: If 'If_v3' (opset 18). Try: control flow"));
  EXPECT_THAT(text, HasSubstr("LSTM is the recurrent layer"));
  EXPECT_THAT(text, HasSubstr("it is of domain 'com.example'"));
  EXPECT_EQ(UnsupportedOperators(Import(model).status()).size(), 7u);
}

TEST(BadModelTest, AReshapeThatCannotBeSplitIsUnsupported) {
  OnnxBuilder model({4, 6});
  model.Integers("s", {6, 4});
  model.Node("Reshape", {"x", "s"}, {"y"}, "view");
  EXPECT_THAT(UnsupportedOperators(Import(model).status()),
              ElementsAre(HasSubstr("Reshape 'view' (opset 18): reshape: [4,6] to [6,4]")));
}

TEST(BadModelTest, OutputsThatAreNotComputedAreNamedWhereTheyAreRead) {
  OnnxBuilder model({1, 1, 8, 8});
  OnnxBuilder::Ints(model.Node("MaxPool", {"x"}, {"p", "indices"}, "pool"), "kernel_shape", {2, 2});
  model.Node("Add", {"p", "indices"}, {"y"}, "sum");
  EXPECT_THAT(UnsupportedOperators(Import(model).status()),
              ElementsAre(HasSubstr("Add 'sum' (opset 18): it reads output 1 of MaxPool 'pool'")));
}

TEST(BadModelTest, IntegerInputsAreNamed) {
  OnnxBuilder model({4, 6});
  *model.graph().mutable_input(0) = OnnxBuilder::ValueInfo("x", 7, {4, 6});
  model.Node("Relu", {"x"}, {"y"}, "relu");
  EXPECT_THAT(UnsupportedOperators(Import(model).status()),
              ElementsAre(HasSubstr("input 0 ('x') holds integers")));
}

TEST(UnusualModelTest, NodesOutOfOrderAreSorted) {
  OnnxBuilder model({4, 6});
  model.Node("Relu", {"b"}, {"y"}, "third");
  model.Node("Relu", {"a"}, {"b"}, "second");
  model.Node("Relu", {"x"}, {"a"}, "first");
  const auto imported = Import(model);
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_EQ(imported->graph.ops()[0].name, "first");
  EXPECT_THAT(imported->notes, Contains(HasSubstr("sorted")));
}

TEST(UnusualModelTest, WhatTheOutputDoesNotNeedIsLeftOut) {
  OnnxBuilder model = Linear();
  model.Node("Softplus", {"x"}, {"z"}, "unused");
  model.graph().add_output()->set_name("z");
  const auto imported = Import(model);
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_THAT(imported->notes, Contains(HasSubstr("of 2 outputs the first, 'y'")));
  EXPECT_THAT(imported->notes, Contains(HasSubstr("1 nodes that 'y' does not need")));
}

TEST(UnusualModelTest, AnOpenBatchIs64OrAsAsked) {
  OnnxBuilder model({-1, 6});
  model.Weight("w", {6, 3});
  model.Node("MatMul", {"x", "w"}, {"y"});
  EXPECT_EQ(Import(model)->graph.batch(), 64);
  EXPECT_THAT(Import(model)->notes, Contains(HasSubstr("a batch of 64 is assumed")));
  EXPECT_EQ(Import(model, {.batch = 9})->graph.batch(), 9);
  EXPECT_THAT(Import(model, {.batch = 9})->notes, Not(Contains(HasSubstr("batch"))));
  EXPECT_FALSE(Import(model, {.batch = -2}).ok());
}

TEST(UnusualModelTest, ReshapeTargetsFollowTheBatch) {
  const struct {
    std::vector<int64_t> target;
    Shape wanted;  // for batch 3; empty: an error
  } kCases[] = {
      {{4, 30}, {3, 30}}, {{4, -1}, {3, 30}},           {{-1, 30}, {3, 30}}, {{0, 30}, {3, 30}},
      {{20, 6}, {15, 6}}, {{4, 5, 2, 3}, {3, 5, 2, 3}}, {{1, 120}, {}},      {{2, 60}, {}},
  };
  for (const auto& c : kCases) {
    OnnxBuilder model({4, 5, 6});
    auto& target = model.Integers("s", {});
    target.set_dims(0, static_cast<int64_t>(c.target.size()));
    for (int64_t extent : c.target) target.add_int64_data(extent);
    model.Node("Reshape", {"x", "s"}, {"y"}, "view");
    ASSERT_TRUE(Import(model).ok()) << Import(model).status();
    const auto imported = Import(model, {.batch = 3});
    EXPECT_EQ(imported.ok(), !c.wanted.empty()) << imported.status();
    if (!imported.ok()) continue;
    EXPECT_EQ(imported->graph.WholeType(TensorRole::kLogits).shape, c.wanted);
  }
}

TEST(UnusualModelTest, SharedWeightsAreTrainedAsOne) {
  OnnxBuilder model({4, 6});
  model.Weight("w", {6, 6});
  model.Node("MatMul", {"x", "w"}, {"a"});
  model.Node("MatMul", {"a", "w"}, {"y"});
  const auto imported = Import(model);
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_EQ(Summarize(imported->graph).parameters, 36);
  EXPECT_THAT(imported->notes, Contains(HasSubstr("'w' serves 2 operators")));
}

TEST(UnusualModelTest, DropoutInInferenceFormDrops) {
  OnnxBuilder model({4, 6});
  model.Node("Dropout", {"x"}, {"y"}, "drop");
  const auto imported = Import(model);
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_EQ(ToString(imported->graph.ops()[0].attrs), "dropout ratio=0.5");
  EXPECT_THAT(imported->notes, Contains(HasSubstr("Dropout 'drop': has inference form")));
}

TEST(UnusualModelTest, NamesThatClashAreMadeUnique) {
  OnnxBuilder model({4, 6});
  model.Weight("relu", {6});
  model.Node("Relu", {"x"}, {"a"}, "relu");
  model.Node("Add", {"a", "relu"}, {"b"}, "relu");
  model.Node("Relu", {"b"}, {"y"}, "x");
  const auto imported = Import(model);
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_EQ(imported->graph.ops()[0].name, "relu_2");
  EXPECT_EQ(imported->graph.ops()[1].name, "relu_3");
  EXPECT_EQ(imported->graph.ops()[2].name, "x_2");
}

TEST(UnusualModelTest, AVeryDeepModelIsReadInTime) {
  OnnxBuilder model({4, 6});
  constexpr int kDepth = 20'000;
  for (int i = 0; i < kDepth; ++i) {
    model.Node("Relu", {i == 0 ? "x" : absl::StrCat("v", i)},
               {i + 1 == kDepth ? "y" : absl::StrCat("v", i + 1)});
  }
  const std::clock_t start = std::clock();
  const auto imported = Import(model);
  EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, 2.0);
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_EQ(imported->graph.ops().size(), static_cast<size_t>(kDepth));
}

class SideFileTest : public testing::Test {
 protected:
  SideFileTest() : model_(Linear()) {
    folder_ = std::filesystem::temp_directory_path() /
              ("partita_side_file_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_ / "model");
    OnnxBuilder::MakeExternal(*model_.graph().mutable_initializer(0), "w.bin", 8, 72);
  }
  ~SideFileTest() override { std::filesystem::remove_all(folder_); }

  absl::StatusOr<ImportedModel> Import() {
    std::ofstream(folder_ / "model/net.onnx", std::ios::binary) << model_.bytes();
    return ImportOnnx((folder_ / "model/net.onnx").string());
  }
  void Write(const std::string& file, size_t floats) {
    std::ofstream out(folder_ / file, std::ios::binary);
    for (size_t i = 0; i < floats; ++i) {
      const auto value = static_cast<float>(i);
      out.write(reinterpret_cast<const char*>(&value), sizeof(value));
    }
  }

  OnnxBuilder model_;
  std::filesystem::path folder_;
};

TEST_F(SideFileTest, ValuesAreReadFromWhereTheyAre) {
  Write("model/w.bin", 20);
  const auto imported = Import();
  ASSERT_TRUE(imported.ok()) << imported.status();
  const Weight& weight = imported->graph.weights()[0];
  ASSERT_NE(weight.values, nullptr);
  EXPECT_EQ(weight.values->front(), 2.0f);
  EXPECT_EQ(weight.values->back(), 19.0f);
  EXPECT_EQ(imported->graph.name(), "net");
}

TEST_F(SideFileTest, AnAbsentFileLeavesInitialValues) {
  const auto imported = Import();
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_EQ(imported->graph.weights()[0].values, nullptr);
  EXPECT_THAT(imported->notes, Contains(HasSubstr("the values of 1 weights are not there")));
}

TEST_F(SideFileTest, AShortFileIsAnError) {
  Write("model/w.bin", 19);
  EXPECT_THAT(Import().status().message(), HasSubstr("ends at byte 76, before byte 8 + 72"));
}

TEST_F(SideFileTest, LinksThatLeadOutAreRefused) {
  Write("w.bin", 20);
  std::filesystem::create_symlink(folder_ / "w.bin", folder_ / "model/w.bin");
  EXPECT_THAT(Import().status().message(), HasSubstr("leads out of the model's folder"));
}

}  // namespace
}  // namespace partita
