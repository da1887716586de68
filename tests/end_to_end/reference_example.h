#pragma once

#include <string>

#include "graph/graph.h"
#include "runtime/backend/backends.h"
#include "runtime/train/reference/reference_folder.h"
#include "runtime/train/reference/reference_model.h"
#include "runtime/train/reference/reference_run.h"
#include "runtime/train/reference_training.h"
#include "tests/testing/model_writer.h"

namespace partita {

// A training run that PyTorch made (tests/data/oracle, tests/data/references), and its graph.
struct ReferenceExample {
  ReferenceFolder reference;
  Graph graph;

  static ReferenceExample Load(const std::string& folder) {
    ReferenceFolder reference = ModelWriter::Get(LoadReferenceFolder(folder));
    const auto model = ModelWriter::Get(LoadReferenceModel(reference));
    Graph graph = ModelWriter::Get(BuildReferenceGraph(model, reference));
    return {std::move(reference), std::move(graph)};
  }

  absl::StatusOr<RunValues> Train(const Strategy& strategy, const PartitionOptions& options,
                                  const char* backend_name) const {
    const auto backend = ModelWriter::Get(MakeBackend(backend_name));
    return TrainSplitOnReference(graph, reference, strategy, options,
                                 {.devices = VirtualDevices(backend, options.devices)});
  }
};

}  // namespace partita
