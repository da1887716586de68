#include "tools/workflow/ranks.h"

#include <cstdlib>
#include <map>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "graph/support/error_category.h"
#include "graph/support/status_macros.h"
#include "runtime/comm/shared_key.h"
#include "runtime/comm/shared_port.h"
#include "runtime/comm/tcp/tcp_port.h"
#include "runtime/launch/rank_environment.h"
#include "tools/workflow/instruction_records.h"
#ifdef PARTITA_HAVE_MPI
#include "runtime/comm/mpi/mpi_port.h"
#endif

namespace partita {
namespace {

constexpr size_t kLongestMessage = 4096;  // bytes
constexpr double kJoinSeconds = 60;       // that a rank may take to answer

absl::StatusOr<KeyedPort> OpenMpi([[maybe_unused]] const std::optional<RunKey>& key) {
#ifdef PARTITA_HAVE_MPI
  ASSIGN_OR_RETURN(auto port, OpenMpiPort());
  port->LimitWaiting(kJoinSeconds);
  auto shared = KeyFromRank0(*port, key);
  if (shared.ok()) return KeyedPort{std::move(port), *std::move(shared)};
  (void)port.release();  // closing it would wait for ranks that do not answer
  return shared.status();
#else
  return absl::UnavailableError(
      "several processes were started, and this program was built without MPI: install "
      "libopenmpi-dev and build again");
#endif
}

absl::StatusOr<KeyedPort> OpenTcp(const RankEnvironment& found, const std::optional<RunKey>& key) {
  if (!key.has_value() && found.local_size > 0 && found.local_size < found.size) {
    return UsageError(absl::StrCat("of ", found.size, " ranks ", found.local_size,
                                   " are of this host (LOCAL_WORLD_SIZE), and "
                                   "there is no key. ",
                                   kHowToGiveAKey));
  }
  return OpenTcpPort({.rank = found.rank,
                      .size = found.size,
                      .address = found.address,
                      .port = found.port,
                      .key = key});
}

}  // namespace

absl::StatusOr<std::unique_ptr<Ranks>> Ranks::Join(WatchdogOptions options,
                                                   const std::optional<RunKey>& key) {
  ASSIGN_OR_RETURN(const std::optional<RankEnvironment> found, ReadRankEnvironment(&std::getenv));
  if (!found.has_value()) return nullptr;
  const bool mpi = found->launcher == RankEnvironment::Launcher::kMpi;
  std::unique_ptr<Ranks> ranks(new Ranks);
  ranks->communicator_ = mpi ? "mpi" : "tcp";
  ASSIGN_OR_RETURN(KeyedPort met, mpi ? OpenMpi(key) : OpenTcp(*found, key));
  ranks->port_ = std::move(met.port);
  if (ranks->size() == 1) return nullptr;
  ranks->failed_ = true;  // until all are there: a port that is closed would wait for them
  ranks->port_->LimitWaiting(kJoinSeconds);
  RETURN_IF_ERROR(ShareMemory(ranks->port_, met.key));
  ranks->port_->LimitWaiting(kJoinSeconds);
  ASSIGN_OR_RETURN(ranks->watchdog_, Watchdog::Join(*ranks->port_, met.key, std::move(options)));
  ranks->port_->LimitWaiting(0);  // now the watchdog watches
  ranks->failed_ = false;
  return ranks;
}

Ranks::~Ranks() {
  // All ranks end in the verdict's code. Closing a port that was aborted would end them in another.
  if (failed_) (void)port_.release();
}

absl::Status Ranks::CheckSame(const std::vector<Named>& things) {
  std::vector<std::string> values;
  for (const Named& thing : things) values.push_back(thing.second);
  ASSIGN_OR_RETURN(const auto all, GatherTexts(*port_, absl::StrJoin(values, "\n")));
  const std::vector<std::string> wanted = absl::StrSplit(all[0], '\n');
  for (size_t rank = 1; rank < all.size(); ++rank) {
    const std::vector<std::string> found = absl::StrSplit(all[rank], '\n');
    for (size_t k = 0; k < things.size(); ++k) {
      const std::string value = k < found.size() ? found[k] : "";
      if (k < wanted.size() && value == wanted[k]) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("rank ", rank, " has another ", things[k].first, " than rank 0: found ",
                       value, ", wanted ", wanted[k], ". All ranks need the same"));
    }
  }
  return absl::OkStatus();
}

absl::Status CompareHardware(std::span<const std::pair<std::string, std::string>> ranks) {
  std::map<std::string, size_t> first;  // rank of each class
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const auto& [device_class, hardware] = ranks[rank];
    const size_t other = first.try_emplace(device_class, rank).first->second;
    if (ranks[other].second == hardware) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", rank, " runs a device of class '", device_class, "' on ", hardware,
                     ", rank ", other, " on ", ranks[other].second,
                     "; devices of a class are alike. Name two classes in the machine file, and "
                     "plan for that"));
  }
  return absl::OkStatus();
}

absl::Status Ranks::CheckHardware(const std::string& device_class, const std::string& hardware) {
  ASSIGN_OR_RETURN(const auto all, GatherTexts(*port_, absl::StrCat(device_class, "\n", hardware)));
  std::vector<std::pair<std::string, std::string>> ranks;
  for (const std::string& text : all) {
    ranks.push_back(absl::StrSplit(text, absl::MaxSplits('\n', 1)));
  }
  return CompareHardware(ranks);
}

absl::StatusOr<bool> Ranks::FromRank0(bool value) {
  char byte = value ? 1 : 0;
  RETURN_IF_ERROR(Broadcast(*port_, 0, &byte, 1));
  return byte != 0;
}

absl::Status Ranks::FromRank0(const absl::Status& status) {
  int32_t kind[] = {static_cast<int32_t>(status.code()), ExitCodeOf(status)};
  RETURN_IF_ERROR(Broadcast(*port_, 0, kind, sizeof kind));
  std::string message(status.message().substr(0, kLongestMessage));
  RETURN_IF_ERROR(BroadcastText(*port_, 0, message, kLongestMessage));
  if (rank() == 0) return status;
  absl::Status shared(static_cast<absl::StatusCode>(kind[0]), message);
  return shared.ok() ? shared : WithCategory(ErrorCategory(kind[1]), std::move(shared));
}

absl::StatusOr<std::vector<MeasuredInstruction>> Ranks::Gather(
    const std::vector<MeasuredInstruction>& own, int64_t tasks) {
  ASSIGN_OR_RETURN(const auto all,
                   GatherTexts(*port_, WriteInstructions(own), MostInstructionBytes(tasks)));
  std::vector<MeasuredInstruction> gathered;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    ASSIGN_OR_RETURN(const auto part, ReadInstructions(all[rank], static_cast<int>(rank), tasks));
    gathered.insert(gathered.end(), part.begin(), part.end());
  }
  return gathered;
}

RankState StateOf(const Executor::Progress& progress, bool waits) {
  if (!progress.in_step) return RankState::kPreparing;
  return waits || progress.meets_peers ? RankState::kWaiting : RankState::kWorking;
}

void Ranks::Watch(const Executor* executor) {
  if (executor == nullptr) return watchdog_->Watch(nullptr);
  watchdog_->Watch([executor, port = port_.get(), waiting = RunQueueDelay()]() mutable {
    const Executor::Progress progress = executor->CurrentProgress();
    return RankProgress{StateOf(progress, port->waiting()), progress.completed, waiting.Total()};
  });
}

}  // namespace partita
