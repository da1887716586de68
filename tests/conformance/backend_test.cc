// One suite over every backend and every row of the operator table: kernels of a backend give what
// the reference kernels give, on dense and on native data, alone and fused, with one thread and
// with several.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "graph/support/check.h"
#include "gtest/gtest.h"
#include "runtime/backend/backends.h"
#include "runtime/backend/reference/kernels.h"
#include "tests/conformance/operator_runner.h"

namespace partita {
namespace {

StepArguments SomeStep() {
  StepArguments step;
  step.step = 2;
  step.seed = 5;
  step.weight_decay = 0.125;
  return step;
}

// Shapes at which libraries choose their fast code, which the small examples never reach.
std::vector<OperatorExample> LargeExamples() {
  const auto conv = [](std::string name, Conv2d attrs, const Shape& x, const Shape& w) {
    return OperatorExample{std::move(name), attrs, {Floats(x), Floats(w), Floats({w[0]})}};
  };
  const auto matmul = [](std::string name, int64_t rows, int64_t in, int64_t out, bool transposed) {
    const Shape w = transposed ? Shape{out, in} : Shape{in, out};
    return OperatorExample{std::move(name),
                           MatMul{.transposed = transposed},
                           {Floats({rows, in}), Floats(w), Floats({out})}};
  };
  const auto pool = [](std::string name, Pool2d attrs) {
    return OperatorExample{std::move(name), std::move(attrs), {Floats({2, 80, 13, 13})}};
  };
  return {
      conv("LargeConv3x3", {.pads = {1, 1, 1, 1}}, {2, 32, 13, 13}, {48, 32, 3, 3}),
      conv("LargeConv11x11Stride4", {.stride = {4, 4}, .pads = {2, 2, 2, 2}}, {2, 3, 63, 63},
           {64, 3, 11, 11}),
      conv("LargeConv1x1", {.stride = {2, 2}}, {2, 64, 14, 14}, {32, 64, 1, 1}),
      conv("LargeConvGroups", {.pads = {2, 2, 2, 2}, .groups = 2}, {2, 32, 14, 14}, {64, 16, 5, 5}),
      matmul("LargeMatMul", 33, 130, 101, true),
      matmul("LargeMatMulTiles", 32, 192, 64, true),
      matmul("LargeMatMulManyRows", 150, 100, 70, true),
      matmul("LargeMatMulInByOut", 17, 70, 100, false),
      pool("LargeMaxPool",
           {.function = "max", .kernel = {3, 3}, .stride = {2, 2}, .pads = {1, 1, 0, 0}}),
      pool("LargeAveragePool", {.function = "average", .kernel = {2, 2}, .stride = {2, 2}}),
  };
}

std::vector<OperatorExample> AllExamples() {
  std::vector<OperatorExample> examples = OperatorExamples();
  for (OperatorExample& example : LargeExamples()) examples.push_back(std::move(example));
  return examples;
}

// Everything native that may be. False: nothing may.
bool MakeNative(KernelSignature& signature) {
  const size_t own = OwnInputs(signature);
  std::vector<KernelTensor*> may;
  bool all = true;
  const auto visit = [&](KernelTensor& t, bool native) {
    if (t.type.shape.size() != 4) return;
    native = native && t.type.dtype == DType::kFloat32;
    all = all && native;
    if (native) may.push_back(&t);
  };
  for (size_t k = 0; k < own; ++k) {
    visit(signature.inputs[k],
          InputMayBeNative(signature.attrs, signature.pass, static_cast<int>(k)));
  }
  for (KernelTensor& t : signature.outputs) {
    visit(t, OutputMayBeNative(signature.attrs, signature.pass));
  }
  if (may.empty() || (NeedsOneFormat(signature.attrs) && !all)) return false;
  for (KernelTensor* t : may) t->format = Format::kNative;
  return true;
}

// One open device and a stream on it.
class DeviceRun {
 public:
  DeviceRun(const std::string& backend, int threads) : backend_(*MakeBackend(backend)) {
    DeviceSpec spec;
    spec.threads = threads;
    device_ = *backend_->Open(spec);
    stream_ = *device_->NewStream("test", StreamUse::kCompute);
  }

  // Runs a kernel; dense data in, dense data out.
  absl::StatusOr<std::vector<HostTensor>> Run(const WholeKernel& whole,
                                              const std::vector<HostTensor>& inputs) {
    const KernelSignature& signature = whole.signature;
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
    stream_->Launch(**kernel, {in, out, SomeStep(), 0x1234}, scratch, nullptr);
    std::vector<HostTensor> results;
    for (size_t k = 0; k < out.size(); ++k) {
      results.push_back(Fetched(signature.outputs[k], out[k].data));
    }
    const absl::Status status = stream_->Synchronize();
    if (!status.ok()) return status;
    return results;
  }

 private:
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
    CHECK(stream_->Synchronize().ok());
    moves_.pop_back();
  }

  static Stream::MoveArguments Whole(const KernelTensor& t, const void* from, void* to) {
    const Box box = Box::Full(t.type.shape);
    return {MoveSignature::Kind::kCopy, t.type.dtype, from, to, box, box, box};
  }

  void* Place(const KernelTensor& t, const void* dense) {
    const bool empty = Volume(t.type.shape) == 0;
    void* data = empty ? nullptr : Memory(BytesOf(t));
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

  HostTensor Fetched(const KernelTensor& t, void* data) {
    HostTensor tensor(t.type);
    if (Volume(t.type.shape) == 0) return tensor;
    if (t.format == Format::kNative) {
      void* staged = Memory(t.type.bytes());
      Reorder(t, data, Format::kNative, staged, Format::kDense);
      data = staged;
    }
    stream_->CopyToHost(Whole(t, data, tensor.bytes.data()), nullptr);
    CHECK(stream_->Synchronize().ok());
    return tensor;
  }

  std::unique_ptr<Backend> backend_;
  std::unique_ptr<BackendDevice> device_;
  std::vector<std::unique_ptr<DeviceMemory>> memory_;
  std::vector<Stream::MoveArguments> moves_;
  std::unique_ptr<Stream> stream_;
};

std::vector<HostTensor> Expected(const WholeKernel& whole, std::vector<HostTensor> inputs) {
  std::vector<HostTensor> results;
  std::vector<TensorArgument> in, out;
  const auto data = [](HostTensor& t) { return t.bytes.empty() ? nullptr : t.bytes.data(); };
  for (size_t k = 0; k < inputs.size(); ++k) {
    in.push_back({data(inputs[k]), whole.input_boxes[k], whole.input_shapes[k]});
  }
  for (const KernelTensor& t : whole.signature.outputs) results.emplace_back(t.type);
  for (size_t k = 0; k < results.size(); ++k) {
    out.push_back({data(results[k]), whole.output_boxes[k], whole.output_shapes[k]});
  }
  const absl::Status status = RunReferenceKernel(whole.signature, {in, out, SomeStep(), 0x1234});
  CHECK(status.ok()) << ToString(whole.signature) << ": " << status;
  return results;
}

// Sums of some thousand products of numbers up to 1 in another order.
constexpr double kTolerance = 2e-5;

void ExpectNear(const std::vector<HostTensor>& expected, const std::vector<HostTensor>& found) {
  ASSERT_EQ(expected.size(), found.size());
  for (size_t k = 0; k < expected.size(); ++k) {
    if (expected[k].type.dtype == DType::kInt32) {
      EXPECT_TRUE(expected[k] == found[k]);
      continue;
    }
    if (expected[k].type.dtype == DType::kFloat64) {
      for (size_t i = 0; i < expected[k].as<double>().size(); ++i) {
        const double want = expected[k].as<double>()[i];
        ASSERT_NEAR(want, found[k].as<double>()[i], kTolerance * std::max(1.0, std::abs(want)))
            << "output " << k << " element " << i;
      }
      continue;
    }
    double largest = 1;
    for (float x : expected[k].as<float>()) {
      largest = std::max(largest, std::abs(static_cast<double>(x)));
    }
    for (size_t i = 0; i < expected[k].as<float>().size(); ++i) {
      ASSERT_NEAR(expected[k].as<float>()[i], found[k].as<float>()[i], kTolerance * largest)
          << "output " << k << " element " << i;
    }
  }
}

// `plain`, a gradient, going into an update.
WholeKernel FusedWith(const OpAttrs& update, const WholeKernel& plain) {
  WholeKernel fused = plain;
  fused.signature.fused_update = update;
  const size_t states = std::holds_alternative<Adam>(update) ? 2 : 1;
  for (size_t k = 0; k < states + 1; ++k) {
    fused.signature.inputs.push_back(plain.signature.outputs[0]);
    fused.input_boxes.push_back(plain.output_boxes[0]);
    fused.input_shapes.push_back(plain.output_shapes[0]);
  }
  for (size_t k = 0; k < states; ++k) {
    fused.signature.outputs.push_back(plain.signature.outputs[0]);
    fused.output_boxes.push_back(plain.output_boxes[0]);
    fused.output_shapes.push_back(plain.output_shapes[0]);
  }
  return fused;
}

// What kernels an example can be asked for: each pass, and its fusions.
std::vector<WholeKernel> KernelsOf(const OperatorRun& run) {
  std::vector<WholeKernel> all;
  for (Pass pass : PassesOf(run.rule())) {
    const WholeKernel plain = run.KernelOf(pass);
    all.push_back(plain);
    if (pass.is_forward() && CanFuseRelu(plain.signature.attrs)) {
      all.push_back(plain);
      all.back().signature.fused_relu = true;
    }
    if (!CanFuseUpdate(plain.signature.attrs, pass)) continue;
    for (const OpAttrs& update :
         {OpAttrs{Sgd{}}, OpAttrs{Sgd{.nesterov = true}}, OpAttrs{Adam{}}}) {
      all.push_back(FusedWith(update, plain));
    }
  }
  return all;
}

// Inputs of a signature: those of the operator as its example says, weights and states at random.
std::vector<HostTensor> InputsFor(const WholeKernel& whole, const OperatorExample& example,
                                  const OperatorRun& run, OperandFill::Kind kind) {
  const KernelSignature& signature = whole.signature;
  std::mt19937_64 random(17);
  std::vector<HostTensor> operands, gradients;
  for (size_t k = 0; k < run.operands().size(); ++k) {
    const OperandFill fill = k < example.fills.size() ? example.fills[k] : OperandFill{kind};
    operands.push_back(Filled(run.operands()[k], fill, FillMode::kRandom, random));
  }
  const std::vector<HostTensor> results = run.RunWhole(Pass::Forward(), operands);
  for (const TensorType& type : run.results()) {
    gradients.push_back(Filled(type, {}, FillMode::kRandom, random));
  }
  std::vector<HostTensor> inputs = run.InputsOf(signature.pass, operands, results, gradients);
  for (size_t k = 0; k < inputs.size(); ++k) inputs[k] = PieceOf(inputs[k], whole.input_boxes[k]);
  while (inputs.size() < signature.inputs.size()) {
    // Second moments are not negative.
    inputs.push_back(Filled(signature.inputs[inputs.size()].type,
                            {.kind = OperandFill::Kind::kPositive}, FillMode::kRandom, random));
  }
  return inputs;
}

bool HasNan(const std::vector<HostTensor>& tensors) {
  for (const HostTensor& t : tensors) {
    if (t.type.dtype != DType::kFloat32) continue;
    for (float x : t.as<float>()) {
      if (std::isnan(x)) return true;
    }
  }
  return false;
}

class BackendTest : public ::testing::TestWithParam<const char*> {
 protected:
  // The reference backend has dense data only.
  bool HasNativeOrder() const { return GetParam() != std::string("reference"); }

  // How many kernels were compared.
  int CompareAll(int threads) {
    DeviceRun device(GetParam(), threads);
    int compared = 0;
    for (const OperatorExample& example : AllExamples()) {
      const OperatorRun run(example, DType::kFloat32);
      for (WholeKernel kernel : KernelsOf(run)) {
        std::vector<HostTensor> inputs = InputsFor(kernel, example, run, OperandFill::Kind::kReal);
        std::vector<HostTensor> expected = Expected(kernel, inputs);
        if (HasNan(expected)) {  // a root or a logarithm of what is never negative in a model
          inputs = InputsFor(kernel, example, run, OperandFill::Kind::kPositive);
          expected = Expected(kernel, inputs);
          EXPECT_FALSE(HasNan(expected)) << example.name;
        }
        for (bool native : {false, true}) {
          if (native && (!HasNativeOrder() || !MakeNative(kernel.signature))) continue;
          SCOPED_TRACE(example.name + ": " + ToString(kernel.signature));
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

TEST_P(BackendTest, TeamsOfThreadsEqualTheReferenceKernel) {
  const auto backend = MakeBackend(GetParam());
  if (!backend.ok()) GTEST_SKIP() << backend.status().message();
  EXPECT_GT(CompareAll(3), 200);
}

INSTANTIATE_TEST_SUITE_P(Backends, BackendTest, ::testing::Values("reference", "cpu", "cuda"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace partita
