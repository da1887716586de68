#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "graph/parallel/device_topology.h"
#include "graph/precision.h"
#include "graph/support/faults.h"
#include "graph/support/strong_int.h"
#include "proto/machine.pb.h"

namespace partita {

// A time that grows with the size: latency + bytes / bandwidth.
struct Line {
  double latency_ns = 0;
  double bytes_per_second = 0;

  double Seconds(double bytes) const { return latency_ns * 1e-9 + bytes / bytes_per_second; }
  friend bool operator==(const Line&, const Line&) = default;
};

// Rate of products whose factors are of another precision, as DeviceClass::matrix_flops is of
// float32.
struct PrecisionRate {
  Precision precision = Precision::kTf32;
  double matrix_flops = 0;

  friend bool operator==(const PrecisionRate&, const PrecisionRate&) = default;
};

// Rates of the devices of one class, each while all devices of the machine are busy.
struct DeviceClass {
  std::string name;
  std::string description;  // description for people
  // Key of profile records besides the configuration: the processor's model and size. Empty: the
  // machine cannot be measured on.
  std::string hardware;
  // Floating-point operations per second in float32 (a multiply-add is two): of matrix products and
  // convolutions at best, and of other arithmetic.
  double matrix_flops = 0;
  double other_flops = 0;
  double memory_bytes_per_second = 0;  // rate to and from the device's memory
  double kernel_overhead_ns = 0;       // time from a kernel's start to the next one's, besides its
                                       // work
  // Moving data within the device: payload bytes copied, added to others, zero-filled.
  Line copy, add, fill;
  // Rates of products in other precisions than float32; those without one are as fast as float32.
  std::vector<PrecisionRate> precision_rates = {};

  // Operations per second of products in a precision.
  double MatrixFlops(Precision precision) const;
  friend bool operator==(const DeviceClass&, const DeviceClass&) = default;
};

// Collectives of `ranks` devices of one node by `algorithm` ("": any without a row of its own), as
// measured: rounds * latency + bytes that the busiest rank receives / bandwidth.
struct CollectiveRate {
  std::string algorithm;
  int ranks = 0;
  Line line;
  double spread = 0;              // median relative error of the fit
  std::string device_class = {};  // class of all ranks; "": any class

  friend bool operator==(const CollectiveRate&, const CollectiveRate&) = default;
};

struct Machine {
  std::string name;
  std::string description;
  DeviceTopology topology;
  std::vector<DeviceClass> classes;
  std::vector<CollectiveRate> collective_rates;
  // The links' figures are a fit to measurements on this machine.
  bool links_measured = false;

  // The class of a device; checked when the machine is made.
  const DeviceClass& ClassOf(DeviceId id) const;

  friend bool operator==(const Machine&, const Machine&) = default;
};

// Whether the devices are of one node and one class: what was measured between some such devices
// then holds for them.
bool AreAlike(const DeviceTopology& topology, std::span<const DeviceId> devices);

// InvalidArgument naming all that is wrong: devices whose class is not there, classes twice, figures
// that are not positive and finite.
absl::Status Validate(const Machine& machine);

// Faults of the classes and the rates of a machine whose devices are these.
struct DeviceOfClass {
  absl::string_view device, device_class;
};
void CheckClasses(const Machine& machine, std::span<const DeviceOfClass> devices, Faults& faults);

// The first `count` devices with what connects them, and all classes.
absl::StatusOr<Machine> TakeDevices(const Machine& machine, int count);

// The file format (proto/machine.proto), exact both ways; reading validates.
proto::Machine MachineToProto(const Machine& machine);
absl::StatusOr<Machine> MachineFromProto(const proto::Machine& message);

// Text files. `source` (a path) is named in errors. Loading: NotFound or PermissionDenied where the
// file cannot be read, InvalidArgument with the line where it is no machine.
std::string MachineText(const Machine& machine);
absl::StatusOr<Machine> ParseMachine(absl::string_view text, absl::string_view source);
absl::StatusOr<Machine> LoadMachine(const std::string& path);
absl::Status SaveMachine(const Machine& machine, const std::string& path);

}  // namespace partita
