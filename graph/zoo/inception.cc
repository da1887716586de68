// Inception v3 (Szegedy, Vanhoucke, Ioffe, Shlens, Wojna 2015) without the auxiliary classifier,
// with torchvision's names.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/zoo/models.h"
#include "graph/zoo/net.h"

namespace partita {
namespace {

struct InceptionSizes {
  std::string name;
  int64_t batch = 1, pixels = 299, classes = 1000;
  int64_t divisor = 1;     // of all widths
  bool all_blocks = true;  // otherwise one of each kind
  double dropout = 0.5;    // 0: none
};

// A block of branches that start from one tensor and are concatenated along the channels.
class Inception {
 public:
  Inception(Net& net, std::string name, int64_t divisor)
      : net_(net), name_(std::move(name)), divisor_(divisor), x_(net.here()) {}

  // Starts a branch at the block's input; or at `from`.
  Inception& Branch() { return Branch(x_); }
  Inception& Branch(TensorId from) {
    net_.From(from);
    return *this;
  }
  // Convolution without bias, batch normalisation, ReLU. With stride 1 it keeps height and width.
  Inception& Conv(const std::string& part, int64_t out, Net::Window kernel, int64_t stride = 1) {
    AddConv(net_, absl::StrCat(name_, ".", part),
            {.out = Width(out, divisor_),
             .kernel = kernel,
             .stride = stride,
             .pads = KeepingPads(kernel, stride)});
    return *this;
  }
  Inception& AveragePool() {
    net_.AveragePool(absl::StrCat(name_, ".avg_pool"), {.kernel = 3, .stride = 1, .pads = {1}});
    return *this;
  }
  Inception& MaxPool() {
    net_.MaxPool(absl::StrCat(name_, ".max_pool"), {.kernel = 3, .stride = 2});
    return *this;
  }
  // Ends a branch.
  Inception& End() {
    ends_.push_back(net_.here());
    return *this;
  }
  TensorId here() const { return net_.here(); }
  void Join() { net_.ConcatChannels(absl::StrCat(name_, ".concat"), ends_); }

  static int64_t Width(int64_t whole, int64_t divisor) {
    return std::max<int64_t>(whole / divisor, 2);
  }
  static void AddConv(Net& net, const std::string& name, Net::ConvOptions options) {
    options.bias = false;
    net.Conv(name + ".conv", options).BatchNorm(name + ".bn", 1e-3).Relu(name + ".relu");
  }

 private:
  static std::vector<int64_t> KeepingPads(Net::Window kernel, int64_t stride) {
    if (stride != 1) return {0};
    return {kernel.height / 2, kernel.width / 2, kernel.height / 2, kernel.width / 2};
  }

  Net& net_;
  const std::string name_;
  const int64_t divisor_;  // of widths
  const TensorId x_;
  std::vector<TensorId> ends_;
};

constexpr Net::Window kRow = {1, 7}, kColumn = {7, 1};

// 35 x 35: branches of 1x1, 5x5 and two 3x3 convolutions.
void AddBlock35(Inception block, int64_t pool_width) {
  block.Branch().Conv("branch1x1", 64, 1).End();
  block.Branch().Conv("branch5x5_1", 48, 1).Conv("branch5x5_2", 64, 5).End();
  block.Branch().Conv("branch3x3dbl_1", 64, 1).Conv("branch3x3dbl_2", 96, 3);
  block.Conv("branch3x3dbl_3", 96, 3).End();
  block.Branch().AveragePool().Conv("branch_pool", pool_width, 1).End();
  block.Join();
}

// From 35 x 35 to 17 x 17.
void AddReductionTo17(Inception block) {
  block.Branch().Conv("branch3x3", 384, 3, 2).End();
  block.Branch().Conv("branch3x3dbl_1", 64, 1).Conv("branch3x3dbl_2", 96, 3);
  block.Conv("branch3x3dbl_3", 96, 3, 2).End();
  block.Branch().MaxPool().End();
  block.Join();
}

// 17 x 17: 7x7 convolutions as pairs of a row and a column.
void AddBlock17(Inception block, int64_t width) {
  block.Branch().Conv("branch1x1", 192, 1).End();
  block.Branch().Conv("branch7x7_1", width, 1).Conv("branch7x7_2", width, kRow);
  block.Conv("branch7x7_3", 192, kColumn).End();
  block.Branch().Conv("branch7x7dbl_1", width, 1).Conv("branch7x7dbl_2", width, kColumn);
  block.Conv("branch7x7dbl_3", width, kRow).Conv("branch7x7dbl_4", width, kColumn);
  block.Conv("branch7x7dbl_5", 192, kRow).End();
  block.Branch().AveragePool().Conv("branch_pool", 192, 1).End();
  block.Join();
}

// From 17 x 17 to 8 x 8.
void AddReductionTo8(Inception block) {
  block.Branch().Conv("branch3x3_1", 192, 1).Conv("branch3x3_2", 320, 3, 2).End();
  block.Branch().Conv("branch7x7x3_1", 192, 1).Conv("branch7x7x3_2", 192, kRow);
  block.Conv("branch7x7x3_3", 192, kColumn).Conv("branch7x7x3_4", 192, 3, 2).End();
  block.Branch().MaxPool().End();
  block.Join();
}

// 8 x 8: branches that fork into a row and a column. Their ends are concatenated at once.
void AddBlock8(Inception block) {
  block.Branch().Conv("branch1x1", 320, 1).End();
  const TensorId fork = block.Branch().Conv("branch3x3_1", 384, 1).here();
  block.Branch(fork).Conv("branch3x3_2a", 384, {1, 3}).End();
  block.Branch(fork).Conv("branch3x3_2b", 384, {3, 1}).End();
  block.Branch().Conv("branch3x3dbl_1", 448, 1);
  const TensorId double_fork = block.Conv("branch3x3dbl_2", 384, 3).here();
  block.Branch(double_fork).Conv("branch3x3dbl_3a", 384, {1, 3}).End();
  block.Branch(double_fork).Conv("branch3x3dbl_3b", 384, {3, 1}).End();
  block.Branch().AveragePool().Conv("branch_pool", 192, 1).End();
  block.Join();
}

absl::StatusOr<Graph> MakeInception(const InceptionSizes& sizes) {
  Net net(sizes.name, {sizes.batch, 3, sizes.pixels, sizes.pixels});
  const auto conv = [&](const char* name, Net::ConvOptions options) {
    options.out = Inception::Width(options.out, sizes.divisor);
    Inception::AddConv(net, name, std::move(options));
  };
  const auto block = [&](const char* name) { return Inception(net, name, sizes.divisor); };
  conv("Conv2d_1a_3x3", {.out = 32, .kernel = 3, .stride = 2});
  conv("Conv2d_2a_3x3", {.out = 32, .kernel = 3});
  conv("Conv2d_2b_3x3", {.out = 64, .kernel = 3, .pads = {1}});
  net.MaxPool("maxpool1", {.kernel = 3, .stride = 2});
  conv("Conv2d_3b_1x1", {.out = 80});
  conv("Conv2d_4a_3x3", {.out = 192, .kernel = 3});
  net.MaxPool("maxpool2", {.kernel = 3, .stride = 2});
  AddBlock35(block("Mixed_5b"), 32);
  if (sizes.all_blocks) {
    AddBlock35(block("Mixed_5c"), 64);
    AddBlock35(block("Mixed_5d"), 64);
  }
  AddReductionTo17(block("Mixed_6a"));
  AddBlock17(block("Mixed_6b"), 128);
  if (sizes.all_blocks) {
    AddBlock17(block("Mixed_6c"), 160);
    AddBlock17(block("Mixed_6d"), 160);
    AddBlock17(block("Mixed_6e"), 192);
  }
  AddReductionTo8(block("Mixed_7a"));
  AddBlock8(block("Mixed_7b"));
  if (sizes.all_blocks) AddBlock8(block("Mixed_7c"));
  net.GlobalMean("avgpool");
  if (sizes.dropout > 0) net.Dropout("dropout", sizes.dropout);
  net.Flatten("flatten").Linear("fc", sizes.classes);
  return std::move(net).Finish();
}

}  // namespace

absl::StatusOr<Graph> MakeInceptionV3(int64_t batch) {
  return MakeInception({.name = "inception_v3", .batch = batch});
}

absl::StatusOr<Graph> MakeInceptionV3Tiny(int64_t batch) {
  return MakeInception({.name = "inception_v3_tiny",
                        .batch = batch,
                        .pixels = 75,
                        .classes = 10,
                        .divisor = 32,
                        .all_blocks = false,
                        .dropout = 0});
}

}  // namespace partita
