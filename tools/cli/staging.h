#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tools/cli/verb.h"
#include "tools/workflow/option_checks.h"
#include "tools/workflow/stages.h"

namespace partita {

struct StageFlags {
  std::string dump_dir, stop_after;
  std::vector<Stage> stages;  // those of the verb, in the order in which it reaches them

  template <class Self, class Visitor>
  static void VisitFields(Self& self, Visitor&& visit) {
    std::vector<std::string> names;
    for (const Stage stage : self.stages) {
      names.emplace_back(StageTable()[static_cast<size_t>(stage)].name);
    }
    visit(Option{.name = "dump_dir",
                 .help = "write what every stage made into this folder",
                 .check = PlaceName(),
                 .group = "Stages",
                 .of_one_rank = true},
          self.dump_dir);
    visit(Option{.name = "stop_after",
                 .help = absl::StrCat("end after this stage: ", absl::StrJoin(names, ", ")),
                 .check = NameOf("stage", names),
                 .group = "Stages"},
          self.stop_after);
  }
};

// Runs a verb and adds `stages` to its answer: name, seconds and files of each. A run that ended
// after the stage that was asked for is answered with these and `stopped_after`, and is good. `run`
// gets null where no flag asked for stages.
absl::StatusOr<Answer> RunInStages(
    const StageFlags& flags, const std::function<absl::StatusOr<Answer>(Stages* stages)>& run);

}  // namespace partita
