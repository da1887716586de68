#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "graph/collective/schedule.h"
#include "graph/task/task_graph.h"
#include "runtime/comm/message_port.h"

namespace partita {

// One rank's side of one run of a collective: rounds of messages over its buffers.
class CollectiveRun {
 public:
  struct Buffers {
    std::span<void* const> send, receive;  // slices
    std::span<const int64_t> starts;       // SliceStarts of the task
    std::vector<char>* scratch = nullptr;  // scratch kept between runs; grows as rounds need it
  };
  // Rank r of the task's group is rank group[r] of the port. What is passed outlives the run.
  CollectiveRun(MessagePort& port, const CollectiveTask& task, int tag, const Buffers& buffers);

  // The rank's rounds, one after the other.
  absl::Status Run(const RankRound& round);

 private:
  using Steps = std::span<const CollectiveStep>;
  int PeerOf(int rank) const { return task_.group[static_cast<size_t>(rank)].value(); }
  static bool Lands(Steps range);
  char* SentAt(int64_t offset) const;
  char* ReceivedAt(int64_t offset) const;
  void ReserveScratch(const RankRound& round);
  char* Take(int64_t bytes);
  void PostSends(const RankRound& round);
  void PostReceives(const RankRound& round);
  void PostReceive(const CollectiveStep& step, bool lands, size_t k);
  void FoldArrivals(const RankRound& round);

  MessagePort& port_;
  const CollectiveTask& task_;
  const int tag_;
  const int64_t size_;  // size of an element in bytes
  const Buffers buffers_;
  int64_t used_ = 0;  // bytes used of the scratch
  std::vector<MessagePort::Message> messages_;
  std::vector<char*> arrivals_;  // address of each receive; null where it came from the rank itself
};

}  // namespace partita
