#include "tests/conformance/operator_examples.h"

namespace partita {
namespace {

TensorType Doubles(const Shape& shape) { return {DType::kFloat64, shape}; }

}  // namespace

std::vector<OperatorExample> NormExamples() {
  const Shape x = {3, 4, 2, 3};
  const TensorType c = Floats({4}), sums = Doubles({4});
  const BatchNormFields fields{.count = 18, .epsilon = 1e-3};
  const RunningFields running{.count = 18, .momentum = 0.1};
  auto lrn = [](std::string name, int64_t size, const Shape& shape) {
    return OperatorExample{
        std::move(name),
        Lrn{.size = size, .alpha = 0.3, .beta = 0.75, .k = 1.5, .pads = LrnPads(size)},
        {Floats(shape)}};
  };
  OperatorExample affine{"AffineNormalize", AffineNormalize{}, {Floats(x), c, c, c, c}, {0, 3, 4}};
  affine.fills = {{}, {}, {OperandFill::Kind::kPositive}, {}, {}};
  OperatorExample affine_rows{
      "AffineNormalizeRank2", AffineNormalize{}, {Floats({3, 4}), c, c, c, c}, {0, 3, 4}};
  affine_rows.fills = affine.fills;
  return {
      lrn("Lrn5", 5, {2, 7, 2, 3}),
      lrn("LrnEvenSize", 4, {2, 5, 2}),
      lrn("LrnOneChannelWindow", 1, {2, 3, 2, 1}),
      lrn("LrnWiderThanTheTensor", 9, {2, 3, 1, 2}),
      {"LayerNorm", LayerNorm{}, {Floats({3, 5}), Floats({5}), Floats({5})}, {1, 2}},
      {"LayerNormRank3",
       LayerNorm{.epsilon = 0.1},
       {Floats({2, 2, 4}), Floats({4}), Floats({4})},
       {1, 2}},
      {"Dropout", Dropout{.ratio = 0.3}, {Floats({3, 5, 2})}, {0}},
      {"DropoutNothing", Dropout{.ratio = 0}, {Floats({3, 4})}, {0}},
      {"DropoutScalar", Dropout{}, {Floats({})}, {0}},
      {"BatchMoments", BatchMoments{}, {Floats(x)}},
      {"BatchMomentsRank2", BatchMoments{}, {Floats({5, 3})}},
      {"BatchNormalize", BatchNormalize{fields}, {Floats(x), sums, sums, c, c}},
      {"BatchNormGradMoments", BatchNormGradMoments{fields}, {Floats(x), sums, sums, Floats(x)}},
      {"BatchNormGradApply",
       BatchNormGradApply{fields},
       {Floats(x), sums, sums, c, Floats(x), c, c}},
      affine,
      affine_rows,
      {"RunningMean", RunningMean{running}, {c, sums}},
      {"RunningVariance", RunningVariance{running}, {c, sums, sums}},
  };
}

std::vector<OperatorExample> SoftmaxExamples() {
  const TensorType x = Floats({3, 5}), rows = Floats({3}), labels{DType::kInt32, {3}};
  const TensorType deep = Floats({2, 3, 4}), deep_rows = Floats({2, 3});
  const CrossEntropyFields fields{.rows = 3};
  auto labelled = [](OperatorExample example, int64_t classes) {
    example.fills = {{}, {OperandFill::Kind::kLabels, classes}};
    return example;
  };
  return {
      {"RowMax", RowMax{}, {x}},
      {"RowMaxRank3", RowMax{}, {deep}},
      {"RowSum", RowSum{}, {x}},
      {"SumExp", SumExp{}, {x, rows}},
      {"SumExpRank3", SumExp{}, {deep, deep_rows}},
      {"SoftmaxApply", SoftmaxApply{}, {x, rows, rows}},
      {"SoftmaxApplyRank3", SoftmaxApply{}, {deep, deep_rows, deep_rows}},
      {"SoftmaxDot", SoftmaxDot{}, {x, rows, rows, x}},
      {"SoftmaxGrad", SoftmaxGrad{}, {x, rows, rows, x, rows}},
      {"LogSoftmaxApply", LogSoftmaxApply{}, {x, rows, rows}},
      {"LogSoftmaxGrad", LogSoftmaxGrad{}, {x, rows, rows, x, rows}},
      labelled({"CrossEntropy", CrossEntropy{fields}, {x, labels, rows, rows}}, 5),
      labelled({"CrossEntropyRank3",
                CrossEntropy{fields},
                {deep, {DType::kInt32, {2, 3}}, deep_rows, deep_rows}},
               4),
      labelled({"CrossEntropyGrad", CrossEntropyGrad{fields}, {x, labels, rows, rows, Floats({})}},
               5),
      labelled({"CountCorrect", CountCorrect{}, {x, labels, rows}}, 5),
      {"SumOfSquares", SumOfSquares{}, {Floats({3, 4})}},
  };
}

std::vector<OperatorExample> UpdateExamples() {
  const TensorType w = Floats({4, 3, 2});
  return {
      {"Sgd", Sgd{}, {w, w, w}},
      {"SgdNesterov", Sgd{.nesterov = true}, {w, w, w}},
      {"Adam", Adam{}, {w, w, w, w}},
  };
}

}  // namespace partita
