#include "graph/support/mapped_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <numeric>
#include <thread>
#include <vector>

#include "tests/runtime/data/temp_folder.h"

namespace partita {
namespace {

using ::testing::HasSubstr;

constexpr size_t kBytes = 100'000;  // many pages

int64_t SumOf(const MappedFile& file) {
  const auto bytes = file.bytes();
  return std::accumulate(bytes.begin(), bytes.end(), int64_t{0},
                         [](int64_t sum, std::byte b) { return sum + std::to_integer<int>(b); });
}

TEST(MappedFileTest, AWholeFileIsItsBytes) {
  const TempFolder folder;
  const auto file = MappedFile::Open(folder.Write("file", std::string(kBytes, '\1')));
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(SumOf(*file), static_cast<int64_t>(kBytes));
  EXPECT_TRUE(file->Check().ok());
  const auto empty = MappedFile::Open(folder.Write("empty", ""));
  ASSERT_TRUE(empty.ok());
  EXPECT_TRUE(empty->bytes().empty());
  EXPECT_TRUE(empty->Check().ok());
}

TEST(MappedFileTest, WhatIsCutOffReadsAsZerosAndIsNamed) {
  const TempFolder folder;
  const std::string path = folder.Write("file", std::string(kBytes, '\1'));
  for (const size_t left : {kBytes - 1, kBytes / 2, size_t{0}}) {
    folder.Write("file", std::string(kBytes, '\1'));
    const auto file = MappedFile::Open(path);
    ASSERT_TRUE(file.ok());
    std::filesystem::resize_file(path, left);
    EXPECT_EQ(SumOf(*file), static_cast<int64_t>(left));
    const absl::Status status = file->Check();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("'" + path + "'"));
  }
}

TEST(MappedFileTest, AFileThatIsWholeAgainIsStillKnownToHaveBeenCutOff) {
  const TempFolder folder;
  const std::string path = folder.Write("file", std::string(kBytes, '\1'));
  const auto file = MappedFile::Open(path);
  ASSERT_TRUE(file.ok());
  std::filesystem::resize_file(path, 0);
  EXPECT_EQ(SumOf(*file), 0);
  std::filesystem::resize_file(path, kBytes);
  EXPECT_FALSE(file->Check().ok());
  // What is opened later is judged by itself.
  const auto again = MappedFile::Open(path);
  EXPECT_TRUE(again.ok() && again->Check().ok());
}

TEST(MappedFileTest, ManyThreadsMayReadAndOpenWhileFilesAreCutOff) {
  const TempFolder folder;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&folder, t] {
      for (int round = 0; round < 20; ++round) {
        const std::string path =
            folder.Write("file" + std::to_string(t), std::string(kBytes, '\1'));
        const auto file = MappedFile::Open(path);
        ASSERT_TRUE(file.ok());
        if (round % 2 == 0) std::filesystem::resize_file(path, 0);
        EXPECT_EQ(SumOf(*file), round % 2 == 0 ? 0 : static_cast<int64_t>(kBytes));
        EXPECT_EQ(file->Check().ok(), round % 2 != 0);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(MappedFileTest, AFaultElsewhereStillEndsTheProcess) {
  const TempFolder folder;
  const std::string path = folder.Write("file", std::string(kBytes, '\1'));
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGBUS, SIG_DFL);
    const auto guarded = MappedFile::Open(path);
    const int file = fileno(std::fopen(folder.Write("other", std::string(10, 'x')).c_str(), "r"));
    const auto* other =
        static_cast<const volatile char*>(mmap(nullptr, kBytes, PROT_READ, MAP_PRIVATE, file, 0));
    _exit(other[kBytes - 1]);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGBUS);
}

}  // namespace
}  // namespace partita
