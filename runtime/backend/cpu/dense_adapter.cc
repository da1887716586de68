#include "runtime/backend/cpu/dense_adapter.h"

#include <vector>

namespace partita {

void CopyOrder(const Shape& shape, const float* from, float* to, bool to_dense) {
  const int64_t n = shape[0], c = shape[1], inner = shape[2] * shape[3];
  for (int64_t i = 0; i < n; ++i) {
    const int64_t base = i * c * inner;
    for (int64_t k = 0; k < c; ++k) {
      for (int64_t p = 0; p < inner; ++p) {
        const int64_t dense = base + k * inner + p, native = base + p * c + k;
        to[to_dense ? dense : native] = from[to_dense ? native : dense];
      }
    }
  }
}

namespace {

class DenseAdapter : public HostKernel {
 public:
  DenseAdapter(const KernelSignature& signature, std::unique_ptr<HostKernel> dense)
      : signature_(signature), dense_(std::move(dense)) {
    for (const auto* list : {&signature_.inputs, &signature_.outputs}) {
      for (const KernelTensor& t : *list) {
        if (t.format != Format::kNative) continue;
        offset_ += (t.type.bytes() + 63) / 64 * 64;
      }
    }
  }
  int64_t scratch_bytes() const override { return offset_ + dense_->scratch_bytes(); }

  absl::Status Run(const KernelArguments& given, void* scratch) const override {
    std::vector<TensorArgument> inputs(given.inputs.begin(), given.inputs.end());
    std::vector<TensorArgument> outputs(given.outputs.begin(), given.outputs.end());
    auto* next = static_cast<char*>(scratch);
    auto place = [&next](const KernelTensor& t, TensorArgument& argument) {
      argument.data = next;
      next += (t.type.bytes() + 63) / 64 * 64;
    };
    for (size_t k = 0; k < inputs.size(); ++k) {
      const KernelTensor& t = signature_.inputs[k];
      if (t.format != Format::kNative) continue;
      place(t, inputs[k]);
      if (given.inputs[k].data == nullptr) continue;
      CopyOrder(t.type.shape, static_cast<const float*>(given.inputs[k].data),
                static_cast<float*>(inputs[k].data), true);
    }
    for (size_t k = 0; k < outputs.size(); ++k) {
      if (signature_.outputs[k].format == Format::kNative) place(signature_.outputs[k], outputs[k]);
    }
    KernelArguments arguments = given;
    arguments.inputs = inputs;
    arguments.outputs = outputs;
    const absl::Status status = dense_->Run(arguments, next);
    if (!status.ok()) return status;
    for (size_t k = 0; k < outputs.size(); ++k) {
      const KernelTensor& t = signature_.outputs[k];
      if (t.format != Format::kNative) continue;
      CopyOrder(t.type.shape, static_cast<const float*>(outputs[k].data),
                static_cast<float*>(given.outputs[k].data), false);
    }
    return absl::OkStatus();
  }

 private:
  const KernelSignature signature_;
  std::unique_ptr<HostKernel> dense_;
  int64_t offset_ = 0;
};

}  // namespace

bool HasNative(const KernelSignature& signature) {
  for (const auto* list : {&signature.inputs, &signature.outputs}) {
    for (const KernelTensor& t : *list) {
      if (t.format == Format::kNative) return true;
    }
  }
  return false;
}

KernelSignature DenseSignature(const KernelSignature& signature) {
  KernelSignature dense = signature;
  for (auto* list : {&dense.inputs, &dense.outputs}) {
    for (KernelTensor& t : *list) t.format = Format::kDense;
  }
  return dense;
}

std::unique_ptr<HostKernel> MakeDenseAdapter(const KernelSignature& signature,
                                             std::unique_ptr<HostKernel> dense) {
  return std::make_unique<DenseAdapter>(signature, std::move(dense));
}

}  // namespace partita
