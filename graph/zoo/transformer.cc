// Transformers (Vaswani et al. 2017): GPT-3 (Brown et al. 2020, table 2.1), BERT (Devlin et al.
// 2018), ViT (Dosovitskiy et al. 2020). Weights are named by their part of the layer.

#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/layers.h"
#include "graph/support/error_category.h"
#include "graph/support/status_macros.h"
#include "graph/zoo/models.h"

namespace partita {
namespace {

struct TransformerSizes {
  std::string name;
  int64_t batch = 1, steps = 1;
  int64_t width = 1, heads = 1;
  int layers = 1;
  int64_t words = 0;       // of the table, for sequences of words
  bool causal = false;     // a step sees no later one
  bool norm_first = true;  // in front of each block, instead of after it
};

// A transformer in the making. The first error stays and is what Finish returns; the current tensor
// is [batch, steps, width] unless a function says otherwise.
class Transformer {
 public:
  explicit Transformer(TransformerSizes sizes)
      : sizes_(std::move(sizes)), builder_(sizes_.name), head_width_(sizes_.width / sizes_.heads) {}

  // Input of word numbers, their rows of a table, and a row for each position.
  void Words() {
    Take(builder_.AddInput("x", {DType::kInt32, {sizes_.batch, sizes_.steps}}));
    table_ = Weight("embedding.weight", {sizes_.words, sizes_.width}, Uniform(sizes_.width));
    Add("embedding", Embedding{}, {here_, table_});
    Positions();
  }

  // Input of images, cut into squares that a convolution makes rows of.
  void Patches(int64_t pixels, int64_t patch) {
    Take(builder_.AddInput("x", {DType::kFloat32, {sizes_.batch, 3, pixels, pixels}}));
    const Initializer start = Uniform(3 * patch * patch);
    const TensorId weight = Weight("patch.weight", {sizes_.width, 3, patch, patch}, start);
    const TensorId bias = Weight("patch.bias", {sizes_.width}, start);
    Add("patch", Conv2d{.stride = {patch, patch}}, {here_, weight, bias});
    Add("patch.rows", Reshape{.shape = {-1, sizes_.width, sizes_.steps}}, {here_});
    Add("patch.steps", Transpose{{0, 2, 1}}, {here_});
    Positions();
  }

  void Layers() {
    if (sizes_.causal) mask_ = Mask();
    for (int layer = 0; layer < sizes_.layers; ++layer) {
      const std::string name = absl::StrCat("layer", layer);
      Block(name + ".ln1", [&] { Attention(name + ".attention"); });
      Block(name + ".ln2", [&] { FeedForward(name + ".mlp"); });
    }
    if (sizes_.norm_first) Norm("ln");
  }

  void Norm(const std::string& name) {
    const TensorId gamma = Weight(name + ".weight", {sizes_.width}, {.value = 1});
    const TensorId beta = Weight(name + ".bias", {sizes_.width}, {});
    Add(name, LayerNorm{}, {here_, gamma, beta});
  }
  void Linear(const std::string& name, int64_t in, int64_t out) {
    const TensorId weight = Weight(name + ".weight", {out, in}, Uniform(in));
    const TensorId bias = Weight(name + ".bias", {out}, Uniform(in));
    Add(name, MatMul{}, {here_, weight, bias});
  }
  void Gelu(const std::string& name) { Add(name, Unary{"gelu"}, {here_}); }

  // Scores of each word of the table, by its row.
  void WordScores(bool with_bias) {
    std::vector<TensorId> inputs = {here_, table_};
    if (with_bias) inputs.push_back(Weight("scores.bias", {sizes_.words}, {}));
    Add("scores", MatMul{}, std::move(inputs));
  }
  void MeanOverSteps() {
    if (!status_.ok()) return;
    auto mean = MakeReduceMean(builder_.tensor(here_).type.shape, {1}, /*keepdims=*/false);
    status_.Update(mean.status());
    if (mean.ok()) Add("pool", *mean, {here_});
  }

  absl::StatusOr<Graph> Finish() && {
    if (!status_.ok()) return status_;
    builder_.AddRole(TensorRole::kLogits, here_);
    return std::move(builder_).Build();
  }

 private:
  static Initializer Uniform(int64_t fan_in) {
    return {.kind = Initializer::Kind::kUniformFanIn, .fan_in = fan_in};
  }

  void Take(absl::StatusOr<TensorId> result) {
    status_.Update(result.status());
    if (result.ok()) here_ = *result;
  }
  void Add(const std::string& name, OpAttrs attrs, std::vector<TensorId> inputs) {
    if (!status_.ok()) return;
    Take(builder_.Add({.name = name, .attrs = std::move(attrs), .inputs = std::move(inputs)}));
  }
  TensorId Weight(const std::string& name, const Shape& shape, Initializer start) {
    auto id = builder_.AddWeight(name, {DType::kFloat32, shape}, start, nullptr, true);
    status_.Update(id.status());
    return id.ok() ? *id : here_;
  }

  void Positions() {
    const TensorId positions =
        Weight("position.weight", {sizes_.steps, sizes_.width}, Uniform(sizes_.width));
    Add("position", Binary{"add"}, {here_, positions});
  }

  // What is added to the scores of step j for step i: minus a large number where j > i.
  TensorId Mask() {
    const auto steps = static_cast<size_t>(sizes_.steps);
    auto values = std::make_shared<std::vector<float>>(steps * steps, 0.0f);
    for (size_t i = 0; i < steps; ++i) {
      for (size_t j = i + 1; j < steps; ++j) (*values)[i * steps + j] = -1e4f;
    }
    auto id = builder_.AddWeight("mask", {DType::kFloat32, {sizes_.steps, sizes_.steps}}, {},
                                 std::move(values), /*trainable=*/false);
    status_.Update(id.status());
    return id.ok() ? *id : here_;
  }

  // x + body(norm(x)), or norm(x + body(x)).
  template <class Body>
  void Block(const std::string& norm, Body&& body) {
    const TensorId x = here_;
    if (sizes_.norm_first) Norm(norm);
    body();
    Add(norm + ".add", Binary{"add"}, {x, here_});
    if (!sizes_.norm_first) Norm(norm);
  }

  // A projection of `x`, head by head: [batch, heads, steps, width / heads].
  TensorId Head(const std::string& name, TensorId x) {
    here_ = x;
    Linear(name, sizes_.width, sizes_.width);
    Add(name + ".split", Reshape{.shape = {-1, sizes_.steps, sizes_.heads, head_width_}}, {here_});
    Add(name + ".heads", Transpose{{0, 2, 1, 3}}, {here_});
    return here_;
  }

  void Attention(const std::string& name) {
    const TensorId x = here_;
    const TensorId q = Head(name + ".q", x), k = Head(name + ".k", x), v = Head(name + ".v", x);
    Add(name + ".scores", BatchMatMul{.transposed = true}, {q, k});
    Add(name + ".scale", Scale{.alpha = 1 / std::sqrt(static_cast<double>(head_width_))}, {here_});
    if (sizes_.causal) Add(name + ".masked", Binary{"add"}, {here_, mask_});
    if (status_.ok()) Take(AddSoftmax(builder_, name + ".softmax", here_));
    Add(name + ".values", BatchMatMul{}, {here_, v});
    Add(name + ".steps", Transpose{{0, 2, 1, 3}}, {here_});
    Add(name + ".join", Reshape{.shape = {-1, sizes_.steps, sizes_.width}}, {here_});
    Linear(name + ".out", sizes_.width, sizes_.width);
  }

  void FeedForward(const std::string& name) {
    Linear(name + ".fc1", sizes_.width, 4 * sizes_.width);
    Gelu(name + ".gelu");
    Linear(name + ".fc2", 4 * sizes_.width, sizes_.width);
  }

  const TransformerSizes sizes_;
  GraphBuilder builder_;
  const int64_t head_width_;
  absl::Status status_;
  TensorId here_ = kNoTensor, table_ = kNoTensor, mask_ = kNoTensor;
};

absl::StatusOr<Graph> GptOf(TransformerSizes sizes) {
  sizes.causal = true;
  Transformer net(std::move(sizes));
  net.Words();
  net.Layers();
  net.WordScores(/*with_bias=*/false);
  return std::move(net).Finish();
}

// GPT-3's sizes (Brown et al. 2020, table 2.1), with two of its entries made whole numbers: 16
// heads of 128 channels for 1.3 G parameters, 5,120 channels for 13 G. All have sequences of 2,048
// words, of the 50,257 of GPT-2.
struct GptSize {
  absl::string_view name;
  int64_t layers = 0, width = 0, heads = 0;
};
constexpr GptSize kGptSizes[] = {
    {"125m", 12, 768, 12},  {"350m", 24, 1024, 16},   {"760m", 24, 1536, 16},
    {"1.3b", 24, 2048, 16}, {"2.7b", 32, 2560, 32},   {"6.7b", 32, 4096, 32},
    {"13b", 40, 5120, 40},  {"175b", 96, 12'288, 96},
};
constexpr int64_t kGptSequence = 2048, kGptVocabulary = 50'257;

absl::StatusOr<ModelSizes> WithOwnSizes(ModelSizes sizes) {
  const GptSize* row = std::find_if(
      std::begin(kGptSizes), std::end(kGptSizes),
      [&](const auto& one) { return one.name == (sizes.size.empty() ? "125m" : sizes.size); });
  if (row == std::end(kGptSizes)) {
    return UsageError(absl::StrCat("there is no size '", sizes.size, "' of GPT-3; wanted ",
                                   absl::StrJoin(GptSizeNames(), ", ")));
  }
  const auto fill = [](int64_t& size, int64_t own) { size = size == 0 ? own : size; };
  fill(sizes.layers, row->layers);
  fill(sizes.width, row->width);
  fill(sizes.heads, row->heads);
  fill(sizes.sequence, kGptSequence);
  fill(sizes.vocabulary, kGptVocabulary);
  return sizes;
}

// The two numbers of heads next to `heads` that divide the width, the lower one first.
std::pair<int64_t, int64_t> HeadsThatDivide(int64_t width, int64_t heads) {
  int64_t below = std::min(heads, width), above = below;
  while (width % below != 0) --below;
  while (width % above != 0) ++above;
  return {below, above};
}

absl::Status CheckGpt(const ModelSizes& sizes) {
  const struct {
    const char* what;
    int64_t found, most;
  } ranges[] = {{"layers", sizes.layers, kMostLayers},
                {"width", sizes.width, kMostWidth},
                {"heads", sizes.heads, kMostWidth},
                {"sequence", sizes.sequence, kMostSequence},
                {"vocabulary", sizes.vocabulary, kMostVocabulary}};
  for (const auto& range : ranges) {
    if (range.found >= 1 && range.found <= range.most) continue;
    return UsageError(absl::StrCat(range.what, " of ", range.found, "; wanted 1 to ", range.most));
  }
  if (sizes.vocabulary < 2) {
    return UsageError("a vocabulary of one word leaves nothing to predict; try 2");
  }
  if (sizes.width % sizes.heads == 0) return absl::OkStatus();
  const auto [below, above] = HeadsThatDivide(sizes.width, sizes.heads);
  return UsageError(absl::StrCat(sizes.heads, " heads do not divide a width of ", sizes.width,
                                 ": try ", below, below == above ? "" : absl::StrCat(" or ", above),
                                 " heads, or a width of ",
                                 (sizes.width / sizes.heads + 1) * sizes.heads));
}

absl::StatusOr<Graph> NamedGpt(const char* name, int64_t batch, const ModelSizes& wanted) {
  ASSIGN_OR_RETURN(const ModelSizes sizes, WithOwnSizes(wanted));
  RETURN_IF_ERROR(CheckGpt(sizes));
  return GptOf({.name = name,
                .batch = batch,
                .steps = sizes.sequence,
                .width = sizes.width,
                .heads = sizes.heads,
                .layers = static_cast<int>(sizes.layers),
                .words = sizes.vocabulary});
}

absl::StatusOr<Graph> MakeBert(TransformerSizes sizes) {
  sizes.norm_first = false;
  const int64_t width = sizes.width;
  Transformer net(std::move(sizes));
  net.Words();
  net.Norm("embedding.ln");
  net.Layers();
  net.Linear("head", width, width);
  net.Gelu("head.gelu");
  net.Norm("head.ln");
  net.WordScores(/*with_bias=*/true);
  return std::move(net).Finish();
}

// Without a class token: the mean over the patches is classified. A step is a patch.
struct ImageSizes {
  int64_t pixels = 1, patch = 1, classes = 1;
};
absl::StatusOr<Graph> MakeVit(TransformerSizes sizes, const ImageSizes& image) {
  sizes.steps = (image.pixels / image.patch) * (image.pixels / image.patch);
  const int64_t width = sizes.width;
  Transformer net(std::move(sizes));
  net.Patches(image.pixels, image.patch);
  net.Layers();
  net.MeanOverSteps();
  net.Linear("head", width, image.classes);
  return std::move(net).Finish();
}

}  // namespace

absl::StatusOr<Graph> MakeGpt(int64_t batch) { return ResizeGpt(batch, {}); }
absl::StatusOr<Graph> ResizeGpt(int64_t batch, const ModelSizes& sizes) {
  return NamedGpt("gpt", batch, sizes);
}
std::vector<std::string> GptSizeNames() {
  std::vector<std::string> names;
  for (const GptSize& row : kGptSizes) names.emplace_back(row.name);
  return names;
}

absl::StatusOr<Graph> MakeGpt125M(int64_t batch) {
  return NamedGpt("gpt_125m", batch, {.size = "125m"});
}
absl::StatusOr<Graph> MakeGpt350M(int64_t batch) {
  return NamedGpt("gpt_350m", batch, {.size = "350m"});
}
absl::StatusOr<Graph> MakeGpt760M(int64_t batch) {
  return NamedGpt("gpt_760m", batch, {.size = "760m"});
}
absl::StatusOr<Graph> MakeGpt1300M(int64_t batch) {
  return NamedGpt("gpt_1300m", batch, {.size = "1.3b"});
}
absl::StatusOr<Graph> MakeGpt2700M(int64_t batch) {
  return NamedGpt("gpt_2700m", batch, {.size = "2.7b"});
}
absl::StatusOr<Graph> MakeGpt6700M(int64_t batch) {
  return NamedGpt("gpt_6700m", batch, {.size = "6.7b"});
}
absl::StatusOr<Graph> MakeGpt13B(int64_t batch) {
  return NamedGpt("gpt_13b", batch, {.size = "13b"});
}
absl::StatusOr<Graph> MakeGpt175B(int64_t batch) {
  return NamedGpt("gpt_175b", batch, {.size = "175b"});
}

absl::StatusOr<Graph> MakeGptTiny(int64_t batch) {
  return GptOf({.name = "gpt_tiny",
                .batch = batch,
                .steps = 4,
                .width = 8,
                .heads = 2,
                .layers = 1,
                .words = 12});
}

absl::StatusOr<Graph> MakeBertLarge(int64_t batch) {
  return MakeBert({.name = "bert_large",
                   .batch = batch,
                   .steps = 512,
                   .width = 1024,
                   .heads = 16,
                   .layers = 24,
                   .words = 30'522});
}

absl::StatusOr<Graph> MakeBertTiny(int64_t batch) {
  return MakeBert({.name = "bert_tiny",
                   .batch = batch,
                   .steps = 4,
                   .width = 8,
                   .heads = 2,
                   .layers = 2,
                   .words = 12});
}

absl::StatusOr<Graph> MakeVitB16(int64_t batch) {
  return MakeVit({.name = "vit_b_16", .batch = batch, .width = 768, .heads = 12, .layers = 12},
                 {.pixels = 224, .patch = 16, .classes = 1000});
}

absl::StatusOr<Graph> MakeVitTiny(int64_t batch) {
  return MakeVit({.name = "vit_tiny", .batch = batch, .width = 8, .heads = 2, .layers = 2},
                 {.pixels = 12, .patch = 4, .classes = 5});
}

}  // namespace partita
