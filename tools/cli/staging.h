#pragma once

#include <functional>
#include <initializer_list>
#include <string>

#include "tools/cli/verb.h"
#include "tools/workflow/stages.h"

namespace partita {

struct StageFlags {
  std::string dump_dir, stop_after;
};

// --dump_dir and --stop_after, which takes the names of these stages: those of the verb, in the
// order in which it reaches them.
void AddStageFlags(CLI::App& verb, StageFlags& flags, std::initializer_list<Stage> stages);

// Runs a verb and adds `stages` to its answer: name, seconds and files of each. A run that ended
// after the stage that was asked for is answered with these and `stopped_after`, and is good. `run`
// gets null where no flag asked for stages.
absl::StatusOr<Answer> RunInStages(
    const StageFlags& flags, const std::function<absl::StatusOr<Answer>(Stages* stages)>& run);

}  // namespace partita
