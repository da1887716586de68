#pragma once

#include <cstdint>

#include "runtime/lowering/program.h"

namespace partita {

// Marks all-reduces of `most_bytes` at most that run together with the next collective of their
// group (Instruction::joins_next): gradients of biases and of normalisations, which cost their
// start only. A task joins the next one where on every device of the group the two follow each
// other, and nothing that comes before the next one in the program's order waits for it; so nothing
// waits for itself, whatever the lanes do.
void BucketSmallCollectives(Program& program, int64_t most_bytes);

}  // namespace partita
