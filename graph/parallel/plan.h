#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/model_sizes.h"
#include "graph/parallel/device_topology.h"
#include "graph/parallel/strategy.h"
#include "graph/precision.h"
#include "graph/support/strong_int.h"

namespace partita {

// Identity of the model that a plan is for.
struct PlanModel {
  std::string source;  // path of a file, or the name of a zoo model
  int64_t batch = 0;   // samples in one step, over all devices
  std::string optimizer = "sgd";
  bool freeze_batch_norm = false;
  ModelSizes sizes;      // chosen ones of a model of the zoo
  int microbatches = 1;  // equal parts of the batch, which add up to one step
  // Most microbatches whose activations are held at a time (control edges see to it); 0: all. Of
  // no meaning with one microbatch.
  int in_flight = 1;
  uint64_t fingerprint = 0;  // fingerprint of the training graph
  friend bool operator==(const PlanModel&, const PlanModel&) = default;
};

// Choices about a task graph besides the strategy.
struct PartitionChoices {
  bool collectives = true;
  // Broadcasts that move at most so many bytes in all go point to point.
  int64_t direct_bytes = int64_t{64} << 10;
  bool fuse = true;
  bool native_formats = false;  // true: native formats, on backends that have one
  // Precision of products on GPUs: that of the prediction, and of a run by default. Classes of GPUs
  // whose backend does not have it stay with float32.
  Precision precision = Precision::kFloat32;
  std::vector<std::string> float32_classes = {};
  // Whether the prediction is of GPUs whose bits may differ from run to run (see
  // KernelSignature::deterministic); a run is deterministic unless it is asked not to be.
  bool nondeterministic = false;
  friend bool operator==(const PartitionChoices&, const PartitionChoices&) = default;
};

// Prediction of time and memory of the plan on its machine.
struct Prediction {
  Nanos time;
  std::vector<Bytes> peak;      // indexed by device
  std::vector<Bytes> received;  // indexed by device
  // Tasks whose duration was measured, interpolated, computed from the machine's figures.
  int64_t measured = 0, interpolated = 0, roofline = 0;
  friend bool operator==(const Prediction&, const Prediction&) = default;
};

// Provenance of the plan: how it was found.
struct Provenance {
  std::string program_version;
  std::string search;   // a search algorithm or an expert strategy
  std::string machine;  // machine that it was planned and priced for: a name or a machine file
  uint64_t seed = 0;
  int64_t evaluations = 0;
  std::vector<std::string> options;  // "name=value"
  friend bool operator==(const Provenance&, const Provenance&) = default;
};

// The total order of a task graph's tasks: positions in its canonical order. Only good for the task
// graph with that fingerprint.
struct PlanOrder {
  std::vector<int32_t> tasks;
  uint64_t task_graph_fingerprint = 0;
  friend bool operator==(const PlanOrder&, const PlanOrder&) = default;
};

// All that a run needs to know besides the model: a value, immutable once built.
struct Plan {
  PlanModel model;
  DeviceTopology topology;
  Strategy strategy;  // strategy of the training graph with model.fingerprint
  PartitionChoices choices;
  std::optional<PlanOrder> order;  // order of the tasks; nullopt: the canonical order
  // The rule that found the order, a name of the planner's table; empty: unknown. Without an order:
  // the one that the prediction found one by.
  std::string priority;
  std::vector<uint32_t> priority_draws;  // draws of urgencies of subjects, under which the rule did
  std::optional<Prediction> prediction;
  Provenance provenance;
  friend bool operator==(const Plan&, const Plan&) = default;
};

}  // namespace partita
