#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "graph/graph.h"
#include "graph/model_sizes.h"

namespace partita {

// A named model: its forward graph for a batch size. Weights are named as in torchvision where it
// has the model, and start like PyTorch's.
struct ZooModel {
  absl::string_view name;
  absl::StatusOr<Graph> (*make)(int64_t batch);
  absl::string_view description;
  // The model unrolled so many steps, for each of its sequences; null for models without steps.
  absl::StatusOr<Graph> (*unroll)(int64_t batch, int64_t steps) = nullptr;
  // The model in other sizes than its own; null for models without sizes to choose.
  absl::StatusOr<Graph> (*resize)(int64_t batch, const ModelSizes& sizes) = nullptr;
};

// The largest sizes that MakeZooModel takes.
constexpr int64_t kMostUnrolled = 4096;  // steps
constexpr int64_t kMostLayers = 1024;
constexpr int64_t kMostWidth = 1 << 17;       // channels, and heads
constexpr int64_t kMostSequence = 1 << 14;    // words, whose mask has so many rows and columns
constexpr int64_t kMostVocabulary = 1 << 22;  // words

// THE table of models. To add one: write its function in one of the files of this folder and add a
// row in models.cc.
std::span<const ZooModel> ZooModels();

// The graph of the model with that name in these sizes. NotFound lists the names. InvalidArgument
// for a batch below 1, for sizes out of range, that do not fit each other, or that the model does
// not have.
absl::StatusOr<Graph> MakeZooModel(const std::string& name, int64_t batch,
                                   const ModelSizes& sizes = {});

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
// GPT in the sizes of the first row of GPT-3's table, or in others (Brown et al. 2020, table 2.1).
absl::StatusOr<Graph> MakeGpt(int64_t batch);
absl::StatusOr<Graph> ResizeGpt(int64_t batch, const ModelSizes& sizes);
// Names of the sizes of GPT-3, the smallest first: "125m" to "175b".
std::vector<std::string> GptSizeNames();
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
