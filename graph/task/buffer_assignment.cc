#include "graph/task/buffer_assignment.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <utility>

#include "absl/container/btree_map.h"
#include "graph/support/aligned.h"
#include "graph/support/check.h"

namespace partita {
namespace {

constexpr int32_t kForever = std::numeric_limits<int32_t>::max();
// Lanes of a device, as BufferUses::is_communication numbers them.
constexpr size_t kCompute = 0, kCommunication = 1;

// When, in the total order, a buffer holds something.
struct Life {
  int32_t first = kForever;
  int32_t last = -1;
  int32_t first_writer = -1;  // TaskId
  // The places of the last users on the compute and on the communication lane; -1: none.
  std::array<int32_t, 2> last_on_lane = {-1, -1};
};

// The place in the order from which on each task is known to have ended, by its place: where a task
// comes that reads what it wrote, or that a lane runs after it.
class Ends {
 public:
  Ends(const BufferUses& uses, std::span<const TaskId> order)
      : known_from_(order.size(), kForever) {
    std::vector<std::array<int32_t, 2>> on_lane(static_cast<size_t>(uses.devices), {-1, -1});
    std::vector<int32_t> writer(uses.buffers.size(), -1);
    for (size_t k = 0; k < order.size(); ++k) {
      const size_t task = order[k].index();
      const auto place = static_cast<int32_t>(k);
      for (const BufferUse& use : uses.UsesOf(task)) {
        Note(writer[use.buffer.index()], place);
        if (use.writes) writer[use.buffer.index()] = place;
        const size_t device = uses.buffers[use.buffer.index()].device.index();
        int32_t& before = on_lane[device][uses.is_communication[task]];
        Note(before, place);
        before = place;
      }
    }
  }

  // For a place of -1, of no task: 0.
  int32_t KnownFrom(int32_t place) const {
    return place < 0 ? 0 : known_from_[static_cast<size_t>(place)];
  }

 private:
  void Note(int32_t before, int32_t place) {
    if (before < 0 || before == place) return;
    int32_t& known = known_from_[static_cast<size_t>(before)];
    known = std::min(known, place);
  }

  std::vector<int32_t> known_from_;
};

// How long memory is taken by those that share it.
struct Taken {
  int32_t last = -1;  // the place of the last use
  // From which place on the last users on each lane are known to have ended.
  std::array<int32_t, 2> free_from = {0, 0};

  int32_t FreeFrom() const {
    return last == kForever ? kForever : std::max(free_from[0], free_from[1]);
  }
  void Extend(const Taken& other) {
    last = std::max(last, other.last);
    for (size_t lane = 0; lane < 2; ++lane) {
      free_from[lane] = std::max(free_from[lane], other.free_from[lane]);
    }
  }
};

// One device's memory while buffers are placed.
class Arena {
 public:
  // Above everything, for good; before anything is taken.
  int64_t PlacePersistent(int64_t bytes) {
    const int64_t offset = base_;
    base_ += bytes;
    end_ = base_;
    gaps_[0].begin = base_;
    return offset;
  }

  // The lowest place with so much room.
  int64_t Take(int64_t bytes) {
    const auto gap = std::find_if(gaps_.begin(), gaps_.end(),
                                  [bytes](const Gap& g) { return g.end - g.begin >= bytes; });
    const int64_t offset = gap->begin;
    gap->begin += bytes;
    if (gap->begin == gap->end) gaps_.erase(gap);
    end_ = std::max(end_, offset + bytes);
    return offset;
  }

  void Return(int64_t begin, int64_t end) {
    const auto gap = std::partition_point(gaps_.begin(), gaps_.end(),
                                          [begin](const Gap& g) { return g.end < begin; });
    if (gap->end == begin) {
      gap->end = end;
      const auto next = gap + 1;  // there is one: the last gap has no end
      if (next->begin == end) {
        gap->end = next->end;
        gaps_.erase(next);
      }
    } else if (gap->begin == end) {
      gap->begin = begin;
    } else {
      gaps_.insert(gap, {begin, end});
    }
  }

  int64_t persistent() const { return base_; }
  int64_t end() const { return end_; }

 private:
  struct Gap {
    int64_t begin, end;
  };
  std::vector<Gap> gaps_ = {{0, std::numeric_limits<int64_t>::max()}};  // by begin, apart
  int64_t base_ = 0, end_ = 0;
};

// Who used each piece of a device's memory last.
class LastUsers {
 public:
  // The buffer takes [begin, end). Calls visit(old) for every buffer that had some of it.
  template <class Visit>
  void Take(int64_t begin, int64_t end, BufferId buffer, Visit&& visit) {
    auto first = extents_.lower_bound(begin);
    if (first != extents_.begin() && std::prev(first)->second.end > begin) --first;
    auto last = first;
    for (; last != extents_.end() && last->first < end; ++last) visit(last->second.buffer);
    if (first != last) {
      const auto [before, from] = std::pair(first->first, first->second);
      const Extent behind = std::prev(last)->second;
      extents_.erase(first, last);
      if (before < begin) extents_.emplace(before, Extent{begin, from.buffer});
      if (behind.end > end) extents_.emplace(end, behind);
    }
    extents_.emplace(begin, Extent{end, buffer});
  }

 private:
  struct Extent {
    int64_t end = 0;
    BufferId buffer;
  };
  absl::btree_map<int64_t, Extent> extents_;  // by begin, disjoint
};

class Assigner {
 public:
  Assigner(const BufferUses& uses, std::span<const TaskId> order)
      : uses_(uses), order_(order), ends_(uses, order) {}

  // Everything but added_dependencies.
  BufferAssignment FindPlaces() {
    const auto devices = static_cast<size_t>(uses_.devices);
    const size_t buffers = uses_.buffers.size();
    result_.offset.assign(buffers, -1);
    result_.arena.assign(devices, Bytes(0));
    result_.persistent.assign(devices, Bytes(0));
    result_.scratch.assign(devices, Bytes(0));
    result_.bytes.reserve(buffers);
    for (const BufferUses::BufferFacts& buffer : uses_.buffers) {
      result_.bytes.push_back(buffer.bytes);
    }
    RaiseToScratch(uses_.scratch, result_.scratch);
    MeasureLives();
    MergeInPlace();
    Place();
    return std::move(result_);
  }
  // Adds what a buffer's first writer waits for: the task that used its memory last on the device's
  // other lane. A lane ends its tasks in order, so all earlier users have ended, too. Precondition:
  // FindPlaces has found these places.
  void AddDependencies(BufferAssignment& placed) {
    std::vector<LastUsers> last_users(static_cast<size_t>(uses_.devices));
    for (BufferId id : by_first_) {
      const BufferUses::BufferFacts& buffer = uses_.buffers[id.index()];
      const int64_t begin = placed.offset[id.index()];
      const int32_t writer = lives_[id.index()].first_writer;
      if (begin < 0 || buffer.persistent || writer < 0 || buffer.bytes == 0) continue;
      last_users[buffer.device.index()].Take(begin, begin + buffer.bytes, id, [&](BufferId old) {
        WaitForUsersOf(old, buffer.device, TaskId(writer));
      });
    }
    std::sort(waits_.begin(), waits_.end());
    auto& added = placed.added_dependencies;
    for (size_t w = 0; w < waits_.size(); ++w) {
      const Wait& wait = waits_[w];
      const bool is_last = w + 1 == waits_.size() || waits_[w + 1].writer != wait.writer ||
                           waits_[w + 1].device != wait.device;
      if (is_last) added.emplace_back(wait.writer, order_[static_cast<size_t>(wait.place)]);
    }
    std::sort(added.begin(), added.end());
    added.erase(std::unique(added.begin(), added.end()), added.end());
  }

 private:
  void MeasureLives() {
    lives_.resize(uses_.buffers.size());
    by_first_.reserve(uses_.buffers.size());
    for (size_t place = 0; place < order_.size(); ++place) {
      const TaskId task = order_[place];
      const uint8_t lane = uses_.is_communication[task.index()];
      for (const BufferUse& use : uses_.UsesOf(task.index())) {
        Life& life = lives_[use.buffer.index()];
        if (life.first == kForever) {
          life.first = static_cast<int32_t>(place);
          by_first_.push_back(use.buffer);
        }
        life.last = life.last_on_lane[lane] = static_cast<int32_t>(place);
        if (use.writes && life.first_writer < 0) life.first_writer = task.value();
      }
    }
    for (size_t b = 0; b < lives_.size(); ++b) {
      const BufferUses::BufferFacts& buffer = uses_.buffers[b];
      if (buffer.persistent) lives_[b].first = -1;
      if (buffer.persistent || buffer.host_reads) lives_[b].last = kForever;
    }
  }

  // Joins a kernel's output to an input that dies in it. What is joined has one place: that of its
  // first member until the last use of any.
  void MergeInPlace() {
    place_of_.resize(lives_.size());
    taken_.reserve(lives_.size());
    for (size_t b = 0; b < lives_.size(); ++b) {
      place_of_[b] = static_cast<int32_t>(b);
      const Life& life = lives_[b];
      taken_.push_back({life.last,
                        {ends_.KnownFrom(life.last_on_lane[kCompute]),
                         ends_.KnownFrom(life.last_on_lane[kCommunication])}});
    }
    for (TaskId task : order_) {
      const auto rows = uses_.OverwritesOf(task.index());
      for (size_t r = 0; r < rows.size(); ++r) {
        const bool is_taken =
            std::any_of(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(r),
                        [&](const BufferUses::Overwrite& earlier) {
                          return place_of_[earlier.to.index()] == place_of_[earlier.from.index()] &&
                                 (earlier.from == rows[r].from || earlier.to == rows[r].to);
                        });
        if (is_taken || !MayShare(rows[r], task)) continue;
        const int32_t place = place_of_[rows[r].from.index()];
        place_of_[rows[r].to.index()] = place;
        taken_[static_cast<size_t>(place)].Extend(taken_[rows[r].to.index()]);
      }
    }
  }

  bool MayShare(const BufferUses::Overwrite& row, TaskId task) const {
    const BufferUses::BufferFacts& a = uses_.buffers[row.from.index()];
    const BufferUses::BufferFacts& b = uses_.buffers[row.to.index()];
    if (a.persistent || b.persistent || a.format != b.format || a.bytes != b.bytes) return false;
    const Life& to = lives_[row.to.index()];
    const Taken& from = taken_[static_cast<size_t>(place_of_[row.from.index()])];
    return to.first_writer == task.value() && order_[static_cast<size_t>(to.first)] == task &&
           from.last == to.first && from.free_from[kCommunication] <= to.first;
  }

  // What lives between steps comes first; then everything takes and returns its place as it does
  // in the order.
  void Place() {
    std::vector<Arena> arenas(static_cast<size_t>(uses_.devices));
    for (size_t b = 0; b < lives_.size(); ++b) {
      const BufferUses::BufferFacts& buffer = uses_.buffers[b];
      if (!buffer.persistent || lives_[b].last < 0 || buffer.bytes == 0) continue;
      result_.offset[b] = arenas[buffer.device.index()].PlacePersistent(Aligned(buffer.bytes));
    }
    const std::vector<BufferId> by_last = ByLast();
    auto dying = by_last.begin();
    for (BufferId id : by_first_) {
      const int32_t place = lives_[id.index()].first;
      for (; dying != by_last.end() && FreeFrom(*dying) <= place; ++dying) Return(*dying, arenas);
      Take(id.index(), arenas);
    }
    for (size_t d = 0; d < arenas.size(); ++d) {
      result_.persistent[d] = Bytes(arenas[d].persistent());
      result_.arena[d] = Bytes(arenas[d].end());
    }
  }

  // From where on the memory that a buffer has is free.
  int32_t FreeFrom(BufferId id) const {
    return taken_[static_cast<size_t>(place_of_[id.index()])].FreeFrom();
  }

  // The buffers whose places are returned, each by the one whose place it is, in the order in which
  // they are.
  std::vector<BufferId> ByLast() const {
    std::vector<int32_t> begin(order_.size() + 1, 0);
    const auto is_returned = [&](BufferId id) {
      return place_of_[id.index()] == id.value() && FreeFrom(id) != kForever;
    };
    for (BufferId id : by_first_) {
      if (is_returned(id)) ++begin[static_cast<size_t>(FreeFrom(id)) + 1];
    }
    for (size_t place = 0; place < order_.size(); ++place) begin[place + 1] += begin[place];
    std::vector<BufferId> by_last(static_cast<size_t>(begin.back()));
    for (BufferId id : by_first_) {
      if (!is_returned(id)) continue;
      by_last[static_cast<size_t>(begin[static_cast<size_t>(FreeFrom(id))]++)] = id;
    }
    return by_last;
  }

  void Take(size_t b, std::vector<Arena>& arenas) {
    const BufferUses::BufferFacts& buffer = uses_.buffers[b];
    if (buffer.bytes == 0) return;
    const auto root = static_cast<size_t>(place_of_[b]);
    if (root != b) {
      result_.offset[b] = result_.offset[root];
    } else if (result_.offset[b] < 0) {
      result_.offset[b] = arenas[buffer.device.index()].Take(Aligned(buffer.bytes));
    }
  }

  void Return(BufferId id, std::vector<Arena>& arenas) {
    const int64_t begin = result_.offset[id.index()];
    if (begin < 0) return;
    const BufferUses::BufferFacts& buffer = uses_.buffers[id.index()];
    arenas[buffer.device.index()].Return(begin, begin + Aligned(buffer.bytes));
  }

  void WaitForUsersOf(BufferId old, DeviceId device, TaskId writer) {
    const uint8_t other = 1 - uses_.is_communication[writer.index()];
    const int32_t place = lives_[old.index()].last_on_lane[other];
    if (place < 0) return;
    if (!waits_.empty() && waits_.back().writer == writer && waits_.back().device == device) {
      waits_.back().place = std::max(waits_.back().place, place);
    } else {
      waits_.push_back({writer, device, place});
    }
  }

  const BufferUses& uses_;
  const std::span<const TaskId> order_;
  const Ends ends_;
  BufferAssignment result_;
  std::vector<Life> lives_;
  std::vector<BufferId> by_first_;  // in the order of their first use
  // By buffer: whose place it has, and for those whose place it is how long all that share it take
  // it.
  std::vector<int32_t> place_of_;
  std::vector<Taken> taken_;
  // That a task waits for the one at a place of the order, of the other lane of a device.
  struct Wait {
    TaskId writer;
    DeviceId device;
    int32_t place = 0;
    friend auto operator<=>(const Wait&, const Wait&) = default;
  };
  std::vector<Wait> waits_;
};

}  // namespace

std::vector<Bytes> BufferAssignment::peaks() const {
  std::vector<Bytes> peaks = arena;
  for (size_t d = 0; d < peaks.size(); ++d) peaks[d] += scratch[d];
  return peaks;
}

std::vector<Bytes> MostMemoryOf(const BufferUses& uses) {
  std::vector<Bytes> most(static_cast<size_t>(uses.devices));
  RaiseToScratch(uses.scratch, most);
  AddMemoryOf(uses.buffers, most);
  return most;
}

void AddMemoryOf(std::span<const BufferUses::BufferFacts> buffers, std::vector<Bytes>& of_device) {
  for (const BufferUses::BufferFacts& buffer : buffers) {
    of_device[buffer.device.index()] += Bytes(Aligned(buffer.bytes));
  }
}

void RaiseToScratch(std::span<const BufferUses::Scratch> scratch, std::vector<Bytes>& of_device) {
  for (const BufferUses::Scratch& one : scratch) {
    Bytes& most = of_device[one.device.index()];
    most = std::max(most, Bytes(Aligned(one.bytes)));
  }
}

BufferAssignment AssignBuffers(const BufferUses& uses, std::span<const TaskId> order) {
  CHECK_EQ(order.size(), uses.tasks());
  Assigner assigner(uses, order);
  BufferAssignment assignment = assigner.FindPlaces();
  assigner.AddDependencies(assignment);
  return assignment;
}

std::vector<Bytes> PeaksOf(const BufferUses& uses, std::span<const TaskId> order) {
  CHECK_EQ(order.size(), uses.tasks());
  return Assigner(uses, order).FindPlaces().peaks();
}

}  // namespace partita
