#include "tools/workflow/training_model.h"

#include "graph/parallel/plan_io.h"
#include "graph/support/doing.h"
#include "graph/support/status_macros.h"
#include "graph/task/plan_verifier.h"
#include "tools/workflow/stage_ends.h"

namespace partita {

absl::StatusOr<TrainingModel> LoadTrainingModel(const ModelRequest& request, Stages* stages) {
  TrainingModel model;
  ImportOptions import;
  import.batch = request.batch;
  import.freeze_bn = request.freeze_batch_norm;
  ASSIGN_OR_RETURN(model.imported, LoadModel(request.model, import));
  RETURN_IF_ERROR(EndModel(stages, model.imported));
  const Doing doing("adding gradients to model", request.model);
  TrainingOptions training;
  ASSIGN_OR_RETURN(training.optimizer, OptimizerNamed(request.optimizer));
  ASSIGN_OR_RETURN(model.graph, BuildTrainingGraph(model.imported.graph, training));
  model.label = {request.model, model.graph.batch(), request.optimizer, request.freeze_batch_norm,
                 model.graph.fingerprint()};
  RETURN_IF_ERROR(EndTrainingGraph(stages, model.graph));
  return model;
}

namespace {

// Of a model that a plan names: it may have moved.
absl::Status NameTheFlag(const absl::Status& status, const std::string& source) {
  if (status.code() != absl::StatusCode::kNotFound) return status;
  return absl::NotFoundError(absl::StrCat("the plan is for model '", source,
                                          "': ", status.message(), ". If it has moved: --model"));
}

absl::StatusOr<LoadedPlan> Load(const std::string& path, const std::string& model, Stages* stages,
                                bool verify) {
  const Doing doing("building plan", path);
  ASSIGN_OR_RETURN(const proto::Plan message, ReadPlanFile(path));
  ASSIGN_OR_RETURN(const PlanModel label, PlanModelOf(message));
  LoadedPlan loaded;
  auto found = LoadTrainingModel(
      {model.empty() ? label.source : model, label.batch, label.optimizer, label.freeze_batch_norm},
      stages);
  if (!found.ok() && model.empty()) return NameTheFlag(found.status(), label.source);
  ASSIGN_OR_RETURN(loaded.model, std::move(found));
  ASSIGN_OR_RETURN(loaded.plan, PlanFromProto(message, loaded.model.graph));
  if (verify) RETURN_IF_ERROR(VerifyPlan(loaded.model.graph, loaded.plan));
  if (!model.empty()) loaded.plan.model.source = model;
  RETURN_IF_ERROR(EndReading(stages, loaded.model.graph, loaded.plan));
  return loaded;
}

}  // namespace

absl::StatusOr<LoadedPlan> ReadPlan(const std::string& path, const std::string& model,
                                    Stages* stages) {
  return Load(path, model, stages, /*verify=*/false);
}

absl::StatusOr<LoadedPlan> LoadPlan(const std::string& path, const std::string& model,
                                    Stages* stages) {
  return Load(path, model, stages, /*verify=*/true);
}

}  // namespace partita
