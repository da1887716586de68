#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace partita {

// One forward operator. Arithmetic and bytes are for the whole batch.
struct OperatorSummary {
  std::string name;
  std::string kind;        // "conv2d"
  Shape result;            // shape of its first result
  int64_t parameters = 0;  // trained elements that no operator before it reads
  int64_t multiply_adds = 0;
  int64_t other_operations = 0;
  int64_t weight_bytes = 0;  // total of all weights that it reads
  int64_t result_bytes = 0;
};

// Summary of a model's tensors and work. In a training graph only the forward operators count. Sums
// that do not fit 64 bits are INT64_MAX.
struct ModelSummary {
  std::string name;
  int64_t batch = 0;
  Shape input, output;
  int64_t parameters = 0;        // elements of trained weights
  int64_t frozen = 0;            // elements of the other weights (running statistics, constants)
  int64_t macs_per_sample = 0;   // multiply-adds of one forward pass, rounded
  int64_t weight_bytes = 0;      // total of all weights
  int64_t activation_bytes = 0;  // total of all results, for the whole batch
  std::vector<OperatorSummary> operators;
};

ModelSummary Summarize(const Graph& graph);

// "61.10 M".
std::string CountText(int64_t value);
// The sums, as a sentence.
std::string SummaryText(const ModelSummary& summary);

}  // namespace partita
