#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/box.h"
#include "graph/onnx/importer.h"

// Exporters cut the weights of recurrent layers into gates and put these together in another order.
// Such a tensor is remembered as the rows that it is made of until an operator reads it: one that
// knows the order takes the stored weights themselves, with their rows in the order that it wants.

namespace partita::onnx {

// Rows [begin, end) of a tensor of the file or of a constant. A row is an index of the first
// dimension that is not 1.
struct RowRun {
  Value source;  // kStored, not transposed, or kConstant
  int64_t begin = 0, end = 0;
};

// A tensor that is made of whole rows of others. Its dimensions in front of `axis` are 1, those
// behind it are a row's.
struct Rows {
  std::vector<RowRun> runs;
  Shape shape;
  size_t axis = 0;
};

// The rows of a value; nothing for one that is not made of rows of the file.
std::optional<Rows> RowsOf(const Value& value);

// Sets the node's result if all that it does is to move rows of the file: Slice, Concat, Unsqueeze,
// Squeeze. False: it does something else, or is wrong.
bool MoveRows(NodeImport& node);

// Reordered weight: row r of it is row order[r] of `source`.
struct Reordered {
  Value source;        // as of RowRun
  std::string ending;  // of the weight's name, where it is not all of the source
  std::vector<int64_t> order;
  Shape shape;  // its first dimension is the rows
};

}  // namespace partita::onnx
