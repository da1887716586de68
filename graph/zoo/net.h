#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/graph.h"

namespace partita {

// Builds a feed-forward net layer by layer. Each call adds a layer after the current tensor, under
// a name from which its weights are named as PyTorch names them ("NAME.weight", "NAME.bias"). The
// first error stays and is what Finish returns. Weights start like PyTorch's.
class Net {
 public:
  // Input `x` of that shape, batch first.
  Net(std::string name, Shape input);

  // Height and width of a kernel; of a square one, its side.
  struct Window {
    constexpr Window(int64_t side) : height(side), width(side) {}  // NOLINT: a number is a square
    constexpr Window(int64_t rows, int64_t columns) : height(rows), width(columns) {}
    int64_t height, width;
  };
  struct ConvOptions {
    int64_t out = 1;
    Window kernel = 1;
    int64_t stride = 1;
    int64_t groups = 1;
    bool bias = true;
    // Top, left, bottom, right; or one for all sides.
    std::vector<int64_t> pads = {0};
    // Pads chosen, instead of given, so that the result has ceil(in / stride) elements; the odd one
    // is at the end.
    bool same = false;
  };
  Net& Conv(const std::string& name, const ConvOptions& options);

  struct PoolOptions {
    Window kernel = 2;
    int64_t stride = 2;
    std::vector<int64_t> pads = {0};
    bool same = false;
  };
  Net& MaxPool(const std::string& name, const PoolOptions& options);
  // Means over windows in which padding counts as zeros, as by PyTorch's default.
  Net& AveragePool(const std::string& name, const PoolOptions& options);

  Net& Linear(const std::string& name, int64_t out);
  Net& Relu(const std::string& name);
  Net& BatchNorm(const std::string& name, double epsilon = 1e-5);
  Net& Dropout(const std::string& name, double ratio);
  Net& Lrn(const std::string& name, double k);
  Net& GlobalMean(const std::string& name);
  Net& Flatten(const std::string& name);

  // Current tensor; continuation from another; addition of another to the current; concatenation of
  // several along the channels: for branches.
  TensorId here() const { return here_; }
  Net& From(TensorId id);
  Net& AddTo(const std::string& name, TensorId other);
  Net& ConcatChannels(const std::string& name, std::vector<TensorId> parts);

  // The graph whose logits are the current tensor.
  absl::StatusOr<Graph> Finish() &&;

 private:
  Net& Pool(const std::string& name, const std::string& function, const PoolOptions& options);
  TensorId Weight(const std::string& name, Shape shape, Initializer initializer,
                  bool trainable = true);
  Net& Add(const std::string& name, OpAttrs attrs, std::vector<TensorId> inputs);
  Net& Take(absl::StatusOr<TensorId> result);
  const Shape& shape() const { return builder_.tensor(here_).type.shape; }

  GraphBuilder builder_;
  absl::Status status_;
  TensorId here_ = kNoTensor;
};

}  // namespace partita
