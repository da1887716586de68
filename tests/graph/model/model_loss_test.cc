#include "graph/model/model_loss.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "graph/layers.h"
#include "graph/zoo/models.h"

namespace partita {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Nothing but a ReLU and a reshape between an input and an output of these shapes.
Graph Model(const Shape& input, const Shape& output, bool softmax = false) {
  GraphBuilder builder("net");
  TensorId x = builder.AddInput("x", {DType::kFloat32, input}).value();
  x = builder.Add({.name = "relu", .attrs = Relu{}, .inputs = {x}}).value();
  if (input != output) {
    Crop crop;
    for (size_t d = 0; d < input.size(); ++d) {
      crop.begin.push_back(0);
      crop.end.push_back(output[d]);
    }
    x = builder.Add({.name = "y", .attrs = crop, .inputs = {x}}).value();
  }
  if (softmax) x = AddSoftmax(builder, "softmax", x).value();
  builder.AddRole(TensorRole::kLogits, x);
  return std::move(builder).Build().value();
}

TEST(ModelLossTest, SaysTheClassesOfEveryModelOfTheZoo) {
  for (const ZooModel& model : ZooModels()) {
    const Graph graph = model.make(4).value();
    const auto loss = LossOf(graph, false);
    ASSERT_TRUE(loss.ok()) << model.name << ": " << loss.status();
    EXPECT_EQ(loss->classes, graph.WholeType(TensorRole::kLogits).shape.back());
  }
  EXPECT_EQ(ToString(ModelLoss{1000}), "mean cross-entropy over 1000 classes");
}

TEST(ModelLossTest, RefusesWhatHasNoRowOfScoresForEachSample) {
  const struct {
    Shape input, output;
    const char* why;
  } kCases[] = {
      {{16, 8}, {16, 1}, "one score cannot tell classes apart"},
      {{16, 8, 8, 8}, {16, 4, 8, 8}, "it has 4 dimensions, not 2"},
      {{16, 8, 8}, {16, 8, 4}, "it has 3 dimensions, not 2"},
      {{16, 8, 1, 1}, {16, 4, 1, 1}, "it has 4 dimensions, not 2"},
      {{16, 8}, {4, 8}, "it has 4 rows for 16 samples"},
  };
  for (const auto& c : kCases) {
    for (bool named : {false, true}) {
      const auto loss = LossOf(Model(c.input, c.output), named);
      EXPECT_EQ(loss.status().code(), absl::StatusCode::kInvalidArgument) << c.why;
      EXPECT_THAT(loss.status().message(),
                  AllOf(HasSubstr(c.why), HasSubstr("Supported is mean cross-entropy"),
                        HasSubstr("[16, classes]")));
    }
  }
}

TEST(ModelLossTest, TakesAnOutputLikeTheInputForClassesOnlyIfToldSo) {
  const Graph model = Model({16, 32}, {16, 32});
  EXPECT_THAT(LossOf(model, false).status().message(),
              AllOf(HasSubstr("as many elements as the input, like an autoencoder's"),
                    HasSubstr("--loss cross_entropy")));
  EXPECT_EQ(LossOf(model, true)->classes, 32);
  // Softmax says that they are classes.
  EXPECT_EQ(LossOf(Model({16, 32}, {16, 32}, /*softmax=*/true), false)->classes, 32);
  EXPECT_EQ(LossOf(Model({16, 33}, {16, 32}), false)->classes, 32);
}

}  // namespace
}  // namespace partita
