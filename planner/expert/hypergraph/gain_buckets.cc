#include "planner/expert/hypergraph/gain_buckets.h"

#include <algorithm>

namespace partita {
namespace {

constexpr int64_t kRanges = 4096;

}  // namespace

GainBuckets::GainBuckets(int32_t vertices, int64_t most)
    : most_(most),
      width_(std::max<int64_t>(1, (2 * most + kRanges - 1) / kRanges)),
      head_(static_cast<size_t>(2 * most / width_ + 1), kNone),
      next_(Index(vertices), kNone),
      prev_(Index(vertices), kNone),
      bucket_(Index(vertices), kNone) {}

int32_t GainBuckets::Best() {
  while (head_[Index(highest_)] == kNone) --highest_;
  return head_[Index(highest_)];
}

void GainBuckets::Insert(int32_t vertex, int64_t gain) {
  const auto bucket = static_cast<int32_t>((gain + most_) / width_);
  int32_t& head = head_[Index(bucket)];
  bucket_[Index(vertex)] = bucket;
  next_[Index(vertex)] = head;
  prev_[Index(vertex)] = kNone;
  if (head != kNone) prev_[Index(head)] = vertex;
  head = vertex;
  highest_ = std::max(highest_, bucket);
  ++count_;
}

void GainBuckets::Remove(int32_t vertex) {
  const int32_t next = next_[Index(vertex)], prev = prev_[Index(vertex)];
  if (prev != kNone) {
    next_[Index(prev)] = next;
  } else {
    head_[Index(bucket_[Index(vertex)])] = next;
  }
  if (next != kNone) prev_[Index(next)] = prev;
  bucket_[Index(vertex)] = kNone;
  --count_;
}

// Without vertices all lists are empty already.
void GainBuckets::Clear() {
  highest_ = kNone;
  if (count_ == 0) return;
  std::fill(head_.begin(), head_.end(), kNone);
  std::fill(bucket_.begin(), bucket_.end(), kNone);
  count_ = 0;
}

}  // namespace partita
