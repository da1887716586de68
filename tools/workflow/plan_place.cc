#include "tools/workflow/plan_place.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "graph/parallel/plan_io.h"
#include "graph/support/status_macros.h"
#include "planner/planner.h"
#include "tools/workflow/plan_pricing.h"

namespace partita {
namespace {

constexpr int kMostBeside = 1000;
constexpr absl::string_view kEnding = ".plan.textproto";

// What is at a place already.
struct Occupant {
  enum class Kind {
    kNone,         // nothing that can be lost
    kSamePlan,     // a plan of the same model, batch, machine, precision and determinism; its time
                   // is known
    kAnotherPlan,  // one that cannot be compared
    kNoPlan,
  };
  Kind kind = Kind::kNone;
  std::string what;  // for people
  Nanos time;
};

std::string SizesText(const ModelSizes& sizes) {
  std::string text;
  if (sizes.unroll > 0) absl::StrAppend(&text, ", unrolled ", sizes.unroll, " steps");
  if (!sizes.size.empty()) absl::StrAppend(&text, ", size ", sizes.size);
  const std::pair<const char*, int64_t> numbers[] = {{"layers", sizes.layers},
                                                     {"width", sizes.width},
                                                     {"heads", sizes.heads},
                                                     {"sequence", sizes.sequence},
                                                     {"vocabulary", sizes.vocabulary}};
  for (const auto& [name, number] : numbers) {
    if (number > 0) absl::StrAppend(&text, ", ", name, " ", number);
  }
  return text;
}

std::string ModelText(const PlanModel& model) {
  return absl::StrCat(
      "a plan for '", model.source, "' at batch ", model.batch, ", ", model.optimizer,
      model.freeze_batch_norm ? ", frozen statistics" : "", SizesText(model.sizes),
      model.microbatches > 1 ? absl::StrCat(", ", model.microbatches, " microbatches") : "");
}

Occupant AnotherPlan(std::string what) {
  return {Occupant::Kind::kAnotherPlan, std::move(what), Nanos(0)};
}

Occupant ExaminePlan(const NewPlan& wanted, const proto::Plan& message) {
  const auto model = PlanModelOf(message);
  if (!model.ok()) {
    return {Occupant::Kind::kNoPlan, absl::StrCat("no plan: ", model.status().message()), Nanos(0)};
  }
  if (model->fingerprint != wanted.graph.fingerprint()) return AnotherPlan(ModelText(*model));
  const auto plan = PlanFromProto(message, wanted.graph);
  if (!plan.ok()) {
    return AnotherPlan(absl::StrCat("a plan that cannot be used: ", plan.status().message()));
  }
  if (!IsFor(*plan, wanted.priced, wanted.plan.provenance.machine)) {
    return AnotherPlan(absl::StrCat("a plan for machine '", plan->provenance.machine, "', ",
                                    plan->topology.size(), " devices, ",
                                    RowOf(plan->choices.precision).name,
                                    plan->choices.nondeterministic ? ", nondeterministic" : ""));
  }
  const Evaluator evaluator = EvaluatorOn(wanted.priced, wanted.graph);
  const auto today = EvaluatePlan(evaluator, *plan, wanted.graph_at);
  if (!today.ok()) {
    return AnotherPlan(absl::StrCat("a plan that cannot be run: ", today.status().message()));
  }
  return {Occupant::Kind::kSamePlan, "", today->step.evaluation.time};
}

Occupant Examine(const NewPlan& wanted, const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return {};
  if (std::filesystem::file_size(path, error) == 0) return {};
  const auto message = ReadPlanFile(path);
  if (!message.ok()) {
    return {Occupant::Kind::kNoPlan,
            absl::StrCat("it cannot be read as a plan: ", message.status().message()), Nanos(0)};
  }
  return ExaminePlan(wanted, *message);
}

bool Stays(const Occupant& there, const NewPlan& wanted) {
  if (wanted.replace) return false;
  switch (there.kind) {
    case Occupant::Kind::kNone:
      return false;
    case Occupant::Kind::kNoPlan:
      return true;
    case Occupant::Kind::kAnotherPlan:
      return wanted.interrupted && !wanted.replace_plans;
    case Occupant::Kind::kSamePlan:
      const Nanos time = wanted.plan.prediction->time;
      const bool gives_way = wanted.interrupted ? time < there.time : time <= there.time;
      return !gives_way && !wanted.replace_plans;
  }
  return true;
}

std::string BesidePath(const std::string& path, absl::string_view word, int number) {
  const std::string inserted = absl::StrCat(".", word, number > 1 ? absl::StrCat(number) : "");
  const size_t slash = path.rfind('/'), first = slash == std::string::npos ? 0 : slash + 1;
  size_t dot = absl::EndsWith(path, kEnding) ? path.size() - kEnding.size() : path.rfind('.');
  if (dot == std::string::npos || dot <= first) dot = path.size();
  return path.substr(0, dot) + inserted + path.substr(dot);
}

}  // namespace

absl::StatusOr<PlanPlace> PlaceOf(const NewPlan& plan) {
  Occupant there = Examine(plan, plan.path);
  PlanPlace place{.path = plan.path};
  if (!Stays(there, plan)) {
    if (there.kind != Occupant::Kind::kSamePlan) place.replaced = std::move(there.what);
    return place;
  }
  const bool is_same = there.kind == Occupant::Kind::kSamePlan;
  if (is_same) {
    place.kept_time = there.time;
    place.kept = there.time == plan.plan.prediction->time ? "as fast" : "faster";
  } else {
    place.kept = there.what;
  }
  const char* word = plan.interrupted ? "interrupted" : is_same ? "slower" : "new";
  for (int number = 1; number <= kMostBeside; ++number) {
    place.path = BesidePath(plan.path, word, number);
    if (!Stays(Examine(plan, place.path), plan)) return place;
  }
  return absl::AlreadyExistsError(
      absl::StrCat("'", plan.path, "' stays (", place.kept, "), and so do ", kMostBeside,
                   " files beside it. Name another place with -o, or overwrite with --replace"));
}

}  // namespace partita
