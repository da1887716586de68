#include "runtime/comm/collective_run.h"

#include <cstring>

#include "graph/support/status_macros.h"
#include "runtime/comm/fold.h"
#include "runtime/comm/slices.h"

namespace partita {

CollectiveRun::CollectiveRun(MessagePort& port, const CollectiveTask& task, int tag,
                             const Buffers& buffers)
    : port_(port), task_(task), tag_(tag), size_(SizeOf(task.dtype)), buffers_(buffers) {}

absl::Status CollectiveRun::Run(const RankRound& round) {
  messages_.clear();
  ReserveScratch(round);
  PostSends(round);
  PostReceives(round);
  RETURN_IF_ERROR(port_.Exchange(messages_, tag_));
  FoldArrivals(round);
  return absl::OkStatus();
}

char* CollectiveRun::SentAt(int64_t offset) const {
  return ElementAt(buffers_.send, buffers_.starts, offset, size_);
}

char* CollectiveRun::ReceivedAt(int64_t offset) const {
  return ElementAt(buffers_.receive, buffers_.starts, offset, size_);
}

// Whether what arrives for a range goes there at once: a copy, or one value to combine with.
bool CollectiveRun::Lands(Steps range) {
  return range[0].action == StepAction::kCopy || range.size() == 1;
}

// Room for what has to be kept apart: what is sent while it is overwritten, what is to be folded.
void CollectiveRun::ReserveScratch(const RankRound& round) {
  int64_t elements = 0;
  for (const CollectiveStep& step : round.sends) elements += round.sends_snapshot ? step.count : 0;
  ForEachRange(round.receives, [&](Steps range, size_t) {
    elements += Lands(range) ? 0 : range[0].count * static_cast<int64_t>(range.size());
  });
  const auto bytes = static_cast<size_t>(elements * size_);
  if (buffers_.scratch->size() < bytes) buffers_.scratch->resize(bytes);
  used_ = 0;
}

char* CollectiveRun::Take(int64_t bytes) {
  char* data = buffers_.scratch->data() + used_;
  used_ += bytes;
  return data;
}

void CollectiveRun::PostSends(const RankRound& round) {
  for (const CollectiveStep& step : round.sends) {
    const int64_t bytes = step.count * size_;
    char* data = SentAt(step.source_offset);
    if (step.from == step.to) {
      std::memcpy(ReceivedAt(step.destination_offset), data, static_cast<size_t>(bytes));
      continue;
    }
    if (round.sends_snapshot) {
      data = static_cast<char*>(std::memcpy(Take(bytes), data, static_cast<size_t>(bytes)));
    }
    messages_.push_back({PeerOf(step.to), false, data, bytes});
  }
}

// A peer's messages come in ascending order of offsets, as it sends them.
void CollectiveRun::PostReceives(const RankRound& round) {
  arrivals_.assign(round.receives.size(), nullptr);
  ForEachRange(round.receives, [&](Steps range, size_t first) {
    for (size_t k = 0; k < range.size(); ++k) PostReceive(range[k], Lands(range), first + k);
  });
}

void CollectiveRun::PostReceive(const CollectiveStep& step, bool lands, size_t k) {
  if (step.from == step.to) return;
  const int64_t bytes = step.count * size_;
  arrivals_[k] = lands ? ReceivedAt(step.destination_offset) : Take(bytes);
  MessagePort::Message message{PeerOf(step.from), true, arrivals_[k], bytes};
  if (lands && step.action == StepAction::kReduce) {
    message.reduce = {task_.dtype, task_.collective.reduction, step.to < step.from};
  }
  messages_.push_back(message);
}

void CollectiveRun::FoldArrivals(const RankRound& round) {
  ForEachRange(round.receives, [&](Steps range, size_t first) {
    if (Lands(range)) return;
    char* own = ReceivedAt(range[0].destination_offset);
    const auto values =
        ValuesInOrder(range, own, [&](size_t k) -> const void* { return arrivals_[first + k]; });
    Fold({task_.dtype, task_.collective.reduction}, values, own, range[0].count);
  });
}

}  // namespace partita
