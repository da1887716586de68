#include "tools/cli/notes.h"

#include "tools/cli/progress.h"

namespace partita {

void AddCoreSharing(const CoreSharing& sharing, Answer& answer) {
  answer.json["shared_cores"] = sharing.devices == 0
                                    ? Json(nullptr)
                                    : Json{{"devices", sharing.devices}, {"cores", sharing.cores}};
}

void AddWarnings(const Disturbance& disturbance, Answer& answer) {
  Json& warnings = answer.json["warnings"];
  if (!warnings.is_array()) warnings = Json::array();
  for (const std::string& warning : WarningsOf(disturbance)) {
    warnings.push_back(warning);
    Warn(warning);
  }
}

void AddMachineNotes(const PricedMachine& priced, Answer& answer) {
  AddCoreSharing(CoreSharingOf(priced.machine->topology), answer);
  Json& notes = answer.json["notes"];
  if (!notes.is_array()) notes = Json::array();
  for (const std::string& note : NotesOn(priced)) {
    notes.push_back(note);
    AppendNote(note, answer);
  }
}

}  // namespace partita
