#include "tests/fuzz/trials.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "graph/support/file.h"
#include "tests/testing/cases.h"

namespace partita {
namespace {

constexpr double kSecondsOfAFile = kSanitized ? 5 * kMostSeconds : kMostSeconds;
constexpr int kHungSeconds = 10 * static_cast<int>(kSecondsOfAFile);
constexpr size_t kMostAccepted = 200;
constexpr size_t kLeastLimit = 1 << 16;  // bytes that any input may have

// The input that is read, for a signal handler.
const std::string* g_input = nullptr;
char g_fault_file[256];

void SaveInput() {
  const int file = open(g_fault_file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0 || g_input == nullptr) return;
  const ssize_t written = write(file, g_input->data(), g_input->size());
  static_cast<void>(written);
  close(file);
}

void Print(const char* text) {
  const ssize_t written = write(STDERR_FILENO, text, std::strlen(text));
  static_cast<void>(written);
}

void OnSignal(int signal) {
  SaveInput();
  Print(signal == SIGPROF ? "\nfault: the reader does not end; input: "
                          : "\nfault: crash; input: ");
  Print(g_fault_file);
  Print("\n");
  _exit(1);
}

constexpr int kSignals[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGPROF};

void LimitTime(int seconds) {
  const itimerval limit{{}, {seconds, 0}};
  setitimer(ITIMER_PROF, &limit, nullptr);
}

int64_t PeakMegabytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss / 1024;
}

}  // namespace

Trials::Trials(const FuzzTarget& target) : target_(target) {
  absl::SNPrintF(g_fault_file, sizeof g_fault_file, "fault-%s", target.name);
  for (const int number : kSignals) signal(number, OnSignal);
}

Trials::~Trials() {
  LimitTime(0);
  for (const int number : kSignals) signal(number, SIG_DFL);
  g_input = nullptr;
}

std::string Trials::Try(const std::string& input) {
  g_input = &input;
  LimitTime(kHungSeconds);
  const std::clock_t begin = std::clock();
  const absl::Status status = target_.read(input);
  const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  slowest_ = std::max(slowest_, seconds);
  last_was_accepted_ = status.ok();
  ++(status.ok() ? accepted_ : refused_);
  if (!status.ok()) {
    const auto& codes = target_.refusals;
    if (std::find(codes.begin(), codes.end(), status.code()) == codes.end()) {
      return absl::StrCat("refused with ", status.ToString());
    }
    if (status.message().empty()) return absl::StrCat("no text: ", status.ToString());
  }
  if (seconds > kSecondsOfAFile) return absl::StrFormat("took %.1f s", seconds);
  const int64_t megabytes = kSanitized ? 0 : PeakMegabytes();
  if (megabytes > kMostMegabytes) return absl::StrCat("memory rose to ", megabytes, " MB");
  return "";
}

std::string Trials::Save() const {
  SaveInput();
  return g_fault_file;
}

std::string Trials::Summary() const {
  return absl::StrFormat("%s: %d accepted, %d refused, slowest %.2f s, peak memory %d MB",
                         target_.name, accepted_, refused_, slowest_, PeakMegabytes());
}

DamagedInputs::DamagedInputs(const FuzzTarget& target, const std::string& corpus, uint64_t seed)
    : target_(target), mutator_(seed), kept_(target.seeds()) {
  std::error_code ignored;
  std::vector<std::string> paths;
  if (!corpus.empty()) {
    for (std::filesystem::directory_iterator entry(corpus + "/" + target.name, ignored), end;
         entry != end; ++entry) {
      paths.push_back(entry->path());
    }
  }
  std::sort(paths.begin(), paths.end());
  for (const std::string& path : paths) {
    const auto bytes = ReadFile(path, int64_t{1} << 30);
    DemandOk(bytes.status(), "a file of the corpus");
    kept_.push_back(*bytes);
  }
  for (const std::string& input : kept_) longest_ = std::max(longest_, input.size());
}

std::string DamagedInputs::Next() {
  const auto any = [&]() -> const std::string& {
    if (!accepted_.empty() && mutator_.Below(3) == 0) {
      return accepted_[mutator_.Below(accepted_.size())];
    }
    return kept_[mutator_.Below(kept_.size())];
  };
  last_ = target_.mutate(mutator_, any(), any());
  last_.resize(std::min(last_.size(), std::max(kLeastLimit, 2 * longest_)));
  return last_;
}

void DamagedInputs::Accepted() {
  if (accepted_.size() < kMostAccepted) {
    accepted_.push_back(last_);
  } else {
    accepted_[mutator_.Below(kMostAccepted)] = last_;
  }
}

}  // namespace partita
