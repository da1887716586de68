#pragma once

namespace partita {

// Ends this process with `code`, wherever it is, soon after the process that has started it has
// ended; watched by a thread from now on. To be called once.
void EndWithParent(int code);

}  // namespace partita
