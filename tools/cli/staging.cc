#include "tools/cli/staging.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "graph/support/status_macros.h"
#include "tools/cli/text.h"

namespace partita {
namespace {

void AddStages(const Stages& stages, Answer& answer) {
  Json list = Json::array();
  std::vector<std::vector<std::string>> table = {{"stage", "seconds", "files"}};
  for (const StageRecord& record : stages.records()) {
    list.push_back({{"name", record.name}, {"seconds", record.seconds}, {"files", record.files}});
    const size_t count = record.files.size();
    std::string files = count == 0 ? "" : record.files.front();
    if (count > 1) absl::StrAppend(&files, " and ", count - 1, " more");
    table.push_back({record.name, absl::StrFormat("%.3f", record.seconds), files});
  }
  answer.json["stages"] = std::move(list);
  absl::StrAppend(&answer.text, TableText(table, 3));
}

}  // namespace

absl::StatusOr<Answer> RunInStages(
    const StageFlags& flags, const std::function<absl::StatusOr<Answer>(Stages* stages)>& run) {
  if (flags.dump_dir.empty() && flags.stop_after.empty()) return run(nullptr);
  Stages::Request request;
  request.dump_dir = flags.dump_dir;
  if (!flags.stop_after.empty()) {
    ASSIGN_OR_RETURN(request.stop_after, StageNamed(flags.stop_after));
  }
  ASSIGN_OR_RETURN(Stages stages, Stages::Open(request));
  absl::StatusOr<Answer> answer = run(&stages);
  if (StoppedAsAsked(answer.status())) {
    answer = Answer();
    answer->json["stopped_after"] = flags.stop_after;
    answer->text = absl::StrCat("stopped after stage ", flags.stop_after, "\n");
  }
  if (answer.ok()) AddStages(stages, *answer);
  return answer;
}

}  // namespace partita
