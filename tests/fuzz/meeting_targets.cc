#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "runtime/comm/tcp/connection.h"
#include "runtime/comm/tcp/handshake.h"
#include "runtime/comm/tcp/reception.h"
#include "runtime/comm/tcp/tcp_meeting.h"
#include "tests/fuzz/fuzz_target.h"

// Ranks of one host that meet: what the others tell rank 0 of where they listen, and what rank 0
// tells a rank of where all listen, after handshakes that are sound.

namespace partita {
namespace {

constexpr double kWait = 30;  // seconds, where an answer comes for sure
constexpr int kOthers = 2;    // ranks that tell rank 0 where they listen

// A port that no other process gives its meetings.
int MeetingPort() { return 100'000 + static_cast<int>(getpid()); }

// A rank of the program that meets others, in a thread of its own, as it waits.
class Rank {
 public:
  Rank(int rank, int size)
      : thread_([this, rank, size] {
          met_ = MeetRanks({.rank = rank, .size = size, .port = MeetingPort(), .seconds = kWait});
        }) {}
  ~Rank() { Join(); }

  // How the meeting ended for it.
  const absl::StatusOr<MetRanks>& Join() {
    if (thread_.joinable()) thread_.join();
    return met_;
  }

 private:
  absl::StatusOr<MetRanks> met_ = absl::UnknownError("not met");
  std::thread thread_;
};

// Ranks 1 and 2 say where they listen; rank 0 believes both or neither.
absl::Status TellRank0(const std::vector<std::string>& places) {
  Rank rank0(0, 1 + kOthers);
  // A call that finds nobody rests for longer than all of this takes.
  while (!Connection::OpenUnix(MeetingNameOf(MeetingPort())).ok()) std::this_thread::yield();
  std::vector<std::unique_ptr<Connection>> others;
  for (int rank = 1; rank <= kOthers; ++rank) {
    std::optional<RunKey> key;  // which rank 0 gives to each
    auto called = CallWithinHost(
        MeetingNameOf(MeetingPort()), key,
        {.purpose = Purpose::kMeeting, .caller = rank, .listener = 0, .ranks = 1 + kOthers}, kWait);
    DemandOk(called.status(), "rank 0 is not met");
    others.push_back(*std::move(called));
  }
  for (size_t k = 0; k < others.size(); ++k) others[k]->Send(places[k]);
  for (const auto& other : others) (void)other->Drain(kWait);
  const auto& met = rank0.Join();
  if (!met.ok()) return met.status();
  for (const auto& other : others) {
    const auto table = other->ReceiveOne(kWait);
    DemandOk(table.status(), "rank 0 does not say where all listen");
    const std::vector<std::string> lines = absl::StrSplit(*table, '\n');
    Demand(lines.size() == 1 + kOthers, "rank 0 tells of other ranks");
  }
  return absl::OkStatus();
}

// Rank 0 says where all listen. Its rank 1 calls no other, so that no address of an input is called.
absl::Status TellRank1(const std::string& table) {
  auto listener = Listener::OpenUnix(MeetingNameOf(MeetingPort()));
  DemandOk(listener.status(), "a listener");
  Rank rank1(1, 2);
  Reception reception(*std::move(listener), RunKey::New(),
                      {.own = {.purpose = Purpose::kMeeting, .listener = 0, .ranks = 2},
                       .refusal = [](int) { return std::string(); },
                       .gives_key = true});
  std::unique_ptr<Connection> guest;
  while (guest == nullptr) {
    for (Reception::Guest& one : reception.Receive(1)) guest = std::move(one.connection);
  }
  guest->Send(table);
  (void)guest->Drain(kWait);
  const auto place = guest->ReceiveOne(kWait);
  const auto& met = rank1.Join();
  Demand(place.ok() || !met.ok(), "a rank does not say where it listens");
  return met.status();
}

// An input: whom it is told, 0 or 1, and what: the places of ranks 1 and 2, or a table.
absl::Status ReadMeeting(const std::string& input) {
  const auto files = SplitFiles(input, 1 + kOthers);
  if (files[0] == "1") return TellRank1(files[1]);
  return TellRank0({files.begin() + 1, files.end()});
}

std::vector<std::string> Meetings() {
  return {JoinFiles({"0", "41000 127.0.0.1", "41001 127.0.0.1 10.0.0.7"}),
          JoinFiles({"1", "-\n41000 127.0.0.1", ""}), JoinFiles({"0", "41000", "0 127.0.0.1"}),
          JoinFiles({"1", "-\n41000 127.0.0.1\n41001 127.0.0.1", ""})};
}

}  // namespace

std::vector<FuzzTarget> MeetingTargets() {
  return {{.name = "meeting",
           .reads = "where ranks that meet say that they listen",
           .seeds = Meetings,
           .mutate = MutateAsText,
           .read = ReadMeeting,
           .inputs = 2'000,
           .refusals = {absl::StatusCode::kUnavailable}}};
}

}  // namespace partita
