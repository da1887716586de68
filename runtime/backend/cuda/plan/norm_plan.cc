#include <algorithm>

#include "runtime/backend/cuda/plan/kernel_planner.h"

// Normalisation and dropout.

namespace partita {
namespace {

// x[n, c, ...] as [n, channels, inner].
struct Channels {
  int64_t samples = 1, channels = 1, inner = 1;

  explicit Channels(const Shape& x) : samples(x[0]), channels(x[1]) {
    for (size_t d = 2; d < x.size(); ++d) inner *= x[d];
  }
  int64_t volume() const { return samples * channels * inner; }
  int64_t of_one() const { return samples * inner; }
  Divisor inner_divisor() const { return Divisor::Of(std::max<int64_t>(1, inner)); }
  Divisor channel_divisor() const { return Divisor::Of(std::max<int64_t>(1, channels)); }
  ChannelElements elements() const { return {channels, inner_divisor()}; }
  // Where a channel has few elements in a row, threads take neighbouring channels.
  bool channels_are_neighbours() const { return inner < 8; }
};

// From the sums at inputs 1 and 2.
ChannelStatistics BatchStatistics(const BatchNormFields& fields, KernelPlanner& planner) {
  ChannelStatistics statistics;
  statistics.s1 = planner.WideIn(1);
  statistics.s2 = planner.WideIn(2);
  statistics.one_over_n = 1 / static_cast<double>(fields.count);
  statistics.epsilon = fields.epsilon;
  return statistics;
}

struct NormalizeInputs {
  ChannelStatistics statistics;
  const float *gamma = nullptr, *beta = nullptr, *x = nullptr;
  bool centred = true;
};

void PlanNormalize(const Channels& c, const NormalizeInputs& in, KernelPlanner& planner) {
  auto* map = planner.Scratch<ChannelMap>(c.channels);
  planner.ForEach(c.channels, ChannelMapElement{in.statistics, in.gamma, in.beta, in.centred, map});
  planner.ForEach(c.volume(), NormalizeElement{map, in.x, planner.Out(), c.inner_divisor(),
                                               c.channel_divisor()});
}

LrnWindows WindowsOf(const Lrn& lrn, const Shape& x, const Shape& y) {
  const Channels in(x), out(y);
  LrnWindows windows;
  windows.in_channels = in.channels;
  windows.out_channels = out.channels;
  windows.size = lrn.size;
  windows.pad = lrn.pads[0];
  windows.lead = lrn.lead();
  windows.inner = in.inner_divisor();
  windows.in_plane = Divisor::Of(std::max<int64_t>(1, in.channels * in.inner));
  windows.out_plane = Divisor::Of(std::max<int64_t>(1, out.channels * out.inner));
  windows.k = static_cast<float>(lrn.k);
  windows.beta = static_cast<float>(lrn.beta);
  windows.share = static_cast<float>(lrn.alpha / static_cast<double>(lrn.size));
  return windows;
}

}  // namespace

void PlanChannelSums(KernelPlanner& planner) {
  const Channels c(planner.in_shape(0));
  planner.Reduce(c.channels, c.of_one(), c.channels_are_neighbours(),
                 ChannelSumReduction{c.elements(), planner.In(0), planner.Out()});
}

void PlanOperator(const BatchMoments&, KernelPlanner& planner) {
  const Channels c(planner.in_shape(0));
  planner.Reduce(
      c.channels, c.of_one(), c.channels_are_neighbours(),
      MomentsReduction{c.elements(), planner.In(0), planner.WideOut(0), planner.WideOut(1)});
}

void PlanOperator(const BatchNormalize& norm, KernelPlanner& planner) {
  PlanNormalize(Channels(planner.in_shape(0)),
                {BatchStatistics(norm, planner), planner.In(3), planner.In(4), planner.In(0)},
                planner);
  if (HasOnlyEpilogue(planner.signature())) {
    planner.ForEach(Volume(planner.out_shape()), ReluElement{planner.Out(), planner.Out()});
  }
}

void PlanOperator(const BatchNormGradMoments& norm, KernelPlanner& planner) {
  const Channels c(planner.in_shape(0));
  planner.Reduce(c.channels, c.of_one(), c.channels_are_neighbours(),
                 GradMomentsReduction{c.elements(), BatchStatistics(norm, planner), planner.In(0),
                                      planner.In(3), planner.Out(0), planner.Out(1)});
}

void PlanOperator(const BatchNormGradApply& norm, KernelPlanner& planner) {
  const Channels c(planner.in_shape(0));
  auto* gradient = planner.Scratch<ChannelGradient>(c.channels);
  planner.ForEach(c.channels, ChannelGradientElement{BatchStatistics(norm, planner), planner.In(3),
                                                     planner.In(5), planner.In(6), gradient});
  planner.ForEach(c.volume(),
                  NormalizeGradientElement{gradient, planner.In(0), planner.In(4), planner.Out(),
                                           c.inner_divisor(), c.channel_divisor()});
}

void PlanOperator(const AffineNormalize& norm, KernelPlanner& planner) {
  ChannelStatistics statistics;
  statistics.epsilon = norm.epsilon;
  switch (planner.pass().gradient) {
    case -1: {  // x, mean, variance, gamma, beta
      statistics.mean = planner.In(1);
      statistics.variance = planner.In(2);
      return PlanNormalize(Channels(planner.in_shape(0)),
                           {statistics, planner.In(3), planner.In(4), planner.In(0)}, planner);
    }
    case 0: {  // variance, gamma, dy
      statistics.variance = planner.In(0);
      return PlanNormalize(Channels(planner.in_shape(2)),
                           {statistics, planner.In(1), nullptr, planner.In(2), false}, planner);
    }
    case 3: {  // x, mean, variance, dy
      const Channels c(planner.in_shape(0));
      statistics.mean = planner.In(1);
      statistics.variance = planner.In(2);
      return planner.Reduce(c.channels, c.of_one(), c.channels_are_neighbours(),
                            GradMomentsReduction{c.elements(), statistics, planner.In(0),
                                                 planner.In(3), planner.Out(), nullptr});
    }
    default:  // dy
      return PlanChannelSums(planner);
  }
}

void PlanOperator(const Lrn& lrn, KernelPlanner& planner) {
  if (planner.pass().is_forward()) {
    const LrnWindows windows = WindowsOf(lrn, planner.in_shape(0), planner.out_shape());
    planner.ForEach(Volume(planner.out_shape()), LrnElement{windows, planner.In(0), planner.Out()});
    return;
  }
  const Shape& dy = planner.in_shape(1);
  const LrnWindows windows = WindowsOf(lrn, planner.in_shape(0), dy);
  auto* shared = planner.Scratch<float>(Volume(dy));
  auto* own = planner.Scratch<float>(Volume(dy));
  planner.ForEach(Volume(dy), LrnShareElement{windows, planner.In(0), planner.In(1), shared, own});
  planner.ForEach(Volume(planner.out_shape()),
                  LrnGradientElement{windows, planner.In(0), shared, own, planner.Out()});
}

void PlanOperator(const Dropout& dropout, KernelPlanner& planner) {
  const TensorArgument& piece = planner.in_piece(0);
  const Shape& x = planner.in_shape(0);
  const DropoutMask mask(dropout.ratio, 0, 0, planner.operator_key());  // but for its key
  const std::vector<int64_t> strides = RowMajorStridesOf(piece.global);
  int64_t first = 0;
  for (size_t d = 0; d < x.size(); ++d) first += piece.box[static_cast<int>(d)].lo * strides[d];
  const StridedIndex global = planner.Walk(x, strides, first);
  const auto scale = static_cast<float>(1 / (1 - dropout.ratio));
  if (!global.contiguous()) {
    planner.ForEach(Volume(x),
                    DropoutElement{planner.In(0), planner.Out(), global, planner.numbers(),
                                   mask.stream, mask.threshold, scale});
    return;
  }
  const DropoutRunElement run{planner.In(0),     planner.Out(), first,          Volume(x),
                              planner.numbers(), mask.stream,   mask.threshold, scale};
  planner.ForEach(run.blocks(), run);
}

}  // namespace partita
