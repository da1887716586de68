#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace partita {

// The forms that a model passes through until a step has run.
enum class Stage : uint8_t {
  kModel,
  kTrainingGraph,
  kStrategy,
  kTaskGraph,
  kPredictedTimeline,
  kPlan,
  kProgram,
  kBuffers,
  kMeasuredTimeline
};

struct StageRow {
  const char* name;  // name in --stop_after
  const char* file;  // file in the dump folder; "%d" is a device's number
  const char* description;
};
// THE table of stages, by Stage.
std::span<const StageRow> StageTable();
// NotFound lists the valid names.
absl::StatusOr<Stage> StageNamed(absl::string_view name);

// A stage that ended.
struct StageRecord {
  std::string name;    // name of the stage; after a row's name where there are several
                       // ("searched/plan")
  double seconds = 0;  // time since the stage before it ended, without dumping and checking
  std::vector<std::string> files;
};

// Follows one command from stage to stage: measures what each took, writes what it made into a
// folder, and ends the command after the stage that was asked for. Workflows end each stage by one
// call of EndStage or of a function in stage_ends.h; where stages are not followed they get null.
class Stages {
 public:
  struct Request {
    std::string dump_dir;             // empty: write nothing
    std::optional<Stage> stop_after;  // nullopt: go on to the end
  };

  // Makes the folder. Errors name it.
  static absl::StatusOr<Stages> Open(Request request);

  // Begins a row: until the next call, files go into the folder `row` within the dump folder ("":
  // itself) and names begin with it.
  void BeginRow(std::string row) { row_ = std::move(row); }

  bool dumps() const { return !request_.dump_dir.empty(); }
  std::optional<Stage> stop_after() const { return request_.stop_after; }
  const std::vector<StageRecord>& records() const { return records_; }
  // Path of a file of this name in the dump folder.
  std::string PathOf(absl::string_view file) const;

  // Ends a stage for EndStage.
  absl::Status End(Stage stage, int count, const std::function<absl::Status()>& check,
                   const std::function<std::string(int)>& text);

 private:
  explicit Stages(Request request) : request_(std::move(request)) {}

  Request request_;
  std::string row_;
  std::vector<StageRecord> records_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

// Ends a stage: `check` proves what the stage made, `text(k)` is the k-th of its `count` files.
// Both are called only where stages are followed, text only where they are dumped. With null, OK.
// Returns check's error, one of writing, or, after the stage that was asked for, the status of
// StoppedAsAsked.
absl::Status EndStage(Stages* stages, Stage stage, const std::function<absl::Status()>& check,
                      const std::function<std::string()>& text);
absl::Status EndStageOfDevices(Stages* stages, Stage stage, int devices,
                               const std::function<absl::Status()>& check,
                               const std::function<std::string(int device)>& text);

// Whether a status says that a command ended because of Stages::Request::stop_after. Such a status
// passes through workflows as an error does, and is none.
bool StoppedAsAsked(const absl::Status& status);

}  // namespace partita
