// fuzz_libfuzzer: the targets under libFuzzer, one in a process: PARTITA_FUZZ_TARGET names it.
// Inputs are damaged in turn by libFuzzer's own mutations, which follow coverage, and by those of
// the target, which know its structure.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

const partita::FuzzTarget* g_target = nullptr;
std::vector<std::string> g_seeds;

}  // namespace

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most);

extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  const char* name = std::getenv("PARTITA_FUZZ_TARGET");
  g_target = partita::FindFuzzTarget(name == nullptr ? "" : name);
  if (g_target == nullptr) {
    std::cerr << "PARTITA_FUZZ_TARGET names no target; one of:";
    for (const auto& target : partita::FuzzTargets()) std::cerr << " " << target.name;
    std::cerr << "\n";
    std::exit(2);
  }
  g_seeds = g_target->seeds();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::Status status =
      g_target->read(std::string(reinterpret_cast<const char*>(data), size));
  const auto& codes = g_target->refusals;
  partita::Demand(
      status.ok() || (std::find(codes.begin(), codes.end(), status.code()) != codes.end() &&
                      !status.message().empty()),
      absl::StrCat("refused with ", status.ToString()));
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
  if (seed % 2 == 0) return LLVMFuzzerMutate(data, size, most);
  partita::Mutator mutator(seed);
  const std::string input(reinterpret_cast<const char*>(data), size);
  const std::string damaged =
      g_target->mutate(mutator, input, g_seeds[mutator.Below(g_seeds.size())]);
  const size_t kept = std::min(damaged.size(), most);
  std::memcpy(data, damaged.data(), kept);
  return kept;
}
