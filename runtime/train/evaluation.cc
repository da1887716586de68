#include "runtime/train/evaluation.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/model/rebatch.h"
#include "graph/parallel/parts.h"
#include "graph/support/check.h"
#include "graph/support/error_category.h"
#include "graph/support/status_macros.h"
#include "graph/support/stop_flag.h"
#include "graph/training/evaluation_graph.h"
#include "runtime/support/finite.h"

namespace partita {
namespace {

// The degrees of `from` for the loops of another rule, matched by name and extent.
ParallelConfig Carried(const ShardingRule& rule, const ShardingRule& from_rule,
                       const ParallelConfig& from) {
  ParallelConfig config = from;
  config.degrees.assign(rule.loops.size(), 1);
  for (size_t l = 0; l < rule.loops.size(); ++l) {
    for (size_t f = 0; f < from_rule.loops.size(); ++f) {
      if (from_rule.loops[f].name == rule.loops[l].name &&
          from_rule.loops[f].extent == rule.loops[l].extent) {
        config.degrees[l] = from.degrees[f];
      }
    }
  }
  return config;
}

// Every operator of this anchor can be split so.
bool Fits(const Graph& graph, OpId anchor, const ParallelConfig& config, int devices) {
  if (!ValidateConfig(graph.rule(anchor), config, devices).ok()) return false;
  return std::all_of(graph.ops().begin(), graph.ops().end(), [&](const Operator& op) {
    return op.anchor != anchor || PartsOf(graph, op, config).ok();
  });
}

std::map<std::string, TensorId> WeightsByName(const Graph& graph) {
  std::map<std::string, TensorId> ids;
  for (const Weight& weight : graph.weights()) {
    ids[graph.tensor(weight.tensor).name] = weight.tensor;
  }
  return ids;
}

}  // namespace

Strategy EvaluationStrategy(const Graph& evaluation, const Graph& training,
                            const Strategy& strategy, int devices) {
  std::map<std::string, OpId> anchors;
  for (const Operator& op : training.ops()) {
    if (op.anchor != kNoOp) anchors[op.name] = op.anchor;
  }
  Strategy result = SingleDevice(evaluation, strategy.host_device);
  result.host_device = strategy.host_device;
  for (OpId id : evaluation.anchors()) {
    const auto found = anchors.find(evaluation.op(id).name);
    if (found == anchors.end()) continue;
    const ParallelConfig& from = strategy.configs[found->second.index()];
    ParallelConfig config = Carried(evaluation.rule(id), training.rule(found->second), from);
    if (!Fits(evaluation, id, config, devices)) {
      config = Unsplit(evaluation.rule(id), from.devices[0]);
    }
    result.configs[id.index()] = std::move(config);
  }
  if (strategy.weights.empty()) return result;
  result.weights.assign(evaluation.weights().size(), {});
  const auto ids = WeightsByName(evaluation);
  for (size_t w = 0; w < training.weights().size(); ++w) {
    const auto found = ids.find(training.tensor(training.weights()[w].tensor).name);
    if (found == ids.end()) continue;
    for (size_t e = 0; e < evaluation.weights().size(); ++e) {
      if (evaluation.weights()[e].tensor != found->second) continue;
      result.weights[e].parameter = strategy.weights[w].parameter;
    }
  }
  return result;
}

ModelEvaluation::ModelEvaluation(Graph graph, const Graph& training) : graph_(std::move(graph)) {
  const auto ids = WeightsByName(training);
  training_id_.assign(graph_.tensors().size(), kNoTensor);
  for (const Weight& weight : graph_.weights()) {
    const auto found = ids.find(graph_.tensor(weight.tensor).name);
    CHECK(found != ids.end()) << graph_.tensor(weight.tensor).name;
    training_id_[weight.tensor.index()] = found->second;
  }
}

absl::StatusOr<std::unique_ptr<ModelEvaluation>> ModelEvaluation::Create(
    const Graph& model, const Graph& training, const Strategy& strategy,
    const PartitionOptions& options, const ExecutorSetup& setup) {
  // As many samples as the operators of the training graph take, so that they split alike.
  const TensorId samples = training.tensors(TensorRole::kSamples)[0];
  ASSIGN_OR_RETURN(const Graph forward_model,
                   Rebatch(model, training.tensor(samples).type.shape[0]));
  ASSIGN_OR_RETURN(Graph graph, BuildEvaluationGraph(forward_model));
  std::unique_ptr<ModelEvaluation> evaluation(new ModelEvaluation(std::move(graph), training));
  PartitionOptions forward = options;
  forward.extra_outputs.clear();
  ASSIGN_OR_RETURN(PlannedStep step, CanonicalStep(evaluation->graph_,
                                                   EvaluationStrategy(evaluation->graph_, training,
                                                                      strategy, options.devices),
                                                   forward));
  const auto loss = OutputIndex(step.tasks, evaluation->graph_.only(TensorRole::kLoss));
  const auto correct = OutputIndex(step.tasks, evaluation->graph_.only(TensorRole::kCorrect));
  CHECK(loss.has_value() && correct.has_value());
  evaluation->loss_output_ = *loss;
  evaluation->correct_output_ = *correct;
  ASSIGN_OR_RETURN(evaluation->executor_, OpenExecutor(evaluation->graph_, std::move(step), setup));
  return evaluation;
}

absl::Status ModelEvaluation::WriteWeights(const TrainingState& state) {
  for (const Weight& weight : graph_.weights()) {
    if (graph_.consumers(weight.tensor).empty()) continue;
    const std::vector<std::byte>& bytes = state.values[training_id_[weight.tensor.index()].index()];
    RETURN_IF_ERROR(
        executor_->WriteTensor(weight.tensor, {graph_.tensor(weight.tensor).type.dtype, bytes}));
  }
  return absl::OkStatus();
}

absl::Status ModelEvaluation::NotFinite(const Batch& batch, double loss) const {
  const int64_t at = FirstNotFinite(std::span<const float>(batch.x));
  const int64_t elements = static_cast<int64_t>(batch.x.size()) / graph_.batch();
  const int64_t first = batch.index * graph_.batch();
  return NotFiniteError(absl::StrCat(
      "the evaluation's loss is ", loss, " in samples ", first, " to ", first + batch.valid - 1,
      at < 0 ? "; weights and data are finite, values between them are too large: try a lower "
               "learning rate"
             : absl::StrCat(": the data hold ", batch.x[static_cast<size_t>(at)], ", element ",
                            at % elements, " of sample ", first + at / elements)));
}

absl::StatusOr<ModelEvaluation::Sums> ModelEvaluation::RunBatch(const Batch& batch) {
  ASSIGN_OR_RETURN(const StepResult result,
                   executor_->Step(SamplesOf(batch, graph_), LabelsOf(batch), {}));
  if (!std::isfinite(result.outputs[loss_output_])) {
    return NotFinite(batch, result.outputs[loss_output_]);
  }
  return Sums{result.outputs[loss_output_] * static_cast<double>(graph_.batch()),
              result.outputs[correct_output_]};
}

absl::StatusOr<ModelEvaluation::Sums> ModelEvaluation::RunPaddedBatch(Batch& batch) {
  ASSIGN_OR_RETURN(Sums sums, RunBatch(batch));
  const auto samples = static_cast<double>(graph_.batch());
  const auto copies = samples - static_cast<double>(batch.valid);
  if (copies == 0) return sums;
  const auto elements = static_cast<int64_t>(batch.x.size()) / graph_.batch();
  const auto labels = static_cast<int64_t>(batch.labels.size()) / graph_.batch();
  for (int64_t i = 1; i < graph_.batch(); ++i) {
    std::copy_n(batch.x.begin(), elements, batch.x.begin() + i * elements);
    std::copy_n(batch.labels.begin(), labels, batch.labels.begin() + i * labels);
  }
  ASSIGN_OR_RETURN(const Sums first, RunBatch(batch));
  sums.loss -= copies * first.loss / samples;
  sums.correct -= copies * first.correct / samples;
  return sums;
}

absl::StatusOr<EvaluationResult> ModelEvaluation::Run(const TrainingState& state,
                                                      std::shared_ptr<const DataSource> source,
                                                      const LoaderOptions& loader,
                                                      const std::atomic<bool>* stop) {
  RETURN_IF_ERROR(CheckSourceFits(*source, graph_));
  RETURN_IF_ERROR(WriteWeights(state));
  LoaderOptions options = loader;
  options.batch_size = graph_.batch();
  options.shuffle = false;
  options.epochs = 1;
  options.last_batch = LastBatch::kPad;
  options.memory = executor_->batch_memory();
  ASSIGN_OR_RETURN(const auto batches, BatchLoader::Create(source, options));
  EvaluationResult result;
  for (int64_t b = 0; b < batches->batches_per_epoch(); ++b) {
    if (IsSet(stop)) return InterruptedError("evaluation interrupted");
    ASSIGN_OR_RETURN(Batch batch, batches->Next());
    result.samples += batch.valid;
    const absl::StatusOr<Sums> sums = RunPaddedBatch(batch);
    if (absl::IsOutOfRange(sums.status())) {
      return NotFiniteError(absl::StrCat(sums.status().message(), " (", source->Describe(), ")"));
    }
    RETURN_IF_ERROR(sums.status());
    batches->Recycle(std::move(batch));
    result.loss += sums->loss;
    result.accuracy += sums->correct;
    if (on_batch_) on_batch_(b + 1, batches->batches_per_epoch());
  }
  result.loss /= static_cast<double>(result.samples);
  result.accuracy /= static_cast<double>(result.samples * source->labels());
  return result;
}

int64_t LabelsOfSample(const Graph& graph) {
  if (graph.tensors(TensorRole::kLabels).empty()) return 0;
  return Volume(graph.WholeType(TensorRole::kLabels).shape) / graph.batch();
}

HostTensor SamplesOf(const Batch& batch, const Graph& graph) {
  return {graph.WholeType(TensorRole::kSamples).dtype, std::as_bytes(std::span(batch.x))};
}

HostTensor LabelsOf(const Batch& batch) { return HostTensorOf(batch.labels); }

absl::Status CheckSourceFits(const DataSource& source, const Graph& graph) {
  const TensorType input = graph.WholeType(TensorRole::kSamples);
  const bool takes_words = input.dtype == DType::kInt32;
  if (takes_words != source.gives_words()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the model's input is ", ToString(input), takes_words ? " of words; " : "; ",
                     source.Describe(), source.gives_words() ? " are words" : " are no words"));
  }
  if (source.shape().elements() * graph.batch() != Volume(input.shape)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the model takes batches ", ToString(input.shape), "; a sample of ",
                     source.Describe(), " is ", source.shape().ToString()));
  }
  const int64_t labels = LabelsOfSample(graph);
  if (source.labels() != labels) {
    return absl::InvalidArgumentError(absl::StrCat("the model has ", labels,
                                                   " labels for each sample; ", source.Describe(),
                                                   " has ", source.labels()));
  }
  const int64_t classes = graph.WholeType(TensorRole::kLogits).shape.back();
  if (source.classes() > classes) {
    return absl::InvalidArgumentError(absl::StrCat("the model tells ", classes, " classes apart; ",
                                                   source.Describe(), " has ", source.classes()));
  }
  return absl::OkStatus();
}

}  // namespace partita
