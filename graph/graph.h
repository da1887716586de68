#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "graph/ops/ops.h"
#include "graph/sharding_rule.h"
#include "graph/support/strong_int.h"
#include "graph/tensor.h"

namespace partita {

constexpr OpId kNoOp{-1};
constexpr TensorId kNoTensor{-1};

// Role of an input or an output of a graph for those who feed and read it.
enum class TensorRole : uint8_t {
  kSamples,  // input: rows of the batch
  kLabels,   // input of training graphs: labels of these rows
  kLogits,   // output: the model's result for these rows
  kLoss,     // output of training graphs: the mean loss over the batch
  kCorrect,  // output of training graphs: the number of rows whose label has the largest logit
};
inline constexpr size_t kTensorRoles = 5;

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
  // The microbatch that it works on; 0 where the batch is not split, and for what is done once.
  int32_t microbatch = 0;
};

// Name of an operator's or tensor's copy for a microbatch: the name itself for the first,
// "NAME@1", "NAME@2", ... for the others.
std::string MicrobatchName(absl::string_view name, int32_t microbatch);

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

  // Inputs or outputs of a role. Of several, each has the rows of the batch that follow those of
  // the one before (see Microbatched).
  std::span<const TensorId> tensors(TensorRole role) const {
    return roles_[static_cast<size_t>(role)];
  }
  // The only tensor of a role; kNoTensor where there is none. Precondition: not several.
  TensorId only(TensorRole role) const;
  bool is_training() const { return !tensors(TensorRole::kLoss).empty(); }
  int microbatches() const { return static_cast<int>(tensors(TensorRole::kSamples).size()); }
  // Samples of the whole batch, and the type of the tensor that would hold all tensors of a role.
  // Integers that an input of integers may hold are [0, limit): a label is a class; a sample's
  // numbers choose from all that its readers have.
  int64_t IndexLimitOf(TensorId input) const;
  int64_t batch() const { return WholeType(TensorRole::kSamples).shape[0]; }
  TensorType WholeType(TensorRole role) const;
  // Number of rows of the batch in front of those of an input.
  int64_t FirstRowOf(TensorId input) const;

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
  std::array<std::vector<TensorId>, kTensorRoles> roles_;  // by TensorRole
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
    int32_t microbatch = 0;
  };
  absl::StatusOr<OpId> AddOp(OpSpec spec);
  // Adds an operator with one result.
  absl::StatusOr<TensorId> Add(OpSpec spec);

  // The gradient of `forward` with respect to its operand, added to `result` (a tensor of that
  // operand's type). `gradients`: the gradient of each result of `forward`.
  absl::StatusOr<OpId> AddGradient(OpId forward, int operand, std::vector<TensorId> gradients,
                                   TensorId result);

  // An update of persistent tensors: results[i] becomes the next value of persistent[i].
  struct UpdateSpec {
    std::string name;
    OpAttrs attrs;
    // The weight, or what an earlier update of the step made of it; then others.
    std::vector<TensorId> inputs;
    // The first is the weight whose update layout the operator takes.
    std::vector<TensorId> persistent;
    int32_t microbatch = 0;
    // False: its results are what the update of the next microbatch starts from: activations with
    // the names of the persistent tensors for that microbatch.
    bool is_last = true;
  };
  absl::StatusOr<OpId> AddUpdate(UpdateSpec spec);

  // Anchors `op` to another operator after the fact (a decomposition's pieces are built before its
  // core).
  void SetAnchor(OpId op, OpId anchor);
  // Replaces Operator::after. Build refuses operators that do not come earlier, and names those of
  // a cycle.
  void SetAfter(OpId op, std::vector<OpId> after);
  // Makes a tensor an output of that role; inputs get theirs when they are added.
  void AddRole(TensorRole role, TensorId id) {
    graph_.roles_[static_cast<size_t>(role)].push_back(id);
  }

  // Tensors and operators added so far.
  const Tensor& tensor(TensorId id) const { return graph_.tensors_[id.index()]; }
  const Operator& op(OpId id) const { return graph_.ops_[id.index()]; }
  std::span<const Operator> ops() const { return graph_.ops_; }
  std::span<const Tensor> tensors() const { return graph_.tensors_; }
  std::span<const Weight> weights() const { return graph_.weights_; }
  const ShardingRule& rule(OpId id) const { return graph_.rules_[id.index()]; }
  std::span<const TensorId> tensors(TensorRole role) const { return graph_.tensors(role); }

  // Every floating-point type becomes `dtype`; see WithArithmetic.
  void UseArithmetic(DType dtype);

  // Verifies and finishes.
  absl::StatusOr<Graph> Build() &&;

 private:
  absl::StatusOr<TensorId> AddTensor(std::string name, TensorType type, TensorKind kind,
                                     TensorId of);
  absl::Status CheckInputs(const std::string& op, std::span<const TensorId> ids) const;
  absl::Status CheckUpdate(const UpdateSpec& spec) const;
  absl::Status CheckAfter(const Operator& op) const;
  OpId Append(Operator op, ShardingRule rule);

  Graph graph_;
  absl::flat_hash_set<std::string> tensor_names_, op_names_;
  // The weight of the first result of each update that is not the last of its step.
  absl::flat_hash_map<TensorId, TensorId> updated_;
};

// The same computation in another arithmetic: every floating type becomes `dtype`, one of kFloat32,
// kFloat64 and kRing64.
Graph WithArithmetic(DType dtype, const Graph& graph);

// The same computation on integers modulo 2^64.
Graph WithRingArithmetic(const Graph& graph);

}  // namespace partita
