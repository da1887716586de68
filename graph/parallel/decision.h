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
    kOperator,   // number: the OpId of an anchor
    kWeight,     // number: position in Graph::weights()
    kHost,       // number: 0
    kAlgorithm,  // number and step: a collective, as CollectiveStepId has it
    kBucket,     // number and step: the collective that is its first member
  };
  Kind kind = Kind::kHost;
  int32_t number = 0;
  int32_t step = 0;

  friend auto operator<=>(const DecisionSubject&, const DecisionSubject&) = default;
  template <class H>
  friend H AbslHashValue(H h, const DecisionSubject& a) {
    return H::combine(std::move(h), a.kind, a.number, a.step);
  }
};
DecisionSubject SubjectOf(OpId anchor);
DecisionSubject SubjectOfWeight(size_t weight);
DecisionSubject SubjectOf(CollectiveStepId collective);          // its algorithm
DecisionSubject SubjectOfBucket(CollectiveStepId first_member);  // what runs with it

// How an operator, and all that are anchored to it, are split and placed.
struct OperatorDecision {
  OpId op;
  ParallelConfig config;
  friend bool operator==(const OperatorDecision&, const OperatorDecision&) = default;
};

// The place of a weight and of its updates, and when it is gathered.
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

// By what algorithm a collective runs; empty: it is left to PartitionOptions::algorithm.
struct AlgorithmDecision {
  AlgorithmChoice choice;
  friend bool operator==(const AlgorithmDecision&, const AlgorithmDecision&) = default;
};

// All-reduces that run as one with the first of them; only one: none do.
struct BucketDecision {
  Bucket bucket;
  friend bool operator==(const BucketDecision&, const BucketDecision&) = default;
};

// One of the decisions of which a strategy consists: a strategy is one for each subject. A search
// lists, draws and makes decisions and knows nothing else of strategies (planner/space).
using Decision =
    std::variant<OperatorDecision, WeightDecision, HostDecision, AlgorithmDecision, BucketDecision>;

DecisionSubject SubjectOf(const Decision& decision);

// All subjects of a graph, in order: anchors, weights, the host. What collectives there are to be
// decided depends on the strategy.
std::vector<DecisionSubject> DecisionSubjects(const Graph& graph);
// Those, and after them the collectives and buckets that the strategy decides.
std::vector<DecisionSubject> DecisionSubjects(const Graph& graph, const Strategy& strategy);

// The strategy's decision about a subject. Precondition: the subject is one of the graph's.
Decision DecisionIn(const Strategy& strategy, DecisionSubject subject);
// Whether that is another one than this about its subject. Precondition: as of DecisionIn.
bool Changes(const Strategy& strategy, const Decision& decision);

// Makes the decisions in a strategy of the graph, instead of those about the same subjects. A
// collective that gets an algorithm of its own leaves its bucket; members of a bucket leave those
// in which they were, and have no algorithms of their own.
void Decide(const Graph& graph, Strategy& strategy, Decision decision);
void Decide(const Graph& graph, Strategy& strategy, const std::vector<Decision>& decisions);

// For people: "conv1", "weight conv1.weight", "host", "collective d:conv1.weight step 0", "bucket
// of d:conv1.bias step 0".
std::string NameOf(const Graph& graph, DecisionSubject subject);
// A decision as StrategyText writes it: lines of text, none where a weight lies, or a collective
// runs, as by default.
std::string DecisionText(const Graph& graph, const Decision& decision);

}  // namespace partita
