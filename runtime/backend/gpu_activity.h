#pragma once

namespace partita {

// Clocks, temperature and power draw of a GPU at one moment.
struct GpuActivity {
  int clock_mhz = 0, memory_clock_mhz = 0;
  int celsius = 0;
  int milliwatts = 0;

  friend bool operator==(const GpuActivity&, const GpuActivity&) = default;
};

}  // namespace partita
