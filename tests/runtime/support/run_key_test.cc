#include "runtime/support/run_key.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "absl/strings/escaping.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/support/hmac.h"

namespace partita {
namespace {

using ::testing::HasSubstr;

const std::string kSecret = "00112233445566778899aabbccddeeff";

// A file in a folder of its own, of mode 0600.
class RunKeyFileTest : public ::testing::Test {
 protected:
  RunKeyFileTest() {
    const std::string name = "run_key_" + std::string(6, 'X');  // as mkdtemp wants it
    std::string folder = (std::filesystem::temp_directory_path() / name).string();
    EXPECT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
  }
  ~RunKeyFileTest() override { std::filesystem::remove_all(folder_); }

  std::string Write(const std::string& text, mode_t mode = 0600) const {
    const std::string path = (folder_ / "key").string();
    std::filesystem::remove(path);
    std::ofstream(path, std::ios::binary) << text;
    chmod(path.c_str(), mode);
    return path;
  }

  std::filesystem::path folder_;
};

// RFC 4231, test case 2.
TEST(HmacTest, ComputesThePublishedExample) {
  EXPECT_EQ(absl::BytesToHexString(HmacSha256("Jefe", "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_TRUE(SameSecret("abc", "abc"));
  EXPECT_FALSE(SameSecret("abc", "abd"));
  EXPECT_FALSE(SameSecret("abc", "ab"));
  EXPECT_NE(RandomBytes(32), RandomBytes(32));
}

TEST(RunKeyTest, EqualSecretsGiveEqualKeysAndShortOnesAreRefused) {
  EXPECT_EQ(RunKey::FromSecret(kSecret)->bytes(), RunKey::FromSecret(kSecret)->bytes());
  EXPECT_NE(RunKey::FromSecret(kSecret)->bytes(), RunKey::FromSecret(kSecret + "0")->bytes());
  EXPECT_NE(RunKey::New().bytes(), RunKey::New().bytes());
  EXPECT_TRUE(RunKey::FromSecret(RunKey::NewSecret()).ok());
  for (size_t size = 0; size < 32; ++size) {
    const auto key = RunKey::FromSecret(kSecret.substr(0, size));
    ASSERT_TRUE(absl::IsInvalidArgument(key.status())) << size;
    EXPECT_THAT(key.status().message(), HasSubstr("32 or more hexadecimal digits"));
    EXPECT_THAT(key.status().message(), testing::Not(HasSubstr("0011")));
  }
  EXPECT_FALSE(RunKey::FromBytes("short").ok());
}

TEST_F(RunKeyFileTest, AFileOfItsUserAloneIsRead) {
  EXPECT_EQ(RunKey::FromFile(Write(kSecret + "\n"))->bytes(), RunKey::FromSecret(kSecret)->bytes());
  EXPECT_TRUE(RunKey::FromFile(Write(std::string(32, '\0'))).ok());
}

TEST_F(RunKeyFileTest, FilesOfOthersAndOtherThingsAreRefused) {
  for (const mode_t mode : {0640, 0604, 0620, 0602, 0644, 0666, 0610}) {
    const auto key = RunKey::FromFile(Write(kSecret, mode));
    ASSERT_TRUE(absl::IsPermissionDenied(key.status())) << key.status();
    EXPECT_THAT(key.status().message(), HasSubstr("chmod 600"));
  }
  EXPECT_TRUE(absl::IsNotFound(RunKey::FromFile((folder_ / "absent").string()).status()));
  EXPECT_THAT(RunKey::FromFile(folder_.string()).status().message(), HasSubstr("no regular file"));
  EXPECT_THAT(RunKey::FromFile("/dev/zero").status().message(), HasSubstr("no regular file"));
  EXPECT_THAT(RunKey::FromFile(Write(std::string(5000, 'a'))).status().message(),
              HasSubstr("more than 4096 bytes"));
  EXPECT_THAT(RunKey::FromFile(Write("abc")).status().message(), HasSubstr("has 3 characters"));
  const std::string pipe = (folder_ / "pipe").string();
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(RunKey::FromFile(pipe).status().message(), HasSubstr("no regular file"));
  if (geteuid() == 0) {
    const std::string path = Write(kSecret);
    ASSERT_EQ(chown(path.c_str(), 12345, 12345), 0);
    EXPECT_TRUE(absl::IsPermissionDenied(RunKey::FromFile(path).status()));
  }
}

TEST(RunKeyTest, TheEnvironmentHasTheKeyNoLongerOnceItIsTaken) {
  EXPECT_FALSE(TakeKeyFromEnvironment()->has_value());
  setenv(kKeyVariable, kSecret.c_str(), 1);
  const char* place = std::getenv(kKeyVariable);
  const auto key = TakeKeyFromEnvironment();
  ASSERT_TRUE(key.ok() && key->has_value());
  EXPECT_EQ((*key)->bytes(), RunKey::FromSecret(kSecret)->bytes());
  EXPECT_EQ(std::getenv(kKeyVariable), nullptr);
  EXPECT_EQ(std::string(place, kSecret.size()), std::string(kSecret.size(), '\0'));
  setenv(kKeyVariable, "short", 1);
  const auto refused = TakeKeyFromEnvironment();
  EXPECT_THAT(refused.status().message(), HasSubstr("PARTITA_KEY: the key has 5 characters"));
  EXPECT_EQ(std::getenv(kKeyVariable), nullptr);
}

}  // namespace
}  // namespace partita
