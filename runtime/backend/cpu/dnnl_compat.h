#pragma once

// The one place that knows oneDNN's version: 2.x describes an operation first and makes a primitive
// descriptor from it, 3.x makes it at once.

#include <oneapi/dnnl/dnnl.hpp>

namespace partita::dnnl_compat {

using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;

struct ConvShape {
  Dims stride, dilation, pad_before, pad_after;  // dilation: 0 = dense
};

// Operands and result of the forward operation; a gradient has the shape of what it is taken of.
struct Tensors {
  Desc src, weights, dst;
  const Desc* bias = nullptr;  // null: none
};

inline dnnl::convolution_forward::primitive_desc ConvForward(const dnnl::engine& engine,
                                                             const Tensors& tensors,
                                                             const ConvShape& c,
                                                             const dnnl::primitive_attr& attr) {
  const auto& [src, weights, dst, bias] = tensors;
  const auto kind = dnnl::prop_kind::forward_training;
  const auto algorithm = dnnl::algorithm::convolution_direct;
#if DNNL_VERSION_MAJOR >= 3
  if (bias != nullptr) {
    return {engine, kind,     algorithm,  src,          weights,     *bias,
            dst,    c.stride, c.dilation, c.pad_before, c.pad_after, attr};
  }
  return {engine,   kind,       algorithm,    src,         weights, dst,
          c.stride, c.dilation, c.pad_before, c.pad_after, attr};
#else
  if (bias != nullptr) {
    return {{kind, algorithm, src, weights, *bias, dst, c.stride, c.dilation, c.pad_before,
             c.pad_after},
            attr,
            engine};
  }
  return {{kind, algorithm, src, weights, dst, c.stride, c.dilation, c.pad_before, c.pad_after},
          attr,
          engine};
#endif
}

inline dnnl::convolution_backward_data::primitive_desc ConvBackwardData(
    const dnnl::engine& engine, const Tensors& tensors, const ConvShape& c,
    const dnnl::primitive_attr& attr, const dnnl::convolution_forward::primitive_desc& hint) {
  const auto& [diff_src, weights, diff_dst, bias] = tensors;
  const auto algorithm = dnnl::algorithm::convolution_direct;
#if DNNL_VERSION_MAJOR >= 3
  return {engine,     algorithm,    diff_src,    weights, diff_dst, c.stride,
          c.dilation, c.pad_before, c.pad_after, hint,    attr};
#else
  return {{algorithm, diff_src, weights, diff_dst, c.stride, c.dilation, c.pad_before, c.pad_after},
          attr,
          engine,
          hint};
#endif
}

inline dnnl::convolution_backward_weights::primitive_desc ConvBackwardWeights(
    const dnnl::engine& engine, const Tensors& tensors, const ConvShape& c,
    const dnnl::primitive_attr& attr, const dnnl::convolution_forward::primitive_desc& hint) {
  const auto& [src, diff_weights, diff_dst, bias] = tensors;
  const auto algorithm = dnnl::algorithm::convolution_direct;
#if DNNL_VERSION_MAJOR >= 3
  return {engine,     algorithm,    src,         diff_weights, diff_dst, c.stride,
          c.dilation, c.pad_before, c.pad_after, hint,         attr};
#else
  return {{algorithm, src, diff_weights, diff_dst, c.stride, c.dilation, c.pad_before, c.pad_after},
          attr,
          engine,
          hint};
#endif
}

inline dnnl::matmul::primitive_desc MatMul(const dnnl::engine& engine, const Tensors& tensors,
                                           const dnnl::primitive_attr& attr) {
  const auto& [src, weights, dst, bias] = tensors;
#if DNNL_VERSION_MAJOR >= 3
  if (bias != nullptr) return {engine, src, weights, *bias, dst, attr};
  return {engine, src, weights, dst, attr};
#else
  if (bias != nullptr) return {{src, weights, *bias, dst}, attr, engine};
  return {{src, weights, dst}, attr, engine};
#endif
}

}  // namespace partita::dnnl_compat
