#include "absl/strings/str_cat.h"
#include "cost_model/discovery.h"
#include "graph/support/error_category.h"
#include "graph/support/status_macros.h"
#include "graph/support/stop_flag.h"
#include "runtime/backend/backends.h"
#include "runtime/comm/communicators.h"
#include "tools/cli/flags.h"
#include "tools/cli/progress.h"
#include "tools/cli/text.h"
#include "tools/cli/verb.h"
#include "tools/version.h"
#include "tools/workflow/self_test.h"

namespace partita {
namespace {

struct DoctorFlags {
  bool self_test = false;

  template <class Self, class Visitor>
  static void VisitFields(Self& self, Visitor&& visit) {
    visit(Option{.name = "self_test",
                 .help = "check kernels, plans and resumed training here, in about a minute"},
          self.self_test);
  }
};

constexpr const char* kVerdicts[] = {"ok", "FAILED", "skipped"};  // SelfTestCheck::Verdict

// Adds the checks to the answer, which fails where one has.
absl::Status AddSelfTest(Answer& answer) {
  SelfTestRequest request;
  request.stop = &g_interrupted;
  request.progress = [](const std::string& check, int done, int wanted) {
    ShowProgress(absl::StrCat("check ", done + 1, " of ", wanted, ": ", check));
  };
  const auto checks = RunSelfTest(request);
  EndProgress();
  RETURN_IF_ERROR(checks.status());
  std::vector<std::vector<std::string>> table;
  std::string why_skipped;
  int counts[std::size(kVerdicts)] = {};
  for (const SelfTestCheck& check : *checks) {
    const auto verdict = static_cast<size_t>(check.verdict);
    ++counts[verdict];
    answer.json["checks"].push_back(
        {{"check", check.name}, {"verdict", kVerdicts[verdict]}, {"detail", check.detail}});
    if (check.verdict == SelfTestCheck::Verdict::kSkipped) {
      why_skipped = check.detail;
    } else {
      table.push_back({kVerdicts[verdict], check.name, check.detail});
    }
  }
  const auto [passed, failed, skipped] = counts;
  answer.text +=
      absl::StrCat("\n", TableText(table, 3), passed, " passed, ", failed, " failed, ", skipped,
                   " skipped", skipped > 0 ? absl::StrCat(" (", why_skipped, ")\n") : "\n");
  answer.exit_code = failed > 0            ? CodeOf(ErrorCategory::kCheckFailed)
                     : IsSet(request.stop) ? CodeOf(ErrorCategory::kInterrupted)
                                           : 0;
  return absl::OkStatus();
}

absl::StatusOr<Answer> RunDoctor(const DoctorFlags& flags) {
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
  if (flags.self_test) RETURN_IF_ERROR(AddSelfTest(answer));
  return answer;
}

}  // namespace

void AddDoctorVerb(CLI::App& app, VerbTable& verbs) {
  AddVerb(Subcommand(app, "doctor", "what works here, and why the rest does not"), verbs,
          std::make_shared<DoctorFlags>(), RunDoctor);
}

}  // namespace partita
