// One suite over every backend and every row of the operator table: kernels of a backend give what
// the reference kernels give, on dense and on native data, alone and fused, with one thread and
// with several.

#include <algorithm>
#include <cstring>
#include <map>
#include <new>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "runtime/backend/backends.h"
#include "runtime/support/tolerance.h"
#include "tests/conformance/kernel_examples.h"
#include "tests/conformance/not_finite.h"

namespace partita {
namespace {

// Everything native that may be. False: nothing may.
bool MakeNative(KernelSignature& signature) {
  std::map<TensorPlace, bool> native;  // of each tensor that a stage reads or writes
  const auto note = [&](TensorPlace place, bool may) {
    if (place.list == TensorPlace::List::kInner) return;
    const auto [it, added] = native.try_emplace(place, may);
    it->second = it->second && may;
  };
  for (const KernelStage& stage : StagesOf(signature)) {
    const KernelSignature& kernel = stage.kernel;
    for (size_t k = 0; k < kernel.inputs.size(); ++k) {
      note(stage.wiring.inputs[k],
           InputMayBeNative(kernel.attrs, kernel.pass, static_cast<int>(k)));
    }
    for (TensorPlace place : stage.wiring.outputs) {
      note(place, OutputMayBeNative(kernel.attrs, kernel.pass));
    }
  }
  std::vector<KernelTensor*> may;
  bool all = true;
  for (const auto& [place, known] : native) {
    const auto index = static_cast<size_t>(place.index);
    KernelTensor& t = place.list == TensorPlace::List::kInput ? signature.inputs[index]
                                                              : signature.outputs[index];
    if (t.type.shape.size() != 4) continue;
    const bool fits = known && t.type.dtype == DType::kFloat32;
    all = all && fits;
    if (fits) may.push_back(&t);
  }
  if (may.empty() || (NeedsOneFormat(signature.attrs) && !all)) return false;
  for (KernelTensor* t : may) t->format = Format::kNative;
  return true;
}

// A device and a stream on it, opened anew behind an error, which devices keep.
class DeviceRun {
 public:
  DeviceRun(const std::string& backend, int threads, Precision precision = Precision::kFloat32)
      : backend_(*MakeBackend(backend)), precision_(precision) {
    spec_.threads = threads;
  }

  // Runs a kernel; dense data in, dense data out.
  absl::StatusOr<std::vector<TestTensor>> Run(const WholeKernel& whole,
                                              const std::vector<TestTensor>& inputs) {
    auto results = RunOnce(whole, inputs);
    if (results.ok()) return results;
    stream_.reset();
    memory_.clear();
    device_.reset();
    return results;
  }

 private:
  absl::Status Open() {
    auto device = backend_->Open(spec_);
    if (!device.ok()) return device.status();
    device_ = *std::move(device);
    auto stream = device_->NewStream("test", StreamUse::kCompute);
    if (stream.ok()) stream_ = *std::move(stream);
    return stream.status();
  }

  absl::StatusOr<std::vector<TestTensor>> RunOnce(const WholeKernel& whole,
                                                  const std::vector<TestTensor>& inputs) {
    if (stream_ == nullptr) {
      if (absl::Status status = Open(); !status.ok()) return status;
    }
    const KernelSignature signature = InPrecision(whole.signature, precision_);
    auto kernel = device_->Prepare(signature);
    if (!kernel.ok()) return kernel.status();
    memory_.clear();
    std::vector<TensorArgument> in, out;
    for (size_t k = 0; k < inputs.size(); ++k) {
      in.push_back({Place(signature.inputs[k], inputs[k].bytes.data()), whole.input_boxes[k],
                    whole.input_shapes[k]});
    }
    for (size_t k = 0; k < signature.outputs.size(); ++k) {
      out.push_back(
          {Place(signature.outputs[k], nullptr), whole.output_boxes[k], whole.output_shapes[k]});
    }
    void* scratch = Memory((*kernel)->scratch_bytes());
    Spoil(scratch, (*kernel)->scratch_bytes());
    stream_->Launch(**kernel, {in, out, ExampleStep(), kExampleKey}, scratch, nullptr);
    std::vector<TestTensor> results;
    for (size_t k = 0; k < out.size(); ++k) {
      results.push_back(Fetched(signature.outputs[k], out[k].data));
    }
    const absl::Status status = stream_->Synchronize();
    if (!status.ok()) return status;
    return results;
  }

  void* Memory(int64_t bytes) {
    memory_.push_back(*device_->Allocate(std::max<int64_t>(bytes, 64)));
    return memory_.back()->data();
  }

  int64_t BytesOf(const KernelTensor& t) const {
    return t.format == Format::kNative ? device_->NativeBytes(t.type) : t.type.bytes();
  }

  void Reorder(const KernelTensor& t, const void* from, Format from_format, void* to,
               Format to_format) {
    const Box box = Box::Full(t.type.shape);
    moves_.push_back({MoveSignature::Kind::kReorder, t.type.dtype, from, to, box, box, box,
                      from_format, to_format});
    stream_->RunMoves({&moves_.back(), 1}, nullptr);
    (void)stream_->Synchronize();  // RunOnce asks, too
    moves_.pop_back();
  }

  static Stream::MoveArguments Whole(const KernelTensor& t, const void* from, void* to) {
    const Box box = Box::Full(t.type.shape);
    return {MoveSignature::Kind::kCopy, t.type.dtype, from, to, box, box, box};
  }

  // Not-a-number everywhere: what a kernel does not write, or reads before it does, shows.
  void Spoil(void* data, int64_t bytes) {
    const std::vector<char> ones(static_cast<size_t>(bytes), '\xff');
    stream_->CopyFromHost(Stream::FlatMove(MoveSignature::Kind::kCopy, DType::kInt32, ones.data(),
                                           data, bytes / SizeOf(DType::kInt32)),
                          nullptr);
    (void)stream_->Synchronize();
  }

  // Of an output, where `dense` is null.
  void* Place(const KernelTensor& t, const void* dense) {
    const bool empty = Volume(t.type.shape) == 0;
    void* data = empty ? nullptr : Memory(BytesOf(t));
    if (!empty && dense == nullptr && t.format == Format::kDense) Spoil(data, t.type.bytes());
    if (!empty && dense != nullptr) {
      if (t.format == Format::kNative) {
        void* staged = Memory(t.type.bytes());
        stream_->CopyFromHost(Whole(t, dense, staged), nullptr);
        Reorder(t, staged, Format::kDense, data, Format::kNative);
      } else {
        stream_->CopyFromHost(Whole(t, dense, data), nullptr);
      }
    }
    return data;
  }

  TestTensor Fetched(const KernelTensor& t, void* data) {
    TestTensor tensor(t.type);
    if (Volume(t.type.shape) == 0) return tensor;
    if (t.format == Format::kNative) {
      void* staged = Memory(t.type.bytes());
      Reorder(t, data, Format::kNative, staged, Format::kDense);
      data = staged;
    }
    stream_->CopyToHost(Whole(t, data, tensor.bytes.data()), nullptr);
    (void)stream_->Synchronize();
    return tensor;
  }

  std::shared_ptr<const Backend> backend_;
  const Precision precision_;  // compute type of the kernels
  DeviceSpec spec_;
  std::unique_ptr<BackendDevice> device_;
  std::vector<std::unique_ptr<DeviceMemory>> memory_;
  std::vector<Stream::MoveArguments> moves_;
  std::unique_ptr<Stream> stream_;
};

// Runs every kernel on inputs in which something is not finite; with `native`, also on native data.
// How many results that are not finite were compared.
int64_t CompareNotFinite(DeviceRun& device, bool native) {
  uint64_t places = 1;
  int64_t compared = 0;
  for (const OperatorExample& example : KernelExamples()) {
    const OperatorRun run(example, DType::kFloat32);
    for (const WholeKernel& dense : KernelsOf(run)) {
      const auto usual = InputsAndResults(dense, example, run);
      WholeKernel other = dense;
      std::vector<WholeKernel> forms = {dense};
      if (native && MakeNative(other.signature)) forms.push_back(other);
      for (const PlantedInputs& planted : WithNotFinite(dense, usual, places++)) {
        for (const WholeKernel& kernel : forms) {
          const std::string signature = ToString(kernel.signature);
          SCOPED_TRACE(absl::StrCat(example.name, ", ", planted.what, ": ", signature));
          SUCCEED() << example.name << ": " << signature;  // for who listens
          const auto found = device.Run(kernel, planted.values.inputs);
          EXPECT_TRUE(found.ok()) << found.status();
          if (!found.ok()) return compared;
          compared += ExpectNotFiniteKept(kernel, planted.values.expected, *found);
          if (::testing::Test::HasFailure()) return compared;
        }
      }
    }
  }
  return compared;
}

class BackendTest : public ::testing::TestWithParam<const char*> {
 protected:
  // The other backends have dense data only.
  bool HasNativeOrder() const { return GetParam() == std::string("cpu"); }

  // How many kernels were compared.
  int CompareAll(int threads) {
    DeviceRun device(GetParam(), threads);
    int compared = 0;
    for (const OperatorExample& example : KernelExamples()) {
      const OperatorRun run(example, DType::kFloat32);
      for (WholeKernel kernel : KernelsOf(run)) {
        const auto [inputs, expected] = InputsAndResults(kernel, example, run);
        for (bool native : {false, true}) {
          if (native && (!HasNativeOrder() || !MakeNative(kernel.signature))) continue;
          SCOPED_TRACE(example.name + ": " + ToString(kernel.signature));
          SUCCEED() << example.name << ": " << ToString(kernel.signature);  // for who listens
          const auto found = device.Run(kernel, inputs);
          EXPECT_TRUE(found.ok()) << found.status();
          if (found.ok()) ExpectNear(expected, *found);
          ++compared;
        }
      }
    }
    return compared;
  }
};

TEST_P(BackendTest, EveryKernelEqualsTheReferenceKernel) {
  const auto backend = MakeBackend(GetParam());
  if (!backend.ok()) GTEST_SKIP() << backend.status().message();
  EXPECT_GT(CompareAll(1), 200);
}

TEST_P(BackendTest, WhatWorkThrowsFailsTheDevice) {
  const auto backend = MakeBackend(GetParam());
  if (!backend.ok()) GTEST_SKIP() << backend.status().message();
  const auto device = *(*backend)->Open({});
  absl::Status reported;
  device->OnError([&reported](const absl::Status& status) { reported = status; });
  const auto stream = *device->NewStream("test", StreamUse::kCompute);
  const auto other = *device->NewStream("other", StreamUse::kCommunication);
  const auto event = device->NewEvent();
  bool ran = false;
  stream->HostCall([]() -> absl::Status { throw std::bad_alloc(); }, nullptr);
  stream->Record(*event, 1);
  other->Wait(*event, 1);
  other->HostCall(
      [&ran] {
        ran = true;
        return absl::OkStatus();
      },
      nullptr);
  EXPECT_TRUE(absl::IsResourceExhausted(stream->Synchronize())) << stream->Synchronize();
  EXPECT_TRUE(absl::IsResourceExhausted(other->Synchronize())) << other->Synchronize();
  EXPECT_TRUE(absl::IsResourceExhausted(reported)) << reported;
  EXPECT_FALSE(ran) << "work behind what failed";
}

TEST_P(BackendTest, TeamsOfThreadsEqualTheReferenceKernel) {
  const auto backend = MakeBackend(GetParam());
  if (!backend.ok()) GTEST_SKIP() << backend.status().message();
  EXPECT_GT(CompareAll(3), 200);
}

TEST_P(BackendTest, WhatIsNotFiniteStaysSo) {
  const auto backend = MakeBackend(GetParam());
  if (!backend.ok()) GTEST_SKIP() << backend.status().message();
  DeviceRun device(GetParam(), 1);
  EXPECT_GT(CompareNotFinite(device, HasNativeOrder()), 10000);
}

INSTANTIATE_TEST_SUITE_P(Backends, BackendTest, ::testing::Values("reference", "cpu", "cuda"),
                         [](const auto& info) { return std::string(info.param); });

// Precisions that only GPUs have: kernels whose products take rounded factors.
class PrecisionTest : public ::testing::TestWithParam<PrecisionRow> {};

TEST_P(PrecisionTest, KernelsStayWithinTheTolerance) {
  const auto backend = MakeBackend("cuda");
  if (!backend.ok()) GTEST_SKIP() << backend.status().message();
  DeviceRun device("cuda", 1, GetParam().precision);
  int compared = 0;
  for (const OperatorExample& example : KernelExamples()) {
    const OperatorRun run(example, DType::kFloat32);
    for (const WholeKernel& kernel : KernelsOf(run)) {
      const auto [inputs, expected] = InputsAndResults(kernel, example, run);
      SCOPED_TRACE(example.name + ": " + ToString(kernel.signature));
      SUCCEED() << example.name << ": " << ToString(kernel.signature);
      const auto found = device.Run(kernel, inputs);
      EXPECT_TRUE(found.ok()) << found.status();
      if (found.ok()) ExpectNear(expected, *found, ToleranceOf(GetParam().precision));
      ++compared;
    }
  }
  EXPECT_GT(compared, 200);
}

TEST_P(PrecisionTest, WhatIsNotFiniteStaysSo) {
  const auto backend = MakeBackend("cuda");
  if (!backend.ok()) GTEST_SKIP() << backend.status().message();
  DeviceRun device("cuda", 1, GetParam().precision);
  EXPECT_GT(CompareNotFinite(device, false), 10000);
}

INSTANTIATE_TEST_SUITE_P(Precisions, PrecisionTest,
                         ::testing::Values(RowOf(Precision::kTf32), RowOf(Precision::kFloat16),
                                           RowOf(Precision::kBfloat16)),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace partita
