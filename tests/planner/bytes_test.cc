// What the plans of the two best known strategies move, against formulas on paper.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "graph/partition/partition.h"
#include "runtime/backend/backends.h"
#include "runtime/comm/communicators.h"
#include "runtime/executor/executor.h"
#include "tests/planner/fixture.h"

namespace partita {
namespace {

// Sizes of a network, in elements: all weights, those of the convolutions, those of the last
// layer; the flattened convolutions' output, the hidden layers' width, classes.
struct NetSizes {
  int64_t all, convolutions, last, flat, hidden, classes;
};

NetSizes SizesOf(const Graph& graph) {
  NetSizes s{};
  std::vector<const Operator*> dense;
  for (const Weight& weight : graph.weights()) {
    s.all += Volume(graph.tensor(weight.tensor).type.shape);
  }
  for (const Operator& op : graph.ops()) {
    if (op.pass.is_forward() && std::holds_alternative<MatMul>(op.attrs)) dense.push_back(&op);
    if (!op.pass.is_forward() || !std::holds_alternative<Conv2d>(op.attrs)) continue;
    for (size_t k = 1; k < op.inputs.size(); ++k) {
      s.convolutions += Volume(graph.tensor(op.inputs[k]).type.shape);
    }
  }
  s.flat = graph.tensor(dense.front()->inputs[0]).type.shape[1];
  s.hidden = graph.tensor(dense.back()->inputs[0]).type.shape[1];
  s.classes = graph.WholeType(TensorRole::kLogits).shape[1];
  s.last = (s.hidden + 1) * s.classes;
  return s;
}

// Bytes that arrive at all P devices in a step: P times the average of one device, which is
// 2(P-1)/P * 4W.
int64_t DataParallelBytes(const NetSizes& s, int64_t devices) {
  return 4 * 2 * (devices - 1) * s.all;
}

// Krizhevsky 2014, scheme (a), P times 4(P-1)/P * [...] with: the all-gathers of the convolutions'
// output and of both hidden layers and the reduce-scatters of their gradients, 2B(F + 2h); the
// all-to-alls of the logits and of their gradient, 2BC/P; the all-reduce of the convolutions'
// gradients, 2Wconv. With fewer classes than devices the last layer splits by sample:
// 2B(F + h) + 2Bh/P + 2(Wconv + Wlast).
int64_t OneWeirdTrickBytes(const NetSizes& s, int64_t batch, int64_t devices) {
  const int64_t p = devices;
  if (s.classes >= p) {
    return 4 * (p - 1) *
           (2 * batch * (s.flat + 2 * s.hidden) + 2 * batch * s.classes / p + 2 * s.convolutions);
  }
  return 4 * (p - 1) *
         (2 * batch * (s.flat + s.hidden) + 2 * batch * s.hidden / p +
          2 * (s.convolutions + s.last));
}

bool ReportsLoss(const Graph& graph, const Task& task) {
  return task.key.of_tensor && (TensorId(task.key.subject) == graph.only(TensorRole::kLoss) ||
                                TensorId(task.key.subject) == graph.only(TensorRole::kCorrect));
}

// Bytes that one communication brings to all its devices.
int64_t BytesOf(const Task& task) {
  int64_t bytes = 0;
  for (DeviceId device : DevicesOf(task)) {
    if (const auto* c = std::get_if<CollectiveTask>(&task.body)) {
      bytes += ElementsReceived(*c, device) * SizeOf(c->dtype);
    } else if (const auto* t = std::get_if<TransferTask>(&task.body)) {
      bytes += ElementsReceived(*t, device) * SizeOf(t->dtype);
    }
  }
  return bytes;
}

// Tensor -> bytes, the reporting of loss and hits left out.
std::map<std::string, int64_t> TrafficByTensor(const Graph& graph, const TaskGraph& tasks) {
  std::map<std::string, int64_t> traffic;
  for (const Task& task : tasks.tasks()) {
    if (!IsCommunication(task) || ReportsLoss(graph, task)) continue;
    traffic[graph.tensor(TensorId(task.key.subject)).name] += BytesOf(task);
  }
  return traffic;
}

int64_t Sum(const std::map<std::string, int64_t>& traffic) {
  return std::accumulate(traffic.begin(), traffic.end(), int64_t{0},
                         [](int64_t sum, const auto& entry) { return sum + entry.second; });
}

struct BytesCase {
  const char* model;
  int64_t batch;
  int64_t data_parallel, one_weird_trick;  // per device, as printed in tables
};

class BytesTest : public testing::TestWithParam<BytesCase> {
 protected:
  static constexpr int kDevices = 4;

  std::map<std::string, int64_t> Traffic(const Graph& graph, ExpertFunction expert) {
    const DeviceTopology topology = VirtualCpuDevices(kDevices);
    const Strategy strategy = Ok(expert(graph, topology));
    return TrafficByTensor(
        graph,
        Ok(Partition(graph, strategy, {.devices = kDevices, .algorithm = AlwaysBy("ring")})));
  }
};

TEST_P(BytesTest, DataParallelMovesTwiceTheWeights) {
  const Graph graph = TrainingGraphOf(GetParam().model, GetParam().batch);
  const auto traffic = Traffic(graph, DataParallel);
  EXPECT_EQ(Sum(traffic), DataParallelBytes(SizesOf(graph), kDevices))
      << testing::PrintToString(traffic);
  EXPECT_EQ(Sum(traffic), kDevices * GetParam().data_parallel);
}

TEST_P(BytesTest, OneWeirdTrickMovesActivationsInsteadOfDenseWeights) {
  const Graph graph = TrainingGraphOf(GetParam().model, GetParam().batch);
  const auto traffic = Traffic(graph, OneWeirdTrick);
  EXPECT_EQ(Sum(traffic), OneWeirdTrickBytes(SizesOf(graph), GetParam().batch, kDevices))
      << testing::PrintToString(traffic);
  EXPECT_EQ(Sum(traffic), kDevices * GetParam().one_weird_trick);
}

INSTANTIATE_TEST_SUITE_P(FourDevices, BytesTest,
                         testing::Values(BytesCase{"alexnet", 64, 366605040, 21598848},
                                         BytesCase{"alexnet", 256, 366605040, 41940864},
                                         BytesCase{"alexnet", 1024, 366605040, 123308928},
                                         BytesCase{"alexnet_s128", 64, 216243084, 18406284},
                                         BytesCase{"alexnet_s128", 256, 216243084, 29023116},
                                         BytesCase{"alexnet_s128", 1024, 216243084, 71490444},
                                         BytesCase{"alexnet_s56", 64, 145612848, 18376320},
                                         BytesCase{"alexnet_s56", 256, 145612848, 29050752},
                                         BytesCase{"alexnet_s56", 1024, 145612848, 71748480}),
                         [](const auto& info) {
                           return std::string(info.param.model) + "_" +
                                  std::to_string(info.param.batch);
                         });

TEST(BytesCountTest, PlanSimulatorAndCommunicatorCountTheSame) {
  const Workplace at("alexnet_s_tiny", 8, "ethernet-4x1g", 4);
  for (const NamedStrategy& expert : ExpertStarts(at.graph, at.machine->topology)) {
    SCOPED_TRACE(expert.name);
    EvaluatedStep step = Ok(at.evaluator.EvaluateStep(expert.strategy));
    EXPECT_EQ(step.evaluation.received, BytesReceived(step.tasks));
    ExecutorOptions options;
    options.devices.assign(4, {Ok(MakeBackend("reference")), {}});
    const auto executor =
        Ok(Executor::Create(std::move(step.tasks), std::move(step.order), at.graph,
                            Ok(MakeCommunicator("inproc", {.devices = 4})), options));
    const std::vector<float> x(
        static_cast<size_t>(Volume(at.graph.WholeType(TensorRole::kSamples).shape)), 0.5f);
    const std::vector<int32_t> labels(8, 3);
    const auto result = executor->Step(HostTensorOf(x), HostTensorOf(labels), {});
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(executor->BytesReceived(), step.evaluation.received);
  }
}

}  // namespace
}  // namespace partita
