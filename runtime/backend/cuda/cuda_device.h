#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <memory>
#include <string>

#include "runtime/backend/backend.h"
#include "runtime/backend/cuda/cuda_status.h"
#include "runtime/backend/first_error.h"

namespace partita {

class VendorHandles;

// State shared by the objects of one open GPU.
class CudaDeviceState {
 public:
  explicit CudaDeviceState(int index) : index_(index) {}

  // Makes the GPU the calling thread's current one: before every call of the runtime, which would open
  // GPU 0 for a thread that has none.
  absl::Status MakeCurrent() const { return CudaStatus(cudaSetDevice(index_), "choosing a GPU"); }

  // Keeps the first error and tells the device's reporter. Work that is enqueued later is skipped.
  void Fail(const absl::Status& status) { error_.Set(status); }
  int index() const { return index_; }
  bool failed() const { return error_.is_set(); }
  absl::Status status() const { return error_.status(); }
  void set_report(std::function<void(const absl::Status&)> report) {
    error_.set_report(std::move(report));
  }

 private:
  const int index_;
  FirstError error_;
};

// One GPU. Streams are CUDA streams that do not wait for the default stream; memory is zeroed.
class CudaDevice : public BackendDevice {
 public:
  // The GPU that spec.index says must be there.
  explicit CudaDevice(const DeviceSpec& spec);
  ~CudaDevice() override;

  absl::StatusOr<std::unique_ptr<DeviceMemory>> Allocate(int64_t bytes) override;
  absl::StatusOr<std::unique_ptr<DeviceMemory>> AllocateHost(int64_t bytes) override;
  bool HostAddressable() const override { return false; }
  bool Reaches(const BackendDevice& other) const override;
  absl::StatusOr<std::unique_ptr<Stream>> NewStream(const std::string& name,
                                                    StreamUse use) override;
  std::unique_ptr<Event> NewEvent() override;
  absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelSignature& signature) override;
  int64_t NativeBytes(const TensorType& type) const override { return type.bytes(); }
  void OnError(std::function<void(const absl::Status&)> report) override;
  void Abort(const absl::Status& reason) override;

 private:
  std::shared_ptr<CudaDeviceState> state_;
  std::shared_ptr<VendorHandles> handles_;
};

}  // namespace partita
