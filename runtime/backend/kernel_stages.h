#pragma once

#include <span>
#include <vector>

#include "graph/task/kernel_signature.h"
#include "runtime/backend/kernel_arguments.h"

namespace partita {

// Arguments of one stage of a fused kernel's launch.
class StageArguments {
 public:
  // `given`: the kernel's. `inner`: memory of the tensors that it does not store (Fusion::inner).
  StageArguments(const KernelStage& stage, const KernelArguments& given,
                 std::span<void* const> inner)
      : arguments_(given) {
    const auto find = [&](TensorPlace place, const KernelTensor& tensor) -> TensorArgument {
      const auto index = static_cast<size_t>(place.index);
      if (place.list == TensorPlace::List::kInput) return given.inputs[index];
      if (place.list == TensorPlace::List::kOutput) return given.outputs[index];
      const Shape& shape = tensor.type.shape;
      return {inner[index], Box::Full(shape), shape};
    };
    for (size_t k = 0; k < stage.wiring.inputs.size(); ++k) {
      inputs_.push_back(find(stage.wiring.inputs[k], stage.kernel.inputs[k]));
    }
    for (size_t k = 0; k < stage.wiring.outputs.size(); ++k) {
      outputs_.push_back(find(stage.wiring.outputs[k], stage.kernel.outputs[k]));
    }
    arguments_.inputs = inputs_;
    arguments_.outputs = outputs_;
  }
  StageArguments(const StageArguments&) = delete;
  StageArguments& operator=(const StageArguments&) = delete;

  // Valid as long as this object.
  const KernelArguments& get() const { return arguments_; }

 private:
  KernelArguments arguments_;
  std::vector<TensorArgument> inputs_, outputs_;
};

}  // namespace partita
