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

  struct ConvOptions {
    int64_t out = 1, kernel = 1, stride = 1;
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
    int64_t kernel = 2, stride = 2;
    std::vector<int64_t> pads = {0};
    bool same = false;
  };
  Net& MaxPool(const std::string& name, const PoolOptions& options);

  Net& Linear(const std::string& name, int64_t out);
  Net& Relu(const std::string& name);
  Net& BatchNorm(const std::string& name);
  Net& Dropout(const std::string& name, double ratio);
  Net& Lrn(const std::string& name, double k);
  Net& GlobalMean(const std::string& name);
  Net& Flatten(const std::string& name);

  // Current tensor; continuation from another; addition of another to the current: for branches.
  TensorId here() const { return here_; }
  Net& From(TensorId id);
  Net& AddTo(const std::string& name, TensorId other);

  // The graph whose logits are the current tensor.
  absl::StatusOr<Graph> Finish() &&;

 private:
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
