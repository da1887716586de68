#include "graph/verify/operator_checks.h"

#include <algorithm>
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

  absl::Status CheckCompute(const Task& task, const ComputeTask& body) {
    const Operator& op = graph_.op(body.op);
    if (op.anchor == kNoOp) return CheckUpdate(task, body, op);
    const ParallelConfig& config = strategy_.configs[op.anchor.index()];
    if (body.part < 0 || static_cast<size_t>(body.part) >= config.devices.size() ||
        config.devices[static_cast<size_t>(body.part)] != body.device) {
      return absl::InternalError("the strategy has no such part on this device");
    }
    const int64_t block = BlockOfPart(graph_, op, config, body.part);
    const ExpectedPart& part = parts_[op.id.index()][static_cast<size_t>(block)];
    RETURN_IF_ERROR(CheckViews(part.view.operands, body.inputs, body.input_boxes, "input"));
    RETURN_IF_ERROR(CheckViews(part.view.results, body.outputs, body.output_boxes, "output"));
    RETURN_IF_ERROR(Ran(op, block, body.device));
    ComputeTerm& term = result_.terms[task.id.index()];
    term = {op.outputs, CodeOf(op.id, block)};
    const KernelSignature& signature = tasks_.signatures()[static_cast<size_t>(body.signature)];
    return signature.fused_relu ? TakeOverRelu(task, body, term) : absl::OkStatus();
  }

  absl::Status Ran(const Operator& op, int64_t block, DeviceId device) {
    if (ran_.emplace(op.id, block, device).second) return absl::OkStatus();
    return absl::InternalError(absl::StrCat("a second task on device ", device.value(),
                                            " computes the same block of '", op.name, "'"));
  }

  // The task also does what a block of the ReLU that reads its result would.
  absl::Status TakeOverRelu(const Task& task, const ComputeTask& body, ComputeTerm& term) {
    const TensorId before = graph_.op(body.op).outputs[0];
    for (OpId id : graph_.consumers(before)) {
      const Operator& relu = graph_.op(id);
      if (!std::holds_alternative<Relu>(relu.attrs) || !relu.pass.is_forward() ||
          relu.outputs[0] != tasks_.buffer(body.outputs[0]).tensor) {
        continue;
      }
      const std::vector<ExpectedPart>& parts = parts_[id.index()];
      for (size_t block = 0; block < parts.size(); ++block) {
        const ExpectedPart& part = parts[block];
        if (part.view.results[0].box != body.output_boxes[0] ||
            !std::binary_search(part.devices.begin(), part.devices.end(), body.device)) {
          continue;
        }
        fused_.push_back({task.id, before, body.output_boxes[0], term.code});
        term = {relu.outputs, CodeOf(id, static_cast<int64_t>(block))};
        return Ran(relu, static_cast<int64_t>(block), body.device);
      }
    }
    return absl::InternalError("fused with a ReLU that the strategy does not place here");
  }

  absl::Status CheckUpdate(const Task& task, const ComputeTask& body, const Operator& op) {
    const ShardingRule& rule = graph_.rule(op.id);
    const Box& piece = body.output_boxes[0];
    if (piece.rank() != static_cast<int>(rule.loops.size())) {
      return absl::InternalError("its piece has another rank than its loops");
    }
    std::vector<Interval> blocks;
    for (int d = 0; d < piece.rank(); ++d) blocks.push_back(piece[d]);
    ASSIGN_OR_RETURN(const PartView view, ViewPart(rule, graph_.InputShapes(op),
                                                   graph_.OutputShapes(op), std::move(blocks)));
    if (body.gradient == kNoOp) {
      RETURN_IF_ERROR(CheckViews(view.operands, body.inputs, body.input_boxes, "input"));
    } else {
      RETURN_IF_ERROR(CheckFusedUpdate(task, body, op, view));
    }
    RETURN_IF_ERROR(CheckViews(view.results, body.outputs, body.output_boxes, "output"));
    update_pieces_[op.id.index()].push_back({piece, body.device});
    result_.terms[task.id.index()] = {op.outputs, CodeOf(op.id, 0)};
    return absl::OkStatus();
  }

  // The task also does what the block of `gradient` that makes this piece of the gradient would.
  absl::Status CheckFusedUpdate(const Task& task, const ComputeTask& body, const Operator& op,
                                const PartView& view) {
    const size_t rest = op.inputs.size() - 1;
    const size_t own = body.inputs.size() - rest;
    std::vector<TensorView> others = view.operands;
    const Box piece = others[kGradientInput].box;
    others.erase(others.begin() + kGradientInput);
    const auto from = static_cast<std::ptrdiff_t>(own);
    RETURN_IF_ERROR(CheckViews(others, {body.inputs.begin() + from, body.inputs.end()},
                               {body.input_boxes.begin() + from, body.input_boxes.end()}, "input"));
    const Operator& gradient = graph_.op(body.gradient);
    const TensorId tensor = op.inputs[kGradientInput];
    const std::vector<ExpectedPart>& parts = parts_[gradient.id.index()];
    for (size_t b = 0; b < parts.size(); ++b) {
      const ExpectedPart& part = parts[b];
      if (gradient.outputs != std::vector<TensorId>{tensor} || part.view.results[0].box != piece ||
          !std::binary_search(part.devices.begin(), part.devices.end(), body.device) ||
          !CheckViews(part.view.operands, {body.inputs.begin(), body.inputs.begin() + from},
                      {body.input_boxes.begin(), body.input_boxes.begin() + from}, "input")
               .ok()) {
        continue;
      }
      const auto block = static_cast<int64_t>(b);
      fused_.push_back({task.id, tensor, piece, CodeOf(gradient.id, block)});
      return Ran(gradient, block, body.device);
    }
    return absl::InternalError("fused with a gradient that the strategy does not place here");
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
        const Operator& op = graph_.op(compute->op);
        const auto tensors = InputTensors(graph_, *compute);
        for (size_t k = 0; k < tensors.size(); ++k) AddBox(tensors[k], compute->input_boxes[k]);
        for (size_t k = 0; k < op.outputs.size(); ++k) {
          AddBox(op.outputs[k], compute->output_boxes[k]);
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
      const Box whole = Box::Full(tensor.type.shape);
      if (ComesFromOutside(tensor.kind)) AddValue(tensor.id, whole, CodeOf(tensor.id));
      if (tensor.kind != TensorKind::kNext) continue;
      for (OpId op : graph_.producers(tensor.id)) AddValue(tensor.id, whole, CodeOf(op, 0));
    }
    for (const Operator& op : graph_.ops()) {
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
            "task ", fusion.task.value(), " applies a function to a part of the sum that tensor '",
            graph_.tensor(fusion.tensor).name, "' is"));
      }
    }
    return absl::OkStatus();
  }

  struct Fusion {
    TaskId task;
    TensorId tensor;  // what is not stored
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
