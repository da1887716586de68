#include "tests/bench/roofline.h"

#include <algorithm>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "cost_model/casts.h"
#include "cost_model/roofline_cost.h"
#include "graph/parallel/strategy.h"
#include "graph/partition/partition.h"
#include "graph/support/status_macros.h"
#include "graph/task/task_order.h"
#include "runtime/backend/cuda/plan/kernel_steps.h"

namespace partita {
namespace {

using Json = nlohmann::json;

std::string WorkNameOf(const KernelSignature& signature) {
  const auto named = [](const OpAttrs& attrs, Pass pass) {
    return absl::StrCat(NameOf(attrs), pass.is_forward() ? "" : absl::StrCat(".d", pass.gradient));
  };
  std::string name = named(signature.attrs, signature.pass);
  for (const FusedOperator& other : signature.fusion.rest) {
    absl::StrAppend(&name, " + ", named(other.attrs, other.pass));
  }
  return name;
}

int64_t LaunchesOf(const KernelSignature& signature, const KernelStep& step) {
  if (const auto* reduction = std::get_if<ReductionWork>(&step)) {
    return reduction->shape.chunks > 1 ? 2 : 1;
  }
  const auto* elements = std::get_if<ElementWork>(&step);
  if (elements == nullptr) return 1;
  // A copy has nothing to do where the result takes the operand's buffer.
  const auto* copy = std::get_if<CopyElement>(&elements->functor);
  return copy != nullptr && copy->factor == 1 && !InPlace(signature).empty() ? 0 : 1;
}

// Of the first way in which the backend would do it.
absl::StatusOr<int64_t> LaunchesOf(const KernelSignature& signature) {
  ASSIGN_OR_RETURN(const KernelSteps plan,
                   PlanShapes(signature, WaysToPlan(signature.compute_type).front()));
  int64_t launches = 0;
  for (const KernelStep& step : plan.steps) launches += LaunchesOf(signature, step);
  return launches;
}

// The backend does fused operators one after the other, but for an epilogue.
int64_t BytesBetweenOperators(const KernelSignature& signature) {
  if (!signature.is_fused() || HasOnlyEpilogue(signature)) return 0;
  int64_t bytes = -MinimumBytes(signature);
  for (const KernelStage& stage : StagesOf(signature)) bytes += MinimumBytes(stage.kernel);
  return bytes;
}

std::optional<double> MeasuredUs(const StepRoofline& step, const RooflineRow& row) {
  if (!step.measured.has_value()) return std::nullopt;
  const auto found = step.measured->task_us.find(row.task);
  if (found == step.measured->task_us.end()) return std::nullopt;
  return found->second;
}

// "67.3 a", bound by arithmetic, or "6.4 m", by memory; the measured time and its ratio to that,
// which says nothing of kernels that are so short.
void AppendTimes(const StepRoofline& step, const RooflineRow& row, std::string& text) {
  constexpr double kShortUs = 2;
  absl::StrAppendFormat(&text, " %.1f %s |", row.roof_us(),
                        row.roof_us() == 0      ? "-"
                        : row.bound_by_memory() ? "m"
                                                : "a");
  if (!step.measured.has_value()) return;
  const auto us = MeasuredUs(step, row);
  if (!us.has_value()) {
    text += " - |";
  } else if (row.roof_us() < kShortUs) {
    absl::StrAppendFormat(&text, " %.1f |", *us);
  } else {
    absl::StrAppendFormat(&text, " %.1f (%.2f) |", *us, *us / row.roof_us());
  }
}

std::string BoundOf(const RooflineRow& row) {
  return row.roof_us() == 0 ? "-" : row.bound_by_memory() ? "memory" : "arithmetic";
}

double Giga(int64_t count) { return static_cast<double>(count) * 1e-9; }
double Mega(int64_t count) { return static_cast<double>(count) * 1e-6; }

absl::Status NoReport(const std::string& path, const std::string& why) {
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": ", why, "; wanted is a report of the GPU suite (tests/gpu_reports/)"));
}

}  // namespace

double RooflineRow::intensity() const {
  return bytes == 0 ? 0 : static_cast<double>(flops) / static_cast<double>(bytes);
}

absl::StatusOr<RooflineRow> RooflineOf(const KernelSignature& signature,
                                       const DeviceClass& device) {
  const Work work = WorkOf(signature);
  RooflineRow row;
  row.work = WorkNameOf(signature);
  ASSIGN_OR_RETURN(row.launches, LaunchesOf(signature));
  if (row.launches == 0) return row;
  row.flops = 2 * work.multiply_adds + work.other;
  row.of_scratch = CastsOf(signature).bytes + BytesBetweenOperators(signature);
  row.bytes = MinimumBytes(signature) + row.of_scratch;
  row.arithmetic_us = 1e6 * (2 * static_cast<double>(work.multiply_adds) /
                                 device.MatrixFlops(signature.compute_type) +
                             static_cast<double>(work.other) / device.other_flops);
  row.memory_us = 1e6 * static_cast<double>(row.bytes) / device.memory_bytes_per_second;
  return row;
}

absl::StatusOr<std::vector<RooflineRow>> RooflineOfStep(const Graph& graph, const Machine& machine,
                                                        Precision precision) {
  PartitionOptions options;
  options.precision_of_device = {precision};
  const DeviceId device(0);
  ASSIGN_OR_RETURN(const TaskGraph tasks, Partition(graph, SingleDevice(graph, device), options));
  const RooflineCost cost(std::make_shared<const Machine>(machine));
  std::vector<RooflineRow> rows;
  for (const TaskId id : CanonicalOrder(tasks)) {
    const auto* compute = std::get_if<ComputeTask>(&tasks.task(id).body);
    if (compute == nullptr) continue;  // loads of the batch and of ones
    const KernelSignature& signature = tasks.signatures()[static_cast<size_t>(compute->signature)];
    ASSIGN_OR_RETURN(RooflineRow row, RooflineOf(signature, machine.ClassOf(device)));
    rows.push_back(std::move(row));
    rows.back().task = TaskName(graph, tasks.task(id));
    const auto priced = cost.KernelCost(signature, device);
    if (priced.has_value()) rows.back().priced_us = static_cast<double>(priced->time.value()) / 1e3;
  }
  return rows;
}

absl::StatusOr<MeasuredStep> ReadMeasuredStep(const std::string& path, int64_t batch,
                                              Precision precision) {
  std::ifstream file(path);
  if (!file) return absl::NotFoundError(absl::StrCat("cannot read ", path));
  const Json report = Json::parse(file, nullptr, false);
  if (!report.is_object() || !report.contains("sections")) return NoReport(path, "no sections");
  try {
    for (const Json& section : report.at("sections")) {
      if (section.at("name") != "alexnet") continue;
      for (const Json& run : section.at("details").at("runs")) {
        if (run.at("batch") != batch || run.at("precision") != RowOf(precision).name) continue;
        MeasuredStep step;
        step.step_us = 1e3 * run.at("step_ms").get<double>();
        for (const Json& task : run.at("with_timeline").at("task_us")) {
          step.task_us[task.at(0).get<std::string>()] += task.at(1).get<double>();
        }
        return step;
      }
    }
  } catch (const Json::exception& error) {
    return NoReport(path, error.what());
  }
  return absl::NotFoundError(absl::StrCat(path, " has no run of alexnet with batch ", batch, " in ",
                                          RowOf(precision).name));
}

RooflineSum SumOf(const std::vector<RooflineRow>& rows) {
  RooflineSum sum;
  for (const RooflineRow& row : rows) {
    sum.launches += row.launches;
    sum.flops += row.flops;
    sum.bytes += row.bytes;
    sum.roof_us += row.roof_us();
    sum.priced_us += row.priced_us;
    if (row.bound_by_memory()) sum.memory_bound_us += row.roof_us();
  }
  return sum;
}

std::string RooflineTable(const std::vector<StepRoofline>& steps) {
  std::string text = "| task | operators | launches | GFLOP | MB | of them scratch | FLOP/byte |";
  std::string line = "|---|---|---|---|---|---|---|";
  for (const StepRoofline& step : steps) {
    absl::StrAppend(&text, " ", RowOf(step.precision).name, ": roof, us |");
    line += "---|";
    if (!step.measured.has_value()) continue;
    text += " measured, us |";
    line += "---|";
  }
  absl::StrAppend(&text, "\n", line, "\n");
  const auto numbers = [&](auto field) {
    std::vector<std::string> cells;
    for (const StepRoofline& step : steps) cells.push_back(field(step));
    if (std::all_of(cells.begin(), cells.end(), [&](const auto& c) { return c == cells[0]; })) {
      return cells[0];
    }
    return absl::StrJoin(cells, ", ");
  };
  for (size_t k = 0; k < steps[0].rows.size(); ++k) {
    const auto of_row = [&](auto field) {
      return numbers([&](const StepRoofline& step) { return field(step.rows[k]); });
    };
    const RooflineRow& first = steps[0].rows[k];
    absl::StrAppend(
        &text, "| ", first.task, " | ", first.work, " | ",
        of_row([](const auto& row) { return absl::StrCat(row.launches); }), " | ",
        of_row([](const auto& row) { return absl::StrFormat("%.3f", Giga(row.flops)); }), " | ",
        of_row([](const auto& row) { return absl::StrFormat("%.2f", Mega(row.bytes)); }), " | ",
        of_row([](const auto& row) { return absl::StrFormat("%.2f", Mega(row.of_scratch)); }),
        " | ", of_row([](const auto& row) { return absl::StrFormat("%.1f", row.intensity()); }),
        " |");
    for (const StepRoofline& step : steps) AppendTimes(step, step.rows[k], text);
    text += "\n";
  }
  const auto of_sum = [&](auto field) {
    return numbers([&](const StepRoofline& step) { return field(SumOf(step.rows)); });
  };
  absl::StrAppend(
      &text, "| step | | ", of_sum([](const auto& sum) { return absl::StrCat(sum.launches); }),
      " | ", of_sum([](const auto& sum) { return absl::StrFormat("%.1f", Giga(sum.flops)); }),
      " | ", of_sum([](const auto& sum) { return absl::StrFormat("%.0f", Mega(sum.bytes)); }),
      " | | |");
  for (const StepRoofline& step : steps) {
    const double roof = SumOf(step.rows).roof_us;
    absl::StrAppendFormat(&text, " %.0f |", roof);
    if (!step.measured.has_value()) continue;
    absl::StrAppendFormat(&text, " %.0f (%.2f) |", step.measured->step_us,
                          step.measured->step_us / roof);
  }
  return text + "\n";
}

std::string FurthestFromTheRoof(const StepRoofline& step, size_t count) {
  std::vector<std::pair<double, const RooflineRow*>> lost;  // microseconds
  for (const RooflineRow& row : step.rows) {
    if (const auto us = MeasuredUs(step, row)) lost.emplace_back(*us - row.roof_us(), &row);
  }
  std::stable_sort(lost.begin(), lost.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string text;
  for (size_t k = 0; k < std::min(count, lost.size()); ++k) {
    const auto& [us, row] = lost[k];
    absl::StrAppendFormat(&text, "- %s (%s, bound by %s): %.0f us over a roof of %.0f us\n",
                          row->task, row->work, BoundOf(*row), us, row->roof_us());
  }
  return text;
}

}  // namespace partita
