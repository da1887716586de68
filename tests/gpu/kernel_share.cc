#include "tests/gpu/kernel_share.h"

#include <algorithm>
#include <vector>

namespace partita {

KernelShare KernelShareOf(std::span<const MeasuredInstruction> timeline, int64_t step_ns) {
  KernelShare share;
  if (timeline.empty() || step_ns <= 0) return share;
  std::vector<MeasuredInstruction> sorted(timeline.begin(), timeline.end());
  std::sort(sorted.begin(), sorted.end(),
            [](const auto& a, const auto& b) { return a.start_ns < b.start_ns; });
  int64_t busy = 0, gaps = 0, end = sorted[0].start_ns;
  for (const MeasuredInstruction& one : sorted) {
    const int64_t gap = std::max<int64_t>(0, one.start_ns - end);
    gaps += gap;
    share.longest_gap_ns = std::max(share.longest_gap_ns, gap);
    busy += std::max<int64_t>(0, one.end_ns - std::max(end, one.start_ns));
    end = std::max(end, one.end_ns);
  }
  share.pieces = static_cast<int64_t>(sorted.size());
  share.busy = static_cast<double>(busy) / static_cast<double>(step_ns);
  share.gaps = static_cast<double>(gaps) / static_cast<double>(step_ns);
  share.step_ns = step_ns;
  return share;
}

double GapsWithoutRecording(const KernelShare& share, double ns) {
  const auto recorded = static_cast<double>(share.step_ns);
  const double recording = std::max(0.0, recorded - ns);
  return ns > 0 ? std::max(0.0, share.gaps * recorded - recording) / ns : 0;
}

}  // namespace partita
