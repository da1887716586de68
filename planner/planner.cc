#include "planner/planner.h"

#include <algorithm>
#include <functional>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/partition/planned_step.h"
#include "graph/support/error_category.h"
#include "graph/support/status_macros.h"
#include "graph/support/stop_flag.h"
#include "graph/verify/step_verifier.h"
#include "planner/collective_choice.h"
#include "planner/expert/expert_strategies.h"
#include "planner/fastest_strategy.h"
#include "planner/pods/plan_by_pods.h"
#include "planner/pods/pod_experts.h"
#include "planner/pods/pod_plan.h"
#include "planner/pods/pod_search.h"

namespace partita {
namespace {

// Parts of a time limit: until when the lower bound may take; the least and the most that the search
// leaves for buckets and the plan.
constexpr double kBoundShare = 0.2, kLeastLeft = 0.15, kMostLeft = 0.5;
// Time that buckets and the plan of what a search found take over that which data parallelism with
// its buckets and its best order took: as measured for models of up to 100,000 tasks.
constexpr double kEndOverBaseline = 4.8;
// Evaluations of a search for each order that is tried at its end, and the part of a time limit after
// which none is.
constexpr int64_t kEvaluationsOfOrder = 20;
constexpr double kEndOfOrders = 0.9;

// Nothing where it is invalid.
std::optional<Nanos> TimeOf(const Evaluation& evaluation) {
  if (evaluation.verdict == Evaluation::Verdict::kInvalid) return std::nullopt;
  return evaluation.time;
}

std::optional<Nanos> BaselineOf(const Evaluator& evaluator) {
  const auto strategy = DataParallel(evaluator.graph(), evaluator.topology());
  if (!strategy.ok()) return std::nullopt;
  return TimeOf(InBestOrder(evaluator, WithBuckets(evaluator, *strategy)).in_best_order);
}

// Of a plan and its evaluated step.
absl::StatusOr<PlanOutcome> OutcomeOf(const Evaluator& evaluator, Plan plan, EvaluatedStep step) {
  if (!step.evaluation.feasible()) return MemoryError(step.evaluation.reason);
  // However a plan was found, it meets the same independent check.
  RETURN_IF_ERROR(
      VerifyStep({evaluator.graph(), plan.strategy, step.tasks, step.order, &step.memory}));
  PlanOutcome outcome;
  outcome.search.best = plan.strategy;
  outcome.search.evaluation = step.evaluation;
  outcome.search.origin = plan.provenance.search;
  outcome.search.evaluations = 1;
  plan.prediction = PredictionOf(step.evaluation);
  outcome.plan = std::move(plan);
  outcome.step = std::move(step);
  return outcome;
}

// The strategy with the buckets and algorithms that are best on the evaluator's machine.
Strategy WithOwnCollectives(const Evaluator& evaluator, Strategy strategy) {
  strategy.algorithms.clear();
  strategy.buckets.clear();
  return WithBuckets(evaluator, strategy).strategy;
}

// A plan that has no order of the tasks that its strategy has on the evaluator's machine.
absl::StatusOr<PlanOutcome> Reordered(const Evaluator& evaluator, Plan plan) {
  ASSIGN_OR_RETURN(EvaluatedStep step, evaluator.EvaluateBestOrder(plan.strategy));
  const bool had_order = plan.order.has_value();
  plan.strategy = step.strategy;
  SetOrder(step, plan);
  ASSIGN_OR_RETURN(PlanOutcome outcome, OutcomeOf(evaluator, std::move(plan), std::move(step)));
  outcome.reordered = had_order;
  return outcome;
}

// Empty where it is none of them.
std::string NameOf(const std::vector<NamedStrategy>& named, const Strategy& strategy) {
  for (const NamedStrategy& one : named) {
    if (one.strategy == strategy) return one.name;
  }
  return "";
}

SearchProblem ProblemOf(const Evaluator& evaluator, const std::vector<NamedStrategy>& experts,
                        const PlanRequest& request, const LowerBound& bound) {
  const Graph& graph = evaluator.graph();
  std::vector<DecisionSubject> pinned;
  for (const Decision& pin : request.pins) pinned.push_back(SubjectOf(pin));
  SearchProblem problem{evaluator, SearchSpace(graph, evaluator.topology().size()).Without(pinned),
                        experts, bound};
  problem.starts.insert(problem.starts.end(), request.starts.begin(), request.starts.end());
  problem.on_fewer = [&request, experts_on = ExpertsOnFewer(graph, evaluator.topology()), &graph](
                         const std::string& start, int devices) {
    auto strategy = experts_on(start, devices);
    if (strategy.has_value()) Decide(graph, *strategy, request.pins);
    return strategy;
  };
  if (request.graph_at && request.pins.empty()) OfferPods(request.graph_at, problem);
  for (NamedStrategy& start : problem.starts) {
    // Choices for collectives fit one strategy; they are made for the one that is found.
    start.strategy.algorithms.clear();
    start.strategy.buckets.clear();
    Decide(graph, start.strategy, request.pins);
  }
  return problem;
}

// `starts`: the search's, of which the experts come first.
std::vector<Rival> RivalsOf(const Evaluator& evaluator, std::span<const NamedStrategy> starts,
                            size_t experts, const SearchResult& found) {
  std::vector<Rival> rivals;
  for (const NamedStrategy& start : starts.first(experts)) {
    const Evaluation evaluation = evaluator.EvaluateBrieflyInBestOrder(start.strategy);
    if (evaluation.feasible()) rivals.push_back({start, evaluation.time, true});
  }
  for (const FoundStrategy& one : found.by_origin) {
    const bool is_expert = std::any_of(rivals.begin(), rivals.end(), [&](const Rival& rival) {
      return rival.is_expert && rival.named.strategy == one.found.strategy;
    });
    if (is_expert) continue;
    rivals.push_back({one.found, evaluator.EvaluateBrieflyInBestOrder(one.found.strategy).time});
  }
  std::stable_sort(rivals.begin(), rivals.end(),
                   [](const Rival& a, const Rival& b) { return a.time < b.time; });
  return rivals;
}

}  // namespace

absl::StatusOr<PlanOutcome> PlanAsIs(const Evaluator& evaluator, const Strategy& strategy,
                                     const std::string& origin, const OrderSearch& orders) {
  ASSIGN_OR_RETURN(EvaluatedStep step, evaluator.EvaluateBestOrder(strategy, orders));
  Plan plan;
  plan.topology = evaluator.topology();
  plan.strategy = step.strategy;
  plan.choices = evaluator.options().choices;
  SetOrder(step, plan);
  plan.provenance.search = origin;
  plan.provenance.evaluations = 1;
  return OutcomeOf(evaluator, std::move(plan), std::move(step));
}

absl::StatusOr<PlanOutcome> PlanOf(const Evaluator& evaluator, const Strategy& strategy,
                                   const std::string& origin) {
  RETURN_IF_ERROR(CheckRoom(evaluator.graph(), strategy));
  const auto interrupted = [&] { return IsSet(evaluator.options().stop); };
  const BucketedStrategy bucketed = WithBuckets(evaluator, strategy, interrupted);
  return PlanAsIs(evaluator, bucketed.strategy, origin);
}

absl::StatusOr<PlanOutcome> EvaluatePlan(const Evaluator& evaluator, const Plan& plan,
                                         const GraphAt& graph_at) {
  const Graph& graph = evaluator.graph();
  if (plan.topology.size() > evaluator.topology().size()) {
    return absl::InvalidArgumentError(absl::StrCat("the plan is for ", plan.topology.size(),
                                                   " devices; the machine has ",
                                                   evaluator.topology().size()));
  }
  Plan there = plan;
  there.choices.precision = evaluator.options().choices.precision;
  there.choices.float32_classes = evaluator.options().choices.float32_classes;
  there.choices.nondeterministic = evaluator.options().choices.nondeterministic;
  Evaluator::Options options = evaluator.options();
  options.choices = there.choices;
  if (plan.order || !plan.priority.empty()) {
    ASSIGN_OR_RETURN(options.priority, PriorityNamed(plan.priority));
    options.draws = plan.priority_draws;
    options.any_priority = false;
  }
  const Evaluator own(graph, evaluator.topology(), evaluator.model(), std::move(options));
  if (graph_at && !plan.order && !plan.priority.empty() && plan.topology == own.topology() &&
      HasPods(own)) {
    auto by_pods = EvaluatePlanOfPods(own, graph_at, there);
    if (by_pods.ok() || absl::IsResourceExhausted(by_pods.status())) return by_pods;
  }
  absl::StatusOr<PlannedStep> planned = BuildPlannedStep(graph, there);
  RETURN_IF_ERROR(planned.status());
  const bool moves = !(plan.topology == own.topology());
  if (moves) {
    there.topology = own.topology();
    planned = BuildPlannedStep(graph, there);
  }
  if (!planned.ok() || !planned->note.empty()) {
    if (moves) there.strategy = WithOwnCollectives(own, std::move(there.strategy));
    return Reordered(own, std::move(there));
  }
  ASSIGN_OR_RETURN(EvaluatedStep step,
                   own.EvaluateOrder(std::move(planned->tasks), std::move(planned->order)));
  return OutcomeOf(own, std::move(there), std::move(step));
}

namespace {

LowerBound BoundFor(const Evaluator& evaluator, const PlanRequest& request) {
  if (request.bound.has_value()) return *request.bound;
  return LowerBoundOf(evaluator, [&] { return IsSet(request.options.stop); });
}

absl::StatusOr<PlanOutcome> PlanOfExpert(const Evaluator& evaluator, const PlanRequest& request) {
  const std::string& name = request.strategy;
  ASSIGN_OR_RETURN(const ExpertFunction expert, ExpertNamed(name));
  Evaluator::Options options = evaluator.options();
  options.stop = request.options.stop;
  const Evaluator own(evaluator.graph(), evaluator.topology(), evaluator.model(),
                      std::move(options));
  if (request.graph_at && HasPods(own)) {
    auto by_pods = PodExperts(own, request.graph_at).PlanOfAllDevices(name);
    if (absl::IsCancelled(by_pods.status())) return by_pods.status();
    if (by_pods.ok()) {
      by_pods->bound = BoundFor(evaluator, request);
      return by_pods;
    }
  }
  ASSIGN_OR_RETURN(const Strategy strategy, expert(own.graph(), own.topology()));
  ASSIGN_OR_RETURN(PlanOutcome outcome, PlanOf(own, strategy, name));
  outcome.expert = name;
  outcome.bound = BoundFor(evaluator, request);
  return outcome;
}

absl::StatusOr<PlanOutcome> SearchPlan(const Evaluator& evaluator, const PlanRequest& request) {
  if (request.graph_at && request.pins.empty() && HasPods(evaluator)) {
    auto outcome = PlanByPods(evaluator, request);
    if (!absl::IsFailedPrecondition(outcome.status())) return outcome;
  }
  const Graph& graph = evaluator.graph();
  ASSIGN_OR_RETURN(const SearchFunction search, SearchNamed(request.search));
  PlanClock clock(request.options.time_limit_seconds);
  const std::vector<NamedStrategy> experts = ExpertStarts(graph, evaluator.topology());
  for (const NamedStrategy& expert : experts) {
    RETURN_IF_ERROR(CheckRoom(graph, expert.strategy));
  }
  clock.EndPhase("experts");
  const auto is_over = [&] { return clock.IsPast(kBoundShare) || IsSet(request.options.stop); };
  const LowerBound bound =
      request.bound.has_value() ? *request.bound : LowerBoundOf(evaluator, is_over);
  clock.EndPhase("lower bound");
  SearchProblem problem = ProblemOf(evaluator, experts, request, bound);
  const Baseline baseline = BaselineAmong(evaluator, problem.starts, clock, request.options.stop);
  problem.bucket_bytes = BucketBytesForSearches(baseline.ordered.bucketed, baseline.apart);
  clock.EndPhase("data parallelism");
  SearchOptions options = OptionsOfSearch(request, evaluator);
  options.time_limit_seconds = clock.LeftBut(std::clamp(
      kEndOverBaseline * baseline.seconds, kLeastLeft * clock.limit(), kMostLeft * clock.limit()));
  ASSIGN_OR_RETURN(SearchResult result, search(problem, options));
  clock.EndPhase("search");
  // Buckets are chosen by one thread, with whole task graphs beside.
  evaluator.DropKept(Bytes(evaluator.options().max_cached.value() / 4));
  const Strategy fastest =
      TakeFastest(problem, baseline, clock, request.options.stop, result).strategy;
  clock.EndPhase("buckets");
  evaluator.DropKept(Bytes(0));
  const std::string expert = NameOf(experts, result.best);
  ASSIGN_OR_RETURN(PlanOutcome outcome,
                   PlanAsIs(evaluator, fastest, expert.empty() ? request.search : expert,
                            OrdersFor(options, clock)));
  outcome.expert = expert;
  outcome.bound = bound;
  if (request.pins.empty() && baseline.start != nullptr) {
    outcome.baseline = TimeOf(baseline.ordered.in_best_order);
  }
  outcome.plan.provenance.seed = request.options.seed;
  outcome.plan.provenance.evaluations = result.evaluations;
  if (request.wants_rivals) {
    outcome.rivals = RivalsOf(evaluator, problem.starts, experts.size(), result);
  }
  result.best = outcome.search.best;
  result.evaluation = outcome.search.evaluation;
  outcome.search = std::move(result);
  clock.EndPhase("plan");
  outcome.phases = clock.phases();
  return outcome;
}

}  // namespace

Optimality OptimalityOf(const PlanOutcome& outcome) {
  if (outcome.bound.is_complete && outcome.step.evaluation.time <= outcome.bound.time()) {
    return Optimality::kProven;
  }
  if (!outcome.plan.strategy.buckets.empty()) return Optimality::kUnknown;
  if (outcome.search.walked_all) return Optimality::kOfCandidates;
  return outcome.search.locally_optimal ? Optimality::kLocal : Optimality::kUnknown;
}

SearchOptions OptionsOfSearch(const PlanRequest& request, const Evaluator& evaluator) {
  SearchOptions options = request.options;
  if (options.evaluations == 0) {
    options.evaluations =
        DefaultEvaluations(evaluator.graph(), evaluator.topology().size(), request.search);
  }
  return options;
}

OrderSearch OrdersFor(const SearchOptions& options, const PlanClock& clock) {
  return {.tries = options.evaluations / kEvaluationsOfOrder,
          .seed = options.seed,
          .interrupted = [&clock, stop = options.stop] {
            return IsSet(stop) || clock.IsPast(kEndOfOrders);
          }};
}

absl::StatusOr<Evaluator::Options> OptionsFor(const PlanRequest& request,
                                              Evaluator::Options options) {
  options.memory_limit = request.memory_limit;
  if (request.priority.empty()) return options;
  ASSIGN_OR_RETURN(options.priority, PriorityNamed(request.priority));
  options.any_priority = false;
  return options;
}

absl::StatusOr<PlanOutcome> MakePlan(const Evaluator& evaluator, const PlanRequest& request) {
  const Evaluator::Options& given = evaluator.options();
  ASSIGN_OR_RETURN(Evaluator::Options wanted, OptionsFor(request, given));
  if (wanted.memory_limit != given.memory_limit || wanted.priority != given.priority ||
      wanted.any_priority != given.any_priority) {
    return MakePlan(
        Evaluator(evaluator.graph(), evaluator.topology(), evaluator.model(), std::move(wanted)),
        request);
  }
  ASSIGN_OR_RETURN(PlanOutcome outcome, request.strategy.empty()
                                            ? SearchPlan(evaluator, request)
                                            : PlanOfExpert(evaluator, request));
  if (!outcome.pods.has_value() && !outcome.baseline.has_value() && !IsSet(request.options.stop)) {
    outcome.baseline = BaselineOf(evaluator);
  }
  outcome.plan.provenance.options = PlanOptions(request);
  return outcome;
}

}  // namespace partita
