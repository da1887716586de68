#include "graph/support/file_writer.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <thread>

#include "graph/support/file.h"
#include "graph/support/temporary.h"
#include "tests/runtime/data/temp_folder.h"

// The random part of the next temporary name, which nobody can know otherwise.
static std::atomic<int64_t> g_next_random{-1};

extern "C" ssize_t getrandom(void* to, size_t bytes, unsigned flags) {
  const int64_t fixed = g_next_random.exchange(-1);
  if (fixed < 0 || bytes != sizeof fixed) return syscall(SYS_getrandom, to, bytes, flags);
  std::memcpy(to, &fixed, sizeof fixed);
  return sizeof fixed;
}

namespace partita {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

mode_t ModeOf(const std::string& path) {
  struct stat info{};
  EXPECT_EQ(stat(path.c_str(), &info), 0) << path;
  return info.st_mode & 07777;
}

std::vector<std::string> NamesIn(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

// What a function does as a user without privileges: 0 if it gives true. Skips nothing: where the
// test itself has none, it runs as it is.
int AsNobody(const std::function<bool()>& does) {
  const pid_t child = fork();
  if (child == 0) {
    constexpr uid_t kNobody = 65534;
    if (geteuid() == 0 && (setgid(kNobody) != 0 || setuid(kNobody) != 0)) _exit(2);
    _exit(does() ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

TEST(FileWriterTest, ANewFileHasTheModeOfTheMask) {
  const TempFolder folder;
  const mode_t mask = umask(027);
  EXPECT_TRUE(WriteFileAtomically(folder / "new", "content").ok());
  umask(mask);
  EXPECT_EQ(ModeOf(folder / "new"), 0640u);
  EXPECT_EQ(FileContent(folder / "new"), "content");
  EXPECT_THAT(NamesIn(folder.path()), ::testing::ElementsAre("new"));
}

TEST(FileWriterTest, AFileThatIsReplacedKeepsItsMode) {
  const TempFolder folder;
  for (const mode_t mode : {0600u, 0644u, 0664u, 0751u, 0666u}) {
    const std::string path = folder.Write("old", "old");
    ASSERT_EQ(chmod(path.c_str(), mode), 0);
    ASSERT_TRUE(WriteFileAtomically(path, "new").ok());
    EXPECT_EQ(ModeOf(path), mode);
    EXPECT_EQ(FileContent(path), "new");
  }
}

TEST(FileWriterTest, AFileThatIsReplacedKeepsItsOwner) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  const TempFolder folder;
  const std::string path = folder.Write("theirs", "old");
  ASSERT_EQ(chown(path.c_str(), 65534, 65534), 0);
  ASSERT_EQ(chmod(path.c_str(), 0640), 0);
  ASSERT_TRUE(WriteFileAtomically(path, "new").ok());
  struct stat info{};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_uid, 65534u);
  EXPECT_EQ(info.st_gid, 65534u);
  EXPECT_EQ(info.st_mode & 07777, 0640u);
}

TEST(FileWriterTest, WhereTheGroupCannotBeKeptAnotherGetsNoMoreThanEverybody) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can make a file of another group";
  const TempFolder folder;
  ASSERT_EQ(chmod(folder.path().c_str(), 0777), 0);
  const std::string path = folder.Write("shared", "old");
  ASSERT_EQ(chown(path.c_str(), 65534, 12345), 0);
  ASSERT_EQ(chmod(path.c_str(), 0664), 0);
  EXPECT_EQ(AsNobody([&] { return WriteFileAtomically(path, "new").ok(); }), 0);
  EXPECT_EQ(FileContent(path), "new");
  EXPECT_EQ(ModeOf(path), 0644u);
}

TEST(FileWriterTest, AReadOnlyFileIsNotReplaced) {
  const TempFolder folder;
  ASSERT_EQ(chmod(folder.path().c_str(), 0777), 0);
  const std::string path = folder.Write("kept", "old");
  ASSERT_EQ(chmod(path.c_str(), 0444), 0);
  EXPECT_EQ(AsNobody([&] {
              return absl::IsPermissionDenied(WriteFileAtomically(path, "new")) &&
                     absl::IsPermissionDenied(CheckWritableFile(path));
            }),
            0);
  EXPECT_EQ(FileContent(path), "old");
}

TEST(FileWriterTest, LinksStayAndWhatTheyLeadToIsReplaced) {
  const TempFolder folder;
  folder.Write("there/real", "old");
  fs::create_symlink("there/real", folder / "relative");
  fs::create_symlink(folder / "relative", folder / "absolute");
  ASSERT_TRUE(WriteFileAtomically(folder / "absolute", "new").ok());
  EXPECT_EQ(FileContent(folder / "there/real"), "new");
  EXPECT_EQ(fs::read_symlink(folder / "absolute"), folder / "relative");
  EXPECT_EQ(fs::read_symlink(folder / "relative"), "there/real");
  EXPECT_FALSE(fs::is_symlink(folder / "there/real"));
}

TEST(FileWriterTest, ALinkThatDanglesMakesWhatItLeadsTo) {
  const TempFolder folder;
  fs::create_directory(folder / "there");
  fs::create_symlink("there/absent", folder / "link");
  EXPECT_TRUE(CheckWritableFile(folder / "link").ok());
  ASSERT_TRUE(WriteFileAtomically(folder / "link", "new").ok());
  EXPECT_EQ(FileContent(folder / "there/absent"), "new");
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
}

TEST(FileWriterTest, ACircleOfLinksAndALinkIntoNowhereAreNamed) {
  const TempFolder folder;
  fs::create_symlink("b", folder / "a");
  fs::create_symlink("a", folder / "b");
  fs::create_symlink("nowhere/file", folder / "c");
  for (const char* name : {"a", "c"}) {
    const absl::Status status = WriteFileAtomically(folder / name, "new");
    EXPECT_THAT(std::string(status.message()), HasSubstr(folder / name));
    EXPECT_EQ(CheckWritableFile(folder / name), status);
  }
  EXPECT_THAT(NamesIn(folder.path()), ::testing::ElementsAre("a", "b", "c"));
}

TEST(FileWriterTest, ADeviceIsWrittenAndStays) {
  const TempFolder folder;
  std::string device = "/dev/null";
  if (geteuid() == 0) {  // one of its own: a fault costs the machine nothing
    device = folder / "null";
    if (mknod(device.c_str(), S_IFCHR | 0666, 1 << 8 | 3) != 0) GTEST_SKIP() << "no devices here";
    const int file = open(device.c_str(), O_WRONLY);
    if (file < 0) GTEST_SKIP() << "no devices in the folder for temporary files";
    close(file);
  }
  EXPECT_TRUE(CheckWritableFile(device).ok());
  EXPECT_TRUE(WriteFileAtomically(device, "content").ok());
  EXPECT_TRUE(fs::is_character_file(device));
}

TEST(FileWriterTest, AFullDeviceIsAFailureOfTheDevice) {
  const absl::Status status = WriteFileAtomically("/dev/full", "content");
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("'/dev/full'"));
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
}

TEST(FileWriterTest, APipeIsWrittenToWhoReadsIt) {
  const TempFolder folder;
  const std::string pipe = folder / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const std::string content(1 << 20, 'x');  // more than a pipe holds
  EXPECT_TRUE(CheckWritableFile(pipe).ok());
  std::string read;
  std::thread reader([&] {
    usleep(50'000);  // the writer waits
    read = FileContent(pipe);
  });
  EXPECT_TRUE(WriteFileAtomically(pipe, content).ok());
  reader.join();
  EXPECT_EQ(read, content);
  EXPECT_TRUE(fs::is_fifo(pipe));
}

TEST(FileWriterTest, APipeWhoseReaderGoesIsAnError) {
  const TempFolder folder;
  const std::string pipe = folder / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const auto before = std::signal(SIGPIPE, SIG_IGN);
  const int reader = open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  auto writer = FileWriter::Open(pipe);
  ASSERT_TRUE(writer.ok());
  close(reader);
  EXPECT_TRUE(absl::IsUnavailable(writer->Write("content")));
  std::signal(SIGPIPE, before);
}

TEST(FileWriterTest, OpenDescriptorsAreWrittenWhereTheyAre) {
  const TempFolder folder;
  const std::string path = folder.Write("out", "");
  const int file = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  ASSERT_EQ(write(file, "before ", 7), 7);
  fs::create_symlink("/proc/self/fd/" + std::to_string(file), folder / "link");
  EXPECT_TRUE(WriteFileAtomically("/dev/fd/" + std::to_string(file), "content").ok());
  EXPECT_TRUE(WriteFileAtomically(folder / "link", " linked").ok());
  ASSERT_EQ(write(file, " after", 6), 6);
  close(file);
  EXPECT_EQ(FileContent(path), "before content linked after");
  EXPECT_FALSE(CheckWritableFile("/dev/fd/" + std::to_string(file)).ok());
}

TEST(FileWriterTest, PlacesThatCannotHoldAFileAreRefusedBeforeAndWhenWriting) {
  const TempFolder folder;
  folder.Write("file", "old");
  for (const std::string& path :
       {folder.path(), folder / "absent/file", folder / "file/file", folder / "slash/",
        folder / std::string(300, 'x'), std::string()}) {
    const absl::Status status = WriteFileAtomically(path, "new");
    EXPECT_FALSE(status.ok()) << path;
    EXPECT_THAT(std::string(status.message()), HasSubstr("'" + path + "'"));
    EXPECT_EQ(CheckWritableFile(path), status);
  }
  EXPECT_THAT(NamesIn(folder.path()), ::testing::ElementsAre("file"));
}

TEST(FileWriterTest, AFolderThatMayNotBeWrittenIsNamedAndLeftAsItIs) {
  const TempFolder folder;
  const std::string path = folder.Write("closed/file", "old");
  ASSERT_EQ(chmod((folder / "closed").c_str(), 0555), 0);
  ASSERT_EQ(chmod(folder.path().c_str(), 0755), 0);
  ASSERT_EQ(chmod(path.c_str(), 0666), 0);
  EXPECT_EQ(AsNobody([&] {
              const absl::Status status = WriteFileAtomically(path, "new");
              return absl::IsPermissionDenied(status) && CheckWritableFile(path) == status;
            }),
            0);
  EXPECT_EQ(FileContent(path), "old");
}

TEST(FileWriterTest, ANameAsLongAsNamesMayBeIsWritten) {
  const TempFolder folder;
  const std::string path = folder / std::string(255, 'n');
  EXPECT_TRUE(WriteFileAtomically(path, "content").ok());
  EXPECT_EQ(FileContent(path), "content");
}

TEST(FileWriterTest, WithoutCommitTheOldContentStays) {
  const TempFolder folder;
  const std::string path = folder.Write("file", "old");
  {
    auto writer = FileWriter::Open(path);
    ASSERT_TRUE(writer.ok());
    EXPECT_TRUE(writer->Write("new").ok());
    EXPECT_EQ(NamesIn(folder.path()).size(), 2u);
  }
  EXPECT_EQ(FileContent(path), "old");
  EXPECT_THAT(NamesIn(folder.path()), ::testing::ElementsAre("file"));
}

TEST(FileWriterTest, ATargetThatBecomesAPipeMeanwhileIsNotReplaced) {
  const TempFolder folder;
  auto writer = FileWriter::Open(folder / "file");
  ASSERT_TRUE(writer.ok());
  ASSERT_EQ(mkfifo((folder / "file").c_str(), 0600), 0);
  EXPECT_FALSE(writer->Commit().ok());
  EXPECT_TRUE(fs::is_fifo(folder / "file"));
}

TEST(FileWriterTest, WhatIsPlantedAtTheTemporaryNameIsNotWritten) {
  const TempFolder folder;
  const std::string victim = folder.Write("victim", "precious");
  g_next_random = 7;
  const std::string planted = folder / TemporaryName();
  fs::create_symlink(victim, planted);
  g_next_random = 7;
  EXPECT_TRUE(WriteFileAtomically(folder / "file", "new").ok());
  EXPECT_EQ(FileContent(victim), "precious");
  EXPECT_EQ(FileContent(folder / "file"), "new");
  EXPECT_TRUE(fs::is_symlink(planted));
}

TEST(FileWriterTest, ALimitOnTheLengthOfFilesIsAnErrorThatLeavesTheOldContent) {
  const TempFolder folder;
  const std::string path = folder.Write("file", "old");
  const pid_t child = fork();
  if (child == 0) {
    const rlimit limit{.rlim_cur = 4096, .rlim_max = 4096};
    std::signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    _exit(absl::IsUnavailable(WriteFileAtomically(path, std::string(10'000, 'x'))) ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(FileContent(path), "old");
  EXPECT_THAT(NamesIn(folder.path()), ::testing::ElementsAre("file"));
}

TEST(FileWriterTest, AsItComesShowsBeforeTheEndAndFollowsLinks) {
  const TempFolder folder;
  const std::string path = folder.Write("real.csv", "an older and longer one\n");
  fs::create_symlink("real.csv", folder / "log.csv");
  auto writer = FileWriter::OpenAsItComes(folder / "log.csv");
  ASSERT_TRUE(writer.ok());
  EXPECT_TRUE(writer->Write("row\n").ok());
  EXPECT_EQ(FileContent(path), "row\n");
  EXPECT_TRUE(writer->Commit().ok());
  EXPECT_TRUE(fs::is_symlink(folder / "log.csv"));
}

}  // namespace
}  // namespace partita
