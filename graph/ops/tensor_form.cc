#include "graph/ops/tensor_form.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "graph/ops/attribute_checks.h"
#include "graph/ops/elementwise.h"
#include "graph/support/check.h"
#include "graph/support/status_macros.h"

namespace partita {
namespace {

struct Term {
  char dims = 'x';
  bool differentiable = false;
  bool once = false;
  bool wide = false;
  bool max = false;
};

std::vector<Term> ParseTerms(absl::string_view list) {
  std::vector<Term> terms;
  for (absl::string_view text : absl::StrSplit(list, ',')) {
    Term term{.dims = text[0]};
    for (char mark : text.substr(1)) {
      term.differentiable |= mark == '*';
      term.once |= mark == '!';
      term.wide |= mark == '2';
      term.max |= mark == '^';
    }
    terms.push_back(term);
  }
  return terms;
}

struct Form {
  std::vector<Term> operands, results;
};

Form ParseForm(absl::string_view form) {
  const std::vector<absl::string_view> sides = absl::StrSplit(form, "->");
  CHECK_EQ(sides.size(), 2u);
  return {ParseTerms(sides[0]), ParseTerms(sides[1])};
}

// The dimensions of x that a term has: [first, last).
std::pair<int, int> DimsOf(const Term& term, int rank) {
  switch (term.dims) {
    case 'r':
    case 'l':
      return {0, rank - 1};
    case 'c':
      return {1, 2};
    case 's':
      return {0, 0};
    default:
      return {0, rank};
  }
}

TensorType TypeOf(const Term& term, const TensorType& x) {
  TensorType type{x.dtype, {}};
  if (term.dims == 'l') type.dtype = DType::kInt32;
  if (term.wide && x.dtype != DType::kRing64) type.dtype = DType::kFloat64;
  const auto [first, last] = DimsOf(term, static_cast<int>(x.shape.size()));
  for (int d = first; d < last; ++d) type.shape.push_back(x.shape[static_cast<size_t>(d)]);
  return type;
}

std::vector<DimMap> MapsOf(const Term& term, int rank) {
  std::vector<DimMap> maps;
  const auto [first, last] = DimsOf(term, rank);
  for (int d = first; d < last; ++d) maps.push_back(Along(d));
  return maps;
}

int LeastRank(const Form& form) {
  int rank = 0;
  for (const std::vector<Term>* side : {&form.operands, &form.results}) {
    for (const Term& term : *side) {
      if (term.dims == 'c') rank = std::max(rank, 2);
      if (term.dims == 'r' || term.dims == 'l') rank = std::max(rank, 1);
    }
  }
  return rank;
}

}  // namespace

absl::StatusOr<std::vector<TensorType>> ResultsOfForm(absl::string_view name,
                                                      absl::string_view text,
                                                      std::span<const TensorType> operands) {
  const Form form = ParseForm(text);
  if (operands.size() != form.operands.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " wants ", form.operands.size(), " operands; found ", operands.size()));
  }
  const TensorType& x = operands[0];
  RETURN_IF_ERROR(CheckOperands(name, operands.first(1), 1, 1));
  if (static_cast<int>(x.shape.size()) < LeastRank(form)) {
    return absl::InvalidArgumentError(absl::StrCat(
        name, " wants a first operand of rank >= ", LeastRank(form), "; found ", ToString(x)));
  }
  for (size_t k = 0; k < operands.size(); ++k) {
    const TensorType want = TypeOf(form.operands[k], x);
    if (operands[k] != want) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, ": operand ", k, " is ", ToString(operands[k]),
                       "; for a first operand ", ToString(x), " it should be ", ToString(want)));
    }
  }
  std::vector<TensorType> results;
  for (const Term& term : form.results) results.push_back(TypeOf(term, x));
  return results;
}

ShardingRule RuleOfForm(absl::string_view text, std::span<const TensorType> operands) {
  const Form form = ParseForm(text);
  const Shape& x = operands[0].shape;
  const int rank = static_cast<int>(x.size());
  ShardingRule rule;
  for (int d = 0; d < rank; ++d) {
    rule.loops.push_back({DimensionName(d), x[static_cast<size_t>(d)]});
  }
  for (const Term& term : form.operands) {
    rule.operands.push_back(
        {.dims = MapsOf(term, rank), .once = term.once, .differentiable = term.differentiable});
  }
  for (const Term& term : form.results) {
    rule.results.push_back(
        {.dims = MapsOf(term, rank), .reduction = term.max ? Reduction::kMax : Reduction::kSum});
  }
  return std::move(rule).Finished();
}

int64_t LargestVolume(std::span<const TensorType> inputs, std::span<const TensorType> outputs) {
  int64_t largest = 0;
  for (const TensorType& type : inputs) largest = std::max(largest, Volume(type.shape));
  for (const TensorType& type : outputs) largest = std::max(largest, Volume(type.shape));
  return largest;
}

}  // namespace partita
