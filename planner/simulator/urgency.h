#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace partita {

// Urgencies of subjects (GraphDistances): rules of priority count the tasks of each subject so many
// 64ths as long as they are.
constexpr int32_t kEvenUrgency = 64;
constexpr int32_t kMostUrgency = 2 * kEvenUrgency;

// The urgencies of so many subjects after draws, which are different seeds: even at first, then each
// draw gives about one subject in twenty another one of 0 to kMostUrgency. None where there are no
// draws: all alike. Looks at twenty draws of a subject in the mean, however many there are.
std::vector<int32_t> UrgenciesOf(std::span<const uint32_t> draws, int32_t subjects);

}  // namespace partita
