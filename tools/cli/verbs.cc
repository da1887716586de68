#include "graph/support/option.h"
#include "tools/cli/verb.h"
#include "tools/cli/verb_options.h"

namespace partita {

std::span<const VerbRow> Verbs() {
  static constexpr char kPlanning[] = "Planning", kRunning[] = "Running and proving",
                        kParts[] = "Models and machines", kProgram[] = "The program";
  static constexpr VerbRow kVerbs[] = {{"plan", kPlanning, AddPlanVerb},
                                       {"compare", kPlanning, AddCompareVerb},
                                       {"simulate", kPlanning, AddSimulateVerb},
                                       {"profile", kPlanning, AddProfileVerb},
                                       {"run", kRunning, AddRunVerb},
                                       {"launch", kRunning, AddLaunchVerb},
                                       {"verify", kRunning, AddVerifyVerb},
                                       {"import", kParts, AddImportVerb},
                                       {"machine", kParts, AddMachineVerb},
                                       {"list", kParts, AddListVerb},
                                       {"doctor", kProgram, AddDoctorVerb},
                                       {"completion", kProgram, AddCompletionVerb},
                                       {"help", kProgram, AddHelpVerb}};
  return kVerbs;
}

std::vector<std::string> VerbNames() { return NamesOf(Verbs()); }

}  // namespace partita
