#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "runtime/backend/cuda/plan/conversion_plan.h"

// cuDNN pads both sides of a dimension alike, and derives y's extents from that. Where a part has
// other padding (before and after differ, or elements at the end that no window reads), x goes
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

struct Images {
  float* data;
  std::array<int64_t, 4> extents;  // n, c, h, w
};

// to[n, c, h, w] = from inside a border of zeros, or what is left of it.
void PlanBorder(const Images& from, const Images& to, int64_t top, int64_t left,
                KernelPlanner& planner) {
  BorderElement border{from.data, to.data};
  border.rank = 4;
  int64_t count = 1;
  for (size_t d = 0; d < 4; ++d) {
    border.y_extent[d] = Divisor::Of(std::max<int64_t>(1, to.extents[d]));
    border.x_extent[d] = from.extents[d];
    count *= to.extents[d];
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

// e such that with the largest elements of both factors below 2^e no sum of the products of a
// result is beyond 2^13: float16 ends at 2^16, which leaves a factor of 8 to algorithms that add
// factors before they multiply.
int FactorExponent(const ConvolutionShape& s) {
  const int64_t terms = s.pass == ConvolutionPass::kForward ? s.w[1] * s.w[2] * s.w[3]
                        : s.pass == ConvolutionPass::kData  ? s.w[0] / s.groups * s.w[2] * s.w[3]
                                                            : s.y[0] * s.y[2] * s.y[3];
  int bits = 0;
  while ((int64_t{1} << bits) < terms) ++bits;
  constexpr int kLargestSum = 13;
  return (kLargestSum - bits - (bits > kLargestSum ? 1 : 0)) / 2;
}

// x and w of a convolution with a stride as the library sees them, and how they are made.
struct BlockedOperands {
  std::array<int64_t, 4> x = {}, w = {};  // extents
  ImageBlocks of_x, of_w;
};

// Nothing where blocks would not help.
std::optional<BlockedOperands> BlockedOperandsOf(const Conv2d& conv, const ConvolutionShape& s,
                                                 bool channels_last) {
  constexpr int64_t kFewChannels = 4;
  constexpr int64_t kSlots = 8;  // tensor cores want a multiple of it
  const auto [rows, columns] = s.stride;
  const bool suits = s.groups == 1 && s.dilation == std::array<int64_t, 2>{1, 1} &&
                     rows * columns > 1 && columns <= ImageBlocks::kMostColumns &&
                     s.x[1] <= kFewChannels && s.w[2] >= rows && s.w[3] >= columns;
  if (!suits) return std::nullopt;
  int64_t runs = rows * s.x[1];
  while (runs * columns % kSlots != 0) ++runs;
  const auto blocks_of = [&](const std::array<int64_t, 4>& e, int64_t height, int64_t wide) {
    ImageBlocks blocks;
    blocks.channels = Divisor::Of(e[1]);
    blocks.x_height = Divisor::Of(e[2]);
    blocks.x_wide = Divisor::Of(e[3]);
    blocks.rows = Divisor::Of(rows);
    blocks.columns = Divisor::Of(columns);
    blocks.height = Divisor::Of(height);
    blocks.wide = Divisor::Of(wide);
    blocks.runs = Divisor::Of(runs);
    blocks.channels_last = channels_last;
    return blocks;
  };
  BlockedOperands blocked;
  const int64_t taps[] = {(s.w[2] + rows - 1) / rows, (s.w[3] + columns - 1) / columns};
  blocked.w = {s.w[0], runs * columns, taps[0], taps[1]};
  blocked.x = {s.x[0], runs * columns, s.y[2] + taps[0] - 1, s.y[3] + taps[1] - 1};
  blocked.of_w = blocks_of(s.w, blocked.w[2], blocked.w[3]);
  blocked.of_x = blocks_of(s.x, blocked.x[2], blocked.x[3]);
  blocked.of_x.top = conv.pads[0];
  blocked.of_x.left = conv.pads[1];
  return blocked;
}

// With operands and result in the type and order that the options ask for, x and w in blocks where
// there are any.
void PlanConverted(Convolution convolution, const std::optional<BlockedOperands>& blocked,
                   KernelPlanner& planner) {
  ConvolutionShape& s = convolution.shape;
  const KernelOptions& options = planner.options();
  s.precision = options.precision;
  s.channels_last = options.channels_last;
  s.deterministic = options.deterministic;
  const bool converts = s.channels_last || TypeOf(s.precision) != NumberType::kFloat32;
  struct Operand {
    void** data;
    ImageOperand dense;
    std::array<int64_t, 4> extents;  // that the library sees
  };
  Operand x{&convolution.x, {convolution.x, s.x, {}}, s.x};
  Operand w{&convolution.w, {convolution.w, s.w, {}}, s.w};
  const Operand y{&convolution.y, {convolution.y, s.y, {}}, s.y};
  if (blocked.has_value()) {
    x.dense.blocks = blocked->of_x;
    w.dense.blocks = blocked->of_w;
    s.x = x.extents = blocked->x;
    s.w = w.extents = blocked->w;
    s.pad = {};
    s.stride = {1, 1};
  }
  const auto [first, second, third] = s.pass == ConvolutionPass::kForward ? std::tuple(x, w, y)
                                      : s.pass == ConvolutionPass::kData  ? std::tuple(w, y, x)
                                                                          : std::tuple(x, y, w);
  const int exponent = FactorExponent(s);
  ImageResult result;
  for (const auto& [operand, scale] :
       {std::pair(first, &result.first), std::pair(second, &result.second)}) {
    if (!converts && !operand.dense.blocks.has_value()) continue;
    const ConvertedOperand converted = PlanImageOperand(operand.dense, exponent, planner);
    *operand.data = converted.data;
    *scale = converted.scale;
  }
  if (!converts && !third.dense.blocks.has_value()) return planner.Add(std::move(convolution));
  *third.data = planner.Scratch<char>(VolumeOf(third.extents) * BytesOf(TypeOf(s.precision)));
  result.data = *third.data;
  result.extents = third.dense.extents;
  result.blocks = third.dense.blocks;
  result.bias = convolution.bias;
  result.relu = s.relu;
  s.bias = s.relu = false;
  convolution.bias = nullptr;
  convolution.epilogue = {};
  planner.Add(convolution);
  PlanImageResult(result, const_cast<void*>(third.dense.data), planner);
}

// Through scratch memory where the axes ask for it.
void PlanConvolution(Convolution convolution, const PaddedAxis& h, const PaddedAxis& w,
                     KernelPlanner& planner) {
  const std::array<int64_t, 4> x = convolution.shape.x;
  convolution.shape.x = {x[0], x[1], h.extent, w.extent};
  convolution.shape.pad = {h.pad, w.pad};
  if (x[0] * x[1] * h.extent * w.extent > kMostElements) return planner.Fail("too many elements");
  if (convolution.shape.x == x && h.before == 0 && w.before == 0) {
    return PlanConverted(std::move(convolution), std::nullopt, planner);
  }
  auto* const data = static_cast<float*>(convolution.x);
  auto* const padded = planner.Scratch<float>(x[0] * x[1] * h.extent * w.extent);
  convolution.x = padded;
  if (convolution.shape.pass == ConvolutionPass::kData) {
    const std::array<int64_t, 4> extents = convolution.shape.x;
    PlanConverted(std::move(convolution), std::nullopt, planner);
    return PlanBorder({padded, extents}, {data, x}, -h.before, -w.before, planner);
  }
  PlanBorder({data, x}, {padded, convolution.shape.x}, h.before, w.before, planner);
  PlanConverted(std::move(convolution), std::nullopt, planner);
}

}  // namespace

void PlanOperator(const Conv2d& conv, KernelPlanner& planner) {
  const Pass pass = planner.pass();
  if (pass.gradient == 2) return PlanChannelSums(planner);
  const Tensors t = TensorsOf(planner);
  const int64_t y_volume = Volume(*t.y);
  const bool relu = pass.is_forward() && HasOnlyEpilogue(planner.signature());
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
    convolution.epilogue = ElementWork::Of(
        y_volume,
        BiasElement{bias, t.y_data, Divisor::Of(std::max<int64_t>(1, (*t.y)[2] * (*t.y)[3])),
                    Divisor::Of(std::max<int64_t>(1, (*t.y)[1])), relu});
  }
  if (y_volume == 0 || Volume(*t.x) == 0 || Volume(*t.w) == 0) {  // nothing to sum
    planner.ForEach(Volume(planner.out_shape()), FillElement{planner.Out(), 0.0f});
    planner.ForEach(convolution.epilogue.count, convolution.epilogue.functor);
    return;
  }
  if (std::max({Volume(*t.x), Volume(*t.w), y_volume}) > kMostElements) {
    return planner.Fail("too many elements");
  }
  if (planner.options().blocks) {
    const auto blocked =
        BlockedOperandsOf(conv, convolution.shape, planner.options().channels_last);
    if (!blocked.has_value()) return planner.Fail("no blocks of pixels suit it");
    if (std::max(VolumeOf(blocked->x), VolumeOf(blocked->w)) > kMostElements) {
      return planner.Fail("too many elements");
    }
    return PlanConverted(std::move(convolution), blocked, planner);
  }
  PlanConvolution(std::move(convolution), AxisOf(conv, 0, (*t.x)[2], (*t.w)[2], (*t.y)[2]),
                  AxisOf(conv, 1, (*t.x)[3], (*t.w)[3], (*t.y)[3]), planner);
}

}  // namespace partita
