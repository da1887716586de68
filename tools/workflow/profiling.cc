#include "tools/workflow/profiling.h"

#include <algorithm>
#include <chrono>
#include <ctime>

#include "absl/container/flat_hash_set.h"
#include "cost_model/profile_db.h"
#include "graph/support/status_macros.h"
#include "graph/task/partition.h"
#include "graph/task/planned_step.h"
#include "planner/expert/expert_strategies.h"
#include "planner/space/search_space.h"
#include "runtime/backend/backends.h"
#include "runtime/profiler/kernel_profiler.h"
#include "runtime/train/executor_setup.h"

namespace partita {
namespace {

// Signatures in the order in which they are to be measured.
class SignatureCollector {
 public:
  void Add(const TaskGraph& tasks) {
    for (const KernelSignature& signature : tasks.signatures()) {
      if (seen_.insert(ToString(signature)).second) group_.kernels.push_back(signature);
    }
    for (const Task& task : tasks.tasks()) {
      const auto* move = std::get_if<MoveTask>(&task.body);
      if (move == nullptr) continue;
      for (const MoveSignature& signature : SignaturesOf(*move)) {
        if (seen_.insert(ToString(signature)).second) group_.moves.push_back(signature);
      }
    }
  }

  // What was added since the last group comes behind the earlier groups, most work first.
  void EndGroup() {
    std::stable_sort(
        group_.kernels.begin(), group_.kernels.end(),
        [](const KernelSignature& a, const KernelSignature& b) { return SizeOf(a) > SizeOf(b); });
    std::stable_sort(
        group_.moves.begin(), group_.moves.end(),
        [](const MoveSignature& a, const MoveSignature& b) { return a.elements > b.elements; });
    for (auto& kernel : group_.kernels) wanted_.kernels.push_back(std::move(kernel));
    for (auto& move : group_.moves) wanted_.moves.push_back(move);
    group_ = {};
  }

  WantedSignatures Finish() && {
    EndGroup();
    return std::move(wanted_);
  }

 private:
  // Time in units of one multiply-add, roughly: a byte from memory costs as much as four.
  static int64_t SizeOf(const KernelSignature& signature) {
    return WorkOf(signature).multiply_adds + 4 * MinimumBytes(signature);
  }

  absl::flat_hash_set<std::string> seen_;
  WantedSignatures wanted_, group_;
};

// Writes records in batches, so that an interrupted run keeps what it has.
class RecordWriter {
 public:
  RecordWriter(ProfileDb& db, DeviceFingerprint device) : db_(db), device_(std::move(device)) {}

  absl::Status Add(ProfileRecord record, Measurement measurement) {
    record.samples_ns = std::move(measurement.samples_ns);
    record.scratch_bytes = measurement.scratch_bytes;
    record.measured_at = static_cast<int64_t>(std::time(nullptr));
    record.program = "partita";
    records_.push_back(std::move(record));
    return records_.size() >= 32 ? Flush() : absl::OkStatus();
  }
  absl::Status Flush() {
    if (records_.empty()) return absl::OkStatus();
    const absl::Status status = db_.Insert(device_, records_);
    records_.clear();
    return status;
  }

 private:
  ProfileDb& db_;
  const DeviceFingerprint device_;
  std::vector<ProfileRecord> records_;
};

}  // namespace

WantedSignatures SignaturesOf(const TaskGraph& tasks) {
  SignatureCollector collector;
  collector.Add(tasks);
  return std::move(collector).Finish();
}

WantedSignatures SignaturesOfSearch(const Graph& graph, const PricedMachine& priced) {
  const DeviceTopology& topology = priced.machine->topology;
  const PartitionOptions options = PartitionOptionsOf(topology, DefaultChoices(priced));
  SignatureCollector collector;
  auto add = [&](const Strategy& strategy) {
    const auto tasks = Partition(graph, strategy, options);
    if (tasks.ok()) collector.Add(*tasks);
  };
  const std::vector<NamedStrategy> experts = ExpertStarts(graph, topology);
  for (const NamedStrategy& expert : experts) add(expert.strategy);
  collector.EndGroup();
  if (topology.size() == 1) return std::move(collector).Finish();
  const SearchSpace space(graph, topology.size());
  // Every candidate once, all operators at a time: what an operator's kernels are depends on itself
  // alone, but for formats and fusion, which the experts cover.
  size_t most = 0;
  for (OpId op : graph.anchors()) most = std::max(most, space.Candidates(op).size());
  for (size_t k = 0; k < most; ++k) {
    Strategy strategy = experts[0].strategy;
    for (OpId op : graph.anchors()) {
      const auto& candidates = space.Candidates(op);
      strategy.configs[op.index()] = candidates[k % candidates.size()];
    }
    add(strategy);
  }
  return std::move(collector).Finish();
}

absl::StatusOr<ProfilingResult> ProfileForSearch(const Graph& graph, const PricedMachine& priced,
                                                 const ProfilingRequest& request) {
  return ProfileSignatures(SignaturesOfSearch(graph, priced), priced, request);
}

absl::StatusOr<ProfilingResult> ProfileSignatures(const WantedSignatures& wanted,
                                                  const PricedMachine& priced,
                                                  const ProfilingRequest& request) {
  const auto begin = std::chrono::steady_clock::now();
  ASSIGN_OR_RETURN(ProfileDb db, ProfileDb::Open(request.profile, ProfileDb::Mode::kCreate));
  const DeviceFingerprint device = FingerprintOf(*priced.machine, DeviceId(0), LocalBackendName());
  if (!request.foreign_profile) RETURN_IF_ERROR(db.CheckHardware(device));
  ASSIGN_OR_RETURN(const auto known, db.Signatures(device));
  ASSIGN_OR_RETURN(const auto backend, MakeBackend(LocalBackendName()));
  ASSIGN_OR_RETURN(const auto profiler,
                   KernelProfiler::Open(*backend, DeviceSpecsOf(priced.machine->topology)));
  RecordWriter writer(db, device);
  ProfilingResult result;
  result.wanted = static_cast<int64_t>(wanted.kernels.size() + wanted.moves.size());
  int64_t done = 0;
  bool stopped = false;
  auto measure = [&](const auto& signature) -> absl::Status {
    if (request.progress) request.progress(done, result.wanted, ToString(signature));
    ++done;
    if (known.contains(ToString(signature))) {
      ++result.known;
      return absl::OkStatus();
    }
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    stopped = stopped || seconds > request.seconds ||
              (request.stop != nullptr && request.stop->load(std::memory_order_relaxed));
    if (stopped) return absl::OkStatus();
    auto measurement = profiler->Measure(signature, ProfilerOptions{});
    if (!measurement.ok()) return measurement.status();
    ++result.measured;
    return writer.Add(RecordOf(signature), *std::move(measurement));
  };
  for (const KernelSignature& signature : wanted.kernels) RETURN_IF_ERROR(measure(signature));
  for (const MoveSignature& signature : wanted.moves) {
    if (signature.kind != MoveSignature::Kind::kReorder) RETURN_IF_ERROR(measure(signature));
  }
  RETURN_IF_ERROR(writer.Flush());
  result.complete = !stopped;
  return result;
}

}  // namespace partita
