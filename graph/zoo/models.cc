#include "graph/zoo/models.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/support/error_category.h"
#include "graph/support/known_names.h"
#include "graph/support/option.h"

namespace partita {
namespace {

constexpr ZooModel kModels[] = {
    {"alexnet", MakeAlexNet, "AlexNet as in torchvision, 224 px, 1000 classes, 61.1 M parameters"},
    {"alexnet_caffe2012", MakeAlexNetCaffe2012,
     "AlexNet of 2012 as in Caffe, 227 px, two groups, LRN, 61.0 M parameters"},
    {"alexnet_owt2014", MakeAlexNetOwt2014,
     "AlexNet of Krizhevsky 2014 (one weird trick), 224 px, LRN, 61.1 M parameters"},
    {"alexnet_s128", MakeAlexNetS128, "AlexNet-S for 128 px, 2 classes, 36.0 M parameters"},
    {"alexnet_s128_bn", MakeAlexNetS128BatchNorm, "the same with batch normalisation"},
    {"alexnet_s56", MakeAlexNetS56,
     "AlexNet-S for 56 px (Tiny ImageNet), 200 classes, 24.3 M parameters"},
    {"alexnet_s56_bn", MakeAlexNetS56BatchNorm, "the same with batch normalisation"},
    {"alexnet_s_tiny", MakeAlexNetSTiny, "AlexNet-S for 56 px at 1/8 width, 20 classes"},
    {"alexnet_tiny", MakeAlexNetTiny,
     "alexnet for 63 px at 1/32 width, 10 classes, without dropout"},
    {"bert_large", MakeBertLarge, "BERT-large with word scores, 512 words, 335.2 M parameters"},
    {"bert_tiny", MakeBertTiny, "BERT with two layers of width 8, for 4 of 12 words"},
    {"gpt", MakeGpt,
     "GPT in the sizes of GPT-3, 125 M to 175 G parameters (--size), or in others (--layers, "
     "--width, --heads, --sequence, --vocabulary)",
     nullptr, ResizeGpt},
    {"gpt_125m", MakeGpt125M, "GPT-3 small, 2048 words, 125.2 M parameters"},
    {"gpt_1300m", MakeGpt1300M, "GPT-3 XL, 2048 words, 1.3 G parameters"},
    {"gpt_13b", MakeGpt13B, "GPT-3 13B, 2048 words, 12.9 G parameters"},
    {"gpt_175b", MakeGpt175B, "GPT-3, 2048 words, 174.6 G parameters"},
    {"gpt_2700m", MakeGpt2700M, "GPT-3 2.7B, 2048 words, 2.7 G parameters"},
    {"gpt_350m", MakeGpt350M, "GPT-3 medium, 2048 words, 355.9 M parameters"},
    {"gpt_6700m", MakeGpt6700M, "GPT-3 6.7B, 2048 words, 6.7 G parameters"},
    {"gpt_760m", MakeGpt760M, "GPT-3 large, 2048 words, 760.3 M parameters"},
    {"gpt_tiny", MakeGptTiny, "GPT with one layer of width 8, for 4 of 12 words"},
    {"inception_v3", MakeInceptionV3,
     "Inception v3 without auxiliary classifier, 299 px, 1000 classes, 23.8 M parameters"},
    {"inception_v3_tiny", MakeInceptionV3Tiny,
     "one block of each kind at 1/32 width, 75 px, 10 classes, without dropout"},
    {"lenet", MakeLeNet, "LeNet for 28 px digits, 10 classes"},
    {"mlp", MakeMlp, "784-4096-4096-4096-10 with ReLU, 36.8 M parameters"},
    {"mlp_tiny", MakeMlpTiny, "64-96-48-10 with ReLU"},
    {"nmt", MakeNmt,
     "translation as in FlexFlow's paper: 2 LSTM layers each for 20 + 20 words, attention, 230.7 M "
     "parameters",
     UnrollNmt},
    {"nmt_short", MakeNmtShort, "the same for 5 + 5 words, as many as in FlexFlow's simulator",
     UnrollNmt},
    {"nmt_tiny", MakeNmtTiny, "the same with 8 units, for 3 + 3 of 20 words", UnrollNmtTiny},
    {"resnet101", MakeResNet101, "ResNet-101, 224 px, 1000 classes, 44.5 M parameters"},
    {"resnet101_tiny", MakeResNet101Tiny,
     "five bottleneck blocks at 1/32 width, 40 px, 10 classes"},
    {"resnet18", MakeResNet18, "ResNet-18, 224 px, 1000 classes, 11.7 M parameters"},
    {"resnet50", MakeResNet50, "ResNet-50, 224 px, 1000 classes, 25.6 M parameters"},
    {"resnet_tiny", MakeResNetTiny, "three residual blocks for 32 px, 10 classes"},
    {"rnnlm", MakeRnnLm,
     "language model: 2 LSTM layers of 2048 units, 40 of 10000 words, 108.1 M parameters",
     UnrollRnnLm},
    {"rnnlm_tiny", MakeRnnLmTiny, "the same with 8 units, for 3 of 20 words", UnrollRnnLmTiny},
    {"rnntc", MakeRnnTc,
     "text classification: 4 LSTM layers of 2048 units, 40 words, 2 classes, 176.2 M parameters",
     UnrollRnnTc},
    {"rnntc_tiny", MakeRnnTcTiny, "the same with 8 units, for 3 of 20 words", UnrollRnnTcTiny},
    {"vit_b_16", MakeVitB16,
     "ViT-B/16 that classifies the mean of its patches, 224 px, 1000 classes, 86.6 M parameters"},
    {"vit_tiny", MakeVitTiny, "ViT with two layers of width 8, 12 px in 9 patches, 5 classes"},
    {"vgg11", MakeVgg11, "VGG-11, 224 px, 1000 classes, 132.9 M parameters"},
    {"vgg16", MakeVgg16, "VGG-16, 224 px, 1000 classes, 138.4 M parameters"},
};

// What is said of a model that has no `what`, of which `has` tells who does.
template <class Has>
absl::Status Lacks(const ZooModel& model, absl::string_view what, Has&& has) {
  std::vector<absl::string_view> names;
  for (const ZooModel& one : kModels) {
    if (has(one)) names.push_back(one.name);
  }
  return UsageError(absl::StrCat("'", model.name, "' has no ", what, "; models that have them are ",
                                 absl::StrJoin(names, ", ")));
}

absl::StatusOr<Graph> Unrolled(const ZooModel& model, int64_t batch, int64_t steps) {
  if (steps < 1 || steps > kMostUnrolled) {
    return UsageError(absl::StrCat("steps to unroll are ", steps, "; wanted 1 to ", kMostUnrolled));
  }
  if (model.unroll != nullptr) return model.unroll(batch, steps);
  return Lacks(model, "steps to unroll", [](const ZooModel& one) { return one.unroll != nullptr; });
}

absl::StatusOr<Graph> Sized(const ZooModel& model, int64_t batch, ModelSizes sizes) {
  if (sizes == ModelSizes{}) return model.make(batch);
  const int64_t steps = std::exchange(sizes.unroll, 0);
  if (sizes == ModelSizes{}) return Unrolled(model, batch, steps);
  if (model.resize == nullptr) {
    return Lacks(model, "sizes to choose (size, layers, width, heads, sequence, vocabulary)",
                 [](const ZooModel& one) { return one.resize != nullptr; });
  }
  if (steps != 0) return Unrolled(model, batch, steps);
  return model.resize(batch, sizes);
}

}  // namespace

std::span<const ZooModel> ZooModels() { return kModels; }

absl::StatusOr<Graph> MakeZooModel(const std::string& name, int64_t batch,
                                   const ModelSizes& sizes) {
  constexpr int64_t kMaxBatch = 1 << 20;
  if (batch < 1 || batch > kMaxBatch) {
    return absl::InvalidArgumentError(
        absl::StrCat("the batch is ", batch, "; wanted 1 to ", kMaxBatch));
  }
  for (const ZooModel& model : kModels) {
    if (model.name == name) return Sized(model, batch, sizes);
  }
  return absl::NotFoundError(absl::StrCat(UnknownNameText("model", name, NamesOf(kModels)),
                                          " (a file's name has a '/' or an ending)"));
}

}  // namespace partita
