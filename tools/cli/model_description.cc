#include <iostream>

#include "absl/strings/str_cat.h"
#include "tools/cli/verb.h"

namespace partita {
namespace {

std::string TextOf(const ImportedModel& model, const ModelLoss& loss) {
  std::string text;
  for (const std::string& note : model.notes) absl::StrAppend(&text, "note: ", note, "\n");
  for (const std::string& warning : Warnings(model)) {
    absl::StrAppend(&text, "warning: ", warning, "\n");
  }
  absl::StrAppend(&text, "loss: ", ToString(loss), "\n");
  return text;
}

}  // namespace

void DescribeModel(const ImportedModel& model, const ModelLoss& loss, Answer& answer) {
  answer.json["loss"] = ToString(loss);
  answer.json["classes"] = loss.classes;
  answer.json["notes"] = model.notes;
  answer.json["warnings"] = Warnings(model);
  absl::StrAppend(&answer.text, TextOf(model, loss));
}

void ShowModel(const ImportedModel& model, const ModelLoss& loss) {
  std::cerr << TextOf(model, loss);
}

}  // namespace partita
