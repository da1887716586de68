#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "graph/graph.h"

namespace partita {

// A named model: its forward graph for a batch size. Weights are named as in torchvision where it
// has the model, and start like PyTorch's.
struct ZooModel {
  absl::string_view name;
  absl::StatusOr<Graph> (*make)(int64_t batch);
  absl::string_view description;
  // The model unrolled so many steps, for each of its sequences; null for models without steps.
  absl::StatusOr<Graph> (*unroll)(int64_t batch, int64_t steps) = nullptr;
};

constexpr int64_t kMostUnrolled = 4096;  // steps

// THE table of models. To add one: write its function in one of the files of this folder and add a
// row in models.cc.
std::span<const ZooModel> ZooModels();

// The graph of the model with that name, unrolled so many steps; 0: the model's own. NotFound lists
// the names. InvalidArgument for a batch below 1, for more than kMostUnrolled, and for steps of a
// model that has none.
absl::StatusOr<Graph> MakeZooModel(const std::string& name, int64_t batch, int64_t steps = 0);

// alexnet.cc
absl::StatusOr<Graph> MakeAlexNet(int64_t batch);
absl::StatusOr<Graph> MakeAlexNetOwt2014(int64_t batch);
absl::StatusOr<Graph> MakeAlexNetCaffe2012(int64_t batch);
absl::StatusOr<Graph> MakeAlexNetS56(int64_t batch);
absl::StatusOr<Graph> MakeAlexNetS128(int64_t batch);
absl::StatusOr<Graph> MakeAlexNetS56BatchNorm(int64_t batch);
absl::StatusOr<Graph> MakeAlexNetS128BatchNorm(int64_t batch);
absl::StatusOr<Graph> MakeAlexNetSTiny(int64_t batch);
absl::StatusOr<Graph> MakeAlexNetTiny(int64_t batch);

// inception.cc
absl::StatusOr<Graph> MakeInceptionV3(int64_t batch);
absl::StatusOr<Graph> MakeInceptionV3Tiny(int64_t batch);

// recurrent.cc
absl::StatusOr<Graph> MakeNmt(int64_t batch);
absl::StatusOr<Graph> MakeNmtShort(int64_t batch);
absl::StatusOr<Graph> MakeNmtTiny(int64_t batch);
absl::StatusOr<Graph> MakeRnnLm(int64_t batch);
absl::StatusOr<Graph> MakeRnnLmTiny(int64_t batch);
absl::StatusOr<Graph> MakeRnnTc(int64_t batch);
absl::StatusOr<Graph> MakeRnnTcTiny(int64_t batch);
absl::StatusOr<Graph> UnrollNmt(int64_t batch, int64_t steps);  // of each language
absl::StatusOr<Graph> UnrollNmtTiny(int64_t batch, int64_t steps);
absl::StatusOr<Graph> UnrollRnnLm(int64_t batch, int64_t steps);
absl::StatusOr<Graph> UnrollRnnLmTiny(int64_t batch, int64_t steps);
absl::StatusOr<Graph> UnrollRnnTc(int64_t batch, int64_t steps);
absl::StatusOr<Graph> UnrollRnnTcTiny(int64_t batch, int64_t steps);

// resnet.cc
absl::StatusOr<Graph> MakeResNet18(int64_t batch);
absl::StatusOr<Graph> MakeResNet50(int64_t batch);
absl::StatusOr<Graph> MakeResNet101(int64_t batch);
absl::StatusOr<Graph> MakeResNet101Tiny(int64_t batch);
absl::StatusOr<Graph> MakeResNetTiny(int64_t batch);

// transformer.cc
absl::StatusOr<Graph> MakeBertLarge(int64_t batch);
absl::StatusOr<Graph> MakeBertTiny(int64_t batch);
absl::StatusOr<Graph> MakeGpt125M(int64_t batch);
absl::StatusOr<Graph> MakeGpt350M(int64_t batch);
absl::StatusOr<Graph> MakeGpt760M(int64_t batch);
absl::StatusOr<Graph> MakeGpt1300M(int64_t batch);
absl::StatusOr<Graph> MakeGpt2700M(int64_t batch);
absl::StatusOr<Graph> MakeGpt6700M(int64_t batch);
absl::StatusOr<Graph> MakeGpt13B(int64_t batch);
absl::StatusOr<Graph> MakeGpt175B(int64_t batch);
absl::StatusOr<Graph> MakeGptTiny(int64_t batch);
absl::StatusOr<Graph> MakeVitB16(int64_t batch);
absl::StatusOr<Graph> MakeVitTiny(int64_t batch);

// vgg.cc
absl::StatusOr<Graph> MakeVgg11(int64_t batch);
absl::StatusOr<Graph> MakeVgg16(int64_t batch);

// small.cc
absl::StatusOr<Graph> MakeLeNet(int64_t batch);
absl::StatusOr<Graph> MakeMlp(int64_t batch);
absl::StatusOr<Graph> MakeMlpTiny(int64_t batch);

}  // namespace partita
