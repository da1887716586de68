#include "graph/support/temporary.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "graph/support/file.h"
#include "graph/support/file_writer.h"
#include "tests/runtime/data/temp_folder.h"

namespace partita {
namespace {

namespace fs = std::filesystem;

// Our own name with one part replaced: 1 boot, 2 namespace, 3 process, 4 start.
std::string NameWith(size_t part, const std::string& text) {
  std::vector<std::string> parts = absl::StrSplit(TemporaryName(), '-');
  parts[part] = text;
  return absl::StrJoin(parts, "-");
}

// The id of a process that has ended, and been waited for.
std::string DeadProcess() {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  waitpid(child, nullptr, 0);
  return absl::StrCat(child);
}

TEST(TemporaryTest, NamesAreOfTheProcessAndDiffer) {
  EXPECT_NE(TemporaryName(), TemporaryName());
  const std::vector<std::string> parts = absl::StrSplit(TemporaryName(), '-');
  ASSERT_EQ(parts.size(), 6u);
  EXPECT_EQ(parts[0], ".partita");
  EXPECT_EQ(parts[3], absl::StrCat(getpid()));
}

TEST(TemporaryTest, WhatAKilledProcessLeftIsRemovedByTheNextWriter) {
  const TempFolder folder;
  const std::string path = folder.Write("file", "old");
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    auto writer = FileWriter::Open(path);
    const bool ok = writer.ok() && writer->Write("half").ok();
    (void)!write(ready[1], ok ? "y" : "n", 1);
    pause();
  }
  char said = 0;
  ASSERT_EQ(read(ready[0], &said, 1), 1);
  ASSERT_EQ(said, 'y');
  const auto entries = [&] {
    return std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator());
  };
  // Another's that still runs stays.
  EXPECT_TRUE(WriteFileAtomically(path, "mine").ok());
  EXPECT_EQ(entries(), 2);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_EQ(FileContent(path), "mine");
  EXPECT_TRUE(WriteFileAtomically(path, "later").ok());
  EXPECT_EQ(entries(), 1);
  EXPECT_EQ(FileContent(path), "later");
  close(ready[0]);
  close(ready[1]);
}

TEST(TemporaryTest, OnlyWhatIsStaleForSureIsRemoved) {
  const TempFolder folder;
  const std::string dead = DeadProcess();
  const std::string stale = NameWith(3, dead), reused = NameWith(4, "1");
  const std::vector<std::string> kept = {TemporaryName(),    // a process that runs
                                         NameWith(2, "77"),  // of another container
                                         NameWith(1, "0"),   // of a boot that is not known
                                         ".partita-notes",   // of somebody else
                                         NameWith(3, "letters"), NameWith(3, "-1"), "file"};
  for (const std::string& name : kept) folder.Write(name, "kept");
  for (const std::string& name : {stale, reused}) folder.Write(name, "stale");
  RemoveStaleTemporaries(folder.path());
  for (const std::string& name : kept) EXPECT_TRUE(fs::exists(folder / name)) << name;
  EXPECT_FALSE(fs::exists(folder / stale));
  EXPECT_FALSE(fs::exists(folder / reused));
}

TEST(TemporaryTest, WhatAnotherHostOfASharedFileSystemOrAnotherProcessHoldsStays) {
  const TempFolder folder;
  // The ids of processes of another host say nothing here, but who holds a file has locked it.
  const std::string held = folder.Write(NameWith(3, DeadProcess()), "held");
  const int file = open(held.c_str(), O_RDONLY | O_CLOEXEC);
  LockTemporary(file);
  RemoveStaleTemporaries(folder.path());
  EXPECT_TRUE(fs::exists(held));
  close(file);
  RemoveStaleTemporaries(folder.path());
  EXPECT_FALSE(fs::exists(held));
}

TEST(TemporaryTest, OfAnEarlierBootItIsRemovedWhereOnlyThisHostWrites) {
  // /dev/shm is memory of this host.
  const std::string name = "/dev/shm/partita_" + std::string(6, 'X');
  std::string folder = name;
  if (mkdtemp(folder.data()) == nullptr) GTEST_SKIP() << "no /dev/shm";
  std::ofstream(folder + "/" + NameWith(1, "123abc")) << "left";
  RemoveStaleTemporaries(folder);
  EXPECT_TRUE(fs::is_empty(folder));
  fs::remove_all(folder);
}

TEST(TemporaryTest, AStaleNameThatIsALinkIsNotFollowed) {
  const TempFolder folder;
  const std::string victim = folder.Write("precious/file", "content");
  fs::create_symlink(folder / "precious", folder / NameWith(3, DeadProcess()));
  RemoveStaleTemporaries(folder.path());
  EXPECT_EQ(FileContent(victim), "content");
}

TEST(TemporaryTest, AFolderIsItsOwnersAndGoesWithItsContent) {
  const TempFolder base;
  setenv("TMPDIR", base.path().c_str(), 1);
  const std::string stale = base / NameWith(3, DeadProcess());
  fs::create_directories(stale + "/inner");
  std::string path;
  {
    const auto folder = TemporaryFolder::Create();
    ASSERT_TRUE(folder.ok()) << folder.status();
    path = folder->path();
    EXPECT_EQ(fs::status(path).permissions(), fs::perms::owner_all);
    EXPECT_FALSE(fs::exists(stale));
    std::ofstream(path + "/file") << "content";
  }
  EXPECT_TRUE(fs::is_empty(base.path()));
  setenv("TMPDIR", (base / "absent").c_str(), 1);
  EXPECT_TRUE(absl::IsUnavailable(TemporaryFolder::Create().status()));
  unsetenv("TMPDIR");
}

}  // namespace
}  // namespace partita
