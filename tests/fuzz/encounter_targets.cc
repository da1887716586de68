#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "graph/support/error_category.h"
#include "graph/support/status_macros.h"
#include "runtime/comm/tcp/connection.h"
#include "runtime/comm/tcp/handshake.h"
#include "runtime/comm/tcp/reception.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/sockets.h"

// Two ranks that have the run's key: one connects to the other, calls it and talks to it, over TCP or
// a Unix socket. A relay between them, which knows no key, damages their bytes or cuts the
// connection.

namespace partita {
namespace {

constexpr int kRanks = 4;
constexpr double kLongWait = 30;  // seconds, where an answer comes for sure
constexpr Call kOwn = {.purpose = Purpose::kMessages, .listener = 1, .ranks = kRanks};
constexpr size_t kMostMessages = 20;

// Damage to what one side says: bytes that its stream is XORed with, from its beginning on, and
// after how many bytes the connection is cut.
struct Damage {
  std::string mask;
  size_t cut = SIZE_MAX;

  bool any() const {
    return cut != SIZE_MAX || std::any_of(mask.begin(), mask.end(), [](char c) { return c != 0; });
  }
};

struct Encounter {
  bool over_tcp = false;
  bool gives_key = false;      // the listener gives its key to the caller, who has none
  bool has_other_key = false;  // the caller's is not the listener's
  Call call;
  size_t longest = Connection::kMostBytes;  // message that the listener takes
  Damage from_caller, from_listener;
  std::string refusal;  // of the listener, for any caller
  std::vector<std::string> messages;

  // Nothing is on the way or in the call for which a caller has to call again.
  bool is_sound() const {
    return !from_caller.any() && !from_listener.any() && !has_other_key &&
           call.purpose == kOwn.purpose && call.listener == kOwn.listener && call.caller >= 0 &&
           call.ranks >= 0;
  }
  bool is_refused() const {
    return !refusal.empty() || call.ranks != kOwn.ranks || call.caller >= call.ranks;
  }
};

// An input: a line of numbers (form, caller, listener, ranks, purpose, where each side's stream is
// cut or -1, longest message), the masks of caller and listener, the refusal, and messages as lines.
Encounter EncounterIn(const std::string& input) {
  const auto files = SplitFiles(input, 5);
  std::array<int64_t, 8> numbers = {
      0, 2, kOwn.listener, kRanks, static_cast<int>(kOwn.purpose), -1, -1, Connection::kMostBytes};
  TakeNumbers(files[0], absl::MakeSpan(numbers));
  const auto cut = [](int64_t at) { return at < 0 ? SIZE_MAX : static_cast<size_t>(at); };
  Encounter encounter{.over_tcp = (numbers[0] & 1) != 0,
                      .gives_key = (numbers[0] & 3) == 2,
                      .has_other_key = (numbers[0] & 7) > 3,
                      .call = {.purpose = static_cast<Purpose>(numbers[4]),
                               .caller = static_cast<int>(numbers[1]),
                               .listener = static_cast<int>(numbers[2]),
                               .ranks = static_cast<int>(numbers[3])},
                      .longest = static_cast<size_t>(std::clamp<int64_t>(
                          numbers[7], 0, static_cast<int64_t>(Connection::kMostBytes))),
                      .from_caller = {files[1], cut(numbers[5])},
                      .from_listener = {files[2], cut(numbers[6])},
                      .refusal = files[3],
                      .messages = {}};
  if (!files[4].empty()) encounter.messages = absl::StrSplit(files[4], '\n');
  encounter.messages.resize(std::min(encounter.messages.size(), kMostMessages));
  return encounter;
}

// A socket that is closed at once: the system remembers no connection of it, of which it has few.
class Line {
 public:
  explicit Line(std::unique_ptr<Connection> connection) : socket_(connection->Release()) {
    const linger at_once{.l_onoff = 1, .l_linger = 0};
    setsockopt(socket_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  }
  ~Line() { close(socket_); }
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;
  int socket() const { return socket_; }

 private:
  const int socket_;
};

// Hands on what one side says, with its damage.
class Stream {
 public:
  Stream(const Line& from, const Line& to, const Damage& damage)
      : from_(from), to_(to), damage_(damage) {}

  // Hands on what is there; false if nothing was.
  bool Advance() {
    char piece[4096];
    const ssize_t got = recv(from_.socket(), piece, sizeof piece, 0);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) is_over_ = true;
    if (got <= 0) return false;
    auto size = static_cast<size_t>(got);
    for (size_t k = 0; k < size && at_ + k < damage_.mask.size(); ++k) {
      if (damage_.mask[at_ + k] != 0) changed_at_ = std::min(changed_at_, at_ + k);
      piece[k] = static_cast<char>(piece[k] ^ damage_.mask[at_ + k]);
    }
    if (size > damage_.cut - at_) {
      size = damage_.cut - at_;
      is_over_ = true;
      changed_at_ = std::min(changed_at_, damage_.cut);
    }
    at_ += size;
    // What the other side does not take is lost with the connection.
    if (send(to_.socket(), piece, size, MSG_NOSIGNAL) < 0) is_over_ = true;
    return true;
  }
  bool is_over() const { return is_over_; }
  bool is_changed() const { return changed_at_ != SIZE_MAX; }
  size_t changed_at() const { return changed_at_; }  // the first byte, from the stream's beginning

 private:
  const Line &from_, &to_;
  const Damage& damage_;
  size_t at_ = 0;
  size_t changed_at_ = SIZE_MAX;
  bool is_over_ = false;
};

std::unique_ptr<Listener> Listen(const Encounter& encounter, const std::string& name) {
  auto listener =
      encounter.over_tcp ? Listener::Open(Listener::Reach::kThisHost) : Listener::OpenUnix(name);
  DemandOk(listener.status(), "a listener");
  const auto twice = encounter.over_tcp
                         ? Listener::Open(Listener::Reach::kAllHosts, (*listener)->port())
                         : Listener::OpenUnix(name);
  Demand(absl::IsUnavailable(twice.status()), "two listen at one place");
  return *std::move(listener);
}

// The name of a Unix socket, which no other process has.
std::string PlaceOf(const char* who) {
  static const std::string kProcess = RunKey::NewSecret().substr(0, 16);
  return absl::StrCat("partita-fuzz-", kProcess, "-", who);
}

absl::StatusOr<std::unique_ptr<Connection>> ConnectTo(const Listener& listener,
                                                      const std::string& name) {
  return listener.port() > 0 ? Connection::Open("127.0.0.1", listener.port(), kLongWait)
                             : Connection::OpenUnix(name);
}

const RunKey& OtherKey() {
  static const RunKey kKey = *RunKey::FromSecret(std::string(64, 'b'));
  return kKey;
}

// The caller's side, in a thread of its own, as it waits.
class Caller {
 public:
  Caller(const Encounter& encounter, const Listener& at)
      : encounter_(encounter), at_(at), thread_([this] {
          status_ = Run();
          is_done_ = true;
        }) {}
  ~Caller() { Join(); }

  bool is_done() const { return is_done_; }
  void Join() {
    if (thread_.joinable()) thread_.join();
  }
  // Once joined.
  const absl::Status& called() const { return called_; }  // OK: it was let in
  const absl::Status& status() const { return status_; }

 private:
  absl::StatusOr<std::unique_ptr<Connection>> CallListener() const {
    const std::string name = PlaceOf("relay");
    const RunKey& key = encounter_.has_other_key ? OtherKey() : Key();
    const double wait = encounter_.is_sound() ? kLongWait : kNoWait;
    std::optional<RunKey> own;
    if (!encounter_.gives_key || encounter_.has_other_key) own = key;
    if (encounter_.gives_key && !own.has_value()) {
      return CallWithinHost(name, own, encounter_.call, wait);
    }
    if (encounter_.is_sound()) {
      if (!encounter_.over_tcp) return CallWithinHost(name, own, encounter_.call, wait);
      return CallRank({"no address", "127.0.0.1"}, at_.port(), key, encounter_.call, wait);
    }
    ASSIGN_OR_RETURN(auto connection, ConnectTo(at_, name));
    RETURN_IF_ERROR(CallOn(*connection, key, encounter_.call, kLongWait));
    return connection;
  }

  absl::Status Run() {
    auto connection = CallListener();
    called_ = connection.status();
    RETURN_IF_ERROR(called_);
    for (const std::string& message : encounter_.messages) {
      (*connection)->Send(message);
      RETURN_IF_ERROR((*connection)->Drain(kLongWait));
      ASSIGN_OR_RETURN(const std::string echo, (*connection)->ReceiveOne(kLongWait));
      Demand(encounter_.from_caller.any() || encounter_.from_listener.any() || echo == message,
             "a message is another one");
    }
    return absl::OkStatus();
  }

  const Encounter& encounter_;
  const Listener& at_;
  absl::Status called_, status_;
  std::atomic<bool> is_done_{false};
  std::thread thread_;
};

// The listener's side: lets the caller in, and says again what that says.
class Host {
 public:
  explicit Host(const Encounter& encounter)
      : longest_(encounter.longest),
        reception_(Listen(encounter, PlaceOf("host")), Key(),
                   {.own = kOwn,
                    .refusal = [&encounter](int) { return encounter.refusal; },
                    .gives_key = encounter.gives_key}) {}

  const Listener& listener() const { return reception_.listener(); }
  bool has_let_in() const { return has_let_in_; }

  // Goes on with what has arrived; false if nothing was.
  bool Advance() {
    if (guest_ == nullptr) {
      auto guests = reception_.Receive(0);
      if (guests.empty()) return false;
      Demand(!has_let_in_ && guests.size() == 1, "one caller is let in twice");
      Demand(guests[0].rank >= 0 && guests[0].rank < kRanks, "a guest beyond the ranks");
      has_let_in_ = true;
      guest_ = std::move(guests[0].connection);
      guest_->Allow(longest_);
      return true;
    }
    const auto messages = guest_->Receive();
    if (!messages.ok()) {
      guest_ = nullptr;
      return true;
    }
    for (const std::string& message : *messages) {
      Demand(message.size() <= longest_, "a message over the limit");
      guest_->Send(message);
    }
    return !messages->empty();
  }

 private:
  const size_t longest_;
  Reception reception_;
  std::unique_ptr<Connection> guest_;
  bool has_let_in_ = false;
};

std::unique_ptr<Connection> AcceptFrom(Listener& listener, const Caller& caller) {
  for (;;) {
    if (auto connection = listener.Accept()) return connection;
    if (caller.is_done()) return nullptr;
    WaitToRead({listener.socket()}, 1);
  }
}

// The first byte that was changed of what each side said, from the beginning; SIZE_MAX: none.
struct FirstChanges {
  size_t of_caller = SIZE_MAX, of_listener = SIZE_MAX;
};

// Hands on what both say until the caller is done, or neither says more: one of them may wait for
// bytes that were never sent.
FirstChanges Relay(const Encounter& encounter, const Line& left, Host& host, const Caller& caller) {
  const Line right(*ConnectTo(host.listener(), PlaceOf("host")));
  Stream out(left, right, encounter.from_caller), in(right, left, encounter.from_listener);
  while (!caller.is_done()) {
    const bool has_sent = out.Advance();
    const bool has_heard = host.Advance();
    const bool has_answered = in.Advance();
    if (has_sent || has_heard || has_answered) continue;
    if (out.is_over()) break;
    const bool may_end = in.is_over() || out.is_changed() || in.is_changed();
    pollfd wait[] = {{left.socket(), POLLIN, 0}, {right.socket(), POLLIN, 0}};
    if (poll(wait, in.is_over() ? 1 : 2, 1) == 0 && may_end) break;
  }
  return {out.changed_at(), in.changed_at()};
}

// What nobody listens to is not reached.
void CallNobody(const Encounter& encounter, int port) {
  std::optional<RunKey> key = Key();
  const auto called = encounter.over_tcp ? CallRank({"127.0.0.1"}, port, *key, kOwn, 0)
                                         : CallWithinHost(PlaceOf("relay"), key, kOwn, 0);
  Demand(absl::IsUnavailable(called.status()) || absl::IsNotFound(called.status()),
         "where nobody listens is an answer");
}

// Who is let in has the key, and nothing was changed until then.
void CheckOutcome(const Encounter& encounter, const FirstChanges& changes, const Host& host,
                  const Caller& caller) {
  constexpr size_t kSize = sizeof(uint32_t), kHello = kSize + 53, kProof = kSize + 32,
                   kChallenge = kSize + 64, kAnswer = kSize + 32;
  const size_t key = encounter.gives_key ? kSize + RunKey::kBytes : 0;
  const bool was_called = caller.called().ok();
  if (encounter.is_sound()) {
    Demand(was_called == !encounter.is_refused(),
           absl::StrCat("a call ends otherwise: ", caller.called().ToString()));
    Demand(was_called || IsUsageError(caller.called()), "a refusal without its reason");
  }
  Demand(!was_called || host.has_let_in(), "a caller believes to be let in");
  Demand(!encounter.has_other_key || !host.has_let_in(), "a caller with another key is let in");
  Demand(changes.of_caller >= kHello + kProof || !host.has_let_in(),
         "a caller is let in whose handshake was changed");
  Demand(changes.of_listener >= key + kChallenge + kAnswer || !was_called,
         "a listener is believed whose handshake was changed");
}

absl::Status ReadEncounter(const std::string& input) {
  const Encounter encounter = EncounterIn(input);
  auto place = Listen(encounter, PlaceOf("relay"));
  const int port = place->port();
  Host host(encounter);
  Caller caller(encounter, *place);
  FirstChanges changes;
  if (auto accepted = AcceptFrom(*place, caller)) {
    const Line left(std::move(accepted));
    changes = Relay(encounter, left, host, caller);
  }
  caller.Join();
  place = nullptr;
  CallNobody(encounter, port);
  CheckOutcome(encounter, changes, host, caller);
  return caller.status();
}

std::vector<std::string> Encounters() {
  Demand(!HostAddresses().empty(), "a host without addresses");
  const std::string zeros(200, '\0'), messages = "beat 1 2 3\n\na longer message of a rank\nbye";
  std::string first_bit = zeros;
  first_bit[0] = 1;
  std::vector<std::string> all;
  for (const char* form : {"0", "1", "2"}) {
    all.push_back(
        JoinFiles({absl::StrCat(form, " 2 1 4 2 -1 -1 1000"), zeros, zeros, "", messages}));
    all.push_back(JoinFiles({absl::StrCat(form, " 3 1 5 2"), "", "", "", messages}));
    all.push_back(JoinFiles({absl::StrCat(form, " 0"), zeros, zeros, "there is a rank 0", ""}));
    all.push_back(JoinFiles({absl::StrCat(form, " 0 1 4 2 70 -1 10"), zeros, zeros, "", messages}));
    all.push_back(
        JoinFiles({absl::StrCat(form, " 0 1 4 2 -1 110 10"), zeros, zeros, "", messages}));
    all.push_back(JoinFiles({absl::StrCat(form, " 2"), first_bit, zeros, "", messages}));
    all.push_back(JoinFiles({absl::StrCat(form, " 2 1 4 2 -1 -1 10"), "", "", "", messages}));
  }
  all.push_back(JoinFiles({"4 2 1 4 2", zeros, zeros, "", messages}));
  all.push_back(JoinFiles({"5 2 1 4 2", zeros, zeros, "", messages}));
  return all;
}

std::string MutateEncounter(Mutator& mutator, const std::string& input, const std::string& other) {
  auto files = SplitFiles(input, 5);
  const auto others = SplitFiles(other, 5);
  const size_t k = mutator.Below(files.size());
  if (k == 1 || k == 2) {
    std::string& mask = files[k];
    if (mask.empty()) mask.resize(200);
    mask[mutator.Below(mask.size())] = static_cast<char>(1 << mutator.Below(8));
    if (mutator.Below(4) == 0) mask = mutator.MutateBytes(mask, others[k]);
  } else {
    files[k] = mutator.MutateText(files[k], others[k]);
  }
  return JoinFiles(files);
}

}  // namespace

std::vector<FuzzTarget> EncounterTargets() {
  return {{.name = "encounter",
           .reads = "ranks with the run's key that call and talk to each other, damaged on the way",
           .seeds = Encounters,
           .mutate = MutateEncounter,
           .read = ReadEncounter,
           .inputs = 2'000,
           .refusals = {absl::StatusCode::kUnavailable, absl::StatusCode::kPermissionDenied,
                        absl::StatusCode::kInvalidArgument}}};
}

}  // namespace partita
