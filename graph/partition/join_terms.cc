#include "graph/partition/join_terms.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "graph/partition/items_by_device.h"

namespace partita {
namespace {

// A term with its pieces, by device.
struct TermPieces {
  int64_t term = 0;
  std::vector<int32_t> pieces;
  std::vector<DeviceId> devices;  // of the pieces
  int32_t box = -1;               // number of the box of all of them; -1: they differ
};

bool AreHeldAlike(const TermPieces& a, const TermPieces& b) {
  return a.box >= 0 && a.box == b.box && a.devices == b.devices;
}

class TermJoiner {
 public:
  explicit TermJoiner(TensorExchange& x)
      : x_(x), by_device_(std::span<const Piece>(x.pieces)), joined_into_(x.pieces.size(), -1) {}

  void Run() {
    if (!HasSeveralOfADevice()) return;
    FindTerms();
    std::sort(terms_.begin(), terms_.end(), [](const TermPieces& a, const TermPieces& b) {
      return std::tie(a.box, a.devices, a.term) < std::tie(b.box, b.devices, b.term);
    });
    for (size_t first = 0; first < terms_.size();) {
      size_t t = first + 1;
      for (; t < terms_.size() && AreHeldAlike(terms_[first], terms_[t]); ++t) {
        Join(terms_[first], terms_[t]);
      }
      first = t;
    }
    if (!added_.empty()) Rebuild();
  }

 private:
  const Piece& At(int32_t piece) const { return x_.pieces[static_cast<size_t>(piece)]; }

  bool HasSeveralOfADevice() const {
    bool found = false;
    by_device_.ForEach(
        [&](DeviceId, std::span<const int32_t> pieces) { found |= pieces.size() > 1; });
    return found;
  }

  // Terms of which a device has two pieces, or one that is empty, are left alone.
  void FindTerms() {
    absl::flat_hash_map<Box, int32_t> boxes;
    absl::flat_hash_map<int64_t, size_t> places;
    by_device_.ForEach([&](DeviceId, std::span<const int32_t> pieces) {
      for (int32_t p : pieces) {
        const Piece& piece = At(p);
        const auto next = static_cast<int32_t>(boxes.size());
        const int32_t box = boxes.try_emplace(piece.box, next).first->second;
        const auto [place, is_new] = places.try_emplace(piece.term, terms_.size());
        if (is_new) terms_.push_back({piece.term, {}, {}, piece.box.empty() ? -1 : box});
        TermPieces& term = terms_[place->second];
        const bool is_second = !is_new && term.devices.back() == piece.device;
        if (is_second || box != term.box) term.box = -1;
        term.pieces.push_back(p);
        term.devices.push_back(piece.device);
      }
    });
  }

  // Adds each piece of a term to that of the first one on its device.
  void Join(const TermPieces& first, const TermPieces& term) {
    for (size_t k = 0; k < term.pieces.size(); ++k) {
      joined_into_[static_cast<size_t>(term.pieces[k])] = first.pieces[k];
      added_.push_back(term.pieces[k]);
    }
  }

  // Keeps the pieces that others are added to, and those that are not joined, in their order.
  void Rebuild() {
    std::vector<int32_t> number(x_.pieces.size(), -1);
    std::vector<Piece> pieces;
    std::vector<BufferId> buffers;  // of pieces, then of what is added
    std::vector<int32_t> microbatches;
    for (size_t p = 0; p < x_.pieces.size(); ++p) {
      if (joined_into_[p] >= 0) continue;
      number[p] = static_cast<int32_t>(pieces.size());
      pieces.push_back(x_.pieces[p]);
      buffers.push_back(x_.piece_buffers[p]);
      microbatches.push_back(x_.MicrobatchOf(static_cast<int32_t>(p)));
    }
    for (int32_t piece : added_) {
      const auto p = static_cast<size_t>(piece);
      const int32_t into = number[static_cast<size_t>(joined_into_[p])];
      x_.added.push_back({into, x_.MicrobatchOf(piece)});
      buffers.push_back(x_.piece_buffers[p]);
    }
    x_.pieces = std::move(pieces);
    x_.piece_buffers = std::move(buffers);
    if (!x_.piece_microbatches.empty()) x_.piece_microbatches = std::move(microbatches);
  }

  TensorExchange& x_;
  const ItemsByDevice by_device_;  // pieces
  std::vector<TermPieces> terms_;
  std::vector<int32_t> joined_into_;  // indexed by piece: that of another term; -1: it stays
  std::vector<int32_t> added_;        // pieces that are joined into others, in their order
};

}  // namespace

void JoinTerms(TensorExchange& x) { TermJoiner(x).Run(); }

}  // namespace partita
