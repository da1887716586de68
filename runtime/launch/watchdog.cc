#include "runtime/launch/watchdog.h"

#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "graph/support/clock.h"
#include "graph/support/error_category.h"
#include "graph/support/status_macros.h"
#include "graph/support/thread.h"
#include "runtime/comm/tcp/connection.h"
#include "runtime/comm/tcp/handshake.h"
#include "runtime/comm/tcp/reception.h"
#include "runtime/launch/watchdog_messages.h"
#include "runtime/support/process_identity.h"

// A connection begins with a handshake, which says whose it is; then it carries messages of
// watchdog_messages.h.

namespace partita {
namespace {

constexpr int64_t kBeat = 250'000'000;  // ns
constexpr int kLookAgain = 50;          // ms
constexpr double kJoinSeconds = 20;

// A rank as the others find it.
struct Member {
  ProcessIdentity process;
  std::string host_name;

  std::string ToText() const { return absl::StrCat(process.ToText(), " ", host_name); }
  static absl::StatusOr<Member> FromText(const std::string& text) {
    const size_t end = text.rfind(' ');
    const auto process = ProcessIdentity::FromText(absl::string_view(text).substr(0, end));
    if (end == std::string::npos || !process.has_value()) {
      return absl::InternalError("a rank does not say which process it is");
    }
    return Member{*process, text.substr(end + 1)};
  }
  // How messages name it.
  std::string NameOf(int rank) const {
    return absl::StrCat("rank ", rank, " (process ", process.id, " on ", host_name, ")");
  }
};

// What both sides have: the thread, and what this rank says.
class RankWatchdog : public Watchdog {
 public:
  RankWatchdog(int rank, int size, WatchdogOptions options)
      : rank_(rank), size_(size), options_(std::move(options)) {}

  // Once, when all it listens to is there.
  absl::Status Start() {
    ASSIGN_OR_RETURN(thread_, Thread::Start(
                                  "watching the other ranks", [this] { Loop(); },
                                  [this](const absl::Status& status) { EndAlone(status); }));
    return absl::OkStatus();
  }

  void Watch(std::function<RankProgress()> progress) override {
    std::lock_guard lock(mutex_);
    progress_ = std::move(progress);
  }

  int Fail(int code, const std::string& reason) override {
    std::unique_lock lock(mutex_);
    progress_ = nullptr;
    if (!failed_ && !left_) {
      failed_ = true;
      code_ = code;
      reason_ = reason;
    }
    changed_.wait(lock, [this] { return over_; });
    return verdict_code_;
  }

  void Leave() override {
    std::unique_lock lock(mutex_);
    progress_ = nullptr;
    left_ = true;
    changed_.wait(lock, [this] { return over_; });
  }

 protected:
  // This rank's news, for itself or rank 0.
  struct News {
    RankProgress progress;
    bool left = false, failed = false;
    int code = 0;
    std::string reason;
  };
  News TakeNews() {
    std::lock_guard lock(mutex_);
    News news{progress_ ? progress_() : RankProgress{}, left_, failed_, code_, reason_};
    return news;
  }

  void Stop() {
    if (!thread_.joinable()) return;
    Leave();
    thread_.Join();
  }
  virtual void Loop() = 0;

  // The end: with a verdict unless all have left.
  void End(const std::optional<Verdict>& verdict) {
    if (verdict.has_value()) {
      if (options_.on_verdict) {
        options_.on_verdict(*verdict);
      } else if (!verdict->common) {
        if (rank_ == (verdict->rank == 0 ? 1 : 0)) Print(verdict->reason);
        std::_Exit(options_.exit_code ? options_.exit_code(verdict->code) : verdict->code);
      }
    }
    std::lock_guard lock(mutex_);
    over_ = true;
    if (verdict.has_value()) verdict_code_ = verdict->code;
    changed_.notify_all();
  }

  const int rank_, size_;
  const WatchdogOptions options_;

 private:
  // Where the watch itself cannot go on. The others see that this process is gone.
  [[noreturn]] void EndAlone(const absl::Status& status) const {
    Print(std::string(status.message()));
    const int code = ExitCodeOf(status);
    std::_Exit(options_.exit_code ? options_.exit_code(code) : code);
  }

  void Print(const std::string& reason) const {
    if (options_.tell && options_.tell(reason)) return;
    std::fprintf(stderr, "partita: %s\n", reason.c_str());
    std::fflush(stderr);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<RankProgress()> progress_;
  bool left_ = false, failed_ = false, over_ = false;
  int code_ = 0, verdict_code_ = 0;
  std::string reason_;
  Thread thread_;
};

// Rank 0: receives all reports, judges the run, sends the verdict.
class Hub : public RankWatchdog {
 public:
  Hub(std::vector<Member> members, WatchdogOptions options)
      : RankWatchdog(0, static_cast<int>(members.size()), std::move(options)),
        detector_(size_, options_.detector, SteadyNow()),
        ranks_(members.size()),
        members_(std::move(members)) {
    for (int rank = 0; rank < size_; ++rank) {
      detector_.Name(rank, members_[static_cast<size_t>(rank)].NameOf(rank));
    }
  }
  ~Hub() override { Stop(); }

  absl::Status AcceptAll(std::unique_ptr<Listener> listener, const RunKey& key) {
    const int64_t end = SteadyNow() + static_cast<int64_t>(kJoinSeconds * 1e9);
    Reception reception(std::move(listener), key,
                        {.own = {.purpose = Purpose::kWatchdog, .ranks = size_}});
    for (int known = 1; known < size_;) {
      if (SteadyNow() > end) {
        return absl::UnavailableError(
            absl::StrCat("not all ranks reach rank 0's watchdog", reception.TurnedAway()));
      }
      for (Reception::Guest& guest : reception.Receive(kLookAgain)) {
        auto& connection = ranks_[static_cast<size_t>(guest.rank)];
        if (guest.rank == 0 || connection != nullptr) continue;
        connection = std::move(guest.connection);
        ++known;
      }
      Beat(SteadyNow());
    }
    detector_.Detect(SteadyNow());
    return Start();
  }

 private:
  void Loop() override {
    for (;;) {
      std::vector<int> sockets;
      for (const auto& rank : ranks_) {
        if (rank != nullptr) sockets.push_back(rank->socket());
      }
      WaitToRead(sockets, kLookAgain);
      const int64_t now = SteadyNow();
      HearAll(now);
      Beat(now);
      if (detector_.AllLeft()) {
        SendToAll(OverMessage());
        return End(std::nullopt);
      }
      if (const auto verdict = detector_.Detect(now)) return Sentence(*verdict);
    }
  }

  // Tells the ranks that have joined that this one lives, also while it waits for others to join.
  void Beat(int64_t now) {
    if (now - beaten_ < kBeat) return;
    SendToAll(AliveMessage());
    beaten_ = now;
  }

  void HearAll(int64_t now) {
    const News own = TakeNews();
    detector_.Observe(0, own.progress, now);
    if (own.left) detector_.Left(0);
    if (own.failed) detector_.Failed(0, own.code, own.reason, now);
    for (int rank = 1; rank < size_; ++rank) {
      auto& connection = ranks_[static_cast<size_t>(rank)];
      if (connection == nullptr) continue;
      const auto messages = connection->Receive();
      if (!messages.ok()) {
        detector_.Closed(rank);
        connection = nullptr;
        continue;
      }
      for (const std::string& message : *messages) Hear(rank, message, now);
    }
  }

  // What is no message for rank 0 is passed over.
  void Hear(int rank, const std::string& message, int64_t now) {
    const auto parsed = MessageOf(message, size_);
    if (!parsed.has_value()) return;
    if (const auto* progress = std::get_if<RankProgress>(&*parsed)) {
      detector_.Observe(rank, *progress, now);
    } else if (std::holds_alternative<ByeMessage>(*parsed)) {
      detector_.Left(rank);
    } else if (const auto* fail = std::get_if<FailMessage>(&*parsed)) {
      detector_.Failed(rank, fail->code, fail->reason, now);
    }
  }

  void SendToAll(const WatchdogMessage& message) {
    for (const auto& rank : ranks_) {
      if (rank != nullptr) rank->Send(TextOf(message));
    }
  }

  void Sentence(const Verdict& verdict) {
    SendToAll(verdict);
    // A stopped process does not end by itself, nor by a signal that it could handle. One that has
    // told of a failed check does, in the verdict's code.
    if (!verdict.common && verdict.code != kCheckFailed && verdict.rank != 0) {
      usleep(100'000);  // if it can, let it say why it ends
      KillProcess(members_[static_cast<size_t>(verdict.rank)].process);
    }
    End(verdict);
  }

  FailureDetector detector_;
  int64_t beaten_ = 0;
  std::vector<std::unique_ptr<Connection>> ranks_;  // null: its own, and those that are gone
  const std::vector<Member> members_;
};

// Every other rank.
class Spoke : public RankWatchdog {
 public:
  Spoke(int rank, int size, WatchdogOptions options, std::unique_ptr<Connection> hub, Member rank_0)
      : RankWatchdog(rank, size, std::move(options)),
        hub_(std::move(hub)),
        rank_0_(std::move(rank_0)) {}
  ~Spoke() override { Stop(); }

 private:
  void Loop() override {
    int64_t beaten = 0, heard = SteadyNow(), looked = heard;
    bool said_bye = false, said_fail = false;
    for (;;) {
      WaitToRead({hub_->socket()}, kLookAgain);
      const int64_t now = SteadyNow();
      if (now - looked > 1'000'000'000) heard = now;  // it was this process that slept
      looked = now;
      if (now - beaten >= kBeat) {
        const News news = TakeNews();
        hub_->Send(TextOf(news.progress));
        if (news.left && !said_bye) hub_->Send(TextOf(ByeMessage()));
        if (news.failed && !said_fail) hub_->Send(TextOf(FailMessage{news.code, news.reason}));
        said_bye |= news.left;
        said_fail |= news.failed;
        beaten = now;
      }
      const auto messages = hub_->Receive();
      if (!messages.ok()) return Lost("has ended without a word: killed, or crashed");
      for (const std::string& message : *messages) {
        heard = now;
        const auto parsed = MessageOf(message, size_);
        if (!parsed.has_value()) continue;
        if (std::holds_alternative<OverMessage>(*parsed)) return End(std::nullopt);
        if (const auto* verdict = std::get_if<Verdict>(&*parsed)) return End(*verdict);
      }
      if (static_cast<double>(now - heard) > options_.detector.silent_seconds * 1e9) {
        return Lost("gives no sign of life: it is stopped, or its host cannot be reached");
      }
    }
  }

  // Rank 0 is gone.
  void Lost(const char* how) {
    KillProcess(rank_0_.process);
    End(Verdict{0, kRankFailed, absl::StrCat(rank_0_.NameOf(0), " ", how)});
  }

  std::unique_ptr<Connection> hub_;
  const Member rank_0_;
};

// All of them, by rank. Collective.
absl::StatusOr<std::vector<Member>> GatherMembers(MessagePort& port) {
  const Member own{ThisProcess(), absl::StrReplaceAll(HostName(), {{" ", "_"}})};
  ASSIGN_OR_RETURN(const auto texts, GatherTexts(port, own.ToText()));
  std::vector<Member> members;
  for (const std::string& text : texts) {
    ASSIGN_OR_RETURN(members.emplace_back(), Member::FromText(text));
  }
  return members;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Watchdog>> Watchdog::Join(MessagePort& port, const RunKey& key,
                                                         WatchdogOptions options) {
  ASSIGN_OR_RETURN(std::vector<Member> members, GatherMembers(port));
  const bool within_host = std::all_of(members.begin(), members.end(), [&](const Member& member) {
    return member.process.host == members[0].process.host;
  });
  std::string place;  // of rank 0: "PORT ADDRESS ADDRESS..."
  std::unique_ptr<Listener> listener;
  if (port.rank() == 0) {
    ASSIGN_OR_RETURN(listener, Listener::Open(within_host ? Listener::Reach::kThisHost
                                                          : Listener::Reach::kAllHosts));
    place = absl::StrCat(listener->port(), " ",
                         within_host ? "127.0.0.1" : absl::StrJoin(HostAddresses(), " "));
  }
  RETURN_IF_ERROR(BroadcastText(port, 0, place));
  if (port.rank() == 0) {
    auto hub = std::make_unique<Hub>(std::move(members), std::move(options));
    RETURN_IF_ERROR(hub->AcceptAll(std::move(listener), key));
    return hub;
  }
  const std::vector<std::string> words = absl::StrSplit(place, ' ');
  int number = 0;
  if (words.size() < 2 || !absl::SimpleAtoi(words[0], &number) || number < 1 || number > 65535) {
    return absl::UnavailableError("rank 0 does not say where its watchdog listens");
  }
  const Call call{.purpose = Purpose::kWatchdog, .caller = port.rank(), .ranks = port.size()};
  auto connection = CallRank({words.begin() + 1, words.end()}, number, key, call, kJoinSeconds);
  if (!connection.ok()) return absl::UnavailableError(connection.status().message());
  auto spoke = std::make_unique<Spoke>(port.rank(), port.size(), std::move(options),
                                       *std::move(connection), std::move(members[0]));
  RETURN_IF_ERROR(spoke->Start());
  return spoke;
}

}  // namespace partita
