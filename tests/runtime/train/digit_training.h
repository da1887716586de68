#pragma once

#include <memory>
#include <string>
#include <utility>

#include "graph/training/training_graph.h"
#include "graph/zoo/net.h"
#include "runtime/backend/backends.h"
#include "runtime/train/data/synthetic_digits.h"
#include "runtime/train/trainer.h"
#include "tests/testing/by_sample.h"
#include "tests/testing/model_writer.h"

namespace partita {

// A small convolution net for 28 x 28 digits.
inline Graph DigitModel(int64_t batch, bool with_norm_and_dropout = false) {
  Net net("digits", {batch, 1, 28, 28});
  net.Conv("conv", {.out = 8, .kernel = 5, .stride = 2});
  if (with_norm_and_dropout) net.BatchNorm("bn");
  net.Relu("relu").MaxPool("pool", {});
  net.Flatten("flat");
  if (with_norm_and_dropout) net.Dropout("dropout", 0.25);
  net.Linear("fc", 10);
  return ModelWriter::Get(std::move(net).Finish());
}

inline std::shared_ptr<const DataSource> Digits(int64_t size, DataSplit split) {
  return ModelWriter::Get(MakeSyntheticDigitsSource({.size = size, .split = split}));
}

inline const TrainerOptions kTenSteps = {.steps = 10, .arguments = {.learning_rate = 0.05}};

// A model on its devices, ready to be trained.
struct TrainingRun {
  TrainingRun(Graph forward, int device_count, bool record_timeline = false,
              std::shared_ptr<const Backend> backend = ModelWriter::Get(MakeBackend("reference")))
      : devices(device_count),
        model(std::move(forward)),
        graph(ModelWriter::Get(BuildTrainingGraph(model, {}))),
        strategy(devices == 1 ? SingleDevice(graph, DeviceId(0)) : BySample(graph, devices)),
        setup{.devices = VirtualDevices(backend, devices),
              .communicator = backend->RunsOnHost() ? "inproc" : "streams",
              .record_timeline = record_timeline},
        executor(ModelWriter::Get(OpenExecutor(
            graph, ModelWriter::Get(CanonicalStep(graph, strategy, {.devices = devices})), setup))),
        evaluation(ModelWriter::Get(
            ModelEvaluation::Create(model, graph, strategy, {.devices = devices}, setup))) {}

  std::unique_ptr<Trainer> MakeTrainer(std::shared_ptr<const DataSource> source,
                                       TrainerOptions options, TrainingState start,
                                       EvaluationData evaluation_data = {}) {
    return ModelWriter::Get(
        Trainer::Create(graph, *executor,
                        {std::move(start),
                         {.source = std::move(source), .loader = {.workers = 1, .seed = 3}},
                         std::move(options),
                         std::move(evaluation_data)}));
  }
  TrainingState Start() const { return ModelWriter::Get(InitialState(graph, 5)); }

  int devices;
  Graph model, graph;
  Strategy strategy;
  ExecutorSetup setup;
  std::unique_ptr<Executor> executor;
  std::unique_ptr<ModelEvaluation> evaluation;
};

}  // namespace partita
