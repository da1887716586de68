#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "graph/model_io.h"
#include "graph/model_summary.h"
#include "graph/support/status_macros.h"
#include "tools/cli/verb.h"
#include "tools/workflow/output_path.h"

namespace partita {
namespace {

struct ImportFlags {
  ModelRequest model;
  std::string output;
};

absl::StatusOr<Answer> RunImport(const ImportFlags& flags) {
  if (!flags.output.empty() && !absl::EndsWith(flags.output, ".textproto")) {
    Answer wrong;
    wrong.usage_error = absl::StrCat(
        "--output writes the native form: the file's name ends in "
        ".textproto, '",
        flags.output, "' does not");
    return wrong;
  }
  RETURN_IF_ERROR(CheckWritable(flags.output, "-o"));
  ImportOptions options;
  options.batch = flags.model.batch;
  options.freeze_bn = flags.model.freeze_batch_norm;
  ASSIGN_OR_RETURN(const ImportedModel imported, LoadModel(flags.model.model, options));
  const ModelSummary summary = Summarize(imported.graph);
  Answer answer;
  Json operators = Json::array();
  for (const OperatorSummary& op : summary.operators) {
    operators.push_back({{"name", op.name},
                         {"kind", op.kind},
                         {"result", std::vector<int64_t>(op.result.begin(), op.result.end())},
                         {"parameters", op.parameters},
                         {"multiply_adds", op.multiply_adds}});
  }
  answer.json = {{"model", flags.model.model},
                 {"batch", summary.batch},
                 {"parameters", summary.parameters},
                 {"frozen", summary.frozen},
                 {"macs_per_sample", summary.macs_per_sample},
                 {"weight_bytes", summary.weight_bytes},
                 {"activation_bytes", summary.activation_bytes},
                 {"operators", operators},
                 {"unsupported", Json::array()},
                 {"notes", imported.notes}};
  answer.text = SummaryText(summary);
  for (const std::string& note : imported.notes)
    absl::StrAppend(&answer.text, "note: ", note, "\n");
  if (!flags.output.empty()) {
    RETURN_IF_ERROR(SaveModel(imported.graph, flags.output));
    absl::StrAppend(&answer.text, "written: ", flags.output, "\n");
    answer.json["written"] = flags.output;
  }
  return answer;
}

}  // namespace

void AddImportVerb(CLI::App& app, VerbTable& verbs) {
  auto flags = std::make_shared<ImportFlags>();
  CLI::App* verb = app.add_subcommand("import", "operators, parameters and arithmetic of a model");
  AddModelFlags(*verb, flags->model);
  verb->add_option("-o,--output", flags->output, "write the native text form to this file");
  verbs.Add(verb, [flags] { return RunImport(*flags); });
}

}  // namespace partita
