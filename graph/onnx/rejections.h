#pragma once

#include <span>
#include <string>

namespace partita::onnx {

// A node that cannot be imported.
struct Rejection {
  std::string op_type, domain;
  std::string node;    // for people: "Erf 'node_gelu' (opset 18)"
  std::string reason;  // empty: the operator is not known

  // "Erf 'node_gelu' (opset 18): supported from opset 20".
  std::string Line() const;
};

// The same for people: a line for each operator and kind of reason, most nodes first, with their
// number, the first node, its reason, and what to try.
std::string RejectionsText(std::span<const Rejection> rejections);

}  // namespace partita::onnx
