#include "tools/workflow/profiling/kept_algorithms.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cost_model/profile_db.h"
#include "graph/support/status_macros.h"
#include "runtime/comm/message_port.h"

namespace partita {
namespace {

using Entries = std::vector<AlgorithmStore::Entry>;

absl::StatusOr<Entries> Read(const std::string& path) {
  Entries entries;
  const auto db = ProfileDb::Open(path, ProfileDb::Mode::kRead);
  if (absl::IsNotFound(db.status())) return entries;
  RETURN_IF_ERROR(db.status());
  ASSIGN_OR_RETURN(std::vector<ProfileDb::Algorithm> kept, db->Algorithms());
  for (ProfileDb::Algorithm& a : kept) {
    entries.push_back({std::move(a.device), std::move(a.work), std::move(a.choice)});
  }
  return entries;
}

constexpr int64_t kMostBytes = 64 << 20;
constexpr char kUnread[] = "\t";  // rank 0 could not read them

// Collective. Rank 0's, for all: a line for each, its parts after tabulators; no part has either.
absl::StatusOr<Entries> Shared(const absl::StatusOr<Entries>& own, Ranks& ranks) {
  std::string text = own.ok() ? "" : kUnread;
  for (const auto& entry : own.value_or(Entries())) {
    absl::StrAppend(&text, entry.device, "\t", entry.work, "\t", entry.choice, "\n");
  }
  RETURN_IF_ERROR(BroadcastText(ranks.port(), 0, text, kMostBytes));
  if (text == kUnread) {
    RETURN_IF_ERROR(own.status());
    return absl::InvalidArgumentError("rank 0 could not read its profile database");
  }
  Entries entries;
  for (absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    const std::vector<std::string> parts = absl::StrSplit(line, '\t');
    if (parts.size() == 3) entries.push_back({parts[0], parts[1], parts[2]});
  }
  return entries;
}

}  // namespace

absl::StatusOr<std::unique_ptr<KeptAlgorithms>> KeptAlgorithms::GiveTo(
    std::vector<PlacedDevice>& devices, const std::string& path, Ranks* ranks) {
  const auto measures = [](const PlacedDevice& device) {
    return device.backend != nullptr && !device.backend->RunsOnHost() &&
           device.spec.algorithms == nullptr;
  };
  absl::StatusOr<Entries> known = Entries();
  if (std::any_of(devices.begin(), devices.end(), measures)) known = Read(path);
  if (ranks != nullptr) known = Shared(known, *ranks);
  RETURN_IF_ERROR(known.status());
  std::unique_ptr<KeptAlgorithms> kept(new KeptAlgorithms(path, *known));
  for (PlacedDevice& device : devices) {
    if (!measures(device)) continue;
    device.spec.algorithms = &kept->store_;
    device.spec.measure_algorithms = ranks == nullptr;
  }
  return kept;
}

absl::StatusOr<KeptAlgorithms::WithExecutor> KeptAlgorithms::Open(const Graph& graph,
                                                                  PlannedStep step,
                                                                  ExecutorSetup& setup,
                                                                  const std::string& path,
                                                                  Ranks* ranks) {
  WithExecutor opened;
  ASSIGN_OR_RETURN(opened.algorithms, GiveTo(setup.devices, path, ranks));
  opened.note = step.note;
  const auto add = [&opened](const std::string& note) {
    if (!note.empty()) absl::StrAppend(&opened.note, opened.note.empty() ? "" : "; ", note);
  };
  ASSIGN_OR_RETURN(opened.executor, OpenExecutor(graph, std::move(step), setup));
  for (const std::string& note : opened.executor->KernelNotes()) add(note);
  if (ranks != nullptr) return opened;
  ASSIGN_OR_RETURN(const std::string unsaved, opened.algorithms->SaveOrSay());
  add(unsaved);
  return opened;
}

absl::StatusOr<std::string> KeptAlgorithms::SaveOrSay() const {
  const absl::Status saved = Save();
  if (saved.ok()) return std::string();
  if (!absl::IsPermissionDenied(saved) && !absl::IsNotFound(saved)) return saved;
  return absl::StrCat("the fastest algorithms were measured and are not kept: ", saved.message());
}

absl::Status KeptAlgorithms::Save() const {
  std::vector<ProfileDb::Algorithm> added;
  for (const AlgorithmStore::Entry& entry : store_.Added()) {
    added.push_back({entry.device, entry.work, entry.choice});
  }
  if (added.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(ProfileDb db, ProfileDb::Open(path_, ProfileDb::Mode::kCreate));
  return db.AddAlgorithms(added);
}

}  // namespace partita
