#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace partita {

// Values of a training run by name. "logits": of the first step, on the initial weights. "loss": of
// every step, before its update. "grad/NAME": of the first step, without weight decay.
// "final/NAME": a weight after the last step; "final_buffer/NAME": a running statistic. The word
// before the slash, or the whole name, is the kind.
using RunValues = std::map<std::string, std::vector<double>>;

// A training run that another framework did: a folder with
//
//   model.onnx            the model with its initial weights; or, of a model of the zoo, which
//                         meta.json names as "model",
//   weights.safetensors   its initial weights, float32, keyed by the model's names
//   batch.safetensors     x [steps, batch, ...], numbers; y [steps, rows...], integers
//   expected.safetensors  RunValues (the loss as loss_f64)
//   meta.json             "optimizer" {"type": "SGD", "lr", "momentum", "weight_decay",
//                         "nesterov"}, "suggested_tolerance" {KIND: number}
struct ReferenceFolder {
  std::string path;
  std::string model;                         // path of an ONNX file, or name of a model of the zoo
  std::vector<std::vector<float>> x;         // indexed by step
  std::vector<std::vector<int32_t>> labels;  // indexed by step
  std::vector<int64_t> batch_shape;          // shape of one step's x
  double learning_rate = 0, momentum = 0, weight_decay = 0;
  bool nesterov = false;
  RunValues expected;
  std::map<std::string, double> tolerance;  // keyed by kind

  int64_t steps() const { return static_cast<int64_t>(x.size()); }
};

// NotFound or InvalidArgument, naming the file and what is wrong with it. Only SGD is known.
absl::StatusOr<ReferenceFolder> LoadReferenceFolder(const std::string& path);

// The outcome of comparing a run with the reference. A tensor agrees if
// max|got - want| <= tolerance * max(max|want|, 0.01 * L), L being the largest |want| of its kind
// (some gradients are zero in theory).
struct ReferenceComparison {
  bool equal = true;
  int64_t tensors = 0;           // tensors compared
  double max_abs_error = 0;      // largest of all
  std::string worst;             // tensor with the largest error relative to its tolerance
  double worst_share = 0;        // that error as a share of the tolerance; more than 1: too large
  std::string first_difference;  // text of the first difference by name; empty if equal: tensor,
                                 // element, got, wanted, allowed
};

// Numbers by the names of tensors.
using ByTensor = std::map<std::string, double>;

// Compares the expected tensors whose kind has a tolerance. Losses and final values must be in
// `got`; logits, gradients and buffers that are absent there are left out. `rounding`: how far
// elements may be off where that is more than their tolerance, see RoundingOfReference.
ReferenceComparison CompareWithReference(const ReferenceFolder& reference, const RunValues& got,
                                         const ByTensor& rounding = {});

}  // namespace partita
