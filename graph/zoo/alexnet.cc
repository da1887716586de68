// AlexNet and its relatives. Layer numbers are positions in torchvision's modules, dropouts
// included.

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/zoo/models.h"
#include "graph/zoo/net.h"

namespace partita {
namespace {

Net::PoolOptions OverlappingPool() { return {.kernel = 3, .stride = 2}; }

struct ClassifierSizes {
  int64_t hidden = 4096, classes = 1000;
  double dropout = 0.5;  // 0: none
};

void AddClassifier(Net& net, const ClassifierSizes& sizes) {
  const auto dropout = [&](const char* name) {
    if (sizes.dropout > 0) net.Dropout(name, sizes.dropout);
  };
  net.Flatten("flatten");
  dropout("classifier.0");
  net.Linear("classifier.1", sizes.hidden).Relu("classifier.2");
  dropout("classifier.3");
  net.Linear("classifier.4", sizes.hidden)
      .Relu("classifier.5")
      .Linear("classifier.6", sizes.classes);
}

struct TorchvisionSizes {
  std::string name;
  int64_t batch = 1, pixels = 224;
  int64_t divisor = 1;  // of the convolutions' widths
  ClassifierSizes classifier;
};

absl::StatusOr<Graph> MakeTorchvision(const TorchvisionSizes& sizes) {
  Net net(sizes.name, {sizes.batch, 3, sizes.pixels, sizes.pixels});
  const auto width = [&](int64_t whole) { return whole / sizes.divisor; };
  net.Conv("features.0", {.out = width(64), .kernel = 11, .stride = 4, .pads = {2}})
      .Relu("features.1")
      .MaxPool("features.2", OverlappingPool())
      .Conv("features.3", {.out = width(192), .kernel = 5, .pads = {2}})
      .Relu("features.4")
      .MaxPool("features.5", OverlappingPool())
      .Conv("features.6", {.out = width(384), .kernel = 3, .pads = {1}})
      .Relu("features.7")
      .Conv("features.8", {.out = width(256), .kernel = 3, .pads = {1}})
      .Relu("features.9")
      .Conv("features.10", {.out = width(256), .kernel = 3, .pads = {1}})
      .Relu("features.11")
      .MaxPool("features.12", OverlappingPool());
  AddClassifier(net, sizes.classifier);
  return std::move(net).Finish();
}

// AlexNet-S: every convolution and pool has SAME padding, so ceil(in / stride), and there is no
// dropout.
struct SmallOptions {
  std::string name;
  int64_t batch = 1, pixels = 56, classes = 200;
  std::vector<int64_t> widths = {64, 192, 384, 256, 256};
  int64_t hidden = 4096;
  bool batch_norm = false;
  // Kernel / 2 on every side instead of SAME: the same sizes, as PyTorch can say it.
  bool symmetric = false;
};

absl::StatusOr<Graph> MakeSmall(const SmallOptions& o) {
  Net net(o.name, {o.batch, 3, o.pixels, o.pixels});
  constexpr int64_t kKernels[] = {11, 5, 3, 3, 3};
  int layer = 0;
  const auto next = [&layer] { return absl::StrCat("features.", layer++); };
  for (size_t c = 0; c < 5; ++c) {
    Net::ConvOptions conv{.out = o.widths[c], .kernel = kKernels[c], .stride = c == 0 ? 4 : 1};
    conv.bias = !o.batch_norm;
    conv.same = !o.symmetric;
    if (o.symmetric) conv.pads = {kKernels[c] / 2};
    net.Conv(next(), conv);
    if (o.batch_norm) net.BatchNorm(next());
    net.Relu(next());
    if (c == 2 || c == 3) continue;
    Net::PoolOptions pool = OverlappingPool();
    pool.same = !o.symmetric;
    if (o.symmetric) pool.pads = {1};
    net.MaxPool(next(), pool);
  }
  net.Flatten("flatten")
      .Linear("classifier.0", o.hidden)
      .Relu("classifier.1")
      .Linear("classifier.2", o.hidden)
      .Relu("classifier.3")
      .Linear("classifier.4", o.classes);
  return std::move(net).Finish();
}

}  // namespace

absl::StatusOr<Graph> MakeAlexNet(int64_t batch) {
  return MakeTorchvision({.name = "alexnet", .batch = batch});
}

absl::StatusOr<Graph> MakeAlexNetTiny(int64_t batch) {
  return MakeTorchvision({.name = "alexnet_tiny",
                          .batch = batch,
                          .pixels = 63,
                          .divisor = 32,
                          .classifier = {.hidden = 32, .classes = 10, .dropout = 0}});
}

// Krizhevsky 2014: no padding in front of the first convolution, whose number of windows is rounded
// up, which is three rows of zeros at the end; normalisation and pooling in front of the ReLU.
absl::StatusOr<Graph> MakeAlexNetOwt2014(int64_t batch) {
  Net net("alexnet_owt2014", {batch, 3, 224, 224});
  net.Conv("features.0", {.out = 64, .kernel = 11, .stride = 4, .pads = {0, 0, 3, 3}})
      .Lrn("features.1", 2)
      .MaxPool("features.2", OverlappingPool())
      .Relu("features.3")
      .Conv("features.4", {.out = 192, .kernel = 5, .pads = {2}})
      .Lrn("features.5", 2)
      .MaxPool("features.6", OverlappingPool())
      .Relu("features.7")
      .Conv("features.8", {.out = 384, .kernel = 3, .pads = {1}})
      .Relu("features.9")
      .Conv("features.10", {.out = 256, .kernel = 3, .pads = {1}})
      .Relu("features.11")
      .Conv("features.12", {.out = 256, .kernel = 3, .pads = {1}})
      .Relu("features.13")
      .MaxPool("features.14", OverlappingPool());
  AddClassifier(net, {});
  return std::move(net).Finish();
}

absl::StatusOr<Graph> MakeAlexNetCaffe2012(int64_t batch) {
  Net net("alexnet_caffe2012", {batch, 3, 227, 227});
  net.Conv("conv1", {.out = 96, .kernel = 11, .stride = 4})
      .Relu("relu1")
      .Lrn("norm1", 1)
      .MaxPool("pool1", OverlappingPool())
      .Conv("conv2", {.out = 256, .kernel = 5, .groups = 2, .pads = {2}})
      .Relu("relu2")
      .Lrn("norm2", 1)
      .MaxPool("pool2", OverlappingPool())
      .Conv("conv3", {.out = 384, .kernel = 3, .pads = {1}})
      .Relu("relu3")
      .Conv("conv4", {.out = 384, .kernel = 3, .groups = 2, .pads = {1}})
      .Relu("relu4")
      .Conv("conv5", {.out = 256, .kernel = 3, .groups = 2, .pads = {1}})
      .Relu("relu5")
      .MaxPool("pool5", OverlappingPool())
      .Flatten("flatten")
      .Linear("fc6", 4096)
      .Relu("relu6")
      .Dropout("drop6", 0.5)
      .Linear("fc7", 4096)
      .Relu("relu7")
      .Dropout("drop7", 0.5)
      .Linear("fc8", 1000);
  return std::move(net).Finish();
}

absl::StatusOr<Graph> MakeAlexNetS56(int64_t batch) {
  return MakeSmall({.name = "alexnet_s56", .batch = batch});
}

absl::StatusOr<Graph> MakeAlexNetS128(int64_t batch) {
  return MakeSmall({.name = "alexnet_s128", .batch = batch, .pixels = 128, .classes = 2});
}

absl::StatusOr<Graph> MakeAlexNetS56BatchNorm(int64_t batch) {
  return MakeSmall({.name = "alexnet_s56_bn", .batch = batch, .batch_norm = true});
}

absl::StatusOr<Graph> MakeAlexNetS128BatchNorm(int64_t batch) {
  return MakeSmall(
      {.name = "alexnet_s128_bn", .batch = batch, .pixels = 128, .classes = 2, .batch_norm = true});
}

absl::StatusOr<Graph> MakeAlexNetSTiny(int64_t batch) {
  return MakeSmall({.name = "alexnet_s_tiny",
                    .batch = batch,
                    .classes = 20,
                    .widths = {8, 24, 48, 32, 32},
                    .hidden = 256,
                    .symmetric = true});
}

}  // namespace partita
