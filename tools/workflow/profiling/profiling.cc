#include "tools/workflow/profiling/profiling.h"

#include <algorithm>
#include <chrono>
#include <string>

#include "absl/container/flat_hash_set.h"
#include "cost_model/profile_db.h"
#include "cost_model/task_costs.h"
#include "graph/partition/partition.h"
#include "graph/partition/planned_step.h"
#include "graph/support/doing.h"
#include "graph/support/status_macros.h"
#include "graph/support/stop_flag.h"
#include "graph/task/buffer_assignment.h"
#include "graph/task/task_order.h"
#include "planner/expert/expert_strategies.h"
#include "planner/space/search_space.h"
#include "tools/workflow/output_path.h"
#include "tools/workflow/profiling/profiling_session.h"

namespace partita {
namespace {

constexpr int64_t kRecent = int64_t{2} << 20;  // bytes touched since: what the nearest cache keeps

std::string KeyOfCommunication(const TaskBody& body) {
  if (const auto* collective = std::get_if<CollectiveTask>(&body))
    return KeyOf(CallOf(*collective));
  return KeyOf(CallsOf(std::get<TransferTask>(body)));
}

// Tasks in the order in which they are to be measured.
class SignatureCollector {
 public:
  void Add(const TaskGraph& tasks) {
    const BufferAssignment memory = AssignBuffers(tasks, CanonicalOrder(tasks), {});
    for (int d = 0; d < tasks.devices(); ++d) {
      wanted_.footprint = std::max(wanted_.footprint, memory.peak(DeviceId(d)).value());
    }
    std::vector<int64_t> touched(static_cast<size_t>(tasks.devices()), 0);  // bytes, by device
    std::vector<int64_t> last(tasks.buffers().size(), -1);  // `touched` when it was used last
    for (const Task& task : tasks.tasks()) {
      if (const auto* compute = std::get_if<ComputeTask>(&task.body)) {
        AddKernel(tasks, *compute, memory, touched[compute->device.index()], last);
      } else if (const auto* move = std::get_if<MoveTask>(&task.body)) {
        for (const MoveSignature& signature : SignaturesOf(*move)) AddMove(signature);
      } else if (const auto* load = std::get_if<LoadTask>(&task.body)) {
        AddMove(SignatureOf(tasks, *load));
      } else if (seen_.insert(KeyOfCommunication(task.body)).second) {
        group_.communication.push_back(task.body);
      }
      Touch(tasks, task, touched, last);
    }
    rectified_.clear();
  }

  // What was added since the last group comes after the earlier groups, most work first.
  void EndGroup(bool with_communication) {
    std::stable_sort(group_.kernels.begin(), group_.kernels.end(),
                     [](const KernelWork& a, const KernelWork& b) {
                       return SizeOf(a.signature) > SizeOf(b.signature);
                     });
    std::stable_sort(
        group_.moves.begin(), group_.moves.end(),
        [](const MoveSignature& a, const MoveSignature& b) { return a.elements > b.elements; });
    for (auto& kernel : group_.kernels) wanted_.kernels.push_back(std::move(kernel));
    for (auto& move : group_.moves) wanted_.moves.push_back(move);
    if (with_communication) {
      for (auto& body : group_.communication) wanted_.communication.push_back(std::move(body));
    }
    group_ = {};
  }

  WantedSignatures Finish() && { return std::move(wanted_); }

 private:
  // Time in units of one multiply-add, roughly: a byte from memory costs as much as four.
  static int64_t SizeOf(const KernelSignature& signature) {
    return WorkOf(signature).multiply_adds + 4 * MinimumBytes(signature);
  }

  static int64_t BytesOf(const Buffer& buffer) {
    return buffer.elements() * partita::SizeOf(buffer.dtype);
  }

  static void Touch(const TaskGraph& tasks, const Task& task, std::vector<int64_t>& touched,
                    std::vector<int64_t>& last) {
    const Access access = AccessOf(task);
    for (const auto* list : {&access.reads, &access.writes}) {
      for (BufferId id : *list) {
        const Buffer& buffer = tasks.buffer(id);
        int64_t& sum = touched[buffer.device.index()];
        sum += BytesOf(buffer);
        last[id.index()] = sum;
      }
    }
  }

  bool IsRectified(TensorId tensor) const { return rectified_.contains(tensor); }

  // What ReLU's results are, those that only select, reorder or scale them are too.
  void NoteRectified(const TaskGraph& tasks, const ComputeTask& task,
                     const KernelSignature& signature) {
    if (!signature.pass.is_forward() || task.outputs.empty()) return;
    const std::vector<KernelStage> stages = StagesOf(signature);
    const OpAttrs& last = stages.back().kernel.attrs;
    const bool keeps = KeepsZeros(last) && stages.size() == 1 && task.inputs[0] != kNoBuffer;
    const TensorPlace place = stages.back().wiring.outputs[0];
    const BufferId result = task.outputs[static_cast<size_t>(place.index)];
    if (result == kNoBuffer) return;
    if (MakesZeros(last) || (keeps && IsRectified(tasks.buffer(task.inputs[0]).tensor))) {
      rectified_.insert(tasks.buffer(result).tensor);
    }
  }

  // `touched`: on its device so far; `last`: by buffer.
  void AddKernel(const TaskGraph& tasks, const ComputeTask& task, const BufferAssignment& memory,
                 int64_t touched, const std::vector<int64_t>& last) {
    const KernelSignature& signature = tasks.signatures()[static_cast<size_t>(task.signature)];
    NoteRectified(tasks, task, signature);
    if (!seen_.insert(ToString(signature)).second) return;
    KernelWork work{.signature = signature, .fresh = {}, .rectified = {}, .in_place_of = {}};
    for (BufferId id : task.inputs) {
      const bool known = id != kNoBuffer && last[id.index()] >= 0;
      work.rectified.push_back(id != kNoBuffer && IsRectified(tasks.buffer(id).tensor));
      work.fresh.push_back(known && touched - last[id.index()] <= kRecent);
    }
    for (BufferId id : task.outputs) {
      int place_of = -1;
      for (size_t k = 0; k < task.inputs.size() && id != kNoBuffer; ++k) {
        const BufferId input = task.inputs[k];
        if (input == kNoBuffer || memory.offset[input.index()] != memory.offset[id.index()]) {
          continue;
        }
        if (memory.bytes[input.index()] == memory.bytes[id.index()]) place_of = static_cast<int>(k);
      }
      work.in_place_of.push_back(place_of);
    }
    group_.kernels.push_back(std::move(work));
  }

  void AddMove(const MoveSignature& signature) {
    if (signature.elements == 0) return;
    if (seen_.insert(ToString(signature)).second) group_.moves.push_back(signature);
  }

  absl::flat_hash_set<std::string> seen_;
  absl::flat_hash_set<TensorId> rectified_;  // of the current task graph
  WantedSignatures wanted_, group_;
};

}  // namespace

WantedSignatures SignaturesOf(std::span<const TaskGraph* const> graphs) {
  SignatureCollector collector;
  for (const TaskGraph* tasks : graphs) collector.Add(*tasks);
  collector.EndGroup(true);
  return std::move(collector).Finish();
}

WantedSignatures SignaturesOf(const TaskGraph& tasks) {
  const TaskGraph* only = &tasks;
  return SignaturesOf(std::span(&only, 1));
}

namespace {

// An operator's candidates that begin on the first device: what its kernels are does not depend on
// which devices run them.
std::vector<ParallelConfig> DistinctCandidates(const SearchSpace& space, OpId op) {
  std::vector<ParallelConfig> candidates = space.Configs(op);
  std::erase_if(candidates,
                [](const ParallelConfig& config) { return config.devices[0] != DeviceId(0); });
  return candidates;
}

}  // namespace

WantedSignatures SignaturesOfSearch(const Graph& graph, const PricedMachine& priced, double seconds,
                                    const std::atomic<bool>* stop) {
  const auto begin = std::chrono::steady_clock::now();
  bool complete = true;
  const auto out_of_time = [&] {
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
    complete = complete && spent.count() <= seconds && !IsSet(stop);
    return !complete;
  };
  const DeviceTopology& topology = priced.machine->topology;
  const PartitionOptions options = PartitionOptionsOf(topology, DefaultChoices(priced));
  SignatureCollector collector;
  auto add = [&](const Strategy& strategy) {
    const auto tasks = Partition(graph, strategy, options);
    if (tasks.ok()) collector.Add(*tasks);
  };
  const std::vector<NamedStrategy> experts = ExpertStarts(graph, topology);
  for (const NamedStrategy& expert : experts) {
    if (!out_of_time()) add(expert.strategy);
  }
  collector.EndGroup(true);
  const SearchSpace space(graph, topology.size());
  // Every candidate once, all operators at a time: what an operator's kernels are depends on itself
  // uncontended, but for formats and fusion, which the experts cover.
  std::vector<std::vector<ParallelConfig>> candidates;
  size_t most = 0;
  for (OpId op : graph.anchors()) {
    if (out_of_time()) break;
    candidates.push_back(DistinctCandidates(space, op));
    most = std::max(most, candidates.back().size());
  }
  for (size_t k = 0; k < most && !out_of_time(); ++k) {
    Strategy strategy = experts[0].strategy;
    for (size_t a = 0; a < candidates.size(); ++a) {
      strategy.configs[graph.anchors()[a].index()] = candidates[a][k % candidates[a].size()];
    }
    add(strategy);
  }
  collector.EndGroup(false);
  WantedSignatures wanted = std::move(collector).Finish();
  wanted.complete = complete;
  return wanted;
}

absl::StatusOr<ProfilingResult> ProfileForSearch(const Graph& graph, const PricedMachine& priced,
                                                 const ProfilingRequest& request) {
  const Doing doing("listing what is to be measured");
  RETURN_IF_ERROR(CheckWritable(request.profile, "--profile"));
  const auto begin = std::chrono::steady_clock::now();
  const WantedSignatures wanted =
      SignaturesOfSearch(graph, priced, request.seconds / 4, request.stop);
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
  ProfilingRequest rest = request;
  rest.seconds = std::max(0.0, request.seconds - spent.count());
  return ProfileSignatures(wanted, priced, rest);
}

absl::StatusOr<ProfilingResult> ProfileSignatures(const WantedSignatures& wanted,
                                                  const PricedMachine& priced,
                                                  const ProfilingRequest& request) {
  const Doing doing("profiling into", request.profile);
  ASSIGN_OR_RETURN(ProfileDb db, ProfileDb::Open(request.profile, ProfileDb::Mode::kCreate));
  const auto begin = std::chrono::steady_clock::now();
  const auto classes = DevicesByClass(priced.machine->topology);
  DisturbanceWatch watch;
  ProfilingResult all{.complete = true};
  std::vector<DeviceFingerprint> fingerprints;
  for (const auto& devices : classes) fingerprints.push_back(priced.FingerprintOf(devices[0]));
  if (!request.foreign_profile) RETURN_IF_ERROR(db.CheckHardware(fingerprints));
  for (size_t c = 0; c < classes.size(); ++c) {
    // The classes that are left share the time that is left.
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
    ProfilingRequest share = request;
    share.seconds =
        std::max(0.0, request.seconds - spent.count()) / static_cast<double>(classes.size() - c);
    ASSIGN_OR_RETURN(const ProfilingResult one,
                     ProfilingSession(db, priced, classes[c], share).Measure(wanted));
    all.wanted += one.wanted;
    all.known += one.known;
    all.measured += one.measured;
    all.repeated += one.repeated;
    all.unsteady += one.unsteady;
    all.complete = all.complete && one.complete;
  }
  if (all.measured > 0) all.disturbance = watch.SoFar();
  return all;
}

}  // namespace partita
