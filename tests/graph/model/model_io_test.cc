#include "graph/model/model_io.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "graph/graph_text.h"
#include "graph/model/model_source.h"
#include "graph/model/model_summary.h"
#include "graph/model/rebatch.h"
#include "graph/support/file.h"
#include "graph/training/training_graph.h"
#include "graph/zoo/models.h"

namespace partita {
namespace {

using ::testing::HasSubstr;

class ModelIoTest : public testing::Test {
 protected:
  ModelIoTest() {
    folder_ =
        std::filesystem::temp_directory_path() / ("partita_model_io_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  ~ModelIoTest() override { std::filesystem::remove_all(folder_); }
  std::string Path(const std::string& name) const { return (folder_ / name).string(); }
  std::filesystem::path folder_;
};

TEST_F(ModelIoTest, EveryZooModelComesBackTheSame) {
  for (const ZooModel& model : ZooModels()) {
    SCOPED_TRACE(std::string(model.name));
    const auto graph = model.make(6);
    ASSERT_TRUE(graph.ok());
    const std::string path = Path(std::string(model.name) + ".textproto");
    ASSERT_TRUE(SaveModel(*graph, path).ok());
    const auto loaded = LoadModelFile(path);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    const Graph& read = loaded->graph;
    EXPECT_EQ(read.fingerprint(), graph->fingerprint());
    EXPECT_EQ(GraphText(read), GraphText(*graph));
    EXPECT_EQ(read.anchors().size(), graph->anchors().size());
    ASSERT_EQ(read.weights().size(), graph->weights().size());
    for (size_t i = 0; i < graph->weights().size(); ++i) {
      EXPECT_EQ(read.weights()[i].initializer, graph->weights()[i].initializer);
      EXPECT_EQ(read.weights()[i].trainable, graph->weights()[i].trainable);
    }
  }
}

TEST_F(ModelIoTest, EveryImportedModelComesBackTheSame) {
  for (const char* file : {"alexnet", "alexnet_torchscript", "resnet50_dynamo", "inception_v3"}) {
    SCOPED_TRACE(file);
    const auto model = LoadModel(PARTITA_TEST_DATA "/models/" + std::string(file) + ".onnx");
    ASSERT_TRUE(model.ok()) << model.status();
    const auto text = ModelText(model->graph);
    ASSERT_TRUE(text.ok()) << text.status();
    const auto loaded = ParseModel(*text, "text");
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    EXPECT_EQ(loaded->graph.fingerprint(), model->graph.fingerprint());
  }
}

TEST_F(ModelIoTest, ControlEdgesComeBackAndSurviveRebatching) {
  const auto model = MakeZooModel("lenet", 4);
  ASSERT_TRUE(model.ok());
  GraphBuilder builder(*model);
  builder.SetAfter(OpId(3), {OpId(2), OpId(0)});
  const auto held = std::move(builder).Build();
  ASSERT_TRUE(held.ok());
  ASSERT_TRUE(SaveModel(*held, Path("held.textproto")).ok());
  const auto loaded = LoadModelFile(Path("held.textproto"));
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(GraphText(loaded->graph), GraphText(*held));
  EXPECT_EQ(loaded->graph.fingerprint(), held->fingerprint());
  const auto rebatched = Rebatch(*held, 8);
  ASSERT_TRUE(rebatched.ok()) << rebatched.status();
  EXPECT_EQ(rebatched->op(OpId(3)).after, (std::vector<OpId>{OpId(0), OpId(2)}));
  const auto training = BuildTrainingGraph(*held, {});
  ASSERT_TRUE(training.ok());
  EXPECT_EQ(training->op(OpId(3)).after.size(), 2u);
}

TEST_F(ModelIoTest, ACycleThroughAControlEdgeIsNamed) {
  const auto model = MakeZooModel("lenet", 4);
  ASSERT_TRUE(model.ok());
  const std::string first = model->op(OpId(0)).name, last = model->ops().back().name;
  std::string text = *ModelText(*model);
  const size_t place = text.find("name: \"" + first + "\"");
  ASSERT_NE(place, std::string::npos);
  text.insert(place, "after: \"" + last + "\" ");
  const absl::Status status = ParseModel(text, "m").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("cycle: '" + first + "' -> "));
  EXPECT_THAT(std::string(status.message()), HasSubstr("'" + last + "' -> '" + first + "'"));
}

TEST_F(ModelIoTest, RefusesTrainingGraphs) {
  const auto graph = MakeZooModel("lenet", 2);
  ASSERT_TRUE(graph.ok());
  const auto training = BuildTrainingGraph(*graph, {});
  ASSERT_TRUE(training.ok());
  EXPECT_EQ(SaveModel(*training, Path("t.textproto")).status().code(),
            absl::StatusCode::kInvalidArgument);
}

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST_F(ModelIoTest, SaysWhatIsWrongAndWhere) {
  const auto graph = MakeZooModel("lenet", 2);
  ASSERT_TRUE(graph.ok());
  const std::string text = *ModelText(*graph);
  const struct {
    const char *from, *to, *message;
  } kCases[] = {
      {"format_version: 2", "format_version: 9", "format_version is 9"},
      {"format_version: 2", "format_version: 1", "wanted 2: write it anew with partita import"},
      {"kind: \"conv2d\"", "kind: \"conv3d\"", "unknown operator 'conv3d'"},
      {"name: \"groups\"", "name: \"grups\"", "no attribute 'grups'"},
      {"integer: 1", "text: \"one\"", "'groups' has the wrong type"},
      {"input: \"conv1.weight\"", "input: \"conv7.weight\"", "there is no tensor 'conv7.weight'"},
      {"shape: [2, 1, 28, 28]", "shape: [2, -1, 28, 28]", "extent -1"},
      {"shape: [2, 1, 28, 28]", "shape: [2000000000, 200000000, 28, 28]", "2^40"},
      {"shape: [2, 1, 28, 28]", "shape: [2, 3, 28, 28]", "do not fit 1 groups"},
      {"logits: \"fc2\"", "logits: \"fc3\"", "logits 'fc3' do not exist"},
      {"logits: \"fc2\"", "logits: \"fc2.bias\"", "'fc2.bias' do not depend on the input"},
      {"item {", "item [", "line "},
      {"weight {", "wait {", "wait"},
  };
  for (const auto& c : kCases) {
    const auto loaded = ParseModel(Replaced(text, c.from, c.to), "lenet.textproto");
    EXPECT_EQ(loaded.status().code(), absl::StatusCode::kInvalidArgument) << c.to;
    EXPECT_THAT(loaded.status().message(), HasSubstr(c.message));
    EXPECT_THAT(loaded.status().message(), HasSubstr("lenet.textproto"));
  }
}

TEST_F(ModelIoTest, SaysWhatAnotherFormIsAndWhatTakesIt) {
  const std::string plan = "format_version: 2 model { source: \"lenet\" batch: 64 }";
  const absl::Status of_plan = ParseModel(plan, "a.plan.textproto").status();
  EXPECT_EQ(of_plan.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(of_plan.message(), HasSubstr("'a.plan.textproto' is not a model: it is a plan"));
  EXPECT_THAT(of_plan.message(),
              HasSubstr("`partita compare lenet a.plan.textproto --batch 64`; run, verify"));
  const absl::Status of_machine =
      ParseModel("topology { devices { name: \"cpu0\" } }", "m.textproto").status();
  EXPECT_THAT(of_machine.message(), HasSubstr("it is a machine: `--machine m.textproto`"));
  // A text that is no form keeps its own error.
  EXPECT_THAT(ParseModel("model { sauce: 1 }", "t").status().message(), HasSubstr("line 1"));
  EXPECT_THAT(ParseModel("model { }", "t").status().message(), HasSubstr("line 1"));
}

TEST_F(ModelIoTest, KeepsItsSideFileInItsOwnFolder) {
  const auto graph = MakeZooModel("lenet", 2);
  ASSERT_TRUE(graph.ok());
  for (const char* file : {"../w.safetensors", "/etc/passwd", ".."}) {
    const std::string text = *ModelText(*graph) + "weights_file: \"" + file + "\"\n";
    EXPECT_THAT(ParseModel(text, "t").status().message(), HasSubstr("own folder"));
  }
}

TEST(RebatchTest, EqualsBuildingForThatBatch) {
  for (const ZooModel& model : ZooModels()) {
    SCOPED_TRACE(std::string(model.name));
    const auto graph = model.make(6);
    ASSERT_TRUE(graph.ok());
    for (int64_t batch : {1, 5, 64}) {
      const auto rebatched = Rebatch(*graph, batch);
      ASSERT_TRUE(rebatched.ok()) << rebatched.status();
      EXPECT_EQ(rebatched->fingerprint(), model.make(batch)->fingerprint());
    }
  }
}

TEST(RebatchTest, EqualsImportingForThatBatch) {
  for (const char* file :
       {"models/alexnet", "models/alexnet_torchscript", "models/vgg11", "models/resnet50",
        "models/resnet50_dynamo", "models/inception_v3", "models/mlp", "oracle/lenet/model",
        "oracle/resnet_tiny/model", "oracle/alexnet_s_tiny/model"}) {
    SCOPED_TRACE(file);
    const std::string path = std::string(PARTITA_TEST_DATA "/") + file + ".onnx";
    const auto own = LoadModel(path);
    ASSERT_TRUE(own.ok()) << own.status();
    for (int64_t batch : {1, 7, 32, 128}) {
      const auto imported = LoadModel(path, {.batch = batch});
      const auto rebatched = Rebatch(own->graph, batch);
      ASSERT_TRUE(imported.ok() && rebatched.ok()) << imported.status() << rebatched.status();
      EXPECT_EQ(rebatched->fingerprint(), imported->graph.fingerprint());
    }
  }
}

TEST(RebatchTest, RefusesWhatIsNotAForwardGraph) {
  const auto graph = MakeZooModel("lenet", 2);
  ASSERT_TRUE(graph.ok());
  EXPECT_FALSE(Rebatch(*graph, 0).ok());
  EXPECT_FALSE(Rebatch(*graph, INT64_MAX).ok());
  EXPECT_EQ(Rebatch(*MakeZooModel("resnet_tiny", 1), (int64_t{1} << 31) - 1).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(Rebatch(*BuildTrainingGraph(*graph, {}), 4).ok());
}

}  // namespace
}  // namespace partita
