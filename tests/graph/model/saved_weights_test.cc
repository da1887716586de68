// Values of weights beside a model in Partita's own form: found by name and shape, known by their
// hash, written so that a model is always whole.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "graph/model/model_io.h"
#include "graph/model/model_source.h"
#include "graph/support/file.h"
#include "runtime/train/data/safetensors.h"

namespace partita {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class SavedWeightsTest : public testing::Test {
 protected:
  SavedWeightsTest() {
    folder_ = std::filesystem::temp_directory_path() /
              ("partita_saved_weights_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
    model_ = LoadModel(PARTITA_TEST_DATA "/oracle/mlp/model.onnx").value();
  }
  ~SavedWeightsTest() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const { return (folder_ / name).string(); }
  // Returns the side file's path.
  std::string Save(const Graph& graph) {
    const auto file = SaveModel(graph, Path("net.textproto"));
    EXPECT_TRUE(file.ok()) << file.status();
    return Path(*file);
  }
  absl::StatusOr<ModelFile> Load(WeightValues values = WeightValues::kIfPresent) {
    return LoadModelFile(Path("net.textproto"), values);
  }
  // The same weights, the first of them 1 larger.
  Graph Changed() const {
    GraphBuilder builder(model_.graph.name());
    const Tensor& x = model_.graph.tensor(model_.graph.only(TensorRole::kSamples));
    TensorId last = builder.AddInput(x.name, x.type).value();
    for (const Weight& weight : model_.graph.weights()) {
      const Tensor& tensor = model_.graph.tensor(weight.tensor);
      auto values = std::make_shared<std::vector<float>>(*weight.values);
      (*values)[0] += 1;
      EXPECT_TRUE(builder.AddWeight(tensor.name, tensor.type, weight.initializer, values).ok());
    }
    last = builder.Add({.name = "relu", .attrs = Relu{}, .inputs = {last}}).value();
    builder.AddRole(TensorRole::kLogits, last);
    return std::move(builder).Build().value();
  }
  std::vector<TensorToWrite> Tensors() const {
    std::vector<TensorToWrite> tensors;
    for (const Weight& weight : model_.graph.weights()) {
      const Tensor& tensor = model_.graph.tensor(weight.tensor);
      tensors.push_back(MakeTensorToWrite<float>(
          tensor.name, {tensor.type.shape.begin(), tensor.type.shape.end()}, *weight.values));
    }
    return tensors;
  }
  void ExpectTheValuesOfTheSource(const Graph& graph) const {
    ASSERT_EQ(graph.weights().size(), model_.graph.weights().size());
    for (size_t i = 0; i < graph.weights().size(); ++i) {
      ASSERT_NE(graph.weights()[i].values, nullptr);
      EXPECT_EQ(*graph.weights()[i].values, *model_.graph.weights()[i].values);
    }
  }

  std::filesystem::path folder_;
  ImportedModel model_;
};

TEST_F(SavedWeightsTest, ComeBackFromTheSideFileAndFromTheText) {
  Save(model_.graph);
  const auto loaded = Load();
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ExpectTheValuesOfTheSource(loaded->graph);
  const auto text = ModelText(model_.graph);
  ASSERT_TRUE(text.ok()) << text.status();
  const auto parsed = ParseModel(*text, "inline");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  ExpectTheValuesOfTheSource(parsed->graph);
}

TEST_F(SavedWeightsTest, AreFoundByNameAndShapeWhereverTheyLieInTheFile) {
  const std::string side = Save(model_.graph);
  std::vector<TensorToWrite> tensors = Tensors();
  const std::vector<double> more = {1, 2, 3};
  // Wider elements are stored first, so every weight lies elsewhere than before.
  tensors.push_back(MakeTensorToWrite<double>("another", {3}, more));
  ASSERT_TRUE(WriteSafetensors(side, tensors, {{"by", "another program"}}).ok());
  const auto loaded = Load();
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ExpectTheValuesOfTheSource(loaded->graph);
}

TEST_F(SavedWeightsTest, ChangedValuesAreAnErrorWithBothHashes) {
  const std::string side = Save(model_.graph);
  std::vector<TensorToWrite> tensors = Tensors();
  std::vector<float> changed = *model_.graph.weights()[0].values;
  changed[0] += 1;
  tensors[0].bytes = std::as_bytes(std::span<const float>(changed));
  ASSERT_TRUE(WriteSafetensors(side, tensors).ok());
  const auto loaded = Load();
  EXPECT_EQ(loaded.status().code(), absl::StatusCode::kInvalidArgument);
  const std::string wanted = std::filesystem::path(side).stem().extension().string().substr(1);
  EXPECT_THAT(wanted, SizeIs(16));
  EXPECT_THAT(loaded.status().message(),
              AllOf(HasSubstr(absl::StrCat("was written with ", wanted)),
                    HasSubstr("have the hash "), HasSubstr("run --load")));
  // Where values are of no use they are not read.
  const auto skipped = Load(WeightValues::kSkipped);
  ASSERT_TRUE(skipped.ok()) << skipped.status();
  for (const Weight& weight : skipped->graph.weights()) EXPECT_EQ(weight.values, nullptr);
}

TEST_F(SavedWeightsTest, AnotherShapeTypeOrNameIsAnError) {
  const std::string side = Save(model_.graph);
  for (int wrong = 0; wrong < 4; ++wrong) {
    std::vector<TensorToWrite> tensors = Tensors();
    if (wrong == 0) std::swap(tensors[0].shape[0], tensors[0].shape[1]);
    if (wrong == 1) tensors[0].dtype = "I32";
    if (wrong == 2) tensors[0].name = "renamed";
    if (wrong == 3) tensors.erase(tensors.begin());
    ASSERT_TRUE(WriteSafetensors(side, tensors).ok());
    for (WeightValues values : {WeightValues::kIfPresent, WeightValues::kSkipped}) {
      const auto loaded = Load(values);
      EXPECT_EQ(loaded.status().code(), absl::StatusCode::kInvalidArgument) << wrong;
      EXPECT_THAT(loaded.status().message(), HasSubstr("tensor '0.weight'"));
    }
  }
  std::ofstream(side) << "short";
  EXPECT_THAT(Load().status().message(), HasSubstr("is not a safetensors file"));
}

TEST_F(SavedWeightsTest, AnAbsentSideFileIsANoteOrAnError) {
  const std::string side = Save(model_.graph);
  std::filesystem::remove(side);
  for (WeightValues values : {WeightValues::kIfPresent, WeightValues::kSkipped}) {
    const auto loaded = Load(values);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    EXPECT_EQ(loaded->graph.weights()[0].values, nullptr);
    ASSERT_THAT(loaded->notes, SizeIs(1));
    EXPECT_THAT(loaded->notes[0], HasSubstr(".safetensors' is absent"));
  }
  const absl::Status required = Load(WeightValues::kRequired).status();
  EXPECT_EQ(required.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(required.message(), AllOf(HasSubstr("no values for 6 of its weights"),
                                        HasSubstr("--load"), HasSubstr("partita import")));
}

// A crash between the two files leaves the old pair; the new side file lies beside, unused.
TEST_F(SavedWeightsTest, ANewSideFileLeavesTheOldPairWhole) {
  const std::string old_side = Save(model_.graph);
  const auto old_text = ReadFile(Path("net.textproto"), 1 << 20);
  ASSERT_TRUE(old_text.ok());
  const std::string new_side = Save(Changed());
  EXPECT_NE(new_side, old_side);
  std::ofstream(Path("net.textproto")) << *old_text;  // as if its rename had not happened
  const auto loaded = Load();
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ExpectTheValuesOfTheSource(loaded->graph);
  EXPECT_THAT(Save(model_.graph), old_side);  // the same values, the same file
}

TEST_F(SavedWeightsTest, AModelThatCannotBeWrittenLeavesTheOldPairWhole) {
  Save(model_.graph);
  std::filesystem::create_directory(Path("net2.textproto"));  // no file can take this name
  EXPECT_FALSE(SaveModel(Changed(), Path("net2.textproto")).ok());
  const auto loaded = Load();
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ExpectTheValuesOfTheSource(loaded->graph);
}

TEST_F(SavedWeightsTest, KeepWhatTheExporterFolded) {
  ASSERT_TRUE(SaveModel(model_.graph, Path("net.textproto"), {"conv1", "conv2"}).ok());
  EXPECT_THAT(Load()->folded_batch_norms, testing::ElementsAre("conv1", "conv2"));
  const auto model = LoadModel(Path("net.textproto"), {.batch = 3});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(model->folded_batch_norms, SizeIs(2));
}

TEST_F(SavedWeightsTest, AModelWithoutValuesHasNoSideFile) {
  const auto zoo = LoadModel("lenet", {.batch = 2});
  ASSERT_TRUE(zoo.ok());
  EXPECT_THAT(SaveModel(zoo->graph, Path("net.textproto")).value(), IsEmpty());
  EXPECT_TRUE(Load(WeightValues::kRequired).ok());
}

// The header alone is compared with shapes: the model's text says 400 MB, the file has less.
TEST_F(SavedWeightsTest, ASideFileThatIsTooShortIsRefusedByItsHeader) {
  const std::string side = Save(model_.graph);
  std::filesystem::resize_file(side, std::filesystem::file_size(side) - 4);
  EXPECT_THAT(Load(WeightValues::kSkipped).status().message(), HasSubstr("cut off"));
}

}  // namespace
}  // namespace partita
