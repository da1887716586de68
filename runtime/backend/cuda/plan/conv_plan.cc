#include <algorithm>

#include "runtime/backend/cuda/plan/kernel_planner.h"

// cuDNN pads both sides of a dimension alike, and derives y's extents from that. Where a part has
// other padding (before and behind differ, or elements at the end that no window reads), x goes
// through scratch memory of exactly the extent that the windows read.

namespace partita {
namespace {

constexpr int64_t kMostElements = 0x7fffffff;  // cuDNN's extents and strides are int

// How the library sees one dimension.
struct PaddedAxis {
  int64_t extent = 0;  // of x, or of what stands for it
  int64_t pad = 0;     // on both sides
  int64_t before = 0;  // index j of what stands for x is index j - before of x
};

PaddedAxis AxisOf(const Conv2d& conv, size_t d, int64_t x, int64_t kernel, int64_t y) {
  const int64_t reach = conv.dilation[d] * (kernel - 1) + 1;
  const int64_t before = conv.pads[d];
  const int64_t room = x + 2 * before - reach;
  const bool fits = before >= 0 && before < reach && room >= 0 && room / conv.stride[d] + 1 == y;
  if (fits) return {x, before, 0};
  return {(y - 1) * conv.stride[d] + reach, 0, before};
}

std::array<int64_t, 4> Four(const Shape& shape) { return {shape[0], shape[1], shape[2], shape[3]}; }

// to[n, c, h, w] = from inside a border of zeros, or what is left of it.
void PlanBorder(const float* from, const std::array<int64_t, 4>& from_extents, float* to,
                const std::array<int64_t, 4>& to_extents, int64_t top, int64_t left,
                KernelPlanner& planner) {
  BorderElement border{from, to};
  border.rank = 4;
  int64_t count = 1;
  for (size_t d = 0; d < 4; ++d) {
    border.y_extent[d] = Divisor::Of(std::max<int64_t>(1, to_extents[d]));
    border.x_extent[d] = from_extents[d];
    count *= to_extents[d];
  }
  border.before[2] = top;
  border.before[3] = left;
  planner.ForEach(count, border);
}

// Shapes and data of x, w and y, whichever of them the pass reads and writes.
struct Tensors {
  const Shape *x, *w, *y;
  float *x_data, *w_data, *y_data;
};

// The library does not write what it reads.
float* Read(const float* data) { return const_cast<float*>(data); }

Tensors TensorsOf(KernelPlanner& p) {
  switch (p.pass().gradient) {
    case 0:  // w, dy -> dx
      return {&p.out_shape(), &p.in_shape(0), &p.in_shape(1),
              p.Out(),        Read(p.In(0)),  Read(p.In(1))};
    case 1:  // x, dy -> dw
      return {&p.in_shape(0), &p.out_shape(), &p.in_shape(1),
              Read(p.In(0)),  p.Out(),        Read(p.In(1))};
    default:
      return {&p.in_shape(0), &p.in_shape(1), &p.out_shape(),
              Read(p.In(0)),  Read(p.In(1)),  p.Out()};
  }
}

// Through scratch memory where the axes ask for it.
void PlanConvolution(Convolution convolution, const PaddedAxis& h, const PaddedAxis& w,
                     KernelPlanner& planner) {
  const std::array<int64_t, 4> x = convolution.shape.x;
  convolution.shape.x = {x[0], x[1], h.extent, w.extent};
  convolution.shape.pad = {h.pad, w.pad};
  if (x[0] * x[1] * h.extent * w.extent > kMostElements) return planner.Fail("too many elements");
  if (convolution.shape.x == x && h.before == 0 && w.before == 0) return planner.Add(convolution);
  float* const data = convolution.x;
  convolution.x = planner.Scratch<float>(x[0] * x[1] * h.extent * w.extent);
  if (convolution.shape.pass == ConvolutionPass::kData) {
    const Convolution given = convolution;
    planner.Add(std::move(convolution));
    return PlanBorder(given.x, given.shape.x, data, x, -h.before, -w.before, planner);
  }
  PlanBorder(data, x, convolution.x, convolution.shape.x, h.before, w.before, planner);
  planner.Add(std::move(convolution));
}

}  // namespace

void PlanOperator(const Conv2d& conv, KernelPlanner& planner) {
  const Pass pass = planner.pass();
  if (pass.gradient == 2) return PlanChannelSums(planner);
  const Tensors t = TensorsOf(planner);
  const int64_t y_volume = Volume(*t.y);
  const bool relu = pass.is_forward() && planner.signature().fused_relu;
  Convolution convolution;
  convolution.shape = {pass.is_forward()    ? ConvolutionPass::kForward
                       : pass.gradient == 0 ? ConvolutionPass::kData
                                            : ConvolutionPass::kFilter,
                       Four(*t.x),
                       Four(*t.w),
                       Four(*t.y),
                       {},
                       {conv.stride[0], conv.stride[1]},
                       {conv.dilation[0], conv.dilation[1]},
                       conv.groups,
                       pass.is_forward() && planner.present(2),
                       relu};
  convolution.x = t.x_data;
  convolution.w = t.w_data;
  convolution.y = t.y_data;
  if (convolution.shape.bias || relu) {
    const float* bias = convolution.shape.bias ? planner.In(2) : nullptr;
    convolution.bias = bias;
    convolution.epilogue = {
        BiasElement{bias, t.y_data, Divisor::Of(std::max<int64_t>(1, (*t.y)[2] * (*t.y)[3])),
                    Divisor::Of(std::max<int64_t>(1, (*t.y)[1])), relu},
        y_volume};
  }
  if (y_volume == 0 || Volume(*t.x) == 0 || Volume(*t.w) == 0) {  // nothing to sum
    planner.ForEach(Volume(planner.out_shape()), FillElement{planner.Out(), 0.0f});
    planner.ForEach(convolution.epilogue.count, convolution.epilogue.functor);
    return;
  }
  if (std::max({Volume(*t.x), Volume(*t.w), y_volume}) > kMostElements) {
    return planner.Fail("too many elements");
  }
  PlanConvolution(std::move(convolution), AxisOf(conv, 0, (*t.x)[2], (*t.w)[2], (*t.y)[2]),
                  AxisOf(conv, 1, (*t.x)[3], (*t.w)[3], (*t.y)[3]), planner);
}

}  // namespace partita
