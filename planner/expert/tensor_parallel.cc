// Tensor parallelism as in Megatron-LM (Shoeybi et al. 2019, arXiv 1909.08053; Narayanan et al., SC
// 2021). Every product whose operand all devices have is split by column (a device has some columns
// of the result: some neurons of an MLP, some heads of attention), every product that finds its
// operand so is split by row, and its partial results are summed over the devices. In between each
// device keeps to its columns; normalisation, residual sums and what else reads complete sums is
// computed by all of them. A table of words is split by word, and so are their scores and the loss.
// A product whose columns would meet normalisation, which takes whole rows, is computed by all
// devices (the head of BERT).

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/support/error_category.h"
#include "planner/expert/expert_strategies.h"
#include "planner/expert/mesh_spread.h"
#include "planner/expert/splits.h"
#include "planner/space/recurrent_layers.h"

namespace partita {
namespace {

// Axes of the mesh.
constexpr size_t kData = 0, kTensor = 1;

struct MegatronOutcome {
  Strategy strategy;
  int pairs = 0;                   // products split by row
  bool even = true;                // blocks of one size wherever blocks meet
  std::vector<TensorId> cut_rows;  // tensors split along a dimension that a reader takes whole
};

// The loops of an operator, along the tensor axis by column or row.
AxisSplits MegatronLoops(const Graph& graph, const MeshSpread& spread, const Operator& op,
                         MegatronOutcome& outcome) {
  const ShardingRule& rule = graph.rule(op.id);
  AxisSplits loops = spread.Following(op);
  outcome.even &= spread.FollowsEvenly(op, loops, kTensor);
  for (size_t k = 0; k < op.inputs.size(); ++k) {
    const AxisSplits& dims = spread.dims(op.inputs[k]);
    if (dims[kTensor] != kCopies && LoopsOfOperand(rule, k, dims)[kTensor] == kCopies) {
      outcome.cut_rows.push_back(op.inputs[k]);
    }
  }
  loops[kData] = rule.FindLoop("n");
  if (!HasRoom(rule, spread.mesh(), loops)) loops[kData] = kCopies;
  const auto product = WeightProductOf(graph, op);
  if (!product.has_value()) return loops;
  if (loops[kTensor] == product->in) {
    ++outcome.pairs;
    outcome.even &= IsEven(rule, spread.mesh(), {kCopies, product->in});
    return loops;
  }
  loops[kTensor] = product->is_lookup ? product->in : product->out;
  if (!HasRoom(rule, spread.mesh(), loops)) loops[kTensor] = kCopies;
  return loops;
}

// Products that the blocks of these tensors come from.
std::set<OpId> ProductsOf(const Graph& graph, const MeshSpread& spread,
                          std::vector<TensorId> tensors) {
  std::set<OpId> products;
  while (!tensors.empty()) {
    const TensorId id = tensors.back();
    tensors.pop_back();
    for (OpId producer : graph.producers(id)) {
      const Operator& op = graph.op(producer);
      if (WeightProductOf(graph, op).has_value()) {
        products.insert(producer);
        continue;
      }
      std::copy_if(op.inputs.begin(), op.inputs.end(), std::back_inserter(tensors),
                   [&](TensorId input) { return spread.dims(input)[kTensor] != kCopies; });
    }
  }
  return products;
}

// `mesh`: data x tensor.
MegatronOutcome SplitByColumnAndRow(const Graph& graph, int devices, const DeviceMesh& mesh) {
  std::set<OpId> whole;  // products that are not split by column
  for (const bool again : {false, true}) {
    MeshSpread spread(graph, devices, mesh);
    MegatronOutcome outcome;
    for (OpId id : graph.anchors()) {
      AxisSplits loops = MegatronLoops(graph, spread, graph.op(id), outcome);
      if (whole.contains(id)) loops[kTensor] = kCopies;
      spread.Set(graph.op(id), loops);
    }
    whole = ProductsOf(graph, spread, outcome.cut_rows);
    outcome.strategy = std::move(spread).Finish();
    if (again || whole.empty()) return outcome;
  }
  return {};
}

absl::Status MakesSense(const MegatronOutcome& outcome, int ways) {
  if (outcome.pairs == 0) {
    return DeclinedError("the model has no product of weights whose result another one reads");
  }
  if (!outcome.even) {
    return DeclinedError(
        absl::StrCat("the widths of the layers, or the heads of attention, do not "
                     "divide into ",
                     ways, " equal parts"));
  }
  return absl::OkStatus();
}

absl::Status SuitsTensorParallelism(const Graph& graph, const DeviceTopology& topology) {
  if (absl::Status status = NeedsSeveral(topology); !status.ok()) return status;
  if (RecurrentLayers(graph).empty()) return absl::OkStatus();
  return DeclinedError("recurrent layers would sum over all devices in every step");
}

// Devices by node, and numbers of neighbours that every node's devices divide into, largest first:
// several devices that leave several groups.
struct DeviceGroups {
  std::vector<DeviceId> devices;
  std::vector<int> sizes;
};
DeviceGroups GroupsOf(const DeviceTopology& topology) {
  DeviceGroups groups;
  int common = 0;
  for (const auto& [node, devices] : DevicesByNode(topology)) {
    groups.devices.insert(groups.devices.end(), devices.begin(), devices.end());
    common = std::gcd(common, static_cast<int>(devices.size()));
  }
  for (int size = std::min(common, topology.size() - 1); size > 1; --size) {
    if (common % size == 0) groups.sizes.push_back(size);
  }
  return groups;
}

}  // namespace

absl::StatusOr<Strategy> Megatron(const Graph& graph, const DeviceTopology& topology) {
  if (absl::Status status = SuitsTensorParallelism(graph, topology); !status.ok()) return status;
  if (absl::Status status = WorkIsInProducts(graph); !status.ok()) return status;
  const int ways = topology.size();
  MegatronOutcome outcome = SplitByColumnAndRow(graph, ways, {{1, ways}, DeviceRange(0, ways)});
  if (absl::Status status = MakesSense(outcome, ways); !status.ok()) return status;
  return std::move(outcome.strategy);
}

absl::StatusOr<Strategy> DataTensor(const Graph& graph, const DeviceTopology& topology) {
  if (absl::Status status = SuitsTensorParallelism(graph, topology); !status.ok()) return status;
  const DeviceGroups groups = GroupsOf(topology);
  if (groups.sizes.empty()) {
    return DeclinedError(
        "the machine's nodes have no groups of several devices that leave several groups");
  }
  if (absl::Status status = WorkIsInProducts(graph); !status.ok()) return status;
  absl::Status declined;
  for (int ways : groups.sizes) {
    const int copies = topology.size() / ways;
    if (graph.batch() < copies) {
      return DeclinedError(
          absl::StrCat("the batch has fewer samples than the model has copies, ", copies));
    }
    MegatronOutcome outcome =
        SplitByColumnAndRow(graph, topology.size(), {{copies, ways}, groups.devices});
    declined = MakesSense(outcome, ways);
    if (declined.ok()) return std::move(outcome.strategy);
  }
  return declined;
}

}  // namespace partita
