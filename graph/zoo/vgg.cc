// VGG (Simonyan, Zisserman 2014) without batch normalisation, with torchvision's names.

#include "absl/strings/str_cat.h"
#include "graph/zoo/models.h"
#include "graph/zoo/net.h"

namespace partita {
namespace {

// `widths`: of the convolutions; 0 stands for a pool.
absl::StatusOr<Graph> MakeVgg(const std::string& name, int64_t batch,
                              const std::vector<int64_t>& widths) {
  Net net(name, {batch, 3, 224, 224});
  int layer = 0;
  const auto next = [&layer] { return absl::StrCat("features.", layer++); };
  for (int64_t width : widths) {
    if (width == 0) {
      net.MaxPool(next(), {.kernel = 2, .stride = 2});
    } else {
      net.Conv(next(), {.out = width, .kernel = 3, .pads = {1}});
      net.Relu(next());
    }
  }
  net.Flatten("flatten")
      .Linear("classifier.0", 4096)
      .Relu("classifier.1")
      .Dropout("classifier.2", 0.5)
      .Linear("classifier.3", 4096)
      .Relu("classifier.4")
      .Dropout("classifier.5", 0.5)
      .Linear("classifier.6", 1000);
  return std::move(net).Finish();
}

}  // namespace

absl::StatusOr<Graph> MakeVgg11(int64_t batch) {
  return MakeVgg("vgg11", batch, {64, 0, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512, 0});
}

absl::StatusOr<Graph> MakeVgg16(int64_t batch) {
  return MakeVgg("vgg16", batch,
                 {64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0});
}

}  // namespace partita
