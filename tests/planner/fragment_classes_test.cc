// What is of one class has equal fragments under equal decisions.
#include "graph/partition/fragment_classes.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "graph/parallel/parts.h"
#include "graph/partition/fragment.h"
#include "graph/training/training_graph.h"
#include "graph/zoo/models.h"
#include "planner/space/search_space.h"
#include "tests/testing/model_writer.h"
#include "tests/testing/ok.h"

namespace partita {
namespace {

constexpr int kDevicesOfClasses = 4;

Graph TrainingGraphOf(const std::string& model) {
  return Ok(BuildTrainingGraph(Ok(MakeZooModel(model, 8)), {}));
}

FragmentClasses ClassesOf(const Graph& graph) {
  return FindFragmentClasses(graph, {.devices = kDevicesOfClasses}, FindFragmentDecisions(graph));
}

int32_t Number(const Graph& graph, const std::string& name) {
  for (const Operator& op : graph.ops()) {
    if (op.name == name) return op.id.value();
  }
  ADD_FAILURE() << "no operator " << name;
  return 0;
}

TEST(FragmentClassesTest, LayersOfOneWidthAreAlike) {
  ModelWriter model("layers", DType::kFloat32);
  TensorId x = model.Input({8, 6});
  for (int k = 0; k < 5; ++k) x = model.Linear("fc" + std::to_string(k), x, k == 4 ? 5 : 6);
  const Graph graph = ModelWriter::Get(BuildTrainingGraph(model.Finish(x), {}));
  const FragmentClasses classes = ClassesOf(graph);
  const auto anchor = [&](const char* name) {
    return classes.of_anchor[static_cast<size_t>(Number(graph, name))];
  };
  const auto result = [&](const char* name) {
    const Operator& op = graph.op(OpId(Number(graph, name)));
    return classes.of_tensor[op.outputs[0].index()];
  };
  EXPECT_EQ(anchor("fc1"), anchor("fc2"));
  EXPECT_EQ(anchor("fc1"), anchor("fc3"));
  EXPECT_NE(anchor("fc0"), anchor("fc1")) << "reads what is loaded, and makes no gradient of it";
  EXPECT_NE(anchor("fc3"), anchor("fc4")) << "of another width";
  EXPECT_EQ(result("fc1"), result("fc2"));
  EXPECT_NE(result("fc2"), result("fc3")) << "read by another kind";
  EXPECT_EQ(classes.of_weight[2], classes.of_weight[4]);
  EXPECT_NE(classes.of_weight[2], classes.of_weight[3]) << "a weight and a bias";
  EXPECT_NE(classes.of_weight[0], classes.of_weight[2]) << "read by another kind";
  EXPECT_EQ(classes.of_laid_out[0], classes.of_laid_out[2]) << "of equal shapes";
  EXPECT_NE(classes.of_laid_out[2], classes.of_laid_out[3]) << "a weight and a bias";
  EXPECT_NE(classes.of_laid_out[2], classes.of_laid_out[8]) << "of another width";
}

// What distinguishes kernels: their signatures, and the buffers that they are over.
std::vector<std::string> KernelsOf(const OperatorFragment& fragment) {
  std::vector<std::string> kernels;
  for (const KernelSignature& signature : fragment.graph.signatures()) {
    kernels.push_back(ToString(signature));
  }
  for (const Buffer& buffer : fragment.graph.buffers()) {
    kernels.push_back(std::to_string(buffer.device.value()) + " " + ToString(buffer.box));
  }
  for (const OperatorFragment::Read& read : fragment.reads) {
    kernels.push_back(std::to_string(read.input) + " " + std::to_string(read.place));
  }
  return kernels;
}

// A strategy with one random configuration for each class of anchors.
Strategy AlikeStrategy(const Graph& graph, const FragmentClasses& classes,
                       std::mt19937_64& random) {
  const SearchSpace space(graph, kDevicesOfClasses);
  Strategy strategy = SingleDevice(graph, DeviceId(0));
  std::map<int32_t, ParallelConfig> of_class;
  for (OpId anchor : graph.anchors()) {
    const int32_t number = classes.of_anchor[anchor.index()];
    if (!of_class.contains(number)) of_class[number] = space.RandomConfig(anchor, random);
    strategy.configs[anchor.index()] = of_class[number];
  }
  return strategy;
}

// Classes with the decisions that a strategy as above makes for them.
class AlikeChoices {
 public:
  AlikeChoices(const Graph& graph, const FragmentClasses& classes)
      : graph_(graph), classes_(classes), decisions_(FindFragmentDecisions(graph)) {}

  std::vector<int32_t> OfWeight(size_t weight) const {
    std::vector<int32_t> choice = {classes_.of_weight[weight]};
    Append(decisions_.of_layout[weight], choice);
    return choice;
  }
  std::vector<int32_t> OfTensor(TensorId id) const {
    std::vector<int32_t> choice = {classes_.of_tensor[id.index()]};
    Append(decisions_.of_tensor[id.index()], choice);
    return choice;
  }

 private:
  void Append(const std::vector<int32_t>& decisions, std::vector<int32_t>& choice) const {
    const size_t anchors = graph_.anchors().size();
    for (int32_t decision : decisions) {
      const auto place = static_cast<size_t>(decision);
      if (place < anchors) {
        choice.push_back(classes_.of_anchor[graph_.anchors()[place].index()]);
      } else {
        for (int32_t one : OfWeight(place - anchors)) choice.push_back(one);
      }
    }
  }

  const Graph& graph_;
  const FragmentClasses& classes_;
  const FragmentDecisions decisions_;
};

class Contents {
 public:
  Contents(const Graph& graph, const Strategy& strategy) : graph_(graph) {
    made_.resize(graph.ops().size());
    parts_.resize(graph.ops().size());
    for (const Operator& op : graph.ops()) {
      if (op.anchor == kNoOp) continue;
      made_[op.id.index()] = Ok(PartsOf(graph, op, strategy.configs[op.anchor.index()]));
      parts_[op.id.index()] = made_[op.id.index()];
    }
    for (size_t w = 0; w < graph.weights().size(); ++w) {
      layouts_.push_back(ResolveWeightLayout(graph, strategy, w, parts_));
    }
    for (const Operator& op : graph.ops()) {
      if (op.anchor != kNoOp) continue;
      made_[op.id.index()] = Ok(UpdateParts(graph, op, LayoutsOf(op.anchor_weight)->update));
      parts_[op.id.index()] = made_[op.id.index()];
    }
  }

  TensorContent Of(const Tensor& tensor) const {
    const auto groups = FindDemandGroups(graph_, tensor);
    return TensorFragmentsBuilder(
               graph_, tensor, parts_,
               {.groups = groups, .layouts = LayoutsOf(tensor.id), .outlines = true}, options_)
        .content();
  }
  std::vector<std::string> Of(const Operator& op) const {
    return KernelsOf(MakeOperatorFragment(graph_, op, parts_[op.id.index()], {}, options_));
  }
  const std::vector<PlacedBox>& LayoutOf(size_t weight) const { return layouts_[weight].parameter; }

 private:
  const WeightLayouts* LayoutsOf(TensorId id) const {
    const int32_t weight = WeightOfTensors(graph_)[id.index()];
    return weight < 0 ? nullptr : &layouts_[static_cast<size_t>(weight)];
  }

  const Graph& graph_;
  const PartitionOptions options_{.devices = kDevicesOfClasses};
  std::vector<std::vector<Part>> made_;
  std::vector<std::span<const Part>> parts_;
  std::vector<WeightLayouts> layouts_;
};

class LikeFragmentsTest : public testing::TestWithParam<const char*> {};

TEST_P(LikeFragmentsTest, AreEqualUnderEqualDecisions) {
  const Graph graph = TrainingGraphOf(GetParam());
  const FragmentClasses classes = ClassesOf(graph);
  const AlikeChoices choices(graph, classes);
  const auto followers = FollowersOf(graph);
  std::mt19937_64 random(7);
  int alike = 0;
  for (int k = 0; k < 10; ++k) {
    const Contents contents(graph, AlikeStrategy(graph, classes, random));
    std::map<int32_t, OpId> anchors;
    for (OpId anchor : graph.anchors()) {
      const auto [first, is_new] = anchors.emplace(classes.of_anchor[anchor.index()], anchor);
      if (is_new) continue;
      const auto& own = followers[anchor.index()];
      const auto& others = followers[first->second.index()];
      ASSERT_EQ(own.size(), others.size());
      for (size_t f = 0; f < own.size(); ++f) {
        ASSERT_EQ(contents.Of(graph.op(own[f])), contents.Of(graph.op(others[f])))
            << graph.op(own[f]).name;
      }
    }
    std::map<std::vector<int32_t>, size_t> weights;
    for (size_t w = 0; w < graph.weights().size(); ++w) {
      const size_t first = weights.emplace(choices.OfWeight(w), w).first->second;
      ASSERT_EQ(contents.LayoutOf(w), contents.LayoutOf(first));
    }
    std::map<std::vector<int32_t>, TensorId> tensors;
    for (const Tensor& tensor : graph.tensors()) {
      const auto [first, is_new] = tensors.emplace(choices.OfTensor(tensor.id), tensor.id);
      if (is_new) continue;
      ASSERT_EQ(contents.Of(tensor), contents.Of(graph.tensor(first->second))) << tensor.name;
      ++alike;
    }
  }
  EXPECT_GE(alike, 10);
}

INSTANTIATE_TEST_SUITE_P(Zoo, LikeFragmentsTest,
                         testing::Values("mlp", "resnet_tiny", "rnnlm_tiny", "rnntc_tiny",
                                         "nmt_tiny", "gpt_tiny"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace partita
