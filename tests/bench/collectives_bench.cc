// What choosing collectives by price gives: number of collectives, bytes received by all devices
// and simulated time of a step under data parallelism, with algorithms by size and every
// all-reduce by itself; with algorithms by price; and with buckets as well.
//
//   collectives_bench [MODEL BATCH MACHINE DEVICES]
#include <iostream>
#include <memory>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "cost_model/default_cost_model.h"
#include "cost_model/machines.h"
#include "graph/partition/planned_step.h"
#include "graph/training/training_graph.h"
#include "graph/zoo/models.h"
#include "planner/collective_choice.h"
#include "planner/expert/expert_strategies.h"
#include "tests/testing/ok.h"

namespace partita {
namespace {

struct Case {
  std::string model;
  int64_t batch = 0;
  std::string machine;
  int devices = 0;
};

void Print(const std::string& name, const EvaluatedStep& step) {
  int64_t collectives = 0, all_reduces = 0, buckets = 0;
  for (const Task& task : step.tasks.tasks()) {
    const auto* body = std::get_if<CollectiveTask>(&task.body);
    if (body == nullptr) continue;
    ++collectives;
    all_reduces += body->collective.kind == CollectiveKind::kAllReduce ? 1 : 0;
    buckets += body->bucket.empty() ? 0 : 1;
  }
  Bytes received;
  for (Bytes bytes : step.evaluation.received) received += bytes;
  std::cout << absl::StrFormat("  %-20s %5d %5d %5d %12.1f MB %10.3f ms\n", name, collectives,
                               all_reduces, buckets, static_cast<double>(received.value()) / 1e6,
                               static_cast<double>(step.evaluation.time.value()) / 1e6)
            << std::flush;
}

void Run(const Case& c) {
  const Graph graph = Ok(BuildTrainingGraph(Ok(MakeZooModel(c.model, c.batch)), {}));
  const auto machine = std::make_shared<const Machine>(Ok(FindMachine(c.machine, c.devices)));
  const auto costs = MakeDefaultCostModel(machine);
  const Evaluator evaluator(graph, machine->topology, *costs);
  const Strategy strategy = Ok(DataParallel(graph, machine->topology));
  std::cout << c.model << ", batch " << c.batch << ", " << c.devices << " devices of " << c.machine
            << "\n  collectives, of them all-reduces, of them buckets; bytes; simulated step\n";
  const PartitionOptions by_size = PartitionOptionsOf(machine->topology, {});
  const TaskGraph apart = Ok(Partition(graph, strategy, by_size));
  Print("by size, apart", Ok(evaluator.EvaluateStep(WithAlgorithms(strategy, apart))));
  Print("by price, apart", Ok(evaluator.EvaluateStep(strategy)));
  Print("by price, buckets", Ok(evaluator.EvaluateStep(WithBuckets(evaluator, strategy).strategy)));
}

}  // namespace
}  // namespace partita

int main(int argc, char** argv) {
  if (argc == 5) {
    partita::Case one{argv[1], 0, argv[3], 0};
    if (!absl::SimpleAtoi(argv[2], &one.batch) || !absl::SimpleAtoi(argv[4], &one.devices)) {
      std::cerr << "wanted MODEL BATCH MACHINE DEVICES\n";
      return 2;
    }
    partita::Run(one);
    return 0;
  }
  partita::Run({"resnet50", 512, "p100-4x4", 16});
  partita::Run({"resnet50", 2048, "k80-16x4", 64});
  return 0;
}
