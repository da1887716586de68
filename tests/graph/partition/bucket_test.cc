// Collectives that a strategy chooses: their algorithms, and all-reduces that run as one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "graph/parallel/strategy_text.h"
#include "graph/partition/partition.h"
#include "graph/task/task_order.h"
#include "graph/training/training_graph.h"
#include "graph/verify/step_verifier.h"
#include "graph/zoo/models.h"
#include "tests/planner/strategies.h"
#include "tests/testing/ok.h"

namespace partita {
namespace {

using ::testing::HasSubstr;

constexpr int kDevices = 4;

class BucketTest : public testing::Test {
 protected:
  BucketTest()
      : graph_(Ok(BuildTrainingGraph(Ok(MakeZooModel("lenet", 8)), {}))),
        strategy_(SplitFirstLoop(graph_, kDevices)) {}

  static std::vector<Task> AllReduces(const TaskGraph& tasks) {
    std::vector<Task> found;
    for (const Task& task : tasks.tasks()) {
      const auto* body = std::get_if<CollectiveTask>(&task.body);
      if (body != nullptr && body->collective.kind == CollectiveKind::kAllReduce) {
        found.push_back(task);
      }
    }
    return found;
  }

  TaskGraph Tasks() const { return Ok(Partition(graph_, strategy_, {.devices = kDevices})); }

  std::string Error() const {
    const auto tasks = Partition(graph_, strategy_, {.devices = kDevices});
    EXPECT_EQ(tasks.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(tasks.status().message());
  }

  // The gradients of weights that are summed, in the order of the tasks.
  std::vector<CollectiveStepId> Gradients() const { return GradientSums(graph_, Tasks()); }

  Graph graph_;
  Strategy strategy_;
};

TEST_F(BucketTest, IsOneTaskOverTheBuffersOfItsMembers) {
  const std::vector<Task> before = AllReduces(Tasks());
  const std::vector<CollectiveStepId> members = Gradients();
  strategy_.buckets = {{members, "ring"}};
  const TaskGraph tasks = Tasks();
  const std::vector<Task> after = AllReduces(tasks);
  ASSERT_EQ(after.size(), before.size() - members.size() + 1);
  int64_t elements = 0;
  for (const Task& task : before) {
    const auto& body = std::get<CollectiveTask>(task.body);
    const auto readers = graph_.consumers(TensorId(task.key.subject));
    if (!readers.empty() && graph_.op(readers[0]).anchor == kNoOp) {
      elements += body.collective.total;
    }
  }
  for (const Task& task : after) {
    const auto& body = std::get<CollectiveTask>(task.body);
    if (body.bucket.empty()) continue;
    EXPECT_EQ(body.collective.total, elements);
    EXPECT_EQ(body.slices(), members.size());
    EXPECT_EQ(body.algorithm, "ring");
    EXPECT_THAT(TaskName(graph_, task), HasSubstr(" more (ring, 4 devices)"));
  }
  const std::vector<TaskId> order = CanonicalOrder(tasks);
  EXPECT_EQ(VerifyStep({graph_, strategy_, tasks, order}), absl::OkStatus());
  EXPECT_THAT(StrategyText(graph_, strategy_), HasSubstr("bucket of "));
}

TEST_F(BucketTest, TheBytesAreThoseOfItsMembers) {
  const std::vector<CollectiveStepId> gradients = Gradients();
  for (const CollectiveStepId& id : gradients) strategy_.algorithms.push_back({id, "ring"});
  std::sort(strategy_.algorithms.begin(), strategy_.algorithms.end(),
            [](const auto& a, const auto& b) { return a.collective < b.collective; });
  Bytes apart, joined;
  for (Bytes bytes : BytesReceived(Tasks())) apart += bytes;
  strategy_.algorithms.clear();
  strategy_.buckets = {{gradients, "ring"}};
  for (Bytes bytes : BytesReceived(Tasks())) joined += bytes;
  EXPECT_EQ(apart, joined);
}

TEST_F(BucketTest, AlgorithmsAreThoseThatTheStrategyNames) {
  const std::vector<CollectiveStepId> gradients = Gradients();
  strategy_.algorithms = {{gradients[0], "multicolor_tree(colors=3)"}};
  for (const Task& task : AllReduces(Tasks())) {
    const auto& body = std::get<CollectiveTask>(task.body);
    const bool chosen = TensorId(task.key.subject) == gradients[0].tensor;
    EXPECT_EQ(body.algorithm == "multicolor_tree(colors=3)", chosen);
  }
}

TEST_F(BucketTest, ChoicesThatDoNotFitAreErrors) {
  const std::vector<CollectiveStepId> gradients = Gradients();
  strategy_.algorithms = {{{gradients[0].tensor, 7}, "ring"}};
  EXPECT_THAT(Error(), testing::AllOf(HasSubstr("step 7"), HasSubstr("steps that are: 0")));
  strategy_.algorithms = {{gradients[0], "pairwise"}};
  EXPECT_THAT(Error(), HasSubstr("'pairwise'"));
  strategy_.algorithms = {{gradients[0], "magic"}};
  EXPECT_THAT(Error(), HasSubstr("there are ring"));
  strategy_.algorithms = {{gradients[0], "ring"}};
  strategy_.buckets = {{gradients, ""}};
  EXPECT_THAT(Error(), HasSubstr("twice"));
  strategy_.algorithms.clear();
  strategy_.buckets = {{{gradients[0]}, ""}};
  EXPECT_THAT(Error(), HasSubstr("two or more"));
  strategy_.buckets = {{gradients, "pairwise"}};
  EXPECT_THAT(Error(), HasSubstr("'pairwise' for a bucket"));
}

// The last gradient goes with others that updates read; with what operators of forward or backward
// read before it is made it would wait for itself.
TEST_F(BucketTest, ABucketThatWaitsForItsOwnReadersIsAnError) {
  const Graph graph = Ok(BuildTrainingGraph(Ok(MakeZooModel("resnet_tiny", 8)), {}));
  Strategy strategy = SplitFirstLoop(graph, kDevices);
  std::vector<CollectiveStepId> ids;
  for (const Task& task : AllReduces(Ok(Partition(graph, strategy, {.devices = kDevices})))) {
    const auto& body = std::get<CollectiveTask>(task.body);
    if (body.collective.reduction == Reduction::kSum && body.dtype == DType::kFloat32) {
      ids.push_back({TensorId(task.key.subject), task.key.step});
    }
  }
  ASSERT_GE(ids.size(), 2u);
  const auto status_of = [&](const CollectiveStepId& a, const CollectiveStepId& b) {
    strategy.buckets = {{{a, b}, ""}};
    return Partition(graph, strategy, {.devices = kDevices}).status();
  };
  int joined = 0, refused = 0;
  for (const CollectiveStepId& id : ids) {
    const absl::Status status = status_of(id, ids.back());
    if (id == ids.back()) continue;
    joined += status.ok() ? 1 : 0;
    if (status.ok()) continue;
    EXPECT_THAT(std::string(status.message()), HasSubstr("would wait for it"));
    ++refused;
  }
  EXPECT_GT(joined, 0);
  EXPECT_GT(refused, 0);
}

TEST_F(BucketTest, OtherDevicesDoNotJoin) {
  // Half of the model's weights are read by the first two devices only.
  for (OpId id : graph_.anchors()) {
    if (id.index() * 2 < graph_.anchors().size()) continue;
    ParallelConfig& config = strategy_.configs[id.index()];
    for (int32_t& degree : config.degrees) degree = degree == kDevices ? 2 : degree;
    if (config.devices.size() == kDevices) config.devices = {DeviceId(0), DeviceId(1)};
  }
  strategy_.buckets = {{Gradients(), ""}};
  EXPECT_THAT(Error(), HasSubstr("are not those of tensor"));
}

}  // namespace
}  // namespace partita
