// Which plan files give way to a new plan, and where it goes when they do not.
#include "tools/workflow/plan_place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "graph/parallel/plan_io.h"
#include "graph/support/file.h"
#include "planner/planner.h"
#include "tests/testing/ok.h"
#include "tools/workflow/plan_pricing.h"
#include "tools/workflow/training_model.h"

namespace partita {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class PlanPlaceTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string At(const std::string& name) const { return folder_ + "/" + name; }

  static PricedMachine Price(const std::string& machine) {
    MachineRequest request;
    request.machine = machine;
    request.devices = 2;
    request.oversubscribe = machine == "local";
    request.profile = "none.db";
    return Ok(PriceMachine(request));
  }

  Plan Expert(const std::string& name, const PricedMachine& priced, const TrainingModel& model) {
    const Evaluator evaluator = EvaluatorOn(priced, model.graph);
    PlanRequest request;
    request.strategy = name;
    Plan plan = Ok(MakePlan(evaluator, request)).plan;
    plan.model = model.label;
    plan.provenance.machine = priced.machine->name;
    plan.choices.precision = priced.precision;
    return plan;
  }
  Plan Expert(const std::string& name) { return Expert(name, priced_, model_); }

  std::string Write(const Plan& plan, const std::string& name) const {
    EXPECT_EQ(WritePlanFile(plan, model_.graph, At(name)), absl::OkStatus());
    return At(name);
  }

  PlanPlace Place(const Plan& plan, const std::string& path, bool interrupted = false) const {
    return Ok(PlaceOf({.graph = model_.graph,
                       .plan = plan,
                       .priced = priced_,
                       .path = path,
                       .interrupted = interrupted}));
  }

  std::string folder_;
  const PricedMachine priced_ = Price("p100-4x4");
  const TrainingModel model_ = Ok(LoadTrainingModel({"lenet", 64}));
  // In descending order of their times.
  const Plan slow_ = Expert("spatial"), middle_ = Expert("single_device"),
             fast_ = Expert("data_parallel");
};

TEST_F(PlanPlaceTest, ExpertsTakeDifferentTimes) {
  ASSERT_GT(slow_.prediction->time, middle_.prediction->time);
  ASSERT_GT(middle_.prediction->time, fast_.prediction->time);
}

TEST_F(PlanPlaceTest, FreePlacesAreTaken) {
  EXPECT_EQ(Place(slow_, At("new.plan.textproto")).path, At("new.plan.textproto"));
  EXPECT_EQ(Place(slow_, "/dev/null", true).path, "/dev/null");
  EXPECT_EQ(WriteFileAtomically(At("empty"), ""), absl::OkStatus());
  EXPECT_EQ(Place(slow_, At("empty"), true).path, At("empty"));
}

TEST_F(PlanPlaceTest, SlowerAndEqualPlansGiveWay) {
  const std::string path = Write(middle_, "x.plan.textproto");
  for (const Plan& plan : {middle_, fast_}) {
    const PlanPlace place = Place(plan, path);
    EXPECT_EQ(place.path, path);
    EXPECT_THAT(place.kept, IsEmpty());
    EXPECT_THAT(place.replaced, IsEmpty());
  }
  EXPECT_EQ(Place(fast_, path, true).path, path);
}

TEST_F(PlanPlaceTest, FasterPlansStay) {
  const std::string path = Write(middle_, "x.plan.textproto");
  const PlanPlace place = Place(slow_, path);
  EXPECT_EQ(place.path, At("x.slower.plan.textproto"));
  EXPECT_EQ(place.kept, "faster");
  EXPECT_EQ(place.kept_time, middle_.prediction->time);
}

TEST_F(PlanPlaceTest, InterruptedResultsReplaceOnlySlowerPlans) {
  const std::string path = Write(middle_, "x.plan.textproto");
  EXPECT_EQ(Place(slow_, path, true).path, At("x.interrupted.plan.textproto"));
  const PlanPlace equal = Place(middle_, path, true);
  EXPECT_EQ(equal.path, At("x.interrupted.plan.textproto"));
  EXPECT_EQ(equal.kept, "as fast");
  const std::string other = Write(Expert("data_parallel", Price("ethernet-4x1g"), model_), "other");
  EXPECT_EQ(Place(fast_, other, true).path, At("other.interrupted"));
}

// What is priced is the plan, not what its file says.
TEST_F(PlanPlaceTest, PredictionsOfFilesAreNotBelieved) {
  Plan boasting = middle_, modest = middle_;
  boasting.prediction->time = Nanos(1);
  modest.prediction->time = slow_.prediction->time + Nanos(1);
  EXPECT_EQ(Place(fast_, Write(boasting, "boasting")).path, At("boasting"));
  EXPECT_EQ(Place(slow_, Write(modest, "modest")).kept_time, middle_.prediction->time);
}

TEST_F(PlanPlaceTest, PlacesBesideAreKeptByTheSameRule) {
  const std::string path = Write(fast_, "x.textproto");
  EXPECT_EQ(Place(middle_, path).path, Write(middle_, "x.slower.textproto"));
  EXPECT_EQ(Place(middle_, path).path, At("x.slower.textproto"));
  EXPECT_EQ(Place(slow_, path).path, Write(slow_, "x.slower2.textproto"));
  EXPECT_EQ(Place(middle_, path).path, At("x.slower.textproto"));
}

TEST_F(PlanPlaceTest, NamesWithoutEndingsGetTheWordAtTheEnd) {
  std::filesystem::create_directories(At("a.b"));
  for (const std::string name : {"plan", ".plan", "a.b/plan"}) {
    EXPECT_EQ(Place(slow_, Write(fast_, name)).path, At(name + ".slower"));
  }
}

TEST_F(PlanPlaceTest, PlansOfSomethingElseGiveWayAndAreNamed) {
  const TrainingModel smaller = Ok(LoadTrainingModel({"lenet", 32}));
  const std::string path = At("x");
  EXPECT_EQ(WritePlanFile(Expert("data_parallel", priced_, smaller), smaller.graph, path),
            absl::OkStatus());
  PlanPlace place = Place(slow_, path);
  EXPECT_EQ(place.path, path);
  EXPECT_THAT(place.replaced, HasSubstr("'lenet' at batch 32"));
  Write(Expert("data_parallel", Price("ethernet-4x1g"), model_), "x");
  place = Place(slow_, path);
  EXPECT_EQ(place.path, path);
  EXPECT_THAT(place.replaced, HasSubstr("machine 'ethernet-4x1g', 2 devices, float32"));
}

TEST_F(PlanPlaceTest, PlansThatCannotBeRunGiveWay) {
  Plan broken = fast_;
  std::reverse(broken.order->tasks.begin(), broken.order->tasks.end());
  const PlanPlace place = Place(slow_, Write(broken, "x"));
  EXPECT_EQ(place.path, At("x"));
  EXPECT_THAT(place.replaced, HasSubstr("cannot be run"));
}

TEST_F(PlanPlaceTest, PlansThatNameNoMachineAreToldByItsTopology) {
  Plan nameless = fast_;
  nameless.provenance.machine = "";
  EXPECT_EQ(Place(slow_, Write(nameless, "x")).kept, "faster");
}

TEST_F(PlanPlaceTest, DamagedPlansAndOtherFilesStay) {
  const std::string text = PlanText(slow_, model_.graph);
  for (const std::string& content : {text.substr(0, text.size() / 2), std::string("a diary\n")}) {
    EXPECT_EQ(WriteFileAtomically(At("x.plan.textproto"), content), absl::OkStatus());
    const PlanPlace place = Place(fast_, At("x.plan.textproto"));
    EXPECT_EQ(place.path, At("x.new.plan.textproto"));
    EXPECT_THAT(place.kept, HasSubstr("cannot be read as a plan"));
  }
}

TEST_F(PlanPlaceTest, WhatIsAskedForIsReplaced) {
  const std::string plan = Write(fast_, "x"), diary = At("diary");
  EXPECT_EQ(WriteFileAtomically(diary, "a diary\n"), absl::OkStatus());
  NewPlan wanted{.graph = model_.graph, .plan = slow_, .priced = priced_, .path = plan};
  wanted.interrupted = true;
  wanted.replace_plans = true;
  EXPECT_EQ(Ok(PlaceOf(wanted)).path, plan);
  wanted.path = diary;
  EXPECT_EQ(Ok(PlaceOf(wanted)).path, At("diary.interrupted"));
  wanted.replace = true;
  EXPECT_EQ(Ok(PlaceOf(wanted)).path, diary);
}

}  // namespace
}  // namespace partita
