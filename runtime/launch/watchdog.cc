#include "runtime/launch/watchdog.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <random>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "graph/support/clock.h"
#include "graph/support/status_macros.h"
#include "graph/support/thread.h"
#include "runtime/comm/tcp/connection.h"

// Messages are words: "hello KEY RANK PID HOST", "beat DOING COMPLETED STARVED", "bye", "fail CODE
// REASON" to rank 0; "beat", "over" (all have left) and "verdict RANK CODE COMMON REASON" from it.

namespace partita {
namespace {

constexpr int64_t kBeat = 250'000'000;  // ns
constexpr int kLookAgain = 50;          // ms
constexpr double kJoinSeconds = 20;

std::string HostName() {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  return name;
}

// How a rank is found by the others.
struct Identity {
  int pid = 0;
  std::string host;
};

int64_t IntegerOf(absl::string_view word) {
  int64_t value = -1;
  return absl::SimpleAtoi(word, &value) ? value : -1;
}

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
    const int code = absl::IsResourceExhausted(status) ? 4 : 5;
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

// Rank 0: hears all, judges, tells.
class Hub : public RankWatchdog {
 public:
  Hub(int size, WatchdogOptions options)
      : RankWatchdog(0, size, std::move(options)),
        judge_(size, options_.judge, SteadyNow()),
        ranks_(static_cast<size_t>(size)),
        identities_(static_cast<size_t>(size)) {}
  ~Hub() override { Stop(); }

  absl::Status AcceptAll(Listener& listener, const std::string& key) {
    const int64_t end = SteadyNow() + static_cast<int64_t>(kJoinSeconds * 1e9);
    std::vector<std::unique_ptr<Connection>> strangers;
    for (int known = 1; known < size_;) {
      if (SteadyNow() > end) return absl::UnavailableError("not all ranks reach rank 0 over TCP");
      std::vector<int> sockets{listener.socket()};
      for (const auto& s : strangers) sockets.push_back(s->socket());
      WaitToRead(sockets, kLookAgain);
      if (auto connection = listener.Accept()) strangers.push_back(std::move(connection));
      for (auto& stranger : strangers) known += Welcome(stranger, key) ? 1 : 0;
      std::erase(strangers, nullptr);
    }
    judge_.Name(0, absl::StrCat("rank 0 (process ", getpid(), " on ", HostName(), ")"));
    judge_.Judge(SteadyNow());
    return Start();
  }

 private:
  // Takes a connection over once it has said who it is; drops it if it is none of ours.
  bool Welcome(std::unique_ptr<Connection>& stranger, const std::string& key) {
    const auto messages = stranger->Receive();
    if (!messages.ok()) stranger = nullptr;
    if (!messages.ok() || messages->empty()) return false;
    const std::vector<std::string> words = absl::StrSplit((*messages)[0], ' ');
    const int64_t rank =
        words.size() == 5 && words[0] == "hello" && words[1] == key ? IntegerOf(words[2]) : -1;
    if (rank < 1 || rank >= size_ || ranks_[static_cast<size_t>(rank)] != nullptr) {
      stranger = nullptr;
      return false;
    }
    identities_[static_cast<size_t>(rank)] = {static_cast<int>(IntegerOf(words[3])), words[4]};
    judge_.Name(static_cast<int>(rank),
                absl::StrCat("rank ", rank, " (process ", words[3], " on ", words[4], ")"));
    ranks_[static_cast<size_t>(rank)] = std::move(stranger);
    return true;
  }

  void Loop() override {
    int64_t beaten = 0;
    for (;;) {
      std::vector<int> sockets;
      for (const auto& rank : ranks_) {
        if (rank != nullptr) sockets.push_back(rank->socket());
      }
      WaitToRead(sockets, kLookAgain);
      const int64_t now = SteadyNow();
      HearAll(now);
      if (now - beaten >= kBeat) {
        Tell("beat");
        beaten = now;
      }
      if (judge_.AllLeft()) {
        Tell("over");
        return End(std::nullopt);
      }
      if (const auto verdict = judge_.Judge(now)) return Sentence(*verdict);
    }
  }

  void HearAll(int64_t now) {
    const News own = TakeNews();
    judge_.Heard(0, own.progress, now);
    if (own.left) judge_.Left(0);
    if (own.failed) judge_.Failed(0, own.code, own.reason, now);
    for (int rank = 1; rank < size_; ++rank) {
      auto& connection = ranks_[static_cast<size_t>(rank)];
      if (connection == nullptr) continue;
      const auto messages = connection->Receive();
      if (!messages.ok()) {
        judge_.Closed(rank);
        connection = nullptr;
        continue;
      }
      for (const std::string& message : *messages) Hear(rank, message, now);
    }
  }

  void Hear(int rank, const std::string& message, int64_t now) {
    const std::vector<std::string> words = absl::StrSplit(message, absl::MaxSplits(' ', 2));
    if (words[0] == "beat" && words.size() == 3) {
      const std::pair<std::string, std::string> counts = absl::StrSplit(words[2], ' ');
      judge_.Heard(rank,
                   {static_cast<RankDoing>(IntegerOf(words[1])), IntegerOf(counts.first),
                    IntegerOf(counts.second)},
                   now);
    } else if (words[0] == "bye") {
      judge_.Left(rank);
    } else if (words[0] == "fail" && words.size() == 3) {
      judge_.Failed(rank, static_cast<int>(IntegerOf(words[1])), words[2], now);
    }
  }

  void Tell(const std::string& message) {
    for (const auto& rank : ranks_) {
      if (rank != nullptr) rank->Send(message);
    }
  }

  void Sentence(const Verdict& verdict) {
    Tell(absl::StrCat("verdict ", verdict.rank, " ", verdict.code, " ", verdict.common ? 1 : 0, " ",
                      verdict.reason));
    // A stopped process does not end by itself, nor by a signal that it could handle. One that has
    // told of a failed check does, in the verdict's code.
    const Identity& guilty = identities_[static_cast<size_t>(verdict.rank)];
    if (!verdict.common && verdict.code != kCheckFailed && guilty.pid > 0 &&
        guilty.pid != getpid() && guilty.host == HostName()) {
      usleep(100'000);  // if it can, let it say why it ends
      kill(guilty.pid, SIGKILL);
    }
    End(verdict);
  }

  RunJudge judge_;
  std::vector<std::unique_ptr<Connection>> ranks_;  // null: its own, and those that are gone
  std::vector<Identity> identities_;
};

// Every other rank.
class Spoke : public RankWatchdog {
 public:
  Spoke(int rank, int size, WatchdogOptions options, std::unique_ptr<Connection> hub,
        Identity identity)
      : RankWatchdog(rank, size, std::move(options)),
        hub_(std::move(hub)),
        hub_identity_(std::move(identity)) {}
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
        hub_->Send(absl::StrCat("beat ", static_cast<int>(news.progress.doing), " ",
                                news.progress.completed, " ", news.progress.starved));
        if (news.left && !said_bye) hub_->Send("bye");
        if (news.failed && !said_fail)
          hub_->Send(absl::StrCat("fail ", news.code, " ", news.reason));
        said_bye |= news.left;
        said_fail |= news.failed;
        beaten = now;
      }
      const auto messages = hub_->Receive();
      if (!messages.ok()) return Lost("has ended without a word: killed, or crashed");
      for (const std::string& message : *messages) {
        heard = now;
        if (message == "over") return End(std::nullopt);
        if (const auto verdict = VerdictIn(message)) return End(verdict);
      }
      if (static_cast<double>(now - heard) > options_.judge.silent_seconds * 1e9) {
        return Lost("gives no sign of life: it is stopped, or its host cannot be reached");
      }
    }
  }

  static std::optional<Verdict> VerdictIn(const std::string& message) {
    const std::vector<std::string> words = absl::StrSplit(message, absl::MaxSplits(' ', 4));
    if (words.size() != 5 || words[0] != "verdict") return std::nullopt;
    return Verdict{static_cast<int>(IntegerOf(words[1])), static_cast<int>(IntegerOf(words[2])),
                   words[4], words[3] == "1"};
  }

  // Rank 0 is gone.
  void Lost(const char* how) {
    const int pid = hub_identity_.pid;
    if (pid > 0 && pid != getpid() && hub_identity_.host == HostName()) kill(pid, SIGKILL);
    End(Verdict{0, 5,
                absl::StrCat("rank 0 (process ", hub_identity_.pid, " on ", hub_identity_.host,
                             ") ", how)});
  }

  std::unique_ptr<Connection> hub_;
  const Identity hub_identity_;
};

// Where rank 0 listens: "KEY PORT PID HOST ADDRESS ADDRESS...", padded to a fixed size.
struct MeetingPoint {
  char text[1024];
};

}  // namespace

absl::StatusOr<std::unique_ptr<Watchdog>> Watchdog::Join(MessagePort& port,
                                                         WatchdogOptions options) {
  MeetingPoint point{};
  std::unique_ptr<Listener> listener;
  if (port.rank() == 0) {
    ASSIGN_OR_RETURN(listener, Listener::Open());
    std::random_device random;
    const std::string text =
        absl::StrCat(absl::Hex(random()), absl::Hex(random()), " ", listener->port(), " ", getpid(),
                     " ", HostName(), " ", absl::StrJoin(HostAddresses(), " "));
    std::strncpy(point.text, text.c_str(), sizeof point.text - 1);
  }
  RETURN_IF_ERROR(Broadcast(port, 0, &point, sizeof point));
  const std::vector<std::string> words = absl::StrSplit(std::string(point.text), ' ');
  if (words.size() < 5) return absl::UnavailableError("rank 0 does not say where it listens");
  if (port.rank() == 0) {
    auto hub = std::make_unique<Hub>(port.size(), std::move(options));
    RETURN_IF_ERROR(hub->AcceptAll(*listener, words[0]));
    return hub;
  }
  ASSIGN_OR_RETURN(auto connection,
                   Connection::Open({words.begin() + 4, words.end()},
                                    static_cast<int>(IntegerOf(words[1])), kJoinSeconds));
  connection->Send(
      absl::StrCat("hello ", words[0], " ", port.rank(), " ", getpid(), " ", HostName()));
  auto spoke =
      std::make_unique<Spoke>(port.rank(), port.size(), std::move(options), std::move(connection),
                              Identity{static_cast<int>(IntegerOf(words[2])), words[3]});
  RETURN_IF_ERROR(spoke->Start());
  return spoke;
}

}  // namespace partita
