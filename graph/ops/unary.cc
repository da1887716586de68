#include "graph/ops/unary.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/support/check.h"

namespace partita {
namespace {

struct UnaryRow {
  absl::string_view name;
  UnaryFunction function;
  bool gradient_reads_result;
};

constexpr UnaryRow kUnaryRows[] = {
    {"erf", UnaryFunction::kErf, false},
    {"gelu", UnaryFunction::kGelu, false},
    {"gelu_tanh", UnaryFunction::kGeluTanh, false},
    {"hard_swish", UnaryFunction::kHardSwish, false},
    {"sigmoid", UnaryFunction::kSigmoid, true},
    {"tanh", UnaryFunction::kTanh, true},
};

const UnaryRow* FindRow(const Unary& unary) {
  for (const UnaryRow& row : kUnaryRows) {
    if (row.name == unary.function) return &row;
  }
  return nullptr;
}

}  // namespace

absl::Status Unary::Check() const {
  if (FindRow(*this) != nullptr) return absl::OkStatus();
  const auto name = [](std::string* out, const UnaryRow& row) { absl::StrAppend(out, row.name); };
  return absl::InvalidArgumentError(absl::StrCat("unary: there is no function '", function,
                                                 "'; known are ",
                                                 absl::StrJoin(kUnaryRows, ", ", name)));
}

UnaryFunction FunctionOf(const Unary& unary) {
  const UnaryRow* row = FindRow(unary);
  CHECK(row != nullptr) << unary.function;
  return row->function;
}

GradientReads ReadsForGradient(const Unary& unary, int) {
  const UnaryRow* row = FindRow(unary);
  if (row != nullptr && row->gradient_reads_result) return {.results = {0}};
  return {.operands = {0}};
}

std::vector<InPlacePair> InPlace(const Unary&, Pass pass) {
  // The gradient reads x or y, then dy, and may take either's buffer.
  if (pass.is_forward()) return {{0, 0}};
  return {{1, 0}, {0, 0}};
}

}  // namespace partita
