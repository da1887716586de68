#include "tools/workflow/stages.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "graph/support/error_category.h"
#include "graph/support/file.h"
#include "graph/support/known_names.h"
#include "graph/support/option.h"
#include "graph/support/status_macros.h"

namespace partita {
namespace {

constexpr char kStoppedPayload[] = "partita/stopped_as_asked";

constexpr StageRow kStages[] = {
    {"model", "00_model.txt", "the model's operators and weights"},
    {"training_graph", "10_training_graph.txt", "with gradients and updates"},
    {"strategy", "20_strategy.txt", "how each operator and weight is split and placed"},
    {"task_graph", "30_task_graph.txt", "what the devices compute and exchange"},
    {"predicted_timeline", "31_timeline.predicted.json", "when, as the cost model has it"},
    {"plan", "40_plan.textproto", "the plan file"},
    {"program", "50_program.rank%d.txt", "each device's instructions"},
    {"buffers", "51_buffers.rank%d.txt", "each device's memory"},
    {"measured_timeline", "60_timeline.measured.json", "when, as it was"},
};

absl::Status MakeFolder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (!error) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("cannot make the folder '", path, "': ", error.message()));
}

double SecondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

std::span<const StageRow> StageTable() { return kStages; }

absl::StatusOr<Stage> StageNamed(absl::string_view name) {
  for (size_t s = 0; s < std::size(kStages); ++s) {
    if (name == kStages[s].name) return static_cast<Stage>(s);
  }
  return UnknownNameError("stage", name, NamesOf(kStages));
}

absl::StatusOr<Stages> Stages::Open(Request request) {
  if (!request.dump_dir.empty()) RETURN_IF_ERROR(MakeFolder(request.dump_dir));
  return Stages(std::move(request));
}

std::string Stages::PathOf(absl::string_view file) const {
  return row_.empty() ? absl::StrCat(request_.dump_dir, "/", file)
                      : absl::StrCat(request_.dump_dir, "/", row_, "/", file);
}

absl::Status Stages::End(Stage stage, int count, const std::function<absl::Status()>& check,
                         const std::function<std::string(int)>& text) {
  const StageRow& row = kStages[static_cast<size_t>(stage)];
  StageRecord record;
  record.name = row_.empty() ? row.name : absl::StrCat(row_, "/", row.name);
  record.seconds = SecondsSince(begin_);
  if (check) RETURN_IF_ERROR(check());
  if (dumps()) {
    if (!row_.empty()) RETURN_IF_ERROR(MakeFolder(PathOf("")));
    for (int k = 0; k < count; ++k) {
      const std::string path = PathOf(absl::StrReplaceAll(row.file, {{"%d", absl::StrCat(k)}}));
      RETURN_IF_ERROR(WriteFileAtomically(path, text(k)));
      record.files.push_back(path);
    }
  }
  records_.push_back(std::move(record));
  begin_ = std::chrono::steady_clock::now();
  if (request_.stop_after != stage) return absl::OkStatus();
  absl::Status stopped = InterruptedError(absl::StrCat("stopped after stage ", row.name));
  stopped.SetPayload(kStoppedPayload, absl::Cord(row.name));
  return stopped;
}

absl::Status EndStage(Stages* stages, Stage stage, const std::function<absl::Status()>& check,
                      const std::function<std::string()>& text) {
  if (stages == nullptr) return absl::OkStatus();
  return stages->End(stage, 1, check, [&text](int) { return text(); });
}

absl::Status EndStageOfDevices(Stages* stages, Stage stage, int devices,
                               const std::function<absl::Status()>& check,
                               const std::function<std::string(int device)>& text) {
  if (stages == nullptr) return absl::OkStatus();
  return stages->End(stage, devices, check, text);
}

bool StoppedAsAsked(const absl::Status& status) {
  return status.GetPayload(kStoppedPayload).has_value();
}

}  // namespace partita
