#include "tests/testing/faults.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>

namespace partita {
namespace {

using MoveKind = MoveSignature::Kind;
using Phase = TaskKey::Phase;

// Changes to choose from.
using Sites = std::vector<std::function<void()>>;

bool PlantOne(const Sites& sites, std::mt19937_64& random) {
  if (sites.empty()) return false;
  sites[random() % sites.size()]();
  return true;
}

// Tasks whose results reach a persistent buffer or the host, by position.
std::vector<bool> LiveTasks(const EditableTasks& t) {
  std::vector<bool> live_buffers(t.buffers.size(), false), live(t.tasks.size(), false);
  for (const Buffer& buffer : t.buffers) live_buffers[buffer.id.index()] = buffer.persistent();
  for (const HostOutput& output : t.outputs) live_buffers[output.buffer.index()] = true;
  for (size_t i = t.tasks.size(); i-- > 0;) {
    const Access access = AccessOf(t.tasks[i]);
    for (BufferId id : access.writes) live[i] = live[i] || live_buffers[id.index()];
    if (!live[i]) continue;
    for (BufferId id : access.reads) live_buffers[id.index()] = true;
  }
  return live;
}

// Calls visit(position, body) for every live task of one form.
template <class Body, class Visit>
void ForEachLive(EditableTasks& t, Visit&& visit) {
  const std::vector<bool> live = LiveTasks(t);
  for (size_t i = 0; i < t.tasks.size(); ++i) {
    if (auto* body = std::get_if<Body>(&t.tasks[i].body); body != nullptr && live[i]) {
      visit(i, *body);
    }
  }
}

void Erase(EditableTasks& t, size_t i) {
  t.tasks.erase(t.tasks.begin() + static_cast<std::ptrdiff_t>(i));
}

KernelSignature& OwnSignature(EditableTasks& t, ComputeTask& task) {
  t.signatures.push_back(t.signatures[static_cast<size_t>(task.signature)]);
  task.signature = static_cast<int32_t>(t.signatures.size()) - 1;
  return t.signatures.back();
}

// Tensors that windows of several elements read, and their gradients.
std::set<int32_t> WindowedTensors(const Graph& graph) {
  std::set<int32_t> tensors;
  auto add = [&](const std::vector<DimMap>& dims, TensorId id) {
    for (const DimMap& dim : dims) {
      if (!dim.loops.empty() && dim.hi - dim.lo > dim.stride) tensors.insert(id.value());
    }
  };
  for (const Operator& op : graph.ops()) {
    const ShardingRule& rule = graph.rule(op.id);
    for (size_t k = 0; k < op.inputs.size(); ++k) add(rule.operands[k].dims, op.inputs[k]);
    for (size_t k = 0; k < op.outputs.size(); ++k) add(rule.results[k].dims, op.outputs[k]);
  }
  return tensors;
}

bool DropTransfer(const Graph* windowed, EditableTasks& t, std::mt19937_64& random) {
  const std::set<int32_t> tensors =
      windowed != nullptr ? WindowedTensors(*windowed) : std::set<int32_t>();
  Sites sites;
  ForEachLive<TransferTask>(t, [&](size_t i, TransferTask& task) {
    if (windowed != nullptr && !tensors.contains(t.tasks[i].key.subject)) return;
    for (size_t k = 0; k < task.transfers.size(); ++k) {
      sites.push_back([&task, k] {
        task.transfers.erase(task.transfers.begin() + static_cast<std::ptrdiff_t>(k));
      });
    }
  });
  return PlantOne(sites, random);
}

bool DropHalo(const Graph& graph, EditableTasks& t, std::mt19937_64& random) {
  return DropTransfer(&graph, t, random);
}

bool DropAnyTransfer(const Graph&, EditableTasks& t, std::mt19937_64& random) {
  return DropTransfer(nullptr, t, random);
}

// Sites at collectives of a kind that sum.
template <class Change>
bool ChangeCollective(EditableTasks& t, std::mt19937_64& random, CollectiveKind kind,
                      size_t least_ranks, Change&& change) {
  Sites sites;
  ForEachLive<CollectiveTask>(t, [&](size_t i, CollectiveTask& task) {
    if (task.collective.kind != kind || task.group.size() < least_ranks) return;
    if (!task.bucket.empty() && least_ranks > 2) return;  // slices are by tensor and rank
    if (task.collective.reduction != Reduction::kSum || task.collective.total == 0) return;
    sites.push_back([&t, i, &change] { change(t, i); });
  });
  return PlantOne(sites, random);
}

bool DropAllReduce(const Graph&, EditableTasks& t, std::mt19937_64& random) {
  return ChangeCollective(t, random, CollectiveKind::kAllReduce, 2, Erase);
}

bool DoubleAllReduce(const Graph&, EditableTasks& t, std::mt19937_64& random) {
  return ChangeCollective(
      t, random, CollectiveKind::kAllReduce, 2, [](EditableTasks& tasks, size_t i) {
        const Task copy = tasks.tasks[i];
        tasks.tasks.insert(tasks.tasks.begin() + static_cast<std::ptrdiff_t>(i), copy);
      });
}

// The last rank stays out.
bool MisgroupAllReduce(const Graph&, EditableTasks& t, std::mt19937_64& random) {
  return ChangeCollective(
      t, random, CollectiveKind::kAllReduce, 3, [](EditableTasks& tasks, size_t i) {
        auto& task = std::get<CollectiveTask>(tasks.tasks[i].body);
        task.group.pop_back();
        task.send.pop_back();
        task.receive.pop_back();
        task.collective = MakeAllReduce(static_cast<int>(task.group.size()), task.collective.total);
        task.algorithm = "ring";
      });
}

// Changes one live bucket: change(task, a, b), two of its tensors that have elements.
template <class Change>
bool ChangeBucket(EditableTasks& t, std::mt19937_64& random, Change&& change) {
  Sites sites;
  ForEachLive<CollectiveTask>(t, [&](size_t, CollectiveTask& task) {
    for (size_t a = 0; a < task.bucket.size(); ++a) {
      const size_t b = (a + 1) % task.bucket.size();
      if (task.sent(0, a).count == 0 || task.sent(0, b).count == 0) continue;
      if (task.collective.reduction != Reduction::kSum) continue;
      sites.push_back([&task, a, b, &change] { change(task, a, b); });
    }
  });
  return PlantOne(sites, random);
}

// Fits the collective to the slices.
void CountAgain(CollectiveTask& task) {
  int64_t total = 0;
  for (size_t k = 0; k < task.bucket.size(); ++k) total += task.sent(0, k).count;
  task.collective.total = total;
  task.receive = task.send;
}

bool DropFromBucket(const Graph&, EditableTasks& t, std::mt19937_64& random) {
  return ChangeBucket(t, random, [](CollectiveTask& task, size_t a, size_t) {
    const auto ranks = static_cast<std::ptrdiff_t>(task.group.size());
    const auto first = task.send.begin() + static_cast<std::ptrdiff_t>(a) * ranks;
    task.send.erase(first, first + ranks);
    task.bucket.erase(task.bucket.begin() + static_cast<std::ptrdiff_t>(a));
    CountAgain(task);
    if (task.bucket.size() == 1) task.bucket.clear();
  });
}

bool DoubleInBucket(const Graph&, EditableTasks& t, std::mt19937_64& random) {
  return ChangeBucket(t, random, [](CollectiveTask& task, size_t a, size_t b) {
    const size_t ranks = task.group.size();
    for (size_t r = 0; r < ranks; ++r) task.send[a * ranks + r] = task.send[b * ranks + r];
    task.bucket[a] = task.bucket[b];
    CountAgain(task);
  });
}

bool DropReduceScatter(const Graph&, EditableTasks& t, std::mt19937_64& random) {
  return ChangeCollective(t, random, CollectiveKind::kReduceScatter, 2, Erase);
}

bool DropAllGather(const Graph&, EditableTasks& t, std::mt19937_64& random) {
  return ChangeCollective(t, random, CollectiveKind::kAllGather, 2, Erase);
}

bool SwapRanks(const Graph&, EditableTasks& t, std::mt19937_64& random) {
  Sites sites;
  ForEachLive<CollectiveTask>(t, [&](size_t, CollectiveTask& task) {
    for (size_t a = 0; a < task.collective.blocks.size(); ++a) {
      for (size_t b = a + 1; b < task.collective.blocks.size(); ++b) {
        if (task.collective.blocks[a].count == 0 || task.collective.blocks[b].count == 0) continue;
        sites.push_back([&task, a, b] {
          std::swap(task.group[a], task.group[b]);
          std::swap(task.send[a], task.send[b]);
          std::swap(task.receive[a], task.receive[b]);
        });
      }
    }
  });
  return PlantOne(sites, random);
}

bool SwapTransfers(const Graph&, EditableTasks& t, std::mt19937_64& random) {
  Sites sites;
  ForEachLive<TransferTask>(t, [&](size_t, TransferTask& task) {
    for (Transfer& a : task.transfers) {
      for (Transfer& b : task.transfers) {
        if (&a >= &b || a.send == b.send || a.send.count != b.send.count) continue;
        if (a.from == b.to || b.from == a.to || a.from == b.from) continue;
        const Buffer& from_a = t.buffers[a.send.buffer.index()];
        const Buffer& from_b = t.buffers[b.send.buffer.index()];
        if (from_a.kind == BufferKind::kStaging || from_a.box == from_b.box) continue;  // copies
        // Terms of one sum may arrive in any order.
        if (a.to == b.to && t.buffers[a.receive.buffer.index()].kind == BufferKind::kStaging)
          continue;
        sites.push_back([&a, &b] {
          std::swap(a.to, b.to);
          std::swap(a.receive, b.receive);
        });
      }
    }
  });
  return PlantOne(sites, random);
}

bool IsSum(const Move& move) { return move.kind == MoveKind::kAdd; }
bool IsMaximum(const Move& move) { return move.kind == MoveKind::kMax; }
bool IsCopy(const Move& move) { return move.kind == MoveKind::kCopy; }

// Changes one move that `is` picks: change(moves, position).
template <class Change>
bool ChangeMove(EditableTasks& t, std::mt19937_64& random, bool (*is)(const Move&),
                Change&& change) {
  Sites sites;
  ForEachLive<MoveTask>(t, [&](size_t, MoveTask& task) {
    for (size_t m = 0; m < task.moves.size(); ++m) {
      if (is(task.moves[m])) sites.push_back([&task, m, &change] { change(task.moves, m); });
    }
  });
  return PlantOne(sites, random);
}

void EraseMove(std::vector<Move>& moves, size_t m) {
  moves.erase(moves.begin() + static_cast<std::ptrdiff_t>(m));
}

bool DropTerm(const Graph&, EditableTasks& t, std::mt19937_64& random) {
  return ChangeMove(t, random, IsSum, EraseMove);
}

bool DoubleTerm(const Graph&, EditableTasks& t, std::mt19937_64& random) {
  return ChangeMove(t, random, IsSum, [](std::vector<Move>& moves, size_t m) {
    const Move copy = moves[m];
    moves.insert(moves.begin() + static_cast<std::ptrdiff_t>(m), copy);
  });
}

bool AddMaxima(const Graph&, EditableTasks& t, std::mt19937_64& random) {
  return ChangeMove(t, random, IsMaximum,
                    [](std::vector<Move>& moves, size_t m) { moves[m].kind = MoveKind::kAdd; });
}

bool DropCopy(const Graph&, EditableTasks& t, std::mt19937_64& random) {
  return ChangeMove(t, random, IsCopy, EraseMove);
}

bool LeaveUncoveredGarbage(const Graph&, EditableTasks& t, std::mt19937_64& random) {
  Sites sites;
  ForEachLive<MoveTask>(t, [&](size_t i, MoveTask&) {
    if (t.tasks[i].key.phase == Phase::kFill) sites.push_back([&t, i] { Erase(t, i); });
  });
  return PlantOne(sites, random);
}

// A buffer of the tensor over that box, anywhere; kNoBuffer if there is none.
BufferId FindBuffer(const EditableTasks& t, TensorId tensor, const Box& box, DeviceId preferred) {
  BufferId found = kNoBuffer;
  for (const Buffer& buffer : t.buffers) {
    if (buffer.tensor != tensor || buffer.box != box || !buffer.persistent()) continue;
    if (found == kNoBuffer || buffer.device == preferred) found = buffer.id;
  }
  return found;
}

// A part that must not read an operand (a bias) reads it nevertheless.
bool ReadBiasTwice(const Graph& graph, EditableTasks& t, std::mt19937_64& random) {
  Sites sites;
  ForEachLive<ComputeTask>(t, [&](size_t i, ComputeTask& task) {
    const KernelSignature& signature = t.signatures[static_cast<size_t>(task.signature)];
    if (!signature.pass.is_forward()) return;
    const TensorId output = graph.op(task.op).outputs[0];
    for (size_t k = 0; k < task.inputs.size(); ++k) {
      if (signature.inputs[k].present || task.output_boxes[0].empty()) continue;
      const TensorId tensor = graph.op(task.op).inputs[k];
      const BufferId source = FindBuffer(t, tensor, task.input_boxes[k], task.device);
      if (source == kNoBuffer || output == kNoTensor) continue;
      sites.push_back([&t, i, k, source] {
        auto& compute = std::get<ComputeTask>(t.tasks[i].body);
        OwnSignature(t, compute).inputs[k].present = true;
        Buffer copy = t.buffers[source.index()];
        compute.inputs[k] = source;
        if (copy.device == compute.device) return;
        const DeviceId from = copy.device;
        copy.id = BufferId(static_cast<int32_t>(t.buffers.size()));
        copy.device = compute.device;
        copy.kind = BufferKind::kActivation;
        compute.inputs[k] = copy.id;
        const int64_t count = copy.elements();
        TransferTask transfer{copy.dtype, {from, copy.device}, {}};
        std::sort(transfer.group.begin(), transfer.group.end());
        transfer.transfers.push_back({from, copy.device, {source, 0, count}, {copy.id, 0, count}});
        t.buffers.push_back(copy);
        const TaskKey key{true,         copy.tensor.value(), 0,
                          Phase::kSend, from.value(),        copy.device.value()};
        Task task{{}, key, std::move(transfer), {}};
        t.tasks.insert(t.tasks.begin() + static_cast<std::ptrdiff_t>(i), std::move(task));
      });
    }
  });
  return PlantOne(sites, random);
}

// The divisor of a mean in the attributes, or null.
int64_t* DivisorOf(OpAttrs& attrs) {
  return std::visit(
      [](auto& a) -> int64_t* {
        if constexpr (requires { a.rows; }) {
          return &a.rows;
        } else if constexpr (requires { a.count; }) {
          return &a.count;
        } else {
          return nullptr;
        }
      },
      attrs);
}

OpAttrs& AttrsOf(KernelSignature& signature, size_t stage) {
  return stage == 0 ? signature.attrs : signature.fusion.rest[stage - 1].attrs;
}

bool DivideByAnotherCount(const Graph&, EditableTasks& t, std::mt19937_64& random) {
  Sites sites;
  ForEachLive<ComputeTask>(t, [&](size_t, ComputeTask& task) {
    KernelSignature signature = t.signatures[static_cast<size_t>(task.signature)];
    for (size_t stage = 0; stage <= signature.fusion.rest.size(); ++stage) {
      const int64_t* now = DivisorOf(AttrsOf(signature, stage));
      if (now == nullptr || *now < 2) continue;
      sites.push_back([&t, &task, stage] {
        int64_t* divisor = DivisorOf(AttrsOf(OwnSignature(t, task), stage));
        *divisor = (*divisor + 1) / 2;
      });
    }
  });
  return PlantOne(sites, random);
}

// Whether the kernel uses where its piece lies: random numbers, class numbers.
bool UsesGlobalIndex(const OpAttrs& attrs, bool labels) {
  if (labels) {
    return std::holds_alternative<CrossEntropy>(attrs) ||
           std::holds_alternative<CrossEntropyGrad>(attrs);
  }
  const auto* dropout = std::get_if<Dropout>(&attrs);
  return dropout != nullptr && dropout->ratio > 0;
}

// All pieces of one task lie where they would if the part were the whole tensor.
bool UseLocalIndex(EditableTasks& t, std::mt19937_64& random, bool labels) {
  Sites sites;
  ForEachLive<ComputeTask>(t, [&](size_t, ComputeTask& task) {
    const OpAttrs& attrs = t.signatures[static_cast<size_t>(task.signature)].attrs;
    if (!UsesGlobalIndex(attrs, labels)) return;
    const Box& box = task.input_boxes[0];
    const int last = box.rank() - 1;
    bool moved = false;
    for (int d = labels ? last : 0; d <= last; ++d) moved |= box[d].lo != 0;
    if (!moved || box.empty()) return;
    sites.push_back([&task] {
      for (auto* boxes : {&task.input_boxes, &task.output_boxes}) {
        for (Box& piece : *boxes) {
          for (int d = 0; d < piece.rank(); ++d) piece[d] = {0, piece[d].size()};
        }
      }
    });
  });
  return PlantOne(sites, random);
}

bool DropoutByLocalIndex(const Graph&, EditableTasks& t, std::mt19937_64& random) {
  return UseLocalIndex(t, random, false);
}

bool LabelsByLocalIndex(const Graph&, EditableTasks& t, std::mt19937_64& random) {
  return UseLocalIndex(t, random, true);
}

// One dropout draws another one's random numbers: its task names the other operator.
bool DropoutByAnotherKey(const Graph& graph, EditableTasks& t, std::mt19937_64& random) {
  Sites sites;
  ForEachLive<ComputeTask>(t, [&](size_t, ComputeTask& task) {
    const OpAttrs& attrs = t.signatures[static_cast<size_t>(task.signature)].attrs;
    if (!UsesGlobalIndex(attrs, false)) return;
    const Operator& op = graph.op(task.op);
    const Shape& shape = graph.tensor(op.inputs[0]).type.shape;
    for (const Operator& other : graph.ops()) {
      if (other.forward == op.forward || other.inputs.size() != op.inputs.size()) continue;
      if (other.outputs.size() != op.outputs.size()) continue;
      if (graph.tensor(other.inputs[0]).type.shape != shape ||
          graph.tensor(other.outputs[0]).type.shape != shape) {
        continue;
      }
      sites.push_back([&task, id = other.id] { task.op = id; });
    }
  });
  return PlantOne(sites, random);
}

// A window starts one row late, as if a halo were padding.
bool ShiftWindow(const Graph&, EditableTasks& t, std::mt19937_64& random) {
  Sites sites;
  ForEachLive<ComputeTask>(t, [&](size_t, ComputeTask& task) {
    OpAttrs attrs = t.signatures[static_cast<size_t>(task.signature)].attrs;
    if (!std::holds_alternative<Conv2d>(attrs)) return;
    if (task.output_boxes[0].empty() || task.input_boxes[0].empty()) return;
    sites.push_back([&t, &task] {
      auto& conv = std::get<Conv2d>(OwnSignature(t, task).attrs);
      ++conv.pads[0];
      --conv.pads[2];
    });
  });
  return PlantOne(sites, random);
}

// A reader runs before the task that fills what it reads.
bool ReadStaleBuffer(const Graph&, EditableTasks& t, std::mt19937_64& random) {
  Sites sites;
  const std::vector<bool> live = LiveTasks(t);
  std::vector<int> writer(t.buffers.size(), -1);
  for (size_t i = 0; i < t.tasks.size(); ++i) {
    const Access access = AccessOf(t.tasks[i]);
    for (BufferId id : access.reads) {
      const int from = writer[id.index()];
      if (from < 0 || !live[i] || t.buffers[id.index()].persistent()) continue;
      sites.push_back([&t, i, from] {
        std::rotate(t.tasks.begin() + from, t.tasks.begin() + from + 1,
                    t.tasks.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      });
    }
    for (BufferId id : access.writes) writer[id.index()] = static_cast<int>(i);
  }
  return PlantOne(sites, random);
}

// An input's piece is not refreshed.
bool DropLoad(const Graph&, EditableTasks& t, std::mt19937_64& random) {
  Sites sites;
  ForEachLive<LoadTask>(t, [&](size_t i, LoadTask& task) {
    const Buffer& buffer = t.buffers[task.buffer.index()];
    if (buffer.dtype != DType::kInt32) sites.push_back([&t, i] { Erase(t, i); });
  });
  return PlantOne(sites, random);
}

// One piece of a weight or state keeps its old value.
bool KeepOldValue(EditableTasks& t, std::mt19937_64& random, BufferKind kind) {
  Sites sites;
  ForEachLive<ComputeTask>(t, [&](size_t, ComputeTask& task) {
    for (BufferId& output : task.outputs) {
      if (output == kNoBuffer || t.buffers[output.index()].kind != kind) continue;
      sites.push_back([&t, &output] {
        Buffer lost = t.buffers[output.index()];
        lost.id = BufferId(static_cast<int32_t>(t.buffers.size()));
        lost.kind = BufferKind::kActivation;
        t.buffers.push_back(lost);
        output = lost.id;
      });
    }
  });
  ForEachLive<MoveTask>(t, [&](size_t, MoveTask& task) {
    for (size_t m = 0; m < task.moves.size(); ++m) {
      if (t.buffers[task.moves[m].to.buffer.index()].kind != kind) continue;
      sites.push_back([&task, m] { EraseMove(task.moves, m); });
    }
  });
  return PlantOne(sites, random);
}

bool KeepOldWeight(const Graph&, EditableTasks& t, std::mt19937_64& random) {
  return KeepOldValue(t, random, BufferKind::kWeight);
}

bool KeepOldState(const Graph&, EditableTasks& t, std::mt19937_64& random) {
  return KeepOldValue(t, random, BufferKind::kState);
}

// An update runs twice on one device.
bool UpdateTwice(const Graph& graph, EditableTasks& t, std::mt19937_64& random) {
  Sites sites;
  ForEachLive<ComputeTask>(t, [&](size_t i, ComputeTask& task) {
    if (graph.op(task.op).anchor != kNoOp || task.outputs.empty()) return;
    if (std::find(task.inputs.begin(), task.inputs.end(), task.outputs[0]) == task.inputs.end()) {
      return;
    }
    sites.push_back([&t, i] {
      const Task copy = t.tasks[i];
      t.tasks.insert(t.tasks.begin() + static_cast<std::ptrdiff_t>(i), copy);
    });
  });
  return PlantOne(sites, random);
}

constexpr Fault kFaults[] = {
    {"dropped_halo", "a transfer of a row that a neighbour's window needs is missing", DropHalo},
    {"dropped_transfer", "a point-to-point transfer is missing", DropAnyTransfer},
    {"missing_all_reduce", "contributions of several devices are not added", DropAllReduce},
    {"doubled_all_reduce", "an all-reduce runs twice", DoubleAllReduce},
    {"missing_in_bucket", "a bucket leaves out a tensor", DropFromBucket},
    {"doubled_in_bucket", "a bucket has a tensor in place of another", DoubleInBucket},
    {"misgrouped_all_reduce", "an all-reduce leaves a device out", MisgroupAllReduce},
    {"missing_reduce_scatter", "contributions are not added into shards", DropReduceScatter},
    {"missing_all_gather", "shards are not brought together", DropAllGather},
    {"swapped_ranks", "two devices take each other's rank", SwapRanks},
    {"swapped_transfers", "two transfers arrive at each other's place", SwapTransfers},
    {"missing_term", "one of several contributions on a device is not added", DropTerm},
    {"doubled_term", "a contribution is added twice", DoubleTerm},
    {"added_maxima", "maxima of parts are added", AddMaxima},
    {"dropped_copy", "a copy within a device is missing", DropCopy},
    {"uncovered_garbage", "what nobody computes is not zero", LeaveUncoveredGarbage},
    {"bias_twice", "a second part adds the bias", ReadBiasTwice},
    {"wrong_divisor", "a mean divides by another count", DivideByAnotherCount},
    {"dropout_local_index", "dropout draws by the index within the part", DropoutByLocalIndex},
    {"dropout_wrong_key", "dropout draws another operator's numbers", DropoutByAnotherKey},
    {"label_local_index", "labels are compared with the index within the part", LabelsByLocalIndex},
    {"shifted_window", "a convolution's part starts one row late", ShiftWindow},
    {"stale_buffer", "a task reads a buffer before it is filled", ReadStaleBuffer},
    {"missing_load", "a piece of the input is not loaded", DropLoad},
    {"stale_replica", "a piece of a weight keeps its old value", KeepOldWeight},
    {"lost_state", "a piece of an optimizer state keeps its old value", KeepOldState},
    {"doubled_update", "an update in place runs twice", UpdateTwice},
};

}  // namespace

EditableTasks::EditableTasks(const TaskGraph& graph)
    : devices(graph.devices()),
      buffers(graph.buffers().begin(), graph.buffers().end()),
      signatures(graph.signatures().begin(), graph.signatures().end()),
      tasks(graph.tasks().begin(), graph.tasks().end()),
      outputs(graph.outputs().begin(), graph.outputs().end()) {}

TaskGraph EditableTasks::Build() const {
  TaskGraphBuilder builder(devices);
  for (const Buffer& buffer : buffers) builder.AddBuffer(buffer);
  // Control edges go to where the earlier tasks are now, if they are still earlier.
  std::map<TaskId, TaskId> placed;
  for (const Task& task : tasks) {
    TaskBody body = task.body;
    std::vector<TaskId> after;
    for (TaskId before : task.after) {
      if (const auto it = placed.find(before); it != placed.end()) after.push_back(it->second);
    }
    std::sort(after.begin(), after.end());
    if (auto* compute = std::get_if<ComputeTask>(&body)) {
      compute->signature =
          builder.AddSignature(signatures[static_cast<size_t>(compute->signature)]);
    }
    placed[task.id] = builder.AddTask(task.key, std::move(body), std::move(after));
  }
  for (const HostOutput& output : outputs) builder.AddOutput(output.tensor, output.buffer);
  return std::move(builder).Build();
}

std::span<const Fault> PlantedFaults() { return kFaults; }

std::optional<TaskGraph> WithFault(const Fault& fault, const Graph& graph, const TaskGraph& tasks,
                                   std::mt19937_64& random) {
  EditableTasks edited(tasks);
  if (!fault.plant(graph, edited, random)) return std::nullopt;
  return edited.Build();
}

}  // namespace partita
