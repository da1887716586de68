#include "graph/parallel/decision.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace partita {
namespace {

std::string LayoutText(const std::string& name, const std::vector<PlacedBox>& layout) {
  std::string text = name;
  const char* before = " ";
  for (const PlacedBox& piece : layout) {
    absl::StrAppend(&text, before, ToString(piece.box), " on ", piece.device.value());
    before = ", ";
  }
  return absl::StrCat(text, "\n");
}

std::string StepText(const Graph& graph, CollectiveStepId id) {
  return absl::StrCat(graph.tensor(id.tensor).name, " step ", id.step);
}

struct TextOf {
  const Graph& graph;

  std::string operator()(const OperatorDecision& decision) const {
    return absl::StrCat(NameOf(graph, SubjectOf(decision.op)), " ",
                        ToString(graph.rule(decision.op), decision.config), "\n");
  }
  std::string operator()(const WeightDecision& decision) const {
    const std::string name = NameOf(graph, SubjectOf(Decision(decision)));
    const WeightPlacement& placement = decision.placement;
    std::string text;
    if (placement.parameter) text += LayoutText(name + " parameter", *placement.parameter);
    if (placement.update) text += LayoutText(name + " update", *placement.update);
    if (placement.prefetch) absl::StrAppend(&text, name, " prefetch ", *placement.prefetch, "\n");
    return text;
  }
  std::string operator()(const HostDecision& decision) const {
    return absl::StrCat("host ", decision.device.value(), "\n");
  }
  std::string operator()(const AlgorithmDecision& decision) const {
    const AlgorithmChoice& choice = decision.choice;
    if (choice.algorithm.empty()) return "";
    return absl::StrCat(NameOf(graph, SubjectOf(choice.collective)), " by ", choice.algorithm,
                        "\n");
  }
  std::string operator()(const BucketDecision& decision) const {
    const Bucket& bucket = decision.bucket;
    if (bucket.members.size() < 2) return "";
    std::string text = NameOf(graph, SubjectOfBucket(bucket.members[0]));
    for (size_t k = 1; k < bucket.members.size(); ++k) {
      absl::StrAppend(&text, ", ", StepText(graph, bucket.members[k]));
    }
    return absl::StrCat(text, bucket.algorithm.empty() ? "" : " by ", bucket.algorithm, "\n");
  }
};

bool Contains(const std::vector<CollectiveStepId>& members, CollectiveStepId id) {
  return std::find(members.begin(), members.end(), id) != members.end();
}

// Takes the collectives out of their buckets; one that is left alone is none.
void RemoveMembers(std::vector<Bucket>& buckets, const std::vector<CollectiveStepId>& members) {
  for (Bucket& bucket : buckets) {
    std::erase_if(bucket.members, [&](CollectiveStepId id) { return Contains(members, id); });
  }
  std::erase_if(buckets, [](const Bucket& bucket) { return bucket.members.size() < 2; });
}

struct Decider {
  const Graph& graph;
  Strategy& strategy;

  void operator()(OperatorDecision decision) const {
    strategy.configs[decision.op.index()] = std::move(decision.config);
  }
  void operator()(WeightDecision decision) const {
    strategy.weights.resize(graph.weights().size());
    strategy.weights[static_cast<size_t>(decision.weight)] = std::move(decision.placement);
  }
  void operator()(HostDecision decision) const { strategy.host_device = decision.device; }
  void operator()(AlgorithmDecision decision) const {
    auto& choices = strategy.algorithms;
    const CollectiveStepId id = decision.choice.collective;
    auto at = std::lower_bound(choices.begin(), choices.end(), id,
                               [](const AlgorithmChoice& choice, CollectiveStepId key) {
                                 return choice.collective < key;
                               });
    if (at != choices.end() && at->collective == id) at = choices.erase(at);
    if (decision.choice.algorithm.empty()) return;
    RemoveMembers(strategy.buckets, {id});
    choices.insert(at, std::move(decision.choice));
  }
  void operator()(BucketDecision decision) const {
    auto& buckets = strategy.buckets;
    if (decision.bucket.members.empty()) return;
    const CollectiveStepId first = decision.bucket.members[0];
    std::erase_if(buckets, [&](const Bucket& bucket) { return bucket.members[0] == first; });
    RemoveMembers(buckets, decision.bucket.members);
    if (decision.bucket.members.size() < 2) return;
    std::erase_if(strategy.algorithms, [&](const AlgorithmChoice& choice) {
      return Contains(decision.bucket.members, choice.collective);
    });
    const auto behind = std::find_if(buckets.begin(), buckets.end(), [&](const Bucket& bucket) {
      return first < bucket.members[0];
    });
    buckets.insert(behind, std::move(decision.bucket));
  }
};

struct SubjectFinder {
  DecisionSubject operator()(const OperatorDecision& decision) const {
    return SubjectOf(decision.op);
  }
  DecisionSubject operator()(const WeightDecision& decision) const {
    return SubjectOfWeight(static_cast<size_t>(decision.weight));
  }
  DecisionSubject operator()(const HostDecision&) const {
    return {DecisionSubject::Kind::kHost, 0};
  }
  DecisionSubject operator()(const AlgorithmDecision& decision) const {
    return SubjectOf(decision.choice.collective);
  }
  DecisionSubject operator()(const BucketDecision& decision) const {
    return SubjectOfBucket(decision.bucket.members[0]);
  }
};

const Bucket* BucketThatBegins(const Strategy& strategy, CollectiveStepId first) {
  for (const Bucket& bucket : strategy.buckets) {
    if (bucket.members[0] == first) return &bucket;
  }
  return nullptr;
}

std::string AlgorithmOf(const Strategy& strategy, CollectiveStepId id) {
  for (const AlgorithmChoice& choice : strategy.algorithms) {
    if (choice.collective == id) return choice.algorithm;
  }
  return "";
}

}  // namespace

DecisionSubject SubjectOf(OpId anchor) {
  return {DecisionSubject::Kind::kOperator, anchor.value()};
}

DecisionSubject SubjectOfWeight(size_t weight) {
  return {DecisionSubject::Kind::kWeight, static_cast<int32_t>(weight)};
}

DecisionSubject SubjectOf(CollectiveStepId collective) {
  return {DecisionSubject::Kind::kAlgorithm, collective.tensor.value(), collective.step};
}

DecisionSubject SubjectOfBucket(CollectiveStepId first_member) {
  return {DecisionSubject::Kind::kBucket, first_member.tensor.value(), first_member.step};
}

DecisionSubject SubjectOf(const Decision& decision) {
  return std::visit(SubjectFinder{}, decision);
}

std::vector<DecisionSubject> DecisionSubjects(const Graph& graph) {
  std::vector<DecisionSubject> subjects;
  for (OpId anchor : graph.anchors()) subjects.push_back(SubjectOf(anchor));
  for (size_t w = 0; w < graph.weights().size(); ++w) subjects.push_back(SubjectOfWeight(w));
  subjects.push_back({DecisionSubject::Kind::kHost, 0});
  return subjects;
}

std::vector<DecisionSubject> DecisionSubjects(const Graph& graph, const Strategy& strategy) {
  std::vector<DecisionSubject> subjects = DecisionSubjects(graph);
  for (const AlgorithmChoice& choice : strategy.algorithms) {
    subjects.push_back(SubjectOf(choice.collective));
  }
  for (const Bucket& bucket : strategy.buckets) {
    subjects.push_back(SubjectOfBucket(bucket.members[0]));
  }
  return subjects;
}

Decision DecisionIn(const Strategy& strategy, DecisionSubject subject) {
  const auto number = static_cast<size_t>(subject.number);
  const CollectiveStepId collective{TensorId(subject.number), subject.step};
  switch (subject.kind) {
    case DecisionSubject::Kind::kOperator:
      return OperatorDecision{OpId(subject.number), strategy.configs[number]};
    case DecisionSubject::Kind::kWeight:
      return WeightDecision{subject.number, number < strategy.weights.size()
                                                ? strategy.weights[number]
                                                : WeightPlacement()};
    case DecisionSubject::Kind::kAlgorithm:
      return AlgorithmDecision{{collective, AlgorithmOf(strategy, collective)}};
    case DecisionSubject::Kind::kBucket: {
      const Bucket* bucket = BucketThatBegins(strategy, collective);
      return BucketDecision{bucket != nullptr ? *bucket : Bucket{{collective}, ""}};
    }
    case DecisionSubject::Kind::kHost:
      break;
  }
  return HostDecision{strategy.host_device};
}

bool Changes(const Strategy& strategy, const Decision& decision) {
  if (const auto* configured = std::get_if<OperatorDecision>(&decision)) {
    return strategy.configs[configured->op.index()] != configured->config;
  }
  return DecisionIn(strategy, SubjectOf(decision)) != decision;
}

void Decide(const Graph& graph, Strategy& strategy, Decision decision) {
  std::visit(Decider{graph, strategy}, std::move(decision));
}

void Decide(const Graph& graph, Strategy& strategy, const std::vector<Decision>& decisions) {
  for (const Decision& decision : decisions) Decide(graph, strategy, decision);
}

std::string NameOf(const Graph& graph, DecisionSubject subject) {
  switch (subject.kind) {
    case DecisionSubject::Kind::kOperator:
      return graph.op(OpId(subject.number)).name;
    case DecisionSubject::Kind::kWeight: {
      const Weight& weight = graph.weights()[static_cast<size_t>(subject.number)];
      return absl::StrCat("weight ", graph.tensor(weight.tensor).name);
    }
    case DecisionSubject::Kind::kAlgorithm:
      return absl::StrCat("collective ", StepText(graph, {TensorId(subject.number), subject.step}));
    case DecisionSubject::Kind::kBucket:
      return absl::StrCat("bucket of ", StepText(graph, {TensorId(subject.number), subject.step}));
    case DecisionSubject::Kind::kHost:
      break;
  }
  return "host";
}

std::string DecisionText(const Graph& graph, const Decision& decision) {
  return std::visit(TextOf{graph}, decision);
}

}  // namespace partita
