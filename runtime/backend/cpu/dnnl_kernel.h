#pragma once

#include <memory>
#include <vector>

#include "runtime/backend/cpu/dnnl_compat.h"
#include "runtime/backend/host/host_device.h"

namespace partita {

// The one CPU engine of oneDNN; it holds no state that matters.
const dnnl::engine& CpuEngine();

// oneDNN descriptor of a dense or native piece of float32 data. Native is channels-last for rank 4.
dnnl_compat::Desc DescOf(const KernelTensor& tensor);
// The same shape in whatever order a primitive likes best.
dnnl_compat::Desc AnyDescOf(const KernelTensor& tensor);

// One argument of a primitive: the user's data, and the order that the primitive requires.
struct DnnlArgument {
  int id = 0;  // DNNL_ARG_...
  bool output = false;
  size_t tensor = 0;  // position among the kernel's inputs or outputs
  dnnl_compat::Desc user, wanted;
};

// A primitive with its arguments. Data in another order than the primitive's is reordered into
// scratch before, or out of it afterwards. Scratch: reordered arguments, then the primitive's own
// scratchpad.
//
// A fused ReLU runs over the result after the primitive: oneDNN's own, as an operation appended to
// a primitive, takes NaN to 0.
class DnnlKernel : public HostKernel {
 public:
  struct Primitive {
    dnnl::primitive primitive;
    dnnl_compat::Desc scratchpad;
  };
  DnnlKernel(const KernelSignature& signature, Primitive primitive,
             std::vector<DnnlArgument> arguments);
  int64_t scratch_bytes() const override { return scratch_bytes_; }
  absl::Status Run(const KernelArguments& arguments, void* scratch) const override;

 private:
  struct Placed {
    DnnlArgument argument;
    int64_t offset = -1;  // offset in scratch; -1: used where it lies
    dnnl::reorder reorder;
  };
  dnnl::primitive primitive_;
  dnnl_compat::Desc scratchpad_;
  std::vector<Placed> arguments_;
  int64_t scratchpad_offset_ = 0;
  int64_t scratch_bytes_ = 0;
  int64_t relu_elements_ = 0;  // elements of the result; 0: no ReLU
};

// Attributes of a primitive whose scratchpad the caller provides.
dnnl::primitive_attr UserScratchpad();

}  // namespace partita
