#pragma once

#include <cstdint>
#include <vector>

#include "graph/partition/fragment.h"

namespace partita {

// Bytes that parts of a step take of the heap, besides themselves (graph/support/heap_bytes.h).
int64_t HeapBytesOf(const OperatorFragment& fragment);
int64_t HeapBytesOf(const TensorFragment& fragment);
int64_t HeapBytesOf(const BucketFragment& fragment);
int64_t HeapBytesOf(const Fragment& fragment);  // of a persistent tensor's buffers
// All but the fragments themselves.
int64_t HeapBytesOf(const TensorFragments& fragments);
int64_t HeapBytesOf(const std::vector<std::vector<Part>>& parts);
int64_t HeapBytesOf(const WeightLayouts& layouts);

// Bytes that an entry of a hash table takes on average besides what it holds: tables are five eighths
// full.
template <class Slot>
constexpr int64_t kBytesOfSlot = (static_cast<int64_t>(sizeof(Slot)) + 1) * 8 / 5;

}  // namespace partita
