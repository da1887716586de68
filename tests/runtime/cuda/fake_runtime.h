#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "runtime/backend/cuda/cuda_status.h"

namespace partita {

// Stand-in for the CUDA runtime's functions that streams and recordings call: one
// GPU whose memory is the host's. Work that is enqueued outside of a capture is done at once. What
// is captured becomes a graph, under CUDA's rules of forks, joins and events, and runs in an order
// that keeps nothing but its dependencies. While one lives; the functions refer to it.
class FakeRuntime {
 public:
  FakeRuntime();
  ~FakeRuntime();

  // Work on a stream, as a kernel's launch.
  cudaError_t Enqueue(cudaStream_t stream, const std::string& what, std::function<void()> run);

  std::vector<std::string> log;  // calls outside of captures that order work, and launches
  int allocations = 0;           // of the device and the host, and events
  int waits = 0;                 // of the host for the device, and questions
  int without_device = 0;        // calls by threads that had not chosen a GPU
  int clock_ms = 0;              // goes on by each record of an event
  cudaError_t begin_capture = cudaSuccess;  // its answer

  // State of the functions.
  std::set<cudaStream_t> streams;
  std::vector<int> priorities;                // of streams, in the order in which they were made
  std::map<const char*, const char*> pinned;  // begin of host memory by its end
};

}  // namespace partita
