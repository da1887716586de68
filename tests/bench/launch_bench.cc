// What the host spends on a launch of the cuda backend before it calls CUDA: steps planned at every
// launch against steps that were planned once, into which addresses and the step's numbers are put.
// The kernels are those of a training step on one device; a stand-in takes the place of CUDA's
// launches. Prints processor time of each launch, the least of several rounds.
//
//   launch_bench [MODEL BATCH PRECISION]        default: alexnet 256 float32
#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "graph/parallel/strategy.h"
#include "graph/partition/partition.h"
#include "graph/training/training_graph.h"
#include "graph/zoo/models.h"
#include "runtime/backend/cuda/plan/launch_plan.h"
#include "tests/bench/processor_time.h"
#include "tests/testing/ok.h"

namespace partita {
namespace {

constexpr int kRounds = 20, kStepsOfRound = 50;

// A kernel of the step, with addresses that nobody follows.
struct Site {
  KernelSignature signature;
  KernelOptions options;
  std::vector<TensorArgument> inputs, outputs;
  std::unique_ptr<LaunchPlan> plan;

  KernelArguments arguments(int64_t step) const {
    StepArguments numbers;
    numbers.step = step;
    return {inputs, outputs, numbers, 1};
  }
};

std::vector<TensorArgument> ArgumentsOf(const std::vector<KernelTensor>& tensors,
                                        const std::vector<Box>& boxes) {
  static uintptr_t next = 1 << 20;
  std::vector<TensorArgument> arguments;
  for (size_t k = 0; k < tensors.size(); ++k) {
    void* const data = tensors[k].present ? reinterpret_cast<void*>(next += 1 << 12) : nullptr;
    arguments.push_back({data, boxes[k], tensors[k].type.shape});
  }
  return arguments;
}

std::vector<Site> SitesOf(const std::string& model, int64_t batch, Precision precision) {
  const Graph graph = Ok(BuildTrainingGraph(Ok(MakeZooModel(model, batch)), {}));
  PartitionOptions partition;
  partition.precision_of_device = {precision};
  const TaskGraph tasks = Ok(Partition(graph, SingleDevice(graph, DeviceId(0)), partition));
  std::vector<Site> sites;
  for (const Task& task : tasks.tasks()) {
    const auto* compute = std::get_if<ComputeTask>(&task.body);
    if (compute == nullptr) continue;
    Site site{tasks.signatures()[static_cast<size_t>(compute->signature)], {}, {}, {}, nullptr};
    site.options = WaysToPlan(site.signature.compute_type).front();
    site.inputs = ArgumentsOf(site.signature.inputs, compute->input_boxes);
    site.outputs = ArgumentsOf(site.signature.outputs, compute->output_boxes);
    site.plan = std::make_unique<LaunchPlan>(
        Ok(LaunchPlan::Make(site.signature, site.arguments(0), site.options)));
    sites.push_back(std::move(site));
  }
  return sites;
}

// What stands for a launch: the compiler has to make what it would be given.
void Launch(const void* work) { asm volatile("" : : "r"(work) : "memory"); }

char* Scratch() { return reinterpret_cast<char*>(uintptr_t{1} << 40); }

void PlanEachTime(const Site& site, int64_t step) {
  const KernelSteps plan =
      Ok(PlanKernel(site.signature, site.arguments(step), Scratch(), site.options));
  for (const KernelStep& work : plan.steps) Launch(&work);
}

void PlanOnce(const Site& site, int64_t step) {
  const KernelArguments arguments = site.arguments(step);
  if (!site.plan->Suits(arguments)) std::abort();
  const absl::Status status =
      site.plan->ForEachStep(arguments, Scratch(), [](const auto& work) -> absl::Status {
        Launch(&work);
        return absl::OkStatus();
      });
  if (!status.ok()) std::abort();
}

template <class Enqueue>
double NanosecondsPerLaunch(const std::vector<Site>& sites, Enqueue&& enqueue) {
  double least = 0;
  for (int round = 0; round < kRounds; ++round) {
    const double start = ProcessorSeconds();
    for (int step = 0; step < kStepsOfRound; ++step) {
      for (const Site& site : sites) enqueue(site, step);
    }
    const double each =
        1e9 * (ProcessorSeconds() - start) / (kStepsOfRound * static_cast<double>(sites.size()));
    if (round == 0 || each < least) least = each;
  }
  return least;
}

int Run(const std::string& model, int64_t batch, Precision precision) {
  const std::vector<Site> sites = SitesOf(model, batch, precision);
  size_t steps = 0;
  for (const Site& site : sites) steps += site.plan->steps().steps.size();
  const double before = NanosecondsPerLaunch(sites, PlanEachTime);
  const double now = NanosecondsPerLaunch(sites, PlanOnce);
  std::printf(
      "%s, batch %lld, %s: %zu kernels of %zu steps\n"
      "planned at every launch: %.0f ns for each kernel, %.1f us for a step\n"
      "planned once:            %.0f ns for each kernel, %.1f us for a step\n",
      model.c_str(), static_cast<long long>(batch), RowOf(precision).name, sites.size(), steps,
      before, before * static_cast<double>(sites.size()) * 1e-3, now,
      now * static_cast<double>(sites.size()) * 1e-3);
  return now < before ? 0 : 1;
}

}  // namespace
}  // namespace partita

int main(int argc, char** argv) {
  using namespace partita;
  std::string model = "alexnet";
  int64_t batch = 256;
  std::optional<Precision> precision = Precision::kFloat32;
  if (argc == 4) {
    model = argv[1];
    if (!absl::SimpleAtoi(argv[2], &batch)) batch = 0;
    precision = PrecisionNamed(argv[3]);
  }
  if ((argc != 1 && argc != 4) || batch <= 0 || !precision.has_value()) {
    std::fprintf(stderr, "wanted MODEL BATCH PRECISION\n");
    return 2;
  }
  return Run(model, batch, *precision);
}
