#include "graph/support/memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "graph/support/error_category.h"
#include "graph/support/number_in.h"

namespace partita {
namespace {

// Where a control group keeps its memory's limit and use, of either version; and what of the use
// are files that are given back on demand.
struct MemoryGroup {
  const char *limit, *use, *statistics, *files;
};
constexpr MemoryGroup kMemoryGroups[] = {
    {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory.stat",
     "inactive_file"},
    {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes",
     "/sys/fs/cgroup/memory/memory.stat", "total_inactive_file"},
};

// Bytes that the limit leaves in addition to `held`; INT64_MAX where there is no limit.
int64_t LeftOf(int resource, int64_t held) {
  struct rlimit limit;
  if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
      limit.rlim_cur > static_cast<rlim_t>(INT64_MAX)) {
    return INT64_MAX;
  }
  return std::max<int64_t>(0, static_cast<int64_t>(limit.rlim_cur) - held);
}

// The smallest limit of the control groups, or `bytes` where that is smaller.
int64_t WithinControlGroup(int64_t bytes) {
  for (const MemoryGroup& group : kMemoryGroups) {
    const int64_t limit = NumberIn(group.limit);
    if (limit > 0) bytes = std::min(bytes, limit);
  }
  return bytes;
}

}  // namespace

int64_t UsableMemory() {
  return WithinControlGroup(static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE));
}

int64_t AvailableMemory(int64_t usable) {
  int64_t bytes = usable;
  const int64_t kilobytes = NumberIn("/proc/meminfo", "MemAvailable:");
  if (kilobytes > 0) bytes = std::min(bytes, kilobytes << 10);
  for (const MemoryGroup& group : kMemoryGroups) {
    const int64_t limit = NumberIn(group.limit);
    if (limit <= 0 || limit > usable) continue;
    const int64_t held = NumberIn(group.use) - NumberIn(group.statistics, group.files);
    bytes = std::min(bytes, limit - std::max<int64_t>(0, held));
  }
  return std::max<int64_t>(0, bytes);
}

absl::Status CheckMemory(int64_t bytes, absl::string_view what) {
  const int64_t left =
      std::min({AvailableMemory(UsableMemory()),
                LeftOf(RLIMIT_AS, NumberIn("/proc/self/status", "VmSize:") << 10),
                LeftOf(RLIMIT_DATA, NumberIn("/proc/self/status", "VmData:") << 10)});
  if (bytes <= left) return absl::OkStatus();
  return MemoryError(
      absl::StrCat(what, " take ", bytes, " bytes; ", left, " are left of this machine's memory"));
}

}  // namespace partita
