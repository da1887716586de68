#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "graph/model/model_io.h"
#include "graph/model/model_summary.h"
#include "graph/support/error_category.h"
#include "graph/support/status_macros.h"
#include "tools/cli/flags.h"
#include "tools/cli/text.h"
#include "tools/cli/verb.h"
#include "tools/cli/verb_options.h"
#include "tools/workflow/input_path.h"
#include "tools/workflow/output_path.h"

namespace partita {
namespace {

// The native form, and whether the weights have values in it.
absl::Status Write(const ImportedModel& model, const std::string& path, Answer& answer) {
  ASSIGN_OR_RETURN(const std::string weights_file,
                   SaveModel(model.graph, path, model.folded_batch_norms));
  int64_t with_values = 0;
  for (const Weight& weight : model.graph.weights()) with_values += weight.values != nullptr;
  const size_t weights = model.graph.weights().size();
  answer.json["written"] = path;
  answer.json["weights"] = weights;
  answer.json["weights_with_values"] = with_values;
  answer.json["weights_file"] = weights_file.empty() ? Json(nullptr) : Json(weights_file);
  if (weights_file.empty()) {
    absl::StrAppend(&answer.text, "no values of weights: '", path,
                    "' has none, training starts from initial values\n");
  } else {
    absl::StrAppend(&answer.text, "values of ", with_values, " of ", weights, " weights: in '",
                    weights_file, "', which stays beside it",
                    with_values < static_cast<int64_t>(weights)
                        ? "; training starts from initial values of the others"
                        : "",
                    "\n");
  }
  absl::StrAppend(&answer.text, "written: ", path, "\n");
  return absl::OkStatus();
}

absl::StatusOr<Answer> RunImport(const ImportFlags& flags) {
  if (!flags.output.empty() && !absl::EndsWith(flags.output, ".textproto")) {
    return UsageError(
        absl::StrCat("--output writes the native form: the file's name ends in .textproto, '",
                     flags.output, "' does not"));
  }
  if (IsModelFile(flags.model.model)) RETURN_IF_ERROR(CheckThere(flags.model.model));
  RETURN_IF_ERROR(CheckWritable(flags.output, "-o"));
  ImportOptions options;
  options.batch = flags.model.batch;
  options.freeze_bn = flags.model.freeze_batch_norm;
  options.sizes = flags.model.sizes;
  // Without a file to write, values are of no use here.
  options.values = flags.output.empty() ? WeightValues::kSkipped : WeightValues::kIfPresent;
  ASSIGN_OR_RETURN(const ImportedModel imported, LoadModel(flags.model.model, options));
  // The model itself may be written anew, as at another batch.
  const NamedFile output[] = {{"-o", flags.output}};
  std::vector<NamedFile> inputs;
  for (const std::string& file : imported.side_files) inputs.push_back({kSideFile, file});
  RETURN_IF_ERROR(CheckApart(output, inputs));
  ASSIGN_OR_RETURN(const ModelLoss loss,
                   LossOfFile(flags.model.model, imported.graph, flags.model.loss));
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
                 {"unsupported", Json::array()}};
  std::vector<std::vector<std::string>> table = {
      {"operator", "kind", "result", "parameters", "multiply-\nadds"}};
  for (const OperatorSummary& op : summary.operators) {
    table.push_back({op.name, op.kind, ToString(op.result),
                     op.parameters > 0 ? CountText(op.parameters) : "",
                     op.multiply_adds > 0 ? CountText(op.multiply_adds) : ""});
  }
  answer.text = absl::StrCat(TableText(table, 2), SummaryText(summary));
  DescribeModel(imported, loss, answer);
  if (!flags.output.empty()) RETURN_IF_ERROR(Write(imported, flags.output, answer));
  return answer;
}

}  // namespace

void AddImportVerb(CLI::App& app, VerbTable& verbs) {
  AddVerb(Subcommand(app, "import", "operators, parameters and arithmetic of a model"), verbs,
          std::make_shared<ImportFlags>(), RunImport);
}

}  // namespace partita
