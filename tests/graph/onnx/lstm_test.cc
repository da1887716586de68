// What of ONNX's LSTM is imported, and what is said of the rest. Values: onnx_values_test;
// training: serial_reference_test on lstm_exported.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/model/model_summary.h"
#include "graph/model/rebatch.h"
#include "graph/onnx/import.h"
#include "graph/training/training_graph.h"
#include "tests/graph/onnx/onnx_builder.h"

namespace partita {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

absl::StatusOr<ImportedModel> ImportLstm(const OnnxBuilder& model) {
  return ImportOnnxBytes(model.bytes(), "test.onnx", {});
}

// 5 units over x [3 steps, 2 samples, 4 channels].
OnnxBuilder Lstm() {
  OnnxBuilder model({3, 2, 4});
  model.Weight("w", {1, 20, 4});
  model.Weight("r", {1, 20, 5});
  model.Weight("b", {1, 40});
  model.Node("LSTM", {"x", "w", "r", "b"}, {"y"}, "cell");
  return model;
}

std::map<std::string, int> Kinds(const Graph& graph) {
  std::map<std::string, int> kinds;
  for (const Operator& op : graph.ops()) ++kinds[std::string(NameOf(op.attrs))];
  return kinds;
}

TEST(LstmImportTest, TakesLanguageModelsAsBothExportersWriteThem) {
  for (const char* file : {"lstm_lm.onnx", "lstm_lm_optimized.onnx"}) {
    SCOPED_TRACE(file);
    const std::string path = std::string(PARTITA_TEST_DATA "/models/") + file;
    for (int64_t batch : {0, 7}) {
      const auto model = ImportOnnx(path, {.batch = batch});
      ASSERT_TRUE(model.ok()) << model.status();
      const ModelSummary summary = Summarize(model->graph);
      EXPECT_EQ(summary.parameters, 37'283'600);
      // Less than in index.json: the first cell of a layer has no product with a hidden state.
      EXPECT_EQ(summary.macs_per_sample, 540'344'320 - 2 * 4096 * 1024);
      EXPECT_EQ(summary.output, (Shape{batch == 0 ? 64 : batch, 20, 10'000}));
      // A layer's steps read those of the one below, and nothing is transposed back and forth.
      EXPECT_EQ(Kinds(model->graph), (std::map<std::string, int>{{"binary", 3},
                                                                 {"concat", 1},
                                                                 {"crop", 20},
                                                                 {"embedding", 1},
                                                                 {"lstm_gates", 40},
                                                                 {"matmul", 2 * 39 + 1}}));
      EXPECT_TRUE(BuildTrainingGraph(model->graph, {}).ok());
    }
    const auto rebatched = Rebatch(ImportOnnx(path)->graph, 7);
    ASSERT_TRUE(rebatched.ok()) << rebatched.status();
    EXPECT_EQ(rebatched->fingerprint(), ImportOnnx(path, {.batch = 7})->graph.fingerprint());
  }
}

TEST(LstmImportTest, WeightsKeepTheirNames) {
  const auto model = ImportOnnx(PARTITA_TEST_DATA "/models/lstm_lm.onnx");
  ASSERT_TRUE(model.ok()) << model.status();
  std::map<std::string, Shape> weights;
  for (const Weight& weight : model->graph.weights()) {
    const Tensor& tensor = model->graph.tensor(weight.tensor);
    weights[tensor.name] = tensor.type.shape;
  }
  EXPECT_EQ(weights.size(), 11u);
  EXPECT_EQ(weights["lstm.weight_ih_l1"], (Shape{4096, 1024}));
  EXPECT_EQ(weights["lstm.bias_hh_l0"], (Shape{4096}));
  EXPECT_THAT(model->notes, Contains(HasSubstr("unrolled into cells of 20 steps")));
}

// Row 4 j + k is gate k (i, f, g, o) of unit j; ONNX has i, o, f, g, each of all units.
TEST(LstmImportTest, RowsAreStoredUnitByUnit) {
  OnnxBuilder model = Lstm();
  std::vector<float> rows;
  for (int row = 0; row < 20; ++row) rows.insert(rows.end(), 4, static_cast<float>(row));
  model.graph().mutable_initializer(0)->set_raw_data(
      std::string(reinterpret_cast<const char*>(rows.data()), rows.size() * sizeof(float)));
  const auto imported = ImportLstm(model);
  ASSERT_TRUE(imported.ok()) << imported.status();
  const Weight& weight = imported->graph.weights()[0];
  EXPECT_EQ(imported->graph.tensor(weight.tensor).name, "w");
  ASSERT_NE(weight.values, nullptr);
  std::vector<float> first;
  for (size_t row = 0; row < 20; ++row) first.push_back((*weight.values)[4 * row]);
  EXPECT_EQ(first, (std::vector<float>{0,  10, 15, 5,  1,  11, 16, 6,  2,  12,
                                       17, 7,  3,  13, 18, 8,  4,  14, 19, 9}));
}

TEST(LstmImportTest, TwoThatShareWeightsTrainThemAsOne) {
  OnnxBuilder model = Lstm();
  model.graph().mutable_node(0)->set_output(0, "s");
  model.Node("LSTM", {"x", "w", "r", "b"}, {"t"}, "other");
  model.Node("Add", {"s", "t"}, {"y"}, "sum");
  const auto imported = ImportLstm(model);
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_EQ(imported->graph.weights().size(), 4u);  // b in two halves
  EXPECT_THAT(imported->notes, Contains(HasSubstr("'w' serves 2 operators")));
}

struct Refusal {
  const char* name;
  std::function<void(OnnxBuilder&)> change;  // of Lstm()
  const char* message;
};

onnx::AttributeProto& Attribute(OnnxBuilder& model, const char* name, int type) {
  return OnnxBuilder::Attribute(*model.graph().mutable_node(0), name, type);
}

const Refusal kRefusals[] = {
    {"Reverse", [](OnnxBuilder& m) { Attribute(m, "direction", 3).set_s("reverse"); },
     "with direction 'reverse'; supported is 'forward'"},
    {"Activations",
     [](OnnxBuilder& m) {
       auto& names = Attribute(m, "activations", 8);
       for (const char* name : {"Sigmoid", "Relu", "Tanh"}) names.add_strings(name);
     },
     "with activations Sigmoid, Relu, Tanh; supported are Sigmoid, Tanh, Tanh"},
    {"Clip", [](OnnxBuilder& m) { Attribute(m, "clip", 1).set_f(3); }, "with 'clip'"},
    {"InputForget", [](OnnxBuilder& m) { Attribute(m, "input_forget", 2).set_i(1); },
     "with coupled input and forget gates"},
    {"Layout", [](OnnxBuilder& m) { Attribute(m, "layout", 2).set_i(1); },
     "export with the sequence first"},
    {"Peepholes",
     [](OnnxBuilder& m) {
       m.Weight("p", {1, 15});
       for (const char* input : {"", "", "", "p"}) m.graph().mutable_node(0)->add_input(input);
     },
     "with peepholes"},
    {"SequenceLengths",
     [](OnnxBuilder& m) {
       m.Integers("l", {3, 2});
       m.graph().mutable_node(0)->add_input("l");
     },
     "with sequences of several lengths"},
    {"ComputedWeights",
     [](OnnxBuilder& m) {
       m.Node("Tanh", {"w"}, {"v"}, "squash");
       m.graph().mutable_node(0)->set_input(1, "v");
     },
     "its input W is computed; supported are weights of the file"},
    {"WeightsAlsoUsedElsewhere",
     [](OnnxBuilder& m) {
       m.graph().mutable_node(0)->set_output(0, "z");
       m.graph().mutable_initializer(0)->set_name("v");
       m.graph().mutable_node(0)->set_input(1, "v");
       m.Node("Tanh", {"v"}, {"t"}, "squash");
       m.Node("ReduceMean", {"t"}, {"u"}, "mean");
       m.Node("Mul", {"z", "u"}, {"y"}, "scale");
     },
     "takes its rows in another order"},
    {"PartOfAWeight",
     [](OnnxBuilder& m) {
       m.Weight("both", {2, 20, 4});
       m.Integers("zero", {0});
       m.Integers("one", {1});
       m.Node("Slice", {"both", "zero", "one", "zero"}, {"v"}, "half");
       m.graph().mutable_node(0)->set_input(1, "v");
     },
     "its input W is a part of 'both'; supported are weights of its own"},
    {"RepeatedGates",
     [](OnnxBuilder& m) {
       m.Weight("v", {10, 4});
       m.Integers("zero", {0});
       m.Node("Concat", {"v", "v"}, {"c"}, "twice").add_attribute()->set_name("axis");
       m.graph().mutable_node(1)->mutable_attribute(0)->set_type(2);
       m.Node("Unsqueeze", {"c", "zero"}, {"u"}, "wide");
       m.graph().mutable_node(0)->set_input(1, "u");
     },
     "its input W repeats or leaves out rows of 'v'"},
    {"StateOfAnotherBatch",
     [](OnnxBuilder& m) {
       std::vector<float> ones(15, 1);
       m.Weight("h", {1, 3, 5})
           .set_raw_data(std::string(reinterpret_cast<const char*>(ones.data()), 60));
       for (const char* input : {"", "h"}) m.graph().mutable_node(0)->add_input(input);
     },
     "its initial_h is [1,3,5]; wanted [1,2,5]"},
    {"WrongWeights",
     [](OnnxBuilder& m) {
       m.graph().mutable_initializer(1)->set_dims(1, 25);
       m.graph().mutable_initializer(1)->set_dims(2, 4);
     },
     "it wants W [1,16,4] and R [1,16,4]; found [1,20,4] and [1,25,4]"},
    {"HiddenSize", [](OnnxBuilder& m) { Attribute(m, "hidden_size", 2).set_i(6); },
     "of 6 units (hidden_size) for X [3,2,4] it wants W [1,24,4] and R [1,24,6]"},
    {"NoUnits",
     [](OnnxBuilder& m) {
       m.graph().mutable_initializer(0)->set_dims(1, 0);
       m.graph().mutable_initializer(1)->set_dims(1, 0);
       m.graph().mutable_initializer(1)->set_dims(2, 0);
       for (int k : {0, 1}) m.graph().mutable_initializer(k)->clear_raw_data();
     },
     ""},
    {"ManyUnits",
     [](OnnxBuilder& m) {
       const int64_t units = 1 << 18;
       auto& w = *m.graph().mutable_initializer(0);
       auto& r = *m.graph().mutable_initializer(1);
       w.set_dims(1, 4 * units);
       r.set_dims(1, 4 * units);
       r.set_dims(2, units);
       OnnxBuilder::MakeExternal(w, "side", 0, 4 * units * 4 * 4);
       OnnxBuilder::MakeExternal(r, "side", 0, 4 * units * units * 4);
     },
     "of 262144 units"},
    {"ManySteps",
     [](OnnxBuilder& m) {
       *m.graph().mutable_input(0) = OnnxBuilder::ValueInfo("x", 1, {5000, 2, 4});
     },
     "of 5000 steps"},
};

class LstmRefusalTest : public testing::TestWithParam<Refusal> {};

TEST_P(LstmRefusalTest, SaysWhatIsSupported) {
  OnnxBuilder model = Lstm();
  ASSERT_TRUE(ImportLstm(model).ok()) << ImportLstm(model).status();
  GetParam().change(model);
  const auto imported = ImportLstm(model);
  EXPECT_EQ(imported.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(imported.status().message()), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(All, LstmRefusalTest, testing::ValuesIn(kRefusals),
                         [](const auto& info) { return info.param.name; });

// A small file must not ask for cells without end.
TEST(LstmImportTest, CellsOfAModelAreLimited) {
  OnnxBuilder model = Lstm();
  *model.graph().mutable_input(0) = OnnxBuilder::ValueInfo("x", 1, {4096, 2, 4});
  model.graph().mutable_node(0)->set_output(0, "s0");
  for (int k = 1; k < 20; ++k) {
    model.Node("LSTM", {"x", "w", "r", "b"}, {absl::StrCat("s", k)});
    model.Node("Add", {absl::StrCat(k == 1 ? "s" : "t", k - 1), absl::StrCat("s", k)},
               {k == 19 ? "y" : absl::StrCat("t", k)});
  }
  const auto imported = ImportLstm(model);
  EXPECT_THAT(std::string(imported.status().message()), HasSubstr("more than 16384 cells"));
}

}  // namespace
}  // namespace partita
