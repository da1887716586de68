#include "cost_model/catalogue.h"

#include <string>

// Rates and sizes of data sheets, which each row names, without sparsity. Peripheral buses carry less
// than they signal: PCIe 3.0 x16 signals 15.75 GB/s per direction and carries about 12 (packets of
// 256 bytes and their acknowledgements), 4.0 about 25 of 31.5, 5.0 about 50 of 63. From a kernel's
// start to the next one's pass 3 to 5 us, as launches without graphs are commonly measured.

namespace partita {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;
constexpr int64_t kGB = 1'000'000'000;
constexpr int64_t kPcie3 = 12 * kGB, kPcie4 = 25 * kGB, kPcie5 = 50 * kGB;

constexpr AcceleratorModel kModels[] = {
    // NVIDIA Tesla P100 data sheet (2016), SXM2: 10.6 TFLOP/s in float32, 21.2 in float16, 16 GB at
    // 732 GB/s; four NVLink 1.0 of 20 GB/s. Four in all pairs: one link for each pair.
    {.name = "p100-sxm",
     .device_class = "p100",
     .description = "NVIDIA Tesla P100 SXM2 16 GB",
     .memory_bytes = 16 * kGiB,
     .float32 = 10.6e12,
     .float16 = 21.2e12,
     .memory_bytes_per_second = 732e9,
     .kernel_overhead_ns = 5000,
     .bus_bytes_per_second = kPcie3,
     .most_in_pairs = 4,
     .pair_bytes_per_second = 20 * kGB},
    // NVIDIA V100 data sheet (2020), SXM2 32 GB: 15.7 TFLOP/s in float32, 125 in tensor cores
    // (float16), 900 GB/s; six NVLink 2.0 of 25 GB/s: two for each pair of four, all of them to the
    // NVSwitch of a DGX-2 (16 GPUs; its data sheet, 2019).
    {.name = "v100-sxm",
     .device_class = "v100",
     .description = "NVIDIA V100 SXM2 32 GB",
     .memory_bytes = 32 * kGiB,
     .float32 = 15.7e12,
     .float16 = 125e12,
     .memory_bytes_per_second = 900e9,
     .kernel_overhead_ns = 4500,
     .bus_bytes_per_second = kPcie3,
     .most_in_pairs = 4,
     .pair_bytes_per_second = 50 * kGB,
     .most_on_switch = 16,
     .switch_bytes_per_second = 150 * kGB},
    // NVIDIA A100 data sheet (2021), SXM4 80 GB: 19.5 TFLOP/s in float32, 156 in TF32, 312 in
    // float16 and bfloat16, 2,039 GB/s; twelve NVLink 3.0 of 25 GB/s: four for each pair of four
    // (HGX A100 4-GPU), all of them to NVSwitch (8 in a DGX A100, 16 in HGX); PCIe 4.0.
    {.name = "a100-sxm",
     .device_class = "a100",
     .description = "NVIDIA A100 SXM4 80 GB",
     .memory_bytes = 80 * kGiB,
     .float32 = 19.5e12,
     .tf32 = 156e12,
     .float16 = 312e12,
     .bfloat16 = 312e12,
     .memory_bytes_per_second = 2039e9,
     .kernel_overhead_ns = 4000,
     .bus_bytes_per_second = kPcie4,
     .most_in_pairs = 4,
     .pair_bytes_per_second = 100 * kGB,
     .most_on_switch = 16,
     .switch_bytes_per_second = 300 * kGB},
    // NVIDIA H100 data sheet (2023), SXM5: 67 TFLOP/s in float32; with sparsity 989 in TF32 and
    // 1,979 in float16 and bfloat16, so half of that; 80 GB at 3.35 TB/s; eighteen NVLink 4.0 of 25
    // GB/s: six for each pair of four (HGX H100 4-GPU), all of them to NVSwitch; PCIe 5.0.
    {.name = "h100-sxm",
     .device_class = "h100",
     .description = "NVIDIA H100 SXM5 80 GB",
     .memory_bytes = 80 * kGiB,
     .float32 = 67e12,
     .tf32 = 494.5e12,
     .float16 = 989.5e12,
     .bfloat16 = 989.5e12,
     .memory_bytes_per_second = 3350e9,
     .kernel_overhead_ns = 3000,
     .bus_bytes_per_second = kPcie5,
     .most_in_pairs = 4,
     .pair_bytes_per_second = 150 * kGB,
     .most_on_switch = 8,
     .switch_bytes_per_second = 450 * kGB},
    // NVIDIA H200 data sheet (2024), SXM: the H100's arithmetic and links, 141 GB at 4.8 TB/s.
    {.name = "h200-sxm",
     .device_class = "h200",
     .description = "NVIDIA H200 SXM5 141 GB",
     .memory_bytes = 141 * kGB,
     .float32 = 67e12,
     .tf32 = 494.5e12,
     .float16 = 989.5e12,
     .bfloat16 = 989.5e12,
     .memory_bytes_per_second = 4800e9,
     .kernel_overhead_ns = 3000,
     .bus_bytes_per_second = kPcie5,
     .most_on_switch = 8,
     .switch_bytes_per_second = 450 * kGB},
    // NVIDIA GB200 NVL72 data sheet (2024), a 72nd of it: 5,760 TFLOP/s in float32; with sparsity 180
    // PFLOP/s in TF32 and 360 in float16 and bfloat16, so half of that; 13.4 TB at 576 TB/s; NVLink
    // 5 of 130 TB/s both ways: 900 GB/s for each GPU; PCIe 5.0 to its network card; a tray, which is
    // a host, has two boards of two GPUs.
    {.name = "b200",
     .device_class = "b200",
     .description = "NVIDIA B200 as in GB200 NVL72, 186 GB",
     .memory_bytes = 186 * kGB,
     .float32 = 80e12,
     .tf32 = 1250e12,
     .float16 = 2500e12,
     .bfloat16 = 2500e12,
     .memory_bytes_per_second = 8000e9,
     .kernel_overhead_ns = 3000,
     .bus_bytes_per_second = kPcie5,
     .most_on_switch = 72,
     .switch_bytes_per_second = 900 * kGB,
     .most_on_host = 4},
    // NVIDIA L4 data sheet (2023): 30.3 TFLOP/s in float32; with sparsity 120 in TF32 and 242 in
    // float16 and bfloat16, so half of that; 24 GB at 300 GB/s; PCIe 4.0 x16, no NVLink.
    {.name = "l4",
     .device_class = "l4",
     .description = "NVIDIA L4 24 GB",
     .memory_bytes = 24 * kGiB,
     .float32 = 30.3e12,
     .tf32 = 60e12,
     .float16 = 121e12,
     .bfloat16 = 121e12,
     .memory_bytes_per_second = 300e9,
     .kernel_overhead_ns = 3500,
     .bus_bytes_per_second = kPcie4},
    // NVIDIA L40S data sheet (2023): 91.6 TFLOP/s in float32; 183 in TF32 and 362 in float16 and
    // bfloat16; 48 GB at 864 GB/s; PCIe 4.0 x16, no NVLink.
    {.name = "l40s",
     .device_class = "l40s",
     .description = "NVIDIA L40S 48 GB",
     .memory_bytes = 48 * kGiB,
     .float32 = 91.6e12,
     .tf32 = 183e12,
     .float16 = 362e12,
     .bfloat16 = 362e12,
     .memory_bytes_per_second = 864e9,
     .kernel_overhead_ns = 3500,
     .bus_bytes_per_second = kPcie4},
    // NVIDIA Ada GPU Architecture whitepaper (2023), GeForce RTX 4090: 82.6 TFLOP/s in float32 and
    // TF32, 165.2 in float16 and bfloat16 that add in float32; 24 GB at 1,008 GB/s; PCIe 4.0 x16.
    {.name = "rtx4090",
     .device_class = "rtx4090",
     .description = "NVIDIA GeForce RTX 4090 24 GB",
     .memory_bytes = 24 * kGiB,
     .float32 = 82.6e12,
     .tf32 = 82.6e12,
     .float16 = 165.2e12,
     .bfloat16 = 165.2e12,
     .memory_bytes_per_second = 1008e9,
     .kernel_overhead_ns = 3500,
     .bus_bytes_per_second = kPcie4},
    // AMD Instinct MI300X data sheet (2023): 163.4 TFLOP/s in float32, 653.7 in TF32, 1,307.4 in
    // float16 and bfloat16; 192 GB at 5.3 TB/s; seven Infinity Fabric links of 128 GB/s both ways,
    // one to each of the others of eight; PCIe 5.0.
    {.name = "mi300x",
     .device_class = "mi300x",
     .description = "AMD Instinct MI300X 192 GB",
     .memory_bytes = 192 * kGB,
     .float32 = 163.4e12,
     .tf32 = 653.7e12,
     .float16 = 1307.4e12,
     .bfloat16 = 1307.4e12,
     .memory_bytes_per_second = 5300e9,
     .kernel_overhead_ns = 4000,
     .bus_bytes_per_second = kPcie5,
     .most_in_pairs = 8,
     .pair_bytes_per_second = 64 * kGB},
};

}  // namespace

absl::Span<const AcceleratorModel> AcceleratorModels() { return kModels; }

const AcceleratorModel* FindAccelerator(absl::string_view name) {
  for (const AcceleratorModel& model : kModels) {
    if (model.name == name) return &model;
  }
  return nullptr;
}

DeviceClass ClassOf(const AcceleratorModel& model) {
  DeviceClass made{.name = std::string(model.device_class),
                   .description = std::string(model.description),
                   .matrix_flops = model.float32,
                   .other_flops = model.float32 / 2,  // without multiply-adds
                   .memory_bytes_per_second = model.memory_bytes_per_second,
                   .kernel_overhead_ns = model.kernel_overhead_ns};
  // Copying reads and writes, adding reads twice and writes: 37 %, 25 % and 75 % of the bandwidth are
  // payload.
  const double bandwidth = model.memory_bytes_per_second;
  made.copy = {model.kernel_overhead_ns, 0.37 * bandwidth};
  made.add = {model.kernel_overhead_ns, 0.25 * bandwidth};
  made.fill = {model.kernel_overhead_ns, 0.75 * bandwidth};
  const PrecisionRate rates[] = {{Precision::kTf32, model.tf32},
                                 {Precision::kFloat16, model.float16},
                                 {Precision::kBfloat16, model.bfloat16}};
  for (const PrecisionRate& rate : rates) {
    if (rate.matrix_flops > 0) made.precision_rates.push_back(rate);
  }
  return made;
}

}  // namespace partita
