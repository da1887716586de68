#pragma once

#include <cuda_runtime_api.h>

#include <utility>
#include <vector>

#include "runtime/backend/backend.h"
#include "runtime/backend/cuda/cuda_stream.h"

namespace partita {

// A CUDA graph, captured from streams of one GPU that all begin after the first and end before it.
// Kernels of the graph read the step's numbers from memory of the GPU, into which Run copies them.
class CudaRecording : public StreamRecording {
 public:
  explicit CudaRecording(std::vector<CudaStream*> streams) : streams_(std::move(streams)) {}
  ~CudaRecording() override;

  absl::Status Begin() override;
  absl::Status End() override;
  absl::Status Run(const StepArguments& arguments) override;

 private:
  absl::Status Open();
  // All streams go on after the first's work so far; the first after all others'.
  absl::Status Fork();
  absl::Status Join();
  absl::Status Instantiate(cudaGraph_t graph);
  cudaStream_t first() const { return streams_[0]->get(); }

  const std::vector<CudaStream*> streams_;
  StreamCapture capture_;
  StepNumbers* numbers_ = nullptr;   // numbers of a step in host memory, on their way to
                                     // capture_.numbers
  std::vector<cudaEvent_t> events_;  // indexed by stream
  cudaGraphExec_t graph_ = nullptr;
};

}  // namespace partita
