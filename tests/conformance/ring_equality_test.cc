// Split training equals serial training in the ring, bit for bit, for random graphs and strategies:
// all of them in the interpreter, some through the planner's order and the executor as well.
#include "tests/testing/ring_equality.h"

#include <gtest/gtest.h>

#include <iostream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "graph/graph_text.h"
#include "graph/support/aligned.h"
#include "graph/support/status_macros.h"
#include "graph/task/buffer_assignment.h"
#include "graph/task/task_order.h"
#include "graph/training/training_graph.h"
#include "runtime/backend/backends.h"
#include "tests/conformance/executed_run.h"
#include "tests/testing/far_memory_backend.h"
#include "tests/testing/model_writer.h"
#include "tests/testing/random_collectives.h"
#include "tests/testing/random_graph.h"
#include "tests/testing/random_strategy.h"

namespace partita {
namespace {

constexpr int kSteps = 3;
constexpr int kPairsForOneExecuted = 7;  // prime to the plans of a graph

// What pairs that an executor ran contained, and how often.
struct ExecutedPairs {
  int pairs = 0;
  int reordered = 0;      // in another order than the canonical one
  int reused = 0;         // two buffers had one place
  int waits = 0;          // a lane waited for the other because of that
  int communicating = 0;  // something went from device to device
  int bucketed = 0;       // all-reduces ran as one
  int replayed = 0;       // the last steps ran as the second was recorded

  void Add(const Program& program) {
    ++pairs;
    reordered += program.order != CanonicalOrder(program.tasks) ? 1 : 0;
    waits += program.memory.added_dependencies.empty() ? 0 : 1;
    int64_t all = 0, arenas = 0, received = 0;
    for (size_t b = 0; b < program.memory.bytes.size(); ++b) {
      if (program.memory.offset[b] >= 0) all += Aligned(program.memory.bytes[b]);
    }
    for (Bytes arena : program.memory.arena) arenas += arena.value();
    for (Bytes bytes : BytesReceived(program.tasks)) received += bytes.value();
    reused += arenas < all ? 1 : 0;
    communicating += received > 0 ? 1 : 0;
    for (const Task& task : program.tasks.tasks()) {
      const auto* collective = std::get_if<CollectiveTask>(&task.body);
      if (collective == nullptr || collective->bucket.empty()) continue;
      ++bucketed;
      break;
    }
  }
  std::string ToString() const {
    return absl::StrCat(pairs, " pairs through the executor: ", reordered,
                        " in an order of the planner's own, ", reused, " with reused memory, ",
                        waits, " with waits for it, ", communicating, " with communication, ",
                        bucketed, " with buckets, ", replayed, " replayed\n");
  }
};

// Checks `plans` strategies for each seed's graph; stops at the first that differs. One pair in
// kPairsForOneExecuted also runs in an executor.
class SeedChecker {
 public:
  SeedChecker()
      : backend_(ModelWriter::Get(MakeBackend("reference"))),
        far_backend_(FarMemoryBackend(backend_)) {}

  void Run(uint64_t first, uint64_t last, int plans) {
    for (uint64_t seed = first; seed < last; ++seed) {
      std::mt19937_64 random(seed);
      const Graph graph = WithRingArithmetic(RandomTrainingGraph(random));
      const RingValues values = seed % 4 == 0 ? RingValues::kSmall : RingValues::kRandom;
      const SerialRun serial(graph, kSteps, values, random);
      for (int k = 0; k < plans; ++k) {
        const absl::Status status = CheckPair(serial, random);
        if (status.ok()) continue;
        ADD_FAILURE() << "seed " << seed << " plan " << k << ": " << status << "\n"
                      << GraphText(graph);
        return;
      }
    }
    std::cout << coverage_.ToString() << executed_.ToString();
  }

  const StrategyCoverage& coverage() const { return coverage_; }
  const ExecutedPairs& executed() const { return executed_; }
  // How many kernels of the strategies' steps do an operator after others, by its name.
  const std::map<std::string, int>& fused() const { return fused_; }

 private:
  absl::Status CheckPair(const SerialRun& serial, std::mt19937_64& random) {
    const PartitionOptions options = RandomPartitionOptions(random);
    const Strategy plain = RandomStrategy(serial.graph(), options.devices, random);
    const Strategy strategy =
        WithRandomCollectives(serial.graph(), plain, options, collectives_random_);
    coverage_.Add(serial.graph(), strategy, options.devices);
    ASSIGN_OR_RETURN(const TaskGraph tasks, Partition(serial.graph(), strategy, options));
    RETURN_IF_ERROR(serial.Compare(tasks, &random));
    CountFused(tasks);
    if (coverage_.pairs % kPairsForOneExecuted != 0) return absl::OkStatus();
    const absl::Status status = Execute(serial, plain, options);
    if (status.ok()) return status;
    return {status.code(), absl::StrCat("in the executor: ", status.message())};
  }

  void CountFused(const TaskGraph& tasks) {
    for (const KernelSignature& signature : tasks.signatures()) {
      for (const FusedOperator& other : signature.fusion.rest) {
        ++fused_[std::string(NameOf(other.attrs))];
      }
    }
  }

  // Draws from a source of its own, so that the interpreter's pairs stay what they are.
  absl::Status Execute(const SerialRun& serial, const Strategy& strategy,
                       const PartitionOptions& options) {
    ASSIGN_OR_RETURN(EvaluatedStep step,
                     orders_.StepOf(serial.graph(), strategy, options, executed_random_));
    ASSIGN_OR_RETURN(
        const auto run,
        ExecutedRun::Open(serial.graph(), {std::move(step.tasks), std::move(step.order)},
                          SetupOf(executed_.pairs, options.devices)));
    executed_.Add(run->program());
    if (run->program().memory.offset != step.memory.offset ||
        run->program().memory.added_dependencies != step.memory.added_dependencies) {
      return absl::InternalError("the executor's memory is not what the planner foresaw");
    }
    RETURN_IF_ERROR(serial.Compare(*run));
    executed_.replayed += run->replayed_steps() == kSteps - 1 ? 1 : 0;
    std::vector<Bytes> received = BytesReceived(run->program().tasks);
    for (Bytes& bytes : received) bytes = Bytes(kSteps * bytes.value());
    if (received == run->BytesReceived()) return absl::OkStatus();
    return absl::InternalError("other bytes arrived than the plan says");
  }

  // In turns: threads that meet, streams, streams of cores and two GPUs' stand-ins, and virtual
  // devices of one, where steps are replayed.
  ExecutorSetup SetupOf(int pair, int devices) const {
    ExecutorSetup setup{.devices = VirtualDevices(backend_, devices),
                        .communicator = pair % 4 == 0 ? "inproc" : "streams",
                        .hang_seconds = 600};
    for (size_t d = 0; d < setup.devices.size() && pair % 4 >= 2; ++d) {
      const bool one_gpu = pair % 4 == 3;
      if (!one_gpu && d % 3 == 1) continue;
      setup.devices[d] = {far_backend_, {.index = one_gpu ? 0 : static_cast<int>(d % 3)}};
    }
    return setup;
  }

  const std::shared_ptr<const Backend> backend_, far_backend_;
  PlannerOrders orders_;
  std::mt19937_64 executed_random_{11}, collectives_random_{12};
  StrategyCoverage coverage_;
  ExecutedPairs executed_;
  std::map<std::string, int> fused_;
};

TEST(RingEqualityTest, RandomStrategiesTrainLikeTheSerialModel) {
  SeedChecker checker;
  checker.Run(0, 1040, 4);
  const StrategyCoverage& coverage = checker.coverage();
  const ExecutedPairs& executed = checker.executed();
  EXPECT_GE(executed.pairs, 250);
  for (int count : {executed.reordered, executed.reused, executed.waits, executed.communicating}) {
    EXPECT_GE(count, executed.pairs / 2);
  }
  EXPECT_GE(executed.replayed, executed.pairs / 4);
  EXPECT_GE(executed.bucketed, executed.pairs / 20);
  EXPECT_GE(coverage.pairs, 2000);
  EXPECT_GE(coverage.Share("uneven"), 0.3);
  EXPECT_GE(coverage.Share("neighbours on different devices"), 0.3);
  EXPECT_GE(coverage.Share("pending sum"), 0.2);
  EXPECT_GE(coverage.Share("several parts per device"), 0.1);
  for (const char* feature :
       {"replica", "empty box", "permuted devices", "device subset", "operand read once",
        "overlapping operand boxes (halo)", "overlapping copies", "pending maximum",
        "chosen algorithm", "bucket", "bucket of three and more"}) {
    EXPECT_GT(coverage.Share(feature), 0.02) << feature;
  }
  for (const auto& [loop, count] : coverage.splits) EXPECT_GE(count, 20) << loop;
  for (const char* last :
       {"relu", "sgd", "adam", "batch_normalize", "batch_norm_grad_apply", "cross_entropy",
        "softmax_apply", "softmax_grad", "log_softmax_apply", "log_softmax_grad"}) {
    const auto it = checker.fused().find(last);
    EXPECT_TRUE(it != checker.fused().end() && it->second >= 20) << last << " is hardly ever fused";
  }
  for (const auto& [name, description] : OperatorTable()) {
    const auto it = coverage.splits.lower_bound(absl::StrCat(name, "."));
    EXPECT_TRUE(it != coverage.splits.end() && absl::StartsWith(it->first, absl::StrCat(name, ".")))
        << name << " is in no random graph";
  }
}

// The gradient of a weight that many operators share, as in unrolled recurrent layers.
TEST(RingEqualityTest, HundredsOfProducersOfOneTensorKeepTheirTermsApart) {
  ModelWriter m("shared", DType::kFloat32);
  TensorId y = m.Input({2, 2});
  const TensorId w = m.Weight("w", {2, 2}, 2);
  for (int i = 0; i < 300; ++i) {
    y = ModelWriter::Get(
        m.builder.Add({.name = absl::StrCat("use", i), .attrs = MatMul{}, .inputs = {y, w}}));
  }
  std::mt19937_64 random(5);
  const Graph graph = WithRingArithmetic(ModelWriter::Get(BuildTrainingGraph(m.Finish(y), {})));
  const SerialRun serial(graph, 2, RingValues::kRandom, random);
  Strategy strategy = SingleDevice(graph, DeviceId(0));
  for (OpId id : graph.anchors()) {
    strategy.configs[id.index()].degrees[0] = 2;
    strategy.configs[id.index()].devices = {DeviceId(0), DeviceId(1)};
  }
  const auto tasks = Partition(graph, strategy, {.devices = 2});
  ASSERT_TRUE(tasks.ok()) << tasks.status();
  EXPECT_EQ(serial.Compare(*tasks), absl::OkStatus());
}

TEST(RingEqualityTest, LongRunOfManyMorePairs) { SeedChecker().Run(1000000, 1005000, 4); }

}  // namespace
}  // namespace partita
