#include "cost_model/machine.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/support/check.h"
#include "graph/support/faults.h"
#include "graph/support/status_macros.h"

namespace partita {
namespace {

const DeviceClass* FindClass(const Machine& machine, absl::string_view name) {
  for (const DeviceClass& c : machine.classes) {
    if (c.name == name) return &c;
  }
  return nullptr;
}

struct Figure {
  absl::string_view name;
  double value;
  bool may_be_zero = false;
};

void CheckFigures(absl::string_view owner, std::initializer_list<Figure> figures, Faults& faults) {
  for (const Figure& f : figures) {
    const bool fits = std::isfinite(f.value) && (f.value > 0 || (f.may_be_zero && f.value == 0));
    if (fits) continue;
    faults.Add(absl::StrCat(owner, " has ", f.name, " ", f.value, "; wanted a finite number ",
                            f.may_be_zero ? "of at least 0" : "above 0"));
  }
}

void CheckClass(const DeviceClass& c, Faults& faults) {
  const std::string owner = absl::StrCat("device class '", c.name, "'");
  absl::flat_hash_set<Precision> precisions = {Precision::kFloat32};
  for (const PrecisionRate& rate : c.precision_rates) {
    const char* name = RowOf(rate.precision).name;
    if (!precisions.insert(rate.precision).second) {
      faults.Add(absl::StrCat(owner, " has a precision_rates for ", name,
                              "; wanted one at most for each precision but float32"));
    }
    CheckFigures(absl::StrCat(owner, ", precision ", name), {{"matrix_flops", rate.matrix_flops}},
                 faults);
  }
  CheckFigures(owner,
               {{"matrix_flops", c.matrix_flops},
                {"other_flops", c.other_flops},
                {"memory_bytes_per_second", c.memory_bytes_per_second},
                {"kernel_overhead_ns", c.kernel_overhead_ns, true},
                {"copy.latency_ns", c.copy.latency_ns, true},
                {"copy.bytes_per_second", c.copy.bytes_per_second},
                {"add.latency_ns", c.add.latency_ns, true},
                {"add.bytes_per_second", c.add.bytes_per_second},
                {"fill.latency_ns", c.fill.latency_ns, true},
                {"fill.bytes_per_second", c.fill.bytes_per_second}},
               faults);
}

void CheckRate(const CollectiveRate& rate, Faults& faults) {
  const std::string owner =
      absl::StrCat("collective rate '", rate.algorithm, "' of ", rate.ranks, " ranks");
  if (rate.ranks < 2) faults.Add(absl::StrCat(owner, ": wanted 2 or more"));
  CheckFigures(owner,
               {{"line.latency_ns", rate.line.latency_ns, true},
                {"line.bytes_per_second", rate.line.bytes_per_second},
                {"spread", rate.spread, true}},
               faults);
}

}  // namespace

const DeviceClass& Machine::ClassOf(DeviceId id) const {
  const DeviceClass* found = FindClass(*this, topology.device(id).device_class);
  CHECK(found != nullptr) << topology.device(id).device_class;
  return *found;
}

void CheckClasses(const Machine& machine, std::span<const DeviceOfClass> devices, Faults& faults) {
  absl::flat_hash_set<std::string> names;
  std::vector<std::string> known;
  for (const DeviceClass& c : machine.classes) {
    if (!names.insert(c.name).second) {
      faults.Add(absl::StrCat("device class '", c.name, "' is there twice"));
    }
    known.push_back(c.name);
    CheckClass(c, faults);
  }
  for (const auto& [device, device_class] : devices) {
    if (names.contains(device_class)) continue;
    faults.Add(absl::StrCat(
        "device '", device, "' is of class '", device_class,
        "', which the machine does not describe; it describes: ", absl::StrJoin(known, ", ")));
  }
  for (const CollectiveRate& rate : machine.collective_rates) CheckRate(rate, faults);
}

absl::Status Validate(const Machine& machine) {
  if (machine.topology.size() == 0) return absl::InvalidArgumentError("the machine has no devices");
  std::vector<DeviceOfClass> devices;
  for (const Device& device : machine.topology.devices()) {
    devices.push_back({device.name, device.device_class});
  }
  Faults faults;
  CheckClasses(machine, devices, faults);
  return faults.ToStatus();
}

double DeviceClass::MatrixFlops(Precision precision) const {
  for (const PrecisionRate& rate : precision_rates) {
    if (rate.precision == precision) return rate.matrix_flops;
  }
  return matrix_flops;
}

bool AreAlike(const DeviceTopology& topology, std::span<const DeviceId> devices) {
  return std::all_of(devices.begin(), devices.end(), [&](DeviceId id) {
    const Device &device = topology.device(id), &first = topology.device(devices[0]);
    return device.node == first.node && device.device_class == first.device_class;
  });
}

absl::StatusOr<Machine> TakeDevices(const Machine& machine, int count) {
  Machine taken = machine;
  ASSIGN_OR_RETURN(taken.topology, machine.topology.TakeDevices(count));
  return taken;
}

}  // namespace partita
