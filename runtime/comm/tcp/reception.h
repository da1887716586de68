#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/comm/tcp/connection.h"
#include "runtime/comm/tcp/handshake.h"
#include "runtime/support/run_key.h"

namespace partita {

// Accepts connections from callers that have the run's key, and no others. All handshakes run
// concurrently: a silent caller delays no other and is closed after kStrangerSeconds. If there are
// more than kMostStrangers at a time, the oldest is closed once it has had kUndisturbedSeconds,
// which suffice for a rank's handshake; until then further callers wait in the listener's queue.
// None takes memory but for a short message. One thread.
class Reception {
 public:
  static constexpr size_t kMostStrangers = 64;
  static constexpr double kStrangerSeconds = 5, kUndisturbedSeconds = 0.1;

  struct Options {
    Call own;  // pattern of the calls that it takes: purpose, listener, number of ranks
    // Reason to refuse a rank, called once for each caller that has the key; empty: it is accepted.
    // Empty function: all are.
    std::function<std::string(int rank)> refusal;
    // The listener's callers, of this user, have no key yet: it is sent to them.
    bool gives_key = false;
  };
  Reception(std::unique_ptr<Listener> listener, RunKey key, Options options);

  struct Guest {
    int rank = 0;
    std::unique_ptr<Connection> connection;
  };
  // Connections that were accepted since; waits for the first caller that makes progress, at most
  // so long.
  std::vector<Guest> Receive(int milliseconds);

  const Listener& listener() const { return *listener_; }
  size_t strangers() const { return strangers_.size(); }
  // Text for people on refused callers: "; 2 with another key were turned away"; empty if there are
  // none.
  std::string TurnedAway() const;

 private:
  struct Stranger {
    std::unique_ptr<Handshake> handshake;  // null: gone
    int64_t since = 0;
  };

  bool HasRoom(int64_t now) const;
  void TakeIn(int64_t now);
  std::unique_ptr<Connection> Hear(Stranger& stranger, int64_t now);
  std::string RefusalOf(const Call& call) const;

  const std::unique_ptr<Listener> listener_;
  const RunKey key_;
  const Options options_;
  std::vector<Stranger> strangers_;  // connections not yet proved, in the order of arrival
  int other_keys_ = 0, others_ = 0;
};

}  // namespace partita
