#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "graph/support/temporary.h"
#include "runtime/train/data/data_source.h"
#include "tests/fuzz/mutator.h"

namespace partita {

// A reader of bytes that come from outside of the program, as fuzzers drive it: libFuzzer
// (libfuzzer_main.cc), the mutators of this folder (fuzz_main.cc) and a test (fuzz_test.cc).
struct FuzzTarget {
  std::string name;   // also of its folder in corpus/
  std::string reads;  // what it reads, for people
  // Inputs to begin with, made by the program or from tests/data; the first is well-formed.
  std::vector<std::string> (*seeds)();
  // Damages an input, which may be damaged already; `other` is one to take pieces of.
  std::string (*mutate)(Mutator& mutator, const std::string& input, const std::string& other);
  // Reads an input and goes on with what was read as a verb would; a status says why it was
  // refused. Aborts, by Demand, where what was read is not what it should be.
  absl::Status (*read)(const std::string& input);
  // Damaged inputs that the test reads: few of slow ones. The long run reads a hundred times as many.
  int inputs = 0;
  // Codes that it may refuse with; any other one is a fault.
  std::vector<absl::StatusCode> refusals = {absl::StatusCode::kInvalidArgument,
                                            absl::StatusCode::kNotFound};
};

// THE table of targets.
absl::Span<const FuzzTarget> FuzzTargets();
// Null where there is none of that name.
const FuzzTarget* FindFuzzTarget(const std::string& name);

// Rows of the table, by what they read.
std::vector<FuzzTarget> ModelTargets();      // ONNX and native models
std::vector<FuzzTarget> WeightsTargets();    // models with weights in files beside them
std::vector<FuzzTarget> PlanTargets();       // plans, machines, profile databases
std::vector<FuzzTarget> DataTargets();       // samples to train on
std::vector<FuzzTarget> StateTargets();      // weights and checkpoints
std::vector<FuzzTarget> MessageTargets();    // what ranks send each other
std::vector<FuzzTarget> EncounterTargets();  // connections between ranks, damaged on the way
std::vector<FuzzTarget> MeetingTargets();    // where ranks listen

// Prints the text and aborts unless `holds`.
void Demand(bool holds, const std::string& text);
// The same for a status that has to be OK.
void DemandOk(const absl::Status& status, const std::string& text);

// An input that stands for several files: the files with marks between them. Where marks are
// missing, the last files are empty; what follows a mark too many belongs to the last file.
std::string JoinFiles(const std::vector<std::string>& files);
std::vector<std::string> SplitFiles(const std::string& input, size_t count);

// Takes numbers in place of those there are, in turn, from a text with spaces between; those that are
// none leave theirs as it is.
void TakeNumbers(const std::string& text, absl::Span<int64_t> numbers);

// The bytes of a number as memory has them.
template <class Number>
std::string RawBytes(Number value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

// Content of a file that is there for certain; of one in tests/data.
std::string FileContent(const std::string& path);
std::string TestData(const std::string& name);

// Files of the process for readers that take paths: a folder in memory, where the system has one.
class ScratchFolder {
 public:
  ScratchFolder();

  std::string operator/(const std::string& name) const { return folder_.path() + "/" + name; }
  // Writes a file and gives its path; folders that it is in are made.
  std::string Write(const std::string& name, const std::string& bytes) const;

 private:
  TemporaryFolder folder_;
};
const ScratchFolder& Scratch();

// Ways to damage inputs that have no other structure.
std::string MutateAsBytes(Mutator& mutator, const std::string& input, const std::string& other);
std::string MutateAsText(Mutator& mutator, const std::string& input, const std::string& other);

// Reads some samples, and checks what a source promises of each.
absl::Status ReadSamples(const DataSource& source);

}  // namespace partita
