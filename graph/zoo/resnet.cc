// Residual nets (He, Zhang, Ren, Sun 2015), with torchvision's names and placement of strides.

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/zoo/models.h"
#include "graph/zoo/net.h"

namespace partita {
namespace {

struct BlockOptions {
  std::string name;
  std::string shortcut = "downsample";  // the name of the shortcut's convolution and norm
  int64_t in = 1, width = 1, out = 1, stride = 1;
  bool bottleneck = false;
};

// x -> relu(branch(x) + shortcut(x)). Two 3x3 convolutions, or 1x1, 3x3, 1x1 (bottleneck, whose
// stride is that of the 3x3).
void AddBlock(Net& net, const BlockOptions& o) {
  const TensorId x = net.here();
  const auto named = [&o](const std::string& part) { return absl::StrCat(o.name, ".", part); };
  const auto conv = [&](int n, int64_t out, int64_t kernel, int64_t stride) {
    net.Conv(named(absl::StrCat("conv", n)),
             {.out = out, .kernel = kernel, .stride = stride, .bias = false, .pads = {kernel / 2}});
    net.BatchNorm(named(absl::StrCat("bn", n)));
  };
  if (o.bottleneck) {
    conv(1, o.width, 1, 1);
    net.Relu(named("relu1"));
    conv(2, o.width, 3, o.stride);
    net.Relu(named("relu2"));
    conv(3, o.out, 1, 1);
  } else {
    conv(1, o.width, 3, o.stride);
    net.Relu(named("relu1"));
    conv(2, o.out, 3, 1);
  }
  const TensorId branch = net.here();
  TensorId shortcut = x;
  if (o.stride != 1 || o.in != o.out) {
    net.From(x)
        .Conv(named(o.shortcut + ".0"), {.out = o.out, .stride = o.stride, .bias = false})
        .BatchNorm(named(o.shortcut + ".1"));
    shortcut = net.here();
  }
  net.From(branch).AddTo(named("add"), shortcut).Relu(named("relu"));
}

struct ResNetSizes {
  std::string name;
  int64_t batch = 1;
  std::vector<int> depths;  // blocks of each stage
  bool bottleneck = true;
  int64_t width = 64;  // of the first stage
  int64_t pixels = 224, classes = 1000;
};

absl::StatusOr<Graph> MakeResNet(const ResNetSizes& sizes) {
  Net net(sizes.name, {sizes.batch, 3, sizes.pixels, sizes.pixels});
  net.Conv("conv1", {.out = sizes.width, .kernel = 7, .stride = 2, .bias = false, .pads = {3}})
      .BatchNorm("bn1")
      .Relu("relu")
      .MaxPool("maxpool", {.kernel = 3, .stride = 2, .pads = {1}});
  int64_t in = sizes.width;
  for (size_t stage = 0; stage < sizes.depths.size(); ++stage) {
    const int64_t width = sizes.width << stage;
    const int64_t out = sizes.bottleneck ? 4 * width : width;
    for (int block = 0; block < sizes.depths[stage]; ++block) {
      AddBlock(net, {.name = absl::StrCat("layer", stage + 1, ".", block),
                     .in = in,
                     .width = width,
                     .out = out,
                     .stride = stage > 0 && block == 0 ? 2 : 1,
                     .bottleneck = sizes.bottleneck});
      in = out;
    }
  }
  net.GlobalMean("avgpool").Flatten("flatten").Linear("fc", sizes.classes);
  return std::move(net).Finish();
}

}  // namespace

absl::StatusOr<Graph> MakeResNet18(int64_t batch) {
  return MakeResNet(
      {.name = "resnet18", .batch = batch, .depths = {2, 2, 2, 2}, .bottleneck = false});
}

absl::StatusOr<Graph> MakeResNet50(int64_t batch) {
  return MakeResNet({.name = "resnet50", .batch = batch, .depths = {3, 4, 6, 3}});
}

absl::StatusOr<Graph> MakeResNet101(int64_t batch) {
  return MakeResNet({.name = "resnet101", .batch = batch, .depths = {3, 4, 23, 3}});
}

absl::StatusOr<Graph> MakeResNet101Tiny(int64_t batch) {
  return MakeResNet({.name = "resnet101_tiny",
                     .batch = batch,
                     .depths = {1, 1, 2, 1},
                     .width = 2,
                     .pixels = 40,
                     .classes = 10});
}

absl::StatusOr<Graph> MakeResNetTiny(int64_t batch) {
  Net net("resnet_tiny", {batch, 3, 32, 32});
  net.Conv("stem.0", {.out = 16, .kernel = 3, .bias = false, .pads = {1}})
      .BatchNorm("stem.1")
      .Relu("stem.2");
  constexpr int64_t kWidths[] = {16, 16, 32, 64};
  for (size_t block = 0; block < 3; ++block) {
    AddBlock(net, {.name = absl::StrCat("blocks.", block),
                   .shortcut = "down",
                   .in = kWidths[block],
                   .width = kWidths[block + 1],
                   .out = kWidths[block + 1],
                   .stride = block == 0 ? 1 : 2});
  }
  net.GlobalMean("avgpool").Flatten("flatten").Linear("head", 10);
  return std::move(net).Finish();
}

}  // namespace partita
