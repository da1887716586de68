#include "tests/runtime/cuda/planned_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "runtime/backend/cuda/plan/launch_plan.h"

namespace partita {

ScratchMemory::ScratchMemory(int64_t bytes)
    : bytes_(static_cast<size_t>(bytes)), memory_(bytes_ + 2 * kGuard, std::byte{0x5A}) {
  void* start = memory_.data();
  size_t space = memory_.size();
  data_ = static_cast<std::byte*>(std::align(kScratchAlignment, bytes_, start, space));
}

bool ScratchMemory::intact() const {
  return std::all_of(
      memory_.begin() + (data_ - memory_.data()) + static_cast<std::ptrdiff_t>(bytes_),
      memory_.end(), [](std::byte b) { return b == std::byte{0x5A}; });
}

Launched LaunchOf(const WholeKernel& whole, std::vector<TestTensor>& inputs) {
  Launched launch;
  const auto data = [](const KernelTensor& t, TestTensor& tensor) -> void* {
    return t.present && !tensor.bytes.empty() ? tensor.bytes.data() : nullptr;
  };
  for (size_t k = 0; k < inputs.size(); ++k) {
    launch.in.push_back(
        {data(whole.signature.inputs[k], inputs[k]), whole.input_boxes[k], whole.input_shapes[k]});
  }
  for (const KernelTensor& t : whole.signature.outputs) {
    launch.results.emplace_back(t.type);
    std::fill(launch.results.back().bytes.begin(), launch.results.back().bytes.end(),
              std::byte{0xA5});
  }
  for (size_t k = 0; k < launch.results.size(); ++k) {
    launch.out.push_back({data(whole.signature.outputs[k], launch.results[k]),
                          whole.output_boxes[k], whole.output_shapes[k]});
  }
  return launch;
}

std::vector<TestTensor> Planned(const WholeKernel& whole, std::vector<TestTensor> inputs,
                                const KernelOptions& options, HostIndex index) {
  Launched launch = LaunchOf(whole, inputs);
  const KernelArguments arguments{launch.in, launch.out, ExampleStep(), kExampleKey};
  auto plan = LaunchPlan::Make(whole.signature, options);
  EXPECT_TRUE(plan.ok()) << plan.status();
  if (!plan.ok()) return {};
  const int64_t bytes = plan->steps().scratch_bytes;
  if (!plan->Suits(arguments)) plan = LaunchPlan::Make(whole.signature, arguments, options);
  EXPECT_TRUE(plan.ok()) << plan.status();
  if (!plan.ok()) return {};
  EXPECT_TRUE(plan->Suits(arguments));
  EXPECT_EQ(plan->steps().scratch_bytes, bytes);
  ScratchMemory scratch(bytes);
  EXPECT_TRUE(plan->ForEachStep(arguments, scratch.data(),
                                [&](const auto& work) {
                                  RunOnHost(work, index);
                                  return absl::OkStatus();
                                })
                  .ok());
  EXPECT_TRUE(scratch.intact());
  return launch.results;
}

}  // namespace partita
