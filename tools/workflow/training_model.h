#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "graph/model_source.h"
#include "graph/parallel/plan.h"
#include "graph/training_graph.h"
#include "tools/workflow/stages.h"

namespace partita {

// Which model to train, as a user says it.
struct ModelRequest {
  std::string model;  // a file or a name of the zoo
  int64_t batch = 0;  // over all devices; 0: the model's own
  std::string optimizer = "sgd";
  bool freeze_batch_norm = false;
};

struct TrainingModel {
  ImportedModel imported;
  Graph graph;      // the training graph
  PlanModel label;  // as plans name it
};

// Errors as LoadModel and BuildTrainingGraph. Ends the stages of both graphs.
absl::StatusOr<TrainingModel> LoadTrainingModel(const ModelRequest& request,
                                                Stages* stages = nullptr);

// A plan file and the training graph that it is for. `model`: where the model is, if not where the
// plan says. Ends the stages of both graphs, of the strategy, the task graph and the plan.
struct LoadedPlan {
  Plan plan;
  TrainingModel model;
};
absl::StatusOr<LoadedPlan> ReadPlan(const std::string& path, const std::string& model = "",
                                    Stages* stages = nullptr);
// The same, and the plan verifier accepts it.
absl::StatusOr<LoadedPlan> LoadPlan(const std::string& path, const std::string& model = "",
                                    Stages* stages = nullptr);

}  // namespace partita
