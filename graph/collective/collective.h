#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "graph/reduction.h"

namespace partita {

// Result that a collective leaves on each rank of a group, independent of the algorithm. Ranks are
// positions in an ordered group, 0 .. ranks-1; elements have no type here, counts and offsets are
// in elements.
//
// Two more collectives are special cases, not kinds:
//   broadcast = all-gather in which only the root's block is non-empty,
//   reduce    = reduce-scatter in which only the root's block is non-empty.
enum class CollectiveKind {
  // Every rank contributes `total` elements and receives the reduction of all contributions.
  kAllReduce,
  // Every rank contributes `total` elements; rank r receives the reduction of block r.
  kReduceScatter,
  // Rank r contributes block r; every rank receives all blocks.
  kAllGather,
  // Rank s sends counts[s][d] elements to rank d.
  kAllToAll,
};
inline constexpr CollectiveKind kCollectiveKinds[] = {
    CollectiveKind::kAllReduce, CollectiveKind::kReduceScatter, CollectiveKind::kAllGather,
    CollectiveKind::kAllToAll};

// "all_reduce", "reduce_scatter", "all_gather", "all_to_all".
const char* Name(CollectiveKind kind);

// The elements [offset, offset + count).
struct ElementRange {
  int64_t offset = 0;
  int64_t count = 0;
  int64_t end() const { return offset + count; }
  friend bool operator==(const ElementRange&, const ElementRange&) = default;
};

// One collective. Make it with the functions below; what comes from outside goes through Validate.
//
// Buffers. All-reduce, reduce-scatter and all-gather work in place, each rank on one buffer of
// `total` elements with every block at its own offset. Before an all-gather only the rank's own
// block is defined; after a reduce-scatter only the rank's own block is (the rest is overwritten).
// All-to-all has two buffers per rank: what it sends, ordered by destination, and what it receives,
// ordered by source, both without gaps.
struct Collective {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  int ranks = 1;
  // Elements in the buffer of one rank; 0 for all-to-all.
  int64_t total = 0;
  Reduction reduction = Reduction::kSum;
  // Reduce-scatter and all-gather: one block per rank, contiguous in rank order from 0 to total;
  // sizes may differ and be 0. Otherwise empty.
  std::vector<ElementRange> blocks;
  // All-to-all: counts[source][destination]. Otherwise empty.
  std::vector<std::vector<int64_t>> counts;

  friend bool operator==(const Collective&, const Collective&) = default;
};

Collective MakeAllReduce(int ranks, int64_t total, Reduction reduction = Reduction::kSum);
// block_counts[r] is the number of elements in the block of rank r.
Collective MakeReduceScatter(const std::vector<int64_t>& block_counts,
                             Reduction reduction = Reduction::kSum);
Collective MakeAllGather(const std::vector<int64_t>& block_counts);
Collective MakeAllToAll(std::vector<std::vector<int64_t>> counts);
Collective MakeBroadcast(int ranks, int root, int64_t total);
Collective MakeReduce(int ranks, int root, int64_t total, Reduction reduction = Reduction::kSum);

// InvalidArgument with the first field that breaks the contract of Collective.
absl::Status Validate(const Collective& collective);

// Blocks of the given sizes, one after another from 0.
std::vector<ElementRange> ContiguousBlocks(const std::vector<int64_t>& counts);
// Block k of `parts` is [k*total/parts, (k+1)*total/parts): sizes differ by at most one.
std::vector<ElementRange> EvenBlocks(int64_t total, int parts);
// Whether all have as many elements.
bool AreOfOneSize(std::span<const ElementRange> blocks);

// Elements in the buffer that a rank reads, and in the one that it writes (in place: the same one).
int64_t SendElements(const Collective& collective, int rank);
int64_t ReceiveElements(const Collective& collective, int rank);

// All-to-all: where in the source's send buffer the elements for `destination` start, and where in
// the destination's receive buffer they go.
int64_t SendOffset(const Collective& collective, int source, int destination);
int64_t ReceiveOffset(const Collective& collective, int source, int destination);

// The root if this is a broadcast or a reduce of at least one element between at least two ranks.
std::optional<int> RootOf(const Collective& collective);

// nccl-tests (doc/PERFORMANCE.md): busbw = factor * algbw, algbw = bytes / time, where bytes is
// `total` (for all-to-all what one rank sends) times the element size. 2(n-1)/n for all-reduce;
// (n-1)/n for reduce-scatter, all-gather and all-to-all; 1 for broadcast and reduce. One rank: 0,
// nothing moves.
double BusBandwidthFactor(CollectiveKind kind, int ranks);
double BusBandwidthFactor(const Collective& collective);

// "all_reduce of 12 elements between 4 ranks, sum", for messages.
std::string ToString(const Collective& collective);

}  // namespace partita
