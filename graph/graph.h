#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "graph/ops/ops.h"
#include "graph/sharding_rule.h"
#include "graph/support/strong_int.h"
#include "graph/tensor.h"

namespace partita {

constexpr OpId kNoOp{-1};
constexpr TensorId kNoTensor{-1};

enum class TensorKind : uint8_t {
  kActivation,  // computed within a step; several producers add up
  kInput,       // samples, delivered by the loader
  kLabels,      // integers, delivered by the loader
  kSeed,        // the gradient of the loss with respect to itself: 1
  kWeight,      // persistent, placed by the Strategy's weight layouts; trained or not
  kState,       // persistent optimizer state of a weight, placed with its update layout
  kNext,        // the value that a weight or state takes when the step ends
};

struct Tensor {
  TensorId id;
  std::string name;
  TensorType type;
  TensorKind kind = TensorKind::kActivation;
  // kNext: the weight or state it becomes. kState: its weight. Otherwise kNoTensor.
  TensorId of = kNoTensor;
};

// Initial distribution of a weight for which the model brings no values. `fan_in` is the number of
// inputs that one output of its operator sums. kUniformFanIn draws from U(-1/sqrt(fan_in),
// 1/sqrt(fan_in)), PyTorch's rule for convolutions and linear layers.
struct Initializer {
  enum class Kind : uint8_t { kUniformFanIn, kConstant };
  Kind kind = Kind::kConstant;
  double value = 0;    // kConstant
  int64_t fan_in = 1;  // kUniformFanIn
  friend bool operator==(const Initializer&, const Initializer&) = default;
};

struct Weight {
  TensorId tensor;
  bool trainable = true;
  Initializer initializer;
  // The model's own values, row-major, or null. Shared by copies; PendingValues fills them last.
  std::shared_ptr<const std::vector<float>> values;
};

struct Operator {
  OpId id;
  std::string name;  // unique in the graph
  OpAttrs attrs;
  Pass pass;
  std::vector<TensorId> inputs;   // a gradient's: what it reads, then the gradients of the results
  std::vector<TensorId> outputs;  // results; several operators may add to one output (gradients)
  // The forward operator that a gradient belongs to; otherwise the operator itself.
  OpId forward;
  // Operator (perhaps itself) whose ParallelConfig it takes; for updates, kNoOp and a weight whose
  // update layout it takes.
  OpId anchor;
  TensorId anchor_weight = kNoTensor;
  // Control edges: earlier operators, ascending. On each device its parts, and the exchange tasks
  // that serve only its demands, start when the parts of these operators there have ended.
  std::vector<OpId> after = {};
};

// A computation: operators in topological order over tensors. Immutable; made by GraphBuilder.
class Graph {
 public:
  const std::string& name() const { return name_; }
  std::span<const Operator> ops() const { return ops_; }
  const Operator& op(OpId id) const { return ops_[id.index()]; }
  std::span<const Tensor> tensors() const { return tensors_; }
  const Tensor& tensor(TensorId id) const { return tensors_[id.index()]; }
  std::span<const Weight> weights() const { return weights_; }
  // The weight whose tensor this is, or null.
  const Weight* FindWeight(TensorId id) const;

  // Operators that write (add to) and read a tensor, in topological order.
  std::span<const OpId> producers(TensorId id) const { return producers_[id.index()]; }
  std::span<const OpId> consumers(TensorId id) const { return consumers_[id.index()]; }

  // The rule by which this operator splits: a gradient's is derived from its forward operator's.
  const ShardingRule& rule(OpId id) const { return rules_[id.index()]; }
  // Shapes of what it reads and writes, in order.
  std::vector<Shape> InputShapes(const Operator& op) const;
  std::vector<Shape> OutputShapes(const Operator& op) const;
  // Operators with a configuration of their own, in topological order.
  std::span<const OpId> anchors() const { return anchors_; }
  // Operators that read weights, but for updates, in topological order.
  std::span<const OpId> weight_readers() const { return weight_readers_; }

  // The model's samples, labels (training graphs) and result. kNoTensor where absent.
  TensorId input() const { return input_; }
  TensorId labels() const { return labels_; }
  TensorId logits() const { return logits_; }
  // Training graphs: the mean loss, and the number of rows whose label has the largest logit.
  TensorId loss() const { return loss_; }
  TensorId correct() const { return correct_; }
  bool is_training() const { return loss_ != kNoTensor; }
  int64_t batch() const { return tensor(input_).type.shape[0]; }

  // The same on every machine for the same computation; weight values do not count.
  uint64_t fingerprint() const { return fingerprint_; }

 private:
  friend class GraphBuilder;
  std::string name_;
  std::vector<Operator> ops_;
  std::vector<Tensor> tensors_;
  std::vector<Weight> weights_;
  std::vector<std::vector<OpId>> producers_, consumers_;
  std::vector<ShardingRule> rules_;
  std::vector<OpId> anchors_, weight_readers_;
  TensorId input_ = kNoTensor, labels_ = kNoTensor, logits_ = kNoTensor;
  TensorId loss_ = kNoTensor, correct_ = kNoTensor;
  uint64_t fingerprint_ = 0;
};

// Builds a Graph front to back: operands must exist before the operator that reads them. Every
// function checks its arguments; an error says which operator or tensor and why.
class GraphBuilder {
 public:
  explicit GraphBuilder(std::string name);
  // Continues a graph: same tensors and operators, more to come.
  explicit GraphBuilder(const Graph& graph);

  absl::StatusOr<TensorId> AddInput(std::string name, TensorType type);
  absl::StatusOr<TensorId> AddLabels(std::string name, Shape shape);
  absl::StatusOr<TensorId> AddSeed(std::string name, TensorType type);
  absl::StatusOr<TensorId> AddWeight(std::string name, TensorType type, Initializer initializer,
                                     std::shared_ptr<const std::vector<float>> values = nullptr,
                                     bool trainable = true);
  // Optimizer state of `weight` (type: the weight's).
  absl::StatusOr<TensorId> AddState(std::string name, TensorId weight);
  // A tensor that operators named later add to: the gradient of `of`.
  absl::StatusOr<TensorId> AddActivation(std::string name, TensorType type);

  struct OpSpec {
    std::string name;
    OpAttrs attrs;
    std::vector<TensorId> inputs;
    // Outputs: existing tensors to add to (gradients), or empty: new tensors "NAME:0", "NAME:1",
    // ... or, if there is one result, "NAME".
    std::vector<TensorId> outputs = {};
    OpId anchor = kNoOp;  // kNoOp: its own
  };
  absl::StatusOr<OpId> AddOp(OpSpec spec);
  // Adds an operator with one result.
  absl::StatusOr<TensorId> Add(OpSpec spec);

  // The gradient of `forward` with respect to its operand, added to `result` (a tensor of that
  // operand's type). `gradients`: the gradient of each result of `forward`.
  absl::StatusOr<OpId> AddGradient(OpId forward, int operand, std::vector<TensorId> gradients,
                                   TensorId result);

  // An update of persistent tensors: inputs are [weight, others...]; results[i] becomes the next
  // value of persistent[i]; persistent[0] is the weight whose update layout the operator takes.
  absl::StatusOr<OpId> AddUpdate(std::string name, OpAttrs attrs, std::vector<TensorId> inputs,
                                 std::vector<TensorId> persistent);

  // Anchors `op` to another operator after the fact (a decomposition's pieces are built before its
  // core).
  void SetAnchor(OpId op, OpId anchor);
  // Replaces Operator::after. Build refuses operators that do not come earlier, and names those of
  // a cycle.
  void SetAfter(OpId op, std::vector<OpId> after);
  void SetLogits(TensorId id) { graph_.logits_ = id; }
  void SetLoss(TensorId loss, TensorId correct) {
    graph_.loss_ = loss;
    graph_.correct_ = correct;
  }

  // Tensors and operators added so far.
  const Tensor& tensor(TensorId id) const { return graph_.tensors_[id.index()]; }
  const Operator& op(OpId id) const { return graph_.ops_[id.index()]; }
  std::span<const Operator> ops() const { return graph_.ops_; }
  std::span<const Tensor> tensors() const { return graph_.tensors_; }
  std::span<const Weight> weights() const { return graph_.weights_; }
  const ShardingRule& rule(OpId id) const { return graph_.rules_[id.index()]; }
  TensorId logits() const { return graph_.logits_; }

  // Every floating-point type becomes kRing64; see WithRingArithmetic.
  void UseRingArithmetic();

  // Verifies and finishes.
  absl::StatusOr<Graph> Build() &&;

 private:
  absl::StatusOr<TensorId> AddTensor(std::string name, TensorType type, TensorKind kind,
                                     TensorId of);
  absl::Status CheckInputs(const std::string& op, std::span<const TensorId> ids) const;
  absl::Status CheckAfter(const Operator& op) const;
  OpId Append(Operator op, ShardingRule rule);

  Graph graph_;
  absl::flat_hash_set<std::string> tensor_names_, op_names_;
};

// The same computation on integers modulo 2^64: every floating type becomes kRing64.
Graph WithRingArithmetic(const Graph& graph);

}  // namespace partita
