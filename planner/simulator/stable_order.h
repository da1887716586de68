#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace partita {

// Sorts `items` stably by keys[item], ascending. Keys are not negative. Radix sort for many items:
// linear time, as schedules are sorted several times per evaluation.
void StableOrderBy(std::span<const int64_t> keys, std::vector<int32_t>& items);

}  // namespace partita
