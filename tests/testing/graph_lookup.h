#pragma once

#include <algorithm>
#include <string>

#include "graph/graph.h"
#include "graph/support/check.h"
#include "gtest/gtest.h"

// Tensors and operators of a graph by name, for tests.

namespace partita {

// The tensor of that name; a failure of the test and kNoTensor where there is none.
inline TensorId IdOf(const Graph& graph, const std::string& name) {
  for (const Tensor& tensor : graph.tensors()) {
    if (tensor.name == name) return tensor.id;
  }
  ADD_FAILURE() << "no tensor " << name;
  return kNoTensor;
}

// The operator of that name; the test stops where there is none.
inline const Operator& OpOf(const Graph& graph, const std::string& name) {
  const auto ops = graph.ops();
  const auto found =
      std::find_if(ops.begin(), ops.end(), [&](const Operator& op) { return op.name == name; });
  CHECK(found != ops.end()) << name;
  return *found;
}

}  // namespace partita
