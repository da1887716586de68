#pragma once

#include "absl/status/status.h"
#include "runtime/backend/cuda/vendor_handles.h"

namespace partita {

// A convolution in cuDNN's words.
class ConvolutionDescriptors {
 public:
  explicit ConvolutionDescriptors(const Cudnn* cudnn) : cudnn_(*cudnn) {}
  ConvolutionDescriptors(const ConvolutionDescriptors&) = delete;
  ConvolutionDescriptors& operator=(const ConvolutionDescriptors&) = delete;
  ~ConvolutionDescriptors();

  absl::Status Describe(const ConvolutionShape& shape);
  absl::Status SetMath(cudnnMathType_t math) const;

  cudnnTensorDescriptor_t x = nullptr, y = nullptr, bias = nullptr;
  cudnnFilterDescriptor_t w = nullptr;
  cudnnConvolutionDescriptor_t convolution = nullptr;
  cudnnActivationDescriptor_t activation = nullptr;  // ReLU, or none

 private:
  absl::Status DescribeTensor(const std::array<int64_t, 4>& extents, cudnnTensorFormat_t format,
                              cudnnDataType_t type, cudnnTensorDescriptor_t* descriptor) const;
  const Cudnn& cudnn_;
};

}  // namespace partita
