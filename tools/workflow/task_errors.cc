#include "tools/workflow/task_errors.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cost_model/profile.h"

namespace partita {
namespace {

std::string KindOf(const TaskGraph& tasks, const Task& task) {
  if (const auto* compute = std::get_if<ComputeTask>(&task.body)) {
    return ToString(tasks.signatures()[static_cast<size_t>(compute->signature)]);
  }
  if (const auto* move = std::get_if<MoveTask>(&task.body)) {
    std::string text;
    for (const MoveSignature& signature : SignaturesOf(*move)) {
      absl::StrAppend(&text, text.empty() ? "" : " + ", ToString(signature));
    }
    return text;
  }
  if (const auto* load = std::get_if<LoadTask>(&task.body)) {
    return absl::StrCat("load of ", tasks.buffer(load->buffer).elements(), " elements");
  }
  if (const auto* collective = std::get_if<CollectiveTask>(&task.body)) {
    return KeyOf(
        {&collective->collective, collective->algorithm, collective->group, collective->dtype});
  }
  const auto& transfer = std::get<TransferTask>(task.body);
  int64_t elements = 0;
  for (const Transfer& t : transfer.transfers) elements += t.receive.count;
  return absl::StrCat(transfer.transfers.size(), " transfers of ",
                      elements * SizeOf(transfer.dtype), " bytes");
}

}  // namespace

SourceShares SharesOf(const EvaluatedStep& step) {
  SourceShares shares;
  double sum = 0;
  for (size_t t = 0; t < step.costs.size(); ++t) {
    const auto time = static_cast<double>(step.durations[t].value());
    sum += time;
    switch (step.costs[t].source) {
      case CostSource::kMeasured:
        shares.measured += time;
        break;
      case CostSource::kUnsteady:
        shares.unsteady += time;
        break;
      case CostSource::kInterpolated:
        shares.interpolated += time;
        break;
      case CostSource::kRoofline:
        shares.roofline += time;
        break;
    }
  }
  if (sum <= 0) return {.measured = 1};
  return {shares.measured / sum, shares.interpolated / sum, shares.roofline / sum,
          shares.unsteady / sum};
}

std::string SourcesText(const SourceCounts& tasks, const SourceShares& shares) {
  const std::tuple<int64_t, double, const char*> sources[] = {
      {tasks.measured, shares.measured, "measurement"},
      {tasks.unsteady, shares.unsteady, "unsteady measurement"},
      {tasks.interpolated, shares.interpolated, "interpolation"},
      {tasks.roofline, shares.roofline, "roofline"}};
  std::string text;
  for (const auto& [count, share, name] : sources) {
    if (count == 0) continue;
    const bool is_first = text.empty();
    absl::StrAppendFormat(&text, "%s%d %sby %s (%.0f %%%s)", is_first ? "" : ", ", count,
                          is_first ? (count == 1 ? "task " : "tasks ") : "", name, 100 * share,
                          is_first ? " of the time" : "");
  }
  return text;
}

std::vector<TaskKindError> TaskErrors(const EvaluatedStep& predicted,
                                      std::span<const std::vector<MeasuredInstruction>> steps) {
  std::map<std::pair<TaskId, DeviceId>, std::vector<int64_t>> measured;
  for (const auto& step : steps) {
    for (const MeasuredInstruction& m : step) {
      measured[{m.task, m.device}].push_back(m.end_ns - m.start_ns);
    }
  }
  std::map<std::string, TaskKindError> kinds;
  for (auto& [who, samples] : measured) {
    const TaskId id = who.first;
    TaskKindError& error = kinds[KindOf(predicted.tasks, predicted.tasks.task(id))];
    ++error.tasks;
    error.source = std::max(error.source, predicted.costs[id.index()].source);
    error.predicted +=
        (predicted.schedule.end[id.index()] - predicted.schedule.start[id.index()]).value();
    error.measured += TimingOf(samples).median_ns;
  }
  std::vector<TaskKindError> errors;
  for (auto& [kind, error] : kinds) {
    error.kind = kind;
    errors.push_back(std::move(error));
  }
  std::stable_sort(errors.begin(), errors.end(), [](const auto& a, const auto& b) {
    return std::abs(a.difference()) > std::abs(b.difference());
  });
  return errors;
}

}  // namespace partita
