#pragma once

#include <string>

#include "graph/graph.h"
#include "tests/testing/model_writer.h"

namespace partita {

// No ReLU, no stride: every element of every tensor has an effect. Only copies that replicas
// compute and nobody takes have none.
inline Graph DenseModel() {
  ModelWriter m("dense", DType::kFloat32);
  TensorId x = m.Input({4, 2, 6, 4});
  TensorId y =
      ModelWriter::Get(m.builder.Add({.name = "conv1",
                                      .attrs = Conv2d{.pads = {1, 1, 1, 1}},
                                      .inputs = {x, m.Weight("conv1.weight", {4, 2, 3, 3}, 18),
                                                 m.Weight("conv1.bias", {4}, 18)}}));
  y = m.Conv("conv2", m.BatchNorm("bn", y), 4);
  for (const char* name : {"dropout1", "dropout2"}) {
    y = ModelWriter::Get(
        AddDropout(m.builder, name, m.Conv(std::string(name) + ".in", y, 4), 0.25));
  }
  y = m.Binary("sum", "add", y, m.Conv("conv3", y, 4));
  y = ModelWriter::Get(m.builder.Add(
      {.name = "mean", .attrs = *MakeReduceMean({4, 4, 6, 4}, {3}, false), .inputs = {y}}));
  y = ModelWriter::Get(
      m.builder.Add({.name = "flatten", .attrs = Reshape{.shape = {4, -1}}, .inputs = {y}}));
  y = m.Linear("fc2", m.Linear("fc1", y, 6), 5);
  return m.Finish(y);
}

}  // namespace partita
