#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/container/node_hash_map.h"
#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "graph/onnx/attributes.h"
#include "graph/onnx/import.h"
#include "graph/onnx/model.h"
#include "graph/onnx/rejections.h"

namespace partita::onnx {

struct Rows;       // rows.h
struct Reordered;  // rows.h

// Meaning of a name of the file during the import.
struct Value {
  enum class Kind : uint8_t {
    kAbsent,    // an optional input left out
    kUnknown,   // unsupported value: `name` says what it is, or else an operator already listed
    kTensor,    // a tensor of the graph
    kConstant,  // values known during the import
    kStored,    // a tensor of the file that no operator has used yet
    kRows,      // rows of such tensors
  };
  Kind kind = Kind::kAbsent;
  TensorId tensor = kNoTensor;
  std::shared_ptr<const Constant> constant;
  const StoredTensor* stored = nullptr;
  std::shared_ptr<const Rows> rows;
  std::string name;         // kConstant, kStored: its name in the file; kRows: its node's
  bool transposed = false;  // kStored: a matrix, read with its dimensions swapped
};

// State of one import: the graph as far as it is built and the values of the names so far.
class Importer {
 public:
  Importer(Model model, const ImportOptions& options, const std::string& graph_name);

  // Imports the whole model. The model's fingerprint is left to the caller.
  absl::StatusOr<ImportedModel> Run();

 private:
  friend class NodeImport;
  absl::Status AddInput();
  absl::Status AddStored();
  absl::Status ImportNode(const NodeProto& node);
  absl::StatusOr<ImportedModel> Finish();
  absl::Status CheckOutput(const Shape& shape) const;
  absl::Status UnsupportedError() const;
  void AddNotes();
  std::vector<std::string> SideFiles() const;
  std::string UniqueName(const std::string& wanted);
  absl::StatusOr<TensorId> AddWeight(const Value& value, Initializer initializer, bool trainable);
  // `change`, if there is one, is applied to the values when they are read.
  absl::StatusOr<std::shared_ptr<const std::vector<float>>> StoredValues(
      const StoredTensor& stored, std::function<void(std::vector<float>&)> change = nullptr);
  // In rows.cc: the tensor that a kRows value stands for; a trained weight in another order of
  // rows, which must be the only one of that tensor of the file (Unimplemented).
  absl::StatusOr<TensorId> MakeRows(const Value& value);
  absl::StatusOr<TensorId> AddReordered(const Reordered& weight, Initializer initializer);

  Model model_;
  ImportOptions options_;
  GraphBuilder builder_;
  absl::node_hash_map<std::string, Value> values_;  // references stay valid
  std::deque<StoredTensor> constants_;              // stored tensors of Constant nodes
  // Weights, keyed by their names in the file and whether they are trained: exporters store equal
  // values once, so that a trained weight and a running statistic may share them.
  absl::flat_hash_map<std::pair<std::string, bool>, TensorId> weights_;
  absl::flat_hash_map<std::string, int> weight_uses_;
  // Weights with another order of rows, by their names in the file and the endings of those here.
  struct ReorderedRows {
    std::vector<int64_t> order;
    TensorId weight;
  };
  std::map<std::string, std::map<std::string, ReorderedRows>> reordered_;
  absl::flat_hash_set<std::string> taken_names_;
  absl::flat_hash_set<TensorId> claimed_statistics_;
  std::vector<std::string> notes_;
  struct NodeNote {
    std::string op_type, what;
    std::vector<std::string> nodes;
  };
  std::vector<NodeNote> node_notes_;
  std::vector<Rejection> unsupported_;
  int64_t own_batch_ = -1;  // -1: open in the file
  int64_t batch_ = 0;
  PendingValues values_of_weights_;
  // Cells of recurrent layers. Where there are some, there may be operators that nothing reads.
  int64_t unrolled_ = 0;
  int absent_weights_ = 0;
  std::string absent_file_;  // name of the first of them
};

// One node while it is imported: what a row of the operator table works on.
class NodeImport {
 public:
  NodeImport(Importer& importer, const NodeProto& node);

  Attributes& attributes() { return attributes_; }
  const NodeProto& node() const { return node_; }
  int64_t opset() const { return importer_.model_.opset; }
  const ImportOptions& options() const { return importer_.options_; }
  // The batch of the file (-1: open) and the one imported for.
  int64_t own_batch() const { return importer_.own_batch_; }
  int64_t batch() const { return importer_.batch_; }

  int inputs() const { return node_.input_size(); }
  bool Has(int i) const { return Input(i).kind != Value::Kind::kAbsent; }
  const Value& Input(int i) const;  // kAbsent past the end
  bool IsConstant(int i) const { return Input(i).kind == Value::Kind::kConstant; }
  bool IsTensor(int i) const { return Input(i).kind == Value::Kind::kTensor; }
  // The extents of an input of any kind.
  absl::StatusOr<Shape> ShapeOf(int i) const;
  // A constant; Unimplemented if it is computed from activations.
  absl::StatusOr<Constant> ConstantInput(int i) const;
  absl::StatusOr<std::vector<int64_t>> IntsInput(int i) const;
  // A tensor of the graph; what the file keeps becomes a trained weight, a constant a frozen one.
  absl::StatusOr<TensorId> Tensor(int i, Initializer initializer = {});
  // A tensor of integers that choose; Unimplemented for any other value.
  absl::StatusOr<TensorId> Indices(int i) const;
  // A weight that is trained.
  absl::StatusOr<TensorId> Weight(int i, Initializer initializer);
  // The same for a stored matrix, as the file has it even where it is read transposed.
  absl::StatusOr<TensorId> WeightAsStored(int i, Initializer initializer);
  // A trained weight with its rows in another order.
  absl::StatusOr<TensorId> ReorderedWeight(const Reordered& weight, Initializer initializer) {
    return importer_.AddReordered(weight, initializer);
  }
  // Values of a tensor of the file, now; nothing if they are not there.
  absl::StatusOr<std::vector<float>> ValuesNow(const StoredTensor& stored) const;
  // Statistics: a weight that is not trained.
  absl::StatusOr<TensorId> Frozen(int i, Initializer initializer);

  const Shape& ShapeOf(TensorId id) const { return importer_.builder_.tensor(id).type.shape; }
  GraphBuilder& builder() { return importer_.builder_; }

  // A name for an operator or tensor of this node: the layer's ("features.0" if its weight is
  // "features.0.weight"), else the node's; then ".suffix".
  std::string NewName(const std::string& suffix = "");
  // Adds an operator with one result.
  absl::StatusOr<TensorId> Add(OpAttrs attrs, std::vector<TensorId> inputs,
                               const std::string& suffix = "");

  // A recurrent layer was unrolled, of so many cells; cells of all of them so far.
  void AddUnrolled(int64_t steps) { importer_.unrolled_ += steps; }
  int64_t unrolled() const { return importer_.unrolled_; }

  bool HasOutput(int k) const { return k < node_.output_size() && !node_.output(k).empty(); }
  void SetTensor(int k, TensorId id);
  void SetConstant(int k, Constant constant);
  void SetValue(int k, Value value);
  // A large constant: stays in the file until an operator uses it.
  void SetStored(int k, const TensorProto& tensor, const TensorSource& source);

  // True for the first caller with these running statistics.
  bool ClaimStatistics(TensorId id) { return importer_.claimed_statistics_.insert(id).second; }

  // Adds a note for the user. Equal notes of several nodes become one.
  void Note(const std::string& what);

 private:
  absl::StatusOr<TensorId> AsWeight(const Value& value, Initializer initializer, bool trainable);

  Importer& importer_;
  const NodeProto& node_;
  Value absent_;
  Attributes attributes_;
};

}  // namespace partita::onnx
