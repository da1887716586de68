#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "planner/evaluator.h"

namespace partita {

// A part of the time that a step takes: that of the tasks of its CriticalChain of one kind.
struct CriticalShare {
  enum class Kind : uint8_t {
    kKernels,   // of an operator and its gradients
    kExchange,  // of what one operator makes and another reads, and of its gradient
    kWeights,   // of an operator: sums of gradients, updates, and what moves weights
    kInputs     // of an operator: the step's data that it reads first
  };
  Kind kind = Kind::kKernels;
  std::vector<OpId> anchors;  // one; or two, the maker of the tensor first
  Nanos time;
};
inline constexpr CriticalShare::Kind kCriticalKinds[] = {
    CriticalShare::Kind::kKernels, CriticalShare::Kind::kExchange, CriticalShare::Kind::kWeights,
    CriticalShare::Kind::kInputs};
// "kernels", "exchange", "weights", "inputs".
const char* NameOf(CriticalShare::Kind kind);
// "conv1", or "conv1, relu1".
std::string OperatorsOf(const Graph& graph, const CriticalShare& share);

// The shares of a step, the longest first. Their sum is the step's time, but for an overhead of the
// step and for moments in which all tasks wait for others on purpose (Simulate).
std::vector<CriticalShare> CriticalSharesOf(const Graph& graph, const SimulatedResources& resources,
                                            const EvaluatedStep& step);

}  // namespace partita
