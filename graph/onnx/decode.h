#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/onnx/onnx.pb.h"

namespace partita::onnx {

// The largest file that is read: models with larger weights keep them in a side file.
constexpr int64_t kMaxModelBytes = int64_t{2} << 30;

// Decodes a file's bytes. InvalidArgument naming the place (graph.node[3].attribute[0]) if the
// bytes are not an ONNX model. A first pass over the wire format checks every length and bounds
// what decoding will allocate to 2 * bytes + 256 MiB, so a small hostile file cannot grow large.
// `name` is what messages call the bytes.
absl::StatusOr<std::unique_ptr<ModelProto>> DecodeModel(absl::string_view bytes,
                                                        const std::string& name);

}  // namespace partita::onnx
