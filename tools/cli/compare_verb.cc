#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "graph/support/doing.h"
#include "graph/support/error_category.h"
#include "graph/support/status_macros.h"
#include "planner/expert/expert_strategies.h"
#include "planner/pods/pod_experts.h"
#include "tools/cli/flags.h"
#include "tools/cli/notes.h"
#include "tools/cli/planning.h"
#include "tools/cli/progress.h"
#include "tools/cli/staging.h"
#include "tools/cli/text.h"
#include "tools/cli/verb.h"
#include "tools/cli/verb_options.h"
#include "tools/workflow/measurement.h"
#include "tools/workflow/plan_pricing.h"
#include "tools/workflow/stage_ends.h"
#include "tools/workflow/step_ratio.h"
#include "tools/workflow/task_errors.h"
#include "tools/workflow/verification.h"

namespace partita {
namespace {

struct Row {
  std::string name;
  std::string declined;           // why there is no plan
  std::string expert;             // name of the expert that made the plan, if one did
  std::optional<size_t> same_as;  // an earlier row of the same plan, which stands for both
  Plan plan;
  Evaluation evaluation;
  SourceShares shares;
  std::optional<Nanos> measured;
  std::vector<int64_t> steps, rounds;  // measured, in ns: of steps, and medians of rounds of a few
  std::optional<StepRatio> over_fastest;
  std::optional<bool> equal;
};

bool IsSamePlan(const Plan& a, const Plan& b) {
  return a.strategy == b.strategy && a.choices == b.choices && a.order == b.order;
}

class CompareRun {
 public:
  CompareRun(const CompareFlags& flags, Stages* stages) : flags_(flags), stages_(stages) {}

  absl::StatusOr<Answer> Run() {
    int devices = 0;
    if (flags_.measure || !flags_.plans.empty()) {
      MachineRequest machine = flags_.machine;
      machine.will_measure = flags_.profile_time > 0;
      ASSIGN_OR_RETURN(const PricedMachine unprofiled, PriceMachine(machine));
      if (flags_.measure) RETURN_IF_ERROR(CheckCanMeasure(unprofiled));
      devices = unprofiled.machine->topology.size();
    }
    ModelRequest request = flags_.model;
    request.values = flags_.verify    ? WeightValues::kRequired
                     : flags_.measure ? WeightValues::kIfPresent
                                      : WeightValues::kSkipped;
    ASSIGN_OR_RETURN(model_, LoadTrainingModel(request, stages_));
    RETURN_IF_ERROR(ReadPlans(devices));
    PlanRequest plan = WithProgress(flags_.plan);
    plan.graph_at = [this](int64_t batch) { return TrainingGraphAt(batch, model_); };
    ASSIGN_OR_RETURN(MeasuredSearch search,
                     SearchOnMachine(flags_.machine, model_.graph, plan,
                                     {.profile = flags_.profile_time}, stages_));
    priced_ = std::move(search.priced);
    disturbance_ = search.disturbance;
    const Evaluator evaluator = EvaluatorOn(priced_, model_.graph);
    RETURN_IF_ERROR(AddRows(evaluator, plan.graph_at, std::move(search.outcome)));
    RETURN_IF_ERROR(stopped_);
    if (flags_.measure) RETURN_IF_ERROR(Measure());
    if (flags_.verify) RETURN_IF_ERROR(Verify());
    return Report();
  }

 private:
  absl::Status CheckCanMeasure(const PricedMachine& machine) const {
    if (!machine.is_local) {
      return UsageError(absl::StrCat("--measure runs plans on this host, and machine '",
                                     flags_.machine.machine, "' is another: leave one away"));
    }
    const auto devices = machine.machine->topology.devices();
    if (devices.back().node != devices.front().node) {
      return UsageError(absl::StrCat("--measure runs plans in this process, and machine '",
                                     flags_.machine.machine,
                                     "' has several nodes: measure by partita launch"));
    }
    return absl::OkStatus();
  }

  // Before anything is profiled or searched: what is wrong with a plan file is said at once.
  absl::Status ReadPlans(int devices) {
    for (const std::string& path : flags_.plans) {
      ASSIGN_OR_RETURN(LoadedPlan loaded,
                       ReadPlan({path, flags_.model.model, WeightValues::kSkipped}));
      if (loaded.plan.model.fingerprint != model_.graph.fingerprint()) {
        return absl::InvalidArgumentError(
            absl::StrCat("plan '", path, "' is for another graph than ", flags_.model.model,
                         " at batch ", model_.graph.batch()));
      }
      if (loaded.plan.topology.size() != devices) {
        return absl::InvalidArgumentError(
            absl::StrCat("plan '", path, "' is for ", loaded.plan.topology.size(),
                         " devices; compared are ", devices, ". Try --devices"));
      }
      plans_.push_back(std::move(loaded.plan));
    }
    return absl::OkStatus();
  }

  absl::Status AddRow(const std::string& name, absl::StatusOr<PlanOutcome> outcome) {
    Row row;
    row.name = name;
    if (outcome.ok()) {
      outcome->plan.model = model_.label;
      RETURN_IF_ERROR(EndRow(name, *outcome));
      row.expert = outcome->expert;
      row.plan = std::move(outcome->plan);
      row.evaluation = outcome->step.evaluation;
      row.shares = SharesOf(outcome->step);
      for (size_t k = 0; k < rows_.size() && !row.same_as.has_value(); ++k) {
        if (IsRun(rows_[k]) && IsSamePlan(rows_[k].plan, row.plan)) row.same_as = k;
      }
    } else if (absl::IsFailedPrecondition(outcome.status()) ||
               absl::IsResourceExhausted(outcome.status())) {
      row.declined = std::string(outcome.status().message());
    } else {
      return outcome.status();
    }
    rows_.push_back(std::move(row));
    Emit("strategy",
         rows_.back().declined.empty() ? RowJson(rows_.back()) : DeclinedJson(rows_.back()));
    return absl::OkStatus();
  }

  // Whether the row has a plan that no earlier one has.
  static bool IsRun(const Row& row) { return row.declined.empty() && !row.same_as.has_value(); }
  // The row that stands for it.
  const Row& Standing(const Row& row) const {
    return row.same_as.has_value() ? rows_[*row.same_as] : row;
  }

  // Every row goes through the stages in a folder of its own; the command stops when all have
  // reached the stage after which it should.
  absl::Status EndRow(const std::string& name, const PlanOutcome& outcome) {
    if (stages_ == nullptr) return absl::OkStatus();
    stages_->BeginRow(absl::StrReplaceAll(name, {{"/", "_"}}));
    absl::Status status = EndPlanning(stages_, model_.graph, outcome);
    if (status.ok()) status = EndLowering(stages_, model_.graph, outcome, SizesOn(priced_));
    if (!StoppedAsAsked(status)) return status;
    stopped_ = std::move(status);
    return absl::OkStatus();
  }

  absl::Status AddExperts(const Evaluator& evaluator, const LowerBound& bound) {
    for (const ExpertRow& expert : ExpertStrategies()) {
      const PlanRequest request{
          .strategy = expert.name, .priority = flags_.plan.priority, .bound = bound};
      RETURN_IF_ERROR(AddRow(expert.name, MakePlan(evaluator, request)));
    }
    return absl::OkStatus();
  }

  // Of machines whose plans are searched by pods.
  absl::Status AddPodExperts(const Evaluator& evaluator, const GraphAt& graph_at) {
    ASSIGN_OR_RETURN(Evaluator::Options options,
                     OptionsFor({.priority = flags_.plan.priority}, evaluator.options()));
    const Evaluator own(evaluator.graph(), evaluator.topology(), evaluator.model(),
                        std::move(options));
    const PodExperts experts(own, graph_at);
    bool has_pods = false;
    for (const ExpertRow& expert : ExpertStrategies()) {
      ShowProgress(absl::StrCat("comparing ", expert.name),
                   {.of = "compare",
                    .done = static_cast<double>(&expert - ExpertStrategies().data()),
                    .wanted = static_cast<double>(ExpertStrategies().size())});
      auto outcome = experts.PlanOf(expert.name);
      const std::string name = outcome.ok() ? outcome->search.origin : expert.name;
      has_pods |= name != expert.name;
      RETURN_IF_ERROR(AddRow(name, std::move(outcome)));
    }
    if (has_pods) {
      notes_.push_back(
          "experts for pods of devices go by their name inside of each pod, and pods train equal "
          "shares of the batch");
    }
    return absl::OkStatus();
  }

  absl::Status AddRows(const Evaluator& evaluator, const GraphAt& graph_at, PlanOutcome searched) {
    if (HasPods(evaluator)) {
      RETURN_IF_ERROR(AddPodExperts(evaluator, graph_at));
    } else {
      RETURN_IF_ERROR(AddExperts(evaluator, searched.bound));
    }
    if (!searched.expert.empty()) {
      notes_.push_back(absl::StrCat("searched: nothing faster than ", searched.expert,
                                    " was found, whose plan it is"));
    }
    RETURN_IF_ERROR(AddRow("searched", std::move(searched)));
    for (size_t k = 0; k < plans_.size(); ++k) {
      const std::string& path = flags_.plans[k];
      const Doing doing("building plan", path);
      auto outcome = EvaluatePlan(evaluator, plans_[k], graph_at);
      if (absl::IsInvalidArgument(outcome.status())) {
        return absl::InvalidArgumentError(
            absl::StrCat("plan '", path, "': ", outcome.status().message()));
      }
      if (outcome.ok()) {
        const std::string note = PriceNote(plans_[k], *outcome, priced_, flags_.machine);
        if (!note.empty()) notes_.push_back(absl::StrCat(path, ": ", note));
      }
      RETURN_IF_ERROR(AddRow(path, std::move(outcome)));
    }
    return absl::OkStatus();
  }

  absl::Status Measure() {
    std::vector<Plan> plans;
    for (const Row& row : rows_) {
      if (IsRun(row)) plans.push_back(row.plan);
    }
    double done = 0;
    const double wanted = static_cast<double>(plans.size()) * flags_.steps;
    const auto show = [&] {
      ShowProgress(absl::StrCat("measuring all plans in turn: step ", done, " of ", wanted),
                   {.of = "measure", .done = done++, .wanted = wanted});
    };
    show();
    InterleavedMeasurement measurement(model_.graph, std::move(plans),
                                       {.backends = flags_.machine.backends,
                                        .precision = priced_.precision,
                                        .nondeterministic = priced_.nondeterministic,
                                        .profile = flags_.machine.profile,
                                        .on_step = show},
                                       &g_interrupted);
    RETURN_IF_ERROR(measurement.Rounds(flags_.steps));
    if (!measurement.note().empty()) notes_.push_back(measurement.note());
    const std::vector<std::optional<Nanos>> times = measurement.Medians();
    size_t next = 0;
    const Row* fastest = nullptr;
    for (Row& row : rows_) {
      if (!IsRun(row)) continue;
      const auto steps = measurement.TimesOf(next), rounds = measurement.RoundsOf(next);
      row.steps.assign(steps.begin(), steps.end());
      row.rounds.assign(rounds.begin(), rounds.end());
      row.measured = times[next++];
      if (!row.measured.has_value()) continue;
      if (fastest == nullptr || *row.measured < *fastest->measured) fastest = &row;
    }
    for (Row& row : rows_) {
      if (row.measured.has_value()) row.over_fastest = RatioOf(row.rounds, fastest->rounds);
    }
    return absl::OkStatus();
  }

  absl::Status Verify() {
    double proven = 0;
    const auto wanted = static_cast<double>(std::count_if(rows_.begin(), rows_.end(), IsRun));
    for (Row& row : rows_) {
      if (!IsRun(row) || g_interrupted.load()) continue;
      VerificationRequest request;
      request.progress = [&](double done, double steps) {
        ShowProgress(absl::StrCat("verifying ", row.name),
                     {.of = "verify", .done = proven + done / steps, .wanted = wanted});
      };
      request.progress(0, 1);
      request.quick = flags_.quick;
      if (flags_.quick) request.steps = 1;
      request.stop = &g_interrupted;
      ASSIGN_OR_RETURN(const VerificationResult result,
                       VerifyTrainingPlan(model_, row.plan, request));
      if (!result.interrupted) row.equal = result.equal;
      ++proven;
    }
    return absl::OkStatus();
  }

  static Bytes MeanReceived(const Evaluation& e) {
    Bytes sum;
    for (Bytes b : e.received) sum += b;
    return Bytes(sum.value() / std::max<int64_t>(1, static_cast<int64_t>(e.received.size())));
  }

  static DeviceUse UseOfAll(const Evaluation& e) {
    DeviceUse use;
    for (const DeviceUse& u : e.use) {
      use.compute += u.compute;
      use.communication += u.communication;
      use.idle += u.idle;
    }
    return use;
  }
  // The part of the step that so much of all devices' time is.
  static double PartOf(const Evaluation& e, Nanos time) {
    const double all = static_cast<double>(e.time.value()) * static_cast<double>(e.use.size());
    return static_cast<double>(time.value()) / std::max(1.0, all);
  }

  static Json DeclinedJson(const Row& row) {
    return {{"name", row.name},
            {"declined", row.declined},
            {"predicted_ms", nullptr},
            {"predicted_ns", nullptr},
            {"measured_ms", nullptr},
            {"measured_over_fastest", nullptr},
            {"measured_steps_ns", nullptr},
            {"communication_bytes_per_device", nullptr},
            {"peak_bytes_per_device", nullptr},
            {"equal_to_serial", nullptr}};
  }

  static Json RatioJson(const std::optional<StepRatio>& ratio) {
    if (!ratio.has_value()) return nullptr;
    return {{"median", ratio->median}, {"low", ratio->low}, {"high", ratio->high}};
  }
  static std::string RatioText(const std::optional<StepRatio>& ratio) {
    if (!ratio.has_value()) return "-";
    if (ratio->low == 1 && ratio->high == 1) return "1";  // itself
    return absl::StrFormat("%.2f-%.2f", ratio->low, ratio->high);
  }

  Json RowJson(const Row& row) const {
    const Row& plan = Standing(row);
    const Evaluation& e = plan.evaluation;
    const DeviceUse use = UseOfAll(e);
    return {{"name", row.name},
            {"same_as", &plan == &row ? Json(nullptr) : Json(plan.name)},
            {"predicted_ms", static_cast<double>(e.time.value()) / 1e6},
            {"predicted_ns", e.time.value()},
            {"expert", row.expert.empty() ? Json(nullptr) : Json(row.expert)},
            {"measured_ms", plan.measured ? Json(static_cast<double>(plan.measured->value()) / 1e6)
                                          : Json(nullptr)},
            {"measured_over_fastest", RatioJson(plan.over_fastest)},
            {"measured_steps_ns", plan.measured ? Json(plan.steps) : Json(nullptr)},
            {"compute_share", PartOf(e, use.compute)},
            {"communication_share", PartOf(e, use.communication)},
            {"idle_share", PartOf(e, use.idle)},
            {"overlap_share", OverlapOf(e)},
            {"communication_bytes_per_device", MeanReceived(e).value()},
            {"peak_bytes_per_device", LargestPeakOf(e).value()},
            {"measured_share", plan.shares.measured},
            {"unsteady_share", plan.shares.unsteady},
            {"interpolated_share", plan.shares.interpolated},
            {"equal_to_serial", plan.equal.has_value() ? Json(*plan.equal) : Json(nullptr)}};
  }

  // The part of all devices' time in which compute and communication go on at the same time.
  static double OverlapOf(const Evaluation& e) {
    const DeviceUse use = UseOfAll(e);
    const double all = PartOf(e, use.compute + use.communication + use.idle);
    return std::max(0.0, all - 1);
  }

  std::vector<std::string> HeadingCells(const ByteUnit& unit) const {
    std::vector<std::string> cells = {"strategy", "predicted"};
    if (flags_.measure) cells.insert(cells.end(), {"measured", "of the\nfastest"});
    cells.emplace_back("sure");
    if (flags_.verify) cells.emplace_back("equal");
    cells.insert(cells.end(),
                 {"compute", "comm.", "idle", absl::StrCat("received\n/device\n", unit.name),
                  absl::StrCat("peak\n/device\n", unit.name)});
    return cells;
  }

  std::vector<std::string> RowCells(const Row& row, const ByteUnit& unit) const {
    const Evaluation& e = row.evaluation;
    const DeviceUse use = UseOfAll(e);
    const auto share = [](double part) { return absl::StrFormat("%.0f %%", 100 * part); };
    std::vector<std::string> cells = {row.name, TimeText(e.time)};
    if (flags_.measure) {
      cells.push_back(row.measured ? TimeText(*row.measured) : "-");
      cells.push_back(RatioText(row.over_fastest));
    }
    cells.push_back(share(row.shares.measured));
    if (flags_.verify) {
      cells.emplace_back(row.equal.has_value() ? (*row.equal ? "yes" : "NO") : "");
    }
    cells.insert(cells.end(),
                 {share(PartOf(e, use.compute)), share(PartOf(e, use.communication)),
                  share(PartOf(e, use.idle)), unit.In(MeanReceived(e)), unit.In(LargestPeakOf(e))});
    return cells;
  }

  // What the columns say, and by how much shares overlap.
  std::string LegendText() const {
    constexpr double kWorthAWord = 0.01;
    std::string overlaps;
    for (const Row& row : rows_) {
      if (!IsRun(row) || OverlapOf(row.evaluation) < kWorthAWord) continue;
      absl::StrAppendFormat(&overlaps, "%s%.0f %% in %s", overlaps.empty() ? "" : ", ",
                            100 * OverlapOf(row.evaluation), row.name);
    }
    const size_t width = OutputWidth();
    std::string text = WrappedText(
        "sure: the part of a plan's time that is priced by steady measurements, whose median is "
        "known to an eighth",
        width, 2);
    text += WrappedText(
        "compute, comm. (communication), idle: parts of all devices' time in a step, as predicted",
        width, 2);
    if (flags_.measure) {
      text += WrappedText(
          "of the fastest: a plan's steps over those of the fastest that were made in turn with "
          "them; what their median lies between with about 95 %. Where that holds 1, no difference "
          "was seen: --steps sees smaller ones",
          width, 2);
    }
    if (!overlaps.empty()) {
      text += WrappedText(
          absl::StrCat("overlap: compute and communication go on at the same time, so that their "
                       "parts and idle add up to more than 100 %, by ",
                       overlaps),
          width, 2);
    }
    return text + WrappedText(
                      "received: in a step by a device, in the mean; peak: memory of the device "
                      "that takes most",
                      width, 2);
  }

  Answer Report() const {
    Answer answer;
    Json list = Json::array();
    Bytes largest;
    for (const Row& row : rows_) {
      if (IsRun(row)) largest = std::max(largest, LargestPeakOf(row.evaluation));
    }
    const ByteUnit unit = UnitFor(largest);
    std::vector<std::vector<std::string>> table = {HeadingCells(unit)};
    std::string others;
    for (const Row& row : rows_) {
      list.push_back(row.declined.empty() ? RowJson(row) : DeclinedJson(row));
      if (!row.declined.empty()) {
        absl::StrAppend(&others, row.name, ": ", row.declined, "\n");
      } else if (row.same_as.has_value()) {
        absl::StrAppend(&others, row.name, ": the same plan as ", Standing(row).name, "\n");
      } else {
        table.push_back(RowCells(row, unit));
      }
      if (row.equal.has_value() && !*row.equal) {
        answer.exit_code = CodeOf(ErrorCategory::kCheckFailed);
      }
    }
    answer.json = {{"model", model_.label.source},
                   {"batch", model_.label.batch},
                   {"machine", priced_.machine->name},
                   {"devices", priced_.machine->topology.size()},
                   {"precision", RowOf(priced_.precision).name},
                   {"nondeterministic", priced_.nondeterministic},
                   {"verified", flags_.verify ? (flags_.quick ? "quick" : "full") : "no"},
                   {"interrupted", g_interrupted.load()},
                   {"strategies", list}};
    DescribeModel(model_.imported, model_.loss, answer);
    for (const std::string& note : notes_) answer.json["notes"].push_back(note);
    answer.text += TableText(table, 1) + others;
    for (const std::string& note : notes_) AppendNote(note, answer);
    answer.text += LegendText();
    AddMachineNotes(priced_, answer);
    AddWarnings(disturbance_, answer);
    return answer;
  }

  const CompareFlags& flags_;
  Stages* const stages_;
  absl::Status stopped_;
  TrainingModel model_;
  std::vector<Plan> plans_;  // of flags_.plans
  PricedMachine priced_;
  Disturbance disturbance_;  // while it was profiled
  std::vector<Row> rows_;
  std::vector<std::string> notes_;
};

}  // namespace

void AddCompareVerb(CLI::App& app, VerbTable& verbs) {
  AddVerb(Subcommand(app, "compare",
                     "expert strategies, the searched plan and plan files side by side"),
          verbs, std::make_shared<CompareFlags>(),
          [](const CompareFlags& flags) -> absl::StatusOr<Answer> {
            RETURN_IF_ERROR(CheckSearchOptions(flags.plan));
            return RunInStages(flags.stages,
                               [&](Stages* stages) { return CompareRun(flags, stages).Run(); });
          });
}

}  // namespace partita
