#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "graph/task/task_graph.h"

namespace partita {

// Groups, by their places in the list, that one split of the communicator of all devices makes: no
// device is in two of them, so that a group's place in the round is its ranks' color.
using SplitRound = std::vector<size_t>;

// Rounds in which all of these groups are made, few of them: each group is in the first round that
// has none of its devices yet. Depends on nothing but the list.
std::vector<SplitRound> SplitRoundsOf(std::span<const std::vector<DeviceId>* const> groups);

}  // namespace partita
