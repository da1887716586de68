#include "graph/onnx/rows.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/onnx/shape_rules.h"
#include "graph/support/status_macros.h"

namespace partita::onnx {
namespace {

size_t RowAxis(const Shape& shape) {
  const auto first = std::ranges::find_if(shape, [](int64_t extent) { return extent != 1; });
  return first == shape.end() ? 0 : static_cast<size_t>(first - shape.begin());
}

const Shape& SourceShape(const Value& source) {
  return source.stored != nullptr ? source.stored->source.shape : source.constant->shape;
}

// Appends a run, as part of the last one where it goes on with it.
void AppendRun(RowRun run, std::vector<RowRun>& runs) {
  if (!runs.empty() && runs.back().source.name == run.source.name && runs.back().end == run.begin) {
    runs.back().end = run.end;
  } else {
    runs.push_back(std::move(run));
  }
}

std::optional<Rows> SlicedRows(NodeImport& node, const Rows& rows) {
  const auto ranges = SliceRanges(node, rows.shape);
  if (!ranges.ok()) return std::nullopt;
  Rows result{.shape = rows.shape, .axis = rows.axis};
  for (size_t d = 0; d < rows.shape.size(); ++d) {
    const SliceRange& range = (*ranges)[d];
    if (range.step != 1 || range.count < 1) return std::nullopt;
    if (d != rows.axis && range.count != rows.shape[d]) return std::nullopt;
  }
  const int64_t first = (*ranges)[rows.axis].start, last = first + (*ranges)[rows.axis].count;
  int64_t at = 0;
  for (const RowRun& run : rows.runs) {
    const int64_t rows_of_run = run.end - run.begin;
    RowRun part = run;
    part.begin = run.begin + std::max<int64_t>(first - at, 0);
    part.end = run.begin + std::min(last - at, rows_of_run);
    if (part.begin < part.end) AppendRun(std::move(part), result.runs);
    at += rows_of_run;
  }
  result.shape[rows.axis] = last - first;
  return result;
}

std::optional<Rows> JoinedRows(NodeImport& node) {
  std::optional<Rows> result;
  for (int i = 0; i < node.inputs(); ++i) {
    std::optional<Rows> rows = RowsOf(node.Input(i));
    if (!rows) return std::nullopt;
    const auto axis = CheckedAxis(node.attributes().Int("axis", 0), rows->shape.size());
    if (!axis.ok() || *axis != rows->axis) return std::nullopt;
    if (!result) {
      result = std::move(rows);
      continue;
    }
    Shape like = rows->shape;
    if (like.size() != result->shape.size() || *axis != result->axis) return std::nullopt;
    like[*axis] = result->shape[*axis];
    if (like != result->shape) return std::nullopt;
    result->shape[*axis] += rows->shape[*axis];
    for (RowRun& run : rows->runs) AppendRun(std::move(run), result->runs);
  }
  return result;
}

// The same rows with other dimensions of extent 1 in front.
std::optional<Rows> ReshapedRows(NodeImport& node, Rows rows) {
  std::vector<int64_t> axes = node.attributes().Ints("axes", {});
  if (node.Has(1)) {
    const auto given = node.IntsInput(1);
    if (!given.ok()) return std::nullopt;
    axes = *given;
  }
  const auto shape = node.node().op_type() == "Squeeze" ? SqueezedShape(rows.shape, axes)
                                                        : UnsqueezedShape(rows.shape, axes);
  const size_t tail = rows.shape.size() - rows.axis;
  if (!shape.ok() || shape->size() < tail) return std::nullopt;
  const size_t axis = shape->size() - tail;
  const bool same_rows = std::equal(shape->begin() + static_cast<int64_t>(axis), shape->end(),
                                    rows.shape.begin() + static_cast<int64_t>(rows.axis));
  const bool ones = std::all_of(shape->begin(), shape->begin() + static_cast<int64_t>(axis),
                                [](int64_t extent) { return extent == 1; });
  if (!same_rows || !ones) return std::nullopt;
  rows.shape = *shape;
  rows.axis = axis;
  return rows;
}

// The values of a reordered weight, from those of its source.
void TakeRows(const Reordered& weight, std::vector<float>& values) {
  const Shape& shape = weight.shape;
  const int64_t width = Volume(shape) / shape[0];
  std::vector<float> taken;
  taken.reserve(static_cast<size_t>(Volume(shape)));
  for (int64_t row : weight.order) {
    const auto begin = values.begin() + row * width;
    taken.insert(taken.end(), begin, begin + width);
  }
  values = std::move(taken);
}

}  // namespace

std::optional<Rows> RowsOf(const Value& value) {
  if (value.kind == Value::Kind::kRows) return *value.rows;
  const bool stored = value.kind == Value::Kind::kStored && !value.transposed &&
                      IsFloating(value.stored->source.type);
  const bool constant = value.kind == Value::Kind::kConstant && value.constant->floating();
  if (!stored && !constant) return std::nullopt;
  const Shape& shape = SourceShape(value);
  if (shape.empty()) return std::nullopt;
  const size_t axis = RowAxis(shape);
  return Rows{.runs = {{value, 0, shape[axis]}}, .shape = shape, .axis = axis};
}

bool MoveRows(NodeImport& node) {
  const std::string& type = node.node().op_type();
  std::optional<Rows> rows;
  if (type == "Concat") {
    rows = JoinedRows(node);
  } else if (type == "Slice" || type == "Squeeze" || type == "Unsqueeze") {
    rows = RowsOf(node.Input(0));
    if (rows) rows = type == "Slice" ? SlicedRows(node, *rows) : ReshapedRows(node, *rows);
  }
  if (!rows || rows->runs.empty() || !node.attributes().status().ok()) return false;
  Value value;
  value.kind = Value::Kind::kRows;
  value.rows = std::make_shared<const Rows>(*std::move(rows));
  value.name = node.node().name().empty() ? node.node().output(0) : node.node().name();
  node.SetValue(0, std::move(value));
  return true;
}

absl::StatusOr<TensorId> Importer::MakeRows(const Value& value) {
  const Rows& rows = *value.rows;
  std::vector<TensorId> parts;
  for (const RowRun& run : rows.runs) {
    const bool trainable = run.source.kind == Value::Kind::kStored;
    ASSIGN_OR_RETURN(TensorId part, AddWeight(run.source, {}, trainable));
    if (trainable) ++weight_uses_[run.source.name];
    const Shape& shape = builder_.tensor(part).type.shape;
    const size_t axis = RowAxis(shape);
    if (run.end - run.begin < shape[axis]) {
      Crop crop{.begin = std::vector<int64_t>(shape.size(), 0),
                .end = std::vector<int64_t>(shape.begin(), shape.end())};
      crop.begin[axis] = run.begin;
      crop.end[axis] = run.end;
      ASSIGN_OR_RETURN(
          part, builder_.Add(
                    {.name = UniqueName(value.name), .attrs = std::move(crop), .inputs = {part}}));
    }
    Shape wanted = rows.shape;
    wanted[rows.axis] = run.end - run.begin;
    if (builder_.tensor(part).type.shape != wanted) {
      ASSIGN_OR_RETURN(part,
                       builder_.Add({.name = UniqueName(value.name),
                                     .attrs = Reshape{.shape = {wanted.begin(), wanted.end()}},
                                     .inputs = {part}}));
    }
    parts.push_back(part);
  }
  if (parts.size() == 1) return parts[0];
  return builder_.Add({.name = UniqueName(value.name),
                       .attrs = Concat{.axis = static_cast<int64_t>(rows.axis)},
                       .inputs = std::move(parts)});
}

absl::StatusOr<TensorId> Importer::AddReordered(const Reordered& weight, Initializer initializer) {
  const std::string& source = weight.source.name;
  const std::string name = absl::StrCat(source, weight.ending);
  std::map<std::string, ReorderedRows>& made = reordered_[source];
  const auto same = made.find(weight.ending);
  const bool differs = same == made.end()
                           ? !made.empty() && (weight.ending.empty() || made.contains(""))
                           : same->second.order != weight.order;
  if (differs || weights_.contains({source, true})) {
    return absl::UnimplementedError(
        absl::StrCat("its weight '", source,
                     "' serves others in another order of rows; store it once for each"));
  }
  ++weight_uses_[name];
  if (same != made.end()) return same->second.weight;
  std::shared_ptr<const std::vector<float>> values;
  if (weight.source.kind == Value::Kind::kConstant) {
    const std::vector<double>& reals = weight.source.constant->reals;
    auto floats = std::make_shared<std::vector<float>>(reals.begin(), reals.end());
    TakeRows(weight, *floats);
    values = std::move(floats);
  } else {
    ASSIGN_OR_RETURN(values, StoredValues(*weight.source.stored,
                                          [weight](auto& floats) { TakeRows(weight, floats); }));
  }
  ASSIGN_OR_RETURN(const TensorId id,
                   builder_.AddWeight(weight.ending.empty() ? name : UniqueName(name),
                                      {DType::kFloat32, weight.shape}, initializer,
                                      std::move(values), /*trainable=*/true));
  made[weight.ending] = {weight.order, id};
  return id;
}

}  // namespace partita::onnx
