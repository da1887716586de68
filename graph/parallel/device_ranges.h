#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "graph/support/strong_int.h"

namespace partita {

// Devices first, first + step, .., last; one device where these are equal.
struct StridedDevices {
  int32_t first = 0, last = 0, step = 1;
  friend bool operator==(const StridedDevices&, const StridedDevices&) = default;
};

// Lists of more devices are written as ranges.
inline constexpr size_t kFewDevices = 16;

// The list as ranges, each as long as it can be.
std::vector<StridedDevices> RangesOf(std::span<const DeviceId> devices);
// Appends the devices of a range. InvalidArgument where it does not lead from first to last, or the
// list would have more than `most`.
absl::Status AppendRange(const StridedDevices& range, int64_t most, std::vector<DeviceId>& devices);

// "3-9", "0,2,4"; of many devices the first ranges and the last: "0-1016 by 8, 1-1017 by 8, 2-1018 by
// 8, .., 7-1023 by 8".
std::string DevicesText(std::span<const DeviceId> devices);

}  // namespace partita
