// Recordings of CUDA streams as graphs, on stand-ins of the runtime's functions.
#include "runtime/backend/cuda/cuda_recording.h"

#include <gtest/gtest.h>

#include <thread>

#include "runtime/backend/cuda/cuda_device.h"
#include "tests/runtime/cuda/fake_runtime.h"

namespace partita {
namespace {

constexpr int64_t kCount = 4;

// y = rate * x + y.
class ScaleKernel : public CudaKernel {
 public:
  explicit ScaleKernel(FakeRuntime* runtime) : runtime_(*runtime) {}
  int64_t scratch_bytes() const override { return 0; }
  absl::Status Enqueue(const KernelArguments& arguments, const LaunchMemory& memory,
                       cudaStream_t stream) const override {
    const auto* x = static_cast<const float*>(arguments.inputs[0].data);
    auto* y = static_cast<float*>(arguments.outputs[0].data);
    const StepNumbersArgument numbers{NumbersOf(arguments.step), memory.numbers};
    return CudaStatus(runtime_.Enqueue(stream, "kernel",
                                       [=] {
                                         for (int64_t i = 0; i < kCount; ++i) {
                                           y[i] += (*numbers).rate * x[i];
                                         }
                                       }),
                      "a kernel");
  }

 private:
  FakeRuntime& runtime_;
};

class CudaRecordingTest : public testing::Test {
 protected:
  CudaRecordingTest() {
    for (const char* name : {"compute", "communication", "compute of another"}) {
      const bool computes = std::string_view(name) != "communication";
      streams_.push_back(*CudaStream::Create(
          name, computes ? StreamUse::kCompute : StreamUse::kCommunication, state_));
      arguments_.push_back(streams_.back().get());
    }
    void* host = nullptr;
    cudaHostAlloc(&host, kCount * sizeof(float), 0);
    batch_ = static_cast<float*>(host);
  }
  ~CudaRecordingTest() override { cudaFreeHost(batch_); }

  static Stream::MoveArguments Copy(const void* from, void* to) {
    const Box box({{0, kCount}});
    return {MoveSignature::Kind::kCopy, DType::kFloat32, from, to, box, box, box};
  }
  void Scale(Stream& stream, float* x, float* y, double rate) {
    const TensorArgument in{x, Box({{0, kCount}}), {kCount}}, out{y, Box({{0, kCount}}), {kCount}};
    KernelArguments arguments;
    arguments.inputs = {&in, 1};
    arguments.outputs = {&out, 1};
    arguments.step.learning_rate = rate;
    stream.Launch(kernel_, arguments, nullptr, nullptr);
  }
  // The batch goes to x; y = y + rate * x; on another stream z = y; then y = y + rate * z.
  void EnqueueStep(double rate) {
    streams_[0]->CopyFromHost(Copy(batch_, x_), nullptr);
    Scale(*streams_[0], x_, y_, rate);
    streams_[0]->Record(there_, 1);
    streams_[1]->Wait(there_, 1);
    const Stream::MoveArguments move = Copy(y_, z_);
    streams_[1]->RunMoves({&move, 1}, nullptr);
    streams_[1]->Record(back_, 1);
    streams_[0]->Wait(back_, 1);
    Scale(*streams_[0], z_, y_, rate);
  }
  static StepArguments WithRate(double rate) {
    StepArguments arguments;
    arguments.learning_rate = rate;
    return arguments;
  }

  FakeRuntime runtime_;
  std::shared_ptr<CudaDeviceState> state_ = std::make_shared<CudaDeviceState>(0);
  ScaleKernel kernel_{&runtime_};
  std::vector<std::unique_ptr<CudaStream>> streams_;
  std::vector<CudaStream*> arguments_;
  CudaEvent there_{state_}, back_{state_};
  float* batch_ = nullptr;
  float x_[kCount] = {}, y_[kCount] = {}, z_[kCount] = {};  // of the device
};

TEST_F(CudaRecordingTest, CommunicationComesBeforeCompute) {
  ASSERT_EQ(runtime_.priorities.size(), 3u);
  EXPECT_LT(runtime_.priorities[1], runtime_.priorities[0]);
  EXPECT_EQ(runtime_.priorities[2], runtime_.priorities[0]);
}

TEST_F(CudaRecordingTest, RunsAgainWithNewNumbersAndBatchesAndNeitherAllocatesNorWaits) {
  batch_[0] = 1;
  EnqueueStep(1);
  EXPECT_EQ(y_[0], 2);
  CudaRecording recording(arguments_);
  ASSERT_TRUE(recording.Begin().ok());
  const int allocations = runtime_.allocations, waits = runtime_.waits;
  EnqueueStep(1);
  const absl::Status ended = recording.End();
  ASSERT_TRUE(ended.ok()) << ended;
  EXPECT_EQ(y_[0], 2);  // nothing ran
  float expected = 2;
  for (const float rate : {0.5f, 2.0f, 0.25f}) {
    batch_[0] = 3 * rate;
    ASSERT_TRUE(recording.Run(WithRate(rate)).ok());
    expected += rate * batch_[0];
    EXPECT_EQ(z_[0], expected);
    expected += rate * expected;
    EXPECT_EQ(y_[0], expected);
  }
  EXPECT_EQ(runtime_.allocations, allocations);
  EXPECT_EQ(runtime_.waits, waits);
  EnqueueStep(1);  // as before, with events that had been in the capture
  EXPECT_EQ(y_[0], 2 * (expected + batch_[0]));
  for (const auto& stream : streams_) EXPECT_TRUE(stream->Synchronize().ok());
}

// A call of a thread that has chosen no GPU would open GPU 0 for it, whatever GPU it is about.
TEST_F(CudaRecordingTest, OtherThreadsAskAndFreeOnTheirGpu) {
  auto recording = std::make_unique<CudaRecording>(arguments_);
  ASSERT_TRUE(recording->Begin().ok());
  EnqueueStep(1);
  ASSERT_TRUE(recording->End().ok());
  auto event = std::make_unique<CudaEvent>(state_);
  for (int k = 0; k < 100; ++k) EnqueueStep(0);
  runtime_.without_device = 0;
  std::thread([&] { EXPECT_GT(streams_[0]->completed(), 0); }).join();
  std::thread([&] { streams_[1]->Record(*event, 1); }).join();
  std::thread([&] { recording.reset(); }).join();
  std::thread([&] { event.reset(); }).join();
  EXPECT_EQ(runtime_.without_device, 0);
}

TEST_F(CudaRecordingTest, ARunComesBehindAllStreamsWorkAndBeforeWhatFollows) {
  CudaRecording recording(arguments_);
  ASSERT_TRUE(recording.Begin().ok());
  EnqueueStep(1);
  ASSERT_TRUE(recording.End().ok());
  runtime_.log.clear();
  ASSERT_TRUE(recording.Run({}).ok());
  EXPECT_EQ(runtime_.log, (std::vector<std::string>{"record on 1", "wait on 0", "record on 2",
                                                    "wait on 0", "copy on 0", "graph on 0",
                                                    "record on 0", "wait on 1", "wait on 2"}));
}

TEST_F(CudaRecordingTest, WhatAStepCannotRepeatEndsTheRecordingAndNothingElse) {
  const auto nothing = [] { return absl::OkStatus(); };
  WorkTiming timing;
  CudaEvent outside(state_);
  const std::vector<std::function<void(CudaStream&)>> calls = {
      [&](CudaStream& s) { s.HostCall(nothing, nullptr); },
      [&](CudaStream& s) {
        s.EnqueueNative([](void*) { return absl::InternalError("of a library"); }, nullptr);
      },
      [&](CudaStream& s) { s.CheckFinite(DType::kFloat32, x_, kCount, nothing); },
      [&](CudaStream& s) { s.HostCall(nothing, &timing); },
      [&](CudaStream& s) { s.CopyFromHost(Copy(z_, x_), nullptr); },  // memory that is not pinned
      [&](CudaStream& s) { s.CopyToHost(Copy(x_, z_), nullptr); },
      [&](CudaStream& s) { s.Wait(outside, 1); },
  };
  for (size_t k = 0; k < calls.size(); ++k) {
    SCOPED_TRACE(k);
    streams_[2]->Record(outside, 1);
    CudaRecording recording(arguments_);
    ASSERT_TRUE(recording.Begin().ok());
    EnqueueStep(1);
    calls[k](*streams_[1]);
    EnqueueStep(1);
    EXPECT_FALSE(recording.End().ok());
    EXPECT_FALSE(recording.Run({}).ok());
    EXPECT_EQ(y_[0], 0);
    EXPECT_FALSE(state_->failed());
    for (const auto& stream : streams_) EXPECT_TRUE(stream->Synchronize().ok());
  }
  batch_[0] = 1;
  EnqueueStep(1);
  EXPECT_EQ(y_[0], 2);
}

TEST_F(CudaRecordingTest, TimesOfRecordedWorkAreStoredAfterEachRun) {
  constexpr int64_t kTick = 1'000'000;  // ns of the stand-in's clock
  WorkTiming timing, outside;
  int64_t after = 0;
  auto recording = std::make_unique<CudaRecording>(arguments_);
  ASSERT_TRUE(recording->Begin().ok());
  EnqueueStep(1);
  streams_[1]->RunMoves({}, &timing);
  streams_[1]->Stamp(&after);
  ASSERT_TRUE(recording->End().ok());
  const int allocations = runtime_.allocations;
  int64_t last = 0;
  for (int k = 0; k < 3; ++k) {
    ASSERT_TRUE(recording->Run({}).ok());
    ASSERT_TRUE(streams_[1]->Synchronize().ok());
    EXPECT_GT(timing.start_ns, last);
    EXPECT_NEAR(static_cast<double>(timing.end_ns - timing.start_ns), kTick, 1);
    EXPECT_NEAR(static_cast<double>(after - timing.end_ns), kTick, 1);
    last = timing.start_ns;
    timing = {};
  }
  EXPECT_LE(runtime_.allocations, allocations + 1);  // of the event that says when now is
  recording.reset();
  streams_[1]->RunMoves({}, &outside);  // by events of its own
  ASSERT_TRUE(streams_[1]->Synchronize().ok());
  EXPECT_NEAR(static_cast<double>(outside.end_ns - outside.start_ns), kTick, 1);
}

// It puts its work onto a stream that is captured, or onto one of its own between two events.
TEST_F(CudaRecordingTest, WhatALibraryEnqueuesIsRecordedAndTheLibraryCalledOnce) {
  int calls = 0, runs = 0;
  CudaRecording recording(arguments_);
  ASSERT_TRUE(recording.Begin().ok());
  EnqueueStep(1);
  streams_[1]->EnqueueNative(
      [&](void* native) {
        ++calls;
        const auto stream = static_cast<cudaStream_t>(native);
        CudaEvent before(state_), after(state_);
        cudaEventRecord(before.get(), stream);
        cudaStreamWaitEvent(streams_[2]->get(), before.get(), 0);
        (void)runtime_.Enqueue(streams_[2]->get(), "library", [&runs] { ++runs; });
        cudaEventRecord(after.get(), streams_[2]->get());
        return CudaStatus(cudaStreamWaitEvent(stream, after.get(), 0), "a library");
      },
      nullptr);
  const absl::Status ended = recording.End();
  ASSERT_TRUE(ended.ok()) << ended;
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(runs, 0);
  for (int k = 1; k <= 3; ++k) {
    ASSERT_TRUE(recording.Run({}).ok());
    EXPECT_EQ(runs, k);
  }
  EXPECT_EQ(calls, 1);
}

// Peers that record the same call of a library may wait for it.
TEST_F(CudaRecordingTest, LibrariesAreCalledAlsoWhereSomethingIsRefused) {
  CudaRecording recording(arguments_);
  ASSERT_TRUE(recording.Begin().ok());
  streams_[1]->HostCall([] { return absl::OkStatus(); }, nullptr);
  int calls = 0;
  streams_[1]->EnqueueNative(
      [&](void*) {
        ++calls;
        return absl::OkStatus();
      },
      nullptr);
  const absl::Status ended = recording.End();
  EXPECT_EQ(ended.code(), absl::StatusCode::kUnimplemented) << ended;
  EXPECT_EQ(calls, 1);
}

TEST_F(CudaRecordingTest, ACaptureThatDoesNotBeginLeavesTheStreamsAsTheyWere) {
  runtime_.begin_capture = cudaErrorNotSupported;
  CudaRecording recording(arguments_);
  EXPECT_FALSE(recording.Begin().ok());
  batch_[0] = 1;
  EnqueueStep(1);
  EXPECT_EQ(y_[0], 2);
}

TEST_F(CudaRecordingTest, ADeviceThatHasFailedRecordsNothing) {
  CudaRecording recording(arguments_);
  ASSERT_TRUE(recording.Begin().ok());
  EnqueueStep(1);
  state_->Fail(absl::CancelledError("interrupted"));
  EnqueueStep(1);
  EXPECT_EQ(recording.End().code(), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace partita
