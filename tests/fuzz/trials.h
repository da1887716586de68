#pragma once

#include <cstdint>
#include <string>

#include "tests/fuzz/fuzz_target.h"

namespace partita {

// Limits of the reading of one input: seconds of processor time, megabytes of the process. With
// sanitizers five times the time, and any memory.
constexpr double kMostSeconds = 2;
constexpr int64_t kMostMegabytes = 512;

// Reads inputs of one target, one at a time in a process. A crash, or a reader that runs for ten
// times as long as it may, writes the input to a file fault-TARGET in the current folder, prints
// its name, and ends the process.
class Trials {
 public:
  explicit Trials(const FuzzTarget& target);
  ~Trials();
  Trials(const Trials&) = delete;
  Trials& operator=(const Trials&) = delete;

  // Reads an input. What was wrong: a code that the target does not refuse with, an error without
  // text, too much time or memory; "" if nothing was.
  std::string Try(const std::string& input);
  // Writes the last input to that file, and gives its name.
  std::string Save() const;

  bool last_was_accepted() const { return last_was_accepted_; }
  int64_t accepted() const { return accepted_; }
  int64_t refused() const { return refused_; }
  // One line: how many were accepted and refused, the slowest, peak memory.
  std::string Summary() const;

 private:
  const FuzzTarget& target_;
  int64_t accepted_ = 0, refused_ = 0;
  bool last_was_accepted_ = false;
  double slowest_ = 0;  // seconds
};

// Damaged inputs of one target: from its seeds, files of its corpus and damaged ones that were
// accepted before. The same seed, corpus and reader, the same inputs.
class DamagedInputs {
 public:
  // `corpus`: a folder with a folder for each target; "": none.
  DamagedInputs(const FuzzTarget& target, const std::string& corpus, uint64_t seed);

  // Inputs as they are kept.
  const std::vector<std::string>& kept() const { return kept_; }
  std::string Next();
  // Notes that the last input was accepted: later ones may be damaged further from it.
  void Accepted();

 private:
  const FuzzTarget& target_;
  Mutator mutator_;
  std::vector<std::string> kept_, accepted_;
  std::string last_;
  size_t longest_ = 0;
};

}  // namespace partita
