#include "tools/cli/verb.h"

namespace partita {

void AddRunVerb(CLI::App&, VerbTable&) {}

}  // namespace partita
