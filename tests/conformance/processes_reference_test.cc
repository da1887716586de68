// Training over several processes equals PyTorch: references of tests/data/oracle, one device in
// each process, within the tolerance that the reference states, and bit for bit as the same plan
// trains in one process.
#include <gtest/gtest.h>

#include <iostream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "planner/expert/expert_strategies.h"
#include "runtime/backend/backends.h"
#include "runtime/train/reference/reference_model.h"
#include "runtime/train/reference/reference_run.h"
#include "runtime/train/reference_training.h"
#include "tests/conformance/processes.h"
#include "tests/testing/model_writer.h"
#include "tests/testing/random_strategy.h"

namespace partita {
namespace {

class ProcessesReferenceTest : public ::testing::Test {
 protected:
  int rank() const { return ProcessesPort().rank(); }
  int size() const { return ProcessesPort().size(); }

  enum class Plans { kOne, kTwo, kAll };

  // The same on all ranks: a random one, with data parallelism, with every expert's.
  std::vector<NamedStrategy> Strategies(const Graph& graph, Plans plans) const {
    std::vector<NamedStrategy> strategies = ExpertStarts(graph, VirtualCpuDevices(size()));
    std::erase_if(strategies, [&](const NamedStrategy& row) {
      return plans == Plans::kOne || (plans == Plans::kTwo && row.name != "data_parallel");
    });
    std::mt19937_64 random(2027);
    for (int k = 0; k < (plans == Plans::kAll ? 3 : 1); ++k) {
      strategies.push_back({"random " + std::to_string(k), RandomStrategy(graph, size(), random)});
    }
    return strategies;
  }

  // Over the processes, or on as many devices of this one.
  absl::StatusOr<RunValues> Train(const Graph& graph, const ReferenceFolder& reference,
                                  const Strategy& strategy, bool over_processes) const {
    const auto backend = ModelWriter::Get(MakeBackend("reference"));
    ExecutorSetup setup{.devices = VirtualDevices(backend, size()), .hang_seconds = 600};
    if (over_processes) {
      setup.communicator = "mpi";
      setup.port = &ProcessesPort();
    }
    return TrainSplitOnReference(graph, reference, strategy, {.devices = size()}, setup);
  }

  void TrainsAsPyTorchDoes(const std::string& name, Plans plans) const {
    const ReferenceFolder reference =
        ModelWriter::Get(LoadReferenceFolder(PARTITA_TEST_DATA "/oracle/" + name));
    const auto model = ModelWriter::Get(LoadReferenceModel(reference));
    const Graph graph = ModelWriter::Get(BuildReferenceGraph(model, reference));
    const std::vector<NamedStrategy> strategies = Strategies(graph, plans);
    for (const auto& [strategy_name, strategy] : strategies) {
      const auto got = Train(graph, reference, strategy, true);
      ASSERT_TRUE(got.ok()) << strategy_name << ": " << got.status();
      const ReferenceComparison comparison = CompareWithReference(reference, *got);
      ASSERT_TRUE(comparison.equal) << strategy_name << ": " << comparison.first_difference;
      if (rank() > 0) continue;
      const auto alone = Train(graph, reference, strategy, false);
      ASSERT_TRUE(alone.ok()) << strategy_name << ": " << alone.status();
      ASSERT_EQ(*got, *alone) << strategy_name;
    }
    if (rank() == 0) {
      std::cout << name << ": " << strategies.size() << " plans on " << size() << " processes\n";
    }
  }
};

TEST_F(ProcessesReferenceTest, MlpTrainsAsPyTorchDoes) { TrainsAsPyTorchDoes("mlp", Plans::kAll); }
TEST_F(ProcessesReferenceTest, LenetTrainsAsPyTorchDoes) {
  TrainsAsPyTorchDoes("lenet", Plans::kTwo);
}
TEST_F(ProcessesReferenceTest, AlexNetTrainsAsPyTorchDoes) {
  TrainsAsPyTorchDoes("alexnet_s_tiny", Plans::kTwo);
}
TEST_F(ProcessesReferenceTest, ResNetTrainsAsPyTorchDoes) {
  TrainsAsPyTorchDoes("resnet_tiny", Plans::kOne);
}

TEST_F(ProcessesReferenceTest, LongRunOfAllPlans) {
  for (const char* name : {"mlp", "lenet", "alexnet_s_tiny", "resnet_tiny"}) {
    TrainsAsPyTorchDoes(name, Plans::kAll);
  }
}

}  // namespace
}  // namespace partita
