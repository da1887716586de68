#include "tools/workflow/machine_measurement.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cost_model/fit.h"
#include "cost_model/machines.h"
#include "graph/support/status_macros.h"
#include "runtime/comm/communicators.h"
#include "runtime/profiler/kernel_profiler.h"
#include "runtime/profiler/link_profiler.h"
#include "runtime/train/executor_setup.h"
#include "tools/workflow/priced_machine.h"
#include "tools/workflow/profiling_session.h"

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

// What tells the figures of a device class.
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

constexpr char kMethod[] =
    R"(Measured on this host, medians of 9 runs on every device while all devices did the same.
memory_bytes: of all memory that this process may use, 80 %, divided among the devices.
matrix_flops: the faster of a product 512 x 1024 x 1024 and a 3x3 convolution 8 x 128 x 28 x 28.
other_flops, memory_bytes_per_second: a ReLU of 16 Mi floats, nothing of it in caches.
kernel_overhead_ns: a ReLU of 8 floats.
copy, add, fill: lines through moves of 1 KiB to 32 MiB in one run, their source just written.
links: a line through single messages of 4 B to 16 MiB that the receiver reads from the sender's memory.
collective_rates: lines through collectives of 4 B to 16 MiB, by algorithm and number of ranks.)";

absl::StatusOr<std::vector<ProfileRecord>> MeasureRecords(const DeviceTopology& topology) {
  ASSIGN_OR_RETURN(const auto devices, DevicesOf(topology));
  std::vector<ProfileRecord> records;
  {
    ASSIGN_OR_RETURN(const auto kernels, KernelProfiler::Open(devices));
    const std::vector<ProfiledWork> works = TypicalWork();
    ASSIGN_OR_RETURN(std::vector<Measurement> measured, kernels->Measure(works, {}));
    for (size_t k = 0; k < works.size(); ++k) {
      records.push_back(RecordOfWork(works[k]));
      records.back().samples_ns = std::move(measured[k].samples_ns);
    }
  }
  if (topology.size() == 1) return records;
  ASSIGN_OR_RETURN(auto communicator,
                   MakeCommunicator(CommunicatorBetween(devices), {.devices = topology.size()}));
  ASSIGN_OR_RETURN(const auto links, LinkProfiler::Open(devices, std::move(communicator)));
  for (const TaskBody& body : TypicalCommunication(topology.size())) {
    ASSIGN_OR_RETURN(Measurement measured, links->Measure(body, {}));
    records.push_back(RecordOfCommunication(body));
    records.back().samples_ns = std::move(measured.samples_ns);
  }
  return records;
}

}  // namespace

absl::StatusOr<MeasuredMachine> MeasureMachine(std::optional<int> devices) {
  MeasuredMachine measured;
  ASSIGN_OR_RETURN(Machine machine, FindMachine("local", devices));
  ASSIGN_OR_RETURN(const auto records, MeasureRecords(machine.topology));
  const std::string device_class = machine.topology.device(DeviceId(0)).device_class;
  ASSIGN_OR_RETURN(measured.machine,
                   ApplyRates(std::move(machine), device_class, RatesFrom(records)));
  measured.method = kMethod;
  return measured;
}

std::string MeasuredMachineText(const MeasuredMachine& measured) {
  std::string text;
  for (const absl::string_view line : absl::StrSplit(measured.method, '\n')) {
    absl::StrAppend(&text, "# ", line, "\n");
  }
  return absl::StrCat(text, MachineText(measured.machine));
}

}  // namespace partita
