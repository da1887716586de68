#include "tests/bench/best_known.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"

namespace partita {
namespace {

constexpr char kHeader[] =
    "# The fastest steps that any search found, which search_bench compares with and updates:\n"
    "# search_bench --best_known tests/bench/best_known.txt --update. A step counts while data\n"
    "# parallelism still takes base_ns.\n"
    "# machine model devices batch step_ns base_ns found by\n";

}  // namespace

absl::StatusOr<BestKnown> BestKnown::Read(const std::string& path) {
  BestKnown known;
  std::ifstream file(path);
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    BestKnownCase of;
    BestKnownStep found;
    int64_t step = 0, base = 0;
    words >> of.machine >> of.model >> of.devices >> of.batch >> step >> base;
    if (!words || of.devices < 1 || of.batch < 1 || step < 1 || base < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ":", number, ": found '", line,
                       "'; wanted machine model devices batch step_ns base_ns found by"));
    }
    std::getline(words, found.found_by);
    found.found_by = std::string(absl::StripPrefix(found.found_by, " "));
    found.step = Nanos(step);
    found.base = Nanos(base);
    known.steps_[of] = found;
  }
  return known;
}

std::optional<Nanos> BestKnown::StepOf(const BestKnownCase& of, Nanos base) const {
  const auto it = steps_.find(of);
  if (it == steps_.end() || it->second.base != base) return std::nullopt;
  Nanos least = it->second.step;
  for (const auto& [other, found] : steps_) {
    const bool on_fewer = other.machine == of.machine && other.model == of.model &&
                          other.batch == of.batch && other.devices < of.devices;
    if (on_fewer) least = std::min(least, found.step);
  }
  return least;
}

bool BestKnown::Add(const BestKnownCase& of, const BestKnownStep& found) {
  const auto it = steps_.find(of);
  const bool known = it != steps_.end() && it->second.base == found.base;
  if (known && it->second.step <= found.step) return false;
  steps_[of] = found;
  return true;
}

absl::Status BestKnown::Write(const std::string& path) const {
  std::ofstream file(path);
  file << kHeader;
  for (const auto& [of, found] : steps_) {
    file << of.machine << ' ' << of.model << ' ' << of.devices << ' ' << of.batch << ' '
         << found.step.value() << ' ' << found.base.value() << ' '
         << absl::StrReplaceAll(found.found_by, {{"\n", " "}}) << '\n';
  }
  file.flush();
  if (file) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("cannot write '", path, "'"));
}

}  // namespace partita
