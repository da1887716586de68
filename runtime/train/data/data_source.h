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

// The largest label of a set, with the first sample that has it.
struct LargestLabel {
  int64_t label = 0;
  int64_t sample = 0;  // index
};

// The number of classes of a set whose labels are all that says how many there are: `wanted`, or
// the largest label + 1 where that is 0. Labels may leave the last classes of the model out
// (DataSource::labelled_classes). InvalidArgument, with the sample's index, if a label does not
// fit; `what`, where the labels are from, begins the message.
absl::StatusOr<int> DeliveredClasses(const LargestLabel& largest, int wanted,
                                     const std::string& what);

// InvalidArgument unless a set that says itself how many classes it has, `found`, has as many as are
// `wanted` (0: any). `what`, the set and where the number is from, begins the message; `remedy`
// says what to try beside another model.
absl::Status CheckClassCount(int64_t found, int wanted, const std::string& what,
                             const std::string& remedy);

enum class DataSplit { kTrain, kEval };

// A fixed, indexed set of labelled samples, each a row-major block of floats, or of word numbers.
// All members are const and may be called by any number of threads at once.
class DataSource {
 public:
  virtual ~DataSource() = default;

  virtual int64_t size() const = 0;  // number of samples, at least 1
  virtual const SampleShape& shape() const = 0;
  virtual int classes() const = 0;
  // Classes that the labels can be of: those below the largest label and its own, at most
  // classes(), where labels are all that says how many there are; otherwise classes().
  virtual int labelled_classes() const { return classes(); }
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

// Note for people on a source, before a model is trained or evaluated on it: the last classes of the
// model that no sample has. Empty if there are none.
std::string NoteOnClasses(const DataSource& source);

}  // namespace partita
