#include "runtime/train/checkpoint_family.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "graph/support/error_category.h"
#include "graph/training/training_graph.h"
#include "gtest/gtest.h"
#include "tests/runtime/data/temp_folder.h"
#include "tests/testing/model_writer.h"

namespace partita {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CheckpointFamilyTest : public ::testing::Test {
 protected:
  static Graph Model(int64_t width) {
    ModelWriter m("model", DType::kFloat32);
    return ModelWriter::Get(
        BuildTrainingGraph(m.Finish(m.Linear("fc", m.Input({4, 3}), width)), {}));
  }

  TrainingState At(int64_t step) const {
    TrainingState state = ModelWriter::Get(InitialState(graph_, static_cast<uint64_t>(step)));
    state.step = step;
    state.position = {.epoch = step / 16, .batch = step % 16};
    state.samples = 64;
    return state;
  }
  void Save(const std::string& path, int64_t step) const {
    ASSERT_EQ(SaveCheckpoint(path, graph_, At(step)), absl::OkStatus());
  }
  std::string SaveStep(int64_t step) const {
    const std::string path = StepCheckpointPath(name_, step);
    Save(path, step);
    return path;
  }
  static void Damage(const std::string& path) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-3, std::ios::end);
    file.put('\x5a');
  }
  ResumePoint Find(const std::string& where) const {
    return ModelWriter::Get(FindResumePoint(where, graph_));
  }
  std::string Refusal(const std::string& where) const {
    return std::string(FindResumePoint(where, graph_).status().message());
  }
  std::vector<std::string> Files() const {
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / ".")) {
      files.push_back(entry.path().filename());
    }
    std::ranges::sort(files);
    return files;
  }

  const TempFolder folder_;
  const std::string name_ = folder_ / "run.st";
  const Graph graph_ = Model(5);
};

TEST_F(CheckpointFamilyTest, StepsAreOrderedAsNumbersAndOtherNamesAreNone) {
  for (int64_t step : {9, 1000000, 20, 999999}) SaveStep(step);
  for (const char* other : {"run.st.step-", "run.st.step-1x", "run.st.step--1", "run.st.step-+1",
                            "other.st.step-000003", "run.st.step-99999999999999999999"}) {
    std::ofstream(folder_ / other) << "x";
  }
  std::vector<int64_t> steps;
  for (const auto& found : ModelWriter::Get(StepCheckpoints(name_))) steps.push_back(found.step);
  EXPECT_THAT(steps, ElementsAre(9, 20, 999999, 1000000));
  EXPECT_EQ(StepCheckpointPath("a/b", 100), "a/b.step-000100");
  EXPECT_THAT(ModelWriter::Get(StepCheckpoints(folder_ / "absent/run")), IsEmpty());
}

TEST_F(CheckpointFamilyTest, TheNewestThatIsWholeIsTakenAndTheOthersNamed) {
  Save(name_, 10);
  Save(BestCheckpointPath(name_), 12);
  Save(FailedStatePath(name_), 99);
  SaveStep(20);
  SaveStep(30);
  ResumePoint found = Find(name_);
  EXPECT_EQ(found.path, StepCheckpointPath(name_, 30));
  EXPECT_EQ(found.state, At(30));
  EXPECT_THAT(found.passed_over, IsEmpty());

  Damage(StepCheckpointPath(name_, 30));
  std::filesystem::resize_file(StepCheckpointPath(name_, 20), 100);
  found = Find(name_);
  EXPECT_EQ(found.path, BestCheckpointPath(name_));
  EXPECT_EQ(found.state, At(12));
  ASSERT_EQ(found.passed_over.size(), 2u);
  EXPECT_EQ(found.passed_over[0].path, StepCheckpointPath(name_, 20));
  EXPECT_THAT(found.passed_over[0].why, HasSubstr("is the file cut off?"));
  EXPECT_EQ(found.passed_over[1].path, StepCheckpointPath(name_, 30));
  EXPECT_THAT(found.passed_over[1].why, HasSubstr("is damaged"));

  Damage(BestCheckpointPath(name_));
  EXPECT_EQ(Find(name_).state, At(10));
  Damage(name_);
  EXPECT_THAT(Refusal(name_), AllOf(HasSubstr("none of the checkpoints of"),
                                    HasSubstr("step-000030"), HasSubstr(".best' is damaged")));
  EXPECT_EQ(FindResumePoint(name_, graph_).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(CheckpointFamilyTest, OneFileIsTakenAsItIs) {
  Save(name_, 10);
  EXPECT_EQ(Find(name_).path, name_);
  SaveStep(20);
  SaveStep(30);
  EXPECT_EQ(Find(StepCheckpointPath(name_, 20)).state, At(20));
  Save(FailedStatePath(name_), 25);
  EXPECT_EQ(Find(FailedStatePath(name_)).state, At(25));
  Damage(StepCheckpointPath(name_, 20));
  EXPECT_THAT(Refusal(StepCheckpointPath(name_, 20)), HasSubstr("is damaged"));
  EXPECT_EQ(FindResumePoint(folder_ / "absent", graph_).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(CheckpointFamilyTest, AFolderOfOneRunIsTakenForItsName) {
  EXPECT_EQ(FindResumePoint(folder_ / ".", graph_).status().code(), absl::StatusCode::kNotFound);
  Save(name_, 10);
  SaveStep(20);
  std::ofstream(folder_ / "notes.txt") << "x";
  EXPECT_EQ(Find(folder_ / ".").state, At(20));
  Save(folder_ / "other.st.best", 40);
  EXPECT_THAT(Refusal(folder_ / "."), HasSubstr("of several runs: other.st, run.st"));
}

TEST_F(CheckpointFamilyTest, OfAnotherModelIsPassedOver) {
  SaveStep(10);
  const Graph wide = Model(6);
  TrainingState state = ModelWriter::Get(InitialState(wide, 1));
  state.step = 20;
  state.position = {.epoch = 1, .batch = 4};
  state.samples = 64;
  ASSERT_EQ(SaveCheckpoint(StepCheckpointPath(name_, 20), wide, state), absl::OkStatus());
  const ResumePoint found = Find(name_);
  EXPECT_EQ(found.state, At(10));
  ASSERT_EQ(found.passed_over.size(), 1u);
  EXPECT_THAT(found.passed_over[0].why, HasSubstr("another model"));
}

TEST_F(CheckpointFamilyTest, OldOnesGoAndLaterOnesStay) {
  for (int64_t step : {10, 20, 30, 40, 70}) SaveStep(step);
  ASSERT_EQ(RemoveOldCheckpoints(name_, 40, 3), absl::OkStatus());
  EXPECT_THAT(Files(), ElementsAre("run.st.step-000020", "run.st.step-000030", "run.st.step-000040",
                                   "run.st.step-000070"));
  ASSERT_EQ(RemoveOldCheckpoints(name_, 40, 100), absl::OkStatus());
  EXPECT_EQ(Files().size(), 4u);
  ASSERT_EQ(RemoveOldCheckpoints(name_, 40, 1), absl::OkStatus());
  EXPECT_THAT(Files(), ElementsAre("run.st.step-000040", "run.st.step-000070"));
}

TEST_F(CheckpointFamilyTest, RunsThatWouldMixTheirCheckpointsAreRefused) {
  const auto free = [&](const ResumePoint* from) {
    const absl::Status status = CheckFamilyIsFree(name_, graph_, from);
    EXPECT_TRUE(status.ok() || IsUsageError(status)) << status;
    return status.ok();
  };
  EXPECT_TRUE(free(nullptr));
  SaveStep(10);
  SaveStep(20);
  EXPECT_FALSE(free(nullptr)) << "begins anew";
  ResumePoint newest = Find(name_), older = Find(StepCheckpointPath(name_, 10));
  EXPECT_TRUE(free(&newest));
  const ResumePoint in_folder =
      Find(folder_ / "../" + folder_.path().substr(folder_.path().rfind('/') + 1));
  EXPECT_NE(in_folder.path, newest.path);
  EXPECT_TRUE(free(&in_folder)) << "another path to the same file";
  EXPECT_FALSE(free(&older)) << "goes back";
  Damage(StepCheckpointPath(name_, 20));
  newest = Find(name_);
  EXPECT_TRUE(free(&newest)) << "what was passed over is written again";
  const std::string elsewhere = folder_ / "elsewhere.st";
  Save(elsewhere, 30);
  const ResumePoint other = Find(elsewhere);
  EXPECT_FALSE(free(&other)) << "comes from elsewhere";
  std::filesystem::remove(StepCheckpointPath(name_, 10));
  std::filesystem::remove(StepCheckpointPath(name_, 20));
  Save(name_, 30);
  EXPECT_TRUE(free(&other)) << "NAME is replaced in the end";
  EXPECT_FALSE(free(nullptr)) << "until then it would be resumed from";
}

TEST_F(CheckpointFamilyTest, ARunThatWritesAtItsEndOnlyIsNotMixedWithWhatAnotherWroteOnItsWay) {
  const auto free = [&](const ResumePoint* from) {
    const absl::Status status = CheckFamilyIsFree(name_, graph_, from, CheckpointTimes::kAtTheEnd);
    EXPECT_TRUE(status.ok() || IsUsageError(status)) << status;
    return status.ok();
  };
  Save(name_, 30);
  EXPECT_TRUE(free(nullptr)) << "NAME is replaced, as was asked for";
  SaveStep(10);
  EXPECT_FALSE(free(nullptr)) << "a resume could take what the other run left";
  const ResumePoint newest = Find(name_);
  EXPECT_TRUE(free(&newest));
  SaveStep(20);
  const ResumePoint older = Find(StepCheckpointPath(name_, 10));
  EXPECT_FALSE(free(&older)) << "goes back";
}

}  // namespace
}  // namespace partita
