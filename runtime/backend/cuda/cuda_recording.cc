#include "runtime/backend/cuda/cuda_recording.h"

#include "graph/support/error_category.h"
#include "graph/support/status_macros.h"
#include "runtime/backend/cuda/cuda_status.h"

namespace partita {
namespace {

constexpr char kRecorded[] = "a recorded step";

}  // namespace

CudaRecording::~CudaRecording() {
  if (!streams_.empty()) (void)streams_[0]->MakeCurrent();
  if (graph_ != nullptr) cudaGraphExecDestroy(graph_);
  for (cudaEvent_t event : events_) cudaEventDestroy(event);
  for (const StreamCapture::Stamp& stamp : capture_.stamps) cudaEventDestroy(stamp.event);
  if (capture_.numbers != nullptr) cudaFree(capture_.numbers);
  if (numbers_ != nullptr) cudaFreeHost(numbers_);
}

absl::Status CudaRecording::Open() {
  RETURN_IF_ERROR(streams_[0]->MakeCurrent());
  void *host = nullptr, *device = nullptr;
  RETURN_IF_ERROR(
      CudaStatus(cudaHostAlloc(&host, sizeof(StepNumbers), cudaHostAllocDefault), kRecorded));
  numbers_ = static_cast<StepNumbers*>(host);
  RETURN_IF_ERROR(CudaStatus(cudaMalloc(&device, sizeof(StepNumbers)), kRecorded));
  capture_.numbers = static_cast<StepNumbers*>(device);
  while (events_.size() < streams_.size()) {
    cudaEvent_t event = nullptr;
    RETURN_IF_ERROR(
        CudaStatus(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), kRecorded));
    events_.push_back(event);
  }
  return absl::OkStatus();
}

// Other threads go on: they ask for events, and free and allocate memory.
absl::Status CudaRecording::Begin() {
  RETURN_IF_ERROR(Open());
  RETURN_IF_ERROR(
      CudaStatus(cudaStreamBeginCapture(first(), cudaStreamCaptureModeRelaxed), kRecorded));
  for (CudaStream* stream : streams_) stream->StartRecording(&capture_);
  const absl::Status forked = Fork();
  if (!forked.ok()) (void)End();
  return forked;
}

absl::Status CudaRecording::Fork() {
  RETURN_IF_ERROR(CudaStatus(cudaEventRecord(events_[0], first()), kRecorded));
  for (size_t k = 1; k < streams_.size(); ++k) {
    RETURN_IF_ERROR(CudaStatus(cudaStreamWaitEvent(streams_[k]->get(), events_[0], 0), kRecorded));
  }
  return absl::OkStatus();
}

absl::Status CudaRecording::Join() {
  for (size_t k = 1; k < streams_.size(); ++k) {
    RETURN_IF_ERROR(CudaStatus(cudaEventRecord(events_[k], streams_[k]->get()), kRecorded));
    RETURN_IF_ERROR(CudaStatus(cudaStreamWaitEvent(first(), events_[k], 0), kRecorded));
  }
  return absl::OkStatus();
}

// The streams join and the capture is ended whatever went wrong: they are usable again after it.
absl::Status CudaRecording::End() {
  for (CudaStream* stream : streams_) stream->StopRecording();
  absl::Status status = capture_.status;
  status.Update(streams_[0]->MakeCurrent());
  status.Update(Join());
  cudaGraph_t graph = nullptr;
  status.Update(CudaStatus(cudaStreamEndCapture(first(), &graph), kRecorded));
  if (status.ok()) status = Instantiate(graph);
  if (graph != nullptr) cudaGraphDestroy(graph);
  return status;
}

absl::Status CudaRecording::Instantiate(cudaGraph_t graph) {
  RETURN_IF_ERROR(CudaStatus(cudaGraphInstantiate(&graph_, graph, 0), kRecorded));
  return CudaStatus(cudaGraphUpload(graph_, first()), kRecorded);
}

absl::Status CudaRecording::Run(const StepArguments& arguments) {
  if (graph_ == nullptr) return absl::InternalError("no step is recorded");
  RETURN_IF_ERROR(streams_[0]->MakeCurrent());
  RETURN_IF_ERROR(Join());
  *numbers_ = NumbersOf(arguments);
  RETURN_IF_ERROR(CudaStatus(cudaMemcpyAsync(capture_.numbers, numbers_, sizeof(StepNumbers),
                                             cudaMemcpyHostToDevice, first()),
                             kRecorded));
  RETURN_IF_ERROR(CudaStatus(cudaGraphLaunch(graph_, first()), kRecorded));
  RETURN_IF_ERROR(Fork());
  for (CudaStream* stream : streams_) stream->CountRecorded();
  for (const StreamCapture::Stamp& stamp : capture_.stamps) {
    stamp.stream->StoreTime(stamp.event, stamp.ns);
  }
  return absl::OkStatus();
}

}  // namespace partita
