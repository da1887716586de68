#include "absl/strings/str_cat.h"
#include "cost_model/discovery.h"
#include "runtime/backend/backends.h"
#include "runtime/comm/communicators.h"
#include "tools/cli/flags.h"
#include "tools/cli/text.h"
#include "tools/cli/verb.h"
#include "tools/version.h"

namespace partita {
namespace {

absl::StatusOr<Answer> RunDoctor() {
  Answer answer;
  Json parts = Json::array();
  std::vector<std::vector<std::string>> table;
  auto add = [&](const std::string& what, bool works, const std::string& detail) {
    parts.push_back({{"part", what}, {"works", works}, {"detail", detail}});
    table.push_back({works ? "ok" : "-", what, detail});
  };
  add("partita", true, absl::StrCat("version ", kVersion));
  const auto host = ExamineHost();
  add("this machine", host.ok(),
      host.ok() ? absl::StrCat(host->hardware, ", ", host->cores.size(), " cores, ",
                               BytesText(host->memory), " memory")
                : std::string(host.status().message()));
  for (const BackendRow& row : Backends()) {
    const auto backend = MakeBackend(row.name);
    add(absl::StrCat("backend ", row.name), backend.ok(),
        backend.ok() ? row.description : std::string(backend.status().message()));
  }
  for (const CommunicatorRow& row : Communicators()) {
    const bool built = row.make != nullptr;
    add(absl::StrCat("communicator ", row.name), built, built ? row.description : row.missing);
  }
  answer.json["parts"] = parts;
  answer.text = TableText(table, 3);
  return answer;
}

}  // namespace

void AddDoctorVerb(CLI::App& app, VerbTable& verbs) {
  CLI::App& verb = Subcommand(app, "doctor", "what works here, and why the rest does not");
  verbs.Add(&verb, [] { return RunDoctor(); });
}

}  // namespace partita
