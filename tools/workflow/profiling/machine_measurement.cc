#include "tools/workflow/profiling/machine_measurement.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "cost_model/discovery.h"
#include "cost_model/fit.h"
#include "cost_model/gpu_machine.h"
#include "cost_model/machines.h"
#include "graph/support/median.h"
#include "graph/support/status_macros.h"
#include "runtime/backend/gpus.h"
#include "runtime/comm/communicators.h"
#include "runtime/executor/executor_setup.h"
#include "runtime/profiler/kernel_profiler.h"
#include "runtime/profiler/link_profiler.h"
#include "tools/workflow/priced_machine.h"
#include "tools/workflow/profiling/profiling_session.h"

namespace partita {
namespace {

KernelTensor Float(Shape shape) { return {{DType::kFloat32, std::move(shape)}}; }

ProfiledWork Product(int64_t rows, int64_t inputs, int64_t outputs) {
  MatMul product;
  product.transposed = true;
  return KernelWork{.signature = {.attrs = product,
                                  .pass = Pass::Forward(),
                                  .inputs = {Float({rows, inputs}), Float({outputs, inputs})},
                                  .outputs = {Float({rows, outputs})}},
                    .fresh = {true, false},
                    .rectified = {},
                    .in_place_of = {}};
}

ProfiledWork Convolution(int64_t samples, int64_t channels, int64_t size) {
  Conv2d conv;
  conv.pads = {1, 1, 1, 1};
  const Shape image = {samples, channels, size, size};
  return KernelWork{.signature = {.attrs = conv,
                                  .pass = Pass::Forward(),
                                  .inputs = {Float(image), Float({channels, channels, 3, 3})},
                                  .outputs = {Float(image)}},
                    .fresh = {true, false},
                    .rectified = {},
                    .in_place_of = {}};
}

ProfiledWork Elementwise(int64_t elements) {
  return KernelWork{.signature = {.attrs = Relu{},
                                  .pass = Pass::Forward(),
                                  .inputs = {Float({elements})},
                                  .outputs = {Float({elements})}},
                    .fresh = {},
                    .rectified = {},
                    .in_place_of = {}};
}

}  // namespace

std::vector<ProfiledWork> TypicalWork() {
  std::vector<ProfiledWork> works = {Product(512, 1024, 1024), Convolution(8, 128, 28),
                                     Elementwise(16 << 20), Elementwise(8)};
  using Kind = MoveSignature::Kind;
  for (Kind kind : {Kind::kCopy, Kind::kAdd, Kind::kFill}) {
    for (int64_t elements : {1 << 8, 1 << 14, 1 << 20, 1 << 23}) {
      works.push_back(MoveSignature{kind, DType::kFloat32, elements, elements});
    }
  }
  return works;
}

namespace {

constexpr char kMethod[] =
    R"(Measured on this host, medians of 9 runs on every device while all devices did the same.
memory_bytes: of all memory that this process may use, 80 %, divided among the devices.
matrix_flops: the faster of a product 512 x 1024 x 1024 and a 3x3 convolution 8 x 128 x 28 x 28.
other_flops, memory_bytes_per_second: a ReLU of 16 Mi floats, nothing of it in caches.
kernel_overhead_ns: a ReLU of 8 floats.
copy, add, fill: lines through moves of 1 KiB to 32 MiB in one run, their source just written.
links: a line through single messages of 4 B to 16 MiB that the receiver reads from the sender's memory.
collective_rates: lines through collectives of 4 B to 16 MiB, by algorithm and number of ranks.)";

constexpr char kGpuMethod[] = R"(
On GPUs every run finds its operands out of the L2 cache but for those that the device wrote right before, as
in a step, and a GPU's link to host memory is a line through copies of pinned memory.)";

// Tells how many measurements of all classes are done.
class MeasurementProgress {
 public:
  MeasurementProgress(const MachineMeasurementRequest& request, size_t wanted)
      : tell_(request.progress), wanted_(static_cast<int64_t>(wanted)) {}

  // What is measured next.
  void Begin(const std::string& what) const {
    if (tell_) tell_(done_, wanted_, what);
  }
  void End(size_t measurements) { done_ += static_cast<int64_t>(measurements); }

 private:
  const std::function<void(int64_t, int64_t, const std::string&)>& tell_;
  const int64_t wanted_;
  int64_t done_ = 0;
};

// The devices of one class.
class ClassMeasurement {
 public:
  ClassMeasurement(std::string device_class, std::vector<PlacedDevice> devices,
                   MeasurementProgress& progress, MeasuredMachine& measured)
      : class_(std::move(device_class)),
        devices_(std::move(devices)),
        progress_(progress),
        measured_(measured) {}

  // Measurements of kernels, moves and communication on so many devices.
  static size_t MeasurementsOn(size_t devices) {
    const auto count = static_cast<int>(devices);
    return TypicalWork().size() + (count > 1 ? TypicalCommunication(count).size() : 0);
  }

  absl::Status Run() {
    RETURN_IF_ERROR(MeasureWork());
    if (devices_.size() > 1) RETURN_IF_ERROR(MeasureCommunication());
    ASSIGN_OR_RETURN(measured_.machine,
                     ApplyRates(std::move(measured_.machine), class_, RatesFrom(records_)));
    if (devices_[0].backend->RunsOnHost() || !measured_.host_copies.empty()) {
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(measured_.host_copies,
                     MeasureHostCopies(devices_[0], {4, 1 << 16, 1 << 20, 1 << 24, 1 << 26}, {}));
    ASSIGN_OR_RETURN(measured_.machine,
                     WithHostCopies(std::move(measured_.machine), measured_.host_copies));
    return absl::OkStatus();
  }

 private:
  absl::Status MeasureWork() {
    ASSIGN_OR_RETURN(const auto kernels, KernelProfiler::Open(devices_));
    const std::vector<ProfiledWork> works = TypicalWork();
    progress_.Begin(absl::StrCat("kernels and moves of ", class_));
    ASSIGN_OR_RETURN(std::vector<Measurement> measured, kernels->Measure(works, {}));
    progress_.End(works.size());
    for (size_t k = 0; k < works.size(); ++k) {
      records_.push_back(RecordOfWork(works[k]));
      records_.back().samples_ns = std::move(measured[k].samples_ns);
    }
    return absl::OkStatus();
  }

  absl::Status MeasureCommunication() {
    const int count = static_cast<int>(devices_.size());
    ASSIGN_OR_RETURN(auto communicator,
                     MakeCommunicator(CommunicatorBetween(devices_), {.devices = count}));
    ASSIGN_OR_RETURN(const auto links, LinkProfiler::Open(devices_, std::move(communicator)));
    for (const TaskBody& body : TypicalCommunication(count)) {
      progress_.Begin(absl::StrCat("communication of ", class_));
      ASSIGN_OR_RETURN(Measurement measured, links->Measure(body, {}));
      progress_.End(1);
      records_.push_back(RecordOfCommunication(body));
      records_.back().samples_ns = std::move(measured.samples_ns);
      NoteCollective(body, Median(records_.back().samples_ns));
    }
    return absl::OkStatus();
  }

  void NoteCollective(const TaskBody& body, int64_t nanos) {
    const auto* task = std::get_if<CollectiveTask>(&body);
    if (task == nullptr) return;
    measured_.collectives.push_back({class_, Name(task->collective.kind), task->algorithm,
                                     task->collective.ranks, nanos,
                                     BandwidthOf(task->collective, SizeOf(task->dtype), nanos)});
  }

  const std::string class_;
  const std::vector<PlacedDevice> devices_;
  MeasurementProgress& progress_;
  MeasuredMachine& measured_;
  std::vector<ProfileRecord> records_;
};

absl::StatusOr<Machine> MachineToMeasure(const MachineMeasurementRequest& request) {
  if (!request.gpus.has_value()) {
    return FindMachine("local", request.devices, request.oversubscribe);
  }
  ASSIGN_OR_RETURN(const GpuHost gpus, ExamineGpus());
  std::optional<Machine> cores;
  if (request.devices.has_value()) {
    ASSIGN_OR_RETURN(cores, FindMachine("local", request.devices, request.oversubscribe));
  }
  return MachineOf(gpus, {.gpus = request.gpus}, cores);
}

std::string Table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths(rows[0].size());
  for (const auto& row : rows) {
    for (size_t k = 0; k < row.size(); ++k) widths[k] = std::max(widths[k], row[k].size());
  }
  std::string text;
  for (const auto& row : rows) {
    for (size_t k = 0; k < row.size(); ++k) {
      absl::StrAppend(&text, std::string(widths[k] - row[k].size(), ' '), row[k],
                      k + 1 < row.size() ? "  " : "\n");
    }
  }
  return text;
}

std::string Microseconds(int64_t nanos) {
  return absl::StrFormat("%.1f us", static_cast<double>(nanos) / 1e3);
}
std::string Gigabytes(double bytes_per_second) {
  return absl::StrFormat("%.2f GB/s", bytes_per_second / 1e9);
}

}  // namespace

std::string CollectiveTable(std::span<const MeasuredCollective> collectives) {
  if (collectives.empty()) return "";
  std::vector<std::vector<std::string>> rows = {
      {"class", "collective", "algorithm", "ranks", "bytes", "time", "algbw", "busbw"}};
  for (const MeasuredCollective& one : collectives) {
    rows.push_back({one.device_class, one.kind, one.algorithm.empty() ? "-" : one.algorithm,
                    absl::StrCat(one.ranks), absl::StrCat(one.bandwidth.bytes),
                    Microseconds(one.nanos), Gigabytes(one.bandwidth.algorithm),
                    Gigabytes(one.bandwidth.bus)});
  }
  return Table(rows);
}

std::string HostCopyTable(std::span<const HostCopy> copies) {
  if (copies.empty()) return "";
  std::vector<std::vector<std::string>> rows = {
      {"host memory", "direction", "bytes", "time", "bandwidth"}};
  for (const HostCopy& copy : copies) {
    const int64_t nanos = Median(copy.samples_ns);
    rows.push_back({copy.pinned ? "pinned" : "pageable", copy.to_device ? "to GPU" : "from GPU",
                    absl::StrCat(copy.bytes), Microseconds(nanos),
                    Gigabytes(1e9 * static_cast<double>(copy.bytes) / static_cast<double>(nanos))});
  }
  return Table(rows);
}

absl::StatusOr<Machine> WithHostCopies(Machine machine, std::span<const HostCopy> copies) {
  std::map<int64_t, int64_t> slower;  // bytes -> nanoseconds
  for (const HostCopy& copy : copies) {
    if (!copy.pinned || copy.samples_ns.empty()) continue;
    slower[copy.bytes] = std::max(slower[copy.bytes], Median(copy.samples_ns));
  }
  std::vector<FitPoint> points;
  for (const auto& [bytes, nanos] : slower) {
    points.push_back({1, static_cast<double>(bytes), static_cast<double>(nanos)});
  }
  const auto fit = FitLine(points);
  if (!fit.has_value() || !(fit->line.bytes_per_second >= 1)) {
    return absl::InvalidArgumentError("copies of pinned memory tell no speed");
  }
  std::vector<Link> links(machine.topology.links().begin(), machine.topology.links().end());
  for (Link& link : links) {
    for (const Device& device : machine.topology.devices()) {
      if (device.kind != DeviceKind::kGpu) continue;
      if (link.ends != std::vector<std::string>{device.name, "memory"}) continue;
      link.bytes_per_second = static_cast<int64_t>(fit->line.bytes_per_second);
      link.latency = Nanos(static_cast<int64_t>(fit->line.latency_ns));
    }
  }
  ASSIGN_OR_RETURN(machine.topology, DeviceTopology::Create({machine.topology.devices().begin(),
                                                             machine.topology.devices().end()},
                                                            std::move(links)));
  return machine;
}

absl::StatusOr<MeasuredMachine> MeasureMachine(const MachineMeasurementRequest& request) {
  MeasuredMachine measured;
  DisturbanceWatch watch;
  ASSIGN_OR_RETURN(measured.machine, MachineToMeasure(request));
  const DeviceTopology topology = measured.machine.topology;
  ASSIGN_OR_RETURN(const auto placed, DevicesOf(topology));
  const std::vector<std::vector<DeviceId>> classes = DevicesByClass(topology);
  size_t wanted = 0;
  for (const auto& ids : classes) wanted += ClassMeasurement::MeasurementsOn(ids.size());
  MeasurementProgress progress(request, wanted);
  for (const std::vector<DeviceId>& ids : classes) {
    std::vector<PlacedDevice> devices;
    for (const DeviceId id : ids) devices.push_back(placed[id.index()]);
    const std::string& device_class = topology.device(ids[0]).device_class;
    RETURN_IF_ERROR(ClassMeasurement(device_class, std::move(devices), progress, measured).Run());
  }
  progress.Begin("");
  measured.disturbance = watch.SoFar();
  measured.method = absl::StrCat(kMethod, request.gpus.has_value() ? kGpuMethod : "");
  return measured;
}

std::string MeasuredMachineText(const MeasuredMachine& measured) {
  std::string comment = measured.method;
  for (const std::string& table :
       {CollectiveTable(measured.collectives), HostCopyTable(measured.host_copies)}) {
    if (!table.empty()) absl::StrAppend(&comment, "\n\n", absl::StripSuffix(table, "\n"));
  }
  std::string text;
  for (const absl::string_view line : absl::StrSplit(comment, '\n')) {
    absl::StrAppend(&text, line.empty() ? "#" : "# ", line, "\n");
  }
  return absl::StrCat(text, MachineText(measured.machine));
}

}  // namespace partita
