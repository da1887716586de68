#pragma once

#include <cstdint>
#include <string>

namespace partita {

// Sizes that a user chooses for a model of the zoo. What is 0 or empty is the model's own; a model
// that has no such size refuses it (MakeZooModel). A plan keeps them, to make its model again.
struct ModelSizes {
  int64_t unroll = 0;      // steps of a recurrent model, for each of its sequences
  std::string size;        // the name of a size of GPT-3, "125m" to "175b"
  int64_t layers = 0;      // of a transformer
  int64_t width = 0;       // channels of a word
  int64_t heads = 0;       // of attention; their number divides the width
  int64_t sequence = 0;    // words in a sample
  int64_t vocabulary = 0;  // different words
  friend bool operator==(const ModelSizes&, const ModelSizes&) = default;
};

}  // namespace partita
