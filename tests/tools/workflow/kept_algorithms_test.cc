#include "tools/workflow/profiling/kept_algorithms.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "runtime/backend/backends.h"
#include "runtime/executor/executor_setup.h"

namespace partita {
namespace {

// Devices that measure, as GPUs do; nothing is opened.
class MeasuringBackend : public Backend {
 public:
  std::string name() const override { return "measuring"; }
  absl::Status Available() const override { return absl::OkStatus(); }
  bool RunsOnHost() const override { return false; }
  absl::StatusOr<std::unique_ptr<BackendDevice>> Open(const DeviceSpec&) const override {
    return absl::UnimplementedError("not for opening");
  }
};

class KeptAlgorithmsTest : public ::testing::Test {
 protected:
  KeptAlgorithmsTest()
      : path_((std::filesystem::temp_directory_path() /
               ("kept_algorithms_test_" + std::to_string(getpid()) + ".db"))
                  .string()) {
    std::filesystem::remove(path_);
  }
  ~KeptAlgorithmsTest() override { std::filesystem::remove(path_); }

  const std::string path_;
  std::vector<PlacedDevice> gpus_ = VirtualDevices(std::make_shared<MeasuringBackend>(), 2);
  std::vector<PlacedDevice> cores_ = VirtualDevices(*MakeBackend("reference"), 2);
};

TEST_F(KeptAlgorithmsTest, WhatOneRunMeasuresTheNextOneFinds) {
  {
    const auto kept = KeptAlgorithms::GiveTo(gpus_, path_);
    ASSERT_TRUE(kept.ok()) << kept.status();
    EXPECT_TRUE((*kept)->Save().ok());
    EXPECT_FALSE(std::filesystem::exists(path_));  // nothing was measured
    EXPECT_EQ(gpus_[0].spec.algorithms, gpus_[1].spec.algorithms);
    EXPECT_TRUE(gpus_[1].spec.measure_algorithms);
    gpus_[1].spec.algorithms->Add({"gpu", "a product", "algorithm 7"});
    EXPECT_TRUE((*kept)->Save().ok());
  }
  gpus_ = VirtualDevices(std::make_shared<MeasuringBackend>(), 2);
  const auto kept = KeptAlgorithms::GiveTo(gpus_, path_);
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ(gpus_[0].spec.algorithms->Find("gpu", "a product"), "algorithm 7");
  EXPECT_TRUE((*kept)->store().Added().empty());
}

TEST_F(KeptAlgorithmsTest, ADatabaseThatMayNotBeWrittenIsSaid) {
  const auto kept = KeptAlgorithms::GiveTo(gpus_, path_ + ".absent/profile.db");
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ((*kept)->SaveOrSay().value_or("error"), "");  // nothing was measured
  gpus_[0].spec.algorithms->Add({"gpu", "a product", "algorithm 7"});
  EXPECT_FALSE((*kept)->Save().ok());
  const auto note = (*kept)->SaveOrSay();
  ASSERT_TRUE(note.ok()) << note.status();
  EXPECT_NE(note->find("are not kept: "), std::string::npos) << *note;
  EXPECT_NE(note->find("--profile"), std::string::npos) << *note;
}

TEST_F(KeptAlgorithmsTest, DevicesWithAStoreOfTheirOwnKeepIt) {
  AlgorithmStore own;
  gpus_[0].spec.algorithms = &own;
  gpus_[0].spec.measure_algorithms = false;
  const auto kept = KeptAlgorithms::GiveTo(gpus_, path_);
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ(gpus_[0].spec.algorithms, &own);
  EXPECT_FALSE(gpus_[0].spec.measure_algorithms);
  EXPECT_EQ(gpus_[1].spec.algorithms, &(*kept)->store());
}

TEST_F(KeptAlgorithmsTest, ADatabaseIsReadForDevicesThatMeasureOnly) {
  std::ofstream(path_) << "this is no database, but a text that is long enough to be read as one";
  EXPECT_EQ(KeptAlgorithms::GiveTo(gpus_, path_).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(KeptAlgorithms::GiveTo(cores_, path_).ok());
  EXPECT_EQ(cores_[0].spec.algorithms, nullptr);
}

}  // namespace
}  // namespace partita
