#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "graph/graph.h"
#include "graph/model/safetensors_header.h"
#include "graph/support/data_file.h"

// The side file of a model in Partita's own form: a safetensors file (float32, keyed by the
// weights' names). The model names the file and the hash of what it keeps there, so that values
// that were changed since are noticed. The file's name has the hash in it: a new model never
// touches the values of the one that it replaces.

namespace partita {

// The SHA-256 of a text that has a line for each weight: its name, its shape and the SHA-256 of its
// values, in the order in which they are added.
class WeightsHash {
 public:
  absl::Status Add(absl::string_view name, const Shape& shape, const std::vector<float>& values);
  absl::StatusOr<std::string> Digits() const;  // 64 hexadecimal ones

 private:
  std::string lines_;
};

struct WrittenWeights {
  std::string file;  // file name, in the folder of the model; empty: no weight has values
  std::string hash;
};

// Writes the values of the graph's weights next to "FOLDER/NAME.textproto" as
// NAME.HASH.safetensors, where HASH are the first 16 digits. Nothing is written if no weight has
// values. InvalidArgument for a name that is not UTF-8.
absl::StatusOr<WrittenWeights> WriteWeightsFile(const Graph& graph, const std::string& model_path);

// A side file whose header has been read.
class WeightsFile {
 public:
  // InvalidArgument if it is not a safetensors file.
  static absl::StatusOr<WeightsFile> Open(const std::string& path);

  // Offset in the file of the values of the weight of this name. InvalidArgument if it is not there
  // with this shape, as float32.
  absl::StatusOr<int64_t> Find(const std::string& name, const Shape& shape) const;

  // Takes memory for `elements` values and reads them into it.
  absl::Status Read(int64_t offset, int64_t elements, std::vector<float>& values) const;

  const std::string& path() const { return file_.path(); }

 private:
  WeightsFile(DataFile file, SafetensorsHeader header)
      : file_(std::move(file)), header_(std::move(header)) {}

  DataFile file_;
  SafetensorsHeader header_;
};

}  // namespace partita
