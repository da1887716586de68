#include "tests/gpu/suite.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "graph/support/known_names.h"
#include "graph/support/option.h"
#include "tests/gpu/isolated_run.h"
#include "tools/version.h"

namespace partita {
namespace {

constexpr int kSchemaVersion = 1;
constexpr int kNothingRan = 77;  // what test drivers take as "skipped"

bool IsWanted(const SuiteOptions& options, const std::string& name) {
  const auto& wanted = options.sections;
  return wanted.empty() || std::find(wanted.begin(), wanted.end(), name) != wanted.end();
}

absl::Status CheckNames(const SuiteOptions& options, std::span<const SuiteSection> sections) {
  for (const std::string& name : options.sections) {
    const std::vector<std::string> known = NamesOf(sections);
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      return UnknownNameError("section", name, known);
    }
  }
  return absl::OkStatus();
}

Json JsonOf(const SectionFindings& found) {
  Json outcome = {{"state", found.failures.empty() ? "passed" : "failed"}};
  if (!found.failures.empty()) outcome["failures"] = found.failures;
  outcome["details"] = found.details;
  return outcome;
}

Json Skipped(absl::string_view reason) {
  return {{"state", "skipped"}, {"reason", std::string(reason)}};
}

// A line of JSON whatever bytes messages have.
std::string LineOf(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// State, reason, failures and details. An error is one more failure of what was found before it.
Json Outcome(const SuiteSection& section, const SuiteOptions& options, double limit_seconds,
             const std::function<void(const std::string&)>& say) {
  SectionFindings so_far;
  SuiteOptions own = options;
  own.section_seconds = limit_seconds;
  own.so_far = [&](const SectionFindings& findings) {
    so_far = findings;
    say(LineOf(JsonOf(findings)));
  };
  const absl::StatusOr<SectionFindings> found = section.run(own);
  if (found.ok()) return JsonOf(*found);
  if (absl::IsUnavailable(found.status()) || absl::IsUnimplemented(found.status())) {
    return Skipped(found.status().message());
  }
  so_far.failures.push_back(found.status().ToString());
  return JsonOf(so_far);
}

// Within `limit_seconds`.
Json ReportOf(const SuiteSection& section, const SuiteOptions& options, double limit_seconds) {
  const auto begin = std::chrono::steady_clock::now();
  Json report = {{"name", section.name}, {"description", section.description}, {"seconds", 0.0}};
  if (limit_seconds <= 0) {
    report.update(Skipped(absl::StrCat("the ", options.seconds, " seconds of --seconds are over")));
    return report;
  }
  const IsolatedRun run = RunIsolated(
      [&](const auto& say) { say(LineOf(Outcome(section, options, limit_seconds, say))); },
      limit_seconds);
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
  Json outcome = Json::parse(run.last, nullptr, /*allow_exceptions=*/false);
  if (outcome.is_discarded()) outcome = Json::object();
  if (!run.status.ok() || outcome.empty()) {
    outcome["state"] = "failed";
    outcome["failures"].push_back(run.status.ToString());
  }
  report["seconds"] = spent.count();
  report.update(outcome);
  return report;
}

}  // namespace

absl::StatusOr<Json> RunSuite(const SuiteOptions& options, std::span<const SuiteSection> sections,
                              const std::function<void(const Json& report)>& done) {
  if (absl::Status status = CheckNames(options, sections); !status.ok()) return status;
  Json report = {{"suite", "partita gpu_suite"},
                 {"schema_version", kSchemaVersion},
                 {"version", kVersion},
                 {"backend", options.backend},
                 {"sections", Json::array()},
                 {"passed", 0},
                 {"failed", 0},
                 {"skipped", 0}};
  const auto begin = std::chrono::steady_clock::now();
  for (const SuiteSection& section : sections) {
    if (!IsWanted(options, section.name)) continue;
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
    const double left = options.seconds > 0 ? options.seconds - spent.count() : HUGE_VAL;
    Json one = ReportOf(section, options, std::min(left, options.section_seconds));
    Json& count = report[one["state"].get<std::string>()];
    count = count.get<int>() + 1;
    report["sections"].push_back(std::move(one));
    done(report);
  }
  return report;
}

int ExitCodeOfSuite(const Json& report) {
  if (report["failed"].get<int>() > 0) return 1;
  return report["passed"].get<int>() > 0 ? 0 : kNothingRan;
}

}  // namespace partita
