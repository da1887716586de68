#include <algorithm>
#include <cstring>
#include <random>

#include "absl/strings/str_cat.h"
#include "graph/collective/algorithms.h"
#include "graph/support/status_macros.h"
#include "runtime/backend/backends.h"
#include "runtime/backend/gpus.h"
#include "runtime/comm/communicators.h"
#include "tests/gpu/plans_on_devices.h"
#include "tests/gpu/sections.h"
#include "tests/runtime/comm/communicator_bench.h"

namespace partita {
namespace {

constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat64, DType::kInt32, DType::kRing64};
constexpr int64_t kSizes[] = {1, 1000, 1 << 20};  // elements

std::vector<Collective> OfOneRank(int64_t elements) {
  return {MakeAllReduce(1, elements), MakeReduceScatter({elements}), MakeAllGather({elements}),
          MakeAllToAll({{elements}})};
}

std::vector<CollectiveCase> AllOfOneRank() {
  std::vector<CollectiveCase> runs;
  for (const int64_t elements : kSizes) {
    for (const DType dtype : kTypes) {
      for (const Collective& collective : OfOneRank(elements)) {
        const int64_t bytes = BytesOf(collective, 0, dtype);
        runs.push_back(
            {collective, std::string(DefaultAlgorithm(collective.kind, 1, bytes)), dtype});
      }
    }
  }
  return runs;
}

// Runs one collective of one rank; its result is what it was given.
absl::Status CheckOne(const CollectiveCase& run, const CommunicatorBench::Job& job,
                      CommunicatorBench& bench) {
  CommunicatorBench::Memory memory(1);
  memory[0].resize(static_cast<size_t>(BytesOf(run.collective, 0, run.dtype)));
  const auto sent = static_cast<size_t>(SendElements(run.collective, 0) * SizeOf(run.dtype));
  std::mt19937 random(1);
  for (size_t k = 0; k < sent; ++k) memory[0][k] = static_cast<char>(random() % 100);
  const std::vector<char> want(memory[0].begin(), memory[0].begin() + static_cast<int64_t>(sent));
  RETURN_IF_ERROR(bench.Run({job}, memory));
  const char* got = memory[0].data() + memory[0].size() - sent;
  if (std::memcmp(got, want.data(), sent) == 0) return absl::OkStatus();
  return absl::DataLossError("the result is not what the one rank sent");
}

}  // namespace

absl::StatusOr<SectionFindings> CheckNccl(const SuiteOptions& options) {
  ASSIGN_OR_RETURN(const std::shared_ptr<const Backend> backend, MakeBackend(options.backend));
  const CommunicatorSetup setup{.devices = 1, .nccl_library = options.nccl_library};
  ASSIGN_OR_RETURN(auto communicator, MakeCommunicator("nccl", setup));
  SectionFindings findings;
  findings.details = {{"library", options.nccl_library}, {"running", "connecting"}};
  options.so_far(findings);
  ASSIGN_OR_RETURN(const auto bench,
                   CommunicatorBench::Open(std::move(communicator), {{backend, {}}}));
  const std::vector<CollectiveCase> runs = AllOfOneRank();
  std::vector<CommunicatorBench::Job> jobs;
  for (size_t k = 0; k < runs.size(); ++k) {
    jobs.push_back(CollectiveJob(TaskId(static_cast<int32_t>(k)), {DeviceId(0)}, runs[k], 1));
  }
  RETURN_IF_ERROR(bench->Prepare(jobs));
  for (size_t k = 0; k < runs.size(); ++k) {
    const std::string run = absl::StrCat(ToString(runs[k].collective), " of ", Name(runs[k].dtype));
    findings.details["running"] = run;
    options.so_far(findings);
    const absl::Status status = CheckOne(runs[k], jobs[k], *bench);
    if (!status.ok()) findings.failures.push_back(absl::StrCat(run, ": ", status.ToString()));
  }
  findings.details.erase("running");
  findings.details["collectives"] = runs.size();
  return findings;
}

absl::StatusOr<SectionFindings> CheckNcclTestLibrary(const SuiteOptions& options) {
  ASSIGN_OR_RETURN(const std::shared_ptr<const Backend> backend, MakeBackend(options.backend));
  RETURN_IF_ERROR(
      MakeCommunicator("nccl", {.devices = 1, .nccl_library = options.nccl_test_library}).status());
  return CheckPlans(options, {[&](int count) { return VirtualDevices(backend, count); },
                              options.other_plans(), "nccl", options.nccl_test_library});
}

absl::StatusOr<SectionFindings> CheckSeveralGpus(const SuiteOptions& options) {
  ASSIGN_OR_RETURN(const std::shared_ptr<const Backend> backend, MakeBackend(options.backend));
  int gpus = 0;
  if (backend->RunsOnHost()) {  // whose devices are as many as one likes
    gpus = *std::max_element(options.devices.begin(), options.devices.end());
  } else {
    ASSIGN_OR_RETURN(const GpuHost host, ExamineGpus());
    gpus = static_cast<int>(host.gpus.size());
  }
  if (gpus < 2) return absl::UnavailableError("there is one GPU here; wanted are several");
  SuiteOptions here = options;
  std::erase_if(here.devices, [gpus](int devices) { return devices > gpus; });
  if (here.devices.empty()) here.devices = {gpus};
  const auto devices = [&](int count) {
    std::vector<PlacedDevice> placed;
    for (int d = 0; d < count; ++d) placed.push_back({backend, {.index = d}});
    return placed;
  };
  return CheckPlans(here, {devices, options.other_plans(), "nccl", options.nccl_library});
}

}  // namespace partita
