#include "tests/gpu/suite.h"

#include <algorithm>
#include <chrono>

#include "absl/strings/str_cat.h"
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

Json ReportOf(const SuiteSection& section, const SuiteOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  absl::StatusOr<SectionFindings> found = section.run(options);
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
  Json report = {{"name", section.name}, {"description", section.description}};
  const bool lacks = absl::IsUnavailable(found.status()) || absl::IsUnimplemented(found.status());
  if (!found.ok() && !lacks) found = SectionFindings{{}, {found.status().ToString()}};
  report["state"] = !found.ok() ? "skipped" : found->failures.empty() ? "passed" : "failed";
  report["seconds"] = spent.count();
  if (!found.ok()) {
    report["reason"] = std::string(found.status().message());
    return report;
  }
  if (!found->failures.empty()) report["failures"] = found->failures;
  report["details"] = std::move(found->details);
  return report;
}

}  // namespace

absl::StatusOr<Json> RunSuite(const SuiteOptions& options, std::span<const SuiteSection> sections,
                              const std::function<void(const Json& section)>& done) {
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
    done(one);
    report["sections"].push_back(std::move(one));
  }
  return report;
}

int ExitCodeOfSuite(const Json& report) {
  if (report["failed"].get<int>() > 0) return 1;
  return report["passed"].get<int>() > 0 ? 0 : kNothingRan;
}

}  // namespace partita
