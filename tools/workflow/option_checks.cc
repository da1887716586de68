#include "tools/workflow/option_checks.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "cost_model/machines.h"
#include "graph/model/model_source.h"
#include "graph/support/error_category.h"
#include "graph/zoo/models.h"
#include "runtime/backend/backends.h"

namespace partita {
namespace {

bool IsThere(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

// A check of names in a table, of which files may take the place.
OptionCheck NameOrFile(bool (*is_file)(const std::string&), OptionCheck name) {
  const auto fault = [is_file, known = name.fault](const std::string& text) -> std::string {
    if (is_file(text)) return "";
    const std::string fault = known(text);
    if (!fault.empty() && IsThere(text)) {
      return absl::StrCat("'", text,
                          "' is no known name; of files wanted is one with an ending, "
                          "as in net.onnx or machine.textproto, and this is ",
                          std::filesystem::is_directory(text) ? "a folder" : "one without");
    }
    return fault.empty() ? "" : fault + " (a file's name has a '/' or an ending)";
  };
  name.examples.push_back("folder/file.textproto");
  return {fault, std::move(name.examples), std::move(name.names), true};
}

}  // namespace

OptionCheck ModelName() {
  return NameOrFile([](const std::string& text) { return IsModelFile(text); },
                    NameOf("model", NamesOf(ZooModels())));
}

OptionCheck MachineName() {
  const auto fault = [](const std::string& text) -> std::string {
    return IsMachineName(text) ? "" : UnknownMachineText(text);
  };
  std::vector<std::string> examples = NamesOf(NamedMachines());
  for (const MachineFamily& family : MachineFamilies()) examples.emplace_back(family.example);
  return NameOrFile(
      [](const std::string& text) { return text.find_first_of("/.") != std::string::npos; },
      {fault, examples, examples});
}

OptionCheck PlanName() {
  const auto fault = [](const std::string& text) -> std::string {
    if (IsModelFile(text) || IsThere(text)) return "";
    const std::vector<std::string> models = NamesOf(ZooModels());
    if (std::find(models.begin(), models.end(), text) != models.end()) {
      return absl::StrCat("'", text, "' is a model; a plan of it is made by: partita plan ", text);
    }
    return absl::StrCat("a plan is a file, as `partita plan` writes it; there is no '", text, "'");
  };
  return {fault, {"folder/plan.textproto"}};
}

OptionCheck ExistingFile() {
  const auto fault = [](const std::string& text) -> std::string {
    return IsThere(text) ? "" : absl::StrCat("wanted is a file that is there, not '", text, "'");
  };
  return {fault, {"/dev/null"}};
}

OptionCheck OutputName() {
  const auto fault = [](const std::string& text) -> std::string {
    return text == "-" ? "'-' is no name of a file; to write to stdout use /dev/stdout" : "";
  };
  return {fault, {"folder/file"}};
}

OptionCheck PlaceName() {
  const auto fault = [](const std::string& text) -> std::string {
    return text == "-" ? "'-' is no name, and this cannot be written to stdout" : "";
  };
  return {fault, {"folder/file"}};
}

OptionCheck BackendName() {
  const OptionCheck known = NameOf("backend", NamesOf(Backends()));
  const auto fault = [known = known.fault](const std::string& text) {
    BackendOfClass choice;
    ReadOption(text, choice);
    return known(choice.backend);
  };
  return {fault, {known.examples[0], "gpu=" + known.examples[0]}};
}

std::optional<SaveInterval> ParseInterval(const std::string& text) {
  int64_t steps = 0;
  if (absl::SimpleAtoi(text, &steps)) {
    return steps > 0 ? std::optional(SaveInterval{.steps = steps}) : std::nullopt;
  }
  absl::Duration duration;
  const bool parsed = absl::ParseDuration(text, &duration);
  if (!parsed || duration <= absl::ZeroDuration() || duration == absl::InfiniteDuration()) {
    return std::nullopt;
  }
  return SaveInterval{.seconds = absl::ToDoubleSeconds(duration)};
}

OptionCheck CheckpointInterval() {
  const auto fault = [](const std::string& text) -> std::string {
    if (ParseInterval(text).has_value()) return "";
    return absl::StrCat("'", text, "': steps (100) or a time (30s, 10m, 2h) are wanted");
  };
  return {fault, {"100", "30s", "1h30m"}};
}

std::string OptionText(const BackendOfClass& choice) {
  return choice.device_class.empty() ? choice.backend
                                     : absl::StrCat(choice.device_class, "=", choice.backend);
}

bool ReadOption(absl::string_view text, BackendOfClass& choice) {
  const size_t at = text.find('=');
  const bool has_class = at != absl::string_view::npos;
  choice.device_class = std::string(has_class ? text.substr(0, at) : "");
  choice.backend = std::string(has_class ? text.substr(at + 1) : text);
  return true;
}

std::string OptionText(Precision precision) { return RowOf(precision).name; }

bool ReadOption(absl::string_view text, Precision& precision) {
  const std::optional<Precision> named = PrecisionNamed(std::string(text));
  precision = named.value_or(precision);
  return named.has_value();
}

std::string OptionText(const DeviceCounts& devices) { return absl::StrJoin(devices.counts, ","); }

bool ReadOption(absl::string_view text, DeviceCounts& devices) {
  devices.counts.clear();
  for (absl::string_view one : absl::StrSplit(text, ',')) {
    int& count = devices.counts.emplace_back();
    if (!ReadOption(one, count) || count < 1 || count > kMostDevices) return false;
  }
  return true;
}

OptionCheck CountsOfDevices() {
  const auto fault = [](const std::string& text) -> std::string {
    DeviceCounts devices;
    if (ReadOption(text, devices)) return "";
    return absl::StrCat("wanted is a number of devices from 1 to ", kMostDevices,
                        ", or several as in 1,2,4, not '", text, "'");
  };
  return {fault, {"2", "1,2,4"}};
}

Option BackendOption(std::string help, std::string fallback) {
  return {.name = "backend",
          .help = std::move(help),
          .check = BackendName(),
          .fallback = std::move(fallback),
          .type = "[CLASS=]NAME"};
}

Option PrecisionOption(std::string help, std::string fallback) {
  return {.name = "precision",
          .help = std::move(help),
          .check = NameOf("precision", NamesOf(kPrecisions)),
          .fallback = std::move(fallback),
          .type = "NAME"};
}

Option NondeterministicOption() {
  return {.name = "nondeterministic",
          .help =
              "let GPUs sum products in any order where that is faster: bits differ from run to "
              "run; copies of a weight stay equal; of cores it changes nothing"};
}

Option ModelPlaceOption() {
  return {.name = "model",
          .help = "where the model is, if it has moved",
          .check = ModelName(),
          .of_one_rank = true};
}

absl::Status CheckClasses(std::span<const BackendOfClass> backends,
                          const DeviceTopology& topology) {
  std::set<std::string> classes;
  for (const Device& device : topology.devices()) classes.insert(device.device_class);
  for (const BackendOfClass& choice : backends) {
    if (choice.device_class.empty() || classes.contains(choice.device_class)) continue;
    return UsageError(absl::StrCat(
        "--backend ", OptionText(choice),
        ": no device of the plan is of that class; there are: ", absl::StrJoin(classes, ", ")));
  }
  return absl::OkStatus();
}

}  // namespace partita
