#include "graph/verify/plan_verifier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "graph/partition/partition.h"
#include "graph/partition/planned_step.h"
#include "graph/support/check.h"
#include "graph/task/task_order.h"
#include "graph/training/training_graph.h"
#include "graph/verify/step_verifier.h"
#include "graph/zoo/models.h"
#include "tests/planner/strategies.h"
#include "tests/testing/faults.h"
#include "tests/testing/ok.h"
#include "tests/testing/random_graph.h"
#include "tests/testing/random_strategy.h"

namespace partita {
namespace {

using testing::HasSubstr;

absl::Status Verify(const Graph& graph, const Strategy& strategy, const TaskGraph& tasks) {
  const std::vector<TaskId> order = CanonicalOrder(tasks);
  const BufferAssignment memory = AssignBuffers(tasks, order, {});
  return VerifyStep({graph, strategy, tasks, order, &memory});
}

TEST(PlanVerifierTest, AcceptsWhatPartitionMakesOfRandomGraphsAndStrategies) {
  std::mt19937_64 random(61);
  int64_t tasks = 0;
  for (int round = 0; round < 150; ++round) {
    const Graph graph = RandomTrainingGraph(random);
    PartitionOptions options = RandomPartitionOptions(random);
    options.native_formats = round % 2 == 0;
    const Strategy strategy = RandomStrategy(graph, options.devices, random);
    const TaskGraph task_graph = Ok(Partition(graph, strategy, options));
    const absl::Status status = Verify(graph, strategy, task_graph);
    ASSERT_TRUE(status.ok()) << "round " << round << ": " << status;
    tasks += static_cast<int64_t>(task_graph.tasks().size());
  }
  EXPECT_GT(tasks, 5000);
}

// Operands of the operators that a fused kernel does: handing one the tensor of another is found,
// unless both are the same tensor.
TEST(PlanVerifierTest, FindsOperandsOfAFusedKernelThatAreSwapped) {
  const Graph graph = Ok(BuildTrainingGraph(Ok(MakeZooModel("resnet18", 2)), {}));
  const Strategy strategy = SingleDevice(graph, DeviceId(0));
  const TaskGraph tasks = Ok(Partition(graph, strategy, {}));
  int swapped = 0;
  std::set<std::string> kernels;
  for (size_t t = 0; t < tasks.tasks().size(); ++t) {
    const auto* body = std::get_if<ComputeTask>(&tasks.tasks()[t].body);
    if (body == nullptr) continue;
    const KernelSignature& fused = tasks.signatures()[static_cast<size_t>(body->signature)];
    if (!kernels.insert(ToString(fused.attrs) + FusionText(fused)).second) continue;
    for (size_t s = 0; fused.is_fused() && s <= fused.fusion.rest.size(); ++s) {
      const auto& inputs =
          s == 0 ? fused.fusion.first.inputs : fused.fusion.rest[s - 1].wiring.inputs;
      for (size_t k = 1; k < inputs.size(); ++k) {
        if (inputs[k] == inputs[k - 1]) continue;
        EditableTasks faulty(tasks);
        KernelSignature changed = fused;
        auto& places =
            s == 0 ? changed.fusion.first.inputs : changed.fusion.rest[s - 1].wiring.inputs;
        std::swap(places[k], places[k - 1]);
        faulty.signatures.push_back(std::move(changed));
        std::get<ComputeTask>(faulty.tasks[t].body).signature =
            static_cast<int32_t>(faulty.signatures.size()) - 1;
        EXPECT_FALSE(Verify(graph, strategy, faulty.Build()).ok())
            << ToString(fused) << ", operator " << s << ", operand " << k;
        ++swapped;
      }
    }
  }
  EXPECT_GT(swapped, 20);
}

TEST(PlanVerifierTest, AcceptsZooModelsSplitBySample) {
  for (const char* name : {"alexnet", "resnet50"}) {
    const Graph graph = Ok(BuildTrainingGraph(Ok(MakeZooModel(name, 64)), {}));
    Plan plan{.model = {.source = name, .batch = 64, .fingerprint = graph.fingerprint()},
              .topology = VirtualCpuDevices(4),
              .strategy = SplitFirstLoop(graph, 4),
              .choices = {.native_formats = true}};
    const absl::Status status = VerifyPlan(graph, plan);
    EXPECT_TRUE(status.ok()) << status;
  }
}

// A small net under data parallelism with a weight kept in shards, so that there is all of:
// all-reduce or reduce-scatter, all-gather, moves, in-place updates.
class FaultTest : public testing::Test {
 protected:
  void SetUp() override {
    graph_ = Ok(BuildTrainingGraph(Ok(MakeZooModel("lenet", 8)), {}));
    strategy_ = SplitFirstLoop(graph_, 4);
    ShardFirstWeight(0);
  }

  // Keeps it in shards along a dimension.
  void ShardFirstWeight(int dimension) {
    const Tensor& weight = graph_.tensor(graph_.weights()[0].tensor);
    std::vector<PlacedBox> shards;
    for (int d = 0; d < 4; ++d) {
      Box box = Box::Full(weight.type.shape);
      box[dimension] = BlockOf(box[dimension].hi, 4, d);
      shards.push_back({box, DeviceId(d)});
    }
    strategy_.weights[0].parameter = strategy_.weights[0].update = shards;
    tasks_ = Ok(Partition(graph_, strategy_, {.devices = 4}));
    const absl::Status status = Verify(graph_, strategy_, tasks_);
    ASSERT_TRUE(status.ok()) << status;
  }

  // The same tasks after `edit`; a task that it returns false for is left out. Dependencies are
  // derived anew.
  TaskGraph Edited(const std::function<bool(Task&)>& edit, bool twice = false) const {
    TaskGraphBuilder builder(tasks_.devices());
    for (const Buffer& buffer : tasks_.buffers()) builder.AddBuffer(buffer);
    for (const KernelSignature& signature : tasks_.signatures()) builder.AddSignature(signature);
    for (const Task& original : tasks_.tasks()) {
      Task task = original;
      const bool is_kept = edit(task);
      if (is_kept) builder.AddTask(task.key, task.body, task.after);
      if (!is_kept && twice) {
        builder.AddTask(task.key, task.body, task.after);
        builder.AddTask(task.key, task.body, task.after);
      }
    }
    for (const HostOutput& output : tasks_.outputs()) {
      builder.AddOutput(output.tensor, output.buffer);
    }
    return std::move(builder).Build();
  }

  // Edits the first task with a body of that type that `fits`.
  template <class Body>
  TaskGraph EditedFirst(const std::function<bool(Task&, Body&)>& edit) const {
    bool done = false;
    TaskGraph edited = Edited([&](Task& task) {
      auto* body = std::get_if<Body>(&task.body);
      if (!done && body != nullptr) done = edit(task, *body);
      return true;
    });
    CHECK(done);
    return edited;
  }

  std::string MessageOf(const TaskGraph& tasks) const {
    const absl::Status status = Verify(graph_, strategy_, tasks);
    EXPECT_FALSE(status.ok());
    return std::string(status.message());
  }

  static bool IsAllReduce(const Task& task) {
    const auto* body = std::get_if<CollectiveTask>(&task.body);
    return body != nullptr && body->collective.kind == CollectiveKind::kAllReduce;
  }

  Graph graph_;
  Strategy strategy_;
  TaskGraph tasks_;
};

TEST_F(FaultTest, MissingAllReduce) {
  bool done = false;
  const TaskGraph edited = Edited([&](Task& task) {
    const bool drop = !done && IsAllReduce(task);
    done |= drop;
    return !drop;
  });
  ASSERT_TRUE(done);
  EXPECT_THAT(MessageOf(edited), HasSubstr("lacks a term or has one twice"));
}

TEST_F(FaultTest, DoubledAllReduce) {
  bool done = false;
  const TaskGraph edited = Edited(
      [&](Task& task) {
        const bool twice = !done && IsAllReduce(task);
        done |= twice;
        return !twice;
      },
      /*twice=*/true);
  ASSERT_TRUE(done);
  EXPECT_THAT(MessageOf(edited), HasSubstr("lacks a term or has one twice"));
}

TEST_F(FaultTest, AllReduceOfASmallerGroup) {
  EXPECT_THAT(MessageOf(EditedFirst<CollectiveTask>([](Task& task, CollectiveTask& body) {
                if (!IsAllReduce(task)) return false;
                body.group.pop_back();
                body.send.pop_back();
                body.receive.pop_back();
                body.collective = MakeAllReduce(3, body.collective.total);
                body.algorithm = "ring";
                return true;
              })),
              HasSubstr("lacks a term or has one twice"));
}

// The net of FaultTest with the all-reduces of two gradients in a bucket.
class BucketFaultTest : public FaultTest {
 protected:
  void SetUp() override {
    FaultTest::SetUp();
    Bucket bucket;
    for (const Task& task : tasks_.tasks()) {
      if (!IsAllReduce(task)) continue;
      const TensorId tensor(task.key.subject);
      const auto readers = graph_.consumers(tensor);
      if (readers.empty() || graph_.op(readers[0]).anchor != kNoOp) continue;
      if (bucket.members.size() < 3) bucket.members.push_back({tensor, task.key.step});
    }
    strategy_.buckets = {bucket};
    tasks_ = Ok(Partition(graph_, strategy_, {.devices = 4}));
    const absl::Status status = Verify(graph_, strategy_, tasks_);
    ASSERT_TRUE(status.ok()) << status;
  }

  // The verifier's message for tasks whose bucket is edited.
  std::string MessageOfEdited(const std::function<void(CollectiveTask&)>& edit) const {
    return MessageOf(EditedFirst<CollectiveTask>([&](Task&, CollectiveTask& body) {
      if (body.bucket.empty()) return false;
      edit(body);
      return true;
    }));
  }
};

TEST_F(BucketFaultTest, MissingMember) {
  const auto leave_out = [](CollectiveTask& body) {
    body.collective = MakeAllReduce(4, body.collective.total - body.send.back().count);
    body.send.resize(body.send.size() - 4);
    body.receive = body.send;
    body.bucket.pop_back();
  };
  EXPECT_THAT(MessageOfEdited(leave_out), HasSubstr("has other tensors in its bucket"));
  strategy_.buckets[0].members.pop_back();
  EXPECT_THAT(MessageOfEdited(leave_out), HasSubstr("lacks a term or has one twice"));
}

TEST_F(BucketFaultTest, MemberTwice) {
  EXPECT_THAT(MessageOfEdited([](CollectiveTask& body) {
                for (size_t r = 0; r < 4; ++r) body.send[4 + r] = body.send[r];
                body.bucket[1] = body.bucket[0];
                body.receive = body.send;
              }),
              HasSubstr("a bucket with a tensor twice"));
  EXPECT_THAT(MessageOfEdited([](CollectiveTask& body) {
                for (size_t r = 0; r < 4; ++r) body.send[4 + r] = body.send[r];
                body.receive = body.send;
              }),
              HasSubstr("a bucket with a buffer twice"));
}

TEST_F(BucketFaultTest, MembersOfDifferentGroups) {
  EXPECT_FALSE(MessageOfEdited([](CollectiveTask& body) {
                 std::swap(body.send[4], body.send[5]);
                 body.receive = body.send;
               }).empty());
}

TEST_F(BucketFaultTest, TensorsInEachOthersPlace) {
  EXPECT_THAT(
      MessageOfEdited([](CollectiveTask& body) { std::swap(body.bucket[1], body.bucket[2]); }),
      HasSubstr("has other tensors in its bucket"));
  std::swap(strategy_.buckets[0].members[1], strategy_.buckets[0].members[2]);
  EXPECT_THAT(
      MessageOfEdited([](CollectiveTask& body) { std::swap(body.bucket[1], body.bucket[2]); }),
      HasSubstr("a bucket sums another tensor"));
}

TEST_F(BucketFaultTest, AnotherAlgorithmOrAnUnwantedBucket) {
  strategy_.buckets[0].algorithm = "multicolor_tree";
  EXPECT_THAT(MessageOf(tasks_), HasSubstr("wanted multicolor_tree"));
  strategy_.buckets.clear();
  EXPECT_THAT(MessageOf(tasks_), HasSubstr("the tasks have 1 buckets; the strategy 0"));
}

TEST_F(FaultTest, SwappedRanksOfAnAllGather) {
  const auto swap_ranks = [](Task&, CollectiveTask& body) {
    if (body.collective.kind != CollectiveKind::kAllGather) return false;
    std::swap(body.group[0], body.group[1]);
    std::swap(body.send[0], body.send[1]);
    std::swap(body.receive[0], body.receive[1]);
    return true;
  };
  // Shards that are gathered in their place, and those that are unpacked.
  EXPECT_THAT(MessageOf(EditedFirst<CollectiveTask>(swap_ranks)),
              HasSubstr("nothing was written there"));
  ShardFirstWeight(2);
  EXPECT_THAT(MessageOf(EditedFirst<CollectiveTask>(swap_ranks)),
              HasSubstr("from where it is not"));
}

TEST_F(FaultTest, GroupWithADeviceTwice) {
  EXPECT_THAT(MessageOf(EditedFirst<CollectiveTask>([](Task&, CollectiveTask& body) {
                body.group[1] = body.group[0];
                return true;
              })),
              HasSubstr("a device twice"));
}

TEST_F(FaultTest, MissingKernel) {
  bool done = false;
  const TaskGraph edited = Edited([&](Task& task) {
    const bool drop = !done && std::holds_alternative<ComputeTask>(task.body);
    done |= drop;
    return !drop;
  });
  EXPECT_FALSE(MessageOf(edited).empty());
}

TEST_F(FaultTest, KernelThatRunsTwice) {
  bool done = false;
  const TaskGraph edited = Edited(
      [&](Task& task) {
        const bool twice = !done && std::holds_alternative<ComputeTask>(task.body);
        done |= twice;
        return !twice;
      },
      /*twice=*/true);
  EXPECT_THAT(MessageOf(edited), HasSubstr("a second task on device"));
}

TEST_F(FaultTest, KernelWithTheBoxOfAnotherPart) {
  EXPECT_THAT(MessageOf(EditedFirst<ComputeTask>([](Task&, ComputeTask& body) {
                body.part = 1;
                return true;
              })),
              HasSubstr("no such part on this device"));
}

TEST_F(FaultTest, StaleBufferInsteadOfAnInput) {
  // A kernel reads another activation of the same shape.
  for (const Task& task : tasks_.tasks()) {
    const auto* body = std::get_if<ComputeTask>(&task.body);
    if (body == nullptr || body->inputs.empty() || body->inputs[0] == kNoBuffer) continue;
    const Buffer& wanted = tasks_.buffer(body->inputs[0]);
    for (const Buffer& other : tasks_.buffers()) {
      if (other.id == wanted.id || other.device != wanted.device || other.box != wanted.box ||
          other.dtype != wanted.dtype || other.tensor == wanted.tensor) {
        continue;
      }
      const TaskGraph edited = EditedFirst<ComputeTask>([&](Task& t, ComputeTask& b) {
        if (!(t.key == task.key)) return false;
        b.inputs[0] = other.id;
        return true;
      });
      EXPECT_FALSE(MessageOf(edited).empty());
      return;
    }
  }
  FAIL() << "no two buffers of one box";
}

TEST_F(FaultTest, MissingDependency) {
  TaskGraph edited = Edited([](Task&) { return true; });
  for (const Task& task : edited.tasks()) {
    if (!std::holds_alternative<CollectiveTask>(task.body)) continue;
    const_cast<Task&>(task).dependencies.clear();
    break;
  }
  EXPECT_THAT(MessageOf(edited), HasSubstr("without waiting for task"));
}

TEST_F(FaultTest, OrderAgainstADependency) {
  std::vector<TaskId> order = CanonicalOrder(tasks_);
  std::reverse(order.begin(), order.end());
  EXPECT_EQ(VerifyStep({graph_, strategy_, tasks_, order}).code(),
            absl::StatusCode::kInvalidArgument);
  order = CanonicalOrder(tasks_);
  order.pop_back();
  EXPECT_EQ(VerifyStep({graph_, strategy_, tasks_, order}).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(FaultTest, BuffersThatShareMemoryWhileBothLive) {
  const std::vector<TaskId> order = CanonicalOrder(tasks_);
  const BufferAssignment good = AssignBuffers(tasks_, order, {});
  int caught = 0, tried = 0;
  for (const Buffer& buffer : tasks_.buffers()) {
    if (buffer.persistent() || good.offset[buffer.id.index()] <= 0) continue;
    BufferAssignment bad = good;
    bad.offset[buffer.id.index()] = 0;  // where weights live
    ++tried;
    const absl::Status status = VerifyStep({graph_, strategy_, tasks_, order, &bad});
    if (!status.ok()) {
      ++caught;
      EXPECT_THAT(std::string(status.message()), HasSubstr("share memory"));
    }
    if (tried == 20) break;
  }
  EXPECT_EQ(caught, tried);
  EXPECT_GT(tried, 5);
}

TEST_F(FaultTest, MemoryUsedAgainWithoutWaiting) {
  // Over random orders some reuse crosses lanes; without its waits the verifier objects.
  std::mt19937_64 random(67);
  int caught = 0;
  for (int round = 0; round < 20; ++round) {
    const Graph graph = RandomTrainingGraph(random);
    const Strategy strategy = RandomStrategy(graph, 3, random);
    const TaskGraph tasks = Ok(Partition(graph, strategy, {.devices = 3}));
    const std::vector<TaskId> order = CanonicalOrder(tasks);
    BufferAssignment memory = AssignBuffers(tasks, order, {});
    ASSERT_TRUE(VerifyStep({graph, strategy, tasks, order, &memory}).ok());
    if (memory.added_dependencies.empty()) continue;
    memory.added_dependencies.clear();
    const absl::Status status = VerifyStep({graph, strategy, tasks, order, &memory});
    if (!status.ok() && absl::StrContains(status.message(), "does not wait")) ++caught;
  }
  EXPECT_GT(caught, 5);
}

TEST_F(FaultTest, WeightLayoutOfAnotherStrategy) {
  Strategy other = strategy_;
  other.weights[0].parameter.reset();
  std::swap((*other.weights[0].update)[0].device, (*other.weights[0].update)[1].device);
  const std::vector<TaskId> order = CanonicalOrder(tasks_);
  EXPECT_THAT(std::string(VerifyStep({graph_, other, tasks_, order}).message()),
              HasSubstr("not those of its layout"));
}

// A convolution split along its rows exchanges halos.
TEST(HaloFaultTest, DroppedHaloRow) {
  std::mt19937_64 random(71);
  int edited = 0;
  for (int round = 0; round < 40 && edited < 10; ++round) {
    const Graph graph = RandomTrainingGraph(random);
    const Strategy strategy = RandomStrategy(graph, 3, random);
    TaskGraph tasks = Ok(Partition(graph, strategy, {.devices = 3, .collectives = false}));
    for (const Task& task : tasks.tasks()) {
      auto* body = const_cast<MoveTask*>(std::get_if<MoveTask>(&task.body));
      if (body == nullptr) continue;
      Move& move = body->moves[0];
      if (move.kind != MoveSignature::Kind::kCopy || move.region.rank() == 0 ||
          move.region[0].size() < 2) {
        continue;
      }
      --move.region[0].hi;
      EXPECT_FALSE(Verify(graph, strategy, tasks).ok()) << "task " << task.id.value();
      ++edited;
      break;
    }
  }
  EXPECT_EQ(edited, 10);
}

}  // namespace
}  // namespace partita
