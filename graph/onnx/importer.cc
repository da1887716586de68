#include "graph/onnx/importer.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/dependence.h"
#include "graph/graph_copy.h"
#include "graph/onnx/folded_batch_norm.h"
#include "graph/onnx/operators.h"
#include "graph/onnx/rows.h"
#include "graph/support/check.h"
#include "graph/support/error_category.h"
#include "graph/support/status_macros.h"

namespace partita::onnx {
namespace {

constexpr char kUnsupportedPayload[] = "partita/unsupported_operators";
constexpr int64_t kDefaultBatch = 64;

Value TensorValue(TensorId id) {
  Value value;
  value.kind = Value::Kind::kTensor;
  value.tensor = id;
  return value;
}

// A prefix that says where, before the message of an error.
absl::Status At(const NodeProto& node, const absl::Status& status) {
  const std::string message = absl::StrCat(Describe(node), ": ", status.message());
  return absl::IsPermissionDenied(status) ? WithMessage(status, message)
                                          : absl::InvalidArgumentError(message);
}

std::vector<std::pair<std::string, int>> CountOperators(const Model& model) {
  std::map<std::string, int> counts;
  for (const NodeProto* node : model.nodes) ++counts[node->op_type()];
  std::vector<std::pair<std::string, int>> sorted(counts.begin(), counts.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return sorted;
}

}  // namespace

Importer::Importer(Model model, const ImportOptions& options, const std::string& graph_name)
    : model_(std::move(model)), options_(options), builder_(graph_name) {
  notes_ = model_.notes;
  taken_names_.insert(model_.input.name);
  for (const auto& [name, stored] : model_.initializers) taken_names_.insert(name);
}

absl::Status Importer::AddInput() {
  const ModelInput& input = model_.input;
  if (input.shape.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "input '", input.name, "' is a scalar; its first dimension must be the batch"));
  }
  own_batch_ = input.shape[0];
  batch_ = options_.batch > 0 ? options_.batch : own_batch_ >= 0 ? own_batch_ : kDefaultBatch;
  Shape shape = input.shape;
  shape[0] = batch_;
  for (size_t d = 1; d < shape.size(); ++d) {
    if (shape[d] >= 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("input '", input.name, "' has shape ", ToString(input.shape),
                     " where -1 is open; only the first may be (export with fixed image sizes)"));
  }
  RETURN_IF_ERROR(CheckedVolume(shape).status());
  if (Volume(shape) == 0) {
    return absl::InvalidArgumentError(absl::StrCat("input '", input.name, "' has shape ",
                                                   ToString(shape), ", which has no elements"));
  }
  if (own_batch_ >= 0 && own_batch_ != batch_) {
    notes_.push_back(absl::StrCat("re-batched from ", own_batch_, " to ", batch_));
  } else if (own_batch_ < 0 && options_.batch == 0) {
    notes_.push_back(absl::StrCat("the model leaves its batch open: a batch of ", batch_,
                                  " is assumed (--batch takes another)"));
  }
  if (input.type == ElementType::kInt64 || input.type == ElementType::kInt32) {
    if (input.type != ElementType::kInt32) {
      notes_.push_back(absl::StrCat("input of ", NameOf(input.type), " is taken as int32"));
    }
    ASSIGN_OR_RETURN(const TensorId id, builder_.AddInput(input.name, {DType::kInt32, shape}));
    values_[input.name] = TensorValue(id);
    return absl::OkStatus();
  }
  if (!IsFloating(input.type)) {
    Value unknown;
    unknown.kind = Value::Kind::kUnknown;
    unknown.name = absl::StrCat("the input '", input.name, "' of ", NameOf(input.type));
    values_[input.name] = unknown;
    return absl::OkStatus();
  }
  if (input.type != ElementType::kFloat) {
    notes_.push_back(absl::StrCat("input of ", NameOf(input.type), " is taken as float"));
  }
  ASSIGN_OR_RETURN(const TensorId id, builder_.AddInput(input.name, {DType::kFloat32, shape}));
  values_[input.name] = TensorValue(id);
  return absl::OkStatus();
}

// Integers and floating scalars of the file are constants, other floating tensors are weights.
absl::Status Importer::AddStored() {
  for (const auto& [name, stored] : model_.initializers) {
    Value value;
    value.name = name;
    value.stored = &stored;
    value.kind = Value::Kind::kStored;
    const bool constant = !IsFloating(stored.source.type) || stored.source.shape.empty();
    if (constant && !stored.source.external && stored.source.elements <= kMaxConstantElements &&
        stored.source.type != ElementType::kString) {
      ASSIGN_OR_RETURN(Constant c, ReadConstant(*stored.proto, stored.source));
      value.kind = Value::Kind::kConstant;
      value.constant = std::make_shared<const Constant>(std::move(c));
    }
    values_[name] = std::move(value);
  }
  return absl::OkStatus();
}

std::string Importer::UniqueName(const std::string& wanted) {
  std::string name = wanted;
  for (int n = 2; !taken_names_.insert(name).second; ++n) name = absl::StrCat(wanted, "_", n);
  return name;
}

// Null where they are absent.
absl::StatusOr<std::shared_ptr<const std::vector<float>>> Importer::StoredValues(
    const StoredTensor& stored, std::function<void(std::vector<float>&)> change) {
  const auto at = [&stored](const absl::Status& status) {
    return WithMessage(status,
                       absl::StrCat("tensor '", stored.proto->name(), "': ", status.message()));
  };
  const auto there = HasValues(stored.source, model_.origin.folder);
  if (!there.ok()) return at(there.status());
  if (!*there) {
    if (absent_weights_++ == 0) absent_file_ = stored.source.location;
    return nullptr;
  }
  if (options_.values == WeightValues::kSkipped) return nullptr;
  return values_of_weights_.Add(
      stored.source.elements,
      [this, &stored, at, change = std::move(change)](std::vector<float>& values) -> absl::Status {
        absl::Status read = ReadFloats(*stored.proto, stored.source, model_.origin.folder, values);
        if (read.ok() && change) change(values);
        return read.ok() ? read : at(read);
      });
}

absl::StatusOr<TensorId> Importer::AddWeight(const Value& value, Initializer initializer,
                                             bool trainable) {
  const auto found = weights_.find({value.name, trainable});
  if (found != weights_.end()) return found->second;
  if (const auto order = reordered_.find(value.name);
      trainable && order != reordered_.end() && !order->second.empty()) {
    return absl::UnimplementedError(absl::StrCat(
        "'", value.name, "' is a recurrent layer's, which takes its rows in another order"));
  }
  TensorType type{DType::kFloat32, {}};
  std::shared_ptr<const std::vector<float>> values;
  if (value.kind == Value::Kind::kConstant) {
    type.shape = value.constant->shape;
    auto floats = std::make_shared<std::vector<float>>();
    for (size_t i = 0; i < static_cast<size_t>(value.constant->size()); ++i) {
      floats->push_back(static_cast<float>(value.constant->RealAt(i)));
    }
    values = std::move(floats);
  } else {
    const TensorSource& source = value.stored->source;
    if (!IsFloating(source.type)) {
      return absl::UnimplementedError(
          absl::StrCat("it computes with '", value.name, "' of ", NameOf(source.type)));
    }
    if (source.type != ElementType::kFloat) {
      notes_.push_back(
          absl::StrCat("'", value.name, "' of ", NameOf(source.type), " is taken as float"));
    }
    type.shape = source.shape;
    ASSIGN_OR_RETURN(values, StoredValues(*value.stored));
  }
  if (Volume(type.shape) == 0) {
    return absl::InvalidArgumentError(absl::StrCat("'", value.name, "' has no elements"));
  }
  const bool second = weights_.contains({value.name, !trainable});
  if (second) {
    notes_.push_back(absl::StrCat("'", value.name,
                                  "' is stored once for a trained weight and for what is not "
                                  "trained; taken as two"));
  }
  const bool named = model_.initializers.contains(value.name) && !second;
  const std::string name = named ? value.name : UniqueName(value.name);
  ASSIGN_OR_RETURN(const TensorId id,
                   builder_.AddWeight(name, type, initializer, std::move(values), trainable));
  weights_[{value.name, trainable}] = id;
  return id;
}

absl::Status Importer::ImportNode(const NodeProto& node) {
  NodeImport import(*this, node);
  const auto reject = [&](absl::string_view reason) {
    unsupported_.push_back({.op_type = node.op_type(),
                            .domain = node.domain(),
                            .node = absl::StrCat(Describe(node), " (opset ", model_.opset, ")"),
                            .reason = std::string(reason)});
    return absl::OkStatus();
  };
  Value unknown;
  unknown.kind = Value::Kind::kUnknown;
  for (int k = 0; k < node.output_size(); ++k) import.SetValue(k, unknown);

  const bool standard = node.domain().empty() || node.domain() == "ai.onnx";
  const OperatorRow* row = standard ? FindOperator(node.op_type()) : nullptr;
  if (row == nullptr) return reject("");
  if (model_.opset < row->min_opset) {
    return reject(absl::StrCat("supported from opset ", row->min_opset));
  }
  bool constant = node.input_size() > 0;
  std::vector<const Constant*> inputs;
  for (int i = 0; i < node.input_size(); ++i) {
    const Value& value = import.Input(i);
    if (value.kind == Value::Kind::kUnknown) {
      if (!value.name.empty()) return reject(absl::StrCat("it reads ", value.name));
      return row->import == nullptr ? reject("supported on constants only") : absl::OkStatus();
    }
    inputs.push_back(value.constant.get());
    constant =
        constant && (value.kind == Value::Kind::kConstant || value.kind == Value::Kind::kAbsent);
  }
  absl::Status status;
  const bool moves_rows = !constant && MoveRows(import);
  for (int i = 0; i < node.input_size() && !moves_rows && !row->takes_rows; ++i) {
    if (import.Input(i).kind != Value::Kind::kRows) continue;
    const auto made = MakeRows(import.Input(i));
    if (absl::IsUnimplemented(made.status())) return reject(made.status().message());
    if (!made.ok()) return At(node, made.status());
    values_[node.input(i)] = TensorValue(*made);
  }
  if (moves_rows) {
    // Its result is remembered.
  } else if (constant && row->fold != nullptr) {
    auto folded = row->fold(import, inputs);
    status = folded.status();
    if (folded.ok()) import.SetConstant(0, *std::move(folded));
  } else if (row->import != nullptr) {
    status = row->import(import);
  } else {
    return reject("supported on constants only");
  }
  status.Update(import.attributes().status());
  if (absl::IsUnimplemented(status)) return reject(status.message());
  if (!status.ok()) return At(node, status);
  // Outputs that the row did not set: masks, indices, statistics, strings.
  for (int k = 0; k < node.output_size(); ++k) {
    Value& value = values_[node.output(k)];
    if (!import.HasOutput(k) || value.kind != Value::Kind::kUnknown) continue;
    value.name = absl::StrCat("output ", k, " of ", Describe(node));
  }
  return absl::OkStatus();
}

absl::Status Importer::UnsupportedError() const {
  absl::Status error = absl::InvalidArgumentError(RejectionsText(unsupported_));
  std::vector<std::string> lines;
  for (const Rejection& one : unsupported_) lines.push_back(one.Line());
  error.SetPayload(kUnsupportedPayload, absl::Cord(absl::string_view(absl::StrJoin(lines, "\n"))));
  return error;
}

absl::Status Importer::CheckOutput(const Shape& shape) const {
  if (!model_.has_output_shape) return absl::OkStatus();
  const Shape& declared = model_.output_shape;
  bool equal = declared.size() == shape.size();
  for (size_t d = 0; equal && d < shape.size(); ++d) {
    const bool rebatched = d == 0 && batch_ != own_batch_;
    equal = rebatched || declared[d] < 0 || declared[d] == shape[d];
  }
  if (equal) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("output '", model_.output, "' is declared as ",
                                                 ToString(declared), " but computed as ",
                                                 ToString(shape)));
}

absl::StatusOr<ImportedModel> Importer::Run() {
  RETURN_IF_ERROR(AddInput());
  RETURN_IF_ERROR(AddStored());
  for (const NodeProto* node : model_.nodes) RETURN_IF_ERROR(ImportNode(*node));
  if (!unsupported_.empty()) return UnsupportedError();
  return Finish();
}

absl::StatusOr<ImportedModel> Importer::Finish() {
  const Value& output = values_[model_.output];
  if (output.kind == Value::Kind::kUnknown) {
    return absl::InvalidArgumentError(
        absl::StrCat("the model's output is ", output.name, ", which is not supported"));
  }
  const auto independent = [&] {
    return absl::InvalidArgumentError(
        absl::StrCat("output '", model_.output, "' does not depend on the input"));
  };
  if (output.kind != Value::Kind::kTensor) return independent();
  RETURN_IF_ERROR(CheckOutput(builder_.tensor(output.tensor).type.shape));
  builder_.AddRole(TensorRole::kLogits, output.tensor);
  if (absent_weights_ > 0 && options_.values == WeightValues::kRequired) {
    return AbsentValuesError(model_.origin.name, absent_weights_, absent_file_);
  }
  AddNotes();
  ImportedModel imported;
  imported.notes = std::move(notes_);
  imported.operators = CountOperators(model_);
  imported.opset = model_.opset;
  imported.folded_batch_norms = LayersWithFoldedBatchNorm(model_.nodes);
  imported.side_files = SideFiles();
  ASSIGN_OR_RETURN(imported.graph, std::move(builder_).Build());
  if (unrolled_ > 0) {
    ASSIGN_OR_RETURN(
        imported.graph,
        WithoutDeadOperators(imported.graph, imported.graph.tensors(TensorRole::kLogits)));
  }
  if (!LogitsDependOnSamples(imported.graph)) return independent();
  RETURN_IF_ERROR(values_of_weights_.ReadAll(model_.origin.name));
  return imported;
}

std::vector<std::string> Importer::SideFiles() const {
  std::set<std::string> files;
  for (const auto& [name, stored] : model_.initializers) {
    if (!stored.source.external || model_.origin.folder.empty()) continue;
    files.insert((std::filesystem::path(model_.origin.folder) / stored.source.location).string());
  }
  return {files.begin(), files.end()};
}

void Importer::AddNotes() {
  for (const NodeNote& note : node_notes_) {
    const size_t shown = std::min<size_t>(note.nodes.size(), 2);
    std::string nodes = absl::StrCat(
        "'", absl::StrJoin(note.nodes.begin(), note.nodes.begin() + shown, "', '"), "'");
    if (note.nodes.size() > shown) {
      absl::StrAppend(&nodes, " and ", note.nodes.size() - shown, " more");
    }
    notes_.push_back(absl::StrCat(note.op_type, " ", nodes, ": ", note.what));
  }
  const std::map<std::string, int> uses(weight_uses_.begin(), weight_uses_.end());
  for (const auto& [name, count] : uses) {
    if (count > 1) {
      notes_.push_back(
          absl::StrCat("'", name, "' serves ", count, " operators and is trained as one weight"));
    }
  }
  if (std::string note = NoteOfLikelyFolds(model_.nodes); !note.empty()) {
    notes_.push_back(std::move(note));
  }
  if (absent_weights_ > 0) {
    notes_.push_back(absl::StrCat("the values of ", absent_weights_,
                                  " weights are not there (their side file is absent: '",
                                  absent_file_, "')"));
  }
}

NodeImport::NodeImport(Importer& importer, const NodeProto& node)
    : importer_(importer), node_(node), attributes_(node) {}

const Value& NodeImport::Input(int i) const {
  if (i >= node_.input_size() || node_.input(i).empty()) return absent_;
  const auto found = importer_.values_.find(node_.input(i));
  CHECK(found != importer_.values_.end());
  return found->second;
}

absl::StatusOr<Shape> NodeImport::ShapeOf(int i) const {
  const Value& value = Input(i);
  switch (value.kind) {
    case Value::Kind::kTensor:
      return ShapeOf(value.tensor);
    case Value::Kind::kConstant:
      return value.constant->shape;
    case Value::Kind::kStored: {
      Shape shape = value.stored->source.shape;
      if (value.transposed) std::swap(shape[0], shape[1]);
      return shape;
    }
    case Value::Kind::kRows:
      return value.rows->shape;
    default:
      return absl::InvalidArgumentError(absl::StrCat("input ", i, " is missing"));
  }
}

absl::StatusOr<std::vector<float>> NodeImport::ValuesNow(const StoredTensor& stored) const {
  const std::string& folder = importer_.model_.origin.folder;
  ASSIGN_OR_RETURN(const bool there, HasValues(stored.source, folder));
  std::vector<float> values;
  if (!there) return values;
  RETURN_IF_ERROR(ReadFloats(*stored.proto, stored.source, folder, values));
  return values;
}

absl::StatusOr<Constant> NodeImport::ConstantInput(int i) const {
  const Value& value = Input(i);
  if (value.kind == Value::Kind::kConstant) return *value.constant;
  if (value.kind == Value::Kind::kStored && !value.transposed) {
    return ReadConstant(*value.stored->proto, value.stored->source);
  }
  if (value.kind == Value::Kind::kAbsent) {
    return absl::InvalidArgumentError(absl::StrCat("input ", i, " is missing"));
  }
  return absl::UnimplementedError(
      absl::StrCat("input ", i, " ('", node_.input(i), "') is not a constant"));
}

absl::StatusOr<std::vector<int64_t>> NodeImport::IntsInput(int i) const {
  ASSIGN_OR_RETURN(const Constant c, ConstantInput(i));
  if (c.floating() || c.shape.size() > 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "input ", i, " is ", NameOf(c.type), ToString(c.shape), "; wanted a vector of integers"));
  }
  return c.ints;
}

absl::StatusOr<TensorId> NodeImport::AsWeight(const Value& value, Initializer initializer,
                                              bool trainable) {
  ASSIGN_OR_RETURN(const TensorId id, importer_.AddWeight(value, initializer, trainable));
  if (trainable) ++importer_.weight_uses_[value.name];
  if (!value.transposed) return id;
  return Add(Transpose{.perm = {1, 0}}, {id}, "transposed");
}

absl::StatusOr<TensorId> NodeImport::WeightAsStored(int i, Initializer initializer) {
  Value value = Input(i);
  CHECK(value.kind == Value::Kind::kStored);
  value.transposed = false;
  return AsWeight(value, initializer, /*trainable=*/true);
}

absl::StatusOr<TensorId> NodeImport::Tensor(int i, Initializer initializer) {
  const Value value = Input(i);
  switch (value.kind) {
    case Value::Kind::kTensor:
      if (importer_.builder_.tensor(value.tensor).type.dtype == DType::kInt32) {
        return absl::UnimplementedError(
            absl::StrCat("input ", i, " ('", node_.input(i), "') holds integers"));
      }
      return value.tensor;
    case Value::Kind::kStored:
      return AsWeight(value, initializer, /*trainable=*/true);
    case Value::Kind::kConstant:
      return AsWeight(value, initializer, /*trainable=*/false);
    default:
      return absl::InvalidArgumentError(absl::StrCat("input ", i, " is missing"));
  }
}

absl::StatusOr<TensorId> NodeImport::Indices(int i) const {
  if (!Has(i)) return absl::InvalidArgumentError(absl::StrCat("input ", i, " is missing"));
  const Value& value = Input(i);
  if (value.kind == Value::Kind::kTensor &&
      importer_.builder_.tensor(value.tensor).type.dtype == DType::kInt32) {
    return value.tensor;
  }
  return absl::UnimplementedError(
      absl::StrCat("input ", i, " ('", node_.input(i), "') is not the model's input of integers"));
}

absl::StatusOr<TensorId> NodeImport::Weight(int i, Initializer initializer) {
  const Value value = Input(i);
  if (value.kind == Value::Kind::kTensor || value.kind == Value::Kind::kAbsent) {
    return Tensor(i, initializer);
  }
  if (value.kind == Value::Kind::kConstant) {
    Note(absl::StrCat("its weight '", value.name, "' is a constant of the file; it is trained"));
  }
  return AsWeight(value, initializer, /*trainable=*/true);
}

absl::StatusOr<TensorId> NodeImport::Frozen(int i, Initializer initializer) {
  const Value value = Input(i);
  if (value.kind == Value::Kind::kTensor || value.kind == Value::Kind::kAbsent) {
    return Tensor(i, initializer);
  }
  return AsWeight(value, initializer, /*trainable=*/false);
}

std::string NodeImport::NewName(const std::string& suffix) {
  // A layer is best known by its parameters: "features.0" rather than "node_conv2d".
  constexpr absl::string_view kWeight = ".weight";
  std::string base;
  const Value& weight = Input(1);
  if (weight.kind == Value::Kind::kStored && absl::EndsWith(weight.name, kWeight)) {
    base = weight.name.substr(0, weight.name.size() - kWeight.size());
  }
  if (base.empty()) base = node_.name();
  if (base.empty() && node_.output_size() > 0) base = node_.output(0);
  if (base.empty()) base = node_.op_type();
  return importer_.UniqueName(suffix.empty() ? base : absl::StrCat(base, ".", suffix));
}

absl::StatusOr<TensorId> NodeImport::Add(OpAttrs attrs, std::vector<TensorId> inputs,
                                         const std::string& suffix) {
  RETURN_IF_ERROR(attributes_.status());
  std::vector<Shape> operands;
  for (TensorId id : inputs) operands.push_back(ShapeOf(id));
  ASSIGN_OR_RETURN(const TensorId result,
                   importer_.builder_.Add(
                       {.name = NewName(suffix), .attrs = attrs, .inputs = std::move(inputs)}));
  RETURN_IF_ERROR(CheckWithinLimits(attrs, operands, {{ShapeOf(result)}}));
  return result;
}

void NodeImport::SetTensor(int k, TensorId id) { SetValue(k, TensorValue(id)); }

void NodeImport::SetConstant(int k, Constant constant) {
  Value value;
  value.kind = Value::Kind::kConstant;
  value.constant = std::make_shared<const Constant>(std::move(constant));
  if (HasOutput(k)) value.name = node_.output(k);
  SetValue(k, std::move(value));
}

void NodeImport::SetValue(int k, Value value) {
  if (HasOutput(k)) importer_.values_[node_.output(k)] = std::move(value);
}

void NodeImport::SetStored(int k, const TensorProto& tensor, const TensorSource& source) {
  if (!HasOutput(k)) return;
  importer_.constants_.push_back({&tensor, source});
  Value value;
  value.kind = Value::Kind::kStored;
  value.stored = &importer_.constants_.back();
  value.name = node_.output(k);
  SetValue(k, std::move(value));
}

void NodeImport::Note(const std::string& what) {
  const std::string name = node_.name().empty() ? node_.output(0) : node_.name();
  for (auto& note : importer_.node_notes_) {
    if (note.op_type != node_.op_type() || note.what != what) continue;
    note.nodes.push_back(name);
    return;
  }
  importer_.node_notes_.push_back({node_.op_type(), what, {name}});
}

}  // namespace partita::onnx

namespace partita {

std::vector<std::string> UnsupportedOperators(const absl::Status& status) {
  std::vector<std::string> lines;
  const auto payload = status.GetPayload(onnx::kUnsupportedPayload);
  if (!payload) return lines;
  const std::string text(*payload);
  for (size_t begin = 0; begin < text.size();) {
    size_t end = text.find('\n', begin);
    if (end == std::string::npos) end = text.size();
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

}  // namespace partita
