#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace partita {

// Treatment of the values that a model's files keep for its weights.
enum class WeightValues : uint8_t {
  kIfPresent,  // read; where a side file is absent, weights start by their initializers
  kRequired,   // read; an absent side file is an error
  kSkipped,    // not read: side files need only have the required length, and may be absent
};

// The values of a model's weights, which are read when all else in its files has turned out good:
// a bad model costs no memory for its weights, whatever size it says they have.
class PendingValues {
 public:
  // Reads all elements straight into where they stay.
  using Reader = std::function<absl::Status(std::vector<float>& values)>;

  // Registers values that are still to be read; returns the vector for Weight::values, empty until
  // ReadAll. `elements`: how many `read` will store.
  std::shared_ptr<const std::vector<float>> Add(int64_t elements, Reader read);

  // Fills what Add returned. ResourceExhausted, before memory is taken, where they do not fit;
  // `model` is what the message calls their owner. Otherwise the first error of a reader.
  absl::Status ReadAll(absl::string_view model) const;

 private:
  struct Item {
    std::shared_ptr<std::vector<float>> values;
    Reader read;
  };
  std::vector<Item> items_;
  int64_t bytes_ = 0;
};

// Names what a model needs and has not; for messages of WeightValues::kRequired.
absl::Status AbsentValuesError(const std::string& model, int weights, const std::string& side_file);

}  // namespace partita
