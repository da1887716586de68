#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "cost_model/machine.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/text_format.h"
#include "graph/parallel/topology_io.h"
#include "graph/support/check.h"
#include "graph/support/error_category.h"
#include "graph/support/faults.h"
#include "graph/support/file.h"
#include "graph/support/status_macros.h"

namespace partita {
namespace {

constexpr int64_t kMaxFileBytes = int64_t{64} << 20;

// The first error that the parser of text files reports.
class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, int column, const std::string& message) override {
    if (!text.empty()) return;
    text = absl::StrCat(line + 1, ":", column + 1, ": ", message);
  }
  void AddWarning(int, int, const std::string&) override {}
  std::string text;
};

void SetLine(const Line& line, proto::Line& message) {
  message.set_latency_ns(line.latency_ns);
  message.set_bytes_per_second(line.bytes_per_second);
}

Line LineOf(const proto::Line& message) {
  return {message.latency_ns(), message.bytes_per_second()};
}

void SetClass(const DeviceClass& c, proto::DeviceClass& message) {
  message.set_name(c.name);
  message.set_description(c.description);
  message.set_hardware(c.hardware);
  message.set_matrix_flops(c.matrix_flops);
  message.set_other_flops(c.other_flops);
  message.set_memory_bytes_per_second(c.memory_bytes_per_second);
  message.set_kernel_overhead_ns(c.kernel_overhead_ns);
  SetLine(c.copy, *message.mutable_copy());
  SetLine(c.add, *message.mutable_add());
  SetLine(c.fill, *message.mutable_fill());
  for (const PrecisionRate& rate : c.precision_rates) {
    proto::PrecisionRate& r = *message.add_precision_rates();
    r.set_precision(RowOf(rate.precision).name);
    r.set_matrix_flops(rate.matrix_flops);
  }
}

DeviceClass ClassOf(const proto::DeviceClass& message, Faults& faults) {
  std::vector<PrecisionRate> rates;
  for (const proto::PrecisionRate& r : message.precision_rates()) {
    const auto precision = PrecisionNamed(r.precision());
    if (!precision.has_value()) {
      faults.Add(absl::StrCat("device class '", message.name(), "' has a rate of precision '",
                              r.precision(), "'; wanted tf32, float16 or bfloat16"));
      continue;
    }
    rates.push_back({*precision, r.matrix_flops()});
  }
  return DeviceClass{.name = message.name(),
                     .description = message.description(),
                     .hardware = message.hardware(),
                     .matrix_flops = message.matrix_flops(),
                     .other_flops = message.other_flops(),
                     .memory_bytes_per_second = message.memory_bytes_per_second(),
                     .kernel_overhead_ns = message.kernel_overhead_ns(),
                     .copy = LineOf(message.copy()),
                     .add = LineOf(message.add()),
                     .fill = LineOf(message.fill()),
                     .precision_rates = std::move(rates)};
}

}  // namespace

proto::Machine MachineToProto(const Machine& machine) {
  proto::Machine message;
  message.set_name(machine.name);
  message.set_description(machine.description);
  message.set_links_measured(machine.links_measured);
  *message.mutable_topology() = TopologyToProto(machine.topology);
  for (const DeviceClass& c : machine.classes) SetClass(c, *message.add_device_classes());
  for (const CollectiveRate& rate : machine.collective_rates) {
    proto::CollectiveRate& r = *message.add_collective_rates();
    r.set_algorithm(rate.algorithm);
    r.set_ranks(rate.ranks);
    SetLine(rate.line, *r.mutable_line());
    r.set_spread(rate.spread);
    r.set_device_class(rate.device_class);
  }
  return message;
}

absl::StatusOr<Machine> MachineFromProto(const proto::Machine& message) {
  Machine machine{.name = message.name(),
                  .description = message.description(),
                  .links_measured = message.links_measured()};
  Faults faults;
  auto topology = TopologyFromProto(message.topology());
  if (topology.ok()) {
    machine.topology = *std::move(topology);
  } else {
    faults.Add(topology.status());
  }
  for (const proto::DeviceClass& c : message.device_classes()) {
    machine.classes.push_back(ClassOf(c, faults));
  }
  for (const proto::CollectiveRate& r : message.collective_rates()) {
    machine.collective_rates.push_back(
        {r.algorithm(), r.ranks(), LineOf(r.line()), r.spread(), r.device_class()});
  }
  std::vector<DeviceOfClass> devices;
  for (const proto::Device& d : message.topology().devices()) {
    devices.push_back({d.name(), d.device_class()});
  }
  for (const proto::AlikeDevices& alike : message.topology().alike_devices()) {
    devices.push_back({alike.device().name(), alike.device().device_class()});
  }
  CheckClasses(machine, devices, faults);
  RETURN_IF_ERROR(faults.ToStatus());
  return machine;
}

std::string MachineText(const Machine& machine) {
  std::string text;
  CHECK(google::protobuf::TextFormat::PrintToString(MachineToProto(machine), &text));
  return text;
}

absl::StatusOr<Machine> ParseMachine(absl::string_view text, absl::string_view source) {
  FirstError error;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  parser.SetRecursionLimit(20);
  proto::Machine message;
  if (!parser.ParseFromString(std::string(text), &message)) {
    return absl::InvalidArgumentError(absl::StrCat(
        source, ":", error.text, "; wanted a machine in text form (proto/machine.proto): ",
        "`partita machine show p100-4x4` prints one"));
  }
  auto machine = MachineFromProto(message);
  if (machine.ok()) return machine;
  return WithMessage(machine.status(), absl::StrCat(source, ": ", machine.status().message()));
}

absl::StatusOr<Machine> LoadMachine(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxFileBytes));
  return ParseMachine(text, path);
}

absl::Status SaveMachine(const Machine& machine, const std::string& path) {
  RETURN_IF_ERROR(Validate(machine));
  return WriteFileAtomically(path, MachineText(machine));
}

}  // namespace partita
