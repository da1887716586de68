#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/precision.h"
#include "runtime/executor/executor_setup.h"

namespace partita {

constexpr int64_t kLargestBatch = 1 << 20;
constexpr int64_t kMostDevices = 4096;

// Checks of flag values; a value that fails is wrong usage, and the message says what is wanted.

// A whole number from `low` to `high`.
CLI::Validator WholeNumber(int64_t low, int64_t high = std::numeric_limits<int64_t>::max());
// Validator of unsigned numbers of 64 bits.
CLI::Validator Seed();
// A finite number that is at least `low`, or above it.
CLI::Validator NumberFrom(double low);
CLI::Validator NumberAbove(double low);
// A number in [0, 1).
CLI::Validator Fraction();

// Validator of one of these names; the message lists them. `what`: "search".
CLI::Validator NameOf(std::string what, std::vector<std::string> names);
// The names of a table whose rows have one.
template <class Table>
std::vector<std::string> NamesOf(const Table& table) {
  std::vector<std::string> names;
  for (const auto& row : table) names.emplace_back(row.name);
  return names;
}
// --backend [CLASS=]NAME, once or several times.
void AddBackendFlag(CLI::App& verb, std::vector<BackendOfClass>& backends,
                    const std::string& description);
// --precision NAME; `precision` stays as it is where it is not given.
void AddPrecisionFlag(CLI::App& verb, std::optional<Precision>& precision,
                      const std::string& description);
// UsageError if one of them names a class that no device has.
absl::Status CheckClasses(std::span<const BackendOfClass> backends,
                          const DeviceTopology& topology);
// A file (the text has a '/' or an ending), or a name of the zoo or of the machines.
CLI::Validator ModelName();
CLI::Validator MachineName();
// A file: with a '/' or an ending, or one that is there.
CLI::Validator PlanName();
// A file to write; "-" is none.
CLI::Validator OutputName();
// A file or folder that is made where there is none, and which no stream can be; "-" is none.
CLI::Validator PlaceName();

}  // namespace partita
