#pragma once

#include <cstdint>
#include <span>

namespace partita {

// The index of the first element that is NaN or infinite; -1 if there is none. Runs at the speed of
// memory.
int64_t FirstNotFinite(std::span<const float> values);
int64_t FirstNotFinite(std::span<const double> values);

}  // namespace partita
