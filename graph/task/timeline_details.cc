#include "graph/task/timeline_details.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/task/timeline_memory.h"

namespace partita {
namespace {

constexpr size_t kListed = 4;  // moves or transfers that are shown of a task

OpId FirstOperatorOf(const ComputeTask& kernel) {
  return kernel.before.empty() ? kernel.op : kernel.before.front();
}

// The part of the step of each operator and tensor.
struct StepParts {
  explicit StepParts(const Graph& graph)
      : of_op(graph.ops().size(), StepPart::kForward),
        of_tensor(graph.tensors().size(), StepPart::kForward) {
    for (const Tensor& tensor : graph.tensors()) of_tensor[tensor.id.index()] = PartOf(tensor);
    for (const Operator& op : graph.ops()) {
      StepPart& part = of_op[op.id.index()];
      if (op.anchor == kNoOp) {
        part = StepPart::kUpdate;
      } else if (op.pass != Pass::Forward() || ReadsGradients(op)) {
        part = StepPart::kBackward;
      }
      for (TensorId output : op.outputs) {
        if (output != kNoTensor) of_tensor[output.index()] = part;
      }
    }
  }

  StepPart Of(const Task& task) const {
    if (std::holds_alternative<LoadTask>(task.body)) return StepPart::kData;
    if (const auto* kernel = std::get_if<ComputeTask>(&task.body)) {
      return of_op[FirstOperatorOf(*kernel).index()];
    }
    return of_tensor[static_cast<size_t>(task.key.subject)];
  }

  std::vector<StepPart> of_op, of_tensor;

 private:
  static StepPart PartOf(const Tensor& tensor) {
    switch (tensor.kind) {
      case TensorKind::kInput:
      case TensorKind::kLabels:
        return StepPart::kData;
      case TensorKind::kSeed:
        return StepPart::kBackward;
      case TensorKind::kState:
      case TensorKind::kNext:
        return StepPart::kUpdate;
      case TensorKind::kActivation:
      case TensorKind::kWeight:
        break;
    }
    return StepPart::kForward;
  }
  bool ReadsGradients(const Operator& op) const {
    return std::ranges::any_of(op.inputs, [&](TensorId input) {
      return input != kNoTensor && of_tensor[input.index()] == StepPart::kBackward;
    });
  }
};

// The first few, and how many more.
template <class Items, class Text>
std::string FirstOf(const Items& items, const Text& text) {
  const size_t shown = std::min(items.size(), kListed);
  std::string all = absl::StrJoin(items.begin(), items.begin() + static_cast<int64_t>(shown), ", ",
                                  [&](std::string* out, const auto& item) { *out += text(item); });
  if (shown < items.size()) absl::StrAppend(&all, " and ", items.size() - shown, " more");
  return all;
}

struct ShapesText {
  const TaskGraph& tasks;

  static std::string Of(const std::vector<KernelTensor>& tensors) {
    std::vector<std::string> texts;
    for (const KernelTensor& tensor : tensors) {
      if (tensor.present) texts.push_back(ToString(tensor.type));
    }
    return absl::StrJoin(texts, ", ");
  }
  std::string operator()(const ComputeTask& task) const {
    const KernelSignature& kernel = tasks.signatures()[static_cast<size_t>(task.signature)];
    return absl::StrCat(Of(kernel.inputs), " -> ", Of(kernel.outputs));
  }
  std::string operator()(const MoveTask& task) const {
    return FirstOf(SignaturesOf(task), [](const MoveSignature& move) { return ToString(move); });
  }
  std::string operator()(const LoadTask& task) const {
    const Buffer& buffer = tasks.buffer(task.buffer);
    return absl::StrCat(Name(buffer.dtype), ToString(buffer.box));
  }
  std::string operator()(const CollectiveTask& task) const {
    return absl::StrCat(Name(task.dtype), " ", ToString(task.collective));
  }
  std::string operator()(const TransferTask& task) const {
    return FirstOf(task.transfers, [&](const Transfer& transfer) {
      return absl::StrCat(Name(task.dtype), "[", transfer.send.count, "] ", transfer.from.value(),
                          "->", transfer.to.value());
    });
  }
};

struct BytesOnDevice {
  const TaskGraph& tasks;
  DeviceId device;

  static int64_t Of(const std::vector<KernelTensor>& tensors) {
    int64_t bytes = 0;
    for (const KernelTensor& tensor : tensors) bytes += tensor.present ? tensor.type.bytes() : 0;
    return bytes;
  }
  int64_t operator()(const ComputeTask& task) const {
    const KernelSignature& kernel = tasks.signatures()[static_cast<size_t>(task.signature)];
    return Of(kernel.inputs) + Of(kernel.outputs);
  }
  int64_t operator()(const MoveTask& task) const {
    int64_t bytes = 0;
    for (const MoveSignature& move : SignaturesOf(task))
      bytes += move.elements * SizeOf(move.dtype);
    return bytes;
  }
  int64_t operator()(const LoadTask& task) const {
    const Buffer& buffer = tasks.buffer(task.buffer);
    return buffer.elements() * SizeOf(buffer.dtype);
  }
  template <class Communication>
  int64_t operator()(const Communication& task) const {
    return ElementsReceived(task, device) * SizeOf(task.dtype);
  }
};

// The entries of tasks on devices, found by either.
class EntryIndex {
 public:
  EntryIndex(const TaskGraph& tasks, const Timeline& timeline) {
    absl::flat_hash_map<TaskKey, TaskId> ids;
    for (const Task& task : tasks.tasks()) ids.emplace(task.key, task.id);
    for (size_t i = 0; i < timeline.entries.size(); ++i) {
      const auto id = ids.find(timeline.entries[i].key);
      tasks_.push_back(id == ids.end() ? TaskId(-1) : id->second);
      if (id != ids.end()) entries_.emplace(std::pair(id->second, timeline.entries[i].device), i);
    }
  }
  std::span<const TaskId> tasks() const { return tasks_; }  // by entry; -1: none
  const size_t* Find(TaskId task, DeviceId device) const {
    const auto found = entries_.find(std::pair(task, device));
    return found == entries_.end() ? nullptr : &found->second;
  }

 private:
  std::vector<TaskId> tasks_;
  absl::flat_hash_map<std::pair<TaskId, DeviceId>, size_t> entries_;
};

// Entries that made what arrives in a buffer: the last to end, and the last of another device.
class Makers {
 public:
  void Add(const std::vector<TimelineEntry>& entries, size_t entry) {
    const auto ends = [&](size_t e) { return entries[e].end; };
    const auto device = [&](size_t e) { return entries[e].device; };
    if (!last_[0] || ends(entry) > ends(*last_[0])) {
      if (last_[0] && device(*last_[0]) != device(entry)) last_[1] = last_[0];
      last_[0] = entry;
    } else if (device(entry) != device(*last_[0]) && (!last_[1] || ends(entry) > ends(*last_[1]))) {
      last_[1] = entry;
    }
  }
  std::optional<size_t> LastApartFrom(const std::vector<TimelineEntry>& entries,
                                      DeviceId device) const {
    for (const std::optional<size_t>& entry : last_) {
      if (entry && entries[*entry].device != device) return entry;
    }
    return std::nullopt;
  }

 private:
  std::array<std::optional<size_t>, 2> last_;
};

class ArrowFinder {
 public:
  ArrowFinder(const TimelineStep& step, const Timeline& timeline, const EntryIndex& index)
      : step_(step), entries_(timeline.entries), index_(index) {}

  std::vector<TimelineDetails::Arrow> Find() {
    std::vector<TimelineDetails::Arrow> arrows;
    for (const Task& task : step_.tasks.tasks()) {
      for (TaskId earlier : task.dependencies) {
        if (IsCommunication(step_.tasks.task(earlier))) AddArrows(earlier, task, arrows);
      }
    }
    return arrows;
  }

 private:
  using Arrivals = absl::flat_hash_map<BufferId, Makers>;  // by the buffer that is written

  void AddArrows(TaskId sender, const Task& reader, std::vector<TimelineDetails::Arrow>& arrows) {
    const Task& sending = step_.tasks.task(sender);
    const Arrivals& arrivals = ArrivalsOf(sending);
    std::map<DeviceId, size_t> from;  // by the reader's device: the maker that ended last
    for (BufferId buffer : AccessOf(reader).reads) {
      const auto found = arrivals.find(buffer);
      if (found == arrivals.end()) continue;
      const DeviceId device = step_.tasks.buffer(buffer).device;
      const auto maker = found->second.LastApartFrom(entries_, device);
      if (!maker) continue;
      const auto [best, is_first] = from.emplace(device, *maker);
      if (entries_[*maker].end > entries_[best->second].end) best->second = *maker;
    }
    for (const auto& [device, maker] : from) {
      const size_t* to = index_.Find(reader.id, device);
      if (to == nullptr) continue;
      arrows.push_back({maker, *to, TaskName(step_.graph, sending),
                        std::visit(BytesOnDevice{step_.tasks, device}, sending.body)});
    }
  }

  const Arrivals& ArrivalsOf(const Task& sending) {
    const auto [found, is_new] = arrivals_.try_emplace(sending.id);
    if (is_new) found->second = FindArrivals(sending);
    return found->second;
  }

  Arrivals FindArrivals(const Task& sending) const {
    absl::flat_hash_map<BufferId, TaskId> maker;
    for (TaskId earlier : sending.dependencies) {
      for (BufferId buffer : AccessOf(step_.tasks.task(earlier)).writes) maker[buffer] = earlier;
    }
    const auto entry_of = [&](BufferId sent) -> const size_t* {
      const auto found = maker.find(sent);
      if (found == maker.end()) return nullptr;  // it was there before the step
      return index_.Find(found->second, step_.tasks.buffer(sent).device);
    };
    Arrivals arrivals;
    if (const auto* transfers = std::get_if<TransferTask>(&sending.body)) {
      for (const Transfer& transfer : transfers->transfers) {
        const size_t* entry = entry_of(transfer.send.buffer);
        if (entry != nullptr) arrivals[transfer.receive.buffer].Add(entries_, *entry);
      }
      return arrivals;
    }
    Makers all;
    for (const Slice& sent : std::get<CollectiveTask>(sending.body).send) {
      const size_t* entry = entry_of(sent.buffer);
      if (entry != nullptr) all.Add(entries_, *entry);
    }
    for (const Slice& received : std::get<CollectiveTask>(sending.body).receive) {
      arrivals[received.buffer] = all;
    }
    return arrivals;
  }

  const TimelineStep& step_;
  const std::vector<TimelineEntry>& entries_;
  const EntryIndex& index_;
  absl::flat_hash_map<TaskId, Arrivals> arrivals_;
};

// Leaves out arrows that point backwards, and the smallest beyond the most.
void LimitArrows(size_t most, const std::vector<TimelineEntry>& entries, TimelineDetails& details) {
  std::vector<TimelineDetails::Arrow>& arrows = details.arrows;
  const size_t found = arrows.size();
  std::erase_if(arrows, [&](const TimelineDetails::Arrow& arrow) {
    return entries[arrow.to].end <= entries[arrow.from].start;
  });
  if (arrows.size() > most) {
    std::ranges::stable_sort(arrows, std::greater(), &TimelineDetails::Arrow::bytes);
    arrows.resize(most);
  }
  details.arrows_left_out = static_cast<int64_t>(found - arrows.size());
}

absl::Status AddDurations(const Timeline& other, const std::string& other_name,
                          std::optional<Nanos> TimelineDetails::OfEntry::* field,
                          Timeline& timeline) {
  absl::flat_hash_map<std::pair<TaskKey, DeviceId>, Nanos> durations;
  for (const TimelineEntry& entry : other.entries) {
    durations.emplace(std::pair(entry.key, entry.device), entry.end - entry.start);
  }
  std::vector<Nanos> found;
  for (const TimelineEntry& entry : timeline.entries) {
    const auto duration = durations.find(std::pair(entry.key, entry.device));
    if (duration != durations.end()) found.push_back(duration->second);
  }
  if (found.size() < timeline.entries.size() || durations.size() > found.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(other_name, " is of another step: it has ", durations.size(),
                     " tasks on devices, this one ", timeline.entries.size(), ", and ",
                     found.size(), " are the same; wanted a timeline of the same plan"));
  }
  timeline.details.entries.resize(found.size());
  for (size_t i = 0; i < found.size(); ++i) timeline.details.entries[i].*field = found[i];
  return absl::OkStatus();
}

}  // namespace

void AddDetails(const TimelineStep& step, Timeline& timeline) {
  const StepParts parts(step.graph);
  const EntryIndex index(step.tasks, timeline);
  TimelineDetails& details = timeline.details;
  details.entries.resize(timeline.entries.size());
  for (size_t i = 0; i < timeline.entries.size(); ++i) {
    if (index.tasks()[i] == TaskId(-1)) continue;
    const Task& task = step.tasks.task(index.tasks()[i]);
    TimelineDetails::OfEntry& entry = details.entries[i];
    entry.part = parts.Of(task);
    entry.shapes = std::visit(ShapesText{step.tasks}, task.body);
    entry.bytes = std::visit(BytesOnDevice{step.tasks, timeline.entries[i].device}, task.body);
    const auto* kernel = std::get_if<ComputeTask>(&task.body);
    if (kernel != nullptr && !step.splits.empty()) {
      entry.split = step.splits[FirstOperatorOf(*kernel).index()];
    }
  }
  details.arrows = ArrowFinder(step, timeline, index).Find();
  LimitArrows(step.most_arrows, timeline.entries, details);
  if (step.memory == nullptr) return;
  AddMemory(step.tasks, *step.memory, index.tasks(), timeline);
  if (step.whole_devices == 0) return;
  std::erase_if(details.memory, [&](const TimelineDetails::Memory& memory) {
    return memory.device.value() >= step.whole_devices;
  });
  details.peak.resize(static_cast<size_t>(step.whole_devices));
}

absl::Status AddPredicted(const Timeline& other, const std::string& other_name,
                          Timeline& timeline) {
  return AddDurations(other, other_name, &TimelineDetails::OfEntry::predicted, timeline);
}

absl::Status AddMeasured(const Timeline& other, const std::string& other_name, Timeline& timeline) {
  return AddDurations(other, other_name, &TimelineDetails::OfEntry::measured, timeline);
}

}  // namespace partita
