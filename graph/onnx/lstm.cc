// LSTM, unrolled: of each step the cell of graph/layers.h, whose weights have the gates of a unit
// side by side (graph/ops/lstm_gates.h), where ONNX has all units of a gate together. The weights
// are reordered when they are read, so that a step costs nothing for it.
//
//   X [steps, batch, in] -> sequence [batch, steps, in]: of a transposed tensor the original
//   step t: [batch, 1, in], h and c [batch, 1, units]
//   Y [steps, 1, batch, units], Y_h and Y_c [1, batch, units]

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/layers.h"
#include "graph/onnx/operators.h"
#include "graph/onnx/rows.h"
#include "graph/onnx/swapped.h"
#include "graph/support/status_macros.h"

namespace partita::onnx {
namespace {

constexpr int64_t kMostSteps = 4096, kMostCells = 16'384, kMostUnits = int64_t{1} << 17;
constexpr int64_t kMostStateElements = int64_t{1} << 26;
// ONNX's places (i, o, f, c) of our gates (i, f, g, o).
constexpr std::array<int64_t, 4> kPlaces = {0, 2, 3, 1};

// Inputs by number.
enum LstmInput : int { kX, kW, kR, kB, kSequenceLens, kInitialH, kInitialC, kPeepholes };

struct LstmSizes {
  int64_t steps = 1, batch = 1, in = 1, units = 1;
};

absl::Status CheckLstmAttributes(NodeImport& node) {
  Attributes& attributes = node.attributes();
  const std::string direction = attributes.String("direction", "forward");
  if (direction != "forward") {
    return absl::UnimplementedError(
        absl::StrCat("with direction '", direction, "'; supported is 'forward'"));
  }
  if (attributes.Has("activations")) {
    const std::vector<std::string> names = attributes.Strings("activations");
    if (names != std::vector<std::string>{"Sigmoid", "Tanh", "Tanh"}) {
      return absl::UnimplementedError(absl::StrCat("with activations ", absl::StrJoin(names, ", "),
                                                   "; supported are Sigmoid, Tanh, Tanh"));
    }
  }
  for (const char* name : {"activation_alpha", "activation_beta", "clip"}) {
    if (attributes.Has(name)) return absl::UnimplementedError(absl::StrCat("with '", name, "'"));
  }
  if (attributes.Int("input_forget", 0) != 0) {
    return absl::UnimplementedError("with coupled input and forget gates (input_forget)");
  }
  if (attributes.Int("layout", 0) != 0) {
    return absl::UnimplementedError("with layout 1; export with the sequence first (layout 0)");
  }
  if (node.Has(kPeepholes)) return absl::UnimplementedError("with peepholes (input P)");
  return attributes.status();
}

absl::StatusOr<LstmSizes> ReadLstmSizes(NodeImport& node) {
  ASSIGN_OR_RETURN(const Shape x, node.ShapeOf(kX));
  ASSIGN_OR_RETURN(const Shape w, node.ShapeOf(kW));
  ASSIGN_OR_RETURN(const Shape r, node.ShapeOf(kR));
  if (x.size() != 3 || w.size() != 3 || r.size() != 3) {
    return absl::InvalidArgumentError(absl::StrCat("it wants X, W and R of rank 3; found ",
                                                   ToString(x), ", ", ToString(w), ", ",
                                                   ToString(r)));
  }
  const LstmSizes sizes{.steps = x[0], .batch = x[1], .in = x[2], .units = r[2]};
  const int64_t units = node.attributes().Int("hidden_size", sizes.units);
  if (units != sizes.units || w != Shape{1, 4 * units, sizes.in} ||
      r != Shape{1, 4 * units, units}) {
    return absl::InvalidArgumentError(absl::StrCat("of ", units, " units (hidden_size) for X ",
                                                   ToString(x), " it wants W [1,", 4 * units, ",",
                                                   sizes.in, "] and R [1,", 4 * units, ",", units,
                                                   "]; found ", ToString(w), " and ", ToString(r)));
  }
  if (Volume(x) < 1 || units < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("it has no elements: X is ", ToString(x), ", R is ", ToString(r)));
  }
  if (units > kMostUnits) {
    return absl::UnimplementedError(
        absl::StrCat("of ", units, " units; at most ", kMostUnits, " are supported"));
  }
  if (node.unrolled() + sizes.steps > kMostCells) {
    return absl::UnimplementedError(
        absl::StrCat("which makes the model more than ", kMostCells, " cells"));
  }
  if (sizes.steps > kMostSteps) {
    return absl::UnimplementedError(absl::StrCat("of ", sizes.steps,
                                                 " steps, which would be cells "
                                                 "of their own; at most ",
                                                 kMostSteps,
                                                 " are supported: export a shorter sequence"));
  }
  if (!node.Has(kSequenceLens)) return sizes;
  ASSIGN_OR_RETURN(const std::vector<int64_t> lengths, node.IntsInput(kSequenceLens));
  if (std::ranges::any_of(lengths, [&](int64_t length) { return length != sizes.steps; })) {
    return absl::UnimplementedError("with sequences of several lengths (sequence_lens)");
  }
  return sizes;
}

struct SourceRow {
  const Value* source;
  int64_t row;
};

std::string NameOfInput(int input) {
  constexpr std::array<const char*, 7> kNames = {"X",         "W",        "R", "B", "sequence_lens",
                                                 "initial_h", "initial_c"};
  return kNames[static_cast<size_t>(input)];
}

absl::Status PartOfAWeight(int input, const std::string& source) {
  return absl::UnimplementedError(absl::StrCat("its input ", NameOfInput(input), " is a part of '",
                                               source, "'; supported are weights of its own"));
}

// Rows [first, first + 4 units) of an input, which ONNX has by place and unit, by unit and gate.
// They must be of one tensor.
absl::StatusOr<Reordered> ByUnit(int input, const Rows& rows, int64_t first, int64_t units) {
  std::vector<SourceRow> all;
  for (const RowRun& run : rows.runs) {
    for (int64_t row = run.begin; row < run.end; ++row) all.push_back({&run.source, row});
  }
  Reordered weight{.source = *all[static_cast<size_t>(first)].source};
  for (int64_t unit = 0; unit < units; ++unit) {
    for (const int64_t place : kPlaces) {
      const SourceRow& from = all[static_cast<size_t>(first + place * units + unit)];
      if (from.source->name != weight.source.name) {
        return absl::UnimplementedError(
            absl::StrCat("its input ", NameOfInput(input), " mixes rows of '", weight.source.name,
                         "' and '", from.source->name, "'; supported are weights of its own"));
      }
      weight.order.push_back(from.row);
    }
  }
  return weight;
}

// Adds rows [first, first + 4 units) of an input as a weight of that shape. They must be all rows
// of one tensor of the file, or the half of a bias that has both.
absl::StatusOr<TensorId> AddGateRows(NodeImport& node, int input, const Rows& rows, int64_t first,
                                     Shape shape) {
  const int64_t units = shape[0] / 4;
  if (rows.axis + shape.size() != rows.shape.size()) {
    return PartOfAWeight(input, rows.runs[0].source.name);
  }
  ASSIGN_OR_RETURN(Reordered weight, ByUnit(input, rows, first, units));
  const Value& source = weight.source;
  const Shape& stored =
      source.stored != nullptr ? source.stored->source.shape : source.constant->shape;
  const int64_t rows_of_source = Volume(stored) / (Volume(shape) / shape[0]);
  const bool both = input == kB && rows_of_source == 8 * units;
  if (!both && rows_of_source > 4 * units) return PartOfAWeight(input, source.name);
  std::vector<int64_t> sorted = weight.order;
  std::ranges::sort(sorted);
  for (int64_t k = 0; k < 4 * units; ++k) {
    if (sorted[static_cast<size_t>(k)] == k + (both ? first : 0)) continue;
    return absl::UnimplementedError(absl::StrCat("its input ", NameOfInput(input),
                                                 " repeats or leaves out rows of '", source.name,
                                                 "'; supported are all of them, in any order"));
  }
  if (both) weight.ending = first == 0 ? ".input" : ".hidden";
  weight.shape = std::move(shape);
  if (source.kind == Value::Kind::kConstant) {
    node.Note(
        absl::StrCat("its weight '", source.name, "' is a constant of the file; it is trained"));
  }
  return node.ReorderedWeight(weight, {.kind = Initializer::Kind::kUniformFanIn, .fan_in = units});
}

absl::StatusOr<Rows> RowsOfInput(NodeImport& node, int input) {
  std::optional<Rows> rows = RowsOf(node.Input(input));
  if (rows) return *std::move(rows);
  return absl::UnimplementedError(
      absl::StrCat("its input ", NameOfInput(input),
                   " is computed; supported are weights of the file, whole or cut into gates"));
}

// The sum of the two halves of B, each of which is a weight: PyTorch trains both.
absl::StatusOr<TensorId> AddBiases(NodeImport& node, int64_t units) {
  ASSIGN_OR_RETURN(const Rows rows, RowsOfInput(node, kB));
  if (rows.shape != Shape{1, 8 * units}) {
    return absl::InvalidArgumentError(
        absl::StrCat("its input B is ", ToString(rows.shape), "; wanted [1,", 8 * units, "]"));
  }
  ASSIGN_OR_RETURN(const TensorId input, AddGateRows(node, kB, rows, 0, {4 * units}));
  ASSIGN_OR_RETURN(const TensorId hidden, AddGateRows(node, kB, rows, 4 * units, {4 * units}));
  return node.Add(Binary{.function = "add"}, {input, hidden}, "bias");
}

bool AllZero(const std::vector<float>& values) {
  return std::ranges::all_of(values, [](float v) { return v == 0; });
}

// Whether the file says that an initial state is zeros. Where its values are not there, it is taken
// to be: exporters store those of PyTorch's default so.
absl::StatusOr<bool> IsZeroState(NodeImport& node, int input) {
  const Value& value = node.Input(input);
  if (value.kind == Value::Kind::kAbsent) return true;
  if (value.kind == Value::Kind::kTensor) return false;
  const std::optional<Rows> rows = RowsOf(value);
  if (!rows) return absl::InvalidArgumentError("its initial state is not of floating type");
  for (const RowRun& run : rows->runs) {
    std::vector<float> values;
    if (run.source.kind == Value::Kind::kConstant) {
      values.assign(run.source.constant->reals.begin(), run.source.constant->reals.end());
    } else {
      const StoredTensor& stored = *run.source.stored;
      if (stored.source.elements > kMostStateElements) {
        return absl::UnimplementedError("its initial state is too large");
      }
      ASSIGN_OR_RETURN(values, node.ValuesNow(stored));
      if (values.empty()) {
        node.Note(absl::StrCat("the values of its initial state '", run.source.name,
                               "' are not there; taken as zeros"));
      }
    }
    if (!AllZero(values)) return false;
  }
  return true;
}

// The initial state of input `input` as [batch, 1, units].
absl::StatusOr<TensorId> AddState(NodeImport& node, int input, const LstmSizes& sizes) {
  ASSIGN_OR_RETURN(const Shape shape, node.ShapeOf(input));
  if (shape != Shape{1, sizes.batch, sizes.units}) {
    return absl::InvalidArgumentError(absl::StrCat("its ", NameOfInput(input), " is ",
                                                   ToString(shape), "; wanted [1,", sizes.batch,
                                                   ",", sizes.units, "]"));
  }
  if (node.Input(input).kind == Value::Kind::kRows) {
    return absl::UnimplementedError(
        absl::StrCat("its ", NameOfInput(input),
                     " is a part of a stored tensor and not zeros; store it by itself"));
  }
  const bool stored = !node.IsTensor(input);
  ASSIGN_OR_RETURN(const TensorId state, stored ? node.Frozen(input, {}) : node.Tensor(input));
  if (stored) node.Note(absl::StrCat("its ", NameOfInput(input), " stays as the file has it"));
  return AddSwapped(node, state, NameOfInput(input));
}

absl::StatusOr<LstmState> InitialState(NodeImport& node, const LstmSizes& sizes) {
  ASSIGN_OR_RETURN(const bool no_h, IsZeroState(node, kInitialH));
  ASSIGN_OR_RETURN(const bool no_c, IsZeroState(node, kInitialC));
  LstmState state{kNoTensor, kNoTensor};
  if (!no_h) {
    ASSIGN_OR_RETURN(state.h, AddState(node, kInitialH, sizes));
  }
  if (!no_c) {
    ASSIGN_OR_RETURN(state.c, AddState(node, kInitialC, sizes));
  }
  if (no_h == no_c) return state;
  TensorId& absent = no_h ? state.h : state.c;
  ASSIGN_OR_RETURN(absent, node.Add(Scale{.alpha = 0}, {no_h ? state.c : state.h}, "zeros"));
  return state;
}

// The steps of a sequence [batch, steps, in], each [batch, 1, in]: of one that was put together, as
// another layer's, the very parts, so that no step waits for those that come after it.
absl::StatusOr<std::vector<TensorId>> AddSteps(NodeImport& node, TensorId sequence,
                                               const LstmSizes& sizes) {
  if (sizes.steps == 1) return std::vector<TensorId>{sequence};
  const Operator* made = ProducerOf(node.builder(), sequence);
  const auto* concat = made == nullptr ? nullptr : std::get_if<Concat>(&made->attrs);
  if (concat != nullptr && concat->axis == 1 && std::ssize(made->inputs) == sizes.steps) {
    return made->inputs;
  }
  std::vector<TensorId> steps;
  for (int64_t t = 0; t < sizes.steps; ++t) {
    ASSIGN_OR_RETURN(steps.emplace_back(), node.Add(Crop{{0, t, 0}, {sizes.batch, t + 1, sizes.in}},
                                                    {sequence}, absl::StrCat("step", t)));
  }
  return steps;
}

// Checks what was added since operator `first`.
absl::Status CheckAdded(NodeImport& node, size_t first) {
  const GraphBuilder& builder = node.builder();
  for (const Operator& op : builder.ops().subspan(first)) {
    std::vector<Shape> operands, results;
    for (TensorId id : op.inputs) operands.push_back(builder.tensor(id).type.shape);
    for (TensorId id : op.outputs) results.push_back(builder.tensor(id).type.shape);
    RETURN_IF_ERROR(CheckWithinLimits(op.attrs, operands, results));
  }
  return absl::OkStatus();
}

absl::Status SetLstmOutputs(NodeImport& node, const LstmSizes& sizes, std::vector<TensorId> hidden,
                            const LstmState& last) {
  if (node.HasOutput(0)) {
    TensorId y = hidden[0];
    if (hidden.size() > 1) {
      ASSIGN_OR_RETURN(y, node.Add(Concat{.axis = 1}, std::move(hidden), "sequence"));
    }
    ASSIGN_OR_RETURN(y, AddSwapped(node, y, "steps"));
    ASSIGN_OR_RETURN(y, node.Add(Reshape{.shape = {sizes.steps, 1, sizes.batch, sizes.units}}, {y},
                                 "directions"));
    node.SetTensor(0, y);
  }
  const TensorId states[] = {last.h, last.c};
  for (int k : {1, 2}) {
    if (!node.HasOutput(k)) continue;
    ASSIGN_OR_RETURN(const TensorId state, AddSwapped(node, states[k - 1], k == 1 ? "h" : "c"));
    node.SetTensor(k, state);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ImportLstm(NodeImport& node) {
  RETURN_IF_ERROR(CheckLstmAttributes(node));
  ASSIGN_OR_RETURN(const LstmSizes sizes, ReadLstmSizes(node));
  const int64_t units = sizes.units;
  LstmCell cell;
  ASSIGN_OR_RETURN(const Rows w, RowsOfInput(node, kW));
  ASSIGN_OR_RETURN(cell.input_weight, AddGateRows(node, kW, w, 0, {4 * units, sizes.in}));
  ASSIGN_OR_RETURN(const Rows r, RowsOfInput(node, kR));
  ASSIGN_OR_RETURN(cell.hidden_weight, AddGateRows(node, kR, r, 0, {4 * units, units}));
  if (node.Has(kB)) {
    ASSIGN_OR_RETURN(cell.bias, AddBiases(node, units));
  }
  ASSIGN_OR_RETURN(const TensorId x, node.Tensor(kX));
  ASSIGN_OR_RETURN(const TensorId sequence, AddSwapped(node, x, "batch"));
  ASSIGN_OR_RETURN(LstmState state, InitialState(node, sizes));
  ASSIGN_OR_RETURN(std::vector<TensorId> hidden, AddSteps(node, sequence, sizes));
  const size_t first = node.builder().ops().size();
  for (TensorId& x_and_h : hidden) {
    cell.name = node.NewName(absl::StrCat(&x_and_h - hidden.data()));
    cell.x = x_and_h;
    cell.h = state.h;
    cell.c = state.c;
    ASSIGN_OR_RETURN(state, AddLstmCell(node.builder(), cell));
    x_and_h = state.h;
  }
  RETURN_IF_ERROR(CheckAdded(node, first));
  node.AddUnrolled(sizes.steps);
  node.Note(absl::StrCat("unrolled into cells of ", sizes.steps,
                         " steps; the rows of its weights and biases are stored unit by unit"));
  return SetLstmOutputs(node, sizes, std::move(hidden), state);
}

}  // namespace partita::onnx
