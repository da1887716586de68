// From the steps of Exchange to tasks. For each step:
//   sum    - where a device owns several terms of a region, it adds them first;
//   pack   - what leaves a device must be one contiguous slice; it is copied where it is not;
//   send   - one collective or one group of transfers;
//   unpack - what arrives is copied, or added, to every demand that wants it.
// Copies fall away where the data already lie right: a demand takes a piece's buffer when both are
// one box, and collectives run in place on such buffers.
#include "graph/partition/exchange_tasks.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "graph/partition/flow_index.h"
#include "graph/partition/windows.h"
#include "graph/support/check.h"

namespace partita {
namespace {

using Kind = ExchangeStep::Kind;
using MoveKind = MoveSignature::Kind;
using Phase = TaskKey::Phase;

class Emitter {
 public:
  Emitter(TensorExchange& x, const ExchangeTaskOptions& options, TaskGraphBuilder& builder)
      : x_(x), options_(options), builder_(builder) {}

  std::optional<int32_t> Run() {
    steps_ = Exchange(x_.pieces, x_.demands, options_.exchange);
    index_.emplace(x_, steps_);
    buffers_of_pieces_.insert(x_.piece_buffers.begin(), x_.piece_buffers.end());
    PlaceDemands();
    step_ = x_.first_step;
    for (const ExchangeStep& step : steps_) {
      EmitStep(step);
      if (is_given_up_) return std::nullopt;
      ++step_;
    }
    return std::max(step_, x_.first_step + 1);
  }

 private:
  // ---- which buffer each demand gets

  // The piece whose buffer demand j can take: same box and device, and the only flow that reaches
  // the demand is exactly that box with that piece leading this device's share (or the piece is the
  // whole value).
  std::optional<int32_t> AliasOf(size_t j) const {
    const Demand& demand = x_.demands[j];
    const auto flows = index_->FlowsOf(j);
    if (flows.size() != 1) return std::nullopt;
    const Flow& flow = *flows[0];
    if (flow.boxes.size() != 1 || flow.boxes[0] != demand.box) return std::nullopt;
    const Share* share = index_->ShareAt(flow, demand.device);
    if (share == nullptr || share->pieces.empty()) return std::nullopt;
    const int32_t piece = share->pieces[0];
    if (x_.pieces[static_cast<size_t>(piece)].box != demand.box) return std::nullopt;
    const bool changes = flow.owners.size() > 1 || share->pieces.size() > 1;
    if (changes && !MayOverwrite(piece)) return std::nullopt;
    return piece;
  }

  // A piece's own value is needed by one flow only, so its buffer may become that flow's sum.
  bool MayOverwrite(int32_t piece) const {
    const auto p = static_cast<size_t>(piece);
    return index_->uses(piece) == 1 && !builder_.buffer(x_.piece_buffers[p]).persistent();
  }

  void PlaceDemands() {
    for (size_t j = 0; j < x_.demands.size(); ++j) {
      if (x_.demand_buffers[j] != kNoBuffer || x_.demands[j].box.empty()) continue;
      if (const auto piece = AliasOf(j)) {
        x_.demand_buffers[j] = x_.piece_buffers[static_cast<size_t>(*piece)];
        continue;
      }
      x_.demand_buffers[j] = builder_.AddBuffer({.device = x_.demands[j].device,
                                                 .kind = BufferKind::kActivation,
                                                 .tensor = x_.tensor,
                                                 .dtype = x_.dtype,
                                                 .box = x_.demands[j].box});
      FillIfUncovered(j);
    }
  }

  // Elements that no term covers are zero: those that no flow brings. The boxes of the flows to one
  // demand are disjoint and inside it.
  void FillIfUncovered(size_t j) {
    const Demand& demand = x_.demands[j];
    int64_t covered = 0;
    for (const Flow* flow : index_->FlowsOf(j)) covered += VolumeOf(flow->boxes);
    if (covered == demand.box.volume()) return;
    Move fill{MoveKind::kFill, {}, {x_.demand_buffers[j], demand.box, 0}, demand.box};
    builder_.AddTask({true, x_.tensor.value(), x_.first_step, Phase::kFill, demand.device.value(),
                      static_cast<int32_t>(j)},
                     MoveTask{demand.device, x_.dtype, {fill}});
  }

  // ---- moves, collected per device and phase of a step

  void AddMove(Phase phase, DeviceId device, Move move, int32_t microbatch = 0) {
    if (move.kind == MoveKind::kCopy && move.from.buffer == move.to.buffer) return;
    moves_[{phase, device, microbatch}].push_back(std::move(move));
  }

  void FlushMoves(Phase phase) {
    for (auto it = moves_.begin(); it != moves_.end();) {
      const auto& [of_phase, device, microbatch] = it->first;
      if (of_phase != phase) {
        ++it;
        continue;
      }
      TaskKey key = Key(phase, device, device);
      if (microbatch > 0) key.to = -microbatch;
      builder_.AddTask(key, MoveTask{device, x_.dtype, std::move(it->second)});
      it = moves_.erase(it);
    }
  }

  TaskKey Key(Phase phase, DeviceId from, DeviceId to) const {
    return {true, x_.tensor.value(), step_, phase, from.value(), to.value()};
  }

  MoveKind Accumulate() const {
    return options_.exchange.reduction == Reduction::kSum ? MoveKind::kAdd : MoveKind::kMax;
  }

  // ---- shares

  // Where the share's value is (or will be, after the moves of phase kSum).
  Windows ShareWindows(const Flow& flow, const Share& share) {
    Windows windows;
    if (share.pieces.empty()) {
      const auto j = static_cast<size_t>(share.demand);
      for (size_t i = 0; i < flow.boxes.size(); ++i) {
        windows.push_back({x_.demand_buffers[j], x_.demands[j].box, 0});
      }
      return windows;
    }
    if (share.pieces.size() == 1) return PieceWindows(flow, share.pieces[0]);
    const int32_t first = share.pieces[0];
    const bool in_place = flow.boxes.size() == 1 &&
                          x_.pieces[static_cast<size_t>(first)].box == flow.boxes[0] &&
                          MayOverwrite(first);
    windows = in_place ? PieceWindows(flow, first)
                       : Packed(builder_.AddStaging(share.device, x_.dtype, VolumeOf(flow.boxes)),
                                0, flow.boxes);
    int32_t microbatch = 0;  // of the terms so far: they are added in their order
    for (size_t k = 0; k < share.pieces.size(); ++k) {
      microbatch = std::max(microbatch, MicrobatchOf(share.pieces[k]));
      const Windows from = PieceWindows(flow, share.pieces[k]);
      for (size_t i = 0; i < flow.boxes.size(); ++i) {
        AddMove(Phase::kSum, share.device,
                {k == 0 ? MoveKind::kCopy : Accumulate(), from[i], windows[i], flow.boxes[i]},
                microbatch);
      }
    }
    return windows;
  }

  int32_t MicrobatchOf(int32_t piece) const {
    return x_.piece_microbatches.empty() ? 0 : x_.piece_microbatches[static_cast<size_t>(piece)];
  }

  Windows PieceWindows(const Flow& flow, int32_t piece) const {
    const auto p = static_cast<size_t>(piece);
    return Windows(flow.boxes.size(), BufferWindow{x_.piece_buffers[p], x_.pieces[p].box, 0});
  }

  // Copies a flow's boxes to a packed place.
  void PackInto(const Flow& flow, DeviceId device, const Windows& from, BufferId staging,
                int64_t offset) {
    const Windows to = Packed(staging, offset, flow.boxes);
    for (size_t i = 0; i < flow.boxes.size(); ++i) {
      AddMove(Phase::kPack, device, {MoveKind::kCopy, from[i], to[i], flow.boxes[i]});
    }
  }

  Slice ContiguousShare(const Flow& flow, DeviceId device, const Windows& windows) {
    if (const auto slice = AsSlice(windows, flow.boxes)) return *slice;
    const int64_t volume = VolumeOf(flow.boxes);
    const BufferId staging = builder_.AddStaging(device, x_.dtype, volume);
    PackInto(flow, device, windows, staging, 0);
    return {staging, 0, volume};
  }

  // ---- demands

  BufferWindow DemandWindow(int32_t j) const {
    const auto d = static_cast<size_t>(j);
    return {x_.demand_buffers[d], x_.demands[d].box, 0};
  }

  // Brings a finished value to every demand of the device.
  void Deliver(const Flow& flow, DeviceId device, const Windows& from, Phase phase) {
    for (int32_t j : index_->DemandsAt(flow, device)) {
      const BufferId wanted = x_.demand_buffers[static_cast<size_t>(j)];
      for (size_t i = 0; i < flow.boxes.size(); ++i) {
        if (from[i].buffer == wanted) continue;
        AddMove(phase, device, {MoveKind::kCopy, from[i], DemandWindow(j), flow.boxes[i]});
      }
    }
  }

  // The demand that receives a flow first; others are copied from it.
  Windows PrimaryWindows(const Flow& flow, DeviceId device) const {
    const auto at = index_->DemandsAt(flow, device);
    CHECK(!at.empty());
    // An alias of a piece must come first: it already holds this device's share.
    int32_t best = at[0];
    for (int32_t j : at) {
      if (!buffers_of_pieces_.contains(x_.demand_buffers[static_cast<size_t>(j)])) continue;
      best = j;
      break;
    }
    return Windows(flow.boxes.size(), DemandWindow(best));
  }

  // ---- steps

  void EmitStep(const ExchangeStep& step) {
    rank_of_.clear();
    for (DeviceId device : step.group) rank_of_.try_emplace(device, rank_of_.size());
    switch (step.kind) {
      case Kind::kLocal:
        return EmitLocal(step);
      case Kind::kTransfers:
        return EmitTransfers(step);
      case Kind::kAllReduce:
      case Kind::kReduceScatter:
        return EmitReduction(step);
      case Kind::kAllGather:
        return EmitAllGather(step);
      case Kind::kAllToAll:
        return EmitAllToAll(step);
    }
  }

  void EmitLocal(const ExchangeStep& step) {
    for (const Flow& flow : step.flows) {
      const Share& share = flow.owners[0];
      Deliver(flow, share.device, ShareWindows(flow, share), Phase::kUnpack);
    }
    FlushMoves(Phase::kSum);
    FlushMoves(Phase::kUnpack);
  }

  void EmitTransfers(const ExchangeStep& step) {
    TransferTask task{x_.dtype, step.group, {}};
    struct Arrival {
      const Flow* flow;
      DeviceId to;
      Windows windows;
      bool is_own;
    };
    std::vector<Arrival> arrivals;
    for (const Flow& flow : step.flows) {
      std::vector<Windows> shares;
      for (const Share& share : flow.owners) shares.push_back(ShareWindows(flow, share));
      for (DeviceId to : flow.destinations) {
        // The device's own share is the base of its sum.
        for (size_t s = 0; s < flow.owners.size(); ++s) {
          if (flow.owners[s].device == to) arrivals.push_back({&flow, to, shares[s], true});
        }
      }
      for (size_t s = 0; s < flow.owners.size(); ++s) {
        const DeviceId from = flow.owners[s].device;
        std::optional<Slice> send;
        for (DeviceId to : flow.destinations) {
          if (to == from) continue;
          if (!send.has_value()) send = ContiguousShare(flow, from, shares[s]);
          std::optional<Slice> receive;
          Windows arrived;
          if (flow.owners.size() == 1) {
            arrived = PrimaryWindows(flow, to);
            receive = AsSlice(arrived, flow.boxes);
          }
          if (!receive.has_value()) {
            const BufferId staging = builder_.AddStaging(to, x_.dtype, send->count);
            receive = Slice{staging, 0, send->count};
            arrived = Packed(staging, 0, flow.boxes);
          }
          task.transfers.push_back({from, to, *send, *receive});
          arrivals.push_back({&flow, to, std::move(arrived), false});
        }
      }
    }
    FlushMoves(Phase::kSum);
    FlushMoves(Phase::kPack);
    AddCommunication(step, std::move(task));
    std::map<std::pair<const Flow*, DeviceId>, bool> started;
    for (const Arrival& arrival : arrivals) {
      const Flow& flow = *arrival.flow;
      if (flow.owners.size() == 1) {
        Deliver(flow, arrival.to, arrival.windows, Phase::kUnpack);
        continue;
      }
      const Windows primary = PrimaryWindows(flow, arrival.to);
      bool& has_value = started[{arrival.flow, arrival.to}];
      for (size_t i = 0; i < flow.boxes.size(); ++i) {
        AddMove(Phase::kUnpack, arrival.to,
                {has_value ? Accumulate() : MoveKind::kCopy, arrival.windows[i], primary[i],
                 flow.boxes[i]});
      }
      has_value = true;
    }
    for (const auto& [place, value] : started) {
      Deliver(*place.first, place.second, PrimaryWindows(*place.first, place.second),
              Phase::kUnpack);
    }
    FlushMoves(Phase::kUnpack);
  }

  // The shares are summed and packed; then the collective runs.
  void AddCollective(const ExchangeStep& step, Collective collective, std::vector<Slice> send,
                     std::vector<Slice> receive) {
    FlushMoves(Phase::kSum);
    FlushMoves(Phase::kPack);
    CollectiveTask task{step.group, std::move(collective), "",
                        x_.dtype,   std::move(send),       std::move(receive)};
    const auto& replicas = step.flows[0].replica_groups;
    task.has_replicas = !replicas.empty();
    task.algorithm = AlgorithmFor(task, replicas);
    AddCommunication(step, std::move(task));
  }

  void AddCommunication(const ExchangeStep& step, TaskBody body) {
    if (options_.watch != nullptr) is_given_up_ |= !(*options_.watch)(body);
    builder_.AddTask(Key(Phase::kSend, step.group.front(), step.group.back()), std::move(body));
  }

  std::string AlgorithmFor(const CollectiveTask& task,
                           std::span<const std::vector<DeviceId>> replicas) const {
    const auto choice =
        std::find_if(options_.choices.begin(), options_.choices.end(),
                     [this](const AlgorithmChoice& c) { return c.collective.step == step_; });
    const std::string chosen = choice == options_.choices.end() ? "" : choice->algorithm;
    return ChooseAlgorithm(task, replicas,
                           {chosen, options_.algorithm, options_.exchange.node_of_device});
  }

  // All-reduce and reduce-scatter: every rank contributes to every flow. Flows are laid out by
  // destination.
  void EmitReduction(const ExchangeStep& step) {
    std::vector<const Flow*> flows;
    for (const Flow& flow : step.flows) flows.push_back(&flow);
    const bool scatter = step.kind == Kind::kReduceScatter;
    if (scatter) {
      std::stable_sort(flows.begin(), flows.end(), [](const Flow* a, const Flow* b) {
        return a->destinations[0] < b->destinations[0];
      });
    }
    int64_t total = 0;
    std::vector<int64_t> blocks(step.group.size(), 0), offsets;
    for (const Flow* flow : flows) {
      offsets.push_back(total);
      const int64_t volume = VolumeOf(flow->boxes);
      total += volume;
      if (scatter) blocks[RankOf(flow->destinations[0])] += volume;
    }
    const PieceUses uses = UsesIn(step);
    std::vector<Slice> places;
    for (DeviceId device : step.group) {
      places.push_back(PlaceReduction({flows, offsets, total, uses}, device));
    }
    AddCollective(step,
                  scatter ? MakeReduceScatter(blocks, options_.exchange.reduction)
                          : MakeAllReduce(static_cast<int>(step.group.size()), total,
                                          options_.exchange.reduction),
                  places, places);
    for (size_t f = 0; f < flows.size(); ++f) {
      for (DeviceId to : flows[f]->destinations) {
        const Slice& place = places[RankOf(to)];
        Deliver(*flows[f], to, Packed(place.buffer, place.offset + offsets[f], flows[f]->boxes),
                Phase::kUnpack);
      }
    }
    FlushMoves(Phase::kUnpack);
  }

  // How often each piece is used by the flows of a step.
  using PieceUses = absl::flat_hash_map<int32_t, int>;

  // The flows of a step that sums, and where each lies in a rank's elements.
  struct ReductionPlan {
    const std::vector<const Flow*>& flows;
    const std::vector<int64_t>& offsets;
    int64_t total;
    const PieceUses& uses;
  };

  // One contiguous, overwritable slice with a device's shares of all flows.
  Slice PlaceReduction(const ReductionPlan& plan, DeviceId device) {
    const std::vector<const Flow*>& flows = plan.flows;
    Windows all;
    std::vector<Box> boxes;
    std::vector<Windows> each;
    bool reusable = true;
    for (const Flow* flow : flows) {
      const Share& share = *index_->ShareAt(*flow, device);
      each.push_back(ShareWindows(*flow, share));
      all.insert(all.end(), each.back().begin(), each.back().end());
      boxes.insert(boxes.end(), flow->boxes.begin(), flow->boxes.end());
      reusable &= share.pieces.size() > 1 || UsedOnlyThere(share.pieces[0], plan.uses);
    }
    const auto slice = AsSlice(all, boxes);
    if (reusable && slice.has_value()) return *slice;
    const BufferId staging = builder_.AddStaging(device, x_.dtype, plan.total);
    for (size_t f = 0; f < flows.size(); ++f) {
      PackInto(*flows[f], device, each[f], staging, plan.offsets[f]);
    }
    return {staging, 0, plan.total};
  }

  static PieceUses UsesIn(const ExchangeStep& step) {
    PieceUses uses;
    for (const Flow& flow : step.flows) {
      for (const Share& share : flow.owners) {
        for (int32_t piece : share.pieces) ++uses[piece];
      }
    }
    return uses;
  }

  bool UsedOnlyThere(int32_t piece, const PieceUses& uses) const {
    const auto p = static_cast<size_t>(piece);
    return !builder_.buffer(x_.piece_buffers[p]).persistent() &&
           uses.at(piece) == index_->uses(piece);
  }

  void EmitAllGather(const ExchangeStep& step) {
    std::vector<const Flow*> flows;
    for (const Flow& flow : step.flows) flows.push_back(&flow);
    std::stable_sort(flows.begin(), flows.end(), [](const Flow* a, const Flow* b) {
      return a->owners[0].device < b->owners[0].device;
    });
    int64_t total = 0;
    std::vector<int64_t> blocks(step.group.size(), 0), offsets;
    std::vector<Windows> shares;
    for (const Flow* flow : flows) {
      const int64_t volume = VolumeOf(flow->boxes);
      offsets.push_back(total);
      total += volume;
      blocks[RankOf(flow->owners[0].device)] += volume;
      shares.push_back(ShareWindows(*flow, flow->owners[0]));
    }
    std::vector<Box> boxes;
    for (const Flow* flow : flows) {
      boxes.insert(boxes.end(), flow->boxes.begin(), flow->boxes.end());
    }
    std::vector<Slice> places;
    for (DeviceId device : step.group) {
      Slice place = PlaceGather(boxes, total, device);
      for (size_t f = 0; f < flows.size(); ++f) {
        if (flows[f]->owners[0].device != device) continue;
        PackInto(*flows[f], device, shares[f], place.buffer, place.offset + offsets[f]);
      }
      places.push_back(place);
    }
    AddCollective(step, MakeAllGather(blocks), places, places);
    for (size_t f = 0; f < flows.size(); ++f) {
      for (DeviceId to : flows[f]->destinations) {
        const Slice& place = places[RankOf(to)];
        Deliver(*flows[f], to, Packed(place.buffer, place.offset + offsets[f], flows[f]->boxes),
                Phase::kUnpack);
      }
    }
    FlushMoves(Phase::kUnpack);
  }

  // The whole gathered value in a demand's buffer if it lies there in order, else in staging.
  Slice PlaceGather(const std::vector<Box>& boxes, int64_t total, DeviceId device) {
    for (int32_t j : index_->DemandsAt(device)) {
      const Demand& demand = x_.demands[static_cast<size_t>(j)];
      const bool holds_all = std::all_of(boxes.begin(), boxes.end(),
                                         [&](const Box& box) { return demand.box.Contains(box); });
      if (!holds_all) continue;
      const Windows windows(boxes.size(), DemandWindow(j));
      if (const auto slice = AsSlice(windows, boxes)) return *slice;
    }
    return {builder_.AddStaging(device, x_.dtype, total), 0, total};
  }

  void EmitAllToAll(const ExchangeStep& step) {
    const size_t n = step.group.size();
    std::vector<std::vector<int64_t>> counts(n, std::vector<int64_t>(n, 0));
    struct Block {
      size_t from, to;
      const Flow* flow;
      Windows windows;
    };
    std::vector<Block> blocks;
    for (const Flow& flow : step.flows) {
      const DeviceId owner = flow.owners[0].device;
      const Windows windows = ShareWindows(flow, flow.owners[0]);
      for (DeviceId to : flow.destinations) {
        if (to == owner) {
          Deliver(flow, to, windows, Phase::kUnpack);
          continue;
        }
        counts[RankOf(owner)][RankOf(to)] += VolumeOf(flow.boxes);
        blocks.push_back({RankOf(owner), RankOf(to), &flow, windows});
      }
    }
    const Collective collective = MakeAllToAll(counts);
    std::stable_sort(blocks.begin(), blocks.end(), [](const Block& a, const Block& b) {
      return std::pair(a.from, a.to) < std::pair(b.from, b.to);
    });
    std::vector<Slice> send, receive;
    for (size_t r = 0; r < n; ++r) {
      const int rank = static_cast<int>(r);
      const int64_t out = SendElements(collective, rank), in = ReceiveElements(collective, rank);
      send.push_back({builder_.AddStaging(step.group[r], x_.dtype, out), 0, out});
      receive.push_back({builder_.AddStaging(step.group[r], x_.dtype, in), 0, in});
    }
    // By rank: elements placed so far. Blocks come in the order of buffers on both sides.
    std::vector<int64_t> sent(n, 0), received(n, 0);
    std::vector<Windows> arrived;
    for (const Block& block : blocks) {
      PackInto(*block.flow, step.group[block.from], block.windows, send[block.from].buffer,
               sent[block.from]);
      arrived.push_back(Packed(receive[block.to].buffer, received[block.to], block.flow->boxes));
      const int64_t volume = VolumeOf(block.flow->boxes);
      sent[block.from] += volume;
      received[block.to] += volume;
    }
    AddCollective(step, collective, std::move(send), std::move(receive));
    for (size_t b = 0; b < blocks.size(); ++b) {
      Deliver(*blocks[b].flow, step.group[blocks[b].to], arrived[b], Phase::kUnpack);
    }
    FlushMoves(Phase::kUnpack);
  }

  // In the group of the step at hand; the devices of its flows are in it.
  size_t RankOf(DeviceId device) const { return rank_of_.at(device); }

  TensorExchange& x_;
  const ExchangeTaskOptions& options_;
  TaskGraphBuilder& builder_;
  std::vector<ExchangeStep> steps_;
  std::optional<FlowIndex> index_;  // index of steps_
  absl::flat_hash_set<BufferId> buffers_of_pieces_;
  absl::flat_hash_map<DeviceId, size_t> rank_of_;  // in the step at hand
  int32_t step_ = 0;
  bool is_given_up_ = false;
  // By phase, device and microbatch (see TensorExchange::piece_microbatches).
  std::map<std::tuple<Phase, DeviceId, int32_t>, std::vector<Move>> moves_;
};

}  // namespace

std::optional<int32_t> AddExchangeTasks(TensorExchange& x, const ExchangeTaskOptions& options,
                                        TaskGraphBuilder& builder) {
  return Emitter(x, options, builder).Run();
}

}  // namespace partita
