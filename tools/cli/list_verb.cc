#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cost_model/catalogue.h"
#include "cost_model/machines.h"
#include "graph/collective/algorithms.h"
#include "graph/onnx/operators.h"
#include "graph/zoo/models.h"
#include "planner/expert/expert_strategies.h"
#include "planner/search/search_algorithm.h"
#include "planner/simulator/priorities.h"
#include "runtime/backend/backends.h"
#include "runtime/comm/communicators.h"
#include "tools/cli/flags.h"
#include "tools/cli/text.h"
#include "tools/cli/verb.h"
#include "tools/cli/verb_options.h"

namespace partita {
namespace {

using Rows = std::vector<std::pair<std::string, std::string>>;

template <class Table>
Rows NamedRows(const Table& table) {
  Rows rows;
  for (const auto& row : table)
    rows.emplace_back(std::string(row.name), std::string(row.description));
  return rows;
}

// A capital of a family's name stands for a number.
Rows MachineRows() {
  Rows rows = NamedRows(NamedMachines());
  for (const auto& row : NamedRows(MachineFamilies())) rows.push_back(row);
  return rows;
}

Rows IrOperatorRows() {
  Rows rows;
  for (const auto& [name, description] : OperatorTable()) rows.emplace_back(name, description);
  return rows;
}

Rows BackendRows() {
  Rows rows;
  for (const BackendRow& row : Backends()) {
    std::string text = row.description;
    if (row.make == nullptr) absl::StrAppend(&text, " (missing: ", row.missing, ")");
    rows.emplace_back(row.name, text);
  }
  return rows;
}

struct Listing {
  const char* name;
  Rows (*rows)();
};
constexpr Listing kListings[] = {
    {"operators", IrOperatorRows},
    {"onnx_operators", [] { return NamedRows(onnx::OperatorRows()); }},
    {"models", [] { return NamedRows(ZooModels()); }},
    {"machines", MachineRows},
    {"accelerators", [] { return NamedRows(AcceleratorModels()); }},
    {"strategies", [] { return NamedRows(ExpertStrategies()); }},
    {"searches", [] { return NamedRows(SearchAlgorithms()); }},
    {"priorities", [] { return NamedRows(Priorities()); }},
    {"backends", BackendRows},
    {"communicators", [] { return NamedRows(Communicators()); }},
    {"collectives", [] { return NamedRows(CollectiveAlgorithms()); }},
};

absl::StatusOr<Answer> RunList(const ListFlags& flags) {
  const std::string& what = flags.what;
  for (const Listing& listing : kListings) {
    if (what != listing.name) continue;
    Answer answer;
    Json rows = Json::array();
    std::vector<std::vector<std::string>> table;
    for (const auto& [name, description] : listing.rows()) {
      rows.push_back({{"name", name}, {"description", description}});
      table.push_back({name, description});
    }
    answer.json[what] = rows;
    answer.text = TableText(table, 2);
    return answer;
  }
  return absl::NotFoundError(absl::StrCat("nothing to list under '", what, "'"));
}

}  // namespace

std::vector<std::string> ListNames() { return NamesOf(kListings); }

void AddListVerb(CLI::App& app, VerbTable& verbs) {
  AddVerb(Subcommand(app, "list", "what this program knows"), verbs, std::make_shared<ListFlags>(),
          RunList);
}

}  // namespace partita
