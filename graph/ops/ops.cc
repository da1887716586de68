#include "graph/ops/ops.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

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

bool CanFuseRelu(const OpAttrs& attrs) {
  return std::visit([](const auto& a) { return requires { a.kFusesRelu; }; }, attrs);
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

bool TakesGradient(const OpAttrs& attrs) {
  return std::holds_alternative<Sgd>(attrs) || std::holds_alternative<Adam>(attrs);
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
  std::vector<absl::string_view> names;
  for (const auto& [row, description] : OperatorTable()) names.push_back(row);
  return absl::NotFoundError(
      absl::StrCat("unknown operator '", name, "'; known are: ", absl::StrJoin(names, ", ")));
}

std::vector<std::pair<absl::string_view, absl::string_view>> OperatorTable() {
  std::vector<std::pair<absl::string_view, absl::string_view>> rows;
  ForEachRow([&](auto row) { rows.emplace_back(row.kName, row.kDescription); });
  return rows;
}

}  // namespace partita
