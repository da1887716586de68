#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "graph/parallel/device_topology.h"
#include "graph/precision.h"
#include "graph/support/option.h"
#include "runtime/executor/executor_setup.h"

namespace partita {

constexpr int64_t kLargestBatch = 1 << 20;
constexpr int64_t kMostDevices = 1 << 17;
constexpr int64_t kMostMicrobatches = 4096;

// Checks of options that name files or rows of tables (see OptionCheck).

// A file (the text has a '/' or an ending), or a name of the zoo or of the machines.
OptionCheck ModelName();
OptionCheck MachineName();
// A file: with a '/' or an ending, or one that is there.
OptionCheck PlanName();
// A file that is there.
OptionCheck ExistingFile();
// A file to write; "-" is none.
OptionCheck OutputName();
// A file or folder that is made where there is none, and which no stream can be; "-" is none.
OptionCheck PlaceName();
// "[CLASS=]NAME" of a backend.
OptionCheck BackendName();

// How often checkpoints are written.
struct SaveInterval {
  int64_t steps = 0;
  double seconds = 0;  // one of the two
};
// "100" steps, or "30s", "5m", "1h30m"; nothing for other texts.
std::optional<SaveInterval> ParseInterval(const std::string& text);
OptionCheck CheckpointInterval();

std::string OptionText(const BackendOfClass& choice);
bool ReadOption(absl::string_view text, BackendOfClass& choice);
std::string OptionText(Precision precision);
bool ReadOption(absl::string_view text, Precision& precision);

// Options that several verbs have; what differs between them is given.
// Numbers of devices to plan for, one or several: 4, or 1,2,4.
struct DeviceCounts {
  std::vector<int> counts;
};
std::string OptionText(const DeviceCounts& devices);
bool ReadOption(absl::string_view text, DeviceCounts& devices);
OptionCheck CountsOfDevices();

Option BackendOption(std::string help, std::string fallback);
Option PrecisionOption(std::string help, std::string fallback);
Option NondeterministicOption();
Option ModelPlaceOption();  // of the model that a plan is for

// UsageError if one of them names a class that no device has.
absl::Status CheckClasses(std::span<const BackendOfClass> backends, const DeviceTopology& topology);

}  // namespace partita
