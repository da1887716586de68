// After a crash of the machine at any point of a run that writes checkpoints, whatever POSIX allows
// to be lost: what is resumed from is a state of the uninterrupted run, bit for bit, of a step that
// is no earlier than promised, and the run that goes on from it ends as the uninterrupted one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "runtime/train/checkpoint_family.h"
#include "tests/runtime/data/temp_folder.h"
#include "tests/testing/model_writer.h"
#include "tests/tools/workflow/crashed_disk.h"
#include "tests/tools/workflow/recorded_files.h"
#include "tools/workflow/priced_machine.h"
#include "tools/workflow/running.h"
#include "tools/workflow/training_model.h"

namespace partita {
namespace {

// A folder whose content is changed from one disk to the next.
class Folder {
 public:
  const std::string& path() const { return folder_.path(); }
  std::string operator/(const std::string& name) const { return folder_ / name; }

  void Become(const Disk& disk) {
    for (const auto& [name, content] : is_) {
      if (!disk.contains(name)) std::filesystem::remove(folder_ / name);
    }
    for (const auto& [name, content] : disk) {
      const auto found = is_.find(name);
      if (found == is_.end() || found->second != content) folder_.Write(name, content);
    }
    is_ = disk;
  }

 private:
  const TempFolder folder_;
  Disk is_;
};

Disk Read(const std::string& folder) {
  Disk disk;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    disk[entry.path().filename().string()] = FileContent(entry.path().string());
  }
  return disk;
}

// A run in a folder, whose --save is "run".
struct Scenario {
  Disk before;
  int64_t begins = -1;  // at the step of before's "run", if that is resumed from
  RunRequest request;
  absl::StatusCode ends = absl::StatusCode::kOk;
  bool reaches_known_states = true;
};

// The part of a folder that a resume looks at.
Disk CheckpointsIn(const Disk& disk) {
  Disk found;
  for (const auto& [name, content] : disk) {
    if (absl::StartsWith(name, "run") && name != "run.failed") found[name] = content;
  }
  return found;
}

// How many of what was seen.
struct Counts {
  int64_t crashes = 0;    // points
  int64_t disks = 0;      // that a crash may leave
  int64_t different = 0;  // in their checkpoints
  int64_t resumed = 0, continued = 0;
  std::set<int64_t> steps;  // of what was resumed from; -1: there was nothing
};

// What is wrong, first of all.
using Problem = std::optional<std::string>;

class CrashTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto model = LoadTrainingModel({"mlp_tiny", 8});
    ASSERT_TRUE(model.ok()) << model.status();
    MachineRequest machine;
    machine.devices = 1;
    machine.profile = elsewhere_ / "none.db";
    const auto priced = PriceMachine(machine);
    ASSERT_TRUE(priced.ok()) << priced.status();
    Plan plan;
    plan.model = model->label;
    plan.topology = priced->machine->topology;
    plan.strategy = SingleDevice(model->graph, DeviceId(0));
    loaded_ = std::make_unique<LoadedPlan>(LoadedPlan{std::move(plan), *model});
  }

  const Graph& graph() const { return loaded_->model.graph; }

  RunRequest Request(int64_t steps, const std::string& save) const {
    RunRequest request;
    request.steps = steps;
    request.save = save;
    request.workers = 0;
    request.backends = {{"", "reference"}};
    request.profile = elsewhere_ / "none.db";
    return request;
  }
  absl::Status Run(const RunRequest& request) const {
    const auto outcome = RunPlan(*loaded_, request);
    return outcome.ok() ? outcome->status : outcome.status();
  }

  // The bytes of the checkpoint of a run of so many steps that nothing interrupts.
  const std::string& Uninterrupted(int64_t steps) {
    auto& bytes = uninterrupted_[steps];
    if (bytes.empty()) {
      const std::string path = elsewhere_ / absl::StrCat("steps", steps);
      EXPECT_EQ(Run(Request(steps, path)), absl::OkStatus());
      bytes = FileContent(path);
      states_[steps] = ModelWriter::Get(LoadCheckpoint(path, graph()));
    }
    return bytes;
  }
  const TrainingState& StateOf(int64_t step) {
    Uninterrupted(step);
    return states_[step];
  }

  Scenario FromNothing(int64_t steps) const {
    Scenario scenario{.request = Request(steps, "")};
    scenario.request.save_every_steps = 2;
    scenario.request.keep = 2;
    return scenario;
  }
  Scenario FromACheckpoint(int64_t begins, int64_t steps) {
    Scenario scenario{.begins = begins, .request = Request(steps, "")};
    scenario.before["run"] = Uninterrupted(begins);
    scenario.request.save_every_steps = 2;
    scenario.request.keep = 1;
    return scenario;
  }

  absl::Status RunIn(const Folder& folder, const Scenario& scenario, bool resumes) const {
    RunRequest request = scenario.request;
    request.save = folder / "run";
    if (resumes) request.resume = request.save;
    return Run(request);
  }

  // What a run asks of the file system.
  std::vector<FileOperation> Record(const Scenario& scenario) {
    Folder folder;
    folder.Become(scenario.before);
    std::vector<std::string> names;
    for (const auto& [name, content] : scenario.before) names.push_back(name);
    RecordedFiles::Begin(folder.path(), names);
    const absl::Status status = RunIn(folder, scenario, scenario.begins >= 0);
    std::vector<FileOperation> operations = RecordedFiles::End();
    EXPECT_EQ(status.code(), scenario.ends) << status;
    // Nothing has passed by the recorder.
    EXPECT_TRUE(CrashedDisk(scenario.before, operations).Whole() == Read(folder.path()));
    for (const FileOperation& operation : operations) {
      EXPECT_NE(operation.kind, FileOperation::kOther) << operation.name;
    }
    return operations;
  }

  // By operations done: the step that a resume must reach, since its checkpoint's name lasts.
  static std::vector<int64_t> Promises(const Scenario& scenario,
                                       const std::vector<FileOperation>& operations) {
    std::vector<int64_t> promises = {scenario.begins};
    int64_t written = scenario.begins;
    for (const FileOperation& operation : operations) {
      int64_t step = -1;
      if (operation.to == "run") step = scenario.request.steps.value();
      if (const size_t at = operation.to.find(".step-"); at != std::string::npos) {
        EXPECT_TRUE(absl::SimpleAtoi(operation.to.substr(at + 6), &step));
      }
      written = std::max(written, step);
      const bool lasts = operation.kind == FileOperation::kSyncFolder;
      promises.push_back(lasts ? written : promises.back());
    }
    return promises;
  }

  // What a resume in the folder finds.
  Problem Resume(const Folder& folder, const Scenario& scenario, int64_t promise, Counts& counts) {
    const auto found = FindResumePoint(folder / "run", graph());
    ++counts.resumed;
    if (!found.ok()) {
      counts.steps.insert(-1);
      if (promise < 0 && absl::IsNotFound(found.status())) return std::nullopt;
      return absl::StrCat("nothing can be resumed from: ", found.status().ToString());
    }
    const int64_t step = found->state.step;
    counts.steps.insert(step);
    if (step < promise) return absl::StrCat("resumed from step ", step);
    if (!found->passed_over.empty()) return found->passed_over[0].why;
    if (scenario.reaches_known_states && found->state != StateOf(step)) {
      return absl::StrCat(found->path, " is not the state after step ", step);
    }
    return std::nullopt;
  }

  // What the run that goes on there ends with.
  Problem Continue(const Disk& disk, const Scenario& scenario, Counts& counts) {
    Folder folder;
    folder.Become(disk);
    ++counts.continued;
    const absl::Status status = RunIn(folder, scenario, !CheckpointsIn(disk).empty());
    if (status.code() != scenario.ends) return absl::StrCat("ends with ", status.ToString());
    if (!scenario.reaches_known_states) return std::nullopt;
    if (FileContent(folder / "run") == Uninterrupted(scenario.request.steps.value()))
      return std::nullopt;
    return "the run that goes on ends in another state";
  }

  // Every crash of a run that asks for these operations.
  struct Tried {
    const Scenario& scenario;
    std::vector<FileOperation> operations;
    std::vector<int64_t> promises;  // by operations done
    int samples = 8;                // of torn and reordered writes
    int sparing = 50;  // of disks that differ in temporary files only, one in so many is tried
    uint64_t seed = std::random_device()();
    Counts counts = {};
  };
  Tried Recorded(const Scenario& scenario) {
    Tried tried{.scenario = scenario, .operations = Record(scenario)};
    tried.promises = Promises(scenario, tried.operations);
    return tried;
  }

  Problem TryAll(Tried& tried) {
    const Scenario& scenario = tried.scenario;
    Counts& counts = tried.counts;
    const CrashedDisk crashed(scenario.before, tried.operations);
    std::mt19937_64 random(tried.seed);
    Folder folder;
    std::set<Disk> seen;
    Problem problem;
    for (size_t done = 0; done <= crashed.operations() && !problem; ++done) {
      ++counts.crashes;
      crashed.Visit(done, tried.samples, random, [&](const Disk& disk) {
        ++counts.disks;
        if (problem) return;
        const bool is_new = seen.insert(CheckpointsIn(disk)).second;
        if (is_new) ++counts.different;
        if (!is_new && random() % static_cast<uint64_t>(tried.sparing) != 0) return;
        folder.Become(disk);
        problem = Resume(folder, scenario, tried.promises[done], counts);
        const bool fails = scenario.ends != absl::StatusCode::kOk;
        if (!problem && fails && disk.at("run") != scenario.before.at("run")) {
          problem = "the good checkpoint is another";
        }
        if (!problem && is_new) problem = Continue(disk, scenario, counts);
        if (problem) {
          problem =
              absl::StrCat("after ", done, " of ", crashed.operations(),
                           " operations, promised step ", tried.promises[done], ": ", *problem);
        }
      });
    }
    return problem;
  }

  static void Print(const char* what, const Tried& tried) {
    const Counts& counts = tried.counts;
    std::printf(
        "%s, seed %ld: %ld operations, %ld points, %ld disks, %ld of different checkpoints, %ld "
        "resumed from, %ld runs continued; from steps",
        what, static_cast<long>(tried.seed), static_cast<long>(tried.operations.size()),
        counts.crashes, counts.disks, counts.different, counts.resumed, counts.continued);
    for (const int64_t step : counts.steps) std::printf(" %ld", static_cast<long>(step));
    std::printf("\n");
  }

  const TempFolder elsewhere_;
  std::unique_ptr<LoadedPlan> loaded_;
  std::map<int64_t, std::string> uninterrupted_;
  std::map<int64_t, TrainingState> states_;
};

TEST_F(CrashTest, ARunFromNothingIsResumedFromAStateOfTheUninterruptedOne) {
  const Scenario scenario = FromNothing(8);
  Tried tried = Recorded(scenario);
  EXPECT_EQ(TryAll(tried), std::nullopt);
  Print("from nothing", tried);
  EXPECT_GE(tried.counts.crashes, 100);
  EXPECT_GE(tried.counts.disks, 5000);
  EXPECT_GE(tried.counts.different, 10);
  EXPECT_EQ(tried.counts.steps, (std::set<int64_t>{-1, 2, 4, 6, 8}));
}

TEST_F(CrashTest, AResumedRunIsResumedAgain) {
  const Scenario scenario = FromACheckpoint(2, 6);
  Tried tried = Recorded(scenario);
  EXPECT_EQ(TryAll(tried), std::nullopt);
  Print("from a checkpoint", tried);
  EXPECT_GE(tried.counts.disks, 3000);
  EXPECT_EQ(tried.counts.steps, (std::set<int64_t>{2, 4, 6}));
}

TEST_F(CrashTest, ARunThatFailsNeverTouchesTheGoodCheckpoint) {
  Scenario scenario = FromACheckpoint(2, 40);
  scenario.request.save_every_steps = 0;
  scenario.request.learning_rate = 3e38;
  scenario.ends = absl::StatusCode::kOutOfRange;
  scenario.reaches_known_states = false;
  Tried tried = Recorded(scenario);
  EXPECT_EQ(TryAll(tried), std::nullopt);
  Print("a run that fails", tried);
  EXPECT_GE(tried.counts.disks, 400);
  EXPECT_EQ(tried.counts.steps, (std::set<int64_t>{2}));
}

TEST_F(CrashTest, LongRunEveryDisk) {
  for (int round = 0; round < 2; ++round) {
    for (const Scenario& scenario : {FromNothing(12), FromACheckpoint(4, 12)}) {
      Tried tried = Recorded(scenario);
      tried.samples = 20;
      tried.sparing = 1;
      EXPECT_EQ(TryAll(tried), std::nullopt) << "seed " << tried.seed;
      Print("every disk", tried);
    }
  }
}

// What the proof is worth: it fails where syncs are left out.
TEST_F(CrashTest, SyncsThatAreLeftOutAreFound) {
  const Scenario scenario = FromNothing(6);
  const Tried recorded = Recorded(scenario);
  for (const auto kind : {FileOperation::kSync, FileOperation::kSyncFolder}) {
    Tried tried{.scenario = scenario, .operations = {}, .promises = {}, .seed = 1};
    for (size_t k = 0; k < recorded.operations.size(); ++k) {
      if (recorded.operations[k].kind == kind) continue;
      tried.operations.push_back(recorded.operations[k]);
      tried.promises.push_back(recorded.promises[k]);
    }
    tried.promises.push_back(recorded.promises.back());
    EXPECT_LE(tried.operations.size() + 4, recorded.operations.size());
    const Problem problem = TryAll(tried);
    ASSERT_TRUE(problem.has_value());
    std::printf("%s\n", problem->c_str());
  }
}

}  // namespace
}  // namespace partita
