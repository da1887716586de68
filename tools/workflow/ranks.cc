#include "tools/workflow/ranks.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "graph/support/status_macros.h"
#include "runtime/comm/shared_port.h"
#include "runtime/comm/tcp/tcp_port.h"
#ifdef PARTITA_HAVE_MPI
#include "runtime/comm/mpi/mpi_port.h"
#endif

namespace partita {
namespace {

constexpr size_t kLongestMessage = 4096;  // bytes

// A number in the environment; -1 if there is none.
int NumberIn(const char* name) {
  const char* value = std::getenv(name);
  int number = -1;
  return value != nullptr && absl::SimpleAtoi(value, &number) ? number : -1;
}

absl::StatusOr<std::unique_ptr<MessagePort>> OpenMpi() {
#ifdef PARTITA_HAVE_MPI
  return OpenMpiPort();
#else
  return absl::UnavailableError(
      "several processes were started, and this program was built without MPI: install "
      "libopenmpi-dev and build again");
#endif
}

absl::StatusOr<std::unique_ptr<MessagePort>> OpenTcp() {
  const char* address = std::getenv("MASTER_ADDR");
  TcpMeeting meeting{.rank = NumberIn("RANK"), .size = NumberIn("WORLD_SIZE")};
  if (address != nullptr) meeting.address = address;
  if (const int port = NumberIn("MASTER_PORT"); port > 0) meeting.port = port;
  // Then torchrun itself listens there.
  const char* taken = std::getenv("TORCHELASTIC_USE_AGENT_STORE");
  if (taken != nullptr && std::string(taken) == "True") ++meeting.port;
  return OpenTcpPort(meeting);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Ranks>> Ranks::Join(WatchdogOptions options) {
  const bool mpi = NumberIn("OMPI_COMM_WORLD_SIZE") > 1 || NumberIn("PMI_SIZE") > 1;
  const bool tcp = !mpi && NumberIn("WORLD_SIZE") > 1 && NumberIn("RANK") >= 0;
  if (!mpi && !tcp) return nullptr;
  std::unique_ptr<Ranks> ranks(new Ranks);
  ranks->communicator_ = mpi ? "mpi" : "tcp";
  ASSIGN_OR_RETURN(ranks->port_, mpi ? OpenMpi() : OpenTcp());
  if (ranks->port_->size() == 1) return nullptr;
  ASSIGN_OR_RETURN(ranks->port_, ShareMemory(std::move(ranks->port_)));
  ASSIGN_OR_RETURN(ranks->watchdog_, Watchdog::Join(*ranks->port_, std::move(options)));
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

absl::StatusOr<bool> Ranks::AsRank0(bool value) {
  char byte = value ? 1 : 0;
  RETURN_IF_ERROR(Broadcast(*port_, 0, &byte, 1));
  return byte != 0;
}

absl::Status Ranks::AsRank0(const absl::Status& status) {
  int32_t words[] = {static_cast<int32_t>(status.code()),
                     static_cast<int32_t>(std::min(status.message().size(), kLongestMessage))};
  RETURN_IF_ERROR(Broadcast(*port_, 0, words, sizeof words));
  std::string message(status.message());
  if (words[1] < 0 || static_cast<size_t>(words[1]) > kLongestMessage) {
    return absl::InternalError("rank 0 sent a message without a sound length");
  }
  message.resize(static_cast<size_t>(words[1]));
  RETURN_IF_ERROR(Broadcast(*port_, 0, message.data(), words[1]));
  if (rank() == 0) return status;
  return absl::Status(static_cast<absl::StatusCode>(words[0]), message);
}

absl::StatusOr<std::vector<MeasuredInstruction>> Ranks::Gather(
    std::vector<MeasuredInstruction> own) {
  std::string bytes(own.size() * sizeof(MeasuredInstruction), '\0');
  if (!own.empty()) std::memcpy(bytes.data(), own.data(), bytes.size());
  ASSIGN_OR_RETURN(const auto all, GatherTexts(*port_, bytes));
  std::vector<MeasuredInstruction> gathered;
  for (const std::string& part : all) {
    const size_t count = part.size() / sizeof(MeasuredInstruction);
    const size_t first = gathered.size();
    gathered.resize(first + count);
    if (count > 0) std::memcpy(&gathered[first], part.data(), part.size());
  }
  return gathered;
}

void Ranks::Watch(const Executor* executor) {
  if (executor == nullptr) return watchdog_->Watch(nullptr);
  watchdog_->Watch([executor, port = port_.get(), waiting = CoreWaiting()]() mutable {
    const Executor::Progress progress = executor->CurrentProgress();
    const RankDoing doing = !progress.in_step ? RankDoing::kPreparing
                            : port->waiting() ? RankDoing::kWaiting
                                              : RankDoing::kWorking;
    return RankProgress{doing, progress.completed, waiting.Total()};
  });
}

}  // namespace partita
