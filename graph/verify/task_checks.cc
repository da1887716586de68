#include "graph/verify/task_checks.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/collective/algorithms.h"
#include "graph/support/status_macros.h"

namespace partita {
namespace {

// Collects the first thing that is wrong with one task.
class TaskCheck {
 public:
  TaskCheck(const Graph& graph, const TaskGraph& tasks, const Task& task)
      : graph_(graph), tasks_(tasks), task_(task) {}

  absl::Status Run() {
    for (TaskId before : task_.dependencies) {
      Want(before.value() >= 0 && before < task_.id, "depends on no earlier task");
    }
    std::visit([this](const auto& body) { Check(body); }, task_.body);
    if (wrong_.empty()) return absl::OkStatus();
    return absl::InternalError(absl::StrCat("task ", task_.id.value(), Subject(), ": ", wrong_));
  }

 private:
  // What the task is for, if that exists.
  std::string Subject() const {
    const int32_t subject = task_.key.subject;
    if (subject < 0) return "";
    const auto place = static_cast<size_t>(subject);
    if (task_.key.of_tensor) {
      if (place >= graph_.tensors().size()) return "";
      return absl::StrCat(" of tensor '", graph_.tensor(TensorId(subject)).name, "'");
    }
    if (place >= graph_.ops().size()) return "";
    return absl::StrCat(" of operator '", graph_.op(OpId(subject)).name, "'");
  }

  bool Want(bool condition, absl::string_view otherwise) {
    if (!condition && wrong_.empty()) wrong_ = std::string(otherwise);
    return condition;
  }

  // The buffer exists and is the device's.
  bool IsOn(BufferId id, DeviceId device) {
    return Want(id.value() >= 0 && id.index() < tasks_.buffers().size(), "no such buffer") &&
           Want(tasks_.buffer(id).device == device, "a buffer of another device");
  }

  bool Exists(DeviceId device) {
    return Want(device.value() >= 0 && device.value() < tasks_.devices(), "no such device");
  }

  bool IsIn(const Box& box, TensorId tensor) {
    const Box whole = Box::Full(graph_.tensor(tensor).type.shape);
    return Want(box.rank() == whole.rank() && (box.empty() || whole.Contains(box)),
                "a box outside its tensor");
  }

  void CheckPieces(const std::vector<BufferId>& buffers, const std::vector<Box>& boxes,
                   const std::vector<TensorId>& tensors, DeviceId device) {
    if (!Want(buffers.size() == tensors.size() && boxes.size() == tensors.size(),
              "operands are not the operator's")) {
      return;
    }
    for (size_t k = 0; k < buffers.size(); ++k) {
      if (!IsIn(boxes[k], tensors[k])) return;
      if (buffers[k] == kNoBuffer) continue;
      if (!IsOn(buffers[k], device)) return;
      const Buffer& buffer = tasks_.buffer(buffers[k]);
      Want(buffer.box == boxes[k], "a buffer of another box");
      const DType own = graph_.tensor(tensors[k]).type.dtype;
      Want(buffer.dtype == own || (IsReal(buffer.dtype) && IsReal(own)),
           "a buffer of another type");
    }
  }

  void Check(const ComputeTask& body) {
    if (!Exists(body.device)) return;
    if (!Want(body.op.value() >= 0 && body.op.index() < graph_.ops().size(), "no such operator") ||
        !Want(
            body.signature >= 0 && static_cast<size_t>(body.signature) < tasks_.signatures().size(),
            "no such signature")) {
      return;
    }
    const KernelSignature& signature = tasks_.signatures()[static_cast<size_t>(body.signature)];
    if (!CheckFusion(body, signature)) return;
    const KernelTensors tensors = TensorsOf(graph_, body, signature);
    CheckPieces(body.inputs, body.input_boxes, tensors.inputs, body.device);
    CheckPieces(body.outputs, body.output_boxes, tensors.outputs, body.device);
    if (!wrong_.empty()) return;
    CheckFormats(body.inputs, signature.inputs);
    CheckFormats(body.outputs, signature.outputs);
  }

  // The operators of the task are those of its signature, but for an epilogue, and every one reads
  // and writes as many tensors as it has, among those of the kernel and none before it is written.
  bool CheckFusion(const ComputeTask& body, const KernelSignature& signature) {
    const std::vector<FusedOperator>& rest = signature.fusion.rest;
    const bool epilogue = !rest.empty() && IsEpilogue(rest.back().attrs);
    if (!Want(rest.size() == body.before.size() + (epilogue ? 1 : 0), "fused in part"))
      return false;
    if (rest.empty()) return true;
    std::set<TensorPlace> written;
    for (size_t s = 0; s <= rest.size(); ++s) {
      const Wiring& wiring = s == 0 ? signature.fusion.first : rest[s - 1].wiring;
      for (TensorPlace place : wiring.inputs) {
        if (!Want(IsPlace(place, signature), "fused over tensors that it does not have") ||
            !Want(place.list == TensorPlace::List::kInput || written.contains(place),
                  "fused with what comes after it")) {
          return false;
        }
      }
      for (TensorPlace place : wiring.outputs) {
        if (!Want(IsPlace(place, signature) && place.list != TensorPlace::List::kInput,
                  "fused over tensors that it does not have")) {
          return false;
        }
        written.insert(place);
      }
      if (s > body.before.size()) continue;  // the epilogue
      const OpId id = s < body.before.size() ? body.before[s] : body.op;
      if (!Want(id.value() >= 0 && id.index() < graph_.ops().size(), "no such operator") ||
          !Want(graph_.op(id).inputs.size() == wiring.inputs.size() &&
                    graph_.op(id).outputs.size() == wiring.outputs.size(),
                "operands are not the operator's")) {
        return false;
      }
    }
    return true;
  }

  static bool IsPlace(TensorPlace place, const KernelSignature& signature) {
    const size_t size = place.list == TensorPlace::List::kInput    ? signature.inputs.size()
                        : place.list == TensorPlace::List::kOutput ? signature.outputs.size()
                                                                   : signature.fusion.inner.size();
    return place.index >= 0 && static_cast<size_t>(place.index) < size;
  }

  // Signatures say how their operands lie.
  void CheckFormats(const std::vector<BufferId>& buffers,
                    const std::vector<KernelTensor>& operands) {
    if (!Want(buffers.size() == operands.size(), "a signature of other operands")) return;
    for (size_t k = 0; k < buffers.size(); ++k) {
      if (buffers[k] == kNoBuffer) continue;
      Want(tasks_.buffer(buffers[k]).format == operands[k].format, "a buffer of another format");
      Want(tasks_.buffer(buffers[k]).dtype == operands[k].type.dtype, "a buffer of another type");
    }
  }

  bool SubjectIsTensor() {
    return Want(task_.key.of_tensor && task_.key.subject >= 0 &&
                    static_cast<size_t>(task_.key.subject) < graph_.tensors().size(),
                "the subject of its key is no tensor");
  }

  void CheckWindow(const BufferWindow& window, DeviceId device, DType dtype, const Box& region) {
    if (!IsOn(window.buffer, device)) return;
    const Buffer& buffer = tasks_.buffer(window.buffer);
    if (!IsIn(window.box, TensorId(task_.key.subject))) return;
    Want(region.rank() == window.box.rank() && window.box.Contains(region),
         "moves a region that is not inside its window");
    Want(window.offset >= 0 && window.offset + window.box.volume() <= buffer.elements(),
         "a window beyond the end of its buffer");
    Want(buffer.dtype == dtype, "a buffer of another type");
    Want(buffer.format == Format::kDense ||
             (window.offset == 0 && window.box == buffer.box && region == buffer.box),
         "moves a part of a buffer in native format");
  }

  void Check(const MoveTask& body) {
    if (!Exists(body.device) || !SubjectIsTensor()) return;
    for (const Move& move : body.moves) {
      CheckWindow(move.to, body.device, body.dtype, move.region);
      Want(body.from == body.dtype || move.kind == MoveSignature::Kind::kReorder,
           "converts without being a conversion");
      if (move.kind == MoveSignature::Kind::kFill) continue;
      CheckWindow(move.from, body.device, body.from, move.region);
      if (!wrong_.empty() || move.kind == MoveSignature::Kind::kReorder) continue;
      Want(tasks_.buffer(move.from.buffer).format == tasks_.buffer(move.to.buffer).format,
           "moves between buffers of two formats");
    }
  }

  void Check(const LoadTask& body) {
    if (!Exists(body.device) || !IsOn(body.buffer, body.device)) return;
    const Buffer& buffer = tasks_.buffer(body.buffer);
    if (!Want(buffer.kind == BufferKind::kHostInput && buffer.tensor != kNoTensor,
              "loads what is no input")) {
      return;
    }
    const TensorKind kind = graph_.tensor(buffer.tensor).kind;
    Want(kind == TensorKind::kInput || kind == TensorKind::kLabels || kind == TensorKind::kSeed,
         "loads what is no input");
    IsIn(buffer.box, buffer.tensor);
  }

  void CheckSlice(const Slice& slice, DeviceId device, DType dtype, int64_t count) {
    if (!Want(slice.count == count, "a slice of the wrong length")) return;
    if (count == 0 || !IsOn(slice.buffer, device)) return;
    const Buffer& buffer = tasks_.buffer(slice.buffer);
    Want(slice.offset >= 0 && slice.offset + count <= buffer.elements(),
         "a slice beyond the end of its buffer");
    Want(buffer.dtype == dtype, "a buffer of another type");
    Want(buffer.format == Format::kDense || (slice.offset == 0 && count == buffer.elements()),
         "sends a part of a buffer in native format");
    // All slices of a task have one format, and in a native one they are of one box.
    const Buffer& first = tasks_.buffer(first_slice_ == kNoBuffer ? slice.buffer : first_slice_);
    first_slice_ = first.id;
    Want(buffer.format == first.format &&
             (buffer.format == Format::kDense || buffer.box == first.box),
         "slices of several formats");
  }

  bool CheckGroup(const std::vector<DeviceId>& group) {
    for (DeviceId device : group) {
      if (!Exists(device)) return false;
    }
    const std::set<DeviceId> distinct(group.begin(), group.end());
    return Want(distinct.size() == group.size(), "a group with a device twice");
  }

  void Check(const CollectiveTask& body) {
    if (!CheckGroup(body.group) || !SubjectIsTensor()) return;
    const Collective& c = body.collective;
    const absl::Status valid = Validate(c);
    if (!Want(valid.ok(), valid.message())) return;
    const size_t ranks = body.group.size();
    const size_t slices = ranks * body.slices();
    if (!Want(static_cast<size_t>(c.ranks) == ranks && body.send.size() == slices &&
                  body.receive.size() == slices,
              "a collective of another number of ranks than its group")) {
      return;
    }
    if (!body.bucket.empty() && !CheckBucket(body)) return;
    const CollectiveAlgorithm* row = FindCollectiveAlgorithm(body.algorithm);
    Want(row != nullptr && row->kinds.contains(c.kind) && row->applicable(c.ranks),
         absl::StrCat("algorithm '", body.algorithm, "' does no ", ToString(c)));
    for (size_t k = 0; k < body.slices(); ++k) {
      first_slice_ = kNoBuffer;  // each member of a bucket may have its own format
      for (size_t r = 0; r < ranks; ++r) {
        const Slice &sent = body.sent(r, k), &received = body.received(r, k);
        CheckSlice(sent, body.group[r], body.dtype,
                   body.bucket.empty() ? ElementsSent(body, r, k) : body.sent(0, k).count);
        CheckSlice(received, body.group[r], body.dtype,
                   body.bucket.empty() ? ElementsToReceive(body, r, k) : sent.count);
        Want(c.kind == CollectiveKind::kAllToAll || sent == received, "is not in place");
      }
    }
  }

  // Whether its tensors are several, each once, and their elements make up the collective.
  bool CheckBucket(const CollectiveTask& body) {
    const Collective& c = body.collective;
    int64_t total = 0;
    std::set<TensorId> tensors;
    std::set<BufferId> buffers;
    for (size_t k = 0; k < body.slices(); ++k) {
      const TensorId tensor = body.bucket[k];
      if (!Want(tensor.value() >= 0 && tensor.index() < graph_.tensors().size(),
                "a bucket with a tensor that there is not") ||
          !Want(tensors.insert(tensor).second, "a bucket with a tensor twice")) {
        return false;
      }
      total += body.sent(0, k).count;
      for (size_t r = 0; r < body.group.size(); ++r) {
        if (body.sent(r, k).count == 0) continue;
        if (!Want(buffers.insert(body.sent(r, k).buffer).second, "a bucket with a buffer twice")) {
          return false;
        }
      }
    }
    return Want(c.kind == CollectiveKind::kAllReduce && tensors.size() > 1 && total == c.total &&
                    body.bucket[0] == TensorId(task_.key.subject),
                "a bucket that is no all-reduce of the elements of its tensors");
  }

  void Check(const TransferTask& body) {
    if (!CheckGroup(body.group) || !SubjectIsTensor()) return;
    const auto in_group = [&](DeviceId device) {
      return std::find(body.group.begin(), body.group.end(), device) != body.group.end();
    };
    for (const Transfer& transfer : body.transfers) {
      first_slice_ = kNoBuffer;  // each transfer may have its own format
      Want(in_group(transfer.from) && in_group(transfer.to), "a transfer outside its group");
      CheckSlice(transfer.send, transfer.from, body.dtype, transfer.receive.count);
      CheckSlice(transfer.receive, transfer.to, body.dtype, transfer.send.count);
    }
  }

  const Graph& graph_;
  const TaskGraph& tasks_;
  const Task& task_;
  std::string wrong_;
  BufferId first_slice_ = kNoBuffer;
};

// A buffer's uses in a total order.
struct Life {
  int64_t first = std::numeric_limits<int64_t>::max();
  int64_t last = -1;
  std::vector<TaskId> users;  // in order
};

std::vector<Life> LivesOf(const TaskGraph& tasks, std::span<const TaskId> order) {
  std::vector<Life> lives(tasks.buffers().size());
  for (size_t place = 0; place < order.size(); ++place) {
    const Access access = AccessOf(tasks.task(order[place]));
    for (const auto* list : {&access.reads, &access.writes}) {
      for (BufferId id : *list) {
        Life& life = lives[id.index()];
        life.first = std::min(life.first, static_cast<int64_t>(place));
        life.last = static_cast<int64_t>(place);
        if (life.users.empty() || life.users.back() != order[place]) {
          life.users.push_back(order[place]);
        }
      }
    }
  }
  constexpr int64_t kForever = std::numeric_limits<int64_t>::max();
  for (const HostOutput& output : tasks.outputs()) lives[output.buffer.index()].last = kForever;
  for (const Buffer& buffer : tasks.buffers()) {
    if (!buffer.persistent()) continue;
    lives[buffer.id.index()].first = -1;
    lives[buffer.id.index()].last = kForever;
  }
  return lives;
}

// Whether the task's kernel may write `to` over `from`.
bool MayOverwrite(const TaskGraph& tasks, const Task& task, BufferId from, BufferId to) {
  const auto* body = std::get_if<ComputeTask>(&task.body);
  if (body == nullptr) return false;
  const KernelSignature& signature = tasks.signatures()[static_cast<size_t>(body->signature)];
  for (const InPlacePair& pair : InPlace(signature)) {
    const auto input = static_cast<size_t>(pair.input), output = static_cast<size_t>(pair.output);
    if (input < body->inputs.size() && output < body->outputs.size() &&
        body->inputs[input] == from && body->outputs[output] == to) {
      return true;
    }
  }
  return false;
}

// The memory of one device while the order runs.
class Arena {
 public:
  Arena(const TaskGraph& tasks, std::span<const TaskId> order, const BufferAssignment& memory,
        const HappensBefore& before, const std::vector<Life>& lives)
      : tasks_(tasks), order_(order), memory_(memory), before_(before), lives_(lives) {}

  // Buffers come in the order of their first use.
  absl::Status Add(BufferId id) {
    const int64_t begin = memory_.offset[id.index()], end = begin + memory_.bytes[id.index()];
    const Life& life = lives_[id.index()];
    // Pieces of memory that were used before: begin -> (end, buffer).
    auto it = last_user_.upper_bound(begin);
    if (it != last_user_.begin()) --it;
    while (it != last_user_.end() && it->first < end) {
      const auto [old_begin, old] = *it;
      if (old.end <= begin) {
        ++it;
        continue;
      }
      RETURN_IF_ERROR(CheckFollows(old.buffer, id, life));
      it = last_user_.erase(it);
      if (old_begin < begin) last_user_[old_begin] = {begin, old.buffer};
      if (old.end > end) last_user_[end] = {old.end, old.buffer};
    }
    last_user_[begin] = {end, id};
    return absl::OkStatus();
  }

 private:
  struct User {
    int64_t end;
    BufferId buffer;
  };

  absl::Status CheckFollows(BufferId old, BufferId id, const Life& life) const {
    const auto wrong = [&](absl::string_view what) {
      return absl::InternalError(absl::StrCat("buffers ", old.value(), " and ", id.value(),
                                              " of device ", tasks_.buffer(id).device.value(),
                                              " share memory ", what));
    };
    const Life& old_life = lives_[old.index()];
    if (life.first < 0) return wrong("and both live between steps");
    const TaskId first = order_[static_cast<size_t>(life.first)];
    if (old_life.last > life.first) return wrong("and live at the same time");
    if (old_life.last == life.first && !MayOverwrite(tasks_, tasks_.task(first), old, id)) {
      return wrong(absl::StrCat("while task ", first.value(), " uses both"));
    }
    for (TaskId user : old_life.users) {
      if (user != first && !before_.Before(user, first)) {
        return wrong(
            absl::StrCat("but task ", first.value(), " does not wait for task ", user.value()));
      }
    }
    return absl::OkStatus();
  }

  const TaskGraph& tasks_;
  std::span<const TaskId> order_;
  const BufferAssignment& memory_;
  const HappensBefore& before_;
  const std::vector<Life>& lives_;
  std::map<int64_t, User> last_user_;
};

absl::Status CheckSizes(const TaskGraph& tasks, const BufferAssignment& memory) {
  const size_t n = tasks.buffers().size(), devices = static_cast<size_t>(tasks.devices());
  if (memory.offset.size() != n || memory.bytes.size() != n || memory.arena.size() != devices) {
    return absl::InternalError("the memory assignment is for another task graph");
  }
  for (const Buffer& buffer : tasks.buffers()) {
    const int64_t offset = memory.offset[buffer.id.index()];
    const int64_t bytes = memory.bytes[buffer.id.index()];
    if (offset < 0) continue;
    const bool is_large_enough =
        buffer.format == Format::kNative || bytes >= buffer.elements() * SizeOf(buffer.dtype);
    if (!is_large_enough || offset + bytes > memory.arena[buffer.device.index()].value()) {
      return absl::InternalError(absl::StrCat("buffer ", buffer.id.value(), " has ", bytes,
                                              " bytes at ", offset, ": too few, or outside"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckTasks(const Graph& graph, const TaskGraph& tasks) {
  for (const Task& task : tasks.tasks()) RETURN_IF_ERROR(TaskCheck(graph, tasks, task).Run());
  for (const Buffer& buffer : tasks.buffers()) {
    if (buffer.tensor == kNoTensor) continue;
    const Box whole = Box::Full(graph.tensor(buffer.tensor).type.shape);
    if (buffer.box.rank() != whole.rank() || !whole.Contains(buffer.box)) {
      return absl::InternalError(absl::StrCat("buffer ", buffer.id.value(), " holds ",
                                              ToString(buffer.box), " of tensor '",
                                              graph.tensor(buffer.tensor).name, "'"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckAccesses(const TaskGraph& tasks, std::span<const TaskId> order,
                           const HappensBefore& before) {
  // The last writer of a buffer, and its readers since.
  std::vector<TaskId> writers(tasks.buffers().size(), TaskId(-1));
  std::vector<std::vector<TaskId>> readers(tasks.buffers().size());
  const auto check = [&](TaskId first, TaskId second, BufferId buffer) {
    if (first == TaskId(-1) || first == second || before.Before(first, second)) {
      return absl::OkStatus();
    }
    return absl::InternalError(absl::StrCat("task ", second.value(), " uses buffer ",
                                            buffer.value(), " without waiting for task ",
                                            first.value()));
  };
  for (TaskId id : order) {
    const Access access = AccessOf(tasks.task(id));
    for (BufferId buffer : access.reads) {
      RETURN_IF_ERROR(check(writers[buffer.index()], id, buffer));
      readers[buffer.index()].push_back(id);
    }
    for (BufferId buffer : access.writes) {
      RETURN_IF_ERROR(check(writers[buffer.index()], id, buffer));
      for (TaskId reader : readers[buffer.index()]) RETURN_IF_ERROR(check(reader, id, buffer));
      readers[buffer.index()].clear();
      writers[buffer.index()] = id;
    }
  }
  return absl::OkStatus();
}

absl::Status CheckMemory(const TaskGraph& tasks, std::span<const TaskId> order,
                         const BufferAssignment& memory, const HappensBefore& before) {
  RETURN_IF_ERROR(CheckSizes(tasks, memory));
  const std::vector<Life> lives = LivesOf(tasks, order);
  std::vector<BufferId> by_first;
  for (const Buffer& buffer : tasks.buffers()) {
    const Life& life = lives[buffer.id.index()];
    if (life.last < 0 || memory.bytes[buffer.id.index()] == 0) continue;
    if (memory.offset[buffer.id.index()] < 0) {
      return absl::InternalError(absl::StrCat("buffer ", buffer.id.value(), " has no memory"));
    }
    by_first.push_back(buffer.id);
  }
  std::stable_sort(by_first.begin(), by_first.end(), [&](BufferId a, BufferId b) {
    return lives[a.index()].first < lives[b.index()].first;
  });
  std::vector<Arena> arenas(static_cast<size_t>(tasks.devices()),
                            Arena(tasks, order, memory, before, lives));
  for (BufferId id : by_first) {
    RETURN_IF_ERROR(arenas[tasks.buffer(id).device.index()].Add(id));
  }
  return absl::OkStatus();
}

}  // namespace partita
