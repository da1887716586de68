// Memory of one GPU that all ranks share. Copies are the GPU's; sums are made on the host, from
// copies, which is slow and does what the library on host memory does.
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "tests/testing/nccl_on_host/memory.h"

namespace partita::nccl_on_host {
namespace {

void Require(cudaError_t code, const char* what) {
  if (code == cudaSuccess) return;
  std::fprintf(stderr, "nccl_on_device: %s: %s\n", what, cudaGetErrorString(code));
  std::abort();
}

// A copy within a device is over when the default stream is idle.
void CopyNow(void* to, const void* from, size_t bytes) {
  Require(cudaMemcpy(to, from, bytes, cudaMemcpyDefault), "a copy");
  Require(cudaStreamSynchronize(cudaStreamLegacy), "a copy");
}

class InDeviceMemory : public Elements {
 public:
  void Copy(void* to, const void* from, size_t bytes) const override {
    if (bytes > 0 && to != from) CopyNow(to, from, bytes);
  }

  void Fold(ncclDataType_t type, ncclRedOp_t op, std::span<const void* const> values, void* into,
            size_t count) const override {
    const size_t bytes = count * BytesOf(type);
    if (bytes == 0) return;
    std::vector<std::vector<std::byte>> copies(values.size(), std::vector<std::byte>(bytes));
    std::vector<const void*> near;
    for (size_t k = 0; k < values.size(); ++k) {
      CopyNow(copies[k].data(), values[k], bytes);
      near.push_back(copies[k].data());
    }
    HostElements().Fold(type, op, near, copies[0].data(), count);
    CopyNow(into, copies[0].data(), bytes);
  }
};

}  // namespace

const Elements& OwnElements() {
  static const InDeviceMemory elements;
  return elements;
}

Failure AwaitStream(cudaStream_t stream) {
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  Require(cudaStreamIsCapturing(stream, &capture), "asking whether a stream is captured");
  if (capture != cudaStreamCaptureStatusNone) {
    return {ncclInvalidUsage, "calls of this library cannot be captured: they happen at once"};
  }
  Require(cudaStreamSynchronize(stream), "waiting for a stream");
  return {};
}

}  // namespace partita::nccl_on_host
