#pragma once

#include "runtime/profiler/disturbance.h"
#include "tools/cli/verb.h"
#include "tools/workflow/machine_notes.h"
#include "tools/workflow/priced_machine.h"

namespace partita {

// Adds what devices share cores: "shared_cores" of the JSON form, null where none do.
void AddCoreSharing(const CoreSharing& sharing, Answer& answer);

// Adds what others did while something was measured: "warnings" of the JSON form, and on stderr.
void AddWarnings(const Disturbance& disturbance, Answer& answer);

// Core sharing, and what else people should know about the machine (NotesOn), as "notes" and as
// lines.
void AddMachineNotes(const PricedMachine& priced, Answer& answer);

}  // namespace partita
