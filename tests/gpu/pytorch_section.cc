#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/support/status_macros.h"
#include "runtime/backend/backends.h"
#include "tests/gpu/one_device.h"
#include "tests/gpu/sections.h"

namespace partita {
namespace {

constexpr int kNoPyTorch = 77;            // the script's exit status
constexpr double kMostOfBest = 1.0;       // ours / the best of PyTorch
constexpr double kMostOfEager = 1 / 1.2;  // ours / eager PyTorch

struct Outcome {
  int status = 0;
  std::string output;
};

// Runs a command of words without quotes in them; messages go where the suite's go.
absl::StatusOr<Outcome> Execute(const std::vector<std::string>& words) {
  const std::string command = absl::StrCat("'", absl::StrJoin(words, "' '"), "'");
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return absl::InternalError(absl::StrCat("cannot start ", command));
  Outcome outcome;
  std::array<char, 4096> piece;
  while (const size_t count = fread(piece.data(), 1, piece.size(), pipe)) {
    outcome.output.append(piece.data(), count);
  }
  const int status = pclose(pipe);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}

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

}  // namespace

absl::StatusOr<SectionFindings> RaceWithPyTorch(const SuiteOptions& options) {
  RETURN_IF_ERROR(MakeBackend(options.backend).status());
  if (options.python.empty()) {
    return absl::UnavailableError("no Python was named that has PyTorch (--python)");
  }
  std::vector<std::string> precisions;
  for (const PrecisionRow& row : PrecisionsOf(options.backend)) precisions.push_back(row.name);
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
                                    absl::StrJoin(precisions, ",")};
  if (!options.search_path.empty()) {
    words.push_back("--program_flags");
    words.push_back(absl::StrCat("--search_path ", absl::StrJoin(options.search_path, ":")));
  }
  ASSIGN_OR_RETURN(const Outcome outcome, Execute(words));
  if (outcome.status == kNoPyTorch) {
    return absl::UnavailableError(absl::StrCat(options.python, " has no PyTorch for the device"));
  }
  SectionFindings findings;
  findings.details = Json::parse(outcome.output, nullptr, /*allow_exceptions=*/false);
  if (findings.details.is_discarded()) {
    return absl::InternalError(
        absl::StrCat(options.race, " ended with ", outcome.status, " and printed no report"));
  }
  for (const Json& race : findings.details["races"]) Judge(race, findings);
  return findings;
}

}  // namespace partita
