#include "tests/testing/random_graph.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "graph/layers.h"
#include "graph/model/microbatch.h"
#include "graph/support/check.h"
#include "tests/testing/ok.h"

namespace partita {
namespace {

class ModelGenerator {
 public:
  explicit ModelGenerator(std::mt19937_64& random)
      : random_(random), own_(std::mt19937_64(random)() ^ 0x9e3779b97f4a7c15), builder_("random") {}

  Graph Run() {
    const int64_t n = 2 + Below(4);
    TensorId x;
    if (Chance(70)) {
      x = Ok(
          builder_.AddInput("x", {DType::kFloat32, {n, 1 + Below(4), 3 + Below(6), 2 + Below(5)}}));
      for (int i = 1 + Below(5); i > 0; --i) x = AddImageLayer(x);
      if (Chance(80)) {
        x = AddTransition(x);
      } else if (Chance(50)) {
        x = Try(Transpose{.perm = {0, 2, 3, 1}}, {x});
      } else {
        x = Ok(Chance(50) ? AddLogSoftmax(builder_, Name(), x) : AddSoftmax(builder_, Name(), x));
      }
    } else {
      const int64_t features = 2 + Below(6);
      x = own_() % 3 == 0 ? Lookup(n, features)
                          : Ok(builder_.AddInput("x", {DType::kFloat32, {n, features}}));
    }
    for (int i = Below(4); i > 0; --i) x = AddRowLayer(x);
    if (own_() % 4 == 0) x = TwoCells(x);
    if (own_() % 4 == 0) x = LayerNormOf(x);
    if (own_() % 4 == 0) x = WithItself(x);
    x = Linear(x, 2 + Below(5));
    if (Chance(15)) x = Ok(AddSoftmax(builder_, Name(), x));
    builder_.AddRole(TensorRole::kLogits, x);
    return Ok(std::move(builder_).Build());
  }

 private:
  int64_t Below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  bool Chance(int64_t percent) { return Below(100) < percent; }
  std::string Name() { return absl::StrCat("op", names_++); }
  Shape ShapeOf(TensorId x) const { return builder_.tensor(x).type.shape; }

  TensorId Weight(const Shape& shape, bool trainable = true) {
    const Initializer initializer{.kind = Initializer::Kind::kUniformFanIn, .fan_in = 4};
    return Ok(builder_.AddWeight(absl::StrCat("w", names_++), {DType::kFloat32, shape}, initializer,
                                 nullptr, trainable));
  }
  // The result, or `x` if these attributes do not fit it.
  TensorId Try(OpAttrs attrs, std::vector<TensorId> inputs) {
    auto y = builder_.Add({.name = Name(), .attrs = std::move(attrs), .inputs = inputs});
    if (!y.ok() || Volume(ShapeOf(*y)) > 700) return inputs[0];
    return *y;
  }
  std::vector<int64_t> Pair(int64_t most) { return {1 + Below(most), 1 + Below(most)}; }

  TensorId AddImageLayer(TensorId x) {
    switch (Below(19)) {
      case 0:
      case 1:
      case 2:
      case 3:
        return Conv(x);
      case 4:
      case 5:
        return Pool(x);
      case 6:
        return Activation(x);
      case 7:
        return Ok(AddLrn(builder_, Name(), x, {.size = 1 + Below(5), .alpha = 0.5}));
      case 8:
        return BatchNorm(x);
      case 9:
        return Residual(x);
      case 10:
        return ConcatWith(x);
      case 11:
      case 17:
      case 18:
        return CropOrPad(x);
      case 12:
        return TransposeImage(x);
      case 13:
        return Broadcast(x);
      case 14:
        return Ok(AddDropout(builder_, Name(), x, 0.25 * static_cast<double>(Below(4))));
      case 15:
        return Try(Scale{.alpha = 0.5, .beta = Chance(50) ? 0.25 : 0}, {x});
      default:
        return Mean(x, {2 + Below(2)}, true);
    }
  }

  // Rows of a table that an input of integers chooses: [n, features].
  TensorId Lookup(int64_t n, int64_t features) {
    const auto drawn = static_cast<int64_t>(own_() % 64);
    const int64_t words = features % 2 == 0 && drawn % 2 == 0 ? 2 : 1;
    const TensorId table = Weight({2 + drawn / 8, features / words});
    const Shape indices = words == 1 ? Shape{n} : Shape{n, words};
    const TensorId y =
        Try(Embedding{}, {Ok(builder_.AddInput("x", {DType::kInt32, indices})), table});
    return words == 1 ? y : Try(Reshape{.shape = {n, features}}, {y});
  }

  // Two steps of an LSTM layer with one input.
  TensorId TwoCells(TensorId x) {
    const auto units = static_cast<int64_t>(1 + own_() % 3);
    LstmCell cell{.name = Name(), .x = x};
    cell.input_weight = Weight({4 * units, ShapeOf(x).back()});
    cell.hidden_weight = Weight({4 * units, units});
    cell.bias = Weight({4 * units});
    const LstmState first = Ok(AddLstmCell(builder_, cell));
    cell.name = Name();
    cell.h = first.h;
    cell.c = first.c;
    return Ok(AddLstmCell(builder_, cell)).h;
  }

  TensorId LayerNormOf(TensorId x) {
    const int64_t size = ShapeOf(x).back();
    return Try(LayerNorm{.epsilon = 1e-3}, {x, Weight({size}), Weight({size})});
  }

  // Attention of a tensor to itself, without softmax: (x x^T) x for each sample.
  TensorId WithItself(TensorId x) {
    const Shape s = ShapeOf(x);
    if (s.size() == 2) x = Try(Reshape{.shape = {s[0], 1, s[1]}}, {x});
    const TensorId scores = Try(BatchMatMul{.transposed = true}, {x, x});
    const TensorId y = Try(BatchMatMul{}, {scores, x});
    return s.size() == 2 ? Try(Reshape{.shape = {s[0], s[1]}}, {y}) : y;
  }

  TensorId Activation(TensorId x) {
    static constexpr const char* kFunctions[] = {"erf",        "gelu",    "gelu_tanh",
                                                 "hard_swish", "sigmoid", "tanh"};
    const uint64_t drawn = own_();
    if (drawn % 4 != 0) return Try(Relu{}, {x});
    return Try(Unary{.function = kFunctions[drawn / 4 % std::size(kFunctions)]}, {x});
  }

  TensorId Conv(TensorId x) {
    const Shape s = ShapeOf(x);
    Conv2d conv{.stride = Pair(3), .dilation = {1, 1}};
    if (Chance(25)) conv.dilation = Pair(2);
    for (int64_t& pad : conv.pads) pad = Chance(40) ? Below(4) : 1;
    conv.groups = Chance(30) ? s[1] : 1;
    if (Chance(30) && s[1] % 2 == 0) conv.groups = 2;
    const int64_t out = conv.groups * (1 + Below(s[1] > 2 ? 2 : 4));
    std::vector<TensorId> inputs = {x,
                                    Weight({out, s[1] / conv.groups, 1 + Below(3), 1 + Below(3)})};
    if (Chance(70)) inputs.push_back(Weight({out}));
    const TensorId y = Try(conv, inputs);
    return Chance(40) ? Activation(y) : y;
  }

  TensorId Pool(TensorId x) {
    Pool2d pool{.function = Chance(50) ? "max" : "average", .kernel = Pair(3), .stride = Pair(3)};
    if (Chance(20)) pool.dilation = Pair(2);
    for (size_t i = 0; i < 4; ++i) {
      pool.pads[i] = Below(pool.dilation[i % 2] * (pool.kernel[i % 2] - 1) + 1);
    }
    if (Chance(50)) pool.counted = pool.pads;
    pool.ceil = Chance(50);
    return Try(pool, {x});
  }

  TensorId BatchNorm(TensorId x) {
    const Shape c = {ShapeOf(x)[1]};
    BatchNormLayer layer{.name = Name(), .x = x, .gamma = Weight(c), .beta = Weight(c)};
    layer.frozen = Chance(25);
    if (layer.frozen || Chance(60)) {
      layer.running_mean = Weight(c, false);
      layer.running_variance = Weight(c, false);
    }
    return Ok(AddBatchNorm(builder_, layer));
  }

  TensorId Arithmetic(TensorId a, TensorId b) {
    static constexpr const char* kFunctions[] = {"add", "sub", "mul"};
    return Try(Binary{.function = kFunctions[Below(3)]}, {a, b});
  }

  TensorId Residual(TensorId x) {
    const int64_t c = ShapeOf(x)[1];
    TensorId y = x;
    if (Chance(70)) {
      y = Try(Conv2d{.pads = {1, 1, 1, 1}}, {x, Weight({c, c, 3, 3})});
    } else if (Chance(50)) {
      y = Activation(x);
    }
    return Arithmetic(x, y);
  }

  TensorId ConcatWith(TensorId x) {
    const Shape s = ShapeOf(x);
    if (Chance(60)) {
      const TensorId y = Try(Conv2d{}, {x, Weight({1 + Below(3), s[1], 1, 1})});
      return Chance(50) ? Try(Concat{.axis = 1}, {x, y}) : Try(Concat{.axis = 1}, {y, x, y});
    }
    return Try(Concat{.axis = Below(4)}, {x, Activation(x)});
  }

  TensorId CropOrPad(TensorId x) {
    const Shape s = ShapeOf(x);
    if (Chance(50)) {
      Crop crop;
      for (size_t d = 0; d < 4; ++d) {
        const int64_t begin = d == 0 || s[d] < 2 || Chance(50) ? 0 : 1;
        crop.begin.push_back(begin);
        crop.end.push_back(d == 0 ? s[0] : std::max(begin + 1, s[d] - Below(3)));
      }
      return Try(crop, {x});
    }
    Pad pad{.pads = std::vector<int64_t>(8, 0), .value = Chance(50) ? 0 : 0.5};
    for (size_t i = 0; i < 8; ++i) {
      if (i % 4 != 0) pad.pads[i] = Below(4) - 1;
    }
    return Try(pad, {x});
  }

  TensorId TransposeImage(TensorId x) {
    static const std::vector<int64_t> kOrders[] = {{0, 2, 1, 3}, {0, 1, 3, 2}, {0, 3, 2, 1}};
    return Try(Transpose{.perm = kOrders[Below(3)]}, {x});
  }

  TensorId Broadcast(TensorId x) {
    const Shape s = ShapeOf(x);
    Shape other(s.end() - Below(static_cast<int64_t>(s.size()) + 1), s.end());
    for (int64_t& extent : other) {
      if (Chance(50)) extent = 1;
    }
    return Arithmetic(x, Weight(other));
  }

  TensorId Mean(TensorId x, std::vector<int64_t> axes, bool keepdims) {
    return Try(Ok(MakeReduceMean(ShapeOf(x), std::move(axes), keepdims)), {x});
  }

  // From [n,c,h,w] to [n, features].
  TensorId AddTransition(TensorId x) {
    const Shape s = ShapeOf(x);
    if (Chance(30)) return Mean(x, {2, 3}, false);
    if (Chance(20)) return Try(Reshape{.shape = {s[0], s[1], s[2] * s[3]}}, {x});
    return Try(Reshape{.shape = {s[0], -1}}, {x});
  }

  TensorId Linear(TensorId x, int64_t outputs) {
    const int64_t inputs = ShapeOf(x).back();
    const bool transposed = Chance(70);
    std::vector<TensorId> operands = {
        x, Weight(transposed ? Shape{outputs, inputs} : Shape{inputs, outputs})};
    if (Chance(60)) operands.push_back(Weight({outputs}));
    return Ok(builder_.Add(
        {.name = Name(), .attrs = MatMul{.transposed = transposed}, .inputs = operands}));
  }

  TensorId AddRowLayer(TensorId x) {
    const Shape s = ShapeOf(x);
    switch (Below(11)) {
      case 0:
      case 1:
        return Linear(x, 2 + Below(6));
      case 2:
        return Activation(Linear(x, 2 + Below(4)));
      case 3:
        return Ok(AddSoftmax(builder_, Name(), x));
      case 4:
        return Ok(AddLogSoftmax(builder_, Name(), x));
      case 5:
        return BatchNorm(x);
      case 6:
        return Ok(AddDropout(builder_, Name(), x, 0.5));
      case 7:
        return Arithmetic(x, Linear(x, s.back()));
      case 8: {
        const TensorId w = Weight({s.back(), s.back()});
        return Try(MatMul{}, {Activation(Try(MatMul{}, {x, w})), w});
      }
      case 9:
        return Fold(x);
      default:
        return Broadcast(x);
    }
  }

  // [n, a*b] -> [n, a, b] or back, perhaps with the last two dimensions swapped.
  TensorId Fold(TensorId x) {
    const Shape s = ShapeOf(x);
    if (s.size() == 3) return Try(Reshape{.shape = {s[0], -1}}, {x});
    for (int64_t a : {2, 3}) {
      if (s.size() != 2 || s[1] % a != 0) continue;
      const TensorId y = Try(Reshape{.shape = {s[0], a, s[1] / a}}, {x});
      return Chance(50) ? Try(Transpose{.perm = {0, 2, 1}}, {y}) : y;
    }
    return x;
  }

  std::mt19937_64& random_;
  // Source of choices that leave what else is drawn as it is.
  std::mt19937_64 own_;
  GraphBuilder builder_;
  int names_ = 0;
};

}  // namespace

Graph WithRandomEdges(const Graph& graph, std::mt19937_64& random) {
  GraphBuilder builder(graph);
  for (const Operator& op : graph.ops()) {
    std::vector<OpId> after;
    while (op.id.value() > 0 && random() % 4 == 0) {
      after.push_back(OpId(static_cast<int32_t>(random() % op.id.index())));
    }
    builder.SetAfter(op.id, std::move(after));
  }
  return Ok(std::move(builder).Build());
}

Graph RandomModel(std::mt19937_64& random) { return ModelGenerator(random).Run(); }

Graph RandomTrainingGraph(std::mt19937_64& random) {
  const Graph model = RandomModel(random);
  TrainingOptions options;
  options.optimizer = static_cast<TrainingOptions::Optimizer>(random() % 3);
  if (random() % 4 == 0) options.loss = TrainingOptions::kSumOfSquares;
  // From a stream of its own, so that what else is drawn stays.
  std::mt19937_64 own(std::mt19937_64(random)() ^ 0x9e3779b97f4a7c15);
  const int microbatches = own() % 6 == 0 ? 2 << own() % 2 : 1;
  options.in_flight = static_cast<int>(own() % 3);
  auto split = Microbatch(model, microbatches);
  const auto graph = BuildTrainingGraph(split.ok() ? *split : model, options);
  CHECK(graph.ok()) << graph.status();
  return own() % 3 == 0 ? WithRandomEdges(*graph, own) : *graph;
}

}  // namespace partita
