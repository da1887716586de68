#include <google/protobuf/text_format.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "cost_model/default_cost_model.h"
#include "cost_model/machines.h"
#include "graph/model/microbatch.h"
#include "graph/model/model_io.h"
#include "graph/model/model_loss.h"
#include "graph/model/model_summary.h"
#include "graph/onnx/import.h"
#include "graph/support/status_macros.h"
#include "graph/training/training_graph.h"
#include "graph/zoo/models.h"
#include "planner/evaluator.h"
#include "planner/expert/expert_strategies.h"
#include "proto/model.pb.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/model_inputs.h"
#include "tests/fuzz/text_messages.h"

namespace partita {
namespace {

// A machine that models are planned for.
struct PlanningMachine {
  PlanningMachine() : machine(*FindMachine("p100-4x4", 2)) {
    cost = MakeDefaultCostModel(std::make_shared<const Machine>(machine), DeviceProfiles(2));
  }
  Machine machine;
  std::unique_ptr<CostModel> cost;
};

absl::Status SummariseAndPlan(const Graph& model) {
  static const auto* const kMachine = new PlanningMachine;
  const ModelSummary summary = Summarize(model);
  Demand(summary.macs_per_sample >= 0 && summary.parameters >= 0, "a summary overflows");
  Demand(!SummaryText(summary).empty(), "a summary without text");
  const auto loss = LossOf(model, /*named=*/false);
  Demand(loss.ok() ? !ToString(*loss).empty() : absl::IsInvalidArgument(loss.status()),
         loss.status().ToString());
  ASSIGN_OR_RETURN(const Graph graph, BuildTrainingGraph(model, {}));
  const Evaluator evaluator(graph, kMachine->machine.topology, *kMachine->cost);
  ASSIGN_OR_RETURN(const Strategy strategy, DataParallel(graph, kMachine->machine.topology));
  ASSIGN_OR_RETURN(const EvaluatedStep step, evaluator.EvaluateStep(strategy));
  Demand(step.evaluation.time > Nanos(0), "a step takes no time");
  for (const Bytes peak : step.evaluation.peak) Demand(peak >= Bytes(0), "memory below zero");
  return absl::OkStatus();
}

absl::Status ReadOnnx(const std::string& input) {
  ASSIGN_OR_RETURN(const ImportedModel model, ImportOnnxBytes(input, "damaged.onnx"));
  TryToPlan(model.graph);
  for (const ImportOptions& options :
       {ImportOptions{.batch = 3}, ImportOptions{.batch = -1}, ImportOptions{.freeze_bn = true}}) {
    const absl::Status status = ImportOnnxBytes(input, "damaged.onnx", options).status();
    Demand(status.ok() || absl::IsInvalidArgument(status), status.ToString());
  }
  return absl::OkStatus();
}

// The large files are as rare as they are slow: they are in the corpus of the long run only.
std::vector<std::string> OnnxFiles() {
  std::vector<std::string> files;
  for (const char* name : {"models/alexnet.onnx", "models/alexnet_torchscript.onnx",
                           "models/mlp.onnx", "models/vgg11.onnx", "models/lstm_lm.onnx",
                           "models/lstm_lm_optimized.onnx", "oracle/mlp/model.onnx",
                           "batch_norm/default.onnx", "batch_norm/torchscript_evaluation.onnx"}) {
    files.push_back(TestData(name));
  }
  std::vector<std::string> operators;
  for (const auto& file :
       std::filesystem::directory_iterator(PARTITA_TEST_DATA "/onnx_operators")) {
    if (file.path().extension() == ".onnx") operators.push_back(file.path().filename());
  }
  std::sort(operators.begin(), operators.end());
  for (const std::string& name : operators) files.push_back(TestData("onnx_operators/" + name));
  for (const std::string& model : OnnxOfConstants()) files.push_back(model);
  files.push_back(OnnxWithLstm());
  return files;
}

absl::Status ReadModel(const std::string& input) {
  ASSIGN_OR_RETURN(const ModelFile model, ParseModel(input, "damaged.textproto"));
  TryToPlan(model.graph);
  const auto text = ModelText(model.graph);
  DemandOk(text.status(), "a model that was read is not written");
  DemandOk(ParseModel(*text, "written.textproto").status(), "a model that was written is not read");
  const absl::Status halved = Microbatch(model.graph, 2).status();
  Demand(halved.ok() || absl::IsInvalidArgument(halved), halved.ToString());
  return absl::OkStatus();
}

std::vector<std::string> ModelTexts() {
  std::vector<std::string> texts;
  for (const char* name : {"lenet", "mlp_tiny", "resnet_tiny", "alexnet_caffe2012"}) {
    const auto graph = MakeZooModel(name, 8);
    DemandOk(graph.status(), name);
    texts.push_back(*ModelText(*graph));
  }
  return texts;
}

}  // namespace

void TryToPlan(const Graph& model) {
  const absl::Status status = SummariseAndPlan(model);
  Demand(!absl::IsInternal(status) && !absl::IsUnknown(status), status.ToString());
}

std::string MutateOnnx(Mutator& mutator, const std::string& input, const std::string& other) {
  onnx::ModelProto model;
  const size_t way = mutator.Below(4);
  if (way == 0 || !model.ParseFromString(input)) return mutator.MutateBytes(input, other);
  if (way < 3) return mutator.MutateModel(std::move(model));
  mutator.MutateMessage(model);
  return model.SerializeAsString();
}

std::vector<FuzzTarget> ModelTargets() {
  return {{.name = "onnx",
           .reads = "ONNX models, imported, trained and planned",
           .seeds = OnnxFiles,
           .mutate = MutateOnnx,
           .read = ReadOnnx,
           .inputs = 12'000},
          {.name = "model",
           .reads = "native models, trained and planned",
           .seeds = ModelTexts,
           .mutate = MutateTextMessage<proto::Model>,
           .read = ReadModel,
           .inputs = 4'000}};
}

}  // namespace partita
