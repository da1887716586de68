#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "cost_model/machine.h"

namespace partita {

// A kind of accelerator that can be bought, as its maker describes it. Rates are of dense products,
// per second; bandwidths are per direction.
struct AcceleratorModel {
  absl::string_view name;          // "h100-sxm"
  absl::string_view device_class;  // "h100"
  absl::string_view description;
  int64_t memory_bytes = 0;
  double float32 = 0;   // of products in float32, and of other arithmetic
  double tf32 = 0;      // 0: it has no such arithmetic
  double float16 = 0;   // likewise
  double bfloat16 = 0;  // likewise
  double memory_bytes_per_second = 0;
  double kernel_overhead_ns = 0;
  int64_t bus_bytes_per_second = 0;  // to its host and its network card
  // Links between the accelerators of a node: directly to each of the others, for so many at most
  // (0: there are none), and to switches.
  int most_in_pairs = 0;
  int64_t pair_bytes_per_second = 0;
  int most_on_switch = 0;
  int64_t switch_bytes_per_second = 0;
  int most_on_host = 0;  // where the switches join several hosts; 0: they do not
};

// THE table of accelerators.
absl::Span<const AcceleratorModel> AcceleratorModels();
// Null where the table has no such name.
const AcceleratorModel* FindAccelerator(absl::string_view name);

// The rates of its devices. What moves data within the device takes parts of the memory's bandwidth
// as the P100 does.
DeviceClass ClassOf(const AcceleratorModel& model);

}  // namespace partita
