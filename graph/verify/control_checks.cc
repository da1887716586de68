// Walks the tasks backwards: a buffer may wait for what all its later readers may wait for, and so
// for a task and the buffers that it writes.
#include "graph/verify/control_checks.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/support/status_macros.h"

namespace partita {
namespace {

using Operators = std::vector<OpId>;  // sorted, each once

void Add(Operators& to, const Operators& more) {
  to.insert(to.end(), more.begin(), more.end());
  std::sort(to.begin(), to.end());
  to.erase(std::unique(to.begin(), to.end()), to.end());
}

// What all of several readers wait for; without any reader yet, nothing is known.
class Shared {
 public:
  void Meet(const Operators& operators) {
    if (!known_.has_value()) {
      known_ = operators;
      return;
    }
    Operators both;
    std::set_intersection(known_->begin(), known_->end(), operators.begin(), operators.end(),
                          std::back_inserter(both));
    known_ = std::move(both);
  }
  void Meet(const Shared& other) {
    if (other.known_.has_value()) Meet(*other.known_);
  }
  Operators operators() const { return known_.value_or(Operators()); }

 private:
  std::optional<Operators> known_;
};

class ControlChecker {
 public:
  ControlChecker(const Graph& graph, const Strategy& strategy, const TaskGraph& tasks)
      : graph_(graph), strategy_(strategy), tasks_(tasks) {}

  absl::Status Run() {
    FindTasksOfOperators();
    FindPrefetches();
    FindTensors();
    if (!Asks() && !Has()) return absl::OkStatus();
    buffers_.resize(tasks_.buffers().size());
    for (const Buffer& buffer : tasks_.buffers()) {
      if (buffer.persistent()) buffers_[buffer.id.index()].Meet(Operators());
    }
    for (size_t t = tasks_.tasks().size(); t-- > 0;) {
      RETURN_IF_ERROR(CheckTask(tasks_.tasks()[t]));
    }
    return absl::OkStatus();
  }

 private:
  bool Asks() const {
    return std::any_of(graph_.ops().begin(), graph_.ops().end(),
                       [](const Operator& op) { return !op.after.empty(); }) ||
           std::any_of(prefetch_.begin(), prefetch_.end(),
                       [](const auto& distance) { return distance.has_value(); });
  }
  bool Has() const {
    return std::any_of(tasks_.tasks().begin(), tasks_.tasks().end(),
                       [](const Task& task) { return !task.after.empty(); });
  }

  // The operators whose kernels a task does: several where they are fused.
  Operators DoneBy(const ComputeTask& body) const {
    Operators done{body.op};
    for (OpId before : body.before) done.push_back(before);
    const KernelSignature& signature = tasks_.signatures()[static_cast<size_t>(body.signature)];
    if (signature.is_fused() && IsEpilogue(signature.fusion.rest.back().attrs)) {
      const auto place = static_cast<size_t>(signature.fusion.rest.back().wiring.outputs[0].index);
      const TensorId result = tasks_.buffer(body.outputs[place]).tensor;
      for (OpId id : graph_.producers(result)) done.push_back(id);
    }
    return done;
  }

  void FindTasksOfOperators() {
    is_piece_.resize(tasks_.buffers().size(), false);
    for (const Task& task : tasks_.tasks()) {
      const auto* compute = std::get_if<ComputeTask>(&task.body);
      if (compute == nullptr) continue;
      for (OpId op : DoneBy(*compute)) tasks_of_[{op, compute->device}].push_back(task.id);
      for (BufferId id : compute->outputs) {
        if (id != kNoBuffer) is_piece_[id.index()] = !tasks_.buffer(id).persistent();
      }
    }
  }

  void FindPrefetches() {
    prefetch_.resize(graph_.tensors().size());
    for (size_t w = 0; w < strategy_.weights.size(); ++w) {
      prefetch_[graph_.weights()[w].tensor.index()] = strategy_.weights[w].prefetch;
    }
  }

  // Which tensors are summed on their way, and which the host reads.
  void FindTensors() {
    is_summed_.resize(graph_.tensors().size(), false);
    is_host_.resize(graph_.tensors().size(), false);
    readers_.resize(graph_.tensors().size());
    for (const HostOutput& output : tasks_.outputs()) is_host_[output.tensor.index()] = true;
    for (const Task& task : tasks_.tasks()) {
      if (!task.key.of_tensor || !Sums(task)) continue;
      for (TensorId tensor : ExchangedBy(task)) is_summed_[tensor.index()] = true;
    }
    for (const Operator& op : graph_.ops()) {
      for (TensorId input : op.inputs) readers_[input.index()].Meet(WaitsFor(op, input));
    }
  }

  // The tensors of an exchange task: several in a bucket.
  static std::vector<TensorId> ExchangedBy(const Task& task) {
    const auto* collective = std::get_if<CollectiveTask>(&task.body);
    if (collective != nullptr && !collective->bucket.empty()) return collective->bucket;
    return {TensorId(task.key.subject)};
  }

  static bool Sums(const Task& task) {
    if (const auto* collective = std::get_if<CollectiveTask>(&task.body)) {
      return collective->collective.kind == CollectiveKind::kAllReduce ||
             collective->collective.kind == CollectiveKind::kReduceScatter;
    }
    const auto* moves = std::get_if<MoveTask>(&task.body);
    return moves != nullptr &&
           std::any_of(moves->moves.begin(), moves->moves.end(), [](const Move& move) {
             return move.kind == MoveSignature::Kind::kAdd ||
                    move.kind == MoveSignature::Kind::kMax;
           });
  }

  // What the exchange of a tensor for one of its readers is held back by.
  Operators WaitsFor(const Operator& reader, TensorId tensor) const {
    Operators operators = reader.after;
    const std::optional<int32_t>& distance = prefetch_[tensor.index()];
    if (!distance.has_value() || reader.anchor == kNoOp) return operators;
    // The weight is gathered once for all forward operators of equal edges, and once for gradients:
    // for the first of them.
    for (OpId id : graph_.consumers(tensor)) {
      const Operator& first = graph_.op(id);
      if (first.anchor == kNoOp || first.after != reader.after ||
          first.pass.is_forward() != reader.pass.is_forward()) {
        continue;
      }
      const auto readers = graph_.weight_readers();
      const auto place = std::lower_bound(readers.begin(), readers.end(), id) - readers.begin();
      if (place > *distance) {
        Add(operators, {readers[static_cast<size_t>(place - *distance - 1)]});
      }
      break;
    }
    return operators;
  }

  std::vector<TaskId> TasksFor(const Operators& operators,
                               const std::vector<DeviceId>& devices) const {
    std::vector<TaskId> tasks;
    for (OpId op : operators) {
      for (DeviceId device : devices) {
        const auto it = tasks_of_.find({op, device});
        if (it != tasks_of_.end()) tasks.insert(tasks.end(), it->second.begin(), it->second.end());
      }
    }
    std::sort(tasks.begin(), tasks.end());
    tasks.erase(std::unique(tasks.begin(), tasks.end()), tasks.end());
    return tasks;
  }

  absl::Status CheckTask(const Task& task) {
    if (const auto* compute = std::get_if<ComputeTask>(&task.body)) {
      Operators operators;
      for (OpId op : DoneBy(*compute)) Add(operators, graph_.op(op).after);
      MeetInputs(*compute);
      return Compare(task, TasksFor(operators, {compute->device}));
    }
    const Access access = AccessOf(task);
    const auto tensor = static_cast<size_t>(task.key.subject);
    Shared serves;
    for (BufferId id : access.writes) {
      if (!KeepsPiece(id, TensorId(task.key.subject))) serves.Meet(buffers_[id.index()]);
    }
    for (BufferId id : access.reads) buffers_[id.index()].Meet(serves);
    if (is_host_[tensor] && !is_summed_[tensor]) return CheckServesHost(task);
    Operators operators;
    if (!is_summed_[tensor]) operators = serves.operators();
    for (TensorId id : ExchangedBy(task)) {
      if (is_summed_[tensor]) Add(operators, readers_[id.index()].operators());
    }
    return Compare(task, TasksFor(operators, DevicesOf(task)));
  }

  // Whether a task of the tensor's exchange leaves the value in the buffer as it is: a gather in
  // place writes a piece over itself.
  bool KeepsPiece(BufferId id, TensorId tensor) const {
    if (is_summed_[tensor.index()]) return false;
    return tasks_.buffer(id).persistent() ? graph_.tensor(tensor).kind != TensorKind::kNext
                                          : is_piece_[id.index()];
  }

  void MeetInputs(const ComputeTask& body) {
    if (body.before.empty()) return MeetInputs(body, graph_.op(body.op), nullptr);
    const Fusion& fusion = tasks_.signatures()[static_cast<size_t>(body.signature)].fusion;
    for (size_t s = 0; s <= body.before.size(); ++s) {
      const Operator& op = graph_.op(s < body.before.size() ? body.before[s] : body.op);
      MeetInputs(body, op, s == 0 ? &fusion.first : &fusion.rest[s - 1].wiring);
    }
  }

  // Inputs of one of the kernel's operators; `wiring`: null where it has all of the kernel's.
  void MeetInputs(const ComputeTask& body, const Operator& op, const Wiring* wiring) {
    for (size_t k = 0; k < op.inputs.size(); ++k) {
      if (wiring != nullptr && wiring->inputs[k].list != TensorPlace::List::kInput) continue;
      const size_t place = wiring != nullptr ? static_cast<size_t>(wiring->inputs[k].index) : k;
      if (body.inputs[place] == kNoBuffer) continue;
      buffers_[body.inputs[place].index()].Meet(WaitsFor(op, op.inputs[k]));
    }
  }

  // The host reads together with one of the groups of readers and waits for what they wait for.
  absl::Status CheckServesHost(const Task& task) const {
    Operators any;
    for (OpId id : graph_.consumers(TensorId(task.key.subject))) {
      Add(any, WaitsFor(graph_.op(id), TensorId(task.key.subject)));
    }
    const std::vector<TaskId> allowed = TasksFor(any, DevicesOf(task));
    const bool fits =
        std::is_sorted(task.after.begin(), task.after.end()) &&
        std::includes(allowed.begin(), allowed.end(), task.after.begin(), task.after.end());
    return fits ? absl::OkStatus() : Wrong(task, allowed);
  }

  absl::Status Compare(const Task& task, const std::vector<TaskId>& expected) const {
    const bool waits = std::includes(task.dependencies.begin(), task.dependencies.end(),
                                     task.after.begin(), task.after.end());
    return task.after == expected && waits ? absl::OkStatus() : Wrong(task, expected);
  }

  absl::Status Wrong(const Task& task, const std::vector<TaskId>& expected) const {
    const auto list = [](const std::vector<TaskId>& tasks) {
      return absl::StrCat(
          "[",
          absl::StrJoin(tasks, ",",
                        [](std::string* out, TaskId id) { absl::StrAppend(out, id.value()); }),
          "]");
    };
    return absl::InternalError(absl::StrCat("task ", task.id.value(), " (", TaskName(graph_, task),
                                            ") has control edges from tasks ", list(task.after),
                                            "; wanted ", list(expected), ", and to wait for them"));
  }

  const Graph& graph_;
  const Strategy& strategy_;
  const TaskGraph& tasks_;
  absl::flat_hash_map<std::pair<OpId, DeviceId>, std::vector<TaskId>> tasks_of_;
  std::vector<std::optional<int32_t>> prefetch_;  // by TensorId
  std::vector<bool> is_summed_, is_host_;         // by TensorId
  std::vector<Shared> readers_;                   // by TensorId: what all its readers wait for
  std::vector<Shared> buffers_;                   // by BufferId
  std::vector<bool> is_piece_;                    // by BufferId: an activation that a kernel makes
};

}  // namespace

absl::Status CheckControlEdges(const Graph& graph, const Strategy& strategy,
                               const TaskGraph& tasks) {
  return ControlChecker(graph, strategy, tasks).Run();
}

}  // namespace partita
