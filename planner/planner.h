#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "graph/parallel/plan.h"
#include "graph/support/option.h"
#include "planner/evaluator.h"
#include "planner/expert/expert_strategies.h"
#include "planner/lower_bound.h"
#include "planner/plan_clock.h"
#include "planner/pods/pod_problem.h"
#include "planner/search/search_algorithm.h"
#include "planner/simulator/priorities.h"

namespace partita {

struct PlanRequest {
  std::string search = "auto";
  SearchOptions options = {.evaluations = 0};  // evaluations 0: DefaultEvaluations
  std::string strategy;                        // an expert to take instead of searching
  std::string priority;   // the rule by which orders are found; empty: the evaluator's
  Bytes memory_limit{0};  // most that a plan takes of a device, besides its memory; 0: no other
  // Strategies that the search begins from besides the experts: then it finds nothing slower than
  // them.
  std::vector<NamedStrategy> starts = {};
  // Decisions that hold in every start and that the search leaves as they are.
  std::vector<Decision> pins = {};
  // The bound that MakePlan would find, where it is known; prices decide it, and nothing else does.
  std::optional<LowerBound> bound = {};
  // The graph at another batch. Where it is given, machines of more than kMostDevicesSearched devices
  // are searched by pods (plan_by_pods.h), unless there are pins.
  GraphAt graph_at = nullptr;
  bool wants_rivals = false;  // true: PlanOutcome::rivals are found

  template <class Self, class Visitor>
  static void VisitFields(Self& self, Visitor&& visit) {
    VisitSearch(self, visit);
    visit(Option{.name = "strategy",
                 .help = "write this expert's plan instead of searching",
                 .check = NameOf("strategy", NamesOf(ExpertStrategies())),
                 .changes_plan = true},
          self.strategy);
  }
  // All but the expert.
  template <class Self, class Visitor>
  static void VisitSearch(Self& self, Visitor&& visit) {
    visit(Option{.name = "search",
                 .help = "search algorithm (partita list searches)",
                 .check = NameOf("search", NamesOf(SearchAlgorithms())),
                 .changes_plan = true},
          self.search);
    SearchOptions::VisitFields(self.options, visit);
    visit(Option{.name = "memory_limit",
                 .help = "most memory that a plan may take of a device, 800MB, 12GiB",
                 .check = ByteCount(),
                 .unset = "0",
                 .fallback = "all that it has",
                 .type = "BYTES",
                 .changes_plan = true},
          self.memory_limit);
    visit(Option{.name = "priority",
                 .help = "which of the tasks that are ready at the same time a device takes first "
                         "(partita list priorities)",
                 .check = NameOf("priority", NamesOf(Priorities())),
                 .fallback = "a search's local_path, a plan's the best of all and of those that it "
                             "draws",
                 .changes_plan = true},
          self.priority);
  }
};

// A strategy that a search knows besides the one that it found, priced without buckets.
struct Rival {
  NamedStrategy named;
  Nanos time;
  bool is_expert = false;
};

// Facts known of how good a plan is: kLocal and kOfCandidates in the order of the rule that the
// search went by; the plan's own is no slower.
enum class Optimality : uint8_t {
  kUnknown,
  // No other decision about a single subject, of the space's candidates, is faster.
  kLocal,
  // No combination of the space's candidates is faster.
  kOfCandidates,
  // It takes no more than a lower bound on every plan.
  kProven,
};

// A plan and what it rests on.
struct PlanOutcome {
  Plan plan;                      // model and program version are the caller's to fill in
  EvaluatedStep step;             // the plan's own
  std::optional<Nanos> baseline;  // MakePlan: data_parallel's time, where it can run
  SearchResult search;
  LowerBound bound;  // MakePlan: of any plan's time
  // The expert whose strategy the plan has; empty where a search found another.
  std::string expert;
  // MakePlan, of a search that wants rivals: the experts that fit in memory, and the best that came
  // from each start; cheapest first.
  std::vector<Rival> rivals;
  std::vector<PhaseTime> phases;  // MakePlan, of a search
  // Facts of a plan that was found for one of several pods.
  struct ByPods {
    Pods pods;
    bool is_whole = false;    // the plan has an order, and the step is that of all devices
    bool is_named = false;    // it names the algorithms of its collectives, buckets, and a priority
    bool is_checked = false;  // of all pods, or of the first few
  };
  std::optional<ByPods> pods;
  // EvaluatePlan: the order was found again.
  bool reordered = false;
};

// A request's options with the number of evaluations.
SearchOptions OptionsOfSearch(const PlanRequest& request, const Evaluator& evaluator);
// The search for the order of a plan that a search found: a twentieth as many simulations as the search
// had evaluations, until most of the limit has passed. Keeps the clock and the options' stop flag.
OrderSearch OrdersFor(const SearchOptions& options, const PlanClock& clock);
// An evaluator's options with the memory limit and the rule of orders that a request has. NotFound for
// unknown rules.
absl::StatusOr<Evaluator::Options> OptionsFor(const PlanRequest& request,
                                              Evaluator::Options options);

// The whole flow: experts -> search -> evaluation of the best -> plan. A time limit is for all of
// it: the lower bound gets a fifth of it at most, and what joining all-reduces in buckets and the
// plan take is left, up to half of it, as estimated from data parallelism; starts that are not
// tried with their buckets in time are compared without. What a search finds
// is not slower than any expert's plan, whatever ended it. The plan's provenance has the request's
// options. NotFound for unknown names; ResourceExhausted where nothing fits in memory;
// FailedPrecondition where the expert declines.
absl::StatusOr<PlanOutcome> MakePlan(const Evaluator& evaluator, const PlanRequest& request);

// The most that is known, of a plan that MakePlan made.
Optimality OptimalityOf(const PlanOutcome& outcome);

// The plan of a strategy with the buckets that it has, evaluated; collectives without a choice get
// their algorithms by price.
absl::StatusOr<PlanOutcome> PlanAsIs(const Evaluator& evaluator, const Strategy& strategy,
                                     const std::string& origin, const OrderSearch& orders = {});

// The same with the buckets that are best.
absl::StatusOr<PlanOutcome> PlanOf(const Evaluator& evaluator, const Strategy& strategy,
                                   const std::string& origin);

// A given plan on the evaluator's machine, with its own choices and order, priced by what the
// evaluator knows, in its precision and determinism: on the machine and with the profile that it
// was made with, its prediction. Where its strategy has other tasks on this machine than on the
// plan's own, an order for them is found. Errors: those of BuildPlannedStep and VerifyStep;
// InvalidArgument where the machine has fewer devices; ResourceExhausted where the plan does not
// fit.
//
// `graph_at`, which may be null, is wanted for plans of more devices that have no order: as long as
// their strategies and collectives are those that a search by pods gives them, they are seen from the
// first pod (PlanOutcome::pods).
absl::StatusOr<PlanOutcome> EvaluatePlan(const Evaluator& evaluator, const Plan& plan,
                                         const GraphAt& graph_at = nullptr);

}  // namespace partita
