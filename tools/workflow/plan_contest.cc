#include "tools/workflow/plan_contest.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "graph/support/doing.h"
#include "graph/support/status_macros.h"
#include "tools/workflow/measured_choice.h"
#include "tools/workflow/plan_pricing.h"

namespace partita {
namespace {

class PlansInTurn : public StepTimer {
 public:
  PlansInTurn(InterleavedMeasurement& plans, size_t count,
              const std::function<void(size_t)>& progress)
      : plans_(plans), left_(count), progress_(progress) {}

  // The first round opens the plans, and makes a step of each.
  absl::Status Round() override {
    if (progress_) progress_(left_);
    return plans_.Round(plans_.StepsOfRound());
  }
  std::span<const int64_t> TimesOf(size_t contender) const override {
    return plans_.TimesOf(contender);
  }
  std::span<const int64_t> RoundsOf(size_t contender) const override {
    return plans_.RoundsOf(contender);
  }
  void Drop(size_t contender) override {
    plans_.Drop(contender);
    --left_;
  }

 private:
  InterleavedMeasurement& plans_;
  size_t left_;
  const std::function<void(size_t)>& progress_;
};

// The found plan, then rivals with other strategies.
absl::StatusOr<std::vector<PlanOutcome>> ContendersOf(const Evaluator& evaluator,
                                                      const PlanOutcome& found, size_t at_most) {
  std::vector<PlanOutcome> contenders = {found};
  const double most = kWorth * static_cast<double>(found.step.evaluation.time.value());
  bool has_expert = !found.expert.empty();
  for (const Rival& rival : found.rivals) {
    const bool is_worth = static_cast<double>(rival.time.value()) <= most;
    const bool has_room = contenders.size() < at_most;
    const bool is_needed = contenders.size() == 1 || (!has_expert && rival.is_expert);
    if (!(is_worth && has_room) && !is_needed) continue;
    auto made = PlanOf(evaluator, rival.named.strategy, rival.named.name);
    if (absl::IsResourceExhausted(made.status())) continue;
    RETURN_IF_ERROR(made.status());
    const bool is_new = std::none_of(
        contenders.begin(), contenders.end(),
        [&](const PlanOutcome& other) { return other.plan.strategy == made->plan.strategy; });
    if (!is_new) continue;
    if (rival.is_expert) made->expert = rival.named.name;
    has_expert |= rival.is_expert;
    contenders.push_back(*std::move(made));
  }
  return contenders;
}

// Number of plans that can be opened and make kFewSteps steps each in the time, by their prices.
size_t RoomFor(double seconds, const PlanOutcome& found) {
  const double step = 1e-9 * static_cast<double>(found.step.evaluation.time.value());
  const double room =
      seconds / (static_cast<double>(kFewSteps + kStepsToOpen) * std::max(step, 1e-9));
  return static_cast<size_t>(std::clamp(room, 2.0, static_cast<double>(kMostContenders)));
}

// Puts a contender's plan in place of the found one's, which keeps what the search says of itself.
void Replace(PlanOutcome chosen, PlanOutcome& found) {
  SearchResult& search = found.search;
  search.best = chosen.search.best;
  search.evaluation = chosen.search.evaluation;
  search.origin = chosen.plan.provenance.search;
  search.walked_all = search.locally_optimal = false;  // that was of the plan that was found
  Provenance provenance = std::move(found.plan.provenance);
  if (!chosen.expert.empty()) provenance.search = chosen.expert;
  found.plan = std::move(chosen.plan);
  found.plan.provenance = std::move(provenance);
  found.step = std::move(chosen.step);
  found.expert = std::move(chosen.expert);
}

std::string MillisecondsText(int64_t ns) {
  return absl::StrFormat("%.3f ms", static_cast<double>(ns) * 1e-6);
}

}  // namespace

absl::StatusOr<std::optional<ContestReport>> HoldContest(const Graph& graph,
                                                         const PricedMachine& priced,
                                                         const ContestOptions& options,
                                                         PlanOutcome& outcome) {
  const Doing doing("measuring plans");
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  const auto end = begin + std::chrono::duration_cast<Clock::duration>(
                               std::chrono::duration<double>(options.seconds));
  const Evaluator evaluator = EvaluatorOn(priced, graph);
  ASSIGN_OR_RETURN(std::vector<PlanOutcome> plans,
                   ContendersOf(evaluator, outcome, RoomFor(options.seconds, outcome)));
  if (plans.size() < 2) return std::nullopt;
  ContestReport report;
  std::vector<Contender> contenders;
  std::vector<Plan> to_run;
  for (const PlanOutcome& plan : plans) {
    const bool is_expert = !plan.expert.empty();
    const std::string name = is_expert            ? plan.expert
                             : contenders.empty() ? "searched"
                                                  : absl::StrCat("from ", plan.search.origin);
    contenders.push_back({name, is_expert, plan.step.evaluation.time});
    report.rows.push_back({name, is_expert, plan.step.evaluation.time, std::nullopt});
    to_run.push_back(plan.plan);
  }
  InterleavedMeasurement measurement(graph, std::move(to_run), options.measuring, options.stop);
  measurement.EndAt(end);
  PlansInTurn timer(measurement, contenders.size(), options.progress);
  const auto part_of_time = [&] {
    if (IsSet(options.stop)) return 1.0;
    return std::chrono::duration<double>(Clock::now() - begin) / (end - begin);
  };
  ASSIGN_OR_RETURN(const MeasuredChoice choice,
                   ChooseByMeasurement(contenders, part_of_time, timer));
  for (size_t k = 0; k < contenders.size(); ++k) report.rows[k].measured = choice.timings[k];
  report.chosen = choice.chosen;
  report.gave_way = choice.gave_way;
  report.is_sure = choice.is_sure;
  if (choice.chosen != 0) Replace(std::move(plans[choice.chosen]), outcome);
  return report;
}

std::string ContestText(const ContestReport& report) {
  std::string text =
      "measured on this machine, in turn (* is chosen; median, steps, and their spread):\n";
  for (size_t k = 0; k < report.rows.size(); ++k) {
    const ContestReport::Row& row = report.rows[k];
    absl::StrAppendFormat(&text, "%c %-18s predicted %s, ", k == report.chosen ? '*' : ' ',
                          row.name, MillisecondsText(row.predicted.value()));
    if (row.measured.has_value()) {
      absl::StrAppendFormat(&text, "measured %s (%d, %s to %s)\n",
                            MillisecondsText(row.measured->median_ns), row.measured->samples,
                            MillisecondsText(row.measured->low_ns),
                            MillisecondsText(row.measured->high_ns));
    } else {
      absl::StrAppend(&text, "not measured: time was up\n");
    }
  }
  if (report.gave_way.has_value()) {
    absl::StrAppend(&text, "  ", report.rows[*report.gave_way].name,
                    " is not faster beyond the spread: the expert's plan is taken\n");
  } else if (!report.is_sure) {
    absl::StrAppend(&text,
                    "  the order of the fastest is not sure (--measure_time gives more "
                    "time)\n");
  }
  return text;
}

}  // namespace partita
