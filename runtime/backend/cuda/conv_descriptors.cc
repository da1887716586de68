#include "runtime/backend/cuda/conv_descriptors.h"

#include "graph/support/status_macros.h"

namespace partita {
namespace {

int Int(int64_t value) { return static_cast<int>(value); }  // the plan keeps within int

}  // namespace

ConvolutionDescriptors::~ConvolutionDescriptors() {
  const CudnnFunctions& f = cudnn_.f;
  for (cudnnTensorDescriptor_t tensor : {x, y, bias}) {
    if (tensor != nullptr) f.cudnnDestroyTensorDescriptor(tensor);
  }
  if (w != nullptr) f.cudnnDestroyFilterDescriptor(w);
  if (convolution != nullptr) f.cudnnDestroyConvolutionDescriptor(convolution);
  if (activation != nullptr) f.cudnnDestroyActivationDescriptor(activation);
}

absl::Status ConvolutionDescriptors::DescribeTensor(const std::array<int64_t, 4>& extents,
                                                    cudnnTensorDescriptor_t* descriptor) const {
  RETURN_IF_ERROR(cudnn_.Check(cudnn_.f.cudnnCreateTensorDescriptor(descriptor), "a tensor"));
  return cudnn_.Check(cudnn_.f.cudnnSetTensor4dDescriptor(
                          *descriptor, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, Int(extents[0]),
                          Int(extents[1]), Int(extents[2]), Int(extents[3])),
                      "a tensor");
}

absl::Status ConvolutionDescriptors::Describe(const ConvolutionShape& s) {
  const CudnnFunctions& f = cudnn_.f;
  RETURN_IF_ERROR(DescribeTensor(s.x, &x));
  RETURN_IF_ERROR(DescribeTensor(s.y, &y));
  RETURN_IF_ERROR(DescribeTensor({1, s.y[1], 1, 1}, &bias));
  RETURN_IF_ERROR(cudnn_.Check(f.cudnnCreateFilterDescriptor(&w), "weights"));
  RETURN_IF_ERROR(
      cudnn_.Check(f.cudnnSetFilter4dDescriptor(w, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, Int(s.w[0]),
                                                Int(s.w[1]), Int(s.w[2]), Int(s.w[3])),
                   "weights"));
  RETURN_IF_ERROR(cudnn_.Check(f.cudnnCreateConvolutionDescriptor(&convolution), "a convolution"));
  RETURN_IF_ERROR(cudnn_.Check(
      f.cudnnSetConvolution2dDescriptor(convolution, Int(s.pad[0]), Int(s.pad[1]), Int(s.stride[0]),
                                        Int(s.stride[1]), Int(s.dilation[0]), Int(s.dilation[1]),
                                        CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
      "a convolution"));
  RETURN_IF_ERROR(
      cudnn_.Check(f.cudnnSetConvolutionGroupCount(convolution, Int(s.groups)), "groups"));
  RETURN_IF_ERROR(cudnn_.Check(f.cudnnCreateActivationDescriptor(&activation), "an activation"));
  return cudnn_.Check(f.cudnnSetActivationDescriptor(
                          activation, s.relu ? CUDNN_ACTIVATION_RELU : CUDNN_ACTIVATION_IDENTITY,
                          CUDNN_PROPAGATE_NAN, 0.0),
                      "an activation");
}

absl::Status ConvolutionDescriptors::SetMath(cudnnMathType_t math) const {
  return cudnn_.Check(cudnn_.f.cudnnSetConvolutionMathType(convolution, math), "a math type");
}

}  // namespace partita
