#include "graph/ops/ops.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "graph/support/known_names.h"

namespace partita {
namespace {

template <class Visit, size_t... I>
void ForEachRow(Visit&& visit, std::index_sequence<I...>) {
  (visit(std::variant_alternative_t<I, OpAttrs>{}), ...);
}

template <class Visit>
void ForEachRow(Visit&& visit) {
  ForEachRow(visit, std::make_index_sequence<std::variant_size_v<OpAttrs>>{});
}

}  // namespace

absl::string_view NameOf(const OpAttrs& attrs) {
  return std::visit([](const auto& a) { return absl::string_view(a.kName); }, attrs);
}

absl::StatusOr<std::vector<TensorType>> InferResults(const OpAttrs& attrs,
                                                     std::span<const TensorType> operands) {
  return std::visit([&](const auto& a) { return InferResults(a, operands); }, attrs);
}

ShardingRule MakeRule(const OpAttrs& attrs, std::span<const TensorType> operands,
                      std::span<const TensorType> results) {
  return std::visit([&](const auto& a) { return MakeRule(a, operands, results); }, attrs);
}

GradientReads ReadsForGradient(const OpAttrs& attrs, int operand) {
  return std::visit([&](const auto& a) { return ReadsForGradient(a, operand); }, attrs);
}

OpAttrs Localize(const OpAttrs& attrs, const PartView& view) {
  return std::visit([&](const auto& a) -> OpAttrs { return Localize(a, view); }, attrs);
}

Work WorkOf(const OpAttrs& attrs, Pass pass, std::span<const TensorType> inputs,
            std::span<const TensorType> outputs) {
  return std::visit([&](const auto& a) { return WorkOf(a, pass, inputs, outputs); }, attrs);
}

std::vector<InPlacePair> InPlace(const OpAttrs& attrs, Pass pass) {
  return std::visit([&](const auto& a) { return InPlace(a, pass); }, attrs);
}

bool IsEpilogue(const OpAttrs& attrs) {
  return std::visit([](const auto& a) { return requires { a.kIsEpilogue; }; }, attrs);
}

bool TakesEpilogue(const OpAttrs& attrs) {
  return std::visit([](const auto& a) { return requires { a.kTakesEpilogue; }; }, attrs);
}

bool TakesGradient(const OpAttrs& attrs) {
  return std::visit([](const auto& a) { return requires { a.kTakesGradient; }; }, attrs);
}

bool CastsResult(const OpAttrs& attrs) {
  return std::visit([](const auto& a) { return requires { a.kCastsResult; }; }, attrs);
}

bool MakesZeros(const OpAttrs& attrs) {
  return std::visit([](const auto& a) { return requires { a.kMakesZeros; }; }, attrs);
}

bool KeepsZeros(const OpAttrs& attrs) {
  return std::visit([](const auto& a) { return requires { a.kKeepsZeros; }; }, attrs);
}

bool KeepsNotFinite(const OpAttrs& attrs) {
  return std::visit([](const auto& a) { return requires { a.kKeepsNotFinite; }; }, attrs);
}

bool RoutesByValue(const OpAttrs& attrs) {
  return std::visit([](const auto& a) { return requires { a.kRoutesByValue; }; }, attrs);
}

bool SuitsCores(const OpAttrs& attrs) {
  return std::visit([](const auto& a) { return requires { a.kSuitsCores; }; }, attrs);
}

bool IsInCrossEntropy(const OpAttrs& attrs) {
  return std::visit([](const auto& a) { return requires { a.kInCrossEntropy; }; }, attrs);
}

bool IsIdentityInEvaluation(const OpAttrs& attrs) {
  return std::visit([](const auto& a) { return requires { a.kIdentityInEvaluation; }; }, attrs);
}

bool CanFuseUpdate(const OpAttrs& attrs, Pass pass) {
  return std::visit(
      [pass](const auto& a) {
        if constexpr (requires { a.kFusesUpdateOf; }) {
          return pass.gradient == a.kFusesUpdateOf;
        } else {
          return false;
        }
      },
      attrs);
}

bool TakesIn(const OpAttrs& reader, const OpAttrs& producer) {
  return std::visit(
      [&](const auto& a) {
        if constexpr (requires { a.kTakesIn; }) {
          return std::find(a.kTakesIn.begin(), a.kTakesIn.end(), NameOf(producer)) !=
                 a.kTakesIn.end();
        } else {
          return false;
        }
      },
      reader);
}

PeakShare PeakShareOf(const OpAttrs& attrs) {
  return std::visit(
      [](const auto& a) {
        if constexpr (requires { a.kPeakShare; }) {
          return a.kPeakShare;
        } else {
          return PeakShare();
        }
      },
      attrs);
}

bool IsExactOnIntegers(const OpAttrs& attrs) {
  return std::visit([](const auto& a) { return IsExactOnIntegers(a); }, attrs);
}

std::optional<Statistic> StatisticOf(const OpAttrs& attrs) {
  return std::visit(
      [](const auto& a) -> std::optional<Statistic> {
        if constexpr (requires { a.kStatistic; }) {
          return a.kStatistic;
        } else {
          return std::nullopt;
        }
      },
      attrs);
}

std::optional<int64_t> IndexLimit(const OpAttrs& attrs, int operand,
                                  std::span<const Shape> operands) {
  return std::visit([&](const auto& a) { return IndexLimit(a, operand, operands); }, attrs);
}

double WorkPerElement(const OpAttrs& attrs, std::span<const Shape> operands) {
  return std::visit([&](const auto& a) -> double { return WorkPerElement(a, operands); }, attrs);
}

absl::Status Rebatch(OpAttrs& attrs, const Shape& x, const BatchChange& batch) {
  return std::visit([&](auto& a) { return Rebatch(a, x, batch); }, attrs);
}

std::optional<FixedForm<OpAttrs>> FixedFormOf(const OpAttrs& attrs) {
  return std::visit(
      [](const auto& a) -> std::optional<FixedForm<OpAttrs>> {
        const auto form = FixedFormOf(a);
        if constexpr (std::same_as<decltype(form), const std::nullopt_t>) {
          return std::nullopt;
        } else {
          return FixedForm<OpAttrs>{form.attrs, form.operands};
        }
      },
      attrs);
}

std::vector<GradientPiece<OpAttrs>> GradientPiecesOf(const OpAttrs& attrs) {
  return std::visit(
      [](const auto& a) -> std::vector<GradientPiece<OpAttrs>> {
        if constexpr (requires { GradientPieces<OpAttrs>(a); }) {
          return GradientPieces<OpAttrs>(a);
        } else {
          return {};
        }
      },
      attrs);
}

namespace {

bool OperandMayBeNative(const OpAttrs& attrs, int operand) {
  return std::visit(
      [operand](const auto& a) {
        if constexpr (requires { a.kNativeOperands; }) {
          return std::find(a.kNativeOperands.begin(), a.kNativeOperands.end(), operand) !=
                 a.kNativeOperands.end();
        } else {
          return requires { a.kOneFormat; };
        }
      },
      attrs);
}

bool ResultsMayBeNative(const OpAttrs& attrs) {
  return std::visit(
      [](const auto& a) { return requires { a.kNativeOperands; } || requires { a.kOneFormat; }; },
      attrs);
}

}  // namespace

bool NeedsOneFormat(const OpAttrs& attrs) {
  return std::visit([](const auto& a) { return requires { a.kOneFormat; }; }, attrs);
}

bool InputMayBeNative(const OpAttrs& attrs, Pass pass, int input) {
  if (pass.is_forward()) return OperandMayBeNative(attrs, input);
  const GradientReads reads = ReadsForGradient(attrs, pass.gradient);
  if (input < static_cast<int>(reads.operands.size())) {
    return OperandMayBeNative(attrs, reads.operands[static_cast<size_t>(input)]);
  }
  return ResultsMayBeNative(attrs);
}

bool OutputMayBeNative(const OpAttrs& attrs, Pass pass) {
  return pass.is_forward() ? ResultsMayBeNative(attrs) : OperandMayBeNative(attrs, pass.gradient);
}

std::string ToString(const OpAttrs& attrs) {
  return std::visit(
      [](const auto& a) {
        const std::string fields = FieldsText(a);
        return fields.empty() ? std::string(a.kName) : absl::StrCat(a.kName, " ", fields);
      },
      attrs);
}

absl::StatusOr<OpAttrs> OpAttrsNamed(absl::string_view name) {
  absl::StatusOr<OpAttrs> found = absl::NotFoundError("");
  ForEachRow([&](auto row) {
    if (name == row.kName) found = OpAttrs(row);
  });
  if (found.ok()) return found;
  std::vector<std::string> names;
  for (const auto& [row, description] : OperatorTable()) names.emplace_back(row);
  return UnknownNameError("operator", name, names);
}

std::vector<std::pair<absl::string_view, absl::string_view>> OperatorTable() {
  std::vector<std::pair<absl::string_view, absl::string_view>> rows;
  ForEachRow([&](auto row) { rows.emplace_back(row.kName, row.kDescription); });
  return rows;
}

}  // namespace partita
