#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/ops/batch_matmul.h"
#include "graph/ops/batch_norm.h"
#include "graph/ops/conv2d.h"
#include "graph/ops/dropout.h"
#include "graph/ops/elementwise.h"
#include "graph/ops/embedding.h"
#include "graph/ops/layer_norm.h"
#include "graph/ops/loss.h"
#include "graph/ops/lrn.h"
#include "graph/ops/lstm_gates.h"
#include "graph/ops/matmul.h"
#include "graph/ops/operator_concept.h"
#include "graph/ops/pool2d.h"
#include "graph/ops/reduce_mean.h"
#include "graph/ops/reshape.h"
#include "graph/ops/shape_ops.h"
#include "graph/ops/softmax.h"
#include "graph/ops/unary.h"
#include "graph/ops/update.h"

namespace partita {

template <OperatorAttrs... Rows>
using OneOf = std::variant<Rows...>;

// THE table of operators. To add one: README.md of this folder lists every file that is touched.
using OpAttrs =
    OneOf<Conv2d, Pool2d, MatMul, BatchMatMul, Embedding, ReduceMean, Relu, Unary, LstmGates, Scale,
          Binary,
          // Movement of elements.
          Reshape, Transpose, Concat, Crop, Pad,
          // Normalisation and dropout.
          Lrn, Dropout, BatchMoments, BatchNormalize, BatchNormGradMoments, BatchNormGradApply,
          AffineNormalize, LayerNorm,
          // Softmax and losses.
          RowMax, RowSum, SumExp, SoftmaxApply, SoftmaxDot, SoftmaxGrad, LogSoftmaxApply,
          LogSoftmaxGrad, CrossEntropy, CrossEntropyGrad, CountCorrect, SumOfSquares,
          // Updates of weights and their states.
          Sgd, Adam, RunningMean, RunningVariance>;

// The functions of operator_concept.h on any row.
absl::string_view NameOf(const OpAttrs& attrs);
absl::StatusOr<std::vector<TensorType>> InferResults(const OpAttrs& attrs,
                                                     std::span<const TensorType> operands);
ShardingRule MakeRule(const OpAttrs& attrs, std::span<const TensorType> operands,
                      std::span<const TensorType> results);
GradientReads ReadsForGradient(const OpAttrs& attrs, int operand);
OpAttrs Localize(const OpAttrs& attrs, const PartView& view);
Work WorkOf(const OpAttrs& attrs, Pass pass, std::span<const TensorType> inputs,
            std::span<const TensorType> outputs);
std::vector<InPlacePair> InPlace(const OpAttrs& attrs, Pass pass);

// Facts of rows, which operator_concept.h explains.
bool IsEpilogue(const OpAttrs& attrs);
bool TakesEpilogue(const OpAttrs& attrs);
bool CanFuseUpdate(const OpAttrs& attrs, Pass pass);
bool TakesGradient(const OpAttrs& attrs);
constexpr size_t kGradientInput = 1;
// Whether the forward kernel of `reader` can do that of `producer` first.
bool TakesIn(const OpAttrs& reader, const OpAttrs& producer);
PeakShare PeakShareOf(const OpAttrs& attrs);
bool CastsResult(const OpAttrs& attrs);
bool MakesZeros(const OpAttrs& attrs);
bool KeepsZeros(const OpAttrs& attrs);
bool KeepsNotFinite(const OpAttrs& attrs);
bool RoutesByValue(const OpAttrs& attrs);
bool IsExactOnIntegers(const OpAttrs& attrs);
bool SuitsCores(const OpAttrs& attrs);
bool IsInCrossEntropy(const OpAttrs& attrs);
bool IsIdentityInEvaluation(const OpAttrs& attrs);
std::optional<Statistic> StatisticOf(const OpAttrs& attrs);
std::optional<int64_t> IndexLimit(const OpAttrs& attrs, int operand,
                                  std::span<const Shape> operands);
double WorkPerElement(const OpAttrs& attrs, std::span<const Shape> operands);
absl::Status Rebatch(OpAttrs& attrs, const Shape& x, const BatchChange& batch);
std::optional<FixedForm<OpAttrs>> FixedFormOf(const OpAttrs& attrs);
// Empty: every differentiable operand has the derivative of its operator.
std::vector<GradientPiece<OpAttrs>> GradientPiecesOf(const OpAttrs& attrs);

// "conv2d stride=[4,4] dilation=[1,1] pads=[2,2,2,2] groups=1": canonical, so it serves as a key.
std::string ToString(const OpAttrs& attrs);

// Tensors of rank 4 of a kernel that may be in the backend's native format.
bool NeedsOneFormat(const OpAttrs& attrs);
bool InputMayBeNative(const OpAttrs& attrs, Pass pass, int input);
bool OutputMayBeNative(const OpAttrs& attrs, Pass pass);

// Default attributes of the row with that name; NotFound lists the valid names.
absl::StatusOr<OpAttrs> OpAttrsNamed(absl::string_view name);

// Name and description of every row, in table order.
std::vector<std::pair<absl::string_view, absl::string_view>> OperatorTable();

}  // namespace partita
