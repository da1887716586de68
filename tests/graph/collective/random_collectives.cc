#include "tests/graph/collective/random_collectives.h"

#include <utility>

namespace partita {
namespace {

int64_t RandomCount(std::mt19937& random) {
  return random() % 3 == 0 ? 0 : static_cast<int64_t>(random() % 20);
}

std::vector<int64_t> RandomCounts(int ranks, std::mt19937& random) {
  std::vector<int64_t> counts(ranks, 0);
  switch (random() % 8) {
    case 0:  // nothing at all
      break;
    case 1:  // a root
      counts[random() % ranks] = 1 + static_cast<int64_t>(random() % 40);
      break;
    default:
      for (int64_t& count : counts) count = RandomCount(random);
  }
  return counts;
}

// Ranks in up to five nodes, one after another or in any order; or none given.
std::vector<int> RandomNodes(int ranks, std::mt19937& random) {
  if (random() % 4 == 0) return {};
  const unsigned nodes = 1 + random() % 5;
  const bool in_order = random() % 2 == 0;
  std::vector<int> node_of_rank;
  for (int rank = 0; rank < ranks; ++rank) {
    node_of_rank.push_back(static_cast<int>(in_order ? rank * nodes / ranks : random() % nodes));
  }
  return node_of_rank;
}

}  // namespace

Collective RandomCollective(CollectiveKind kind, int ranks, std::mt19937& random) {
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return MakeAllReduce(ranks, static_cast<int64_t>(random() % (4 * ranks + 1)));
    case CollectiveKind::kReduceScatter:
      return MakeReduceScatter(RandomCounts(ranks, random));
    case CollectiveKind::kAllGather:
      return MakeAllGather(RandomCounts(ranks, random));
    case CollectiveKind::kAllToAll:
      break;
  }
  std::vector<std::vector<int64_t>> counts;
  for (int rank = 0; rank < ranks; ++rank) counts.push_back(RandomCounts(ranks, random));
  return MakeAllToAll(std::move(counts));
}

std::vector<Case> AllCases(int per_count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Case> cases;
  for (const CollectiveAlgorithm& algorithm : CollectiveAlgorithms()) {
    for (CollectiveKind kind : kCollectiveKinds) {
      if (!algorithm.kinds.contains(kind)) continue;
      for (int ranks = 1; ranks <= kMostRanks; ++ranks) {
        if (!algorithm.applicable(ranks)) continue;
        for (int i = 0; i < per_count; ++i) {
          const int colors = i == 0 ? 2 : 1 + static_cast<int>(random() % 6);
          const int segments = i == 0 ? 1 : 1 + static_cast<int>(random() % 4);
          cases.push_back({&algorithm,
                           RandomCollective(kind, ranks, random),
                           {colors, segments, RandomNodes(ranks, random)}});
        }
      }
    }
  }
  return cases;
}

}  // namespace partita
