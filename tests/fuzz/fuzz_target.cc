#include "tests/fuzz/fuzz_target.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "graph/support/file.h"

namespace partita {
namespace {

constexpr char kFileMark[] = "\n%%FILE%%\n";

std::vector<FuzzTarget> AllTargets() {
  std::vector<FuzzTarget> all;
  for (auto* rows : {ModelTargets, WeightsTargets, PlanTargets, DataTargets, StateTargets,
                     MessageTargets, EncounterTargets, MeetingTargets}) {
    for (FuzzTarget& row : rows()) all.push_back(std::move(row));
  }
  return all;
}

}  // namespace

absl::Span<const FuzzTarget> FuzzTargets() {
  static const auto* const kTargets = new std::vector<FuzzTarget>(AllTargets());
  return *kTargets;
}

const FuzzTarget* FindFuzzTarget(const std::string& name) {
  for (const FuzzTarget& target : FuzzTargets()) {
    if (target.name == name) return &target;
  }
  return nullptr;
}

void Demand(bool holds, const std::string& text) {
  if (holds) return;
  std::cerr << "fault: " << text << std::endl;
  std::abort();
}

void DemandOk(const absl::Status& status, const std::string& text) {
  Demand(status.ok(), text + ": " + status.ToString());
}

std::string JoinFiles(const std::vector<std::string>& files) {
  std::string joined;
  for (const std::string& file : files) {
    if (&file != &files.front()) joined += kFileMark;
    joined += file;
  }
  return joined;
}

std::vector<std::string> SplitFiles(const std::string& input, size_t count) {
  std::vector<std::string> files(count);
  size_t begin = 0;
  for (size_t k = 0; k + 1 < count; ++k) {
    const size_t end = input.find(kFileMark, begin);
    files[k] = input.substr(begin, end - begin);
    if (end == std::string::npos) return files;
    begin = end + sizeof kFileMark - 1;
  }
  files.back() = input.substr(begin);
  return files;
}

void TakeNumbers(const std::string& text, absl::Span<int64_t> numbers) {
  const std::vector<absl::string_view> words = absl::StrSplit(text, ' ', absl::SkipEmpty());
  for (size_t k = 0; k < std::min(words.size(), numbers.size()); ++k) {
    (void)absl::SimpleAtoi(words[k], &numbers[k]);
  }
}

std::string FileContent(const std::string& path) {
  const auto bytes = ReadFile(path, int64_t{1} << 30);
  DemandOk(bytes.status(), path);
  return *bytes;
}

std::string TestData(const std::string& name) { return FileContent(PARTITA_TEST_DATA "/" + name); }

ScratchFolder::ScratchFolder()
    : folder_([] {
        const char* memory = "/dev/shm";
        auto folder = access(memory, W_OK) == 0 ? TemporaryFolder::CreateIn(memory)
                                                : TemporaryFolder::Create();
        DemandOk(folder.status(), "a folder");
        return *std::move(folder);
      }()) {}

std::string ScratchFolder::Write(const std::string& name, const std::string& bytes) const {
  const std::string path = *this / name;
  if (name.find('/') != std::string::npos) {
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  }
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << bytes;
  file.close();
  Demand(file.good(), "cannot write " + path);
  return path;
}

const ScratchFolder& Scratch() {
  static const ScratchFolder kFolder;
  return kFolder;
}

std::string MutateAsBytes(Mutator& mutator, const std::string& input, const std::string& other) {
  return mutator.MutateBytes(input, other);
}

std::string MutateAsText(Mutator& mutator, const std::string& input, const std::string& other) {
  return mutator.MutateText(input, other);
}

}  // namespace partita
