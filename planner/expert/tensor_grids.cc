// Products over grids of devices. Of y[rows, out] = x[rows, in] * w[in, out]:
//
//   2-D    r x c devices: rows by the first axis, `out` by the second. x is gathered along the second
//          axis and w, of which each device keeps one block, along the first: SUMMA (van de Geijn,
//          Watts 1997), as Optimus trains with (Xu, Li, Gong, You 2021, arXiv 2104.05343).
//   2.5-D  d layers of q x q devices, d <= q, each with a copy of w and some of the rows: Tesseract
//          (Wang, Xu, Bian, You 2021, arXiv 2105.14500), after Solomonik, Demmel 2011.
//   3-D    q x q x q devices: rows, `in` and `out` by an axis each, sums over `in` are scattered over
//          the rows: Agarwal et al. 1995, as Bian, Xu, Wang, You 2021 (arXiv 2105.14450) train with.
//          The axes of `in` and `out` change places from a product to the next.
//
// Gradients move the same blocks the other way. Operators between products keep to their operands'
// blocks; one that wants whole rows has rows along every axis.

#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/support/error_category.h"
#include "planner/expert/expert_strategies.h"
#include "planner/expert/mesh_spread.h"
#include "planner/expert/splits.h"

namespace partita {
namespace {

// A mesh, and what its axes split in a product of whole operands.
struct ProductGrid {
  DeviceMesh mesh;
  std::vector<size_t> rows;   // axes that split rows and gather the weight's blocks
  size_t columns = 0;         // the axis of the columns
  std::optional<size_t> sum;  // 3-D: the axis of what is summed; it and `columns` change places
  size_t copies = 0;          // of `rows`, as many leading ones have copies of the weight instead
};

class GridStrategy {
 public:
  GridStrategy(const Graph& graph, int devices, ProductGrid grid)
      : graph_(graph), grid_(std::move(grid)), spread_(graph, devices, grid_.mesh) {}

  absl::StatusOr<Strategy> Build() && {
    if (absl::Status status = WorkIsInProducts(graph_); !status.ok()) return status;
    bool any = false;
    for (OpId id : graph_.anchors()) {
      const Operator& op = graph_.op(id);
      const auto product = WeightProductOf(graph_, op);
      if (product.has_value() && !product->is_lookup && Multiply(op, *product)) {
        any = true;
      } else {
        Follow(op);
      }
    }
    if (!any) return DeclinedError("no product of weights fills the grid");
    return std::move(spread_).Finish();
  }

 private:
  // False, and nothing done, if the product has no room for the grid.
  bool Multiply(const Operator& op, const WeightProduct& product) {
    const ShardingRule& rule = graph_.rule(op.id);
    size_t columns = grid_.columns;
    std::optional<size_t> sum = grid_.sum;
    const AxisSplits x = LoopsOfOperand(rule, 0, spread_.dims(op.inputs[0]));
    if (sum.has_value() && x[columns] == product.in) std::swap(columns, *sum);
    AxisSplits loops(grid_.mesh.extents.size(), kCopies);
    for (size_t axis : grid_.rows) spread_.AlongRows(op, axis, product.out, loops);
    loops[columns] = product.out;
    if (sum.has_value()) loops[*sum] = product.in;
    if (!HasRoom(rule, grid_.mesh, loops)) return false;
    spread_.Set(op, loops);
    if (sum.has_value()) ScatterSums(op, *sum, product.out, loops);
    ShardWeight(rule, product, loops);
    return true;
  }

  // The sums over an axis go to rows along it.
  void ScatterSums(const Operator& op, size_t sum, int out, AxisSplits loops) {
    spread_.AlongRows(op, sum, out, loops);
    spread_.Leave(op, sum, DimsOfResult(graph_.rule(op.id), 0, loops)[sum]);
  }

  void ShardWeight(const ShardingRule& rule, const WeightProduct& product,
                   const AxisSplits& loops) {
    // The weight is a product's second operand, [out, in] or [in, out].
    const bool transposed = LoopsOf({rule.operands[1].dims[0]}).Contains(product.out);
    const int in = transposed ? 1 : 0, out = transposed ? 0 : 1;
    // The axes of the rows cut the blocks that the other axes leave.
    std::vector<size_t> order;
    for (size_t axis = 0; axis < loops.size(); ++axis) {
      if (loops[axis] == product.in || loops[axis] == product.out) order.push_back(axis);
    }
    order.insert(order.end(), grid_.rows.begin(), grid_.rows.end());
    AxisSplits dims;
    for (size_t axis : order) dims.push_back(loops[axis] == product.out ? out : in);
    for (size_t k = 0; k < grid_.copies; ++k) {
      dims[dims.size() - grid_.rows.size() + k] = kCopies;
    }
    spread_.Shard(product, WithAxes(grid_.mesh, order), dims);
  }

  void Follow(const Operator& op) {
    AxisSplits loops = spread_.Following(op);
    for (size_t axis = 0; axis < loops.size(); ++axis) {
      if (loops[axis] == kCopies) spread_.AlongRows(op, axis, -1, loops);
    }
    spread_.Set(op, loops);
  }

  const Graph& graph_;
  const ProductGrid grid_;
  MeshSpread spread_;
};

absl::StatusOr<Strategy> OnGrid(const Graph& graph, int devices, ProductGrid grid) {
  grid.mesh.devices = DeviceRange(0, devices);
  return GridStrategy(graph, devices, std::move(grid)).Build();
}

absl::Status NoGrid(int devices, const char* wanted) {
  return DeclinedError(absl::StrCat(devices, " devices form no grid of ", wanted));
}

}  // namespace

absl::StatusOr<Strategy> Tensor2d(const Graph& graph, const DeviceTopology& topology) {
  if (absl::Status status = NeedsSeveral(topology); !status.ok()) return status;
  const int devices = topology.size();
  int rows = static_cast<int>(std::sqrt(static_cast<double>(devices)));
  while (devices % rows != 0) --rows;
  if (rows == 1) return NoGrid(devices, "two axes");
  return OnGrid(graph, devices, {.mesh = {{rows, devices / rows}, {}}, .rows = {0}, .columns = 1});
}

absl::StatusOr<Strategy> Tensor25d(const Graph& graph, const DeviceTopology& topology) {
  if (absl::Status status = NeedsSeveral(topology); !status.ok()) return status;
  const int devices = topology.size();
  int side = static_cast<int>(std::sqrt(static_cast<double>(devices)));
  while (side > 1 && (devices % (side * side) != 0 || devices == side * side)) --side;
  const int layers = devices / (side * side);
  if (side == 1 || layers > side) return NoGrid(devices, "q x q in at most q layers");
  return OnGrid(graph, devices,
                {.mesh = {{layers, side, side}, {}}, .rows = {0, 1}, .columns = 2, .copies = 1});
}

absl::StatusOr<Strategy> Tensor3d(const Graph& graph, const DeviceTopology& topology) {
  if (absl::Status status = NeedsSeveral(topology); !status.ok()) return status;
  const int devices = topology.size();
  const int side = static_cast<int>(std::lround(std::cbrt(static_cast<double>(devices))));
  if (side * side * side != devices) return NoGrid(devices, "three equal axes");
  return OnGrid(graph, devices,
                {.mesh = {{side, side, side}, {}}, .rows = {0}, .columns = 1, .sum = 2});
}

}  // namespace partita
