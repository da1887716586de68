#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/comm/message_port.h"
#include "runtime/launch/failure_detector.h"
#include "runtime/support/run_key.h"

namespace partita {

// Watches the processes of one run: over TCP connections of its own to rank 0, so that it goes on
// when MPI hangs. A rank that is killed, stopped, hangs, or reports that it has failed, is named,
// and all ranks end. If it is rank 0 that falls silent, the others see it by themselves.
struct WatchdogOptions {
  FailureDetectorOptions detector;
  // Callback with the verdict, called once on every rank, on the watchdog's thread. Without it,
  // where all ranks have failed in the same way they are left to end by themselves; else every
  // process exits at once with the verdict's code, and one that is not at fault prints the reason.
  std::function<void(const Verdict&)> on_verdict;
  // Exit code of processes for a verdict's code; empty: that code.
  std::function<int(int)> exit_code;
  // Prints the verdict's reason, or returns false: then it goes to stderr. Empty: it does.
  std::function<bool(const std::string&)> tell;
};

class Watchdog {
 public:
  // Collective: all ranks call it; `port` is used before it returns only. The connections begin
  // with a handshake over the run's key, and are of loopback where all ranks are of one host.
  // Unavailable where a rank cannot reach rank 0.
  static absl::StatusOr<std::unique_ptr<Watchdog>> Join(MessagePort& port, const RunKey& key,
                                                        WatchdogOptions options);
  // Leaves, if that was not done.
  virtual ~Watchdog() = default;

  // Sets the source of this rank's progress, called four times a second, by another thread, until
  // it is replaced. Empty: the rank prepares.
  virtual void Watch(std::function<RankProgress()> progress) = 0;

  // Reports that this rank has failed. Waits until the run is judged, and returns the verdict's
  // code.
  virtual int Fail(int code, const std::string& reason) = 0;

  // Reports that this rank has ended its work. Returns once all have, or the run is judged.
  virtual void Leave() = 0;
};

}  // namespace partita
