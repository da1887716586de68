#include "graph/collective/collective.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/support/check.h"
#include "graph/support/status_macros.h"

namespace partita {
namespace {

bool HasBlocks(CollectiveKind kind) {
  return kind == CollectiveKind::kReduceScatter || kind == CollectiveKind::kAllGather;
}

absl::Status ValidateBlocks(const Collective& c) {
  if (!HasBlocks(c.kind)) {
    if (c.blocks.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(Name(c.kind), " has no blocks, but ", c.blocks.size(), " are given"));
  }
  if (static_cast<int>(c.blocks.size()) != c.ranks) {
    return absl::InvalidArgumentError(absl::StrCat(Name(c.kind), " between ", c.ranks,
                                                   " ranks needs one block per rank, but ",
                                                   c.blocks.size(), " are given"));
  }
  int64_t offset = 0;
  for (int rank = 0; rank < c.ranks; ++rank) {
    const ElementRange& block = c.blocks[rank];
    if (block.offset != offset || block.count < 0 || block.count > c.total - offset) {
      return absl::InvalidArgumentError(
          absl::StrCat("block of rank ", rank, " is ", block.count, " elements from ", block.offset,
                       "; wanted 0 to ", c.total - offset, " elements from ", offset));
    }
    offset += block.count;
  }
  if (offset == c.total) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("blocks have ", offset, " elements together, wanted ", c.total));
}

// Adds to each sum without overflow.
absl::Status AddCounts(const std::vector<int64_t>& row, int source, int64_t& sent,
                       std::vector<int64_t>& received) {
  for (size_t d = 0; d < row.size(); ++d) {
    if (row[d] >= 0 && !__builtin_add_overflow(sent, row[d], &sent) &&
        !__builtin_add_overflow(received[d], row[d], &received[d])) {
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat("count from rank ", source, " to rank ", d,
                                                   " is ", row[d],
                                                   "; wanted at least 0 and 64-bit sums"));
  }
  return absl::OkStatus();
}

absl::Status ValidateCounts(const Collective& c) {
  if (c.kind != CollectiveKind::kAllToAll) {
    if (c.counts.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(Name(c.kind), " has no table of counts"));
  }
  if (c.total != 0) return absl::InvalidArgumentError("all_to_all has no total, wanted 0");
  if (static_cast<int>(c.counts.size()) != c.ranks) {
    return absl::InvalidArgumentError(absl::StrCat("all_to_all between ", c.ranks, " ranks has ",
                                                   c.counts.size(), " rows of counts"));
  }
  std::vector<int64_t> received(c.ranks, 0);
  for (int source = 0; source < c.ranks; ++source) {
    if (static_cast<int>(c.counts[source].size()) != c.ranks) {
      return absl::InvalidArgumentError(absl::StrCat("all_to_all between ", c.ranks, " ranks: row ",
                                                     source, " has ", c.counts[source].size(),
                                                     " counts"));
    }
    int64_t sent = 0;
    RETURN_IF_ERROR(AddCounts(c.counts[source], source, sent, received));
  }
  return absl::OkStatus();
}

Collective OverBlocks(CollectiveKind kind, const std::vector<int64_t>& block_counts) {
  Collective c;
  c.kind = kind;
  c.ranks = static_cast<int>(block_counts.size());
  c.blocks = ContiguousBlocks(block_counts);
  c.total = c.blocks.empty() ? 0 : c.blocks.back().end();
  return c;
}

std::vector<int64_t> OnlyRoot(int ranks, int root, int64_t total) {
  CHECK(0 <= root && root < ranks) << "root " << root << " of " << ranks << " ranks";
  std::vector<int64_t> counts(ranks, 0);
  counts[root] = total;
  return counts;
}

}  // namespace

const char* Name(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return "all_reduce";
    case CollectiveKind::kReduceScatter:
      return "reduce_scatter";
    case CollectiveKind::kAllGather:
      return "all_gather";
    case CollectiveKind::kAllToAll:
      return "all_to_all";
  }
  CHECK(false) << "kind " << static_cast<int>(kind);
}

Collective MakeAllReduce(int ranks, int64_t total, Reduction reduction) {
  Collective c;
  c.kind = CollectiveKind::kAllReduce;
  c.ranks = ranks;
  c.total = total;
  c.reduction = reduction;
  return c;
}

Collective MakeReduceScatter(const std::vector<int64_t>& block_counts, Reduction reduction) {
  Collective c = OverBlocks(CollectiveKind::kReduceScatter, block_counts);
  c.reduction = reduction;
  return c;
}

Collective MakeAllGather(const std::vector<int64_t>& block_counts) {
  return OverBlocks(CollectiveKind::kAllGather, block_counts);
}

Collective MakeAllToAll(std::vector<std::vector<int64_t>> counts) {
  Collective c;
  c.kind = CollectiveKind::kAllToAll;
  c.ranks = static_cast<int>(counts.size());
  c.counts = std::move(counts);
  return c;
}

Collective MakeBroadcast(int ranks, int root, int64_t total) {
  return MakeAllGather(OnlyRoot(ranks, root, total));
}

Collective MakeReduce(int ranks, int root, int64_t total, Reduction reduction) {
  return MakeReduceScatter(OnlyRoot(ranks, root, total), reduction);
}

absl::Status Validate(const Collective& collective) {
  if (collective.ranks < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("a collective between ", collective.ranks, " ranks; wanted at least 1"));
  }
  if (collective.total < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("a collective of ", collective.total, " elements; wanted at least 0"));
  }
  RETURN_IF_ERROR(ValidateBlocks(collective));
  return ValidateCounts(collective);
}

std::vector<ElementRange> ContiguousBlocks(const std::vector<int64_t>& counts) {
  std::vector<ElementRange> blocks;
  blocks.reserve(counts.size());
  int64_t offset = 0;
  for (int64_t count : counts) {
    blocks.push_back({offset, count});
    offset += count;
  }
  return blocks;
}

std::vector<ElementRange> EvenBlocks(int64_t total, int parts) {
  CHECK_GE(parts, 1);
  // floor(k * total / parts) without the overflow of k * total.
  const auto start = [&](int64_t k) { return total / parts * k + total % parts * k / parts; };
  std::vector<ElementRange> blocks;
  blocks.reserve(parts);
  for (int k = 0; k < parts; ++k) blocks.push_back({start(k), start(k + 1) - start(k)});
  return blocks;
}

bool AreOfOneSize(std::span<const ElementRange> blocks) {
  return std::all_of(blocks.begin(), blocks.end(),
                     [&](const ElementRange& block) { return block.count == blocks[0].count; });
}

int64_t SendElements(const Collective& collective, int rank) {
  if (collective.kind != CollectiveKind::kAllToAll) return collective.total;
  return SendOffset(collective, rank, collective.ranks);
}

int64_t ReceiveElements(const Collective& collective, int rank) {
  if (collective.kind != CollectiveKind::kAllToAll) return collective.total;
  return ReceiveOffset(collective, collective.ranks, rank);
}

int64_t SendOffset(const Collective& collective, int source, int destination) {
  int64_t offset = 0;
  for (int d = 0; d < destination; ++d) offset += collective.counts[source][d];
  return offset;
}

int64_t ReceiveOffset(const Collective& collective, int source, int destination) {
  int64_t offset = 0;
  for (int s = 0; s < source; ++s) offset += collective.counts[s][destination];
  return offset;
}

std::optional<int> RootOf(const Collective& collective) {
  if (!HasBlocks(collective.kind) || collective.ranks < 2 || collective.total == 0) {
    return std::nullopt;
  }
  for (int rank = 0; rank < collective.ranks; ++rank) {
    if (collective.blocks[rank].count == collective.total) return rank;
  }
  return std::nullopt;
}

double BusBandwidthFactor(CollectiveKind kind, int ranks) {
  CHECK_GE(ranks, 1);
  const double share = static_cast<double>(ranks - 1) / ranks;
  return kind == CollectiveKind::kAllReduce ? 2 * share : share;
}

double BusBandwidthFactor(const Collective& collective) {
  if (RootOf(collective).has_value()) return 1;
  return BusBandwidthFactor(collective.kind, collective.ranks);
}

std::string ToString(const Collective& collective) {
  int64_t elements = collective.total;
  for (const auto& row : collective.counts) {
    for (int64_t count : row) elements += count;
  }
  const bool reduces = collective.kind == CollectiveKind::kAllReduce ||
                       collective.kind == CollectiveKind::kReduceScatter;
  return absl::StrCat(Name(collective.kind), " of ", elements, " elements between ",
                      collective.ranks, " ranks", reduces ? ", " : "",
                      reduces ? Name(collective.reduction) : "");
}

}  // namespace partita
