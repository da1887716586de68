#include "tools/cli/notes.h"

#include "absl/strings/str_cat.h"
#include "tools/workflow/machine_notes.h"

namespace partita {

void AddCoreSharing(const DeviceTopology& topology, Answer& answer) {
  const CoreSharing sharing = CoreSharingOf(topology);
  answer.json["shared_cores"] = sharing.devices == 0
                                    ? Json(nullptr)
                                    : Json{{"devices", sharing.devices}, {"cores", sharing.cores}};
}

void AddMachineNotes(const PricedMachine& priced, Answer& answer) {
  AddCoreSharing(priced.machine->topology, answer);
  answer.json["notes"] = Json::array();
  for (const std::string& note : NotesOn(priced)) {
    answer.json["notes"].push_back(note);
    absl::StrAppend(&answer.text, "note: ", note, "\n");
  }
}

}  // namespace partita
