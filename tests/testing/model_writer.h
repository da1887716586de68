#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/layers.h"
#include "graph/support/check.h"
#include "graph/support/philox.h"
#include "tests/testing/ok.h"

// Small models for tests of training, in any floating-point type.

namespace partita {

// Appends layers and stops the test on an error.
class ModelWriter {
 public:
  ModelWriter(std::string name, DType dtype) : builder(std::move(name)), dtype_(dtype) {}

  TensorId Input(const Shape& shape) { return Get(builder.AddInput("x", {dtype_, shape})); }
  TensorId Weight(const std::string& name, const Shape& shape, int64_t fan_in) {
    return Get(builder.AddWeight(name, {dtype_, shape},
                                 {.kind = Initializer::Kind::kUniformFanIn, .fan_in = fan_in}));
  }
  TensorId Constant(const std::string& name, const Shape& shape, double value, bool trainable) {
    return Get(builder.AddWeight(name, {dtype_, shape}, {.value = value}, nullptr, trainable));
  }
  TensorId Linear(const std::string& name, TensorId x, int64_t outputs) {
    const int64_t inputs = builder.tensor(x).type.shape.back();
    return Get(builder.Add({.name = name,
                            .attrs = MatMul{},
                            .inputs = {x, Weight(name + ".weight", {outputs, inputs}, inputs),
                                       Weight(name + ".bias", {outputs}, inputs)}}));
  }
  TensorId Conv(const std::string& name, TensorId x, int64_t outputs) {
    const int64_t inputs = builder.tensor(x).type.shape[1];
    return Get(builder.Add(
        {.name = name,
         .attrs = Conv2d{.pads = {1, 1, 1, 1}},
         .inputs = {x, Weight(name + ".weight", {outputs, inputs, 3, 3}, inputs * 9)}}));
  }
  TensorId Relu(const std::string& name, TensorId x) {
    return Get(builder.Add({.name = name, .attrs = partita::Relu{}, .inputs = {x}}));
  }
  TensorId Binary(const std::string& name, const std::string& function, TensorId a, TensorId b) {
    return Get(builder.Add(
        {.name = name, .attrs = partita::Binary{.function = function}, .inputs = {a, b}}));
  }
  TensorId BatchNorm(const std::string& name, TensorId x, bool frozen = false) {
    const int64_t c = builder.tensor(x).type.shape[1];
    return Get(
        AddBatchNorm(builder, {.name = name,
                               .x = x,
                               .gamma = Weight(name + ".weight", {c}, 1),
                               .beta = Weight(name + ".bias", {c}, 1),
                               .running_mean = Constant(name + ".running_mean", {c}, 0.5, false),
                               .running_variance = Constant(name + ".running_var", {c}, 2, false),
                               .frozen = frozen}));
  }
  Graph Finish(TensorId logits) {
    builder.AddRole(TensorRole::kLogits, logits);
    return Get(std::move(builder).Build());
  }
  template <class T>
  static T Get(absl::StatusOr<T> value) {
    return Ok(std::move(value));
  }

  GraphBuilder builder;

 private:
  DType dtype_;
};

// Numbers in [-1, 1) of a fixed stream.
inline std::vector<float> RandomNumbers(int64_t size, uint64_t stream) {
  std::vector<float> numbers;
  for (int64_t i = 0; i < size; ++i) {
    numbers.push_back(2 * UnitFloat(PhiloxWord(7, stream, static_cast<uint64_t>(i))) - 1);
  }
  return numbers;
}

inline std::vector<int32_t> RandomLabels(int64_t size, int32_t classes) {
  std::vector<int32_t> labels;
  for (int64_t i = 0; i < size; ++i) {
    labels.push_back(static_cast<int32_t>(PhiloxWord(7, 99, static_cast<uint64_t>(i)) %
                                          static_cast<uint32_t>(classes)));
  }
  return labels;
}

}  // namespace partita
