#include "runtime/comm/shared_pieces.h"

#include <algorithm>
#include <cstring>

namespace partita {
namespace {

constexpr int64_t kBlock = 8192;  // bytes

}  // namespace

void SharedPieces::Run(std::span<char* const> buffers) {
  const int64_t size = SizeOf(how_.dtype);
  const int64_t step = kBlock / size;
  for (const SharedPiece& piece : pieces_) {
    for (int64_t begin = 0; begin < piece.range.count; begin += step) {
      RunBlock(piece, {buffers, (piece.range.offset + begin) * size,
                       std::min(step, piece.range.count - begin)});
    }
  }
}

// Every result has a slot; after them are those of sums within sums.
void SharedPieces::RunBlock(const SharedPiece& piece, const Block& block) {
  const auto bytes = static_cast<size_t>(block.count * SizeOf(how_.dtype));
  const size_t results = piece.results.size();
  while (slots_.size() < results) slots_.emplace_back(kBlock);
  const char* values = nullptr;
  for (size_t k = 0; k < results; ++k) {
    values = Evaluate(piece.results[k].value, block, k, results);
    if (results > 1 && values != Slot(k)) std::memcpy(Slot(k), values, bytes);
  }
  for (size_t k = 0; k < results; ++k) {
    if (results > 1) values = Slot(k);
    for (const int rank : piece.results[k].ranks) {
      std::memcpy(block.buffers[static_cast<size_t>(rank)] + block.offset, values, bytes);
    }
  }
}

// Where the value lies: in a buffer, or in the slot.
const char* SharedPieces::Evaluate(const SharedValue& value, const Block& block, size_t slot,
                                   size_t deeper) {
  if (value.folded.empty()) {
    return block.buffers[static_cast<size_t>(value.rank)] + block.offset;
  }
  char* sum = Slot(slot);
  const char* left = Evaluate(value.folded[0], block, slot, deeper);
  for (size_t k = 1; k < value.folded.size(); ++k) {
    const char* right = Evaluate(value.folded[k], block, deeper, deeper + 1);
    Combine(how_, left, right, sum, block.count);
    left = sum;
  }
  return sum;
}

char* SharedPieces::Slot(size_t slot) {
  while (slots_.size() <= slot) slots_.emplace_back(kBlock);
  return slots_[slot].data();
}

}  // namespace partita
