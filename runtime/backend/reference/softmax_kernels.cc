#include "runtime/backend/reference/softmax_kernels.h"

#include <algorithm>

namespace partita {
namespace {

// x[rows..., classes] as a matrix, and where its classes lie in the whole tensor.
struct Matrix {
  int64_t rows = 1;
  int64_t classes = 1;
  int64_t first_class = 0;

  template <class T>
  explicit Matrix(const TensorPiece<T>& x)
      : classes(x.shape.back()), first_class(x.box[x.box.rank() - 1].lo) {
    for (size_t d = 0; d + 1 < x.shape.size(); ++d) rows *= x.shape[d];
  }
  // Where the label lies in a row of this piece, or -1.
  int64_t Find(int32_t label) const {
    const int64_t k = label - first_class;
    return k >= 0 && k < classes ? k : -1;
  }
};

// Writes term(row, element) of all elements, summed over each row.
template <class A, class Term>
void SumRows(const Matrix& matrix, const TensorPiece<typename A::T>& out, Term&& term) {
  for (int64_t r = 0; r < matrix.rows; ++r) {
    typename A::Wide sum{};
    for (int64_t k = 0; k < matrix.classes; ++k) sum += term(r, r * matrix.classes + k);
    out.data[r] = A::Round(sum);
  }
}

// Writes value(row, element) of each element.
template <class A, class Value>
void ForEachElement(const Matrix& matrix, const TensorPiece<typename A::T>& out, Value&& value) {
  for (int64_t r = 0; r < matrix.rows; ++r) {
    for (int64_t i = r * matrix.classes; i < (r + 1) * matrix.classes; ++i) {
      out.data[i] = A::Round(value(r, i));
    }
  }
}

// exp(x - m) / s, of the first three inputs of most pieces.
template <class A>
struct Probability {
  using T = typename A::T;
  using Wide = typename A::Wide;
  TensorPiece<const T> x, m, s;
  Matrix matrix;

  // The reciprocals are taken once for each row.
  std::vector<Wide> one_over_s;

  Probability(const Launch& launch, size_t m_index)
      : x(launch.In<T>(0)), m(launch.In<T>(m_index)), s(launch.In<T>(m_index + 1)), matrix(x) {
    for (int64_t r = 0; r < s.size(); ++r) one_over_s.push_back(A::Inverse(Wide(s.data[r])));
  }
  Wide operator()(int64_t row, int64_t i) const {
    return A::Exp(Wide(x.data[i]) - Wide(m.data[row])) * one_over_s[static_cast<size_t>(row)];
  }
};

template <class A>
void Run(const RowMax&, const Launch& launch) {
  using Wide = typename A::Wide;
  const auto x = launch.In<typename A::T>(0);
  const auto m = launch.Out<typename A::T>();
  const Matrix matrix(x);
  for (int64_t r = 0; r < matrix.rows; ++r) {
    Wide best = A::Lowest();
    for (int64_t i = r * matrix.classes; i < (r + 1) * matrix.classes; ++i) {
      if (A::Less(best, Wide(x.data[i]))) best = Wide(x.data[i]);
    }
    m.data[r] = A::Round(best);
  }
}

template <class A>
void Run(const RowSum&, const Launch& launch) {
  using Wide = typename A::Wide;
  const auto x = launch.In<typename A::T>(0);
  SumRows<A>(Matrix(x), launch.Out<typename A::T>(),
             [&](int64_t, int64_t i) { return Wide(x.data[i]); });
}

template <class A>
void Run(const SumExp&, const Launch& launch) {
  using T = typename A::T;
  using Wide = typename A::Wide;
  const auto x = launch.In<T>(0);
  const auto m = launch.In<T>(1);
  SumRows<A>(Matrix(x), launch.Out<T>(),
             [&](int64_t r, int64_t i) { return A::Exp(Wide(x.data[i]) - Wide(m.data[r])); });
}

template <class A>
void Run(const SoftmaxApply&, const Launch& launch) {
  const Probability<A> p(launch, 1);
  ForEachElement<A>(p.matrix, launch.Out<typename A::T>(), p);
}

template <class A>
void Run(const SoftmaxDot&, const Launch& launch) {
  using Wide = typename A::Wide;
  const Probability<A> p(launch, 1);
  const auto dy = launch.In<typename A::T>(3);
  SumRows<A>(p.matrix, launch.Out<typename A::T>(),
             [&](int64_t r, int64_t i) { return p(r, i) * Wide(dy.data[i]); });
}

template <class A>
void Run(const SoftmaxGrad&, const Launch& launch) {
  using Wide = typename A::Wide;
  const Probability<A> p(launch, 1);
  const auto dy = launch.In<typename A::T>(3);
  const auto t = launch.In<typename A::T>(4);
  ForEachElement<A>(p.matrix, launch.Out<typename A::T>(), [&](int64_t r, int64_t i) {
    return p(r, i) * (Wide(dy.data[i]) - Wide(t.data[r]));
  });
}

template <class A>
void Run(const LogSoftmaxApply&, const Launch& launch) {
  using T = typename A::T;
  using Wide = typename A::Wide;
  const auto x = launch.In<T>(0);
  const auto m = launch.In<T>(1);
  const auto s = launch.In<T>(2);
  ForEachElement<A>(Matrix(x), launch.Out<T>(), [&](int64_t r, int64_t i) {
    return Wide(x.data[i]) - Wide(m.data[r]) - A::Log(Wide(s.data[r]));
  });
}

template <class A>
void Run(const LogSoftmaxGrad&, const Launch& launch) {
  using Wide = typename A::Wide;
  const Probability<A> p(launch, 1);
  const auto dy = launch.In<typename A::T>(3);
  const auto t = launch.In<typename A::T>(4);
  ForEachElement<A>(p.matrix, launch.Out<typename A::T>(), [&](int64_t r, int64_t i) {
    return Wide(dy.data[i]) - p(r, i) * Wide(t.data[r]);
  });
}

template <class A>
void Run(const CrossEntropy& loss, const Launch& launch) {
  using T = typename A::T;
  using Wide = typename A::Wide;
  const auto x = launch.In<T>(0);
  const auto labels = launch.In<int32_t>(1);
  const auto m = launch.In<T>(2);
  const auto s = launch.In<T>(3);
  const Matrix matrix(x);
  Wide sum{};
  for (int64_t r = 0; r < matrix.rows; ++r) {
    if (m.present) sum += A::Log(Wide(s.data[r])) + Wide(m.data[r]);
    const int64_t k = matrix.Find(labels.data[r]);
    if (k >= 0) sum -= Wide(x.data[r * matrix.classes + k]);
  }
  launch.Out<T>().data[0] = A::Round(sum * A::OneOver(loss.rows));
}

template <class A>
void Run(const CrossEntropyGrad& loss, const Launch& launch) {
  using T = typename A::T;
  using Wide = typename A::Wide;
  const Probability<A> p(launch, 2);
  const auto labels = launch.In<int32_t>(1);
  const Wide scale = A::OneOver(loss.rows) * Wide(launch.In<T>(4).data[0]);
  ForEachElement<A>(p.matrix, launch.Out<T>(), [&](int64_t r, int64_t i) {
    const bool is_label = i - r * p.matrix.classes == p.matrix.Find(labels.data[r]);
    return (p(r, i) - A::Integer(is_label ? 1 : 0)) * scale;
  });
}

template <class A>
void Run(const CountCorrect&, const Launch& launch) {
  using T = typename A::T;
  const auto x = launch.In<T>(0);
  const auto labels = launch.In<int32_t>(1);
  const auto m = launch.In<T>(2);
  const Matrix matrix(x);
  int64_t correct = 0;
  for (int64_t r = 0; r < matrix.rows; ++r) {
    const int64_t k = matrix.Find(labels.data[r]);
    if (k >= 0 && x.data[r * matrix.classes + k] == m.data[r]) ++correct;
  }
  launch.Out<T>().data[0] = A::Round(A::Integer(correct));
}

template <class A>
void Run(const SumOfSquares&, const Launch& launch) {
  using T = typename A::T;
  using Wide = typename A::Wide;
  const auto x = launch.In<T>(0);
  if (launch.signature.pass.is_forward()) {
    Wide sum{};
    for (int64_t i = 0; i < x.size(); ++i) sum += Wide(x.data[i]) * Wide(x.data[i]);
    launch.Out<T>().data[0] = A::Round(sum);
    return;
  }
  const Wide twice = A::Integer(2) * Wide(launch.In<T>(1).data[0]);
  const auto dx = launch.Out<T>();
  for (int64_t i = 0; i < x.size(); ++i) dx.data[i] = A::Round(Wide(x.data[i]) * twice);
}

}  // namespace

template <class A>
absl::Status RunSoftmaxKernel(const SoftmaxRow& row, A, const Launch& launch) {
  std::visit([&](const auto& piece) { Run<A>(piece, launch); }, row);
  return absl::OkStatus();
}

template absl::Status RunSoftmaxKernel(const SoftmaxRow&, FloatArithmetic, const Launch&);
template absl::Status RunSoftmaxKernel(const SoftmaxRow&, DoubleArithmetic, const Launch&);
template absl::Status RunSoftmaxKernel(const SoftmaxRow&, RingArithmetic, const Launch&);

}  // namespace partita
