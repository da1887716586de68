#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/graph.h"
#include "graph/model/model_loss.h"
#include "graph/model/model_source.h"
#include "graph/parallel/plan.h"
#include "graph/training/training_graph.h"
#include "graph/zoo/models.h"
#include "tools/workflow/option_checks.h"
#include "tools/workflow/output_path.h"
#include "tools/workflow/stages.h"

namespace partita {

// Request for a model to train, as a user states it.
struct ModelRequest {
  std::string model;  // a file or a name of the zoo
  int64_t batch = 0;  // batch over all devices; 0: the model's own
  std::string optimizer = "sgd";
  bool freeze_batch_norm = false;
  ModelSizes sizes;  // chosen ones of a model of the zoo
  std::string loss;  // loss as the user names it; empty: derived from the output
  int microbatches = 1;
  int in_flight = 1;  // as TrainingOptions
  WeightValues values = WeightValues::kIfPresent;

  template <class Self, class Visitor>
  static void VisitFields(Self& self, Visitor&& visit) {
    VisitModel(self, visit);
    visit(Option{.name = "optimizer",
                 .help = "sgd, nesterov, adam",
                 .check = NameOf("optimizer", {"sgd", "nesterov", "adam"}),
                 .group = "Training",
                 .changes_plan = true},
          self.optimizer);
    visit(Option{.name = "microbatches",
                 .help = "equal parts of the batch that go forward and backward one after another; "
                         "their gradients add up to one update",
                 .check = WholeNumber(1, kMostMicrobatches),
                 .group = "Training",
                 .changes_plan = true},
          self.microbatches);
    visit(Option{.name = "in_flight",
                 .help = "most microbatches whose activations are held at a time; 0: all",
                 .check = WholeNumber(0, kMostMicrobatches),
                 .needs = "microbatches",
                 .group = "Training",
                 .changes_plan = true},
          self.in_flight);
  }
  // The options that say what the model is, without how it is trained.
  template <class Self, class Visitor>
  static void VisitModel(Self& self, Visitor&& visit) {
    visit(Option{.name = "model",
                 .help = "an .onnx or .textproto file, or a zoo name (partita list models)",
                 .check = ModelName(),
                 .positional = true,
                 .required = true,
                 .changes_plan = true},
          self.model);
    visit(Option{.name = "batch",
                 .help = "samples in one step over all devices",
                 .check = WholeNumber(1, kLargestBatch),
                 .unset = "0",
                 .fallback = "the model's own",
                 .changes_plan = true},
          self.batch);
    visit(Option{.name = "freeze_bn",
                 .help = "keep batch normalisation's statistics",
                 .changes_plan = true},
          self.freeze_batch_norm);
    VisitSizes(self.sizes, visit);
    visit(Option{.name = "loss",
                 .help = "cross_entropy: the output is class scores, whatever it looks like",
                 .check = NameOf("loss", {kCrossEntropyName}),
                 .changes_plan = true},
          self.loss);
  }
  template <class Sizes, class Visitor>
  static void VisitSizes(Sizes& sizes, Visitor&& visit) {
    const auto number = [](const char* name, const char* help, int64_t most) {
      return Option{.name = name,
                    .help = help,
                    .check = WholeNumber(1, most),
                    .unset = "0",
                    .fallback = "the model's own",
                    .changes_plan = true};
    };
    visit(
        number("unroll", "steps of a recurrent zoo model, of nmt for each language", kMostUnrolled),
        sizes.unroll);
    visit(Option{.name = "size",
                 .help = absl::StrCat("of gpt, as of GPT-3: ", absl::StrJoin(GptSizeNames(), ", ")),
                 .check = NameOf("size", GptSizeNames()),
                 .fallback = "125m",
                 .changes_plan = true},
          sizes.size);
    visit(number("layers", "of gpt, in place of its size's", kMostLayers), sizes.layers);
    visit(number("width", "channels of a word of gpt", kMostWidth), sizes.width);
    visit(number("heads", "of gpt's attention; their number divides the width", kMostWidth),
          sizes.heads);
    visit(number("sequence", "words in a sample of gpt", kMostSequence), sizes.sequence);
    visit(number("vocabulary", "different words of gpt", kMostVocabulary), sizes.vocabulary);
  }
};

struct TrainingModel {
  ImportedModel imported;
  ModelLoss loss;
  Graph graph;      // the training graph
  PlanModel label;  // name of the model in plans
};

// Errors as LoadModel, LossOf and BuildTrainingGraph. Ends the stages of both graphs.
absl::StatusOr<TrainingModel> LoadTrainingModel(const ModelRequest& request,
                                                Stages* stages = nullptr);

// LossOf a model that the user calls `name`; `loss` as in ModelRequest.
absl::StatusOr<ModelLoss> LossOfFile(const std::string& name, const Graph& model,
                                     const std::string& loss);

// A warning for each thing that makes what is trained another network than the one that was
// exported, with what to do.
std::vector<std::string> Warnings(const ImportedModel& model);

// Name in messages of a file of values beside the model's own.
constexpr char kSideFile[] = "the model's weights";
// The files that the model is read from, as inputs for CheckApart.
void AddModelFiles(const TrainingModel& model, std::vector<NamedFile>& inputs);

// The model at another batch, without reading its file again.
absl::StatusOr<Graph> TrainingGraphAt(int64_t batch, const TrainingModel& model);

// A plan file and the training graph that it is for.
struct LoadedPlan {
  Plan plan;
  TrainingModel model;
  std::string note;  // for people: where the model was found, if that may not be what was meant
};
struct PlanSource {
  std::string path;
  std::string model;  // path of the model; empty: the plan's
  WeightValues values = WeightValues::kIfPresent;
};
// Ends the stages of both graphs, of the strategy, the task graph and the plan.
absl::StatusOr<LoadedPlan> ReadPlan(const PlanSource& source, Stages* stages = nullptr);
// The same, and the plan verifier accepts it.
absl::StatusOr<LoadedPlan> LoadPlan(const PlanSource& source, Stages* stages = nullptr);

}  // namespace partita
