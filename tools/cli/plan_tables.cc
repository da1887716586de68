#include "tools/cli/plan_tables.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "graph/parallel/device_ranges.h"
#include "graph/parallel/parallel_config.h"
#include "graph/support/status_macros.h"
#include "planner/critical_shares.h"
#include "planner/pareto.h"
#include "planner/space/like_operators.h"
#include "tools/cli/text.h"
#include "tools/workflow/plan_pricing.h"

namespace partita {
namespace {

std::string OriginOf(const PlanOutcome& outcome) {
  return outcome.expert.empty() ? absl::StrCat("from ", outcome.search.origin) : outcome.expert;
}

// Shares of the critical path that are shown each by itself.
constexpr size_t kMostShares = 6;

double Seconds(Nanos time) { return static_cast<double>(time.value()) * 1e-9; }

std::string PercentText(double part) { return absl::StrFormat("%.0f %%", 100 * part); }

// Shares of one kind at like operators, such as those of repeated blocks, as one.
struct SharesOfAlike {
  const CriticalShare* first = nullptr;  // the longest of them
  int count = 0;
  Nanos time;
};

// The longest first.
std::vector<SharesOfAlike> JoinAlike(const Graph& graph, const std::vector<CriticalShare>& shares) {
  const std::vector<int32_t> class_of = ByOperator(graph, LikeClasses(graph));
  std::map<std::pair<CriticalShare::Kind, std::vector<int32_t>>, SharesOfAlike> alike;
  for (const CriticalShare& share : shares) {
    std::vector<int32_t> key;
    for (OpId anchor : share.anchors) key.push_back(class_of[anchor.index()]);
    SharesOfAlike& one = alike[{share.kind, std::move(key)}];
    if (one.first == nullptr) one.first = &share;
    ++one.count;
    one.time += share.time;
  }
  std::vector<SharesOfAlike> joined;
  for (const auto& [key, one] : alike) joined.push_back(one);
  std::stable_sort(joined.begin(), joined.end(),
                   [](const SharesOfAlike& a, const SharesOfAlike& b) { return a.time > b.time; });
  return joined;
}

// "kernels 60 %, exchange 30 %".
std::string KindsText(const std::vector<CriticalShare>& shares, double whole) {
  std::string text;
  for (const auto kind : kCriticalKinds) {
    Nanos time;
    for (const CriticalShare& share : shares) {
      if (share.kind == kind) time += share.time;
    }
    if (time == Nanos(0)) continue;
    absl::StrAppend(&text, text.empty() ? "" : ", ", NameOf(kind), " ",
                    PercentText(Seconds(time) / whole));
  }
  return text;
}

const char* RoleName(LoopRole role) {
  switch (role) {
    case LoopRole::kSample:
      return "samples";
    case LoopRole::kAttribute:
      return "attributes";
    case LoopRole::kParameter:
      return "parameters";
    case LoopRole::kReduction:
      return "terms of sums";
  }
  return "";
}

Json SplitJson(const ShardingRule& rule, const ParallelConfig& config) {
  Json degrees = Json::object(), devices = Json::array();
  for (size_t l = 0; l < config.degrees.size(); ++l) {
    if (config.degrees[l] > 1) degrees[std::string(rule.loops[l].name)] = config.degrees[l];
  }
  for (const StridedDevices& range : RangesOf(config.devices)) {
    devices.push_back({{"first", range.first}, {"last", range.last}, {"step", range.step}});
  }
  return {{"operators", Json::array()},
          {"split", ToString(rule, config)},
          {"degrees", degrees},
          {"replicas", config.replicas},
          {"devices", devices}};
}

// Operators that follow each other and are split alike.
struct SplitRow {
  std::vector<OpId> operators;
  std::string split;
};

// Rows that come again and again, as those of the steps of a recurrent layer or of repeated blocks do,
// are shown once. Neighbours differ.
class SplitTable {
 public:
  SplitTable(const Graph& graph, std::vector<SplitRow> rows)
      : graph_(graph), rows_(std::move(rows)), class_of_(ByOperator(graph, LikeClasses(graph))) {}

  std::vector<std::vector<std::string>> Table() const {
    std::vector<std::vector<std::string>> table;
    for (size_t row = 0; row < rows_.size();) {
      const Repeat repeat = RepeatAt(row);
      for (size_t k = 0; k < repeat.rows; ++k) {
        const SplitRow& one = rows_[row + k];
        table.push_back({"  " + NamesOf(one), one.split});
      }
      row += repeat.rows * repeat.times;
      if (repeat.times == 1) continue;
      const OpId last = rows_[row - 1].operators.back();
      table.push_back({absl::StrCat("  (these ", repeat.rows, " lines ", repeat.times - 1,
                                    " times more, to ", graph_.op(last).name, ")")});
    }
    return table;
  }

 private:
  // So many rows, so many times.
  struct Repeat {
    size_t rows = 1, times = 1;
  };
  static constexpr size_t kMostRows = 64;  // that are one repeat
  static constexpr size_t kLeastTimes = 3;

  std::string NamesOf(const SplitRow& row) const {
    const std::string& first = graph_.op(row.operators.front()).name;
    if (row.operators.size() == 1) return first;
    return absl::StrCat(first, " .. ", graph_.op(row.operators.back()).name);
  }

  bool AreAlike(const SplitRow& a, const SplitRow& b) const {
    const auto is_like = [this](OpId x, OpId y) {
      return class_of_[x.index()] == class_of_[y.index()];
    };
    return a.split == b.split && std::ranges::equal(a.operators, b.operators, is_like);
  }

  // The repeat from a row on that saves most.
  Repeat RepeatAt(size_t row) const {
    Repeat best;
    for (size_t count = 2; count <= kMostRows && row + 2 * count <= rows_.size(); ++count) {
      size_t end = row + count;
      while (end < rows_.size() && AreAlike(rows_[end - count], rows_[end])) ++end;
      const size_t times = (end - row) / count;
      if (times < kLeastTimes) continue;
      if (count * (times - 1) > best.rows * (best.times - 1)) best = {count, times};
    }
    return best;
  }

  const Graph& graph_;
  const std::vector<SplitRow> rows_;
  const std::vector<int32_t> class_of_;  // indexed by OpId
};

}  // namespace

void AddSplits(const Graph& graph, const Strategy& strategy, Answer& answer) {
  Json splits = Json::array();
  std::vector<SplitRow> rows;
  std::map<std::string, std::set<std::string>> roles;  // by loop
  bool has_copies = false;
  for (OpId id : graph.anchors()) {
    const Operator& op = graph.op(id);
    const ParallelConfig& config = strategy.configs[id.index()];
    const bool is_new =
        splits.empty() || splits.back()["split"] != ToString(graph.rule(id), config);
    if (is_new) {
      splits.push_back(SplitJson(graph.rule(id), config));
      rows.push_back({{}, ToString(graph.rule(id), config)});
    }
    splits.back()["operators"].push_back(op.name);
    rows.back().operators.push_back(id);
    has_copies |= config.replicas > 1;
    for (size_t l = 0; l < config.degrees.size(); ++l) {
      if (config.degrees[l] <= 1) continue;
      roles[std::string(graph.rule(id).loops[l].name)].insert(
          RoleName(RoleOf(graph, op, static_cast<int>(l))));
    }
  }
  answer.text += TableText(SplitTable(graph, std::move(rows)).Table(), 2);
  std::vector<std::string> legend;
  for (const auto& [loop, meant] : roles) {
    legend.push_back(absl::StrCat(loop, ": ", absl::StrJoin(meant, " or ")));
  }
  if (!legend.empty()) {
    absl::StrAppend(&answer.text, "  (", absl::StrJoin(legend, ", "), ")\n");
  }
  if (!legend.empty() || has_copies) {
    absl::StrAppend(&answer.text, "  (n=2: 2 parts along n", has_copies ? ", x2: 2 copies" : "",
                    ", on: their devices)\n");
  }
  answer.json["splits"] = std::move(splits);
}

absl::Status AddFront(const Graph& graph, const MeasuredSearch& search, const PlanRequest& request,
                      Answer& answer) {
  const Evaluator evaluator = EvaluatorOn(search.priced, graph);
  ASSIGN_OR_RETURN(const std::vector<PlanOutcome> front,
                   FindFront(evaluator, request, search.outcome));
  std::vector<std::vector<std::string>> table = {{}};
  Json list = Json::array();
  Bytes largest;
  for (const PlanOutcome& point : front) {
    largest = std::max(largest, LargestPeakOf(point.step.evaluation));
  }
  const ByteUnit unit = UnitFor(largest);
  table[0] = {absl::StrCat("largest peak\nper device, ", unit.name), "predicted", "plan"};
  for (const PlanOutcome& point : front) {
    const Bytes peak = LargestPeakOf(point.step.evaluation);
    const Nanos time = point.step.evaluation.time;
    table.push_back({unit.In(peak), TimeText(time), OriginOf(point)});
    list.push_back({{"peak_bytes_per_device", peak.value()},
                    {"predicted_ns", time.value()},
                    {"origin", point.search.origin},
                    {"expert", point.expert.empty() ? Json(nullptr) : Json(point.expert)}});
  }
  answer.json["front"] = list;
  absl::StrAppend(&answer.text, "step time against memory (--memory_limit writes such a plan):\n",
                  TableText(table, 3));
  return absl::OkStatus();
}

void AddCritical(const Graph& graph, const SimulatedResources& resources, const EvaluatedStep& step,
                 Answer& answer) {
  const std::vector<CriticalShare> shares = CriticalSharesOf(graph, resources, step);
  Json list = Json::array();
  for (const CriticalShare& share : shares) {
    Json names = Json::array();
    for (OpId anchor : share.anchors) names.push_back(graph.op(anchor).name);
    list.push_back({{"of", names}, {"kind", NameOf(share.kind)}, {"ns", share.time.value()}});
  }
  answer.json["critical"] = list;
  if (shares.empty()) return;
  const double whole = Seconds(std::max(Nanos(1), step.evaluation.time));
  std::vector<std::vector<std::string>> table;
  Nanos others;
  const std::vector<SharesOfAlike> alike = JoinAlike(graph, shares);
  for (const SharesOfAlike& one : alike) {
    if (table.size() == kMostShares) {
      others += one.time;
      continue;
    }
    std::string of = "  " + OperatorsOf(graph, *one.first);
    if (one.count > 1) absl::StrAppend(&of, " and ", one.count - 1, " like it");
    table.push_back({std::move(of), NameOf(one.first->kind), TimeText(one.time),
                     PercentText(Seconds(one.time) / whole)});
  }
  if (others > Nanos(0)) {
    table.push_back({absl::StrCat("  ", alike.size() - kMostShares, " others"), "",
                     TimeText(others), PercentText(Seconds(others) / whole)});
  }
  absl::StrAppend(&answer.text, "the step waits for ", KindsText(shares, whole), ":\n",
                  TableText(table, 2));
}

void AddScaling(const std::vector<ScalingRow>& rows, Answer& answer) {
  Bytes largest;
  for (const ScalingRow& row : rows) {
    largest = std::max(largest, LargestPeakOf(row.outcome.step.evaluation));
  }
  const ByteUnit unit = UnitFor(largest);
  std::vector<std::vector<std::string>> table = {
      {"devices", "predicted", "speed-\nup", "effi-\nciency", "data_\nparallel",
       absl::StrCat("peak\n/device\n", unit.name), "plan"}};
  Json list = Json::array();
  for (const ScalingRow& row : rows) {
    const Nanos time = row.outcome.step.evaluation.time;
    const Bytes peak = LargestPeakOf(row.outcome.step.evaluation);
    const auto& baseline = row.outcome.baseline;
    const double speed_up = Seconds(rows[0].outcome.step.evaluation.time) / Seconds(time);
    const double efficiency = speed_up * rows[0].devices / row.devices;
    table.push_back({absl::StrCat(row.devices), TimeText(time), absl::StrFormat("%.2fx", speed_up),
                     absl::StrFormat("%.0f %%", 100 * efficiency),
                     baseline ? TimeText(*baseline) : "-", unit.In(peak), OriginOf(row.outcome)});
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
  answer.text += TableText(table, 1);
}

}  // namespace partita
