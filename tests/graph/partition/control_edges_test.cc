#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "graph/partition/partition.h"
#include "graph/task/buffer_assignment.h"
#include "graph/task/task_order.h"
#include "graph/training/training_graph.h"
#include "graph/verify/step_verifier.h"
#include "tests/planner/strategies.h"
#include "tests/testing/model_writer.h"

namespace partita {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

// Linear layers of one width, so that every weight of theirs has as many bytes.
Graph Layers(int count, int64_t width = 8) {
  ModelWriter model("layers", DType::kFloat32);
  TensorId x = model.Input({8, width});
  for (int k = 0; k < count; ++k) x = model.Linear("fc" + std::to_string(k), x, width);
  return ModelWriter::Get(BuildTrainingGraph(model.Finish(x), {}));
}

OpId Named(const Graph& graph, const std::string& name) {
  for (const Operator& op : graph.ops()) {
    if (op.name == name) return op.id;
  }
  ADD_FAILURE() << "no operator " << name;
  return kNoOp;
}

Graph WithEdge(const Graph& graph, const std::string& op, const std::string& after) {
  GraphBuilder builder(graph);
  builder.SetAfter(Named(graph, op), {Named(graph, after)});
  return ModelWriter::Get(std::move(builder).Build());
}

// Samples split over the devices; every weight in rows over them.
Strategy Sharded(const Graph& graph, int devices, std::optional<int32_t> prefetch) {
  Strategy strategy = SplitFirstLoop(graph, devices);
  for (size_t w = 0; w < graph.weights().size(); ++w) {
    const Box whole = Box::Full(graph.tensor(graph.weights()[w].tensor).type.shape);
    std::vector<PlacedBox> shards;
    for (int d = 0; d < devices; ++d) {
      Box box = whole;
      box[0] = BlockOf(box[0].hi, devices, d);
      shards.push_back({box, DeviceId(d)});
    }
    strategy.weights[w] = {.parameter = shards, .update = shards, .prefetch = prefetch};
  }
  return strategy;
}

absl::Status Verify(const Graph& graph, const Strategy& strategy, const TaskGraph& tasks) {
  const std::vector<TaskId> order = CanonicalOrder(tasks);
  const BufferAssignment memory = AssignBuffers(tasks, order, {});
  return VerifyStep({graph, strategy, tasks, order, &memory});
}

// The tasks that do an operator on a device.
std::vector<TaskId> TasksOf(const TaskGraph& tasks, OpId op, DeviceId device) {
  std::vector<TaskId> found;
  for (const Task& task : tasks.tasks()) {
    const auto* body = std::get_if<ComputeTask>(&task.body);
    if (body != nullptr && body->op == op && body->device == device) found.push_back(task.id);
  }
  return found;
}

std::vector<const Task*> AllGathersOf(const Graph& graph, const TaskGraph& tasks,
                                      const std::string& tensor) {
  std::vector<const Task*> found;
  for (const Task& task : tasks.tasks()) {
    const auto* body = std::get_if<CollectiveTask>(&task.body);
    if (body != nullptr && body->collective.kind == CollectiveKind::kAllGather &&
        graph.tensor(TensorId(task.key.subject)).name == tensor) {
      found.push_back(&task);
    }
  }
  return found;
}

TEST(ControlEdgesTest, HoldBackThePartsOfAnOperatorOnTheirOwnDevices) {
  // The gradients of fc0's and fc2's weights depend on each other in no other way.
  const Graph graph = WithEdge(Layers(3), "fc0.d1", "fc2.d1");
  const Strategy strategy = SplitFirstLoop(graph, 2);
  const TaskGraph tasks = *Partition(graph, strategy, {.devices = 2, .fuse = false});
  for (int d = 0; d < 2; ++d) {
    const std::vector<TaskId> held = TasksOf(tasks, Named(graph, "fc0.d1"), DeviceId(d));
    ASSERT_THAT(held, SizeIs(1));
    EXPECT_EQ(tasks.task(held[0]).after, TasksOf(tasks, Named(graph, "fc2.d1"), DeviceId(d)));
  }
  EXPECT_EQ(Verify(graph, strategy, tasks), absl::OkStatus());
}

TEST(ControlEdgesTest, NameNothingWhereTheOtherOperatorHasNoPart) {
  const Graph graph = WithEdge(Layers(2), "fc1", "fc0");
  Strategy strategy = SingleDevice(graph, DeviceId(0));
  strategy.configs[Named(graph, "fc0").index()].devices = {DeviceId(1)};
  const TaskGraph tasks = *Partition(graph, strategy, {.devices = 2});
  for (TaskId id : TasksOf(tasks, Named(graph, "fc1"), DeviceId(0))) {
    EXPECT_THAT(tasks.task(id).after, IsEmpty());
  }
  EXPECT_EQ(Verify(graph, strategy, tasks), absl::OkStatus());
}

TEST(ControlEdgesTest, ChangeFingerprintsOnlyWhereThereAreSome) {
  const Graph plain = Layers(3), held = WithEdge(plain, "fc0.d1", "fc2.d1");
  GraphBuilder again(held);
  again.SetAfter(Named(held, "fc0.d1"), {});
  const Graph freed = ModelWriter::Get(std::move(again).Build());
  EXPECT_NE(plain.fingerprint(), held.fingerprint());
  EXPECT_EQ(plain.fingerprint(), freed.fingerprint());
  const auto fingerprint = [](const Graph& graph) {
    return Partition(graph, SplitFirstLoop(graph, 2), {.devices = 2, .fuse = false})->fingerprint();
  };
  EXPECT_NE(fingerprint(plain), fingerprint(held));
  EXPECT_EQ(fingerprint(plain), fingerprint(freed));
}

TEST(ControlEdgesTest, CyclesAreRefusedWithTheirOperators) {
  const Graph graph = Layers(3);
  GraphBuilder builder(graph);
  builder.SetAfter(Named(graph, "fc0"), {Named(graph, "fc2")});
  const auto built = std::move(builder).Build();
  EXPECT_THAT(std::string(built.status().message()),
              HasSubstr("cycle: 'fc0' -> 'fc1' -> 'fc2' -> 'fc0'"));
}

TEST(ControlEdgesTest, WithoutAPrefetchDistanceAWeightIsGatheredOnce) {
  const Graph graph = Layers(3);
  const TaskGraph tasks = *Partition(graph, Sharded(graph, 4, std::nullopt), {.devices = 4});
  EXPECT_THAT(AllGathersOf(graph, tasks, "fc1.weight"), SizeIs(1));
}

TEST(ControlEdgesTest, AGatherForBackwardWaitsForItsOpener) {
  const Graph graph = Layers(4);
  for (int distance : {0, 1}) {
    const Strategy strategy = Sharded(graph, 4, distance);
    const TaskGraph tasks = *Partition(graph, strategy, {.devices = 4});
    EXPECT_EQ(Verify(graph, strategy, tasks), absl::OkStatus());
    const auto gathers = AllGathersOf(graph, tasks, "fc1.weight");
    ASSERT_THAT(gathers, SizeIs(2)) << "distance " << distance;
    // Readers of weights, in order: fc0 .. fc3, then fc3.d0, fc2.d0, fc1.d0.
    const OpId forward = Named(graph, "fc0"),
               ahead = Named(graph, distance == 0 ? "fc2.d0" : "fc3.d0");
    const auto waits_for = [&](OpId op) {
      std::vector<TaskId> all;
      for (int d = 0; d < 4; ++d) {
        const std::vector<TaskId> more = TasksOf(tasks, op, DeviceId(d));
        all.insert(all.end(), more.begin(), more.end());
      }
      std::sort(all.begin(), all.end());
      return all;
    };
    EXPECT_EQ(gathers[0]->after, distance == 0 ? waits_for(forward) : std::vector<TaskId>());
    EXPECT_EQ(gathers[1]->after, waits_for(ahead));
    // Two sets of buffers.
    EXPECT_NE(AccessOf(*gathers[0]).writes, AccessOf(*gathers[1]).writes);
  }
}

TEST(ControlEdgesTest, GathersApartTakeLessMemory) {
  const Graph graph = Layers(12, 64);
  const auto peak = [&](std::optional<int32_t> prefetch) {
    const TaskGraph tasks = *Partition(graph, Sharded(graph, 4, prefetch), {.devices = 4});
    return AssignBuffers(tasks, CanonicalOrder(tasks), {}).peak(DeviceId(0));
  };
  constexpr int64_t kWeight = 64 * 64 * 4;
  // At least half of the twelve gathered weights are gone at any time.
  EXPECT_LT(peak(0).value() + 6 * kWeight, peak(std::nullopt).value());
}

// Every way to spoil one control edge.
class ControlFaultTest : public testing::Test {
 protected:
  ControlFaultTest() : graph_(WithEdge(Layers(4), "fc0.d1", "fc2.d1")) {
    strategy_ = Sharded(graph_, 2, 0);
    tasks_ = *Partition(graph_, strategy_, {.devices = 2, .fuse = false});
    EXPECT_EQ(Verify(graph_, strategy_, tasks_), absl::OkStatus());
  }

  TaskGraph Edited(const std::function<void(Task&)>& edit) const {
    TaskGraphBuilder builder(tasks_.devices());
    for (const Buffer& buffer : tasks_.buffers()) builder.AddBuffer(buffer);
    for (const KernelSignature& signature : tasks_.signatures()) builder.AddSignature(signature);
    for (Task task : tasks_.tasks()) {
      edit(task);
      builder.AddTask(task.key, task.body, task.after);
    }
    for (const HostOutput& output : tasks_.outputs()) {
      builder.AddOutput(output.tensor, output.buffer);
    }
    return std::move(builder).Build();
  }

  Graph graph_;
  Strategy strategy_;
  TaskGraph tasks_;
};

TEST_F(ControlFaultTest, AnEdgeThatIsRemovedDoubledOrTurnedRoundIsFound) {
  int held = 0;
  for (const Task& wanted : tasks_.tasks()) {
    if (wanted.after.empty()) continue;
    ++held;
    const TaskGraph removed = Edited([&](Task& task) {
      if (task.id == wanted.id) task.after.erase(task.after.begin());
    });
    EXPECT_THAT(std::string(Verify(graph_, strategy_, removed).message()),
                HasSubstr("control edges"));
    const TaskGraph doubled = Edited([&](Task& task) {
      if (task.id == wanted.id) task.after.insert(task.after.begin(), task.after[0]);
    });
    EXPECT_THAT(std::string(Verify(graph_, strategy_, doubled).message()),
                HasSubstr("control edges"));
    // Turned round: the later task runs before the one that it should wait for.
    std::vector<TaskId> order = CanonicalOrder(tasks_);
    order.erase(order.begin() + wanted.id.value());
    order.insert(order.begin() + wanted.after[0].value(), wanted.id);
    EXPECT_THAT(std::string(VerifyStep({graph_, strategy_, tasks_, order}).message()),
                HasSubstr("which it depends on"));
  }
  EXPECT_GT(held, 8);
}

TEST_F(ControlFaultTest, AnEdgeThatNobodyAskedForIsFound) {
  int free = 0;
  for (const Task& wanted : tasks_.tasks()) {
    if (wanted.id < TaskId(4) || !wanted.after.empty()) continue;
    ++free;
    const TaskGraph edited = Edited([&](Task& task) {
      if (task.id == wanted.id) task.after = {TaskId(2)};
    });
    EXPECT_THAT(Verify(graph_, strategy_, edited), Not(absl::OkStatus())) << wanted.id.value();
  }
  EXPECT_GT(free, 8);
}

}  // namespace
}  // namespace partita
