// Small nets: LeNet and multi-layer perceptrons.

#include "absl/strings/str_cat.h"
#include "graph/zoo/models.h"
#include "graph/zoo/net.h"

namespace partita {
namespace {

absl::StatusOr<Graph> MakePerceptron(const std::string& name, int64_t batch,
                                     const std::vector<int64_t>& widths) {
  Net net(name, {batch, widths[0]});
  for (size_t layer = 1; layer < widths.size(); ++layer) {
    if (layer > 1) net.Relu(absl::StrCat(2 * layer - 3));
    net.Linear(absl::StrCat(2 * layer - 2), widths[layer]);
  }
  return std::move(net).Finish();
}

}  // namespace

absl::StatusOr<Graph> MakeLeNet(int64_t batch) {
  Net net("lenet", {batch, 1, 28, 28});
  net.Conv("conv1", {.out = 6, .kernel = 5, .pads = {2}})
      .Relu("relu1")
      .MaxPool("pool1", {.kernel = 2, .stride = 2})
      .Conv("conv2", {.out = 16, .kernel = 5})
      .Relu("relu2")
      .MaxPool("pool2", {.kernel = 2, .stride = 2})
      .Flatten("flatten")
      .Linear("fc1", 84)
      .Relu("relu3")
      .Linear("fc2", 10);
  return std::move(net).Finish();
}

absl::StatusOr<Graph> MakeMlp(int64_t batch) {
  return MakePerceptron("mlp", batch, {784, 4096, 4096, 4096, 10});
}

absl::StatusOr<Graph> MakeMlpTiny(int64_t batch) {
  return MakePerceptron("mlp_tiny", batch, {64, 96, 48, 10});
}

}  // namespace partita
