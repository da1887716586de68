#include "tests/gpu/suite.h"

#include <algorithm>
#include <chrono>

#include "absl/strings/str_cat.h"
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
    std::string known;
    bool found = false;
    for (const SuiteSection& section : sections) {
      absl::StrAppend(&known, known.empty() ? "" : ", ", section.name);
      found = found || name == section.name;
    }
    if (!found) {
      return absl::NotFoundError(absl::StrCat("unknown section '", name, "'; known are: ", known));
    }
  }
  return absl::OkStatus();
}

// State, reason, failures and details.
Json Outcome(const SuiteSection& section, const SuiteOptions& options) {
  absl::StatusOr<SectionFindings> found = section.run(options);
  const bool lacks = absl::IsUnavailable(found.status()) || absl::IsUnimplemented(found.status());
  if (!found.ok() && lacks) {
    return {{"state", "skipped"}, {"reason", std::string(found.status().message())}};
  }
  if (!found.ok()) found = SectionFindings{Json::object(), {found.status().ToString()}};
  Json outcome = {{"state", found->failures.empty() ? "passed" : "failed"}};
  if (!found->failures.empty()) outcome["failures"] = found->failures;
  outcome["details"] = std::move(found->details);
  return outcome;
}

Json ReportOf(const SuiteSection& section, const SuiteOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  const auto text =
      RunIsolated([&] { return Outcome(section, options).dump(); }, options.section_seconds);
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
  Json outcome = Json::parse(text.value_or(""), nullptr, /*allow_exceptions=*/false);
  if (outcome.is_discarded()) {
    outcome = {{"state", "failed"}, {"failures", {text.status().ToString()}}};
  }
  Json report = {
      {"name", section.name}, {"description", section.description}, {"seconds", spent.count()}};
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
  for (const SuiteSection& section : sections) {
    if (!IsWanted(options, section.name)) continue;
    Json one = ReportOf(section, options);
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
