#pragma once

#include <memory>

#include "runtime/backend/backend.h"

namespace partita {

// The reference backend, but that products differ in bits from run to run, as those of a GPU may
// whose sums are made in any order: every element of a float32 result is at random the computed one
// or the next larger one. Of kernels that need not be deterministic, or, as no backend may do it, of
// all that have products.
std::shared_ptr<const Backend> NoisyBackend(bool all);

// The reference backend, but that products are rounded as by sums in another order: every element
// of a float32 result is off by up to 2^-23 of the largest one, at random. So one that is nearly zero
// may have either sign.
std::shared_ptr<const Backend> RoundingBackend();

}  // namespace partita
