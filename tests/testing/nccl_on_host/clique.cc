#include "tests/testing/nccl_on_host/clique.h"

#include <algorithm>
#include <map>
#include <utility>

namespace partita::nccl_on_host {
namespace {

using Kind = Operation::Kind;

std::chrono::steady_clock::time_point In(double seconds) {
  return std::chrono::steady_clock::now() +
         std::chrono::duration_cast<std::chrono::steady_clock::duration>(
             std::chrono::duration<double>(seconds));
}

std::string Listed(const std::set<int>& ranks) {
  std::string text;
  for (int rank : ranks) text += (text.empty() ? "rank " : ", rank ") + std::to_string(rank);
  return text;
}

std::string Seconds(double seconds) {
  std::string text = std::to_string(seconds);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text + " seconds";
}

}  // namespace

Clique::Clique(int ranks, const Elements& elements)
    : ranks_(ranks),
      elements_(elements),
      joined_(static_cast<size_t>(ranks)),
      destroyed_(static_cast<size_t>(ranks)),
      open_(static_cast<size_t>(ranks)),
      collectives_(static_cast<size_t>(ranks)),
      split_(static_cast<size_t>(ranks)),
      since_(static_cast<size_t>(ranks)) {}

Failure Clique::Join(int rank, int ranks) {
  std::lock_guard lock(mutex_);
  if (failure_) return failure_;
  if (ranks != ranks_) {
    FailLocked({ncclInvalidArgument, "the number of ranks differs: " + std::to_string(ranks_) +
                                         ", and for rank " + std::to_string(rank) + " " +
                                         std::to_string(ranks)});
  } else if (joined_[static_cast<size_t>(rank)]) {
    FailLocked({ncclInvalidUsage, "rank " + std::to_string(rank) + " joins twice"});
  }
  if (failure_) return failure_;
  joined_[static_cast<size_t>(rank)] = true;
  changed_.notify_all();
  return {};
}

bool Clique::connected() const {
  std::lock_guard lock(mutex_);
  return std::all_of(joined_.begin(), joined_.end(), [](bool joined) { return joined; });
}

Failure Clique::failure() const {
  std::lock_guard lock(mutex_);
  return failure_;
}

Failure Clique::AwaitConnection(double limit_seconds) {
  std::unique_lock lock(mutex_);
  const auto missing = [this] {
    std::set<int> ranks;
    for (int r = 0; r < ranks_; ++r) {
      if (!joined_[static_cast<size_t>(r)]) ranks.insert(r);
    }
    return ranks;
  };
  if (!changed_.wait_until(lock, In(limit_seconds),
                           [&] { return failure_ || missing().empty(); })) {
    FailLocked({ncclSystemError, Listed(missing()) + " of " + std::to_string(ranks_) +
                                     " did not connect within " + Seconds(limit_seconds)});
  }
  return failure_;
}

Failure Clique::Post(int rank, const std::vector<Operation>& operations) {
  std::lock_guard lock(mutex_);
  if (failure_) return failure_;
  Failure failure = CheckPost(rank, operations);
  since_[static_cast<size_t>(rank)] = std::chrono::steady_clock::now();
  for (size_t k = 0; k < operations.size() && !failure; ++k) {
    failure = operations[k].between_two() ? PostBetweenTwo(rank, operations[k])
                                          : PostCollective(rank, operations[k]);
  }
  if (!failure) failure = FindHopeless();
  if (failure) FailLocked(failure);
  changed_.notify_all();
  return failure_;
}

Failure Clique::CheckPost(int rank, const std::vector<Operation>& operations) const {
  const std::string who = "rank " + std::to_string(rank);
  if (destroyed_[static_cast<size_t>(rank)]) return {ncclInvalidUsage, who + " was destroyed"};
  if (!open_[static_cast<size_t>(rank)].empty()) {
    return {ncclInvalidUsage, "two threads at once use " + who + ", or one that did not wait"};
  }
  if (split_[static_cast<size_t>(rank)].has_value()) {
    return {ncclInvalidUsage, who + " makes calls before its split is done"};
  }
  int to_itself = 0;
  for (const Operation& o : operations) {
    if (Failure failure = CheckCall(o, rank, ranks_)) return failure;
    if (o.between_two() && o.peer == rank) to_itself += o.kind == Kind::kSend ? 1 : -1;
  }
  if (to_itself == 0) return {};
  return {ncclInvalidUsage,
          who + " sends to itself and receives from itself a different number of times in a group"};
}

Failure Clique::PostCollective(int rank, const Operation& operation) {
  if (operation.count == 0) return {};  // as NCCL: nothing happens, nobody waits
  const int64_t number = collectives_[static_cast<size_t>(rank)]++;
  while (first_ + static_cast<int64_t>(meetings_.size()) <= number) {
    meetings_.push_back({std::vector<const Operation*>(static_cast<size_t>(ranks_)), 0});
  }
  Meeting& meeting = meetings_[static_cast<size_t>(number - first_)];
  for (int r = 0; r < ranks_; ++r) {
    const Operation* other = meeting.calls[static_cast<size_t>(r)];
    if (other == nullptr) continue;
    if (Failure failure = CompareCalls(*other, r, operation, rank)) {
      failure.what = "collective " + std::to_string(number) + ": " + failure.what;
      return failure;
    }
    break;
  }
  auto& own = open_[static_cast<size_t>(rank)];
  own.push_back({operation, number});
  meeting.calls[static_cast<size_t>(rank)] = &own.back().operation;
  if (++meeting.arrived == ranks_) {
    Run(meeting);
    Close(number);
  }
  return {};
}

// A collective is done. Ranks call in order, so the first one is done first.
void Clique::Close(int64_t number) {
  for (auto& open : open_) {
    open.remove_if([number](const Open& one) { return one.number == number; });
  }
  meetings_.pop_front();
  ++first_;
}

Failure Clique::PostBetweenTwo(int rank, const Operation& operation) {
  const bool sends = operation.kind == Kind::kSend;
  auto& others = open_[static_cast<size_t>(operation.peer)];
  const auto it = std::find_if(others.begin(), others.end(), [&](const Open& one) {
    return one.operation.kind == (sends ? Kind::kReceive : Kind::kSend) &&
           one.operation.peer == rank;
  });
  if (it == others.end()) {
    open_[static_cast<size_t>(rank)].push_back({operation});
    return {};
  }
  const Operation& send = sends ? operation : it->operation;
  const Operation& receive = sends ? it->operation : operation;
  if (send.count != receive.count || send.type != receive.type) {
    return {ncclInvalidArgument,
            std::string(send.count != receive.count ? "the count" : "the type") +
                " differs: rank " + std::to_string(receive.peer) + " calls " + ToString(send) +
                ", rank " + std::to_string(send.peer) + " " + ToString(receive)};
  }
  elements_.Copy(receive.receive, send.send, send.count * BytesOf(send.type));
  others.erase(it);
  return {};
}

void Clique::Run(const Meeting& meeting) const {
  const Operation& o = *meeting.calls[0];
  const size_t bytes = o.count * BytesOf(o.type);
  const auto n = static_cast<size_t>(ranks_);
  // The values of all ranks, from `offset` on.
  const auto fold = [&](size_t offset, void* into) {
    std::vector<const void*> values;
    for (const Operation* call : meeting.calls) {
      values.push_back(static_cast<const char*>(call->send) + offset);
    }
    elements_.Fold(o.type, o.op, values, into, o.count);
  };
  switch (o.kind) {
    case Kind::kAllReduce:
      fold(0, o.receive);
      for (const Operation* call : meeting.calls) elements_.Copy(call->receive, o.receive, bytes);
      return;
    case Kind::kReduceScatter:
      for (size_t r = 0; r < n; ++r) fold(r * bytes, meeting.calls[r]->receive);
      return;
    case Kind::kAllGather:
      for (size_t from = 0; from < n; ++from) {
        for (const Operation* call : meeting.calls) {
          elements_.Copy(static_cast<char*>(call->receive) + from * bytes,
                         meeting.calls[from]->send, bytes);
        }
      }
      return;
    case Kind::kBroadcast:
      for (const Operation* call : meeting.calls) {
        elements_.Copy(call->receive, meeting.calls[static_cast<size_t>(o.peer)]->send, bytes);
      }
      return;
    case Kind::kReduce:
      fold(0, meeting.calls[static_cast<size_t>(o.peer)]->receive);
      return;
    case Kind::kSend:
    case Kind::kReceive:
      return;
  }
}

Failure Clique::Await(int rank, double limit_seconds) {
  std::unique_lock lock(mutex_);
  const auto& open = open_[static_cast<size_t>(rank)];
  const auto& split = split_[static_cast<size_t>(rank)];
  if (changed_.wait_until(lock, In(limit_seconds),
                          [&] { return failure_ || (open.empty() && !split.has_value()); })) {
    return failure_;
  }
  return FailMissing(rank, limit_seconds);
}

Failure Clique::State(int rank, double limit_seconds) {
  std::lock_guard lock(mutex_);
  if (failure_) return failure_;
  if (!std::all_of(joined_.begin(), joined_.end(), [](bool joined) { return joined; })) {
    return {ncclInProgress, "connecting"};
  }
  const auto index = static_cast<size_t>(rank);
  if (open_[index].empty() && !split_[index].has_value()) return {};
  const auto waited = std::chrono::steady_clock::now() - since_[index];
  if (std::chrono::duration<double>(waited).count() > limit_seconds) {
    return FailMissing(rank, limit_seconds);
  }
  return {ncclInProgress, Waiting()};
}

Failure Clique::FailMissing(int rank, double limit_seconds) {
  FailLocked({ncclSystemError, Listed(WaitsFor(rank)) + " missing for " + Seconds(limit_seconds) +
                                   ": " + Waiting()});
  return failure_;
}

Failure Clique::PostSplit(int rank, SplitPart part) {
  std::lock_guard lock(mutex_);
  if (failure_) return failure_;
  Failure failure = CheckPost(rank, {});
  if (!failure && part.color < NCCL_SPLIT_NOCOLOR) {
    failure = {ncclInvalidArgument, "rank " + std::to_string(rank) + " splits with the color " +
                                        std::to_string(part.color)};
  }
  if (failure) FailLocked(failure);
  if (failure_) return failure_;
  since_[static_cast<size_t>(rank)] = std::chrono::steady_clock::now();
  split_[static_cast<size_t>(rank)] = std::move(part);
  if (std::all_of(split_.begin(), split_.end(), [](const auto& one) { return one.has_value(); })) {
    Split();
  }
  changed_.notify_all();
  return {};
}

// Ranks of one color, ordered by key and then by rank.
void Clique::Split() {
  std::map<int, std::vector<std::pair<int, int>>> parts;  // by color: key and rank
  for (int r = 0; r < ranks_; ++r) {
    const SplitPart& part = *split_[static_cast<size_t>(r)];
    parts[part.color].emplace_back(part.key, r);
  }
  for (auto& [color, members] : parts) {
    std::sort(members.begin(), members.end());
    const int size = static_cast<int>(members.size());
    const auto clique = color < 0 ? nullptr : std::make_shared<Clique>(size, elements_);
    for (int k = 0; k < size; ++k) {
      if (clique != nullptr) clique->Join(k, size);
      split_[static_cast<size_t>(members[static_cast<size_t>(k)].second)]->take(clique, k);
    }
  }
  for (auto& one : split_) one.reset();
}

void Clique::Destroy(int rank) {
  std::lock_guard lock(mutex_);
  destroyed_[static_cast<size_t>(rank)] = true;
  if (Failure failure = FindHopeless()) FailLocked(failure);
}

void Clique::Abort(int rank) {
  Fail({ncclRemoteError, "rank " + std::to_string(rank) + " was aborted"});
}

void Clique::Fail(const Failure& failure) {
  std::lock_guard lock(mutex_);
  FailLocked(failure);
}

void Clique::FailLocked(const Failure& failure) {
  if (failure_) return;
  failure_ = failure;
  for (auto& open : open_) open.clear();
  for (auto& split : split_) split.reset();
  meetings_.clear();
  changed_.notify_all();
}

std::set<int> Clique::WaitsFor(int rank) const {
  std::set<int> ranks;
  for (int r = 0; r < ranks_ && split_[static_cast<size_t>(rank)].has_value(); ++r) {
    if (!split_[static_cast<size_t>(r)].has_value()) ranks.insert(r);
  }
  for (const Open& open : open_[static_cast<size_t>(rank)]) {
    if (open.operation.between_two()) {
      ranks.insert(open.operation.peer);
      continue;
    }
    const Meeting& meeting = meetings_[static_cast<size_t>(open.number - first_)];
    for (int r = 0; r < ranks_; ++r) {
      if (meeting.calls[static_cast<size_t>(r)] == nullptr) ranks.insert(r);
    }
  }
  return ranks;
}

// A rank can go on if it waits for nobody, or only for ranks that can.
Failure Clique::FindHopeless() const {
  std::set<int> going;
  for (bool grown = true; grown;) {
    grown = false;
    for (int r = 0; r < ranks_; ++r) {
      if (going.count(r) > 0 || destroyed_[static_cast<size_t>(r)]) continue;
      const std::set<int> others = WaitsFor(r);
      if (!std::includes(going.begin(), going.end(), others.begin(), others.end())) continue;
      going.insert(r);
      grown = true;
    }
  }
  for (int r = 0; r < ranks_; ++r) {
    if (going.count(r) > 0 || open_[static_cast<size_t>(r)].empty()) continue;
    for (int other : WaitsFor(r)) {
      if (!destroyed_[static_cast<size_t>(other)]) continue;
      return {ncclRemoteError, "rank " + std::to_string(other) + " was destroyed: " + Waiting()};
    }
    return {ncclInvalidUsage,
            "ranks wait for each other, the order of calls differs: " + Waiting()};
  }
  return {};
}

// "rank 0 in ncclAllReduce of 12 ncclFloat32 with ncclSum, rank 1 in ...".
std::string Clique::Waiting() const {
  std::string text;
  for (int r = 0; r < ranks_; ++r) {
    const auto& open = open_[static_cast<size_t>(r)];
    const bool splits = split_[static_cast<size_t>(r)].has_value();
    if (open.empty() && !splits) continue;
    text += (text.empty() ? "rank " : ", rank ") + std::to_string(r) + " is in " +
            (splits ? "ncclCommSplit" : ToString(open.front().operation));
  }
  return text;
}

}  // namespace partita::nccl_on_host
