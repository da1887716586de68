// The program as a user has it: discovers the machine, plans, proves, trains and compares.
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "graph/support/status_macros.h"
#include "runtime/backend/backends.h"
#include "tests/gpu/execute.h"
#include "tests/gpu/one_device.h"
#include "tests/gpu/sections.h"
#include "tests/runtime/data/temp_folder.h"

namespace partita {
namespace {

constexpr double kShareForModels = 0.8;      // of what the section has, for beginning with a model
constexpr double kMostPredictionOff = 0.05;  // relative, of a step
constexpr double kMostMeasuredOff = 0.1;     // relative, of `compare --measure` to training

struct UsedModel {
  std::string name;
  int64_t batch;
  std::string precision;
  bool is_proven = false;  // by the serial model on a core: of small ones
  std::string ToString() const { return absl::StrCat(name, ", batch ", batch, ", ", precision); }
};

std::vector<UsedModel> ModelsOf(const SuiteOptions& options) {
  std::vector<UsedModel> models = {{"lenet", 64, "float32", /*is_proven=*/true}};
  for (const int64_t batch : options.batches) {
    for (const PrecisionRow& row : PrecisionsOf(options)) {
      models.push_back({"alexnet", batch, row.name});
    }
  }
  return models;
}

// Lets programs find by their plain names the libraries that this one has opened.
void NameFolders(const std::vector<std::string>& libraries) {
  const char* before = std::getenv("LD_LIBRARY_PATH");
  std::string folders = before == nullptr ? "" : before;
  for (const std::string& library : libraries) {
    folders = absl::StrCat(std::filesystem::path(library).parent_path().string(), ":", folders);
  }
  setenv("LD_LIBRARY_PATH", folders.c_str(), /*overwrite=*/1);
}

class Partita {
 public:
  explicit Partita(const SuiteOptions& options) : options_(options) {}

  // What a verb answers. Internal: with which exit status it ended instead.
  absl::StatusOr<Json> Ask(std::vector<std::string> words) const {
    words.insert(words.begin(), options_.partita);
    words.insert(words.end(), {"--json", "--quiet"});
    std::string text;
    ASSIGN_OR_RETURN(const int status,
                     Execute(words, [&](const std::string& line) { text += line; }));
    Json answer = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (status == 0 && !answer.is_discarded()) return answer;
    const bool says = answer.is_object() && answer.contains("error");
    return absl::InternalError(
        absl::StrCat("partita ", words[1], " ended with ", status, ": ",
                     says ? answer["error"].value("message", "") : text.substr(0, 500)));
  }

  absl::Status Discover() const {
    const bool is_gpu = options_.backend == "cuda";
    return Ask({"machine", "discover", is_gpu ? "--gpus" : "--devices", "1", "-o", machine_})
        .status();
  }

  // Plans, proves, trains with and compares one model: times in ms, predicted and measured.
  absl::StatusOr<Json> Use(const UsedModel& model) const {
    const std::string batch = absl::StrCat(model.batch);
    const std::string plan = folder_ / absl::StrCat(model.name, ".plan.textproto");
    const auto with = [&](std::vector<std::string> words) {
      words.insert(words.end(), {"--batch", batch, "--machine", machine_, "--profile", profile_,
                                 "--precision", model.precision});
      return words;
    };
    ASSIGN_OR_RETURN(
        const Json planned,
        Ask(with({"plan", model.name, "-o", plan, "--replace", "--measure_time", "0"})));
    Json verified = {{"equal", nullptr}};
    if (model.is_proven) {
      ASSIGN_OR_RETURN(verified, Ask({"verify", plan, "--profile", profile_}));
    }
    ASSIGN_OR_RETURN(const Json trained,
                     Ask({"run", plan, "--steps", absl::StrCat(options_.steps), "--timeline",
                          "none", "--profile", profile_, "--precision", model.precision}));
    ASSIGN_OR_RETURN(const Json compared, Ask(with({"compare", model.name, plan, "--measure"})));
    Json measured;
    for (const Json& row : compared["strategies"]) {
      if (row.value("name", "") == plan) measured = row["measured_ms"];
    }
    return Json{{"model", model.name},
                {"batch", model.batch},
                {"precision", model.precision},
                {"equal", verified["equal"]},
                {"predicted_ms", planned["predicted_ms"]},
                {"trained_ms", trained["median_step_ms"]},
                {"compared_ms", measured},
                {"waiting_share", trained["waiting_share"]},
                {"strategies", compared["strategies"]}};
  }

 private:
  const SuiteOptions& options_;
  const TempFolder folder_;  // in which the program keeps its files
  const std::string machine_ = folder_ / "machine.textproto";
  const std::string profile_ = folder_ / "profile.db";
};

// How far a time is from another, relative.
double Off(const Json& time, const Json& from) {
  if (!time.is_number() || !from.is_number()) return HUGE_VAL;
  return time.get<double>() / from.get<double>() - 1;
}

void JudgeTimes(const std::string& run, const Json& used, SectionFindings& findings) {
  const auto within = [&](const char* what, const char* key, double most) {
    const double off = Off(used[key], used["trained_ms"]);
    if (std::abs(off) <= most) return;
    findings.failures.push_back(
        absl::StrFormat("%s: %s %+.1f %% off the step in training", run, what, 100 * off));
  };
  within("the prediction is", "predicted_ms", kMostPredictionOff);
  within("compare --measure is", "compared_ms", kMostMeasuredOff);
}

}  // namespace

absl::StatusOr<SectionFindings> UseProgram(const SuiteOptions& options) {
  RETURN_IF_ERROR(MakeBackend(options.backend).status());
  if (!std::filesystem::exists(options.partita)) {
    return absl::UnavailableError(absl::StrCat(options.partita, " is not there (--partita)"));
  }
  NameFolders(options.libraries);
  const auto begin = std::chrono::steady_clock::now();
  const Partita program(options);
  RETURN_IF_ERROR(program.Discover());
  SectionFindings findings;
  findings.details = {{"runs", Json::array()}, {"no_time_for", Json::array()}};
  for (const UsedModel& model : ModelsOf(options)) {
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
    if (passed.count() > kShareForModels * options.section_seconds) {
      findings.details["no_time_for"].push_back(model.ToString());
      continue;
    }
    findings.details["running"] = model.ToString();
    options.so_far(findings);
    const absl::StatusOr<Json> used = program.Use(model);
    if (!used.ok()) {
      findings.failures.push_back(absl::StrCat(model.ToString(), ": ", used.status().message()));
      continue;
    }
    findings.details["runs"].push_back(*used);
    // Cores that others use, too, tell nothing.
    if (options.backend == "cuda") JudgeTimes(model.ToString(), *used, findings);
  }
  findings.details.erase("running");
  return findings;
}

}  // namespace partita
