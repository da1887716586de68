#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "cost_model/cluster.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/text_format.h"
#include "graph/support/error_category.h"
#include "graph/support/status_macros.h"

namespace partita {
namespace {

using google::protobuf::Message;

// A part of a machine that settings name.
struct NamedPart {
  std::string name;
  Message* part;
};

std::vector<NamedPart> PartsOf(proto::Machine& machine) {
  std::vector<NamedPart> parts;
  for (auto& c : *machine.mutable_device_classes()) parts.push_back({c.name(), &c});
  for (auto& level : *machine.mutable_topology()->mutable_levels()) {
    parts.push_back({level.name(), &level});
  }
  for (auto& alike : *machine.mutable_topology()->mutable_alike_devices()) {
    parts.push_back({alike.device().name(), alike.mutable_device()});
  }
  return parts;
}

// The last error that the parser of text reports.
class LastError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int, int, const std::string& message) override { text = message; }
  void AddWarning(int, int, const std::string&) override {}
  std::string text;
};

std::string FieldsOf(const Message& part) {
  std::vector<std::string> names;
  for (int k = 0; k < part.GetDescriptor()->field_count(); ++k) {
    names.push_back(std::string(part.GetDescriptor()->field(k)->name()));
  }
  return absl::StrJoin(names, ", ");
}

// "copy.latency_ns" and "5" are the text "copy { latency_ns: 5 }".
std::string TextOf(absl::string_view field, absl::string_view value) {
  const std::vector<std::string> path = absl::StrSplit(field, '.');
  std::string text = absl::StrCat(path.back(), ": ", value);
  for (size_t k = path.size() - 1; k-- > 0;) text = absl::StrCat(path[k], " { ", text, " }");
  return text;
}

absl::Status Set(proto::Machine& machine, const std::string& setting) {
  const size_t equals = setting.find('='), dot = setting.find('.');
  if (equals == std::string::npos || dot > equals) {
    return UsageError(absl::StrCat("'", setting,
                                   "' is no setting; wanted NAME.FIELD=VALUE, as "
                                   "h100.kernel_overhead_ns=4000"));
  }
  const std::string name = setting.substr(0, dot);
  const std::string field = setting.substr(dot + 1, equals - dot - 1);
  std::vector<std::string> names;
  for (const NamedPart& part : PartsOf(machine)) {
    names.push_back(part.name);
    if (part.name != name) continue;
    LastError errors;
    google::protobuf::TextFormat::Parser parser;
    parser.RecordErrorsTo(&errors);
    parser.SetRecursionLimit(20);
    if (parser.MergeFromString(TextOf(field, setting.substr(equals + 1)), part.part)) {
      return absl::OkStatus();
    }
    return UsageError(absl::StrCat("cannot set '", setting, "': ", errors.text, "; '", name,
                                   "' has: ", FieldsOf(*part.part)));
  }
  return UsageError(absl::StrCat("cannot set '", setting, "': there is no '", name,
                                 "'; there are: ", absl::StrJoin(names, ", ")));
}

}  // namespace

absl::StatusOr<Machine> WithSettings(const Machine& machine,
                                     const std::vector<std::string>& settings) {
  if (settings.empty()) return machine;
  proto::Machine message = MachineToProto(machine);
  for (const std::string& setting : settings) RETURN_IF_ERROR(Set(message, setting));
  auto made = MachineFromProto(message);
  if (made.ok()) return made;
  return UsageError(absl::StrCat("with the settings there are faults: ", made.status().message()));
}

}  // namespace partita
