#include "tools/cli/checks.h"

#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cost_model/machines.h"
#include "graph/model/model_source.h"
#include "graph/support/error_category.h"
#include "graph/zoo/models.h"
#include "runtime/backend/backends.h"

namespace partita {
namespace {

CLI::Validator Check(std::function<std::string(const std::string&)> fault) {
  return CLI::Validator([fault](std::string& text) { return fault(text); }, "");
}

std::string Wanted(const std::string& what, const std::string& got) {
  return absl::StrCat("wanted is ", what, ", not '", got, "'");
}

bool IsNumber(const std::string& text, double& value) {
  char* end = nullptr;
  value = std::strtod(text.c_str(), &end);
  return !text.empty() && *end == '\0' && std::isfinite(value);
}

std::string UnknownName(const std::string& what, const std::string& name,
                        const std::vector<std::string>& names) {
  return absl::StrCat("unknown ", what, " '", name, "'; known are: ", absl::StrJoin(names, ", "));
}

}  // namespace

CLI::Validator WholeNumber(int64_t low, int64_t high) {
  return Check([low, high](const std::string& text) -> std::string {
    char* end = nullptr;
    errno = 0;
    const int64_t value = std::strtoll(text.c_str(), &end, 10);
    if (!text.empty() && *end == '\0' && errno == 0 && value >= low && value <= high) return "";
    const bool open = high == std::numeric_limits<int64_t>::max();
    return Wanted(open ? absl::StrCat("a whole number from ", low, " on")
                       : absl::StrCat("a whole number from ", low, " to ", high),
                  text);
  });
}

CLI::Validator Seed() {
  return Check([](const std::string& text) -> std::string {
    char* end = nullptr;
    errno = 0;
    std::strtoull(text.c_str(), &end, 10);
    const bool digits = text.find_first_not_of("0123456789") == std::string::npos;
    if (!text.empty() && digits && errno == 0) return "";
    return Wanted("a whole number from 0 to 18446744073709551615", text);
  });
}

CLI::Validator NumberFrom(double low) {
  return Check([low](const std::string& text) -> std::string {
    double value = 0;
    if (IsNumber(text, value) && value >= low) return "";
    return Wanted(absl::StrCat("a number from ", low, " on"), text);
  });
}

CLI::Validator NumberAbove(double low) {
  return Check([low](const std::string& text) -> std::string {
    double value = 0;
    if (IsNumber(text, value) && value > low) return "";
    return Wanted(absl::StrCat("a number above ", low), text);
  });
}

CLI::Validator Fraction() {
  return Check([](const std::string& text) -> std::string {
    double value = 0;
    if (IsNumber(text, value) && value >= 0 && value < 1) return "";
    return Wanted("a number from 0 on and below 1", text);
  });
}

CLI::Validator NameOf(std::string what, std::vector<std::string> names) {
  return Check([what, names](const std::string& text) -> std::string {
    for (const std::string& name : names) {
      if (text == name) return "";
    }
    return UnknownName(what, text, names);
  });
}

void AddBackendFlag(CLI::App& verb, std::vector<BackendOfClass>& backends,
                    const std::string& description) {
  const auto parts = [](const std::string& text) -> BackendOfClass {
    const size_t at = text.find('=');
    if (at == std::string::npos) return {"", text};
    return {text.substr(0, at), text.substr(at + 1)};
  };
  verb.add_option_function<std::vector<std::string>>(
          "--backend",
          [&backends, parts](const std::vector<std::string>& texts) {
            for (const std::string& text : texts) backends.push_back(parts(text));
          },
          description)
      ->type_name("[CLASS=]NAME")
      ->check(Check([parts](const std::string& text) {
        return NameOf("backend", NamesOf(Backends()))(parts(text).backend);
      }));
}

void AddPrecisionFlag(CLI::App& verb, std::optional<Precision>& precision,
                      const std::string& description) {
  verb.add_option_function<std::string>(
          "--precision",
          [&precision](const std::string& name) { precision = PrecisionNamed(name); }, description)
      ->type_name("NAME")
      ->check(NameOf("precision", NamesOf(kPrecisions)));
}

absl::Status CheckClasses(std::span<const BackendOfClass> backends,
                          const DeviceTopology& topology) {
  std::set<std::string> classes;
  for (const Device& device : topology.devices()) classes.insert(device.device_class);
  for (const BackendOfClass& choice : backends) {
    if (choice.device_class.empty() || classes.contains(choice.device_class)) continue;
    return UsageError(absl::StrCat(
        "--backend ", choice.device_class, "=", choice.backend,
        ": no device of the plan is of that class; there are: ", absl::StrJoin(classes, ", ")));
  }
  return absl::OkStatus();
}

CLI::Validator ModelName() {
  return Check([](const std::string& text) -> std::string {
    const std::vector<std::string> names = NamesOf(ZooModels());
    if (IsModelFile(text)) return "";
    const std::string fault = NameOf("model", names)(text);
    return fault.empty() ? "" : fault + " (a file's name has a '/' or an ending)";
  });
}

CLI::Validator MachineName() {
  return Check([](const std::string& text) -> std::string {
    if (text.find_first_of("/.") != std::string::npos) return "";
    const std::string fault = NameOf("machine", NamesOf(NamedMachines()))(text);
    return fault.empty() ? "" : fault + " (a file's name has a '/' or an ending)";
  });
}

CLI::Validator PlanName() {
  return Check([](const std::string& text) -> std::string {
    std::error_code error;
    if (IsModelFile(text) || std::filesystem::exists(text, error)) return "";
    return absl::StrCat("a plan is a file, as `partita plan` writes it; there is no '", text, "'");
  });
}

CLI::Validator OutputName() {
  return Check([](const std::string& text) -> std::string {
    return text == "-" ? "'-' is no name of a file; to write to stdout use /dev/stdout" : "";
  });
}

CLI::Validator PlaceName() {
  return Check([](const std::string& text) -> std::string {
    return text == "-" ? "'-' is no name, and this cannot be written to stdout" : "";
  });
}

}  // namespace partita
