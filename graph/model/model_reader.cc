#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "graph/dependence.h"
#include "graph/model/model_attributes.h"
#include "graph/model/model_io.h"
#include "graph/model/model_limits.h"
#include "graph/model/weights_file.h"
#include "graph/support/error_category.h"
#include "graph/support/file.h"
#include "graph/support/status_macros.h"
#include "proto/machine.pb.h"
#include "proto/plan.pb.h"

namespace partita {
namespace {

static_assert(std::endian::native == std::endian::little, "values are stored little endian");

constexpr int64_t kMaxTextBytes = int64_t{32} << 20;

// Remembers the first error of the text parser.
class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, google::protobuf::io::ColumnNumber column,
                const std::string& message) override {
    if (text.empty())
      text = absl::StrCat("line ", line + 1, ", column ", column + 1, ": ", message);
  }
  std::string text;
};

class ModelReader {
 public:
  // `weights`: the side file, or null where it is absent.
  ModelReader(const proto::Model& model, const WeightsFile* weights, WeightValues values)
      : model_(model), weights_(weights), values_(values), builder_(model.name()) {}

  absl::StatusOr<Graph> Run() {
    for (int i = 0; i < model_.item_size(); ++i) {
      absl::Status status = AddItem(model_.item(i));
      if (!status.ok()) return InvalidInput("item ", i, ": ", status.message());
    }
    for (const auto& [op, anchor] : anchors_) {
      const auto found = ops_.find(anchor);
      if (found == ops_.end()) return InvalidInput("'", anchor, "', an anchor, is no operator");
      builder_.SetAnchor(op, found->second);
    }
    RETURN_IF_ERROR(AddControlEdges());
    const auto logits = tensors_.find(model_.logits());
    if (logits == tensors_.end())
      return InvalidInput("logits '", model_.logits(), "' do not exist");
    if (!has_input_) return InvalidInput("it has no input");
    builder_.AddRole(TensorRole::kLogits, logits->second);
    ASSIGN_OR_RETURN(Graph graph, std::move(builder_).Build());
    RETURN_IF_ERROR(CheckAnchors(graph));
    if (!LogitsDependOnSamples(graph)) {
      return InvalidInput("logits '", model_.logits(), "' do not depend on the input");
    }
    return graph;
  }

  // Reads the values of the graph that Run returned.
  absl::Status ReadValues(const std::string& name) {
    RETURN_IF_ERROR(pending_.ReadAll(name));
    if (stored_ == 0 || values_ == WeightValues::kSkipped) return absl::OkStatus();
    ASSIGN_OR_RETURN(const std::string hash, hash_.Digits());
    if (hash == model_.weights_hash()) return absl::OkStatus();
    return InvalidInput("the values in '", weights_->path(), "' have the hash ", hash,
                        ", those that '", name, "' was written with ", model_.weights_hash(),
                        ": they were changed since. Put the old file back; or write the model anew "
                        "(partita import SOURCE -o ",
                        name,
                        "); or, to start from the changed values, put their file elsewhere, under "
                        "another name, and load it (run --load)");
  }
  int stored() const { return stored_; }

 private:
  absl::Status AddItem(const proto::ModelItem& item) {
    if (item.has_input()) return AddInput(item.input());
    if (item.has_weight()) return AddWeight(item.weight());
    if (item.has_operator_()) return AddOperator(item.operator_());
    return InvalidInput("it is empty");
  }

  template <class Item>
  static absl::StatusOr<TensorType> ReadType(const Item& item) {
    if (item.shape_size() > 8)
      return InvalidInput("'", item.name(), "' has more than 8 dimensions");
    TensorType type{DType::kFloat32, Shape(item.shape().begin(), item.shape().end())};
    ASSIGN_OR_RETURN(const int64_t volume, CheckedVolume(type.shape));
    if (item.name().empty()) return InvalidInput("it has no name");
    if (volume == 0) return InvalidInput("'", item.name(), "' has no elements");
    return type;
  }

  absl::Status AddInput(const proto::ModelInput& input) {
    ASSIGN_OR_RETURN(TensorType type, ReadType(input));
    if (input.integers()) type.dtype = DType::kInt32;
    if (has_input_) return InvalidInput("'", input.name(), "' is a second input");
    if (type.shape.empty()) return InvalidInput("input '", input.name(), "' is a scalar");
    has_input_ = true;
    ASSIGN_OR_RETURN(tensors_[input.name()], builder_.AddInput(input.name(), type));
    return absl::OkStatus();
  }

  absl::Status AddWeight(const proto::ModelWeight& weight) {
    ASSIGN_OR_RETURN(const TensorType type, ReadType(weight));
    Initializer initializer{.value = weight.constant()};
    if (weight.fan_in() != 0) {
      initializer = {.kind = Initializer::Kind::kUniformFanIn, .fan_in = weight.fan_in()};
    }
    if (weight.fan_in() < 0 || !std::isfinite(weight.constant())) {
      return InvalidInput("weight '", weight.name(), "' has no valid initial values");
    }
    std::shared_ptr<const std::vector<float>> values;
    if (weight.has_inline_values()) {
      const std::string& bytes = weight.inline_values();
      if (static_cast<int64_t>(bytes.size()) != type.bytes()) {
        return InvalidInput("weight '", weight.name(), "' has ", bytes.size(), " bytes of values; ",
                            ToString(type), " needs ", type.bytes());
      }
      auto floats = std::make_shared<std::vector<float>>(bytes.size() / sizeof(float));
      std::memcpy(floats->data(), bytes.data(), bytes.size());
      values = std::move(floats);
    } else if (weight.has_offset()) {
      return InvalidInput("weight '", weight.name(), "' is found by offset; wanted: stored: true");
    } else if (weight.stored()) {
      ASSIGN_OR_RETURN(values, Stored(weight.name(), type.shape));
    }
    ASSIGN_OR_RETURN(
        tensors_[weight.name()],
        builder_.AddWeight(weight.name(), type, initializer, std::move(values), !weight.frozen()));
    return absl::OkStatus();
  }

  absl::Status AddControlEdges() {
    for (const proto::ModelItem& item : model_.item()) {
      if (!item.has_operator_() || item.operator_().after().empty()) continue;
      const proto::ModelOperator& op = item.operator_();
      std::vector<OpId> after;
      for (const std::string& name : op.after()) {
        const auto found = ops_.find(name);
        if (found == ops_.end()) {
          return InvalidInput("operator '", op.name(), "' is after '", name,
                              "', which is no operator");
        }
        after.push_back(found->second);
      }
      builder_.SetAfter(ops_.at(op.name()), std::move(after));
    }
    return absl::OkStatus();
  }

  // Null where there is no side file, or it is not read.
  absl::StatusOr<std::shared_ptr<const std::vector<float>>> Stored(const std::string& name,
                                                                   const Shape& shape) {
    ++stored_;
    if (weights_ == nullptr) return nullptr;
    ASSIGN_OR_RETURN(const int64_t offset, weights_->Find(name, shape));
    if (values_ == WeightValues::kSkipped) return nullptr;
    return pending_.Add(Volume(shape),
                        [this, offset, name, shape](std::vector<float>& values) -> absl::Status {
                          RETURN_IF_ERROR(weights_->Read(offset, Volume(shape), values));
                          return hash_.Add(name, shape, values);
                        });
  }

  absl::StatusOr<std::vector<TensorId>> Find(
      const google::protobuf::RepeatedPtrField<std::string>& names) const {
    std::vector<TensorId> ids;
    for (const std::string& name : names) {
      const auto found = tensors_.find(name);
      if (found == tensors_.end()) {
        return InvalidInput("there is no tensor '", name, "' before it");
      }
      ids.push_back(found->second);
    }
    return ids;
  }

  absl::Status AddOperator(const proto::ModelOperator& op) {
    const auto at = [&op](const absl::Status& status) {
      return InvalidInput("operator '", op.name(), "': ", status.message());
    };
    if (op.name().empty()) return InvalidInput("an operator has no name");
    auto attrs = ReadAttrs(op);
    if (!attrs.ok()) return at(attrs.status());
    auto inputs = Find(op.input());
    if (!inputs.ok()) return at(inputs.status());
    auto persistent = Find(op.persistent());
    if (!persistent.ok()) return at(persistent.status());
    for (TensorId id : *persistent) {
      if (builder_.tensor(id).kind != TensorKind::kWeight) {
        return at(InvalidInput("it updates '", builder_.tensor(id).name, "', which is no weight"));
      }
    }
    std::vector<Shape> operands;
    for (TensorId id : *inputs) operands.push_back(builder_.tensor(id).type.shape);
    absl::StatusOr<OpId> id = kNoOp;
    if (persistent->empty()) {
      id = builder_.AddOp({.name = op.name(), .attrs = *attrs, .inputs = *inputs});
    } else {
      id = builder_.AddUpdate(
          {.name = op.name(), .attrs = *attrs, .inputs = *inputs, .persistent = *persistent});
    }
    if (!id.ok()) return id.status();
    ops_[op.name()] = *id;
    std::vector<Shape> results;
    for (TensorId result : builder_.op(*id).outputs) {
      tensors_[builder_.tensor(result).name] = result;
      results.push_back(builder_.tensor(result).type.shape);
    }
    if (!op.anchor().empty() && persistent->empty()) anchors_.emplace_back(*id, op.anchor());
    absl::Status status = CheckWithinLimits(*attrs, operands, results);
    return status.ok() ? status : at(status);
  }

  // An operator takes the configuration of its anchor, so it has no loops but the anchor's.
  static absl::Status CheckAnchors(const Graph& graph) {
    for (const Operator& op : graph.ops()) {
      if (op.anchor == kNoOp || op.anchor == op.id) continue;
      const ShardingRule& rule = graph.rule(op.anchor);
      for (const LoopDim& loop : graph.rule(op.id).loops) {
        const int k = rule.FindLoop(loop.name);
        if (k >= 0 && rule.loops[static_cast<size_t>(k)].extent == loop.extent) continue;
        return InvalidInput("operator '", op.name, "' is anchored to '", graph.op(op.anchor).name,
                            "', which has no loop ", loop.name, " of extent ", loop.extent);
      }
    }
    return absl::OkStatus();
  }

  const proto::Model& model_;
  const WeightsFile* const weights_;
  const WeightValues values_;
  GraphBuilder builder_;
  PendingValues pending_;
  WeightsHash hash_;
  int stored_ = 0;
  absl::flat_hash_map<std::string, TensorId> tensors_;
  absl::flat_hash_map<std::string, OpId> ops_;
  std::vector<std::pair<OpId, std::string>> anchors_;
  bool has_input_ = false;
};

// The side file's path; empty if it has none. `folder` empty: nowhere.
absl::StatusOr<std::string> WeightsPathOf(const proto::Model& model, const std::string& folder) {
  const std::filesystem::path file(model.weights_file());
  if (file.empty()) return std::string();
  if (file != file.filename() || file == "." || file == "..") {
    return InvalidInput("weights_file '", model.weights_file(),
                        "' must be a file in its own folder");
  }
  return folder.empty() ? std::string() : (std::filesystem::path(folder) / file).string();
}

// The first error of a text as a message of the type; empty: it is one.
std::string FirstErrorOf(const std::string& text, google::protobuf::Message& message) {
  FirstError first;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&first);
  parser.SetRecursionLimit(20);  // as for plans, the deepest of the forms
  return parser.ParseFromString(text, &message) ? "" : first.text;
}

// What a text is that is no model, and what takes it; empty where it is no other form either.
std::string OtherForm(const std::string& text, const std::string& name) {
  proto::Plan plan;
  if (FirstErrorOf(text, plan).empty() && !plan.model().source().empty()) {
    const std::string& source = plan.model().source();
    const int64_t batch = plan.model().batch();
    return absl::StrCat("it is a plan, of the model '", source, "' at batch ", batch,
                        ". Name the model, and plans after it where they are wanted: `partita "
                        "compare ",
                        source, " ", name, " --batch ", batch,
                        "`; run, verify and simulate take the plan alone");
  }
  proto::Machine machine;
  if (FirstErrorOf(text, machine).empty() && machine.has_topology()) {
    return absl::StrCat("it is a machine: `--machine ", name, "` plans for it");
  }
  return "";
}

absl::Status ParseText(const std::string& text, const std::string& name, proto::Model& model) {
  if (static_cast<int64_t>(text.size()) > kMaxTextBytes) {
    return InvalidInput("its text has more than ", kMaxTextBytes, " bytes");
  }
  const std::string error = FirstErrorOf(text, model);
  if (!error.empty()) {
    const std::string other = OtherForm(text, name);
    return InvalidInput(other.empty() ? error : other);
  }
  if (model.format_version() == kModelFormatVersion) return absl::OkStatus();
  return InvalidInput("its format_version is ", model.format_version(), "; wanted ",
                      kModelFormatVersion, ": write it anew with partita import");
}

// Where the model's text comes from: what messages call it, and where its side file is.
struct Origin {
  std::string name, folder;
};

absl::Status NotAModel(const Origin& origin, const absl::Status& why) {
  return WithMessage(why, absl::StrCat("'", origin.name, "' is not a model: ", why.message()));
}

// What `model` says of its weights where `reader` found no side file.
absl::Status NoteAbsentValues(const proto::Model& model, const ModelReader& reader,
                              const Origin& origin, WeightValues values, ModelFile& file) {
  if (reader.stored() == 0) return absl::OkStatus();
  if (values == WeightValues::kRequired) {
    return AbsentValuesError(origin.name, reader.stored(), model.weights_file());
  }
  file.notes.push_back(
      absl::StrCat("'", model.weights_file(), "' is absent; training starts from initial values"));
  return absl::OkStatus();
}

absl::StatusOr<ModelFile> ReadModel(const std::string& text, const Origin& origin,
                                    WeightValues values) {
  proto::Model model;
  if (absl::Status status = ParseText(text, origin.name, model); !status.ok()) {
    return NotAModel(origin, status);
  }
  const auto path = WeightsPathOf(model, origin.folder);
  if (!path.ok()) return NotAModel(origin, path.status());
  std::optional<WeightsFile> weights;
  std::error_code error;
  if (!path->empty() && std::filesystem::exists(*path, error)) {
    ASSIGN_OR_RETURN(WeightsFile opened, WeightsFile::Open(*path));
    weights.emplace(std::move(opened));
  }
  ModelReader reader(model, weights.has_value() ? &*weights : nullptr, values);
  auto graph = reader.Run();
  if (!graph.ok()) return NotAModel(origin, graph.status());
  ModelFile file{
      .graph = *std::move(graph),
      .folded_batch_norms = {model.folded_batch_norm().begin(), model.folded_batch_norm().end()},
      .notes = {},
      .side_file = *path};
  if (!weights.has_value()) {
    RETURN_IF_ERROR(NoteAbsentValues(model, reader, origin, values, file));
  } else {
    RETURN_IF_ERROR(reader.ReadValues(origin.name));
  }
  return file;
}

}  // namespace

absl::StatusOr<ModelFile> ParseModel(const std::string& text, const std::string& name,
                                     WeightValues values) {
  return ReadModel(text, {name, ""}, values);
}

absl::StatusOr<ModelFile> LoadModelFile(const std::string& path, WeightValues values) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxTextBytes));
  std::string folder = std::filesystem::path(path).parent_path().string();
  if (folder.empty()) folder = ".";
  return ReadModel(text, {path, folder}, values);
}

}  // namespace partita
