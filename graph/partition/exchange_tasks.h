#pragma once

#include <functional>
#include <span>
#include <vector>

#include "graph/partition/collective_algorithm.h"
#include "graph/partition/exchange.h"
#include "graph/task/task_graph.h"

namespace partita {

// One tensor's exchange as tasks. Before: every piece has its buffer. After: every demand has one,
// which holds the complete value once the tasks added here have run.
struct TensorExchange {
  TensorId tensor;
  DType dtype = DType::kFloat32;
  std::vector<Piece> pieces;
  std::vector<BufferId> piece_buffers;  // of the pieces; behind them those of `added`
  // The microbatch that each piece is of: a device adds those of each by a task of its own, so that
  // the gradients of one microbatch make room for those of the next. Empty: all of one.
  std::vector<int32_t> piece_microbatches;
  // Further terms of pieces (JoinTerms), each over the box of its piece, in the order in which they are
  // added to it.
  struct AddedTerm {
    int32_t piece = 0;
    int32_t microbatch = 0;
  };
  std::vector<AddedTerm> added;
  std::vector<Demand> demands;
  // kNoBuffer: to be chosen here, perhaps the buffer of a piece. Otherwise the value must arrive in
  // this one (a weight's persistent buffer).
  std::vector<BufferId> demand_buffers;
  // The number of its first step in the keys of tasks: those of one tensor differ. Further terms are
  // added in the step before.
  int32_t first_step = 0;

  int32_t MicrobatchOf(int32_t piece) const {
    return piece_microbatches.empty() ? 0 : piece_microbatches[static_cast<size_t>(piece)];
  }
};

// Sees every communication of a tensor as it is found; false gives the tensor up.
using CommunicationWatch = std::function<bool(const TaskBody& body)>;

struct ExchangeTaskOptions {
  ExchangeOptions exchange;
  AlgorithmRule algorithm = nullptr;              // PartitionOptions::algorithm
  std::span<const AlgorithmChoice> choices = {};  // those of the tensor
  const CommunicationWatch* watch = nullptr;      // may be null
  bool outlines = false;                          // true: move tasks have outlines only
};

// An exchange that is solved, with what its steps send (CommunicationsOf), before there are buffers.
struct StepCommunication;
struct PlannedExchange {
  const SolvedExchange& solved;  // the Exchange of its pieces and demands by options.exchange
  std::vector<StepCommunication>& communications;  // indexed by step; taken
};

// Adds tasks to the builder and fills in demand_buffers.
void AddExchangeTasks(TensorExchange& x, const PlannedExchange& planned,
                      const ExchangeTaskOptions& options, TaskGraphBuilder& builder);

}  // namespace partita
