#include "runtime/support/process_identity.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace partita {
namespace {

// A process that waits, and its identity.
class Sleeper {
 public:
  Sleeper() {
    int ready[2];
    EXPECT_EQ(pipe(ready), 0);
    id_ = fork();
    if (id_ == 0) {
      const std::string text = ThisProcess().ToText() + "\n";
      (void)!write(ready[1], text.data(), text.size());
      for (;;) pause();
    }
    char text[512] = "";
    const ssize_t length = read(ready[0], text, sizeof text);
    close(ready[0]);
    close(ready[1]);
    identity_ = *ProcessIdentity::FromText(std::string(text, static_cast<size_t>(length - 1)));
  }
  ~Sleeper() {
    if (id_ > 0) kill(id_, SIGKILL);
    if (id_ > 0) waitpid(id_, nullptr, 0);
  }

  const ProcessIdentity& identity() const { return identity_; }
  bool is_alive() const { return waitpid(id_, nullptr, WNOHANG) == 0; }
  // Waits until it has ended; what it was ended by.
  int Signal() {
    int status = 0;
    waitpid(id_, &status, 0);
    id_ = -1;
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  }

 private:
  pid_t id_ = -1;
  ProcessIdentity identity_;
};

TEST(ProcessIdentityTest, AProcessOfThisHostIsKilled) {
  Sleeper sleeper;
  EXPECT_EQ(sleeper.identity().host, HostIdentity());
  EXPECT_TRUE(KillProcess(sleeper.identity()));
  EXPECT_EQ(sleeper.Signal(), SIGKILL);
  EXPECT_FALSE(KillProcess(sleeper.identity()));
}

TEST(ProcessIdentityTest, AProcessOfAnotherHostOrWithAUsedNumberIsLeftAlone) {
  const Sleeper sleeper;
  const ProcessIdentity own = sleeper.identity();
  std::vector<ProcessIdentity> others(4, own);
  others[0].host = "another-start/pid:[1]/net:[1]";
  others[1].host = own.host + "0";  // another namespace of networks
  others[2].started -= 1;           // the number was another process's
  others[3].id = 1;
  for (const ProcessIdentity& other : others) EXPECT_FALSE(KillProcess(other)) << other.ToText();
  EXPECT_FALSE(KillProcess(ThisProcess()));
  EXPECT_TRUE(sleeper.is_alive());
}

TEST(ProcessIdentityTest, HostsAreToldApartByStartAndNamespaces) {
  const std::string identity = HostIdentity();
  EXPECT_THAT(identity, testing::ContainsRegex("/pid:\\[[0-9]+\\]/net:\\[[0-9]+\\]$"));
  EXPECT_THAT(identity, testing::Not(testing::HasSubstr(" ")));
}

TEST(ProcessIdentityTest, TextsAreReadAsWrittenAndOthersRefused) {
  const ProcessIdentity own = ThisProcess();
  EXPECT_EQ(ProcessIdentity::FromText(own.ToText()), own);
  for (const char* text : {"", "5", "5 6", "x 6 host", "5 y host", "1 6 host", "-5 6 host",
                           "5 6 host more", "5 6 ", "99999999999 6 host"}) {
    EXPECT_EQ(ProcessIdentity::FromText(text), std::nullopt) << text;
  }
  EXPECT_EQ(ProcessIdentity::FromText("5 6 " + std::string(1000, 'h')), std::nullopt);
}

}  // namespace
}  // namespace partita
