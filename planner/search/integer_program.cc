#include "planner/search/integer_program.h"

#ifdef PARTITA_HAVE_CBC
#include <CbcEventHandler.hpp>
#include <CbcModel.hpp>
#include <ClpEventHandler.hpp>
#include <ClpSimplex.hpp>
#include <CoinPackedMatrix.hpp>
#include <OsiClpSolverInterface.hpp>
#include <algorithm>
#include <utility>

namespace partita {
namespace {

using Stop = std::function<bool()>;

class TreeStop : public CbcEventHandler {
 public:
  explicit TreeStop(const Stop& stop) : stop_(stop) {}
  CbcAction event(CbcEvent) override { return stop_ && stop_() ? stop : noAction; }
  CbcEventHandler* clone() const override { return new TreeStop(*this); }

 private:
  const Stop& stop_;
};

// Between the steps of the relaxation's solution.
class RelaxationStop : public ClpEventHandler {
 public:
  explicit RelaxationStop(const Stop& stop) : stop_(stop) {}
  int event(Event) override { return stop_ && stop_() ? 1 : -1; }
  ClpEventHandler* clone() const override { return new RelaxationStop(*this); }

 private:
  const Stop& stop_;
};

// The program's variables, constraints and costs. Costs are scaled: the largest is kLargestCost.
class Formulation {
 public:
  Formulation(const ChoiceProblem& problem, std::span<const ChoiceLimit> limits)
      : problem_(problem), limits_(limits), dominated_(DominatedCandidates(problem, limits)) {
    FindScale();
    for (size_t n = 0; n < problem_.nodes.size(); ++n) AddNode(n);
    for (const ChoiceProblem::Edge& edge : problem_.edges) AddEdge(edge);
    for (const ChoiceLimit& limit : limits_) AddLimit(limit);
  }

  void Load(OsiClpSolverInterface& solver) const {
    const auto columns = cost_.size();
    const CoinPackedMatrix matrix(true, row_of_.data(), column_of_.data(), value_.data(),
                                  static_cast<CoinBigIndex>(value_.size()));
    const std::vector<double> zeros(columns, 0), ones(columns, 1);
    solver.loadProblem(matrix, zeros.data(), ones.data(), cost_.data(), least_.data(),
                       most_.data());
    for (const auto& variables : variable_) {
      for (int x : variables) {
        if (x >= 0) solver.setInteger(x);
      }
    }
  }

  // Whether none of the choices are left out.
  bool Has(std::span<const int32_t> candidate) const {
    for (size_t n = 0; n < candidate.size(); ++n) {
      if (variable_[n][static_cast<size_t>(candidate[n])] < 0) return false;
    }
    return true;
  }

  std::vector<double> ValuesOf(std::span<const int32_t> candidate) const {
    std::vector<double> values(cost_.size(), 0);
    for (size_t n = 0; n < candidate.size(); ++n) {
      values[static_cast<size_t>(variable_[n][static_cast<size_t>(candidate[n])])] = 1;
    }
    for (const Product& product : products_) {
      const double both =
          values[static_cast<size_t>(product.a)] * values[static_cast<size_t>(product.b)];
      values[static_cast<size_t>(product.variable)] = both;
    }
    return values;
  }

  double ObjectiveOf(std::span<const double> values) const {
    double sum = 0;
    for (size_t k = 0; k < values.size(); ++k) sum += cost_[k] * values[k];
    return sum;
  }

  std::vector<int32_t> CandidatesOf(const double* values) const {
    std::vector<int32_t> candidate;
    for (const auto& variables : variable_) {
      const auto value = [&](int x) { return x < 0 ? -1.0 : values[x]; };
      const auto largest = std::max_element(variables.begin(), variables.end(),
                                            [&](int a, int b) { return value(a) < value(b); });
      candidate.push_back(static_cast<int32_t>(largest - variables.begin()));
    }
    return candidate;
  }

 private:
  static constexpr double kLargestCost = 1e6;
  struct Product {
    int variable, a, b;
  };

  void FindScale() {
    int64_t largest = 1;
    for (const auto& costs : problem_.nodes) {
      for (int64_t cost : costs) largest = std::max(largest, cost);
    }
    for (const ChoiceProblem::Edge& edge : problem_.edges) {
      for (int64_t cost : edge.cost) largest = std::max(largest, cost);
    }
    if (static_cast<double>(largest) > kLargestCost) {
      scale_ = kLargestCost / static_cast<double>(largest);
    }
  }

  int AddVariable(int64_t cost) {
    cost_.push_back(scale_ * static_cast<double>(cost));
    return static_cast<int>(cost_.size()) - 1;
  }
  int AddRow(double least, double most) {
    least_.push_back(least);
    most_.push_back(most);
    return static_cast<int>(least_.size()) - 1;
  }
  void Put(int row, int column, double value) {
    row_of_.push_back(row);
    column_of_.push_back(column);
    value_.push_back(value);
  }

  void AddNode(size_t node) {
    std::vector<int>& variables = variable_.emplace_back();
    const int row = AddRow(1, 1);
    for (size_t c = 0; c < problem_.nodes[node].size(); ++c) {
      variables.push_back(dominated_[node][c] ? -1 : AddVariable(problem_.nodes[node][c]));
      if (variables.back() >= 0) Put(row, variables.back(), 1);
    }
  }

  // The row that a candidate's products sum to it.
  std::vector<int> RowsOf(const std::vector<int>& variables) {
    std::vector<int> rows;
    for (int x : variables) {
      rows.push_back(x < 0 ? -1 : AddRow(0, 0));
      if (x >= 0) Put(rows.back(), x, -1);
    }
    return rows;
  }

  void AddEdge(const ChoiceProblem::Edge& edge) {
    const std::vector<int>& of_a = variable_[static_cast<size_t>(edge.a)];
    const std::vector<int>& of_b = variable_[static_cast<size_t>(edge.b)];
    const std::vector<int> rows_a = RowsOf(of_a), rows_b = RowsOf(of_b);
    for (size_t i = 0; i < of_a.size(); ++i) {
      for (size_t j = 0; j < of_b.size(); ++j) {
        if (of_a[i] < 0 || of_b[j] < 0) continue;
        const int y = AddVariable(edge.cost[i * of_b.size() + j]);
        products_.push_back({y, of_a[i], of_b[j]});
        Put(rows_a[i], y, 1);
        Put(rows_b[j], y, 1);
      }
    }
  }

  // As parts of what may be used.
  void AddLimit(const ChoiceLimit& limit) {
    const double unit = static_cast<double>(std::max<int64_t>(1, limit.most));
    const int row = AddRow(0, static_cast<double>(limit.most) / unit);
    for (size_t n = 0; n < variable_.size(); ++n) {
      for (size_t c = 0; c < variable_[n].size(); ++c) {
        const int64_t use = limit.use[n][c];
        if (variable_[n][c] >= 0 && use > 0) {
          Put(row, variable_[n][c], static_cast<double>(use) / unit);
        }
      }
    }
  }

  const ChoiceProblem& problem_;
  const std::span<const ChoiceLimit> limits_;
  const std::vector<std::vector<bool>> dominated_;
  double scale_ = 1;
  std::vector<std::vector<int>> variable_;  // by node, candidate; -1: left out
  std::vector<Product> products_;
  std::vector<double> cost_;             // by variable
  std::vector<double> least_, most_;     // by row
  std::vector<int> row_of_, column_of_;  // entries of the matrix
  std::vector<double> value_;
};

void AddSolution(const ChoiceProblem& problem, std::span<const ChoiceLimit> limits,
                 std::vector<int32_t> candidate, std::vector<Choices>& found) {
  const bool is_known = std::any_of(found.begin(), found.end(), [&](const Choices& other) {
    return other.candidate == candidate;
  });
  if (is_known || !KeepsTo(limits, candidate)) return;
  const int64_t cost = CostOf(problem, candidate);
  found.push_back({std::move(candidate), cost, false});
}

}  // namespace

const char* IntegerProgramLacks() { return nullptr; }

std::vector<Choices> IntegerProgramChoices(const ChoiceProblem& problem,
                                           std::span<const ChoiceLimit> limits,
                                           const IntegerProgramEnds& ends) {
  const Formulation formulation(problem, limits);
  OsiClpSolverInterface solver;
  solver.messageHandler()->setLogLevel(0);
  formulation.Load(solver);
  RelaxationStop relaxation_stop(ends.stop);
  solver.getModelPtr()->passInEventHandler(&relaxation_stop);
  CbcModel model(solver);
  model.setLogLevel(0);
  TreeStop tree_stop(ends.stop);
  model.passInEventHandler(&tree_stop);
  model.setMaximumNodes(static_cast<int>(ends.nodes));
  model.setMaximumSavedSolutions(static_cast<int>(kMostIntegerSolutions));
  std::vector<Choices> found;
  const Choices begin = MinimizeChoices(problem, 1);
  AddSolution(problem, limits, begin.candidate, found);
  if (!found.empty() && formulation.Has(begin.candidate)) {
    const std::vector<double> values = formulation.ValuesOf(begin.candidate);
    model.setBestSolution(values.data(), static_cast<int>(values.size()),
                          formulation.ObjectiveOf(values));
  }
  model.branchAndBound();
  const bool is_proven = model.isProvenOptimal() && model.bestSolution() != nullptr;
  if (model.bestSolution() != nullptr) {
    AddSolution(problem, limits, formulation.CandidatesOf(model.bestSolution()), found);
  }
  for (int k = 0; k < model.numberSavedSolutions(); ++k) {
    AddSolution(problem, limits, formulation.CandidatesOf(model.savedSolution(k)), found);
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const Choices& a, const Choices& b) { return a.cost < b.cost; });
  if (found.size() > kMostIntegerSolutions) found.resize(kMostIntegerSolutions);
  if (!found.empty()) found[0].exact = is_proven;
  return found;
}

}  // namespace partita

#else

#include "graph/support/check.h"

namespace partita {

const char* IntegerProgramLacks() { return "coinor-libcbc-dev"; }

std::vector<Choices> IntegerProgramChoices(const ChoiceProblem&, std::span<const ChoiceLimit>,
                                           const IntegerProgramEnds&) {
  CHECK(false) << "this program was built without an integer programming solver";
  return {};
}

}  // namespace partita

#endif
