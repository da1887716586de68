#pragma once

#include <cstdint>
#include <vector>

#include "graph/box.h"

namespace partita {

// Calls visit(i, position) for every element i of a row-major `shape`; position is the sum of index
// times stride over all dimensions.
template <class Visit>
void ForEachElement(const Shape& shape, const std::vector<int64_t>& strides, Visit&& visit) {
  std::vector<int64_t> index(shape.size(), 0);
  int64_t position = 0;
  for (int64_t i = 0, size = Volume(shape); i < size; ++i) {
    visit(i, position);
    for (size_t d = shape.size(); d-- > 0;) {
      position += strides[d];
      if (++index[d] < shape[d]) break;
      position -= strides[d] * shape[d];
      index[d] = 0;
    }
  }
}

// The strides of a row-major tensor.
inline std::vector<int64_t> RowMajorStrides(const Shape& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  return strides;
}

}  // namespace partita
