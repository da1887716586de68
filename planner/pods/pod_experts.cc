#include "planner/pods/pod_experts.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/support/error_category.h"
#include "graph/support/status_macros.h"
#include "graph/support/stop_flag.h"
#include "planner/expert/expert_strategies.h"
#include "planner/fastest_strategy.h"
#include "planner/pods/pod_plan.h"
#include "planner/pods/pod_search.h"

namespace partita {

bool HasPods(const Evaluator& whole) {
  return whole.topology().size() > kMostDevicesSearched && !PodSizes(whole).empty();
}

struct PodExperts::Candidate {
  const PodProblem* pods = nullptr;
  OrderedStrategy ordered;
  bool is_of_all = false;  // all devices would do the same by the expert
};

PodExperts::PodExperts(const Evaluator& whole, const GraphAt& graph_at) : whole_(whole) {
  for (int size : PodSizes(whole)) {
    auto pods = PodProblem::Create(whole, graph_at, size);
    if (pods.ok()) {
      pods_.push_back(*std::move(pods));
    } else {
      status_ = pods.status();
    }
  }
}

absl::StatusOr<PodExperts::Candidate> PodExperts::FastestOf(const std::string& expert) const {
  ASSIGN_OR_RETURN(const ExpertFunction make, ExpertNamed(expert));
  std::optional<Candidate> fastest;
  absl::Status status = status_;
  for (const std::unique_ptr<PodProblem>& pods : pods_) {
    const Evaluator& evaluator = pods->evaluator();
    const auto strategy = make(evaluator.graph(), evaluator.topology());
    if (!strategy.ok()) {
      status = strategy.status();
      continue;
    }
    const auto interrupted = [this] { return IsSet(whole_.options().stop); };
    OrderedStrategy ordered =
        InBestOrder(evaluator, WithBuckets(evaluator, *strategy, interrupted));
    if (interrupted()) return InterruptedError("interrupted before an expert's pods were compared");
    const Evaluation& own = ordered.in_best_order;
    if (own.verdict == Evaluation::Verdict::kInvalid) {
      status = DeclinedError(own.reason);
    } else if (!own.feasible()) {
      status = MemoryError(own.reason);
    } else if (!fastest.has_value() || own.time < fastest->ordered.in_best_order.time) {
      fastest = Candidate{pods.get(), std::move(ordered)};
    }
    evaluator.DropKept(Bytes(0));
  }
  if (!fastest.has_value()) return status;
  const auto of_all = make(whole_.graph(), whole_.topology());
  ASSIGN_OR_RETURN(const Strategy of_pods,
                   fastest->pods->OfAllPods(fastest->ordered.bucketed.strategy));
  fastest->is_of_all = of_all.ok() && *of_all == of_pods;
  return *std::move(fastest);
}

absl::StatusOr<PlanOutcome> PodExperts::PlanOf(const std::string& expert,
                                               const Candidate& fastest) const {
  const PodProblem& pods = *fastest.pods;
  ASSIGN_OR_RETURN(PlanOutcome outcome, PlanOfPods(pods, fastest.ordered.bucketed));
  outcome.search.origin = fastest.is_of_all ? expert : NameForPods(expert, pods.pods());
  outcome.search.evaluations = 1;
  outcome.expert = expert;
  outcome.plan.provenance.search = outcome.search.origin;
  outcome.plan.provenance.evaluations = 1;
  return outcome;
}

absl::StatusOr<PlanOutcome> PodExperts::PlanOf(const std::string& expert) const {
  ASSIGN_OR_RETURN(const Candidate fastest, FastestOf(expert));
  return PlanOf(expert, fastest);
}

absl::StatusOr<PlanOutcome> PodExperts::PlanOfAllDevices(const std::string& expert) const {
  ASSIGN_OR_RETURN(const Candidate fastest, FastestOf(expert));
  if (fastest.is_of_all) return PlanOf(expert, fastest);
  return DeclinedError(absl::StrCat(expert, " of all devices is not one of pods"));
}

}  // namespace partita
