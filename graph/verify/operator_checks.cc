#include "graph/verify/operator_checks.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/support/fingerprint.h"
#include "graph/support/status_macros.h"
#include "graph/verify/expected_parts.h"

namespace partita {
namespace {

// The code of one term: of a block of an operator, or of a value that comes from outside.
uint64_t CodeOf(OpId op, int64_t block) {
  return Mix64(Mix64(static_cast<uint64_t>(op.value()) * 2 + 1) + static_cast<uint64_t>(block));
}
uint64_t CodeOf(TensorId tensor) { return Mix64(static_cast<uint64_t>(tensor.value()) * 2); }

bool ComesFromOutside(TensorKind kind) {
  return kind != TensorKind::kActivation && kind != TensorKind::kNext;
}

std::vector<PlacedBox> Sorted(std::vector<PlacedBox> layout) {
  std::sort(layout.begin(), layout.end(), [](const PlacedBox& a, const PlacedBox& b) {
    return a.device == b.device ? a.box < b.box : a.device < b.device;
  });
  return layout;
}

class OperatorChecker {
 public:
  OperatorChecker(const Graph& graph, const Strategy& strategy, const TaskGraph& tasks)
      : graph_(graph), strategy_(strategy), tasks_(tasks) {}

  absl::StatusOr<CheckedOperators> Run() {
    parts_.resize(graph_.ops().size());
    update_pieces_.resize(graph_.ops().size());
    for (const Operator& op : graph_.ops()) {
      if (op.anchor == kNoOp) continue;
      ASSIGN_OR_RETURN(parts_[op.id.index()],
                       ExpectedParts(graph_, op, strategy_.configs[op.anchor.index()]));
    }
    result_.terms.resize(tasks_.tasks().size());
    for (const Task& task : tasks_.tasks()) {
      const auto* compute = std::get_if<ComputeTask>(&task.body);
      if (compute == nullptr) continue;
      const absl::Status status = CheckCompute(task, *compute);
      if (!status.ok()) {
        return absl::InternalError(absl::StrCat("task ", task.id.value(), ", part ", compute->part,
                                                " of operator '", graph_.op(compute->op).name,
                                                "': ", status.message()));
      }
    }
    RETURN_IF_ERROR(CheckAllPartsRun());
    RETURN_IF_ERROR(CheckWeights());
    CutGrids();
    AddValues();
    RETURN_IF_ERROR(CheckFusions());
    return std::move(result_);
  }

 private:
  // ---- compute tasks

  static absl::Status CheckViews(const std::vector<TensorView>& views,
                                 const std::vector<BufferId>& buffers,
                                 const std::vector<Box>& boxes, absl::string_view what) {
    for (size_t k = 0; k < views.size(); ++k) {
      const bool wanted = views[k].present && !views[k].box.empty();
      if (wanted != (buffers[k] != kNoBuffer)) {
        return absl::InternalError(
            absl::StrCat(what, " ", k, wanted ? " is missing" : " should not be there"));
      }
      if (wanted && boxes[k] != views[k].box) {
        return absl::InternalError(absl::StrCat(what, " ", k, " is ", ToString(boxes[k]),
                                                "; its rule says ", ToString(views[k].box)));
      }
    }
    return absl::OkStatus();
  }

  // One of the operators that a task does, and the kernel's tensors that it reads and writes.
  struct Stage {
    const Operator& op;
    Wiring wiring;
    uint64_t code = 0;
  };
  struct Pieces {
    std::vector<BufferId> buffers;
    std::vector<Box> boxes;
  };

  std::vector<Stage> StagesOfTask(const ComputeTask& body, const KernelSignature& signature) const {
    const std::vector<KernelStage> kernels = StagesOf(signature);
    std::vector<Stage> stages;
    for (size_t s = 0; s <= body.before.size(); ++s) {
      const OpId id = s < body.before.size() ? body.before[s] : body.op;
      stages.push_back({graph_.op(id), kernels[s].wiring});
    }
    return stages;
  }

  // What a stage reads or writes. Tensors that are not stored are the boxes that the operator wants
  // first and have to be those of the other one that sees them.
  static Pieces PiecesAt(const ComputeTask& body, const std::vector<TensorPlace>& places,
                         const std::vector<TensorView>& views,
                         std::map<TensorPlace, Box>& not_stored) {
    Pieces pieces;
    for (size_t k = 0; k < places.size(); ++k) {
      const auto index = static_cast<size_t>(places[k].index);
      switch (places[k].list) {
        case TensorPlace::List::kInput:
          pieces.buffers.push_back(body.inputs[index]);
          pieces.boxes.push_back(body.input_boxes[index]);
          break;
        case TensorPlace::List::kOutput:
          pieces.buffers.push_back(body.outputs[index]);
          pieces.boxes.push_back(body.output_boxes[index]);
          break;
        case TensorPlace::List::kInner:
          pieces.buffers.push_back(BufferId(0));
          pieces.boxes.push_back(not_stored.try_emplace(places[k], views[k].box).first->second);
          break;
      }
    }
    return pieces;
  }

  static absl::Status CheckStage(const ComputeTask& body, const Wiring& wiring,
                                 const PartView& view, std::map<TensorPlace, Box>& not_stored) {
    const Pieces inputs = PiecesAt(body, wiring.inputs, view.operands, not_stored);
    RETURN_IF_ERROR(CheckViews(view.operands, inputs.buffers, inputs.boxes, "input"));
    const Pieces outputs = PiecesAt(body, wiring.outputs, view.results, not_stored);
    return CheckViews(view.results, outputs.buffers, outputs.boxes, "output");
  }

  absl::Status CheckCompute(const Task& task, const ComputeTask& body) {
    const KernelSignature& signature = tasks_.signatures()[static_cast<size_t>(body.signature)];
    std::vector<Stage> stages = StagesOfTask(body, signature);
    std::map<TensorPlace, Box> not_stored;
    Stage& last = stages.back();
    RETURN_IF_ERROR(last.op.anchor == kNoOp ? CheckUpdate(body, last, not_stored)
                                            : CheckPart(body, last, not_stored));
    for (size_t s = stages.size() - 1; s-- > 0;) {
      RETURN_IF_ERROR(CheckFused(body, stages[s], not_stored));
    }
    ComputeTerm& term = result_.terms[task.id.index()];
    term.inputs.resize(body.inputs.size(), kNoTensor);
    term.outputs.resize(body.outputs.size());
    std::map<TensorPlace, ComputeTerm::Output> written;
    const auto box_at = [&](TensorPlace place) {
      return place.list == TensorPlace::List::kInner
                 ? not_stored[place]
                 : body.output_boxes[static_cast<size_t>(place.index)];
    };
    for (const Stage& stage : stages) {
      for (TensorPlace place : stage.wiring.inputs) {
        if (place.list == TensorPlace::List::kInput) continue;
        fused_.push_back({task.id, written[place].tensor, box_at(place), written[place].code});
      }
      RETURN_IF_ERROR(FollowStage(stage, term, written));
    }
    for (const auto& [place, output] : written) {
      if (place.list != TensorPlace::List::kOutput) continue;
      term.outputs[static_cast<size_t>(place.index)] = output;
    }
    if (signature.fusion.rest.size() == body.before.size()) return absl::OkStatus();
    const TensorPlace result = signature.fusion.rest.back().wiring.outputs[0];
    return TakeOverEpilogue(task, body, static_cast<size_t>(result.index));
  }

  // The part of the strategy that the task says it is.
  absl::Status CheckPart(const ComputeTask& body, Stage& stage,
                         std::map<TensorPlace, Box>& not_stored) {
    const Operator& op = stage.op;
    const ParallelConfig& config = strategy_.configs[op.anchor.index()];
    if (body.part < 0 || static_cast<size_t>(body.part) >= config.devices.size() ||
        config.devices[static_cast<size_t>(body.part)] != body.device) {
      return absl::InternalError("the strategy has no such part on this device");
    }
    const int64_t block = BlockOfPart(graph_, op, config, body.part);
    const ExpectedPart& part = parts_[op.id.index()][static_cast<size_t>(block)];
    RETURN_IF_ERROR(CheckStage(body, stage.wiring, part.view, not_stored));
    stage.code = CodeOf(op.id, block);
    return Ran(op, block, body.device);
  }

  absl::Status CheckUpdate(const ComputeTask& body, Stage& stage,
                           std::map<TensorPlace, Box>& not_stored) {
    const Operator& op = stage.op;
    const ShardingRule& rule = graph_.rule(op.id);
    const Box& piece = body.output_boxes[0];
    if (piece.rank() != static_cast<int>(rule.loops.size())) {
      return absl::InternalError("its piece has another rank than its loops");
    }
    std::vector<Interval> blocks;
    for (int d = 0; d < piece.rank(); ++d) blocks.push_back(piece[d]);
    ASSIGN_OR_RETURN(const PartView view, ViewPart(rule, graph_.InputShapes(op),
                                                   graph_.OutputShapes(op), std::move(blocks)));
    RETURN_IF_ERROR(CheckStage(body, stage.wiring, view, not_stored));
    update_pieces_[op.id.index()].push_back({piece, body.device});
    stage.code = CodeOf(op.id, 0);
    return absl::OkStatus();
  }

  // An operator that is done before the task's own: some block of it that is placed here.
  absl::Status CheckFused(const ComputeTask& body, Stage& stage,
                          std::map<TensorPlace, Box>& not_stored) {
    const std::vector<ExpectedPart>& parts = parts_[stage.op.id.index()];
    for (size_t b = 0; b < parts.size(); ++b) {
      const ExpectedPart& part = parts[b];
      if (!std::binary_search(part.devices.begin(), part.devices.end(), body.device) ||
          !CheckStage(body, stage.wiring, part.view, not_stored).ok()) {
        continue;
      }
      const auto block = static_cast<int64_t>(b);
      stage.code = CodeOf(stage.op.id, block);
      return Ran(stage.op, block, body.device);
    }
    return absl::InternalError(absl::StrCat("fused with operator '", stage.op.name,
                                            "', which the strategy does not place here"));
  }

  // Follows values from the stages that write them to those that read them.
  absl::Status FollowStage(const Stage& stage, ComputeTerm& term,
                           std::map<TensorPlace, ComputeTerm::Output>& written) const {
    for (size_t k = 0; k < stage.wiring.inputs.size(); ++k) {
      const TensorPlace place = stage.wiring.inputs[k];
      const TensorId wanted = stage.op.inputs[k];
      TensorId found = wanted;
      if (place.list == TensorPlace::List::kInput) {
        TensorId& input = term.inputs[static_cast<size_t>(place.index)];
        if (input != kNoTensor) found = input;
        input = wanted;
      } else {
        found = written[place].tensor;
      }
      if (found != wanted) {
        return absl::InternalError(absl::StrCat("operator '", stage.op.name, "' reads tensor '",
                                                graph_.tensor(found).name, "' as '",
                                                graph_.tensor(wanted).name, "'"));
      }
    }
    for (size_t k = 0; k < stage.wiring.outputs.size(); ++k) {
      written[stage.wiring.outputs[k]] = {stage.op.outputs[k], stage.code};
    }
    return absl::OkStatus();
  }

  absl::Status Ran(const Operator& op, int64_t block, DeviceId device) {
    if (ran_.emplace(op.id, block, device).second) return absl::OkStatus();
    return absl::InternalError(absl::StrCat("a second task on device ", device.value(),
                                            " computes the same block of '", op.name, "'"));
  }

  // The task also does what a block of the epilogue that reads its output `k` would.
  absl::Status TakeOverEpilogue(const Task& task, const ComputeTask& body, size_t k) {
    ComputeTerm::Output& output = result_.terms[task.id.index()].outputs[k];
    for (OpId id : graph_.consumers(output.tensor)) {
      const Operator& epilogue = graph_.op(id);
      if (!IsEpilogue(epilogue.attrs) || !epilogue.pass.is_forward() ||
          epilogue.outputs[0] != tasks_.buffer(body.outputs[k]).tensor) {
        continue;
      }
      const std::vector<ExpectedPart>& parts = parts_[id.index()];
      for (size_t b = 0; b < parts.size(); ++b) {
        const ExpectedPart& part = parts[b];
        if (part.view.results[0].box != body.output_boxes[k] ||
            !std::binary_search(part.devices.begin(), part.devices.end(), body.device)) {
          continue;
        }
        const auto block = static_cast<int64_t>(b);
        fused_.push_back({task.id, output.tensor, body.output_boxes[k], output.code});
        output = {epilogue.outputs[0], CodeOf(id, block)};
        return Ran(epilogue, block, body.device);
      }
    }
    return absl::InternalError("fused with an epilogue that the strategy does not place here");
  }

  absl::Status CheckAllPartsRun() const {
    for (const Operator& op : graph_.ops()) {
      const std::vector<ExpectedPart>& parts = parts_[op.id.index()];
      for (size_t block = 0; block < parts.size(); ++block) {
        for (DeviceId device : parts[block].devices) {
          if (ran_.contains({op.id, static_cast<int64_t>(block), device})) continue;
          return absl::InternalError(absl::StrCat("operator '", op.name,
                                                  "': no task computes block ", block,
                                                  " on device ", device.value()));
        }
      }
    }
    return absl::OkStatus();
  }

  // ---- weights

  absl::Status CheckCovers(const Tensor& tensor, const std::vector<PlacedBox>& layout,
                           absl::string_view what) const {
    std::vector<Box> boxes;
    for (const PlacedBox& piece : layout) boxes.push_back(piece.box);
    const std::vector<Box> missing = Uncovered(Box::Full(tensor.type.shape), boxes);
    if (missing.empty()) return absl::OkStatus();
    return absl::InternalError(
        absl::StrCat("weight '", tensor.name, "': ", what, " lack ", ToString(missing[0])));
  }

  absl::Status CheckIs(const Tensor& tensor, const std::vector<PlacedBox>& found,
                       const std::vector<PlacedBox>& wanted, absl::string_view what) const {
    if (Sorted(found) == Sorted(wanted)) return absl::OkStatus();
    return absl::InternalError(
        absl::StrCat("weight '", tensor.name, "': ", what, " are not those of its layout"));
  }

  absl::Status CheckWeights() const {
    std::vector<std::vector<PlacedBox>> kept(graph_.tensors().size());  // persistent buffers
    for (const Buffer& buffer : tasks_.buffers()) {
      if (buffer.persistent()) kept[buffer.tensor.index()].push_back({buffer.box, buffer.device});
    }
    for (size_t w = 0; w < graph_.weights().size(); ++w) {
      const Tensor& tensor = graph_.tensor(graph_.weights()[w].tensor);
      const std::vector<PlacedBox>& parameter = kept[tensor.id.index()];
      RETURN_IF_ERROR(CheckCovers(tensor, parameter, "its buffers"));
      const bool placed = !strategy_.weights.empty();
      if (placed && strategy_.weights[w].parameter) {
        RETURN_IF_ERROR(CheckIs(tensor, parameter, *strategy_.weights[w].parameter, "its buffers"));
      }
      const std::vector<PlacedBox>& update =
          placed && strategy_.weights[w].update ? *strategy_.weights[w].update : parameter;
      for (const Operator& op : graph_.ops()) {
        if (op.anchor != kNoOp || op.anchor_weight != tensor.id) continue;
        RETURN_IF_ERROR(CheckIs(tensor, update_pieces_[op.id.index()], update, "its updates"));
      }
      for (const Tensor& state : graph_.tensors()) {
        if (state.kind != TensorKind::kState || state.of != tensor.id) continue;
        RETURN_IF_ERROR(CheckIs(tensor, kept[state.id.index()], update, "its states"));
      }
    }
    return absl::OkStatus();
  }

  // ---- expected values

  void AddBox(TensorId tensor, const Box& box) {
    if (!box.empty()) result_.expected.grids[tensor.index()].AddBox(box);
  }

  void CutGrids() {
    std::vector<TensorId> next_of(graph_.tensors().size(), kNoTensor);
    for (const Tensor& tensor : graph_.tensors()) {
      result_.expected.grids.emplace_back(tensor.type.shape);
      if (tensor.kind == TensorKind::kNext) next_of[tensor.of.index()] = tensor.id;
    }
    for (const Buffer& buffer : tasks_.buffers()) {
      if (buffer.tensor == kNoTensor) continue;
      AddBox(buffer.tensor, buffer.box);
      const TensorId next = next_of[buffer.tensor.index()];
      if (next != kNoTensor) AddBox(next, buffer.box);
    }
    for (const Task& task : tasks_.tasks()) {
      if (const auto* move_task = std::get_if<MoveTask>(&task.body)) {
        const TensorId tensor(task.key.subject);
        for (const Move& move : move_task->moves) {
          AddBox(tensor, move.region);
          AddBox(tensor, move.to.box);
          if (move.kind != MoveSignature::Kind::kFill) AddBox(tensor, move.from.box);
        }
      } else if (const auto* compute = std::get_if<ComputeTask>(&task.body)) {
        const KernelTensors tensors = TensorsOf(
            graph_, *compute, tasks_.signatures()[static_cast<size_t>(compute->signature)]);
        for (size_t k = 0; k < tensors.inputs.size(); ++k) {
          AddBox(tensors.inputs[k], compute->input_boxes[k]);
        }
        for (size_t k = 0; k < tensors.outputs.size(); ++k) {
          AddBox(tensors.outputs[k], compute->output_boxes[k]);
        }
      }
    }
    for (const Operator& op : graph_.ops()) {
      for (const ExpectedPart& part : parts_[op.id.index()]) {
        for (size_t k = 0; k < op.outputs.size(); ++k) {
          AddBox(op.outputs[k], part.view.results[k].box);
        }
      }
    }
    for (ProbeGrid& grid : result_.expected.grids) grid.Finish();
  }

  void AddValue(TensorId tensor, const Box& box, uint64_t code) {
    auto& values = result_.expected.values[tensor.index()];
    result_.expected.grids[tensor.index()].ForEach(box,
                                                   [&](int64_t probe, const ProbeGrid::Index&) {
                                                     values[static_cast<size_t>(probe)] += code;
                                                   });
  }

  void AddValues() {
    for (const Tensor& tensor : graph_.tensors()) {
      const int64_t limit = result_.expected.grids[tensor.id.index()].probe_limit();
      result_.expected.values.emplace_back(static_cast<size_t>(limit), 0);
      if (!ComesFromOutside(tensor.kind)) continue;
      AddValue(tensor.id, Box::Full(tensor.type.shape), CodeOf(tensor.id));
    }
    for (const Operator& op : graph_.ops()) {
      if (op.anchor == kNoOp) {  // an update: copies of one value on the devices of a layout
        for (TensorId id : op.outputs) {
          AddValue(id, Box::Full(graph_.tensor(id).type.shape), CodeOf(op.id, 0));
        }
      }
      const std::vector<ExpectedPart>& parts = parts_[op.id.index()];
      for (size_t block = 0; block < parts.size(); ++block) {
        for (size_t k = 0; k < op.outputs.size(); ++k) {
          const TensorView& result = parts[block].view.results[k];
          if (!result.present || result.box.empty()) continue;
          AddValue(op.outputs[k], result.box, CodeOf(op.id, static_cast<int64_t>(block)));
        }
      }
    }
  }

  // Only values that are complete may be fused with what reads them: no other term adds to them.
  absl::Status CheckFusions() const {
    for (const Fusion& fusion : fused_) {
      bool complete = true;
      result_.expected.grids[fusion.tensor.index()].ForEach(
          fusion.box, [&](int64_t probe, const ProbeGrid::Index&) {
            complete &= result_.expected.of(fusion.tensor, probe) == fusion.code;
          });
      if (!complete) {
        return absl::InternalError(absl::StrCat(
            "task ", fusion.task.value(), " applies an operator to a part of the sum that tensor '",
            graph_.tensor(fusion.tensor).name, "' is"));
      }
    }
    return absl::OkStatus();
  }

  struct Fusion {
    TaskId task;
    TensorId tensor;  // what one operator hands to the next
    Box box;
    uint64_t code;
  };

  const Graph& graph_;
  const Strategy& strategy_;
  const TaskGraph& tasks_;
  std::vector<std::vector<ExpectedPart>> parts_;       // by operator, by block
  std::vector<std::vector<PlacedBox>> update_pieces_;  // by operator
  std::set<std::tuple<OpId, int64_t, DeviceId>> ran_;  // blocks that have a task
  std::vector<Fusion> fused_;
  CheckedOperators result_;
};

}  // namespace

absl::StatusOr<CheckedOperators> CheckOperators(const Graph& graph, const Strategy& strategy,
                                                const TaskGraph& tasks) {
  return OperatorChecker(graph, strategy, tasks).Run();
}

}  // namespace partita
