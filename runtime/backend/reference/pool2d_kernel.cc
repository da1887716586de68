#include "runtime/backend/reference/pool2d_kernel.h"

#include <algorithm>
#include <vector>

#include "runtime/backend/reference/tensor_piece.h"

namespace partita {
namespace {

// Where the windows of one channel lie. Positions that no window reaches are never visited.
struct Windows {
  const Pool2d& pool;
  int64_t h, w, oh, ow;

  // Calls visit(offset in the channel) for the elements of window (i, j) in row-major order.
  template <class Visit>
  void ForEachTap(int64_t i, int64_t j, Visit&& visit) const {
    const int64_t top = i * pool.stride[0] - pool.pads[0];
    const int64_t left = j * pool.stride[1] - pool.pads[1];
    for (int64_t a = 0; a < pool.kernel[0]; ++a) {
      const int64_t y = top + a * pool.dilation[0];
      if (y < 0 || y >= h) continue;
      for (int64_t b = 0; b < pool.kernel[1]; ++b) {
        const int64_t x = left + b * pool.dilation[1];
        if (x >= 0 && x < w) visit(y * w + x);
      }
    }
  }

  // How many positions of window `i` along dimension d count in an average's divisor.
  int64_t Counted(size_t d, int64_t i) const {
    const int64_t extent = d == 0 ? h : w;
    const int64_t first = i * pool.stride[d] - pool.pads[d];
    int64_t count = 0;
    for (int64_t a = 0; a < pool.kernel[d]; ++a) {
      const int64_t at = first + a * pool.dilation[d];
      if (at >= -pool.counted[d] && at < extent + pool.counted[d + 2]) ++count;
    }
    return count;
  }
};

// The offset of the window's first maximum, or -1 if it is empty. Not-a-number beats everything.
template <class A>
int64_t FirstMaximum(const Windows& windows, int64_t i, int64_t j, const typename A::T* x) {
  using Wide = typename A::Wide;
  int64_t best = -1;
  windows.ForEachTap(i, j, [&](int64_t at) {
    if (best < 0 || A::Less(Wide(x[best]), Wide(x[at])) || !(x[at] == x[at])) best = at;
  });
  return best;
}

// Calls visit(channel, window row, window column, offset in y).
template <class Visit>
void ForEachWindow(const Windows& windows, int64_t channels, Visit&& visit) {
  int64_t at = 0;
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t i = 0; i < windows.oh; ++i) {
      for (int64_t j = 0; j < windows.ow; ++j) visit(c, i, j, at++);
    }
  }
}

template <class A>
void Maximum(const Windows& windows, TensorPiece<const typename A::T> x,
             TensorPiece<typename A::T> y) {
  ForEachWindow(windows, x.extent(0) * x.extent(1),
                [&](int64_t c, int64_t i, int64_t j, int64_t at) {
                  const auto* channel = x.data + c * windows.h * windows.w;
                  const int64_t best = FirstMaximum<A>(windows, i, j, channel);
                  y.data[at] = best < 0 ? typename A::T() : channel[best];
                });
}

template <class A>
void Average(const Windows& windows, TensorPiece<const typename A::T> x,
             TensorPiece<typename A::T> y) {
  using Wide = typename A::Wide;
  ForEachWindow(windows, x.extent(0) * x.extent(1),
                [&](int64_t c, int64_t i, int64_t j, int64_t at) {
                  const auto* channel = x.data + c * windows.h * windows.w;
                  Wide sum{};
                  windows.ForEachTap(i, j, [&](int64_t from) { sum += Wide(channel[from]); });
                  const int64_t count = windows.Counted(0, i) * windows.Counted(1, j);
                  y.data[at] = count == 0 ? typename A::T() : A::Round(sum * A::OneOver(count));
                });
}

// The gradient of x; `x` is what was pooled, and is read by the maximum only.
template <class A>
void Gradient(const Windows& windows, const typename A::T* x, TensorPiece<const typename A::T> dy,
              TensorPiece<typename A::T> dx) {
  using Wide = typename A::Wide;
  const bool maximum = windows.pool.function == "max";
  std::vector<Wide> sums(static_cast<size_t>(dx.size()));
  ForEachWindow(windows, dx.extent(0) * dx.extent(1),
                [&](int64_t c, int64_t i, int64_t j, int64_t at) {
                  const int64_t channel = c * windows.h * windows.w;
                  if (maximum) {
                    const int64_t best = FirstMaximum<A>(windows, i, j, x + channel);
                    if (best >= 0) sums[static_cast<size_t>(channel + best)] += Wide(dy.data[at]);
                    return;
                  }
                  const int64_t count = windows.Counted(0, i) * windows.Counted(1, j);
                  if (count == 0) return;
                  const Wide share = Wide(dy.data[at]) * A::OneOver(count);
                  windows.ForEachTap(
                      i, j, [&](int64_t to) { sums[static_cast<size_t>(channel + to)] += share; });
                });
  std::transform(sums.begin(), sums.end(), dx.data, &A::Round);
}

}  // namespace

template <class A>
absl::Status RunKernel(const Pool2d& pool, A, const KernelSignature& signature,
                       const KernelArguments& arguments) {
  using T = typename A::T;
  const TensorPiece<const T> in = Input<T>(signature, arguments, 0);
  const TensorPiece<T> out = Output<T>(signature, arguments);
  if (!signature.pass.is_forward()) {
    const TensorPiece<const T> dy = Input<T>(signature, arguments, signature.inputs.size() - 1);
    const Windows windows{pool, out.extent(2), out.extent(3), dy.extent(2), dy.extent(3)};
    Gradient<A>(windows, in.data, dy, out);
    return absl::OkStatus();
  }
  const Windows windows{pool, in.extent(2), in.extent(3), out.extent(2), out.extent(3)};
  if (pool.function == "max") {
    Maximum<A>(windows, in, out);
  } else {
    Average<A>(windows, in, out);
  }
  return absl::OkStatus();
}

template absl::Status RunKernel(const Pool2d&, FloatArithmetic, const KernelSignature&,
                                const KernelArguments&);
template absl::Status RunKernel(const Pool2d&, DoubleArithmetic, const KernelSignature&,
                                const KernelArguments&);
template absl::Status RunKernel(const Pool2d&, RingArithmetic, const KernelSignature&,
                                const KernelArguments&);

}  // namespace partita
