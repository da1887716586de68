#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "cost_model/profile_db.h"
#include "graph/support/error_category.h"
#include "graph/support/status_macros.h"
#include "tools/cli/flags.h"
#include "tools/cli/notes.h"
#include "tools/cli/planning.h"
#include "tools/cli/progress.h"
#include "tools/cli/verb.h"
#include "tools/cli/verb_options.h"
#include "tools/workflow/input_path.h"
#include "tools/workflow/profiling/profiling.h"

namespace partita {
namespace {

constexpr std::pair<RecordKind, const char*> kRecordKinds[] = {
    {RecordKind::kKernel, "kernels"},
    {RecordKind::kMove, "moves"},
    {RecordKind::kCollective, "collectives"},
    {RecordKind::kExchange, "exchanges"},
    {RecordKind::kStep, "steps"}};

// Numbers of a device's records.
struct RecordCounts {
  std::map<RecordKind, int64_t> of_kind;
  int64_t unsteady = 0, latest = 0;  // seconds since 1970
};

absl::StatusOr<RecordCounts> CountRecords(const ProfileDb& db, const DeviceFingerprint& device) {
  ASSIGN_OR_RETURN(const std::vector<ProfileRecord> records, db.Records(device));
  RecordCounts counts;
  for (const ProfileRecord& record : records) {
    ++counts.of_kind[record.kind];
    counts.unsteady += SteadinessOf(TimingOf(record.samples_ns)) == Steadiness::kUnsteady;
    counts.latest = std::max(counts.latest, record.measured_at);
  }
  return counts;
}

std::string DayText(int64_t seconds) {
  return absl::FormatTime("%Y-%m-%d %H:%M", absl::FromUnixSeconds(seconds), absl::LocalTimeZone());
}

absl::StatusOr<Answer> ListRecords(const std::string& path) {
  ASSIGN_OR_RETURN(const ProfileDb db, ProfileDb::Open(path, ProfileDb::Mode::kRead));
  ASSIGN_OR_RETURN(const std::vector<DeviceFingerprint> devices, db.Devices());
  ASSIGN_OR_RETURN(const std::vector<ProfileDb::Algorithm> algorithms, db.Algorithms());
  Answer answer;
  Json rows = Json::array();
  for (const DeviceFingerprint& device : devices) {
    ASSIGN_OR_RETURN(RecordCounts counts, CountRecords(db, device));
    Json row = {{"hardware", device.hardware}, {"configuration", device.configuration}};
    absl::StrAppend(&answer.text, device.hardware, ", ", device.configuration, "\n  ");
    for (const auto& [kind, name] : kRecordKinds) {
      row[name] = counts.of_kind[kind];
      if (counts.of_kind[kind] > 0) {
        absl::StrAppend(&answer.text, counts.of_kind[kind], " ", name, ", ");
      }
    }
    absl::StrAppend(&answer.text, counts.unsteady, " of them unsteady; the latest of ",
                    DayText(counts.latest), "\n");
    row["unsteady"] = counts.unsteady;
    row["latest"] = counts.latest;
    rows.push_back(std::move(row));
  }
  if (rows.empty()) absl::StrAppend(&answer.text, path, " has no records\n");
  if (!algorithms.empty()) {
    absl::StrAppend(&answer.text, algorithms.size(),
                    " algorithms that backends found the fastest\n");
  }
  answer.json = {{"profile", path}, {"devices", rows}, {"algorithms", algorithms.size()}};
  return answer;
}

absl::StatusOr<Answer> ForgetRecords(const std::string& path, const std::string& text) {
  ASSIGN_OR_RETURN(ProfileDb db, ProfileDb::Open(path, ProfileDb::Mode::kWrite));
  ASSIGN_OR_RETURN(const int64_t removed, db.Forget(text));
  Answer answer;
  answer.json = {{"profile", path}, {"forgotten", removed}};
  answer.text = absl::StrCat("removed ", removed, " records with '", text, "' from ", path, "\n");
  return answer;
}

absl::StatusOr<Answer> RunProfile(const ProfileFlags& flags) {
  const std::string& path = flags.machine.profile;
  if (flags.list + !flags.forget.empty() + !flags.model.model.empty() != 1) {
    return UsageError(
        "profile takes one of: a model, whose kernels it measures, --list and --forget TEXT");
  }
  if (flags.model.model.empty()) RETURN_IF_ERROR(CheckThere(path));
  if (flags.list) return ListRecords(path);
  if (!flags.forget.empty()) return ForgetRecords(path, flags.forget);
  ModelRequest wanted = flags.model;
  wanted.values = WeightValues::kSkipped;
  ASSIGN_OR_RETURN(const TrainingModel model, LoadTrainingModel(wanted));
  MachineRequest request = flags.machine;
  request.will_measure = true;
  ASSIGN_OR_RETURN(const PricedMachine priced, PriceMachine(request));
  if (!priced.is_local) {
    return UsageError(absl::StrCat("machine '", request.machine,
                                   "' is not this host; only --machine local is profiled"));
  }
  ProfilingRequest profiling;
  profiling.profile = request.profile;
  profiling.seconds = flags.seconds;
  profiling.foreign_profile = request.foreign_profile;
  profiling.add_samples = flags.measure_again;
  profiling.stop = &g_interrupted;
  profiling.progress = [seconds = flags.seconds](int64_t done, int64_t wanted,
                                                 const std::string& what) {
    ShowProfiling(done, wanted, what, seconds);
  };
  ASSIGN_OR_RETURN(const ProfilingResult result, ProfileForSearch(model.graph, priced, profiling));
  Answer answer;
  answer.json = {{"profile", request.profile},
                 {"precision", RowOf(priced.precision).name},
                 {"wanted", result.wanted},
                 {"known", result.known},
                 {"measured", result.measured},
                 {"repeated", result.repeated},
                 {"unsteady", result.unsteady},
                 {"complete", result.complete},
                 {"nondeterministic", priced.nondeterministic}};
  answer.text =
      absl::StrCat(result.wanted, " kernels and moves that a search may ask for: ", result.known,
                   " known before, ", result.measured, " measured into ", request.profile,
                   result.complete ? "\n" : "; not complete: run it again to go on\n");
  if (result.unsteady > 0) {
    absl::StrAppend(
        &answer.text, result.unsteady,
        " are unsteady: their timings are few or far apart, and prices that rest on them "
        "are not sure\n");
  }
  AddMachineNotes(priced, answer);
  EndProgress();
  AddWarnings(result.disturbance, answer);
  return answer;
}

}  // namespace

void AddProfileVerb(CLI::App& app, VerbTable& verbs) {
  AddVerb(Subcommand(app, "profile", "measure the kernels that a search will ask for"), verbs,
          std::make_shared<ProfileFlags>(), RunProfile);
}

}  // namespace partita
