#include "runtime/profiler/host_copy_profiler.h"

#include <algorithm>
#include <cstddef>

#include "graph/support/clock.h"
#include "graph/support/status_macros.h"

namespace partita {
namespace {

absl::Status Measure(Stream& stream, void* host, void* device, const ProfilerOptions& options,
                     HostCopy& copy) {
  const void* const from = copy.to_device ? host : device;
  void* const to = copy.to_device ? device : host;
  const Stream::MoveArguments move = Stream::FlatMove(MoveSignature::Kind::kCopy, DType::kInt32,
                                                      from, to, copy.bytes / SizeOf(DType::kInt32));
  for (int sample = -1; sample < options.samples; ++sample) {
    const int64_t begin = SteadyNow();
    if (copy.to_device) {
      stream.CopyFromHost(move, nullptr);
    } else {
      stream.CopyToHost(move, nullptr);
    }
    RETURN_IF_ERROR(stream.Synchronize());
    if (sample >= 0) copy.samples_ns.push_back(std::max<int64_t>(1, SteadyNow() - begin));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<HostCopy>> MeasureHostCopies(const PlacedDevice& placed,
                                                        const std::vector<int64_t>& sizes,
                                                        const ProfilerOptions& options) {
  if (sizes.empty()) return std::vector<HostCopy>();
  const int64_t most = *std::max_element(sizes.begin(), sizes.end());
  ASSIGN_OR_RETURN(const auto device, placed.Open());
  ASSIGN_OR_RETURN(const auto stream, device->NewStream("copies", StreamUse::kCommunication));
  ASSIGN_OR_RETURN(const auto memory, device->Allocate(most));
  ASSIGN_OR_RETURN(const auto pinned, device->AllocateHost(most));
  std::vector<std::byte> pageable(static_cast<size_t>(most), std::byte{1});
  std::vector<HostCopy> copies;
  for (const int64_t bytes : sizes) {
    for (const bool is_pinned : {true, false}) {
      for (const bool to_device : {true, false}) {
        HostCopy& copy = copies.emplace_back(HostCopy{is_pinned, to_device, bytes, {}});
        void* host = is_pinned ? pinned->data() : pageable.data();
        RETURN_IF_ERROR(Measure(*stream, host, memory->data(), options, copy));
      }
    }
  }
  return copies;
}

}  // namespace partita
