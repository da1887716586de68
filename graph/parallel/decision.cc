#include "graph/parallel/decision.h"

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
};

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
};

}  // namespace

DecisionSubject SubjectOf(OpId anchor) {
  return {DecisionSubject::Kind::kOperator, anchor.value()};
}

DecisionSubject SubjectOfWeight(size_t weight) {
  return {DecisionSubject::Kind::kWeight, static_cast<int32_t>(weight)};
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

Decision DecisionIn(const Strategy& strategy, DecisionSubject subject) {
  const auto number = static_cast<size_t>(subject.number);
  switch (subject.kind) {
    case DecisionSubject::Kind::kOperator:
      return OperatorDecision{OpId(subject.number), strategy.configs[number]};
    case DecisionSubject::Kind::kWeight:
      return WeightDecision{subject.number, number < strategy.weights.size()
                                                ? strategy.weights[number]
                                                : WeightPlacement()};
    case DecisionSubject::Kind::kHost:
      break;
  }
  return HostDecision{strategy.host_device};
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
    case DecisionSubject::Kind::kHost:
      break;
  }
  return "host";
}

std::string DecisionText(const Graph& graph, const Decision& decision) {
  return std::visit(TextOf{graph}, decision);
}

}  // namespace partita
