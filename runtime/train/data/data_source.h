#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace partita {

// Extents of one sample, outermost first: channels x height x width, or one extent for flat
// features.
struct SampleShape {
  std::vector<int64_t> dims;

  int64_t elements() const;      // product; 1 for no dims
  std::string ToString() const;  // "3x224x224"
  friend bool operator==(const SampleShape&, const SampleShape&) = default;
};

// InvalidArgument unless there are 1 to 8 extents, all positive, with a product of at most 2^31;
// `what` begins the message.
absl::Status CheckSampleShape(const SampleShape& shape, const std::string& what);

// The shape in which samples of shape `found` are delivered when `wanted` is asked for: `wanted`,
// if it holds the same numbers in the same order: equal but for extents of 1, or one of the two
// flat. An empty `wanted` takes what is found. InvalidArgument otherwise; `what` begins the
// message.
absl::StatusOr<SampleShape> DeliveredShape(const SampleShape& found, const SampleShape& wanted,
                                           const std::string& what);

// The number of classes when labels run up to `largest`: `wanted`, or largest + 1 where that is 0.
// InvalidArgument if a label does not fit; `what` begins the message.
absl::StatusOr<int> DeliveredClasses(int64_t largest, int wanted, const std::string& what);

enum class DataSplit { kTrain, kEval };

// A fixed, indexed set of labelled samples, each a row-major block of floats, or of word numbers.
// All members are const and may be called by any number of threads at once.
class DataSource {
 public:
  virtual ~DataSource() = default;

  virtual int64_t size() const = 0;  // number of samples, at least 1
  virtual const SampleShape& shape() const = 0;
  virtual int classes() const = 0;
  virtual int64_t labels() const { return 1; }  // of each sample
  // Whether x holds word numbers: the bits of an int32 in the place of each float.
  virtual bool gives_words() const { return false; }

  // Sample `index` in [0, size()) as it is in `epoch`: the same values for the same pair in every
  // run, on any thread, in any order. Only sources that augment look at the epoch. x.size() is
  // shape().elements(), `label` has room for labels(). DataLoss, naming the file, says that this one sample is broken and others
  // may be good; any other error is fatal.
  virtual absl::Status Read(int64_t index, int64_t epoch, std::span<float> x,
                            int32_t* label) const = 0;

  // One line for people: what this is, where from, how many.
  virtual std::string Describe() const = 0;
};

}  // namespace partita
