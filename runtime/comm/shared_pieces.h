#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "graph/collective/shared_work.h"
#include "runtime/comm/fold.h"

namespace partita {

// A worker's pieces of a collective in place, done on the buffers of all ranks.
class SharedPieces {
 public:
  SharedPieces(std::vector<SharedPiece> pieces, const TypedReduction& how)
      : pieces_(std::move(pieces)), how_(how) {}

  // `buffers`: by rank of the collective; only those of ranks in the pieces are looked at.
  void Run(std::span<char* const> buffers);

 private:
  // Block of a piece's elements, small enough to stay in the core's first-level cache.
  struct Block {
    std::span<char* const> buffers;
    int64_t offset = 0;  // offset in bytes
    int64_t count = 0;
  };
  void RunBlock(const SharedPiece& piece, const Block& block);
  const char* Evaluate(const SharedValue& value, const Block& block, size_t slot, size_t deeper);
  char* Slot(size_t slot);

  std::vector<SharedPiece> pieces_;
  TypedReduction how_;
  std::vector<std::vector<char>> slots_;
};

}  // namespace partita
