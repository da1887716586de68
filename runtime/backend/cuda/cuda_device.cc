#include "runtime/backend/cuda/cuda_device.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "graph/support/status_macros.h"
#include "runtime/backend/cuda/cuda_status.h"
#include "runtime/backend/cuda/cuda_stream.h"
#include "runtime/backend/cuda/planned_kernel.h"

namespace partita {
namespace {

// Memory of a GPU, or pinned for it, and what gives it back.
class CudaMemory : public DeviceMemory {
 public:
  using Release = cudaError_t (*)(void*);
  CudaMemory(void* data, int64_t bytes, Release release,
             std::shared_ptr<const CudaDeviceState> state)
      : DeviceMemory(data, bytes), release_(release), state_(std::move(state)) {}
  ~CudaMemory() override {
    if (data() != nullptr && state_->MakeCurrent().ok()) release_(data());
  }

 private:
  const Release release_;
  const std::shared_ptr<const CudaDeviceState> state_;
};

// Hardware and driver.
std::string NameOf(int index) {
  cudaDeviceProp properties = {};
  int driver = 0;
  (void)cudaGetDeviceProperties(&properties, index);
  (void)cudaDriverGetVersion(&driver);
  return absl::StrCat(properties.name, " sm_", properties.major, properties.minor, " ",
                      properties.multiProcessorCount, " multiprocessors, driver ", driver);
}

}  // namespace

CudaDevice::CudaDevice(const DeviceSpec& spec)
    : state_(std::make_shared<CudaDeviceState>(spec.index)),
      handles_(std::make_shared<VendorHandles>(
          spec.algorithms, spec.measure_algorithms ? MakeCudaTrialDevice() : nullptr,
          NameOf(spec.index))) {}

CudaDevice::~CudaDevice() = default;

absl::StatusOr<std::unique_ptr<DeviceMemory>> CudaDevice::Allocate(int64_t bytes) {
  if (bytes == 0) return std::make_unique<CudaMemory>(nullptr, 0, &cudaFree, state_);
  RETURN_IF_ERROR(state_->MakeCurrent());
  void* data = nullptr;
  if (const cudaError_t code = cudaMalloc(&data, static_cast<size_t>(bytes)); code != cudaSuccess) {
    size_t free = 0, total = 0;
    (void)cudaMemGetInfo(&free, &total);
    return CudaStatus(code, absl::StrCat("allocating ", bytes, " bytes on a GPU that has ", free,
                                         " of ", total, " free")
                                .c_str());
  }
  auto memory = std::make_unique<CudaMemory>(data, bytes, &cudaFree, state_);
  RETURN_IF_ERROR(
      CudaStatus(cudaMemset(data, 0, static_cast<size_t>(bytes)), "clearing a GPU's memory"));
  RETURN_IF_ERROR(CudaStatus(cudaStreamSynchronize(nullptr), "clearing a GPU's memory"));
  return memory;
}

absl::StatusOr<std::unique_ptr<DeviceMemory>> CudaDevice::AllocateHost(int64_t bytes) {
  if (bytes == 0) return std::make_unique<CudaMemory>(nullptr, 0, &cudaFreeHost, state_);
  RETURN_IF_ERROR(state_->MakeCurrent());
  void* data = nullptr;
  RETURN_IF_ERROR(CudaStatus(
      cudaHostAlloc(&data, static_cast<size_t>(bytes), cudaHostAllocPortable | cudaHostAllocMapped),
      absl::StrCat("pinning ", bytes, " bytes of host memory").c_str()));
  std::memset(data, 0, static_cast<size_t>(bytes));
  return std::make_unique<CudaMemory>(data, bytes, &cudaFreeHost, state_);
}

// Devices of one GPU share its memory; what other GPUs could do to each other directly depends on
// the machine, and goes through host memory here.
bool CudaDevice::Reaches(const BackendDevice& other) const {
  const auto* gpu = dynamic_cast<const CudaDevice*>(&other);
  return gpu != nullptr && gpu->state_->index() == state_->index();
}

absl::StatusOr<std::unique_ptr<Stream>> CudaDevice::NewStream(const std::string& name,
                                                              StreamUse use) {
  return CudaStream::Create(name, use, state_);
}

std::unique_ptr<Event> CudaDevice::NewEvent() { return std::make_unique<CudaEvent>(state_); }

absl::StatusOr<std::unique_ptr<Kernel>> CudaDevice::Prepare(const KernelSignature& signature) {
  RETURN_IF_ERROR(state_->MakeCurrent());
  return PlannedKernel::Prepare(signature, handles_);
}

void CudaDevice::OnError(std::function<void(const absl::Status&)> report) {
  state_->set_report(std::move(report));
}

void CudaDevice::Abort(const absl::Status& reason) { state_->Fail(reason); }

}  // namespace partita
