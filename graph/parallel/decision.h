#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "graph/graph.h"
#include "graph/parallel/strategy.h"

namespace partita {

// Subject of a decision. Two decisions about one subject exclude each other. The order is that of a
// strategy's text.
struct DecisionSubject {
  enum class Kind : uint8_t {
    kOperator,  // number: the OpId of an anchor
    kWeight,    // number: position in Graph::weights()
    kHost,      // number: 0
  };
  Kind kind = Kind::kHost;
  int32_t number = 0;

  friend auto operator<=>(const DecisionSubject&, const DecisionSubject&) = default;
  template <class H>
  friend H AbslHashValue(H h, const DecisionSubject& a) {
    return H::combine(std::move(h), a.kind, a.number);
  }
};
DecisionSubject SubjectOf(OpId anchor);
DecisionSubject SubjectOfWeight(size_t weight);

// How an operator, and all that are anchored to it, are split and placed.
struct OperatorDecision {
  OpId op;
  ParallelConfig config;
  friend bool operator==(const OperatorDecision&, const OperatorDecision&) = default;
};

// Where a weight lies, where it is updated, and when it is gathered.
struct WeightDecision {
  int32_t weight = 0;  // position in Graph::weights()
  WeightPlacement placement;
  friend bool operator==(const WeightDecision&, const WeightDecision&) = default;
};

// The device that brings loss and metrics to the host.
struct HostDecision {
  DeviceId device;
  friend bool operator==(const HostDecision&, const HostDecision&) = default;
};

// One of the decisions of which a strategy consists: a strategy is one for each subject. A search
// lists, draws and makes decisions and knows nothing else of strategies (planner/space).
using Decision = std::variant<OperatorDecision, WeightDecision, HostDecision>;

DecisionSubject SubjectOf(const Decision& decision);

// All subjects of a graph, in order: anchors, weights, the host.
std::vector<DecisionSubject> DecisionSubjects(const Graph& graph);

// The strategy's decision about a subject. Precondition: the subject is one of the graph's.
Decision DecisionIn(const Strategy& strategy, DecisionSubject subject);

// Makes the decisions in a strategy of the graph, instead of those about the same subjects.
void Decide(const Graph& graph, Strategy& strategy, Decision decision);
void Decide(const Graph& graph, Strategy& strategy, const std::vector<Decision>& decisions);

// For people: "conv1", "weight conv1.weight", "host".
std::string NameOf(const Graph& graph, DecisionSubject subject);
// A decision as StrategyText writes it: lines of text, none where a weight lies as by default.
std::string DecisionText(const Graph& graph, const Decision& decision);

}  // namespace partita
