#include "tools/cli/plan_tables.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "graph/support/status_macros.h"
#include "planner/pareto.h"
#include "tools/cli/text.h"
#include "tools/workflow/plan_pricing.h"

namespace partita {
namespace {

std::string OriginOf(const PlanOutcome& outcome) {
  return outcome.expert.empty() ? absl::StrCat("from ", outcome.search.origin) : outcome.expert;
}

double Seconds(Nanos time) { return static_cast<double>(time.value()) * 1e-9; }

}  // namespace

absl::Status AddFront(const Graph& graph, const MeasuredSearch& search, const PlanRequest& request,
                      Answer& answer) {
  const Evaluator evaluator = EvaluatorOn(search.priced, graph);
  ASSIGN_OR_RETURN(const std::vector<PlanOutcome> front,
                   FindFront(evaluator, request, search.outcome));
  std::vector<std::vector<std::string>> table = {{"largest peak/device", "predicted", "plan"}};
  Json list = Json::array();
  for (const PlanOutcome& point : front) {
    const Bytes peak = LargestPeakOf(point.step.evaluation);
    const Nanos time = point.step.evaluation.time;
    table.push_back({BytesText(peak), TimeText(time), OriginOf(point)});
    list.push_back({{"peak_bytes_per_device", peak.value()},
                    {"predicted_ns", time.value()},
                    {"origin", point.search.origin},
                    {"expert", point.expert.empty() ? Json(nullptr) : Json(point.expert)}});
  }
  answer.json["front"] = list;
  absl::StrAppend(&answer.text, "step time against memory (--memory_limit writes such a plan):\n",
                  TableText(table, 2));
  return absl::OkStatus();
}

void AddScaling(const std::vector<ScalingRow>& rows, Answer& answer) {
  std::vector<std::vector<std::string>> table = {
      {"devices", "predicted", "speed-up", "efficiency", "data_parallel", "peak/device", "plan"}};
  Json list = Json::array();
  for (const ScalingRow& row : rows) {
    const Nanos time = row.outcome.step.evaluation.time;
    const Bytes peak = LargestPeakOf(row.outcome.step.evaluation);
    const auto& baseline = row.outcome.baseline;
    const double speed_up = Seconds(rows[0].outcome.step.evaluation.time) / Seconds(time);
    const double efficiency = speed_up * rows[0].devices / row.devices;
    table.push_back({absl::StrCat(row.devices), TimeText(time), absl::StrFormat("%.2fx", speed_up),
                     absl::StrFormat("%.0f %%", 100 * efficiency),
                     baseline ? TimeText(*baseline) : "-", BytesText(peak), OriginOf(row.outcome)});
    list.push_back(
        {{"devices", row.devices},
         {"predicted_ns", time.value()},
         {"speed_up", speed_up},
         {"efficiency", efficiency},
         {"baseline_ns", baseline ? Json(baseline->value()) : Json(nullptr)},
         {"peak_bytes_per_device", peak.value()},
         {"origin", row.outcome.search.origin},
         {"expert", row.outcome.expert.empty() ? Json(nullptr) : Json(row.outcome.expert)}});
  }
  answer.json["scaling"] = list;
  answer.text += TableText(table, 6);
}

}  // namespace partita
