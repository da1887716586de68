#include "runtime/backend/cuda/conv_descriptors.h"

#include "graph/support/status_macros.h"

namespace partita {
namespace {

int Int(int64_t value) { return static_cast<int>(value); }  // the plan keeps within int

cudnnDataType_t DataTypeOf(Precision precision) {
  switch (TypeOf(precision)) {
    case NumberType::kFloat16:
      return CUDNN_DATA_HALF;
    case NumberType::kBfloat16:
      return CUDNN_DATA_BFLOAT16;
    case NumberType::kFloat32:
      break;
  }
  return CUDNN_DATA_FLOAT;
}

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
                                                    cudnnTensorFormat_t format,
                                                    cudnnDataType_t type,
                                                    cudnnTensorDescriptor_t* descriptor) const {
  RETURN_IF_ERROR(cudnn_.Check(cudnn_.f.cudnnCreateTensorDescriptor(descriptor), "a tensor"));
  return cudnn_.Check(
      cudnn_.f.cudnnSetTensor4dDescriptor(*descriptor, format, type, Int(extents[0]),
                                          Int(extents[1]), Int(extents[2]), Int(extents[3])),
      "a tensor");
}

absl::Status ConvolutionDescriptors::Describe(const ConvolutionShape& s) {
  const CudnnFunctions& f = cudnn_.f;
  const cudnnDataType_t type = DataTypeOf(s.precision);
  const auto format = s.channels_last ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW;
  RETURN_IF_ERROR(DescribeTensor(s.x, format, type, &x));
  RETURN_IF_ERROR(DescribeTensor(s.y, format, type, &y));
  RETURN_IF_ERROR(DescribeTensor({1, s.y[1], 1, 1}, format, type, &bias));
  RETURN_IF_ERROR(cudnn_.Check(f.cudnnCreateFilterDescriptor(&w), "weights"));
  RETURN_IF_ERROR(cudnn_.Check(f.cudnnSetFilter4dDescriptor(w, type, format, Int(s.w[0]),
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
