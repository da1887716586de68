// From the steps of Exchange to tasks. For each step:
//   sum    - where a device owns several terms of a region, it adds them first;
//   pack   - what leaves a device must be one contiguous slice; it is copied where it is not;
//   send   - one collective or one group of transfers;
//   unpack - what arrives is copied, or added, to every demand that wants it.
// Copies fall away where the data already lie right: a demand takes a piece's buffer when both are
// one box, and collectives run in place on such buffers.
#include "graph/partition/exchange_tasks.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "graph/partition/flow_index.h"
#include "graph/partition/pending_moves.h"
#include "graph/partition/step_communication.h"
#include "graph/partition/windows.h"
#include "graph/support/check.h"

namespace partita {
namespace {

using Kind = ExchangeStep::Kind;
using MoveKind = MoveSignature::Kind;
using Phase = TaskKey::Phase;

class Emitter {
 public:
  Emitter(TensorExchange& x, const PlannedExchange& planned, const ExchangeTaskOptions& options,
          TaskGraphBuilder& builder)
      : x_(x),
        options_(options),
        builder_(builder),
        solved_(planned.solved),
        communications_(planned.communications),
        index_(x, solved_.steps()),
        moves_(x.dtype, options.outlines) {}

  void Run() {
    if (!solved_.steps().empty()) AddToPieces();
    PlaceDemands();
    FindAliases();
    step_ = x_.first_step;
    for (const ExchangeStep& step : solved_.steps()) {
      EmitStep(step);
      ++step_;
    }
  }

 private:
  // ---- which buffer each demand gets

  // The piece whose buffer demand j can take: same box and device, and the only flow that reaches
  // the demand, but for those that are added to it, is exactly that box with that piece leading this
  // device's share (or the piece is the whole value).
  std::optional<int32_t> AliasOf(size_t j) const {
    const Demand& demand = x_.demands[j];
    const auto flows = index_.FlowsOf(j);
    if (flows.empty()) return std::nullopt;
    const Flow& flow = *flows[0];
    const auto added = flows.subspan(1);
    if (!std::ranges::all_of(added, &Flow::adds)) return std::nullopt;
    if (flow.boxes.size() != 1 || flow.boxes[0] != demand.box) return std::nullopt;
    const Share* share = index_.ShareAt(flow, demand.device);
    if (share == nullptr || share->pieces.empty()) return std::nullopt;
    const int32_t piece = share->pieces[0];
    if (x_.pieces[static_cast<size_t>(piece)].box != demand.box) return std::nullopt;
    const bool changes = flow.owners.size() > 1 || share->pieces.size() > 1 || !added.empty();
    if (changes && !MayOverwrite(piece)) return std::nullopt;
    return piece;
  }

  // A piece's own value is needed by one flow only, so its buffer may become that flow's sum.
  bool MayOverwrite(int32_t piece) const {
    const auto p = static_cast<size_t>(piece);
    return index_.uses(piece) == 1 && !builder_.buffer(x_.piece_buffers[p]).persistent();
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

  void FindAliases() {
    const absl::flat_hash_set<BufferId> of_pieces(x_.piece_buffers.begin(), x_.piece_buffers.end());
    is_alias_.reserve(x_.demands.size());
    for (BufferId id : x_.demand_buffers) is_alias_.push_back(of_pieces.contains(id));
  }

  // Elements that no term covers are zero: those that no flow brings; and those to which all that come
  // are added. The boxes of other flows to one demand are disjoint and inside it.
  void FillIfUncovered(size_t j) {
    const Demand& demand = x_.demands[j];
    int64_t covered = 0;
    for (const Flow* flow : index_.FlowsOf(j)) {
      if (!flow->adds) covered += VolumeOf(flow->boxes);
    }
    if (covered == demand.box.volume()) return;
    Move fill{MoveKind::kFill, {}, {x_.demand_buffers[j], demand.box, 0}, demand.box};
    builder_.AddTask({true, x_.tensor.value(), x_.first_step, Phase::kFill, demand.device.value(),
                      static_cast<int32_t>(j)},
                     MoveTask{demand.device, x_.dtype, {fill}});
  }

  // ---- moves

  void FlushMoves(Phase phase) { moves_.Flush(Key(phase, DeviceId(0), DeviceId(0)), builder_); }

  TaskKey Key(Phase phase, DeviceId from, DeviceId to) const {
    return {true, x_.tensor.value(), step_, phase, from.value(), to.value()};
  }

  MoveKind Accumulate() const {
    return options_.exchange.reduction == Reduction::kSum ? MoveKind::kAdd : MoveKind::kMax;
  }

  // ---- terms of pieces

  // Adds further terms to their pieces, in place where these are not kept. Apart from the sums of steps,
  // so that devices that communicate alike have like tasks.
  void AddToPieces() {
    step_ = x_.first_step - 1;
    for (size_t k = 0; k < x_.added.size(); ++k) {
      const TensorExchange::AddedTerm& term = x_.added[k];
      const auto p = static_cast<size_t>(term.piece);
      const Piece& piece = x_.pieces[p];
      KeepPiece(term.piece);
      // Of all terms so far.
      const int32_t microbatch = std::max(x_.MicrobatchOf(term.piece), term.microbatch);
      if (!x_.piece_microbatches.empty()) x_.piece_microbatches[p] = microbatch;
      moves_.Add({Phase::kSum, piece.device, microbatch}, Accumulate(),
                 {FlowPlace::Within(x_.piece_buffers[x_.pieces.size() + k], piece.box),
                  PiecePlace(term.piece)},
                 std::span(&piece.box, 1));
    }
    FlushMoves(Phase::kSum);
  }

  // Copies a piece, if it is kept, into a buffer that may be overwritten.
  void KeepPiece(int32_t number) {
    const auto p = static_cast<size_t>(number);
    if (!builder_.buffer(x_.piece_buffers[p]).persistent()) return;
    const Piece& piece = x_.pieces[p];
    const FlowPlace kept = PiecePlace(number);
    x_.piece_buffers[p] = builder_.AddBuffer({.device = piece.device,
                                              .kind = BufferKind::kActivation,
                                              .tensor = x_.tensor,
                                              .dtype = x_.dtype,
                                              .box = piece.box});
    moves_.Add({Phase::kSum, piece.device, x_.MicrobatchOf(number)}, MoveKind::kCopy,
               {kept, PiecePlace(number)}, std::span(&piece.box, 1));
  }

  // ---- shares

  // Where the share's value is (or will be, after the moves of phase kSum). `stage`: makes room for so
  // many elements, packed, where terms have to be added elsewhere.
  template <class Stage>
  FlowPlace PlaceOf(const Flow& flow, const Share& share, Stage&& stage) {
    if (share.pieces.empty()) return DemandPlace(share.demand);
    const FlowPlace first = PiecePlace(share.pieces[0]);
    if (share.pieces.size() == 1) return first;
    if (AddsInPlace(flow, share)) {
      AddTerms(flow, share, first);
      return first;
    }
    const Slice slice = stage(VolumeOf(flow.boxes));
    const FlowPlace sum = FlowPlace::Packed(slice.buffer, slice.offset);
    AddTerms(flow, share, sum);
    return sum;
  }
  // The same, in a buffer of its own.
  FlowPlace PlaceOf(const Flow& flow, const Share& share) {
    return PlaceOf(flow, share, [&](int64_t elements) {
      return Slice{builder_.AddStaging(share.device, x_.dtype, elements), 0, elements};
    });
  }

  bool AddsInPlace(const Flow& flow, const Share& share) const {
    const int32_t first = share.pieces[0];
    return flow.boxes.size() == 1 && x_.pieces[static_cast<size_t>(first)].box == flow.boxes[0] &&
           MayOverwrite(first);
  }

  // Adds the terms of a share in their order.
  void AddTerms(const Flow& flow, const Share& share, const FlowPlace& sum) {
    int32_t microbatch = 0;  // of the terms so far
    for (size_t k = 0; k < share.pieces.size(); ++k) {
      microbatch = std::max(microbatch, x_.MicrobatchOf(share.pieces[k]));
      moves_.Add({Phase::kSum, share.device, microbatch}, k == 0 ? MoveKind::kCopy : Accumulate(),
                 {PiecePlace(share.pieces[k]), sum}, flow.boxes);
    }
  }

  FlowPlace PiecePlace(int32_t piece) const {
    const auto p = static_cast<size_t>(piece);
    return FlowPlace::Within(x_.piece_buffers[p], x_.pieces[p].box);
  }

  // Copies a flow's boxes to a packed place.
  void PackInto(const Flow& flow, DeviceId device, const FlowPlace& from, const Slice& to) {
    moves_.Add({Phase::kPack, device}, MoveKind::kCopy,
               {from, FlowPlace::Packed(to.buffer, to.offset)}, flow.boxes);
  }

  // Brings a share to a packed place: its one piece, or the sum of its terms.
  void PackShare(const Flow& flow, const Share& share, const Slice& to) {
    if (share.pieces.size() > 1) {
      return AddTerms(flow, share, FlowPlace::Packed(to.buffer, to.offset));
    }
    PackInto(flow, share.device, PlaceOf(flow, share), to);
  }

  // The staging buffers of the devices for the transfers of one step, in one direction; indexed by
  // DeviceId.
  using StagingBuffers = std::vector<BufferId>;

  Slice TakeStaging(DeviceId device, int64_t elements, StagingBuffers& buffers) {
    BufferId& buffer = buffers[device.index()];
    if (buffer != kNoBuffer) return builder_.ExtendStaging(buffer, elements);
    buffer = builder_.AddStaging(device, x_.dtype, elements);
    return {buffer, 0, elements};
  }

  Slice ContiguousShare(const Flow& flow, DeviceId device, const FlowPlace& place,
                        StagingBuffers& packed) {
    if (const auto slice = place.AsSlice(flow.boxes)) return *slice;
    const Slice staging = TakeStaging(device, VolumeOf(flow.boxes), packed);
    PackInto(flow, device, place, staging);
    return staging;
  }

  // ---- demands

  FlowPlace DemandPlace(int32_t j) const {
    const auto d = static_cast<size_t>(j);
    return FlowPlace::Within(x_.demand_buffers[d], x_.demands[d].box);
  }

  // Brings a value, finished or to be added, to every demand of the device.
  void Deliver(const Flow& flow, DeviceId device, const FlowPlace& from) {
    const MoveKind kind = flow.adds ? Accumulate() : MoveKind::kCopy;
    index_.ForEachDemandAt(flow, device, [&](int32_t j) {
      moves_.Add({Phase::kUnpack, device}, kind, {from, DemandPlace(j)}, flow.boxes);
    });
  }

  // The demand that receives a flow first; others are copied from it.
  FlowPlace PrimaryPlace(const Flow& flow, DeviceId device) const {
    int32_t first = -1, alias = -1;
    index_.ForEachDemandAt(flow, device, [&](int32_t j) {
      if (first < 0) first = j;
      if (alias < 0 && is_alias_[static_cast<size_t>(j)]) alias = j;
    });
    CHECK_GE(first, 0);
    // An alias of a piece must come first: it already holds this device's share.
    return DemandPlace(alias < 0 ? first : alias);
  }

  // ---- steps

  void EmitStep(const ExchangeStep& step) {
    StepCommunication& plan = communications_[static_cast<size_t>(step_ - x_.first_step)];
    switch (step.kind) {
      case Kind::kLocal:
        return EmitLocal(step);
      case Kind::kTransfers:
        return EmitTransfers(step, std::get<TransferTask>(*std::move(plan.task)));
      case Kind::kAllReduce:
      case Kind::kReduceScatter:
        return EmitReduction(step, plan);
      case Kind::kAllGather:
        return EmitAllGather(step, plan);
      case Kind::kAllToAll:
        return EmitAllToAll(step, plan);
    }
  }

  void EmitLocal(const ExchangeStep& step) {
    for (const Flow& flow : step.flows) {
      const Share& share = flow.owners[0];
      Deliver(flow, share.device, PlaceOf(flow, share));
    }
    FlushMoves(Phase::kSum);
    FlushMoves(Phase::kUnpack);
  }

  // What a device gets of a flow, its own share included.
  struct Arrival {
    const Flow* flow;
    DeviceId to;
    FlowPlace place;
  };

  void EmitTransfers(const ExchangeStep& step, TransferTask task) {
    StagingBuffers packed(step.group.back().index() + 1, kNoBuffer), received = packed;
    const auto place_of = [&](const Flow& flow, const Share& share) {
      return PlaceOf(flow, share,
                     [&](int64_t elements) { return TakeStaging(share.device, elements, packed); });
    };
    std::vector<Arrival> arrivals;
    arrivals.reserve(task.transfers.size());
    auto transfer = task.transfers.begin();
    for (const Flow& flow : step.flows) {
      if (flow.owners.size() == 1 && flow.destinations.size() == 1) {
        const DeviceId from = flow.owners[0].device, to = flow.destinations[0];
        transfer->send = ContiguousShare(flow, from, place_of(flow, flow.owners[0]), packed);
        arrivals.push_back({&flow, to, ReceiveTransfer(flow, *transfer++, received)});
        continue;
      }
      absl::InlinedVector<FlowPlace, 2> shares;
      for (const Share& share : flow.owners) shares.push_back(place_of(flow, share));
      for (DeviceId to : flow.destinations) {
        // The device's own share is the base of its sum.
        for (size_t s = 0; s < flow.owners.size(); ++s) {
          if (flow.owners[s].device == to) arrivals.push_back({&flow, to, shares[s]});
        }
      }
      for (size_t s = 0; s < flow.owners.size(); ++s) {
        const DeviceId from = flow.owners[s].device;
        std::optional<Slice> send;
        for (DeviceId to : flow.destinations) {
          if (to == from) continue;
          if (!send.has_value()) send = ContiguousShare(flow, from, shares[s], packed);
          transfer->send = *send;
          arrivals.push_back({&flow, to, ReceiveTransfer(flow, *transfer++, received)});
        }
      }
    }
    FlushMoves(Phase::kSum);
    FlushMoves(Phase::kPack);
    builder_.AddTask(Key(Phase::kSend, step.group.front(), step.group.back()), std::move(task));
    Unpack(arrivals);
    FlushMoves(Phase::kUnpack);
  }

  // Chooses where a transfer arrives: in a demand if that lies there as one slice and is not summed,
  // else in staging.
  FlowPlace ReceiveTransfer(const Flow& flow, Transfer& transfer, StagingBuffers& received) {
    if (flow.owners.size() == 1 && !flow.adds) {
      const FlowPlace arrived = PrimaryPlace(flow, transfer.to);
      if (const auto slice = arrived.AsSlice(flow.boxes)) {
        transfer.receive = *slice;
        return arrived;
      }
    }
    transfer.receive = TakeStaging(transfer.to, transfer.send.count, received);
    return FlowPlace::Packed(transfer.receive.buffer, transfer.receive.offset);
  }

  // Sums what arrived, and brings it to all demands. Arrivals of a flow are neighbours.
  void Unpack(const std::vector<Arrival>& arrivals) {
    std::vector<std::pair<const Flow*, DeviceId>> started;
    size_t first = 0;  // in `started`, of the flow at hand
    for (const Arrival& arrival : arrivals) {
      const Flow& flow = *arrival.flow;
      if (flow.owners.size() == 1) {
        Deliver(flow, arrival.to, arrival.place);
        continue;
      }
      if (first < started.size() && started[first].first != &flow) first = started.size();
      const auto place = std::pair(&flow, arrival.to);
      const bool has_value = std::find(started.begin() + static_cast<std::ptrdiff_t>(first),
                                       started.end(), place) != started.end();
      if (!has_value) started.push_back(place);
      moves_.Add({Phase::kUnpack, arrival.to}, has_value ? Accumulate() : MoveKind::kCopy,
                 {arrival.place, PrimaryPlace(flow, arrival.to)}, flow.boxes);
    }
    std::sort(started.begin(), started.end());
    for (const auto& [flow, to] : started) Deliver(*flow, to, PrimaryPlace(*flow, to));
  }

  // The shares are summed and packed; then the collective runs.
  void AddCollective(const ExchangeStep& step, StepCommunication& plan, std::vector<Slice> send,
                     std::vector<Slice> receive) {
    FlushMoves(Phase::kSum);
    FlushMoves(Phase::kPack);
    CollectiveTask task = std::get<CollectiveTask>(*std::move(plan.task));
    task.send = std::move(send);
    task.receive = std::move(receive);
    builder_.AddTask(Key(Phase::kSend, step.group.front(), step.group.back()), std::move(task));
  }

  // Brings a rank's elements to the demands of its flows.
  void DeliverAll(const ExchangeStep& step, const StepCommunication& plan,
                  const std::vector<Slice>& places) {
    const GroupRanks ranks(step.group);
    for (size_t f = 0; f < plan.flows.size(); ++f) {
      const Flow& flow = *plan.flows[f];
      for (DeviceId to : flow.destinations) {
        const Slice& place = places[ranks.Of(to)];
        Deliver(flow, to, FlowPlace::Packed(place.buffer, place.offset + plan.offsets[f]));
      }
    }
    FlushMoves(Phase::kUnpack);
  }

  // All-reduce and reduce-scatter: every rank contributes to every flow.
  void EmitReduction(const ExchangeStep& step, StepCommunication& plan) {
    const PieceUses uses = UsesIn(step);
    std::vector<Slice> places;
    for (DeviceId device : step.group) places.push_back(PlaceReduction(plan, uses, device));
    AddCollective(step, plan, places, places);
    DeliverAll(step, plan, places);
  }

  // How often each piece is used by the flows of a step.
  using PieceUses = absl::flat_hash_map<int32_t, int>;

  // One contiguous, overwritable slice with a device's shares of all flows.
  Slice PlaceReduction(const StepCommunication& plan, const PieceUses& uses, DeviceId device) {
    const auto slice = ReusableSlice(plan, uses, device);
    const Slice place =
        slice.value_or(Slice{builder_.AddStaging(device, x_.dtype, plan.total), 0, plan.total});
    for (size_t f = 0; f < plan.flows.size(); ++f) {
      const Flow& flow = *plan.flows[f];
      const Share& share = *index_.ShareAt(flow, device);
      if (!slice.has_value()) {
        PackShare(flow, share, {place.buffer, plan.offsets[f], 0});
      } else if (share.pieces.size() > 1) {
        AddTerms(flow, share, PiecePlace(share.pieces[0]));
      }
    }
    return place;
  }

  // Where a device's pieces hold its shares in this order, if that is one slice and may be overwritten.
  std::optional<Slice> ReusableSlice(const StepCommunication& plan, const PieceUses& uses,
                                     DeviceId device) const {
    SliceJoiner joiner;
    for (const Flow* flow : plan.flows) {
      const Share& share = *index_.ShareAt(*flow, device);
      const bool is_reusable = share.pieces.size() > 1 ? AddsInPlace(*flow, share)
                                                       : UsedOnlyThere(share.pieces[0], uses);
      if (!is_reusable) return std::nullopt;
      joiner.Add(PiecePlace(share.pieces[0]), flow->boxes);
    }
    return joiner.slice();
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
           uses.at(piece) == index_.uses(piece);
  }

  void EmitAllGather(const ExchangeStep& step, StepCommunication& plan) {
    std::vector<Slice> places;
    size_t f = 0;  // flows are laid out by owner, as ranks are
    for (DeviceId device : step.group) {
      const Slice place = PlaceGather(plan, device);
      for (; f < plan.flows.size() && plan.flows[f]->owners[0].device == device; ++f) {
        PackShare(*plan.flows[f], plan.flows[f]->owners[0],
                  {place.buffer, place.offset + plan.offsets[f], 0});
      }
      places.push_back(place);
    }
    AddCollective(step, plan, places, places);
    DeliverAll(step, plan, places);
  }

  // The whole gathered value in a demand's buffer if it lies there in order, else in staging.
  Slice PlaceGather(const StepCommunication& plan, DeviceId device) {
    for (int32_t j : index_.DemandsAt(device)) {
      const Demand& demand = x_.demands[static_cast<size_t>(j)];
      const bool holds_all =
          std::all_of(plan.flows.begin(), plan.flows.end(), [&](const Flow* flow) {
            return std::all_of(flow->boxes.begin(), flow->boxes.end(),
                               [&](const Box& box) { return demand.box.Contains(box); });
          });
      if (!holds_all) continue;
      SliceJoiner joiner;
      for (const Flow* flow : plan.flows) {
        joiner.Add(DemandPlace(j), flow->boxes);
      }
      if (const auto slice = joiner.slice()) return *slice;
    }
    return {builder_.AddStaging(device, x_.dtype, plan.total), 0, plan.total};
  }

  // A flow from rank to rank, which the sender has there.
  struct Block {
    size_t from, to;
    const Flow* flow;
    FlowPlace place;
  };

  void EmitAllToAll(const ExchangeStep& step, StepCommunication& plan) {
    const Collective& collective = std::get<CollectiveTask>(*plan.task).collective;
    std::vector<Block> blocks = BlocksOf(step);
    std::vector<Slice> send, receive;
    for (size_t r = 0; r < step.group.size(); ++r) {
      const int rank = static_cast<int>(r);
      const int64_t out = SendElements(collective, rank), in = ReceiveElements(collective, rank);
      send.push_back({builder_.AddStaging(step.group[r], x_.dtype, out), 0, out});
      receive.push_back({builder_.AddStaging(step.group[r], x_.dtype, in), 0, in});
    }
    // By rank: elements placed so far. Blocks come in the order of buffers on both sides.
    std::vector<int64_t> sent(step.group.size(), 0), received(step.group.size(), 0);
    for (Block& block : blocks) {
      PackInto(*block.flow, step.group[block.from], block.place,
               {send[block.from].buffer, sent[block.from], 0});
      block.place = FlowPlace::Packed(receive[block.to].buffer, received[block.to]);
      const int64_t volume = VolumeOf(block.flow->boxes);
      sent[block.from] += volume;
      received[block.to] += volume;
    }
    AddCollective(step, plan, std::move(send), std::move(receive));
    for (const Block& block : blocks) {
      Deliver(*block.flow, step.group[block.to], block.place);
    }
    FlushMoves(Phase::kUnpack);
  }

  // The flows of an all-to-all by sender and receiver; what stays where it is goes to its demands.
  std::vector<Block> BlocksOf(const ExchangeStep& step) {
    const GroupRanks ranks(step.group);
    std::vector<Block> blocks;
    blocks.reserve(step.flows.size());
    for (const Flow& flow : step.flows) {
      const DeviceId owner = flow.owners[0].device;
      const FlowPlace place = PlaceOf(flow, flow.owners[0]);
      for (DeviceId to : flow.destinations) {
        if (to == owner) {
          Deliver(flow, to, place);
        } else {
          blocks.push_back({ranks.Of(owner), ranks.Of(to), &flow, place});
        }
      }
    }
    SortByPair(step.group.size(), blocks);
    return blocks;
  }

  // Sorts by sender, then by receiver, of so many ranks; those of a pair stay in their order.
  static void SortByPair(size_t ranks, std::vector<Block>& blocks) {
    const auto pair_of = [ranks](const Block& block) { return block.from * ranks + block.to; };
    std::vector<size_t> begin(ranks * ranks + 1, 0);
    for (const Block& block : blocks) ++begin[pair_of(block) + 1];
    std::partial_sum(begin.begin(), begin.end(), begin.begin());
    std::vector<const Block*> sorted(blocks.size());
    for (const Block& block : blocks) sorted[begin[pair_of(block)]++] = &block;
    std::vector<Block> all;
    all.reserve(blocks.size());
    for (const Block* block : sorted) all.push_back(*block);
    blocks = std::move(all);
  }

  TensorExchange& x_;
  const ExchangeTaskOptions& options_;
  TaskGraphBuilder& builder_;
  const SolvedExchange& solved_;
  std::vector<StepCommunication>& communications_;  // indexed by step
  const FlowIndex index_;                           // index of solved_
  std::vector<bool> is_alias_;  // indexed by demand: whether it has the buffer of a piece
  int32_t step_ = 0;
  PendingMoves moves_;
};

}  // namespace

void AddExchangeTasks(TensorExchange& x, const PlannedExchange& planned,
                      const ExchangeTaskOptions& options, TaskGraphBuilder& builder) {
  Emitter(x, planned, options, builder).Run();
}

}  // namespace partita
