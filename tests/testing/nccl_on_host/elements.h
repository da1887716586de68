#pragma once

#include <nccl.h>

#include <cstddef>
#include <span>

namespace partita::nccl_on_host {

// Operations of the test library on elements: the one part of it that knows where memory is.
class Elements {
 public:
  virtual ~Elements() = default;
  // The ranges are equal or do not overlap.
  virtual void Copy(void* to, const void* from, size_t bytes) const = 0;
  // into = values[0] (op) values[1] (op) ..., in that order; `into` may be one of them.
  virtual void Fold(ncclDataType_t type, ncclRedOp_t op, std::span<const void* const> values,
                    void* into, size_t count) const = 0;
};

// In host memory.
const Elements& HostElements();

// 0: none of NCCL's types.
size_t BytesOf(ncclDataType_t type);
// Whether Fold does it: 32-bit and 64-bit types, both signs and floating point, and NCCL's four
// operations that want no scalar.
bool CanFold(ncclDataType_t type, ncclRedOp_t op);

}  // namespace partita::nccl_on_host
