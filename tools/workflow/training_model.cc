#include "tools/workflow/training_model.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/model/microbatch.h"
#include "graph/model/rebatch.h"
#include "graph/parallel/plan_io.h"
#include "graph/support/doing.h"
#include "graph/support/error_category.h"
#include "graph/support/status_macros.h"
#include "graph/verify/plan_verifier.h"
#include "tools/workflow/input_path.h"
#include "tools/workflow/stage_ends.h"

namespace partita {

namespace {

// `wanted`: how the model is trained; its source, batch and fingerprint do not count.
absl::StatusOr<Graph> TrainingGraphOf(const Graph& model, const PlanModel& wanted) {
  TrainingOptions training{.in_flight = wanted.in_flight};
  ASSIGN_OR_RETURN(training.optimizer, OptimizerNamed(wanted.optimizer));
  ASSIGN_OR_RETURN(const Graph split, Microbatch(model, wanted.microbatches));
  return BuildTrainingGraph(split, training);
}

namespace fs = std::filesystem;

// Where the model of a plan is.
struct ModelPlace {
  std::string path;
  std::string note;   // LoadedPlan::note
  std::string tried;  // other places, for messages: " (nor is there 'x')"
};

// The file that a plan names, as it is given, from the current folder; where there is none, from the
// plan's folder.
ModelPlace PlaceOfModel(const std::string& plan_path, const proto::PlanModel& model) {
  const std::string& source = model.source();
  if (!IsModelFile(source)) return {source};
  const fs::path folder = fs::path(plan_path).parent_path();
  std::error_code error;
  const bool is_there = fs::exists(source, error);
  ModelPlace place{source};
  for (const std::string& relative : {model.source_from_plan(), source}) {
    if (relative.empty() || fs::path(relative).is_absolute()) continue;
    const std::string other = (folder / relative).lexically_normal().string();
    if (other == fs::path(source).lexically_normal().string()) continue;
    if (!fs::exists(other, error)) {
      absl::StrAppend(&place.tried, place.tried.empty() ? " (nor is there '" : ", '", other, "'");
      continue;
    }
    if (!is_there) {
      return {other, absl::StrCat("the model is '", other, "', found from the plan's folder; '",
                                  source, "' is not there")};
    }
    if (!fs::equivalent(source, other, error)) {
      place.note = absl::StrCat("the model is '", source,
                                "', from the current folder; beside the "
                                "plan there is another, '",
                                other, "' (--model takes it)");
    }
    break;
  }
  if (!place.tried.empty()) place.tried += ")";
  return place;
}

// Of a model that a plan names: it may have moved.
absl::Status NameTheFlag(const absl::Status& status, const ModelPlace& place) {
  // What a plan has is no usage.
  if (IsUsageError(status)) return absl::InvalidArgumentError(status.message());
  if (status.code() != absl::StatusCode::kNotFound) return status;
  const std::string text =
      absl::StrCat("the plan is for model '", place.path, "': ", status.message(), place.tried);
  return absl::NotFoundError(
      absl::StrCat(text, text.back() == '?' ? " " : ". ", "If it has moved: --model"));
}

absl::StatusOr<LoadedPlan> Load(const PlanSource& request, Stages* stages, bool verify) {
  const Doing doing("building plan", request.path);
  RETURN_IF_ERROR(CheckThere(request.path));
  ASSIGN_OR_RETURN(const proto::Plan message, ReadPlanFile(request.path));
  ASSIGN_OR_RETURN(const PlanModel label, PlanModelOf(message));
  // Who has made a plan has said what loss is meant.
  const ModelPlace place = request.model.empty() ? PlaceOfModel(request.path, message.model())
                                                 : ModelPlace{request.model};
  const std::string& source = place.path;
  const ModelRequest wanted{.model = source,
                            .batch = label.batch,
                            .optimizer = label.optimizer,
                            .freeze_batch_norm = label.freeze_batch_norm,
                            .sizes = IsModelFile(source) ? ModelSizes{} : label.sizes,
                            .loss = kCrossEntropyName,
                            .microbatches = label.microbatches,
                            .in_flight = label.in_flight,
                            .values = request.values};
  LoadedPlan loaded;
  auto found = LoadTrainingModel(wanted, stages);
  if (!found.ok() && request.model.empty()) return NameTheFlag(found.status(), place);
  ASSIGN_OR_RETURN(loaded.model, std::move(found));
  loaded.note = place.note;
  auto plan = PlanFromProto(message, loaded.model.graph);
  if (!plan.ok() && !place.note.empty()) {
    return WithMessage(plan.status(), absl::StrCat(plan.status().message(), "; ", place.note));
  }
  ASSIGN_OR_RETURN(loaded.plan, std::move(plan));
  if (verify) RETURN_IF_ERROR(VerifyPlan(loaded.model.graph, loaded.plan));
  loaded.plan.model.source = source;
  loaded.plan.model.sizes = wanted.sizes;
  RETURN_IF_ERROR(EndReading(stages, loaded.model.graph, loaded.plan));
  return loaded;
}

}  // namespace

absl::StatusOr<TrainingModel> LoadTrainingModel(const ModelRequest& request, Stages* stages) {
  if (IsModelFile(request.model)) RETURN_IF_ERROR(CheckThere(request.model));
  TrainingModel model;
  ImportOptions import;
  import.batch = request.batch;
  import.freeze_bn = request.freeze_batch_norm;
  import.sizes = request.sizes;
  import.values = request.values;
  ASSIGN_OR_RETURN(model.imported, LoadModel(request.model, import));
  RETURN_IF_ERROR(EndModel(stages, model.imported));
  const Doing doing("adding gradients to model", request.model);
  ASSIGN_OR_RETURN(model.loss, LossOfFile(request.model, model.imported.graph, request.loss));
  if (model.imported.graph.batch() % request.microbatches != 0) {
    return UsageError(absl::StrCat("a batch of ", model.imported.graph.batch(),
                                   " samples cannot be split into ", request.microbatches,
                                   " equal microbatches; take a number that divides it, or another "
                                   "--batch"));
  }
  model.label = {.source = request.model,
                 .batch = model.imported.graph.batch(),
                 .optimizer = request.optimizer,
                 .freeze_batch_norm = request.freeze_batch_norm,
                 .sizes = request.sizes,
                 .microbatches = request.microbatches,
                 .in_flight = request.in_flight};
  ASSIGN_OR_RETURN(model.graph, TrainingGraphOf(model.imported.graph, model.label));
  model.label.fingerprint = model.graph.fingerprint();
  RETURN_IF_ERROR(EndTrainingGraph(stages, model.graph));
  return model;
}

absl::StatusOr<ModelLoss> LossOfFile(const std::string& name, const Graph& model,
                                     const std::string& loss) {
  auto found = LossOf(model, /*named=*/loss == kCrossEntropyName);
  if (found.ok()) return found;
  return WithMessage(found.status(), absl::StrCat("'", name, "': ", found.status().message()));
}

std::vector<std::string> Warnings(const ImportedModel& model) {
  const std::vector<std::string>& folded = model.folded_batch_norms;
  if (folded.empty()) return {};
  return {absl::StrCat(
      "the exporter has folded batch normalisation into ", folded.size(), " layers ('", folded[0],
      folded.size() > 1 ? absl::StrCat("', '", folded[1]) : "", "'",
      folded.size() > 2 ? ", ..." : "",
      "): training this model is not training the network that was exported. Export it again with "
      "torch.onnx.export(..., dynamo=False, training=torch.onnx.TrainingMode.TRAINING, "
      "do_constant_folding=False), or with optimize=False")};
}

void AddModelFiles(const TrainingModel& model, std::vector<NamedFile>& inputs) {
  if (IsModelFile(model.label.source)) inputs.push_back({"the model", model.label.source});
  for (const std::string& file : model.imported.side_files) {
    inputs.push_back({kSideFile, file});
  }
}

absl::StatusOr<Graph> TrainingGraphAt(int64_t batch, const TrainingModel& model) {
  ASSIGN_OR_RETURN(const Graph graph, Rebatch(model.imported.graph, batch));
  return TrainingGraphOf(graph, model.label);
}

absl::StatusOr<LoadedPlan> ReadPlan(const PlanSource& request, Stages* stages) {
  return Load(request, stages, /*verify=*/false);
}

absl::StatusOr<LoadedPlan> LoadPlan(const PlanSource& request, Stages* stages) {
  return Load(request, stages, /*verify=*/true);
}

}  // namespace partita
