#pragma once

#include <cstdint>

#include "graph/ops/ops.h"
#include "graph/task/kernel_signature.h"

namespace partita {

inline KernelTensor Float(Shape shape) { return {{DType::kFloat32, std::move(shape)}}; }

// AlexNet's second convolution (192 channels from 64, 5x5, 27 pixels) forward on `batch` samples.
inline KernelSignature ConvForward(int64_t batch) {
  Conv2d conv;
  conv.pads = {2, 2, 2, 2};
  return {.attrs = conv,
          .pass = Pass::Forward(),
          .inputs = {Float({batch, 64, 27, 27}), Float({192, 64, 5, 5}), Float({192})},
          .outputs = {Float({batch, 192, 27, 27})}};
}

// y[batch, outputs] = x[batch, inputs] w[outputs, inputs].
inline KernelSignature Linear(int64_t batch, int64_t inputs, int64_t outputs) {
  MatMul product;
  product.transposed = true;
  return {.attrs = product,
          .pass = Pass::Forward(),
          .inputs = {Float({batch, inputs}), Float({outputs, inputs})},
          .outputs = {Float({batch, outputs})}};
}

inline KernelSignature ReluForward(int64_t elements) {
  return {.attrs = Relu{},
          .pass = Pass::Forward(),
          .inputs = {Float({elements})},
          .outputs = {Float({elements})}};
}

}  // namespace partita
