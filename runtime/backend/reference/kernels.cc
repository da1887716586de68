#include "runtime/backend/reference/kernels.h"

#include <span>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/support/status_macros.h"
#include "runtime/backend/kernel_stages.h"
#include "runtime/backend/reference/arithmetic.h"
#include "runtime/backend/reference/batch_matmul_kernel.h"
#include "runtime/backend/reference/conv2d_kernel.h"
#include "runtime/backend/reference/dropout_kernel.h"
#include "runtime/backend/reference/elementwise_kernels.h"
#include "runtime/backend/reference/embedding_kernel.h"
#include "runtime/backend/reference/layer_norm_kernel.h"
#include "runtime/backend/reference/lrn_kernel.h"
#include "runtime/backend/reference/lstm_gates_kernel.h"
#include "runtime/backend/reference/matmul_kernel.h"
#include "runtime/backend/reference/norm_kernels.h"
#include "runtime/backend/reference/pool2d_kernel.h"
#include "runtime/backend/reference/reduce_kernels.h"
#include "runtime/backend/reference/shape_kernels.h"
#include "runtime/backend/reference/softmax_kernels.h"
#include "runtime/backend/reference/unary_kernel.h"
#include "runtime/backend/reference/update_kernels.h"

// To add an operator: declare `RunKernel(const Foo&, A, signature, arguments)` in foo_kernel.h,
// include it above, define it as a template in foo_kernel.cc and instantiate it there for
// FloatArithmetic, DoubleArithmetic and RingArithmetic.

namespace partita {
namespace {

absl::Status CheckTensors(const std::string& what, const std::vector<KernelTensor>& tensors,
                          std::span<const TensorArgument> arguments) {
  if (tensors.size() != arguments.size()) {
    return absl::InternalError(absl::StrCat(what, ": the kernel has ", tensors.size(),
                                            " tensors, the launch ", arguments.size()));
  }
  for (size_t k = 0; k < tensors.size(); ++k) {
    const KernelTensor& tensor = tensors[k];
    if (!tensor.present) continue;
    if (arguments[k].box.shape() != tensor.type.shape) {
      return absl::InternalError(absl::StrCat(what, " ", k, ": the kernel is for ",
                                              ToString(tensor.type), ", the launch has ",
                                              ToString(arguments[k].box)));
    }
    if (arguments[k].data == nullptr && Volume(tensor.type.shape) > 0) {
      return absl::InternalError(
          absl::StrCat(what, " ", k, ": no data for ", ToString(tensor.type)));
    }
  }
  return absl::OkStatus();
}

bool HasType(const KernelSignature& signature, DType dtype) {
  for (const KernelTensor& t : signature.inputs) {
    if (t.type.dtype == dtype) return true;
  }
  for (const KernelTensor& t : signature.outputs) {
    if (t.type.dtype == dtype) return true;
  }
  return false;
}

template <class A>
absl::Status RunOne(A arithmetic, const KernelSignature& signature,
                    const KernelArguments& arguments) {
  return std::visit(
      [&](const auto& attrs) -> absl::Status {
        return RunKernel(attrs, arithmetic, signature, arguments);
      },
      signature.attrs);
}

// One operator after the other; what they do not store is in memory of its own.
template <class A>
absl::Status RunWith(A arithmetic, const KernelSignature& signature,
                     const KernelArguments& arguments) {
  if (!signature.is_fused()) return RunOne(arithmetic, signature, arguments);
  std::vector<std::vector<std::byte>> memory;
  std::vector<void*> inner;
  for (const KernelTensor& tensor : signature.fusion.inner) {
    memory.emplace_back(static_cast<size_t>(tensor.type.bytes()));
    inner.push_back(memory.back().data());
  }
  for (const KernelStage& stage : StagesOf(signature)) {
    const StageArguments own(stage, arguments, inner);
    RETURN_IF_ERROR(RunOne(arithmetic, stage.kernel, own.get()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RunReferenceKernel(const KernelSignature& signature,
                                const KernelArguments& arguments) {
  RETURN_IF_ERROR(CheckTensors("input", signature.inputs, arguments.inputs));
  RETURN_IF_ERROR(CheckTensors("output", signature.outputs, arguments.outputs));
  if (HasType(signature, DType::kRing64)) return RunWith(RingArithmetic{}, signature, arguments);
  if (HasType(signature, DType::kFloat32)) return RunWith(FloatArithmetic{}, signature, arguments);
  return RunWith(DoubleArithmetic{}, signature, arguments);
}

}  // namespace partita
