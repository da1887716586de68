#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cost_model/profile.h"
#include "graph/graph.h"
#include "planner/planner.h"
#include "tools/workflow/measurement.h"
#include "tools/workflow/priced_machine.h"

namespace partita {

struct ContestOptions {
  double seconds = 0;  // for measuring in all
  MeasuringOptions measuring;
  const std::atomic<bool>* stop = nullptr;
  std::function<void(size_t plans)> progress = nullptr;  // before each round, with those left
};

// Result of a contest of plans on this host.
struct ContestReport {
  struct Row {
    std::string name;
    bool is_expert = false;
    Nanos predicted;
    std::optional<Timing> measured;  // nullopt: the time was up before
  };
  std::vector<Row> rows;
  size_t chosen = 0;
  std::optional<size_t> gave_way;  // see MeasuredChoice
  bool is_sure = false;
};

// Runs the plan that a search found, its rivals and the experts on this host, and puts the one that
// is fastest in place of the outcome (ChooseByMeasurement). Rivals that are priced at more than
// kWorth times the found plan take no part, apart from the fastest one and the best expert: prices
// may be wrong by more. At most kMostContenders do, and no more (but two) than can be opened, each in
// the time of kStepsToOpen steps, and make kFewSteps each in the time. nullopt where no other strategy
// fits.
absl::StatusOr<std::optional<ContestReport>> HoldContest(const Graph& graph,
                                                         const PricedMachine& priced,
                                                         const ContestOptions& options,
                                                         PlanOutcome& outcome);
inline constexpr double kWorth = 1.5;
inline constexpr size_t kMostContenders = 6, kFewSteps = 8, kStepsToOpen = 4;

// Table of a contest for people: predicted and measured times, what was chosen and why.
std::string ContestText(const ContestReport& report);

}  // namespace partita
