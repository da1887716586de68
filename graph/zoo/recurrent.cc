// FlexFlow's three recurrent models (Jia, Zaharia, Aiken, MLSys 2019, table 3): layers of LSTM
// cells, unrolled, with tied weights; the translator's decoder attends to the encoder. The number of
// layers is the paper's; the sizes of the tables and of the layers are those of FlexFlow's public
// translation example (nmt): 2048 units, 2048 channels for each word, 20 * 1024 words, twice 20
// steps. (That example leaves the attention layer of the paper's model out.) The language model's
// 10,000 words are as many as the Penn Treebank's that the paper trains it on.

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/layers.h"
#include "graph/support/status_macros.h"
#include "graph/zoo/models.h"

namespace partita {
namespace {

constexpr int64_t kSteps = 40;  // of the models as they are, of both languages together

struct SequenceSizes {
  std::string name;
  int64_t batch = 1, steps = 1;
  int64_t words = 20 * 1024, units = 2048;
  int layers = 2;
};

// Sequence model in the making: an input of word numbers [batch, steps], and the rows of a table
// that they choose.
class SequenceNet {
 public:
  explicit SequenceNet(SequenceSizes sizes) : sizes_(std::move(sizes)), builder_(sizes_.name) {}

  absl::Status Start() {
    ASSIGN_OR_RETURN(const TensorId x,
                     builder_.AddInput("x", {DType::kInt32, {sizes_.batch, sizes_.steps}}));
    // Fan-in 1: numbers of about the size of PyTorch's, whose are normally distributed.
    ASSIGN_OR_RETURN(const TensorId table,
                     Weight("embedding.weight", {sizes_.words, sizes_.units}, 1));
    ASSIGN_OR_RETURN(
        embedded_, builder_.Add({.name = "embedding", .attrs = Embedding{}, .inputs = {x, table}}));
    return absl::OkStatus();
  }

  // Embedded words of the steps [first, last): each [batch, 1, units].
  absl::StatusOr<std::vector<TensorId>> Words(int64_t first, int64_t last) {
    std::vector<TensorId> words;
    for (int64_t t = first; t < last; ++t) {
      ASSIGN_OR_RETURN(words.emplace_back(),
                       builder_.Add({.name = absl::StrCat("word", t),
                                     .attrs = Crop{{0, t, 0}, {sizes_.batch, t + 1, sizes_.units}},
                                     .inputs = {embedded_}}));
    }
    return words;
  }

  // Layers of LSTM over a sequence, from `states` on where there are some: the sequence of the last
  // layer's hidden states. Afterwards `states` are those of the end, layer by layer.
  absl::StatusOr<std::vector<TensorId>> Layers(const std::string& name,
                                               std::vector<TensorId> sequence,
                                               std::vector<LstmState>& states) {
    const int64_t units = sizes_.units;
    states.resize(static_cast<size_t>(sizes_.layers), {kNoTensor, kNoTensor});
    for (int layer = 0; layer < sizes_.layers; ++layer) {
      LstmState& state = states[static_cast<size_t>(layer)];
      const auto weight = [&](const char* part, const Shape& shape) {
        return Weight(absl::StrCat(name, ".", part, "_l", layer), shape, units);
      };
      LstmCell cell;
      ASSIGN_OR_RETURN(cell.input_weight, weight("weight_ih", {4 * units, units}));
      ASSIGN_OR_RETURN(cell.hidden_weight, weight("weight_hh", {4 * units, units}));
      ASSIGN_OR_RETURN(cell.bias, weight("bias", {4 * units}));
      for (size_t t = 0; t < sequence.size(); ++t) {
        cell.name = absl::StrCat(name, ".", layer, ".", t);
        cell.x = sequence[t];
        cell.h = state.h;
        cell.c = state.c;
        ASSIGN_OR_RETURN(state, AddLstmCell(builder_, cell));
        sequence[t] = state.h;
      }
    }
    return sequence;
  }

  // A sequence as one tensor [batch, steps, units].
  absl::StatusOr<TensorId> Joined(const std::string& name, std::vector<TensorId> sequence) {
    return builder_.Add({.name = name, .attrs = Concat{.axis = 1}, .inputs = std::move(sequence)});
  }

  // Global attention (Luong, Pham, Manning 2015, "general" score, equations 5, 7, 8) of each state
  // h of a sequence to the states s of another one:
  //
  //   score = h W s,  context = sum of s weighted by softmax(score) over s,
  //   h~ = tanh(C [context; h])
  //
  // h~ is not fed into the next step (the paper's "input feeding"; Wu et al. 2016 feed the context):
  // with the words of training known, each product is then one for all steps.
  absl::StatusOr<TensorId> Attend(const std::string& name, TensorId states, TensorId source) {
    const int64_t units = sizes_.units;
    const auto add = [&](const char* part, OpAttrs attrs, std::vector<TensorId> inputs) {
      return builder_.Add({.name = absl::StrCat(name, part),
                           .attrs = std::move(attrs),
                           .inputs = std::move(inputs)});
    };
    ASSIGN_OR_RETURN(const TensorId score, Weight(name + ".score.weight", {units, units}, units));
    ASSIGN_OR_RETURN(const TensorId combine,
                     Weight(name + ".combine.weight", {units, 2 * units}, 2 * units));
    ASSIGN_OR_RETURN(const TensorId queries, add(".score", MatMul{}, {states, score}));
    ASSIGN_OR_RETURN(const TensorId scores,
                     add(".scores", BatchMatMul{.transposed = true}, {queries, source}));
    ASSIGN_OR_RETURN(const TensorId weights, AddSoftmax(builder_, name + ".softmax", scores));
    ASSIGN_OR_RETURN(const TensorId context, add(".context", BatchMatMul{}, {weights, source}));
    ASSIGN_OR_RETURN(const TensorId both, add(".concat", Concat{.axis = 2}, {context, states}));
    ASSIGN_OR_RETURN(const TensorId combined, add(".combine", MatMul{}, {both, combine}));
    return add(".tanh", Unary{"tanh"}, {combined});
  }

  // Scores of `classes` for each row of x, the model's result.
  absl::StatusOr<Graph> Finish(TensorId x, int64_t classes) && {
    ASSIGN_OR_RETURN(const TensorId weight,
                     Weight("fc.weight", {classes, sizes_.units}, sizes_.units));
    ASSIGN_OR_RETURN(const TensorId bias, Weight("fc.bias", {classes}, sizes_.units));
    ASSIGN_OR_RETURN(const TensorId y,
                     builder_.Add({.name = "fc", .attrs = MatMul{}, .inputs = {x, weight, bias}}));
    builder_.AddRole(TensorRole::kLogits, y);
    return std::move(builder_).Build();
  }

  absl::StatusOr<TensorId> OfRank2(TensorId x) {
    return builder_.Add(
        {.name = "last", .attrs = Reshape{.shape = {-1, sizes_.units}}, .inputs = {x}});
  }

 private:
  absl::StatusOr<TensorId> Weight(const std::string& name, const Shape& shape, int64_t fan_in) {
    const Initializer start{.kind = Initializer::Kind::kUniformFanIn, .fan_in = fan_in};
    return builder_.AddWeight(name, {DType::kFloat32, shape}, start, nullptr, true);
  }

  const SequenceSizes sizes_;
  GraphBuilder builder_;
  TensorId embedded_;
};

// Scores of the next word after each word.
absl::StatusOr<Graph> MakeLanguageModel(const SequenceSizes& sizes) {
  SequenceNet net(sizes);
  RETURN_IF_ERROR(net.Start());
  ASSIGN_OR_RETURN(std::vector<TensorId> words, net.Words(0, sizes.steps));
  std::vector<LstmState> states;
  ASSIGN_OR_RETURN(std::vector<TensorId> hidden, net.Layers("lstm", std::move(words), states));
  ASSIGN_OR_RETURN(const TensorId joined, net.Joined("states", std::move(hidden)));
  return std::move(net).Finish(joined, sizes.words);
}

// A class of the whole sequence, by the last layer's last state.
absl::StatusOr<Graph> MakeClassifier(const SequenceSizes& sizes) {
  SequenceNet net(sizes);
  RETURN_IF_ERROR(net.Start());
  ASSIGN_OR_RETURN(std::vector<TensorId> words, net.Words(0, sizes.steps));
  std::vector<LstmState> states;
  RETURN_IF_ERROR(net.Layers("lstm", std::move(words), states).status());
  ASSIGN_OR_RETURN(const TensorId last, net.OfRank2(states.back().h));
  return std::move(net).Finish(last, 2);
}

// Half of the steps are the source's words, the others the target's, whose layers start with the
// states that the source's end with and attend to the source's states; scores of a word for each of
// the target.
absl::StatusOr<Graph> MakeTranslator(const SequenceSizes& sizes) {
  SequenceNet net(sizes);
  RETURN_IF_ERROR(net.Start());
  std::vector<LstmState> states;
  ASSIGN_OR_RETURN(std::vector<TensorId> source, net.Words(0, sizes.steps / 2));
  ASSIGN_OR_RETURN(source, net.Layers("encoder", std::move(source), states));
  ASSIGN_OR_RETURN(std::vector<TensorId> target, net.Words(sizes.steps / 2, sizes.steps));
  ASSIGN_OR_RETURN(std::vector<TensorId> hidden, net.Layers("decoder", std::move(target), states));
  ASSIGN_OR_RETURN(const TensorId memory, net.Joined("encoder.states", std::move(source)));
  ASSIGN_OR_RETURN(const TensorId joined, net.Joined("decoder.states", std::move(hidden)));
  ASSIGN_OR_RETURN(const TensorId attended, net.Attend("attention", joined, memory));
  return std::move(net).Finish(attended, sizes.words);
}

}  // namespace

absl::StatusOr<Graph> UnrollRnnLm(int64_t batch, int64_t steps) {
  return MakeLanguageModel({.name = "rnnlm", .batch = batch, .steps = steps, .words = 10'000});
}

absl::StatusOr<Graph> UnrollRnnLmTiny(int64_t batch, int64_t steps) {
  return MakeLanguageModel(
      {.name = "rnnlm_tiny", .batch = batch, .steps = steps, .words = 20, .units = 8});
}

absl::StatusOr<Graph> UnrollRnnTc(int64_t batch, int64_t steps) {
  return MakeClassifier({.name = "rnntc", .batch = batch, .steps = steps, .layers = 4});
}

absl::StatusOr<Graph> UnrollRnnTcTiny(int64_t batch, int64_t steps) {
  return MakeClassifier(
      {.name = "rnntc_tiny", .batch = batch, .steps = steps, .words = 20, .units = 8, .layers = 4});
}

absl::StatusOr<Graph> UnrollNmt(int64_t batch, int64_t steps) {
  return MakeTranslator({.name = "nmt", .batch = batch, .steps = 2 * steps});
}

absl::StatusOr<Graph> UnrollNmtTiny(int64_t batch, int64_t steps) {
  return MakeTranslator(
      {.name = "nmt_tiny", .batch = batch, .steps = 2 * steps, .words = 20, .units = 8});
}

absl::StatusOr<Graph> MakeRnnLm(int64_t batch) { return UnrollRnnLm(batch, kSteps); }
absl::StatusOr<Graph> MakeRnnLmTiny(int64_t batch) { return UnrollRnnLmTiny(batch, 3); }
absl::StatusOr<Graph> MakeRnnTc(int64_t batch) { return UnrollRnnTc(batch, kSteps); }
absl::StatusOr<Graph> MakeRnnTcTiny(int64_t batch) { return UnrollRnnTcTiny(batch, 3); }
absl::StatusOr<Graph> MakeNmt(int64_t batch) { return UnrollNmt(batch, kSteps / 2); }
absl::StatusOr<Graph> MakeNmtTiny(int64_t batch) { return UnrollNmtTiny(batch, 3); }

absl::StatusOr<Graph> MakeNmtShort(int64_t batch) {
  return MakeTranslator({.name = "nmt_short", .batch = batch, .steps = 10});
}

}  // namespace partita
