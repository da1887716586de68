#include "tests/runtime/cuda/fake_runtime.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "graph/support/check.h"
#include "runtime/backend/cuda/move_kernels.h"

namespace {

partita::FakeRuntime* runtime = nullptr;
thread_local int chosen_device = -1;

void CountDevice() { runtime->without_device += chosen_device < 0 ? 1 : 0; }

struct Node {
  std::function<void()> run;
  std::set<size_t> after;
};

}  // namespace

struct CUgraph_st {
  std::vector<Node> nodes;
  cudaStream_t origin = nullptr;
  bool invalid = false;
};
struct CUgraphExec_st {
  std::vector<Node> nodes;
};
struct CUstream_st {
  int number = 0;
  CUgraph_st* capture = nullptr;
  std::set<size_t> tail;  // the nodes that the next one comes behind
};
struct CUevent_st {
  int number = 0;
  CUgraph_st* capture = nullptr;
  std::set<size_t> tail;
  int recorded_ms = 0;
};

namespace {

void Log(const std::string& what, cudaStream_t stream) {
  runtime->log.push_back(what + " on " + std::to_string(stream->number));
}

// A call that a capture does not survive.
cudaError_t Invalidate(CUgraph_st* capture, cudaError_t error) {
  capture->invalid = true;
  return error;
}

// The graph's own order turned round as far as its dependencies let it be.
void RunNodes(const std::vector<Node>& nodes) {
  std::set<size_t> done;
  while (done.size() < nodes.size()) {
    for (size_t k = nodes.size(); k-- > 0;) {
      const auto& after = nodes[k].after;
      if (done.contains(k) || !std::includes(done.begin(), done.end(), after.begin(), after.end()))
        continue;
      nodes[k].run();
      done.insert(k);
      break;
    }
  }
}

// The nodes that come before these, and these.
std::set<size_t> Reached(const CUgraph_st& graph, const std::set<size_t>& tail) {
  std::set<size_t> reached;
  std::vector<size_t> left(tail.begin(), tail.end());
  while (!left.empty()) {
    const size_t node = left.back();
    left.pop_back();
    if (!reached.insert(node).second) continue;
    left.insert(left.end(), graph.nodes[node].after.begin(), graph.nodes[node].after.end());
  }
  return reached;
}

}  // namespace

namespace partita {

FakeRuntime::FakeRuntime() { runtime = this; }
FakeRuntime::~FakeRuntime() { runtime = nullptr; }

cudaError_t FakeRuntime::Enqueue(cudaStream_t stream, const std::string& what,
                                 std::function<void()> run) {
  CUgraph_st* const capture = stream->capture;
  if (capture == nullptr) {
    Log(what, stream);
    run();
    return cudaSuccess;
  }
  if (capture->invalid) return cudaErrorStreamCaptureInvalidated;
  capture->nodes.push_back({std::move(run), stream->tail});
  stream->tail = {capture->nodes.size() - 1};
  return cudaSuccess;
}

cudaError_t LaunchMove(const DeviceMove&, const StridedBox&, cudaStream_t stream) {
  return runtime->Enqueue(stream, "move", [] {});
}
cudaError_t LaunchFiniteCheck(ElementType, const void*, int64_t, int32_t*, cudaStream_t stream) {
  return runtime->Enqueue(stream, "check", [] {});
}

}  // namespace partita

extern "C" {

cudaError_t cudaSetDevice(int device) {
  chosen_device = device;
  return cudaSuccess;
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorName(cudaError_t) { return "an error"; }
const char* cudaGetErrorString(cudaError_t) { return "of the stand-in"; }
cudaError_t cudaGetDriverEntryPointByVersion(const char*, void**, unsigned int, unsigned long long,
                                             cudaDriverEntryPointQueryResult*) {
  return cudaErrorNotSupported;
}

cudaError_t cudaMalloc(void** data, size_t bytes) {
  ++runtime->allocations;
  *data = std::malloc(bytes);
  return cudaSuccess;
}
cudaError_t cudaFree(void* data) {
  CountDevice();
  std::free(data);
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** data, size_t bytes, unsigned int) {
  ++runtime->allocations;
  *data = std::calloc(1, bytes);
  const auto* begin = static_cast<const char*>(*data);
  runtime->pinned[begin + bytes] = begin;
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* data) {
  CountDevice();
  std::erase_if(runtime->pinned, [data](const auto& range) { return range.second == data; });
  std::free(data);
  return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* data) {
  const auto found = runtime->pinned.upper_bound(static_cast<const char*>(data));
  const bool in = found != runtime->pinned.end() && found->second <= data;
  attributes->type = in ? cudaMemoryTypeHost : cudaMemoryTypeUnregistered;
  return cudaSuccess;
}
cudaError_t cudaHostGetDevicePointer(void**, void*, unsigned int) { return cudaErrorNotSupported; }

cudaError_t cudaDeviceGetStreamPriorityRange(int* lowest, int* highest) {
  *lowest = 0;
  *highest = -5;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int, int priority) {
  *stream = new CUstream_st{static_cast<int>(runtime->streams.size()), nullptr, {}};
  runtime->priorities.push_back(priority);
  runtime->streams.insert(*stream);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  runtime->streams.erase(stream);
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  ++runtime->waits;
  if (stream->capture == nullptr) return cudaSuccess;
  return Invalidate(stream->capture, cudaErrorStreamCaptureUnsupported);
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) { return cudaStreamQuery(stream); }
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  return runtime->Enqueue(stream, "host call", [=] { function(data); });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int) {
  *event = new CUevent_st{runtime->allocations++, nullptr, {}};
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  CountDevice();
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  CountDevice();
  event->capture = stream->capture;
  event->tail = stream->tail;
  event->recorded_ms = ++runtime->clock_ms;
  if (stream->capture == nullptr) Log("record", stream);
  return cudaSuccess;
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int flags) {
  if (flags != cudaEventRecordExternal) return cudaEventRecord(event, stream);
  CountDevice();
  return runtime->Enqueue(stream, "time", [event] { event->recorded_ms = ++runtime->clock_ms; });
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int) {
  if (event->capture == nullptr) {
    if (stream->capture != nullptr) {
      return Invalidate(stream->capture, cudaErrorStreamCaptureIsolation);
    }
    Log("wait", stream);
    return cudaSuccess;
  }
  if (stream->capture != nullptr && stream->capture != event->capture) {
    return Invalidate(stream->capture, cudaErrorStreamCaptureMerge);
  }
  if (stream->capture == nullptr) stream->tail.clear();
  stream->capture = event->capture;
  stream->tail.insert(event->tail.begin(), event->tail.end());
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  CountDevice();
  ++runtime->waits;
  return event->capture == nullptr ? cudaSuccess : cudaErrorCapturedEvent;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) { return cudaEventQuery(event); }
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t end) {
  *ms = static_cast<float>(end->recorded_ms - start->recorded_ms);
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  return runtime->Enqueue(stream, "copy", [=] { std::memcpy(to, from, bytes); });
}
cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                              size_t width, size_t height, cudaMemcpyKind, cudaStream_t stream) {
  return runtime->Enqueue(stream, "copy", [=] {
    for (size_t row = 0; row < height; ++row) {
      std::memcpy(static_cast<char*>(to) + row * to_pitch,
                  static_cast<const char*>(from) + row * from_pitch, width);
    }
  });
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  if (runtime->begin_capture != cudaSuccess) return runtime->begin_capture;
  stream->capture = new CUgraph_st{{}, stream, false};
  stream->tail.clear();
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = nullptr;
  CUgraph_st* const capture = stream->capture;
  if (capture == nullptr) return cudaErrorIllegalState;
  CHECK(capture->origin == stream);
  bool joined = true;
  const std::set<size_t> reached = Reached(*capture, stream->tail);
  for (cudaStream_t other : runtime->streams) {
    if (other->capture != capture) continue;
    joined = joined &&
             std::includes(reached.begin(), reached.end(), other->tail.begin(), other->tail.end());
    other->capture = nullptr;
  }
  if (capture->invalid || !joined) {
    const bool invalid = capture->invalid;
    delete capture;
    return invalid ? cudaErrorStreamCaptureInvalidated : cudaErrorStreamCaptureUnjoined;
  }
  *graph = capture;
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  *exec = new CUgraphExec_st{graph->nodes};
  return cudaSuccess;
}
cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  return runtime->Enqueue(stream, "graph", [exec] { RunNodes(exec->nodes); });
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  delete exec;
  return cudaSuccess;
}

}  // extern "C"
