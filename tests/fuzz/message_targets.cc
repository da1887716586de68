#include <unistd.h>

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "graph/support/status_macros.h"
#include "runtime/comm/tcp/connection.h"
#include "runtime/comm/tcp/handshake.h"
#include "runtime/comm/tcp/tcp_port.h"
#include "runtime/launch/failure_detector.h"
#include "runtime/launch/rank_environment.h"
#include "runtime/launch/watchdog_messages.h"
#include "runtime/support/process_identity.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/sockets.h"
#include "tools/workflow/instruction_records.h"

namespace partita {
namespace {

constexpr int kRanks = 4;
constexpr Call kCall = {.purpose = Purpose::kMessages, .caller = 2, .listener = 1, .ranks = kRanks};

// What a caller sends first, and what a listener answers, each behind a letter that says whose
// bytes they are.
std::vector<std::string> Handshakes() {
  const auto ends = ConnectedSockets();
  Connection caller(ends[0]);
  (void)CallOn(caller, Key(), kCall, kNoWait);
  const std::string hello = BytesAt(ends[1]);
  const int listener_end = SocketWith(hello);
  Handshake handshake(std::make_unique<Connection>(listener_end), Key(), kCall);
  (void)handshake.Advance();
  close(ends[1]);
  const std::string piece(40, 'x');
  return {"c" + hello, "c" + hello + hello, "l" + hello,
          "l" + std::string("\x40\0\0\0", 4) + piece + piece};
}

// 'c': a caller's bytes, which a listener takes; else a listener's, which a caller takes.
absl::Status ReadHandshake(const std::string& input) {
  if (input.empty()) return absl::UnavailableError("no bytes");
  auto connection = std::make_unique<Connection>(SocketWith(input.substr(1)));
  if (input[0] != 'c') {
    const absl::Status status = CallOn(*connection, Key(), kCall, kNoWait);
    Demand(!status.ok(), "a listener without the key is believed");
    return status;
  }
  Handshake handshake(std::move(connection), Key(), kCall);
  bool is_challenged = false;  // the hello is that of a rank
  for (;;) {
    const Handshake::State state = handshake.Advance();
    Demand(state != Handshake::State::kProved, "a caller without the key is believed");
    if (state == Handshake::State::kOtherKey) return absl::PermissionDeniedError("another key");
    if (state == Handshake::State::kBroken) break;
    is_challenged = true;
  }
  return is_challenged ? absl::OkStatus() : absl::UnavailableError("no hello");
}

std::vector<std::string> Conversations() {
  std::vector<std::string> all;
  for (const std::vector<std::string>& messages :
       {std::vector<std::string>{"beat 1 17 3", "bye"},
        {"", "x", "fail 5 a reason"},
        {"alive", "verdict 2 5 1 rank 2 has left", "over"}}) {
    const auto ends = ConnectedSockets();
    {
      Connection sender(ends[0]);
      for (const std::string& message : messages) sender.Send(message);
    }
    all.push_back(BytesAt(ends[1]));
    close(ends[1]);
  }
  return all;
}

// What the watchdog of rank 0 makes of a connection's bytes.
absl::Status ReadWatchdog(const std::string& input) {
  Connection connection(SocketWith(input), 4200);
  FailureDetector detector(kRanks, {}, 0);
  int64_t now = 1;
  bool all_known = true;
  for (;;) {
    const auto messages = connection.Receive();
    if (!messages.ok()) break;
    for (const std::string& text : *messages) {
      const auto message = MessageOf(text, kRanks);
      all_known = all_known && message.has_value();
      if (!message.has_value()) continue;
      const auto again = MessageOf(TextOf(*message), kRanks);
      Demand(again.has_value() && again->index() == message->index(),
             "a message is not read as it was written");
      if (const auto* progress = std::get_if<RankProgress>(&*message)) {
        detector.Observe(1, *progress, ++now);
      } else if (const auto* failed = std::get_if<FailMessage>(&*message)) {
        detector.Failed(1, failed->code, failed->reason, ++now);
      } else if (std::holds_alternative<ByeMessage>(*message)) {
        detector.Left(1);
      }
      (void)detector.Detect(now += 1'000'000'000);
    }
    if (messages->empty()) break;
  }
  detector.Closed(1);
  const auto verdict = detector.Detect(now + 5'000'000'000);
  Demand(!verdict.has_value() || (verdict->rank >= 0 && verdict->rank < kRanks), "no such rank");
  return all_known ? absl::OkStatus() : absl::InvalidArgumentError("no message of a watchdog");
}

constexpr int kTag = 7;

// What a peer sends in one exchange, and what a port that waits for it takes: a text and numbers.
std::vector<std::string> Exchanges() {
  const auto ends = ConnectedSockets();
  const auto port = MakeTcpPort(0, {-1, ends[0]});
  const std::vector<MeasuredInstruction> instructions(
      3, {.task = TaskId(5), .device = DeviceId(0), .start_ns = 10, .end_ns = 20});
  std::string text = WriteInstructions(instructions);
  DemandOk(BroadcastText(*port, 0, text), "a text");
  std::vector<float> numbers(16, 1.5F);
  DemandOk(port->Exchange({{{1, false, numbers.data(), 64}, {1, false, numbers.data(), 64}}}, kTag),
           "numbers");
  const std::string bytes = BytesAt(ends[1]);
  close(ends[1]);
  return {bytes, bytes.substr(0, 40)};
}

absl::Status ReadExchange(const std::string& input) {
  const auto port = MakeTcpPort(1, {SocketWith(input), -1});
  std::string text;
  RETURN_IF_ERROR(BroadcastText(*port, 0, text, 4000));
  RETURN_IF_ERROR(ReadInstructions(text, 0, 50).status());
  std::vector<float> copied(16), summed(16, 1);
  const MessagePort::Message messages[] = {
      {0, true, copied.data(), 64},
      {0, true, summed.data(), 64, MessagePort::Reduce{DType::kFloat32, Reduction::kSum, true}}};
  return port->Exchange(messages, kTag);
}

constexpr int kGathering = 3;  // ranks of a gathering

// What a port sends before a message's bytes.
std::string WithHead(const std::string& bytes) {
  constexpr int64_t kTagOfTexts = 32767;
  return RawBytes(std::ssize(bytes)) + RawBytes(kTagOfTexts) + bytes;
}

// What rank 1 of three gets from ranks 0 and 2 where all tell bytes, then texts; a third part that is
// not empty: they are silent behind that instead of going.
std::vector<std::string> Gatherings() {
  std::vector<std::string> all;
  const std::string long_text(300, 'x');
  for (const auto& [left, right] :
       {std::pair<std::string, std::string>{"rank 0", "rank 2 tells more"}, {long_text, ""}}) {
    std::vector<std::string> files;
    for (const std::string& text : {left, right}) {
      files.push_back(WithHead("12345678") + WithHead(RawBytes(std::ssize(text))) +
                      (text.empty() ? "" : WithHead(text)));
    }
    all.push_back(JoinFiles(files));
    files[0].resize(50);
    all.push_back(JoinFiles({files[0], files[1], "silent"}));
  }
  return all;
}

absl::Status ReadGathering(const std::string& input) {
  const auto files = SplitFiles(input, kGathering);
  const Peer left(files[0], !files[2].empty()), right(files[1], !files[2].empty());
  const auto port = MakeTcpPort(1, {left.socket(), -1, right.socket()});
  port->LimitWaiting(kNoWait);
  const std::string word(8, 'w'), own = "rank 1";
  ASSIGN_OR_RETURN(const auto words, GatherBytes(*port, word));
  ASSIGN_OR_RETURN(const auto texts, GatherTexts(*port, own, 4000));
  Demand(words.size() == kGathering && texts.size() == kGathering, "other ranks than there are");
  Demand(words[1] == word && texts[1] == own, "what a rank told itself is another text");
  for (int rank = 0; rank < kGathering; ++rank) {
    const auto k = static_cast<size_t>(rank);
    Demand(words[k].size() == word.size() && texts[k].size() <= 4000, "a text over the limit");
  }
  std::string text = texts[0];
  RETURN_IF_ERROR(BroadcastText(*port, 1, text));
  port->Abort(absl::UnavailableError("the end"));
  Demand(!GatherBytes(*port, word).ok(), "an exchange behind the end");
  return absl::OkStatus();
}

std::vector<std::string> Environments() {
  return {"OMPI_COMM_WORLD_RANK=1\nOMPI_COMM_WORLD_SIZE=4\nOMPI_COMM_WORLD_LOCAL_SIZE=2",
          "RANK=3\nWORLD_SIZE=4\nMASTER_ADDR=host\nMASTER_PORT=29500\nLOCAL_WORLD_SIZE=4",
          "PMI_RANK=0\nPMI_SIZE=2", absl::StrCat("PARTITA_KEY=", std::string(64, 'b')),
          absl::StrCat("PARTITA_KEY=", std::string(32, 'z'), "\nPROCESS=", ThisProcess().ToText())};
}

// Lines NAME=VALUE: the variables of a launcher, a key, and the identity of a process.
absl::Status ReadEnvironment(const std::string& input) {
  std::map<std::string, std::string> variables;
  for (const absl::string_view line : absl::StrSplit(input, '\n')) {
    const std::pair<std::string, std::string> named = absl::StrSplit(line, absl::MaxSplits('=', 1));
    variables.insert(named);
  }
  if (const auto process = ProcessIdentity::FromText(variables["PROCESS"])) {
    Demand(ProcessIdentity::FromText(process->ToText()) == process,
           "a process of another identity");
  }
  const auto environment = ReadRankEnvironment([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
  RETURN_IF_ERROR(environment.status());
  if (environment->has_value()) {
    Demand((*environment)->size > 1 && (*environment)->rank >= 0 &&
               (*environment)->rank < (*environment)->size,
           "a rank beyond the ranks");
  }
  const auto key = variables.find("PARTITA_KEY");
  return key == variables.end() ? absl::OkStatus() : RunKey::FromSecret(key->second).status();
}

}  // namespace

std::vector<FuzzTarget> MessageTargets() {
  const auto kUnavailable = absl::StatusCode::kUnavailable;
  const auto kInternal = absl::StatusCode::kInternal;
  const auto kInvalid = absl::StatusCode::kInvalidArgument;
  return {{.name = "handshake",
           .reads = "handshakes of ranks, without the run's key",
           .seeds = Handshakes,
           .mutate = MutateAsBytes,
           .read = ReadHandshake,
           .inputs = 10'000,
           .refusals = {kUnavailable, absl::StatusCode::kPermissionDenied}},
          {.name = "watchdog",
           .reads = "messages between watchdogs",
           .seeds = Conversations,
           .mutate = MutateAsBytes,
           .read = ReadWatchdog,
           .inputs = 10'000},
          {.name = "exchange",
           .reads = "messages between ranks, over sockets",
           .seeds = Exchanges,
           .mutate = MutateAsBytes,
           .read = ReadExchange,
           .inputs = 10'000,
           .refusals = {kUnavailable, kInternal}},
          {.name = "gathering",
           .reads = "texts that all ranks tell each other, over sockets",
           .seeds = Gatherings,
           .mutate = MutateAsBytes,
           .read = ReadGathering,
           .inputs = 5'000,
           .refusals = {kUnavailable, kInternal}},
          {.name = "environment",
           .reads = "what launchers tell a rank, keys",
           .seeds = Environments,
           .mutate = MutateAsText,
           .read = ReadEnvironment,
           .inputs = 10'000,
           .refusals = {kInvalid}}};
}

}  // namespace partita
