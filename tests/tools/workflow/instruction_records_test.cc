#include "tools/workflow/instruction_records.h"

#include <cstdint>
#include <cstring>
#include <iostream>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace partita {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kTasks = 5;

std::vector<MeasuredInstruction> Some() {
  return {{TaskId(0), DeviceId(1), false, 0, 100},
          {TaskId(4), DeviceId(1), true, 50, INT64_MAX},
          {TaskId(2), DeviceId(1), false, -3, 7}};
}

TEST(InstructionRecordsTest, InstructionsAreReadAsWritten) {
  const auto read = ReadInstructions(WriteInstructions(Some()), 1, kTasks);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(WriteInstructions(*read), WriteInstructions(Some()));
  EXPECT_EQ((*read)[1].task, TaskId(4));
  EXPECT_TRUE((*read)[1].communication);
  EXPECT_TRUE(ReadInstructions("", 1, kTasks)->empty());
}

TEST(InstructionRecordsTest, PartsOfRecordsAndMoreThanAStepHasAreRefused) {
  const std::string bytes = WriteInstructions(Some());
  for (size_t size = 0; size <= bytes.size(); ++size) {
    const auto read = ReadInstructions(bytes.substr(0, size), 1, kTasks);
    EXPECT_EQ(read.ok(), size % (bytes.size() / 3) == 0) << size;
  }
  const std::vector<MeasuredInstruction> many(1000, Some()[0]);
  const auto read = ReadInstructions(WriteInstructions(many), 1, kTasks);
  EXPECT_TRUE(absl::IsInternal(read.status()));
  EXPECT_THAT(read.status().message(), HasSubstr("rank 1 tells 40000 bytes"));
}

TEST(InstructionRecordsTest, TasksAndDevicesThatAreNotTheRanksAreRefused) {
  for (int64_t task : {int64_t{-1}, kTasks, int64_t{1} << 32, INT64_MIN, INT64_MAX}) {
    std::string bytes = WriteInstructions(Some());
    std::memcpy(bytes.data(), &task, sizeof task);
    const auto read = ReadInstructions(bytes, 1, kTasks);
    EXPECT_TRUE(absl::IsInternal(read.status())) << task;
    EXPECT_THAT(read.status().message(), HasSubstr("wanted: one of 5 tasks, of device 1"));
  }
  EXPECT_TRUE(absl::IsInternal(ReadInstructions(WriteInstructions(Some()), 0, kTasks).status()));
}

TEST(InstructionRecordsTest, DamagedRecordsAreRefusedOrInRange) {
  constexpr int kDamaged = 100'000;
  std::mt19937_64 random(11);
  int accepted = 0;
  for (int k = 0; k < kDamaged; ++k) {
    std::string bytes = WriteInstructions(Some());
    bytes.resize(random() % 4 == 0 ? random() % 200 : bytes.size(), 'x');
    for (uint64_t edits = random() % 4; edits > 0 && !bytes.empty(); --edits) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    const auto read = ReadInstructions(bytes, 1, kTasks);
    if (!read.ok()) continue;
    ++accepted;
    for (const MeasuredInstruction& one : *read) {
      ASSERT_TRUE(one.task.value() >= 0 && one.task.value() < kTasks);
      ASSERT_EQ(one.device, DeviceId(1));
    }
  }
  std::cout << kDamaged << " damaged lists of seed 11, " << accepted << " still lists\n";
  EXPECT_GT(accepted, kDamaged / 20);
}

}  // namespace
}  // namespace partita
