#include <algorithm>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "graph/partition/exchange_tasks.h"
#include "graph/partition/first_pod.h"
#include "graph/partition/fragment.h"
#include "graph/partition/join_terms.h"
#include "graph/partition/step_communication.h"

namespace partita {
namespace {

// Numbers of terms of one producer lie below this.
constexpr int64_t kTermsPerProducer = 1 << 24;

// The fragment of one demand group.
class GroupMaker {
 public:
  GroupMaker(const Graph& graph, const Tensor& tensor, PartsByOp parts,
             const TensorSetting& setting, const PartitionOptions& options)
      : graph_(graph),
        tensor_(tensor),
        parts_(parts),
        layouts_(setting.layouts),
        algorithms_(setting.algorithms),
        outlines_(setting.outlines),
        options_(options),
        builder_(options.devices, false) {
    x_.tensor = tensor.id;
    x_.dtype = tensor.type.dtype;
  }

  // Makes room for so many demands.
  void ReserveDemands(size_t count) {
    demand_index_.reserve(count);
    x_.demands.reserve(count);
    x_.demand_buffers.reserve(count);
  }

  int32_t AddDemand(const Box& box, DeviceId device) {
    const auto [it, added] =
        demand_index_.try_emplace({box, device}, static_cast<int32_t>(x_.demands.size()));
    if (added) {
      x_.demands.push_back({box, device});
      x_.demand_buffers.push_back(kNoBuffer);
    }
    return it->second;
  }

  // Makes the demand's value come in an element type of its own as well, if that is another than
  // the tensor's. Returns the place of that buffer in `wanted_`, or -1.
  int32_t AddElementType(int32_t demand, DType dtype) {
    if (dtype == tensor_.type.dtype) return -1;
    const auto [it, added] =
        wanted_index_.try_emplace({demand, dtype}, static_cast<int32_t>(wanted_.size()));
    if (added) wanted_.push_back({demand, dtype, kNoBuffer});
    return it->second;
  }

  void AddPieces() {
    size_t most = 0;
    for (OpId id : graph_.producers(tensor_.id)) most += parts_[id.index()].size();
    x_.pieces.reserve(most);
    x_.piece_buffers.reserve(most);
    x_.piece_microbatches.reserve(most);
    builder_.Reserve(0, most + x_.demands.size());
    AddPersistentPieces();
    AddProducedPieces();
    fragment_.outer = builder_.buffers();
  }

  // Numbers that AppendContent appends.
  size_t content_size() const {
    const size_t of_box = tensor_.type.shape.size();
    return 5 + (static_cast<size_t>(builder_.buffers()) + x_.demands.size()) * (1 + of_box) +
           2 * x_.pieces.size() + wanted_.size();
  }
  // Appends all that the exchange follows from. A piece lies where its buffer does. Precondition:
  // nothing is solved.
  void AppendContent(TensorContent& content) const {
    AppendNumbers(content, reduction_, builder_.buffers(), x_.pieces.size(), x_.demands.size(),
                  wanted_.size());
    for (int32_t b = 0; b < builder_.buffers(); ++b) {
      const Buffer& buffer = builder_.buffer(BufferId(b));
      const auto type = static_cast<int32_t>(buffer.kind) << 8 | static_cast<int32_t>(buffer.dtype);
      content.push_back(Packed(buffer.device.value(), type));
      AppendBox(buffer.box, content);
    }
    for (size_t p = 0; p < x_.pieces.size(); ++p) {
      content.push_back(Packed(x_.piece_buffers[p].value(), x_.piece_microbatches[p]));
      content.push_back(x_.pieces[p].term);
    }
    for (size_t j = 0; j < x_.demands.size(); ++j) {
      content.push_back(Packed(x_.demands[j].device.value(), x_.demand_buffers[j].value()));
      AppendBox(x_.demands[j].box, content);
    }
    for (const Wanted& wanted : wanted_) {
      content.push_back(Packed(wanted.demand, static_cast<int32_t>(wanted.dtype)));
    }
  }

  // Whether terms have to be added on the way to the demands. Precondition: AddPieces.
  bool SumsTerms(std::span<const Demand> demands) const {
    const auto is_first = [this](const Piece& piece) { return piece.term == x_.pieces[0].term; };
    if (std::all_of(x_.pieces.begin(), x_.pieces.end(), is_first)) return false;
    const SolvedExchange solved = Exchange(x_.pieces, demands, exchange_options());
    for (const ExchangeStep& step : solved.steps()) {
      for (const Flow& flow : step.flows) {
        if (flow.adds || flow.owners.size() > 1 || flow.owners[0].pieces.size() > 1) return true;
      }
    }
    return false;
  }

  // Precondition: AddPieces.
  void Solve() {
    if (x_.demands.empty() || IsLoaded(tensor_)) return;
    JoinTerms(x_);
    solved_ = Exchange(x_.pieces, x_.demands, exchange_options());
  }
  const SolvedExchange& solved() const { return solved_; }

  // Numbers the fragment's steps, which begin at `first_step`: conversions and sums of pieces, the
  // exchange, conversions of demands, each where there is one. Returns the number after them; nullopt
  // where the watch gave the tensor up. Precondition: Solve.
  std::optional<int32_t> FindCommunications(int32_t first_step, const CommunicationWatch* watch) {
    if (x_.demands.empty()) return first_step;
    x_.first_step = first_step + (ConvertsPieces() || !x_.added.empty() ? 1 : 0);
    size_t steps = 1;
    if (!IsLoaded(tensor_)) {
      auto found = CommunicationsOf(x_, solved_, task_options(watch));
      if (!found.has_value()) return std::nullopt;
      communications_ = *std::move(found);
      steps = std::max(steps, communications_.size());
    }
    step_of_demands_ = x_.first_step + static_cast<int32_t>(steps);
    return step_of_demands_ + (wanted_.empty() ? 0 : 1);
  }

  // Precondition: FindCommunications. `host_demand`: the demand of the host, or -1.
  void AddTasks(int32_t host_demand) {
    if (x_.demands.empty()) return;
    if (IsLoaded(tensor_)) {
      AddLoads();
    } else {
      KeepForHost(host_demand);
      ConvertPieces();
      AddExchangeTasks(x_, {solved_, communications_}, task_options(nullptr), builder_);
    }
    ConvertDemands();
  }

  // `after`: the operators that hold the tasks back. `pod_devices`: of the first pod, if others are to
  // be left out, or 0.
  TensorFragment Finish(std::span<const OpId> after, int pod_devices) {
    fragment_.graph = std::move(builder_).Build();
    if (pod_devices > 0) KeepFirstPod(pod_devices);
    for (const Buffer& buffer : fragment_.graph.buffers()) {
      if (buffer.kind == BufferKind::kStaging) fragment_.staging.push_back(buffer.id.value());
    }
    for (const Task& task : fragment_.graph.tasks()) {
      for (OpId op : after) {
        for (DeviceId device : DevicesOf(task)) fragment_.edges.push_back({task.id, op, device});
      }
      if (options_.native_formats) {
        fragment_.formats.Add(fragment_.graph, task, options_.class_of_device);
      }
    }
    return std::move(fragment_);
  }

  const std::vector<Demand>& demands() const { return x_.demands; }
  // `wanted`: of AddElementType. Precondition: Finish.
  int32_t SlotOf(int32_t demand, int32_t wanted) const {
    const BufferId buffer = wanted < 0 ? x_.demand_buffers[static_cast<size_t>(demand)]
                                       : wanted_[static_cast<size_t>(wanted)].buffer;
    if (buffer == kNoBuffer || kept_slots_.empty()) return buffer.value();
    return kept_slots_[buffer.index()].value();
  }

 private:
  // A demand's value in another element type than the tensor's.
  struct Wanted {
    int32_t demand = 0;
    DType dtype = DType::kFloat32;
    BufferId buffer;
  };

  ExchangeTaskOptions task_options(const CommunicationWatch* watch) const {
    return {exchange_options(), options_.algorithm, algorithms_, watch, outlines_};
  }

  void KeepFirstPod(int pod_devices) {
    FirstPodTasks first = TasksOfFirstPod(fragment_.graph, pod_devices);
    fragment_.graph = std::move(first.graph);
    kept_slots_ = std::move(first.buffers);
    const auto outer = std::span(kept_slots_).first(static_cast<size_t>(fragment_.outer));
    fragment_.outer -= static_cast<int32_t>(std::count(outer.begin(), outer.end(), kNoBuffer));
  }

  bool ConvertsPieces() const {
    return std::any_of(x_.piece_buffers.begin(), x_.piece_buffers.end(),
                       [this](BufferId id) { return builder_.buffer(id).dtype != x_.dtype; });
  }

  // Pieces that producers make in another type are converted first.
  void ConvertPieces() {
    for (size_t k = 0; k < x_.piece_buffers.size(); ++k) {
      if (builder_.buffer(x_.piece_buffers[k]).dtype == x_.dtype) continue;
      x_.piece_buffers[k] = AddConversion(x_.piece_buffers[k], x_.dtype, x_.first_step - 1, k);
    }
  }

  // Converts what the demands got into the other types that are wanted.
  void ConvertDemands() {
    for (size_t k = 0; k < wanted_.size(); ++k) {
      Wanted& wanted = wanted_[k];
      const auto demand = static_cast<size_t>(wanted.demand);
      wanted.buffer = AddConversion(x_.demand_buffers[demand], wanted.dtype, step_of_demands_, k);
    }
  }

  // The same box on the same device in another type, in a buffer of its own.
  BufferId AddConversion(BufferId from, DType dtype, int32_t step, size_t number) {
    Buffer buffer = builder_.buffer(from);
    const DType old = buffer.dtype;
    const DeviceId device = buffer.device;
    const Box box = buffer.box;
    buffer.kind = BufferKind::kActivation;
    buffer.dtype = dtype;
    const BufferId to = builder_.AddBuffer(std::move(buffer));
    const Move move{MoveSignature::Kind::kReorder, {from, box, 0}, {to, box, 0}, box};
    builder_.AddTask({true, tensor_.id.value(), step, TaskKey::Phase::kConvert, device.value(),
                      static_cast<int32_t>(number)},
                     MoveTask{device, dtype, {move}, old});
    return to;
  }

  ExchangeOptions exchange_options() const {
    return {.reduction = reduction_,
            .node_of_device = options_.node_of_device,
            .collectives = options_.collectives,
            .direct_elements = options_.direct_bytes / SizeOf(x_.dtype)};
  }

  // What a persistent tensor starts from; where its next value is wanted.
  void AddPersistentPieces() {
    if (layouts_ == nullptr) return;
    const bool is_next = tensor_.kind == TensorKind::kNext;
    const Tensor& stored = is_next ? graph_.tensor(tensor_.of) : tensor_;
    for (const PlacedBox& piece : PersistentPieces(stored, *layouts_)) {
      const BufferId slot = builder_.AddBuffer(PersistentBuffer(stored, piece));
      if (is_next) {
        const int32_t j = AddDemand(piece.box, piece.device);
        x_.demand_buffers[static_cast<size_t>(j)] = slot;
      } else {
        x_.pieces.push_back({piece.box, piece.device, 0});
        x_.piece_buffers.push_back(slot);
        x_.piece_microbatches.push_back(0);
      }
    }
  }

  void AddProducedPieces() {
    const auto producers = graph_.producers(tensor_.id);
    for (size_t place = 0; place < producers.size(); ++place) {
      const Operator& op = graph_.op(producers[place]);
      for (size_t k = 0; k < op.outputs.size(); ++k) {
        if (op.outputs[k] != tensor_.id) continue;
        reduction_ = graph_.rule(op.id).results[k].reduction;
        for (const Part& part : parts_[op.id.index()]) {
          if (!IsPiece(part.view.results[k])) continue;
          AddProducedPiece(part, k, place);
          x_.piece_microbatches.push_back(op.microbatch);
        }
      }
    }
  }

  // All pieces that updates make are copies of one term; other terms are told apart by operator and
  // block.
  void AddProducedPiece(const Part& part, size_t k, size_t producer) {
    const Box& box = part.view.results[k].box;
    const bool is_next = tensor_.kind == TensorKind::kNext;
    const Operator& op = graph_.op(graph_.producers(tensor_.id)[producer]);
    const bool is_updated = op.anchor_weight != kNoTensor;
    const BufferId slot = builder_.AddBuffer({.device = part.device,
                                              .kind = BufferKind::kActivation,
                                              .tensor = tensor_.id,
                                              .dtype = ElementTypeOf(options_, op, tensor_),
                                              .box = box});
    x_.pieces.push_back(
        {box, part.device,
         is_updated ? 0 : static_cast<int64_t>(producer) * kTermsPerProducer + part.term});
    x_.piece_buffers.push_back(slot);
    if (!is_next) return;
    // Made in place?
    const auto it = demand_index_.find({box, part.device});
    if (it == demand_index_.end()) return;
    const BufferId kept = x_.demand_buffers[static_cast<size_t>(it->second)];
    if (kept != kNoBuffer) x_.piece_buffers.back() = kept;
  }

  // The host reads when the step has ended. What persists is then overwritten, so a value from the
  // step's start gets a buffer of its own.
  void KeepForHost(int32_t host_demand) {
    const bool persists = tensor_.kind == TensorKind::kWeight || tensor_.kind == TensorKind::kState;
    if (!persists || host_demand < 0) return;
    const Demand& demand = x_.demands[static_cast<size_t>(host_demand)];
    if (demand.box.empty()) return;
    x_.demand_buffers[static_cast<size_t>(host_demand)] =
        builder_.AddBuffer({.device = demand.device,
                            .kind = BufferKind::kActivation,
                            .tensor = tensor_.id,
                            .dtype = tensor_.type.dtype,
                            .box = demand.box});
  }

  void AddLoads() {
    for (size_t j = 0; j < x_.demands.size(); ++j) {
      const DeviceId device = x_.demands[j].device;
      x_.demand_buffers[j] = builder_.AddBuffer({.device = device,
                                                 .kind = BufferKind::kHostInput,
                                                 .tensor = tensor_.id,
                                                 .dtype = tensor_.type.dtype,
                                                 .box = x_.demands[j].box});
      builder_.AddTask({true, tensor_.id.value(), x_.first_step, TaskKey::Phase::kLoad,
                        device.value(), static_cast<int32_t>(j)},
                       LoadTask{device, x_.demand_buffers[j]});
    }
  }

  const Graph& graph_;
  const Tensor& tensor_;
  const PartsByOp parts_;
  const WeightLayouts* const layouts_;
  const std::span<const AlgorithmChoice> algorithms_;
  const bool outlines_;
  const PartitionOptions& options_;
  TaskGraphBuilder builder_;
  TensorFragment fragment_;
  TensorExchange x_;
  SolvedExchange solved_;
  std::vector<StepCommunication> communications_;
  int32_t step_of_demands_ = 0;  // in which demands are converted
  std::vector<Wanted> wanted_;
  // Indexed by BufferId as made: the slots that are left; empty: all are.
  std::vector<BufferId> kept_slots_;
  absl::flat_hash_map<std::pair<int32_t, DType>, int32_t> wanted_index_;
  Reduction reduction_ = Reduction::kSum;
  absl::flat_hash_map<std::pair<Box, DeviceId>, int32_t> demand_index_;
};

}  // namespace

class TensorFragmentsBuilder::Maker {
 public:
  Maker(const Graph& graph, const Tensor& tensor, PartsByOp parts, const TensorSetting& setting,
        const PartitionOptions& options)
      : graph_(graph),
        tensor_(tensor),
        parts_(parts),
        setting_(setting),
        options_(options),
        groups_(setting.groups.begin(), setting.groups.end()),
        stays_in_pods_(options.pod_devices > 0 && !IsForHost() &&
                       StaysInPods(graph, tensor, parts, setting, options.pod_devices)) {
    if (tensor_.kind == TensorKind::kWeight) {
      groups_ = ApplyGathers(graph_, *setting_.layouts, std::move(groups_));
    }
    AddDemands();
  }

  const Tensor& tensor() const { return tensor_; }

  TensorContent content() const {
    size_t size = 6 + result_.read_begin.size() + 2 * demand_of_read_.size();
    for (size_t g = 0; g < makers_.size(); ++g) {
      size += 2 + groups_[g].after.size() + makers_[g].content_size();
    }
    TensorContent content;
    content.reserve(size);
    AppendNumbers(content, tensor_.kind, tensor_.type.dtype, tensor_.type.shape.size(),
                  host_demand_, makers_.size(), result_.read_begin.size());
    for (size_t g = 0; g < makers_.size(); ++g) {
      AppendNumbers(content, groups_[g].consumers.empty(), groups_[g].after.size());
      for (OpId op : groups_[g].after) AppendNumbers(content, op.value());
      makers_[g].AppendContent(content);
    }
    content.insert(content.end(), result_.read_begin.begin(), result_.read_begin.end());
    for (const DemandOfRead& read : demand_of_read_) {
      content.push_back(Packed(read.group, read.wanted));
      content.push_back(read.demand);
    }
    return content;
  }

  // All-reduces have the numbers that they have among those of all pods, by which buckets name them.
  void Solve() {
    SolveGroups();
    if (!stays_in_pods_ || !HasAllReduce()) return;
    stays_in_pods_ = false;
    AddDemands();
    SolveGroups();
  }

  std::vector<std::span<const ExchangeStep>> steps() const {
    std::vector<std::span<const ExchangeStep>> steps;
    for (const GroupMaker& maker : makers_) steps.push_back(maker.solved().steps());
    return steps;
  }

  bool FindCommunications(const CommunicationWatch* watch) {
    has_communications_ = true;
    int32_t step = 0;
    for (GroupMaker& maker : makers_) {
      const auto next = maker.FindCommunications(step, watch);
      if (!next.has_value()) return false;
      step = *next;
    }
    return true;
  }

  TensorFragments Build() {
    if (!has_communications_) FindCommunications(nullptr);
    for (size_t g = 0; g < makers_.size(); ++g) makers_[g].AddTasks(g == 0 ? host_demand_ : -1);
    return Finish();
  }

 private:
  struct DemandOfRead {
    size_t group;
    int32_t demand;
    int32_t wanted;  // of GroupMaker::AddElementType
  };

  bool IsForHost() const {
    const std::vector<TensorId> host = HostTensors(graph_, options_);
    return std::find(host.begin(), host.end(), tensor_.id) != host.end();
  }

  PartsByOp parts() const { return stays_in_pods_ ? setting_.pod_parts : parts_; }

  void SolveGroups() {
    if (SumsForSeveral()) {
      groups_ = JoinGroups(std::move(groups_));
      AddDemands();
    }
    for (GroupMaker& maker : makers_) maker.Solve();
  }

  bool HasAllReduce() const {
    return std::any_of(makers_.begin(), makers_.end(), [](const GroupMaker& maker) {
      const auto steps = maker.solved().steps();
      return std::any_of(steps.begin(), steps.end(), [](const ExchangeStep& step) {
        return step.kind == ExchangeStep::Kind::kAllReduce;
      });
    });
  }

  void AddDemands() {
    TensorSetting setting = setting_;
    if (stays_in_pods_) setting.layouts = setting_.pod_layouts;
    makers_.clear();
    demand_of_read_.clear();
    makers_.reserve(groups_.size());
    for (size_t g = 0; g < groups_.size(); ++g) {
      size_t reads = 0;
      for (OpId id : groups_[g].consumers) reads += parts()[id.index()].size();
      makers_.emplace_back(graph_, tensor_, parts(), setting, options_).ReserveDemands(reads);
    }
    result_.read_begin.clear();
    for (OpId id : graph_.consumers(tensor_.id)) {
      result_.read_begin.push_back(static_cast<int32_t>(demand_of_read_.size()));
      const auto reads = [id](const DemandGroup& group) {
        return std::binary_search(group.consumers.begin(), group.consumers.end(), id);
      };
      const auto group = std::find_if(groups_.begin(), groups_.end(), reads) - groups_.begin();
      AddReads(graph_.op(id), static_cast<size_t>(group));
    }
    result_.read_begin.push_back(static_cast<int32_t>(demand_of_read_.size()));
    host_demand_ = -1;
    if (IsForHost()) {
      host_demand_ = makers_[0].AddDemand(Box::Full(tensor_.type.shape), setting_.host_device);
    }
    for (size_t g = 0; g < makers_.size(); ++g) {
      if (g == 0 || !makers_[g].demands().empty()) makers_[g].AddPieces();
    }
  }

  void AddReads(const Operator& op, size_t group) {
    const int devices = options_.pod_devices > 0 ? options_.pod_devices : options_.devices;
    for (const Part& part : parts()[op.id.index()]) {
      for (size_t k = 0; k < op.inputs.size(); ++k) {
        const TensorView& view = part.view.operands[k];
        if (op.inputs[k] != tensor_.id || !IsPiece(view)) continue;
        GroupMaker& maker = makers_[group];
        const int32_t demand = maker.AddDemand(view.box, part.device);
        const int32_t wanted = maker.AddElementType(demand, ElementTypeOf(options_, op, tensor_));
        if (part.device.value() < devices) demand_of_read_.push_back({group, demand, wanted});
      }
    }
  }

  // Whether several groups want a tensor whose terms have to be added.
  bool SumsForSeveral() const {
    const auto is_wanted = [](const DemandGroup& group) { return !group.consumers.empty(); };
    if (std::count_if(groups_.begin(), groups_.end(), is_wanted) < 2) return false;
    std::vector<Demand> all;
    for (const GroupMaker& maker : makers_) {
      all.insert(all.end(), maker.demands().begin(), maker.demands().end());
    }
    return makers_[0].SumsTerms(all);
  }

  TensorFragments Finish() {
    const int pod_devices = stays_in_pods_ ? 0 : options_.pod_devices;
    for (size_t g = 0; g < makers_.size(); ++g) {
      result_.groups.push_back(makers_[g].Finish(groups_[g].after, pod_devices));
    }
    for (const DemandOfRead& read : demand_of_read_) {
      result_.reads.push_back(
          {static_cast<int32_t>(read.group), makers_[read.group].SlotOf(read.demand, read.wanted)});
    }
    if (host_demand_ >= 0) result_.host_slot = makers_[0].SlotOf(host_demand_, -1);
    FindLoneReads();
    return std::move(result_);
  }

  // Outer slots are the same in all groups.
  void FindLoneReads() {
    const auto is_outer = [&](const TensorFragments::Read& read) {
      return read.slot >= 0 && read.slot < result_.groups[0].outer;
    };
    if (std::none_of(result_.reads.begin(), result_.reads.end(), is_outer)) {
      result_.lone_reads.assign(result_.reads.size(), -1);
      return;
    }
    std::vector<int32_t> uses(static_cast<size_t>(result_.groups[0].outer), 0);
    const auto use = [&](int32_t slot) {
      if (slot >= 0 && static_cast<size_t>(slot) < uses.size()) ++uses[static_cast<size_t>(slot)];
    };
    for (const TensorFragments::Read& read : result_.reads) use(read.slot);
    use(result_.host_slot);
    for (const TensorFragment& fragment : result_.groups) {
      for (const Task& task : fragment.graph.tasks()) {
        for (const BufferUse& used : UsesOf(task)) use(used.buffer.value());
      }
    }
    for (const TensorFragments::Read& read : result_.reads) {
      const bool is_lone = is_outer(read) && uses[static_cast<size_t>(read.slot)] == 1;
      result_.lone_reads.push_back(is_lone ? read.slot : -1);
    }
  }

  const Graph& graph_;
  const Tensor& tensor_;
  const PartsByOp parts_;
  const TensorSetting setting_;
  const PartitionOptions& options_;
  std::vector<DemandGroup> groups_;
  bool stays_in_pods_;              // fragments of the first pod are made without the others
  std::vector<GroupMaker> makers_;  // by demand group
  std::vector<DemandOfRead> demand_of_read_;
  int32_t host_demand_ = -1;
  bool has_communications_ = false;
  TensorFragments result_;
};

TensorFragmentsBuilder::TensorFragmentsBuilder(const Graph& graph, const Tensor& tensor,
                                               PartsByOp parts, const TensorSetting& setting,
                                               const PartitionOptions& options)
    : maker_(std::make_unique<Maker>(graph, tensor, parts, setting, options)) {}
TensorFragmentsBuilder::TensorFragmentsBuilder(TensorFragmentsBuilder&&) noexcept = default;
TensorFragmentsBuilder& TensorFragmentsBuilder::operator=(TensorFragmentsBuilder&&) noexcept =
    default;
TensorFragmentsBuilder::~TensorFragmentsBuilder() = default;

const Tensor& TensorFragmentsBuilder::tensor() const { return maker_->tensor(); }

TensorContent TensorFragmentsBuilder::content() const { return maker_->content(); }

void TensorFragmentsBuilder::Solve() { maker_->Solve(); }

std::vector<std::span<const ExchangeStep>> TensorFragmentsBuilder::steps() const {
  return maker_->steps();
}

bool TensorFragmentsBuilder::FindCommunications(const CommunicationWatch& watch) {
  return maker_->FindCommunications(&watch);
}

TensorFragments TensorFragmentsBuilder::Build() && { return maker_->Build(); }

}  // namespace partita
