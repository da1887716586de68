#include "runtime/train/checkpoint_family.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "graph/support/error_category.h"
#include "graph/support/file.h"
#include "graph/support/status_macros.h"

namespace partita {
namespace {

constexpr char kStep[] = ".step-";
constexpr char kBest[] = ".best";
constexpr char kFailed[] = ".failed";

// "NAME.step-000100", taken apart.
struct StepName {
  std::string name;
  int64_t step = 0;
};
std::optional<StepName> ParseStepName(const std::string& file) {
  const size_t at = file.rfind(kStep);
  if (at == std::string::npos || at == 0) return std::nullopt;
  StepName parsed{.name = file.substr(0, at)};
  const std::string digits = file.substr(at + sizeof(kStep) - 1);
  if (digits.find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
  if (!absl::SimpleAtoi(digits, &parsed.step)) return std::nullopt;
  return parsed;
}

// Names of what is in a folder.
absl::StatusOr<std::vector<std::string>> FilesIn(const std::filesystem::path& folder) {
  std::vector<std::string> files;
  std::error_code error;
  auto entry = std::filesystem::directory_iterator(folder.empty() ? "." : folder, error);
  while (!error && entry != std::filesystem::directory_iterator()) {
    files.push_back(entry->path().filename().string());
    entry.increment(error);
  }
  if (!error) return files;
  errno = error.value();
  return FileError("read the folder", folder.string());
}

// Whether two paths lead to one file.
bool IsSame(const std::string& a, const std::string& b) {
  std::error_code error;
  return std::filesystem::equivalent(a, b, error);
}

bool IsThere(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

// The NAME in a folder; of what follows names, only that of checkpoints during a run counts.
absl::StatusOr<std::string> NameInFolder(const std::string& folder) {
  ASSIGN_OR_RETURN(const std::vector<std::string> files, FilesIn(folder));
  std::set<std::string> names;
  for (const std::string& file : files) {
    if (const auto parsed = ParseStepName(file)) {
      names.insert(parsed->name);
    } else if (absl::EndsWith(file, kBest)) {
      names.insert(std::string(absl::StripSuffix(file, kBest)));
    }
  }
  if (names.size() == 1) return (std::filesystem::path(folder) / *names.begin()).string();
  if (names.empty()) {
    return absl::NotFoundError(absl::StrCat("the folder '", folder, "' has no checkpoints NAME",
                                            kStep, "... or NAME", kBest,
                                            "; name a file, or another folder"));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "the folder '", folder, "' has the checkpoints of several runs: ", absl::StrJoin(names, ", "),
      ". Name one of them"));
}

// One of a family, and what its header says.
struct Candidate {
  std::string path;
  int64_t step = -1;  // unknown
  absl::Status header;
};

Candidate Examine(const std::string& path, const Graph& graph) {
  Candidate candidate{.path = path};
  const absl::StatusOr<CheckpointSummary> summary = ReadCheckpointSummary(path, graph);
  candidate.header = summary.status();
  if (summary.ok()) candidate.step = summary->step;
  return candidate;
}

// Those that are there; the last step first, and of one step NAME before the others, the best last.
absl::StatusOr<std::vector<Candidate>> CandidatesOf(const std::string& name, const Graph& graph) {
  std::vector<Candidate> candidates;
  std::vector<std::string> paths = {name};
  ASSIGN_OR_RETURN(const std::vector<StepCheckpoint> steps, StepCheckpoints(name));
  for (const StepCheckpoint& step : steps) paths.push_back(step.path);
  paths.push_back(BestCheckpointPath(name));
  for (const std::string& path : paths) {
    if (IsThere(path)) candidates.push_back(Examine(path, graph));
  }
  std::ranges::stable_sort(candidates, std::ranges::greater(), &Candidate::step);
  return candidates;
}

}  // namespace

std::string StepCheckpointPath(const std::string& name, int64_t step) {
  return absl::StrFormat("%s%s%06d", name, kStep, step);
}

std::string BestCheckpointPath(const std::string& name) { return absl::StrCat(name, kBest); }

std::string FailedStatePath(const std::string& name) { return absl::StrCat(name, kFailed); }

absl::StatusOr<std::vector<StepCheckpoint>> StepCheckpoints(const std::string& name) {
  const std::filesystem::path path(name);
  std::vector<StepCheckpoint> found;
  if (!path.parent_path().empty() && !IsThere(path.parent_path().string())) return found;
  ASSIGN_OR_RETURN(const std::vector<std::string> files, FilesIn(path.parent_path()));
  for (const std::string& file : files) {
    const auto parsed = ParseStepName(file);
    if (!parsed.has_value() || parsed->name != path.filename()) continue;
    found.push_back({parsed->step, (path.parent_path() / file).string()});
  }
  std::ranges::sort(found, {}, [](const StepCheckpoint& c) { return std::pair(c.step, c.path); });
  return found;
}

absl::Status RemoveOldCheckpoints(const std::string& name, int64_t newest, int64_t keep) {
  ASSIGN_OR_RETURN(std::vector<StepCheckpoint> old, StepCheckpoints(name));
  std::erase_if(old, [&](const StepCheckpoint& c) { return c.step >= newest; });
  absl::Status status;
  for (size_t k = 0; k + static_cast<size_t>(keep) <= old.size(); ++k) {
    if (unlink(old[k].path.c_str()) != 0) status.Update(FileError("remove", old[k].path));
  }
  return status;
}

absl::StatusOr<ResumePoint> FindResumePoint(const std::string& where, const Graph& graph) {
  std::string name = where;
  std::error_code error;
  if (std::filesystem::is_directory(where, error)) {
    ASSIGN_OR_RETURN(name, NameInFolder(where));
  }
  ASSIGN_OR_RETURN(const std::vector<Candidate> candidates, CandidatesOf(name, graph));
  // One file is what was asked for, whatever is wrong with it.
  if (candidates.empty() || (candidates.size() == 1 && candidates[0].path == name)) {
    ASSIGN_OR_RETURN(TrainingState state, LoadCheckpoint(name, graph));
    return ResumePoint{name, std::move(state), {}};
  }
  ResumePoint point;
  for (const Candidate& candidate : candidates) {
    if (candidate.header.ok()) continue;
    point.passed_over.push_back({candidate.path, std::string(candidate.header.message())});
  }
  for (const Candidate& candidate : candidates) {
    if (!candidate.header.ok()) continue;
    absl::StatusOr<TrainingState> state = LoadCheckpoint(candidate.path, graph);
    if (state.ok()) {
      point.path = candidate.path;
      point.state = *std::move(state);
      return point;
    }
    point.passed_over.push_back({candidate.path, std::string(state.status().message())});
  }
  std::string text = absl::StrCat("none of the checkpoints of '", name, "' can be resumed from");
  for (const UnusableCheckpoint& file : point.passed_over) absl::StrAppend(&text, "; ", file.why);
  return absl::InvalidArgumentError(text);
}

absl::Status CheckFamilyIsFree(const std::string& name, const Graph& graph, const ResumePoint* from,
                               CheckpointTimes times) {
  ASSIGN_OR_RETURN(const std::vector<Candidate> candidates, CandidatesOf(name, graph));
  const auto is = [](const std::string& path) {
    return [&path](const auto& other) { return IsSame(other.path, path); };
  };
  const bool goes_on = from != nullptr && std::ranges::any_of(candidates, is(from->path));
  const int64_t start = from == nullptr ? 0 : from->state.step;
  for (const Candidate& candidate : candidates) {
    if (from != nullptr && std::ranges::any_of(from->passed_over, is(candidate.path))) continue;
    // NAME is replaced in the end, as was asked for; until then a resume must not take it.
    if (candidate.path == name && times == CheckpointTimes::kAtTheEnd) continue;
    const bool in_the_way = candidate.step > start || (candidate.path != name && !goes_on);
    if (!in_the_way) continue;
    return UsageError(absl::StrCat("'", candidate.path,
                                   "' is a checkpoint of another run than this one, which begins "
                                   "at step ",
                                   start, ": --resume ", name,
                                   " goes on from the newest; otherwise --save under another name, "
                                   "or move the checkpoints of '",
                                   name, "' away"));
  }
  return absl::OkStatus();
}

}  // namespace partita
