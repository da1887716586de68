#include "graph/task/buffer_assignment.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

#include "graph/support/check.h"

namespace partita {
namespace {

constexpr int32_t kForever = std::numeric_limits<int32_t>::max();

// When, in the total order, a buffer holds something.
struct Life {
  int32_t first = kForever;
  int32_t last = -1;
  TaskId first_writer{-1};
  std::vector<TaskId> accessors;
};

// Buffers that share one place because kernels write over their inputs.
struct Allocation {
  std::vector<BufferId> members;
  int64_t bytes = 0;
  int32_t first = kForever, last = -1;
  int64_t offset = -1;
};

int64_t Aligned(int64_t bytes) {
  constexpr int64_t a = BufferAssignment::kAlignment;
  return (bytes + a - 1) / a * a;
}

class Assigner {
 public:
  Assigner(const TaskGraph& graph, std::span<const TaskId> order, const MemorySizes& sizes)
      : graph_(graph), order_(order), sizes_(sizes) {}

  BufferAssignment Run() {
    const auto devices = static_cast<size_t>(graph_.devices());
    result_.offset.assign(graph_.buffers().size(), -1);
    result_.arena.assign(devices, Bytes(0));
    result_.persistent.assign(devices, Bytes(0));
    result_.scratch.assign(devices, Bytes(0));
    MeasureLives();
    FindSizes();
    MergeInPlace();
    for (size_t d = 0; d < devices; ++d) Place(DeviceId(static_cast<int32_t>(d)));
    AddDependencies();
    return std::move(result_);
  }

 private:
  void MeasureLives() {
    lives_.resize(graph_.buffers().size());
    for (size_t place = 0; place < order_.size(); ++place) {
      const Task& task = graph_.task(order_[place]);
      const Access access = AccessOf(task);
      for (BufferId id : access.writes) {
        Life& life = lives_[id.index()];
        if (life.first_writer == TaskId(-1)) life.first_writer = task.id;
      }
      for (const auto* list : {&access.reads, &access.writes}) {
        for (BufferId id : *list) {
          Life& life = lives_[id.index()];
          life.first = std::min(life.first, static_cast<int32_t>(place));
          life.last = std::max(life.last, static_cast<int32_t>(place));
          if (life.accessors.empty() || life.accessors.back() != task.id) {
            life.accessors.push_back(task.id);
          }
        }
      }
    }
    for (const Buffer& buffer : graph_.buffers()) {
      if (buffer.persistent()) {
        lives_[buffer.id.index()].first = -1;
        lives_[buffer.id.index()].last = kForever;
      }
    }
    for (const HostOutput& output : graph_.outputs()) {
      lives_[output.buffer.index()].last = kForever;
    }
  }

  void FindSizes() {
    for (const Buffer& buffer : graph_.buffers()) {
      result_.bytes.push_back(sizes_.buffer_bytes ? sizes_.buffer_bytes(buffer)
                                                  : buffer.elements() * SizeOf(buffer.dtype));
    }
    if (!sizes_.scratch_bytes) return;
    std::vector<int64_t> scratch;
    for (const KernelSignature& s : graph_.signatures()) scratch.push_back(sizes_.scratch_bytes(s));
    for (const Task& task : graph_.tasks()) {
      if (const auto* compute = std::get_if<ComputeTask>(&task.body)) {
        Bytes& most = result_.scratch[compute->device.index()];
        most = std::max(most, Bytes(Aligned(scratch[static_cast<size_t>(compute->signature)])));
      }
    }
  }

  // Joins a kernel's output to an input that dies in it, where the operator allows.
  void MergeInPlace() {
    allocation_of_.resize(graph_.buffers().size());
    for (const Buffer& buffer : graph_.buffers()) {
      allocation_of_[buffer.id.index()] = allocations_.size();
      const Life& life = lives_[buffer.id.index()];
      allocations_.push_back(
          {{buffer.id}, Aligned(result_.bytes[buffer.id.index()]), life.first, life.last, -1});
    }
    for (TaskId id : order_) {
      const auto* compute = std::get_if<ComputeTask>(&graph_.task(id).body);
      if (compute == nullptr) continue;
      const KernelSignature& signature =
          graph_.signatures()[static_cast<size_t>(compute->signature)];
      std::vector<bool> taken(compute->inputs.size(), false);
      std::vector<bool> placed(compute->outputs.size(), false);
      for (const InPlacePair& pair : InPlace(signature)) {
        const auto i = static_cast<size_t>(pair.input), o = static_cast<size_t>(pair.output);
        if (i >= compute->inputs.size() || taken[i] || placed[o]) continue;
        if (!MayShare(*compute, i, o, id)) continue;
        Join(compute->inputs[i], compute->outputs[o]);
        taken[i] = placed[o] = true;
      }
    }
  }

  bool MayShare(const ComputeTask& task, size_t input, size_t output, TaskId id) const {
    const BufferId from = task.inputs[input], to = task.outputs[output];
    if (from == kNoBuffer || to == kNoBuffer || from == to) return false;
    if (std::count(task.inputs.begin(), task.inputs.end(), from) > 1) return false;
    const Buffer& a = graph_.buffer(from);
    const Buffer& b = graph_.buffer(to);
    if (a.persistent() || b.persistent() || a.format != b.format) return false;
    if (result_.bytes[from.index()] != result_.bytes[to.index()]) return false;
    const Life& to_life = lives_[to.index()];
    const Allocation& x = allocations_[allocation_of_[from.index()]];
    return to_life.first_writer == id && order_[static_cast<size_t>(to_life.first)] == id &&
           x.last != kForever && order_[static_cast<size_t>(x.last)] == id;
  }

  void Join(BufferId from, BufferId to) {
    const size_t a = allocation_of_[from.index()], b = allocation_of_[to.index()];
    Allocation& x = allocations_[a];
    Allocation& y = allocations_[b];
    x.last = std::max(x.last, y.last);
    for (BufferId member : y.members) {
      allocation_of_[member.index()] = a;
      x.members.push_back(member);
    }
    y.members.clear();
  }

  void Place(DeviceId device) {
    std::vector<Allocation*> wanted;
    for (Allocation& a : allocations_) {
      if (a.members.empty() || a.last < 0 || a.bytes == 0) continue;
      if (graph_.buffer(a.members[0]).device == device) wanted.push_back(&a);
    }
    // What lives between steps comes first, then largest first.
    std::stable_sort(wanted.begin(), wanted.end(),
                     [this](const Allocation* a, const Allocation* b) {
                       const bool p = graph_.buffer(a->members[0]).persistent();
                       const bool q = graph_.buffer(b->members[0]).persistent();
                       return p != q ? p : a->bytes > b->bytes;
                     });
    std::vector<const Allocation*> placed;  // by offset
    int64_t end = 0;
    for (Allocation* a : wanted) {
      a->offset = LowestFree(*a, placed);
      end = std::max(end, a->offset + a->bytes);
      placed.insert(std::upper_bound(placed.begin(), placed.end(), a,
                                     [](const Allocation* x, const Allocation* y) {
                                       return x->offset < y->offset;
                                     }),
                    a);
      for (BufferId member : a->members) result_.offset[member.index()] = a->offset;
      if (graph_.buffer(a->members[0]).persistent()) {
        result_.persistent[device.index()] = Bytes(end);
      }
    }
    result_.arena[device.index()] = Bytes(end);
  }

  static int64_t LowestFree(const Allocation& a, const std::vector<const Allocation*>& placed) {
    int64_t offset = 0;
    for (const Allocation* b : placed) {
      if (b->last < a.first || a.last < b->first) continue;
      if (b->offset >= offset + a.bytes) break;
      offset = std::max(offset, b->offset + b->bytes);
    }
    return offset;
  }

  // A buffer's first writer waits for whoever used its memory last on another lane. Earlier users
  // have been waited for by those.
  void AddDependencies() {
    std::vector<std::vector<BufferId>> by_device(static_cast<size_t>(graph_.devices()));
    for (const Buffer& buffer : graph_.buffers()) {
      const Life& life = lives_[buffer.id.index()];
      if (result_.offset[buffer.id.index()] >= 0 && !buffer.persistent() &&
          life.first_writer != TaskId(-1) && result_.bytes[buffer.id.index()] > 0) {
        by_device[buffer.device.index()].push_back(buffer.id);
      }
    }
    for (auto& buffers : by_device) {
      std::stable_sort(buffers.begin(), buffers.end(), [this](BufferId a, BufferId b) {
        return lives_[a.index()].first < lives_[b.index()].first;
      });
      std::map<int64_t, LastUser> last_users;
      for (BufferId id : buffers) TakeMemory(id, last_users);
    }
    auto& added = result_.added_dependencies;
    std::sort(added.begin(), added.end());
    added.erase(std::unique(added.begin(), added.end()), added.end());
  }

  // The buffer that held a piece of memory last, up to `end`; keyed by the piece's begin.
  struct LastUser {
    int64_t end;
    BufferId buffer;
  };

  void TakeMemory(BufferId id, std::map<int64_t, LastUser>& last_users) {
    const int64_t begin = result_.offset[id.index()], end = begin + result_.bytes[id.index()];
    auto it = last_users.upper_bound(begin);
    if (it != last_users.begin()) --it;
    while (it != last_users.end() && it->first < end) {
      const auto [old_begin, old] = *it;
      if (old.end <= begin) {
        ++it;
        continue;
      }
      WaitForUsersOf(old.buffer, lives_[id.index()].first_writer);
      it = last_users.erase(it);
      if (old_begin < begin) last_users[old_begin] = {begin, old.buffer};
      if (old.end > end) last_users[end] = {old.end, old.buffer};
    }
    last_users[begin] = {end, id};
  }

  void WaitForUsersOf(BufferId old, TaskId writer) {
    const bool lane = IsCommunication(graph_.task(writer));
    for (TaskId user : lives_[old.index()].accessors) {
      if (user != writer && IsCommunication(graph_.task(user)) != lane) {
        result_.added_dependencies.emplace_back(writer, user);
      }
    }
  }

  const TaskGraph& graph_;
  std::span<const TaskId> order_;
  const MemorySizes& sizes_;
  BufferAssignment result_;
  std::vector<Life> lives_;
  std::vector<Allocation> allocations_;
  std::vector<size_t> allocation_of_;
};

}  // namespace

BufferAssignment AssignBuffers(const TaskGraph& graph, std::span<const TaskId> order,
                               const MemorySizes& sizes) {
  CHECK_EQ(order.size(), graph.tasks().size());
  return Assigner(graph, order, sizes).Run();
}

std::vector<TaskId> CanonicalOrder(const TaskGraph& graph) {
  std::vector<TaskId> order;
  for (const Task& task : graph.tasks()) order.push_back(task.id);
  return order;
}

}  // namespace partita
