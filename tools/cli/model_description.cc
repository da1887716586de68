#include "absl/strings/str_cat.h"
#include "tools/cli/progress.h"

namespace partita {
namespace {

std::string LossText(const ModelLoss& loss) { return absl::StrCat("loss: ", ToString(loss)); }

}  // namespace

void DescribeModel(const ImportedModel& model, const ModelLoss& loss, Answer& answer) {
  answer.json["loss"] = ToString(loss);
  answer.json["classes"] = loss.classes;
  answer.json["notes"] = model.notes;
  answer.json["warnings"] = Warnings(model);
  for (const std::string& note : model.notes) AppendNote(note, answer);
  for (const std::string& warning : Warnings(model)) {
    absl::StrAppend(&answer.text, "warning: ", warning, "\n");
  }
  absl::StrAppend(&answer.text, LossText(loss), "\n");
}

void ShowModel(const ImportedModel& model, const ModelLoss& loss) {
  for (const std::string& note : model.notes) Say(absl::StrCat("note: ", note));
  for (const std::string& warning : Warnings(model)) Warn(warning);
  Say(LossText(loss));
}

}  // namespace partita
