#include <google/protobuf/text_format.h>

#include <cstring>
#include <filesystem>

#include "absl/strings/str_replace.h"
#include "graph/model/model_io.h"
#include "graph/model/model_source.h"
#include "graph/model/weights_file.h"
#include "graph/onnx/import.h"
#include "graph/support/status_macros.h"
#include "proto/model.pb.h"
#include "runtime/train/data/safetensors.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/model_inputs.h"
#include "tests/fuzz/text_messages.h"

// Models with weights in files beside them: both are damaged.

namespace partita {
namespace {

constexpr char kSafetensorsName[] = "weights.safetensors";
constexpr char kBinaryName[] = "weights.bin";

bool SameValues(const Graph& a, const Graph& b) {
  const auto same = [](const Weight& x, const Weight& y) {
    if (x.values == nullptr || y.values == nullptr) return x.values == y.values;
    return x.values->size() == y.values->size() &&
           std::memcmp(x.values->data(), y.values->data(), x.values->size() * sizeof(float)) == 0;
  };
  return std::equal(a.weights().begin(), a.weights().end(), b.weights().begin(), b.weights().end(),
                    same);
}

// A model that was read is written with its values and read again.
void WriteAndReadAgain(const ImportedModel& model) {
  static const std::string kPath = Scratch().Write("again/model.textproto", "");
  const auto side = SaveModel(model.graph, kPath, model.folded_batch_norms);
  if (absl::IsInvalidArgument(side.status())) return;  // a name that cannot be saved
  DemandOk(side.status(), "a model that was read is not written");
  const auto again = LoadModel(kPath, {.values = WeightValues::kRequired});
  DemandOk(again.status(), "a model that was written is not read");
  Demand(SameValues(model.graph, again->graph), "values are read as others than were written");
  Demand(again->folded_batch_norms == model.folded_batch_norms, "folded layers are lost");
  if (!side->empty()) std::filesystem::remove(Scratch() / ("again/" + *side));
}

// Reads a model as verbs do: without values, with them, with those that are there; with another
// batch and with frozen statistics.
absl::Status ReadFiles(const std::string& path) {
  const auto skipped = LoadModel(path, {.values = WeightValues::kSkipped});
  const auto required = LoadModel(path, {.values = WeightValues::kRequired});
  const auto found = LoadModel(path);
  Demand(skipped.ok() || !found.ok(), "a model is read with values and not without");
  Demand(found.ok() || !required.ok(), "a model is read only where values are required");
  RETURN_IF_ERROR(found.status());
  for (const Weight& weight : skipped->graph.weights()) {
    Demand(weight.values == nullptr || skipped->side_files.empty() ||
               found->graph.FindWeight(weight.tensor)->values != nullptr,
           "values that are not read");
  }
  Demand(!required.ok() || SameValues(required->graph, found->graph), "other values");
  for (const ImportOptions& options :
       {ImportOptions{.batch = 3}, ImportOptions{.freeze_bn = true}}) {
    const absl::Status status = LoadModel(path, options).status();
    Demand(status.ok() || absl::IsInvalidArgument(status), status.ToString());
  }
  WriteAndReadAgain(*found);
  return absl::OkStatus();
}

// The text with the hash of the values that the side file has for it; as it is where one of them
// cannot be read.
std::string WithHash(const std::string& text, const std::string& side) {
  proto::Model model;
  google::protobuf::TextFormat::Parser parser;
  UnprintedErrors errors;
  parser.RecordErrorsTo(&errors);
  const auto file = SafetensorsFile::Parse(side, "side");
  if (!parser.ParseFromString(text, &model) || !file.ok()) return text;
  WeightsHash hash;
  for (const proto::ModelItem& item : model.item()) {
    if (!item.weight().stored()) continue;
    const auto values = file->Floats(item.weight().name());
    const Shape shape(item.weight().shape().begin(), item.weight().shape().end());
    if (!values.ok() || !hash.Add(item.weight().name(), shape, *values).ok()) return text;
  }
  const auto digits = hash.Digits();
  DemandOk(digits.status(), "a hash");
  model.set_weights_hash(*digits);
  std::string result;
  google::protobuf::TextFormat::PrintToString(model, &result);
  return result;
}

// A model as it is saved, with its side file.
std::string Saved(const Graph& model) {
  const std::string path = Scratch().Write("seed/model.textproto", "");
  const auto side = SaveModel(model, path, {"conv", "out"});
  DemandOk(side.status(), "a model");
  return JoinFiles({absl::StrReplaceAll(FileContent(path), {{*side, kSafetensorsName}}),
                    FileContent(Scratch() / ("seed/" + *side))});
}

std::vector<std::string> SavedModels() {
  std::vector<std::string> inputs;
  const std::vector<std::string> onnx = {OnnxWithBatchNorm(), TestData("oracle/mlp/model.onnx")};
  for (const std::string& bytes : onnx) {
    const auto model = ImportOnnxBytes(bytes, "net.onnx");
    DemandOk(model.status(), "a model");
    inputs.push_back(Saved(model->graph));
  }
  const auto files = SplitFiles(inputs[0], 2);
  inputs.push_back(JoinFiles(
      {absl::StrReplaceAll(files[0], {{kSafetensorsName, "absent.safetensors"}}), files[1]}));
  return inputs;
}

std::string MutateSavedModel(Mutator& mutator, const std::string& input, const std::string& other) {
  auto files = SplitFiles(input, 2);
  const auto others = SplitFiles(other, 2);
  const size_t way = mutator.Below(3);
  if (way != 1) files[0] = MutateTextMessage<proto::Model>(mutator, files[0], others[0]);
  if (way != 0) files[1] = MutateSafetensors(mutator, files[1], others[1]);
  if (mutator.Below(3) != 0) files[0] = WithHash(files[0], files[1]);
  return JoinFiles(files);
}

absl::Status ReadSavedModel(const std::string& input) {
  const auto files = SplitFiles(input, 2);
  Scratch().Write(std::string("saved/") + kSafetensorsName, files[1]);
  return ReadFiles(Scratch().Write("saved/model.textproto", files[0]));
}

std::vector<std::string> OnnxSets() {
  const auto files = OnnxWithSideFile(kBinaryName);
  return {JoinFiles(files), JoinFiles({files[0], files[1].substr(0, 500)}),
          JoinFiles({OnnxWithSideFile("absent.bin")[0], files[1]})};
}

// Where weights are in a side file, and which part of it.
void MutateExternal(Mutator& mutator, onnx::ModelProto& model) {
  static const auto* const kValues = new std::vector<std::string>{kBinaryName,
                                                                  "absent.bin",
                                                                  "out.bin",
                                                                  "../weights.bin",
                                                                  "/dev/null",
                                                                  "",
                                                                  std::string(5000, 'a'),
                                                                  std::string("a\0b", 3),
                                                                  ".",
                                                                  "weights.bin/x",
                                                                  "144",
                                                                  "1"};
  auto& tensors = *model.mutable_graph()->mutable_initializer();
  if (tensors.empty()) return;
  onnx::TensorProto& tensor = tensors[static_cast<int>(mutator.Below(tensors.size()))];
  if (mutator.Below(4) == 0) tensor.set_data_type(static_cast<int32_t>(mutator.Below(18)));
  if (tensor.external_data().empty()) {
    tensor.set_data_location(1);
    tensor.add_external_data()->set_key("location");
  }
  auto& entries = *tensor.mutable_external_data();
  auto& entry = entries[static_cast<int>(mutator.Below(entries.size()))];
  entry.set_value(mutator.Below(3) == 0 ? std::to_string(mutator.ExtremeInteger())
                                        : (*kValues)[mutator.Below(kValues->size())]);
}

std::string MutateOnnxSet(Mutator& mutator, const std::string& input, const std::string& other) {
  auto files = SplitFiles(input, 2);
  const auto others = SplitFiles(other, 2);
  onnx::ModelProto model;
  const size_t way = mutator.Below(4);
  if (way < 2 && model.ParseFromString(files[0])) {
    MutateExternal(mutator, model);
    files[0] = model.SerializeAsString();
  } else if (way == 2) {
    files[0] = MutateOnnx(mutator, files[0], others[0]);
  } else {
    files[1] = mutator.MutateBytes(files[1], others[1]);
  }
  return JoinFiles(files);
}

absl::Status ReadOnnxSet(const std::string& input) {
  static const bool kLink = [] {
    Scratch().Write("elsewhere.bin", std::string(10'000, 'x'));
    Scratch().Write("set/model.onnx", "");
    std::filesystem::create_symlink("../elsewhere.bin", Scratch() / "set/out.bin");
    return true;
  }();
  Demand(kLink, "a link out of the folder");
  const auto files = SplitFiles(input, 2);
  Scratch().Write(std::string("set/") + kBinaryName, files[1]);
  return ReadFiles(Scratch().Write("set/model.onnx", files[0]));
}

}  // namespace

std::vector<FuzzTarget> WeightsTargets() {
  return {{.name = "saved_model",
           .reads = "native models and their weights' files, read and written again",
           .seeds = SavedModels,
           .mutate = MutateSavedModel,
           .read = ReadSavedModel,
           .inputs = 1'000},
          {.name = "onnx_set",
           .reads = "ONNX models with weights in files beside them",
           .seeds = OnnxSets,
           .mutate = MutateOnnxSet,
           .read = ReadOnnxSet,
           .inputs = 1'000}};
}

}  // namespace partita
