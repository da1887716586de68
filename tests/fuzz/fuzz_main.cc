// fuzz: reads damaged inputs, made by the mutators of this folder, until their number or the time is
// used up. Exits with 1 after a fault, whose input it keeps in the current folder.

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/support/file.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/trials.h"

namespace partita {
namespace {

struct FuzzOptions {
  std::vector<std::string> targets;
  int64_t inputs = INT64_MAX;
  double seconds = 1e9;
  uint64_t seed = 1;
  std::string corpus = PARTITA_SOURCE_DIR "/tests/fuzz/corpus";
  std::string write_seeds, file;
};

// False after a fault.
bool Run(const FuzzTarget& target, const FuzzOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  const auto late = [&] {
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
    return passed.count() >= options.seconds;
  };
  Trials trials(target);
  const auto read = [&](const std::string& input) {
    const std::string fault = trials.Try(input);
    if (fault.empty()) return true;
    std::cerr << target.name << ": fault: " << fault << "; input: " << trials.Save() << "\n";
    return false;
  };
  if (!options.file.empty()) {
    const auto bytes = ReadFile(options.file, int64_t{1} << 30);
    DemandOk(bytes.status(), "the file");
    return read(*bytes);
  }
  DamagedInputs inputs(target, options.corpus, options.seed);
  for (const std::string& input : inputs.kept()) {
    if (!read(input)) return false;
  }
  for (int64_t k = 0; k < options.inputs && !late(); ++k) {
    if (!read(inputs.Next())) return false;
    if (trials.last_was_accepted()) inputs.Accepted();
  }
  std::cout << trials.Summary() << std::endl;
  return true;
}

void WriteSeeds(const FuzzTarget& target, const std::string& folder) {
  const std::string path = absl::StrCat(folder, "/", target.name);
  std::filesystem::create_directories(path);
  size_t number = 0;
  for (const std::string& seed : target.seeds()) {
    std::ofstream(absl::StrCat(path, "/seed-", number++), std::ios::binary) << seed;
  }
}

int Main(int argc, char** argv) {
  FuzzOptions options;
  bool list = false;
  CLI::App app("Reads damaged inputs of everything that Partita reads from outside.");
  app.add_flag("--list", list, "prints the targets");
  app.add_option("--targets", options.targets, "targets, with commas between; all if none is given")
      ->delimiter(',');
  app.add_option("--inputs", options.inputs, "damaged inputs of each target");
  app.add_option("--seconds", options.seconds, "seconds for each target");
  app.add_option("--seed", options.seed, "seed of the damage");
  app.add_option("--corpus", options.corpus, "folder with a folder for each target");
  app.add_option("--file", options.file, "reads this file alone, as the one target given");
  app.add_option("--write_seeds", options.write_seeds, "writes the sound inputs here, and ends");
  CLI11_PARSE(app, argc, argv);
  std::vector<std::string> names = options.targets;
  for (const FuzzTarget& target : FuzzTargets()) {
    if (options.targets.empty()) names.push_back(target.name);
    if (list) std::cout << target.name << ": " << target.reads << "\n";
  }
  if (list) return 0;
  bool good = true;
  for (const std::string& name : names) {
    const FuzzTarget* target = FindFuzzTarget(name);
    if (target == nullptr) {
      std::cerr << "no target is called '" << name << "'; --list prints them\n";
      return 2;
    }
    if (!options.write_seeds.empty()) {
      WriteSeeds(*target, options.write_seeds);
    } else {
      good = Run(*target, options) && good;
    }
  }
  return good ? 0 : 1;
}

}  // namespace
}  // namespace partita

int main(int argc, char** argv) { return partita::Main(argc, argv); }
