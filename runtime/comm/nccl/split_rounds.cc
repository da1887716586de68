#include "runtime/comm/nccl/split_rounds.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"

namespace partita {

std::vector<SplitRound> SplitRoundsOf(std::span<const std::vector<DeviceId>* const> groups) {
  std::vector<SplitRound> rounds;
  std::vector<absl::flat_hash_set<DeviceId>> taken;  // by round
  for (size_t g = 0; g < groups.size(); ++g) {
    const std::vector<DeviceId>& devices = *groups[g];
    size_t round = 0;
    const auto is_taken = [&](DeviceId device) { return taken[round].contains(device); };
    while (round < rounds.size() && std::any_of(devices.begin(), devices.end(), is_taken)) ++round;
    if (round == rounds.size()) {
      rounds.emplace_back();
      taken.emplace_back();
    }
    rounds[round].push_back(g);
    taken[round].insert(devices.begin(), devices.end());
  }
  return rounds;
}

}  // namespace partita
