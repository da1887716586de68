#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/support/status_macros.h"
#include "runtime/backend/backends.h"
#include "tests/gpu/execute.h"
#include "tests/gpu/one_device.h"
#include "tests/gpu/sections.h"

namespace partita {
namespace {

constexpr int kNoPyTorch = 77;            // the script's exit status
constexpr double kShareOfTime = 0.9;      // of what the section has, for its races
constexpr double kMostOfBest = 1.0;       // ours / the best of PyTorch
constexpr double kMostOfEager = 1 / 1.2;  // ours / eager PyTorch

void Judge(const Json& race, SectionFindings& findings) {
  const auto label = race["label"].get<std::string>();
  if (!race["losses_agree"].get<bool>()) {
    findings.failures.push_back(absl::StrCat(label, ": ", race.value("difference", "losses")));
  }
  if (race.value("ratio", 0.0) > kMostOfBest) {
    findings.failures.push_back(absl::StrCat(label, ": ", race.value("ratio", 0.0),
                                             " of the time of PyTorch's best, ",
                                             race.value("best", "")));
  }
  if (race.value("ratio_to_eager", 0.0) > kMostOfEager) {
    findings.failures.push_back(absl::StrCat(label, ": ", race.value("ratio_to_eager", 0.0),
                                             " of the time of eager PyTorch; wanted ",
                                             kMostOfEager));
  }
}

SectionFindings FindingsOf(const Json& report) {
  SectionFindings findings{report, {}};
  for (const Json& race : report["races"]) Judge(race, findings);
  return findings;
}

}  // namespace

absl::StatusOr<SectionFindings> RaceWithPyTorch(const SuiteOptions& options) {
  RETURN_IF_ERROR(MakeBackend(options.backend).status());
  if (options.python.empty()) {
    return absl::UnavailableError("no Python was named that has PyTorch (--python)");
  }
  std::vector<std::string> precisions;
  for (const PrecisionRow& row : PrecisionsOf(options)) precisions.push_back(row.name);
  std::vector<std::string> words = {options.python,
                                    options.race,
                                    "--json",
                                    "--program",
                                    options.program,
                                    "--backend",
                                    options.backend,
                                    "--torch_device",
                                    options.backend == "cuda" ? "cuda" : "cpu",
                                    "--steps",
                                    absl::StrCat(options.steps),
                                    "--batch",
                                    absl::StrJoin(options.batches, ","),
                                    "--precisions",
                                    absl::StrJoin(precisions, ","),
                                    "--seconds",
                                    absl::StrCat(kShareOfTime * options.section_seconds)};
  if (!options.search_path.empty()) {
    words.push_back("--program_flags");
    words.push_back(absl::StrCat("--search_path ", absl::StrJoin(options.search_path, ":")));
  }
  std::optional<SectionFindings> findings;
  ASSIGN_OR_RETURN(const int status, Execute(words, [&](const std::string& line) {
                     const Json report = Json::parse(line, nullptr, /*allow_exceptions=*/false);
                     if (report.is_discarded()) return;
                     findings = FindingsOf(report);
                     options.so_far(*findings);
                   }));
  if (status == kNoPyTorch) {
    return absl::UnavailableError(absl::StrCat(options.python, " has no PyTorch for the device"));
  }
  if (findings.has_value()) return *std::move(findings);
  return absl::InternalError(
      absl::StrCat(options.race, " ended with ", status, " and printed no report"));
}

}  // namespace partita
