#include "graph/partition/near_demands.h"

#include <algorithm>
#include <utility>

#include "graph/partition/box_product.h"
#include "graph/partition/items_by_device.h"

namespace partita {
namespace {

class NearFinder {
 public:
  NearFinder(std::span<const Piece> pieces, std::span<const Demand> demands,
             const CompletePieces& complete)
      : pieces_(pieces),
        demands_(demands),
        is_complete_(complete.is_complete),
        pieces_at_(pieces),
        demands_at_(demands) {}

  NearDemands Find() && {
    demands_at_.ForEach([this](DeviceId device, std::span<const int32_t> demands) {
      AddDevice(demands, pieces_at_.At(device));
    });
    std::sort(found_.far.begin(), found_.far.end());
    return std::move(found_);
  }

 private:
  static constexpr size_t kFew = 8;  // boxes that are compared in pairs at once

  struct Sized {
    int64_t volume;
    int32_t demand;
  };

  // Sorts the demands of a device that has these pieces.
  void AddDevice(std::span<const int32_t> demands, std::span<const int32_t> own) {
    rest_.clear();
    for (int32_t j : demands) {
      const Box& box = BoxOf(j);
      if (box.empty()) continue;
      const auto holds = [&](int32_t p) {
        const auto piece = static_cast<size_t>(p);
        return is_complete_[piece] && pieces_[piece].box.Contains(box);
      };
      const auto holder = std::find_if(own.begin(), own.end(), holds);
      if (holder != own.end()) {
        found_.of_pieces.push_back({j, *holder});
      } else {
        rest_.push_back({box.volume(), j});
      }
    }
    if (rest_.size() == 1) return found_.far.push_back(rest_[0].demand);
    AddRest();
  }

  // Larger demands first: what lies inside one of them comes from there. Boxes of one size, which
  // are mostly disjoint, are not compared for that.
  void AddRest() {
    std::stable_sort(rest_.begin(), rest_.end(),
                     [](const Sized& a, const Sized& b) { return a.volume > b.volume; });
    far_.clear();
    for (const Sized& one : rest_) {
      const Box& box = BoxOf(one.demand);
      const auto source = std::find_if(far_.begin(), far_.end(), [&](const Sized& other) {
        return other.volume <= one.volume || BoxOf(other.demand).Contains(box);
      });
      if (source != far_.end() && source->volume > one.volume) {
        found_.of_demands.push_back({one.demand, source->demand});
        continue;
      }
      far_.push_back(one);
      found_.far.push_back(one.demand);
    }
    found_.far_overlap = found_.far_overlap || HasOverlap();
  }

  // Whether two of far_ have elements in common. Many are mostly slices or blocks of a grid.
  bool HasOverlap() const {
    if (far_.size() > kFew) {
      std::vector<Box> boxes;
      boxes.reserve(far_.size());
      for (const Sized& one : far_) boxes.push_back(BoxOf(one.demand));
      const auto product = BoxProduct::Of(boxes);
      if (product.has_value()) return !product->IsDisjoint();
    }
    for (size_t a = 0; a < far_.size(); ++a) {
      for (size_t b = 0; b < a; ++b) {
        if (!AreDisjoint(BoxOf(far_[a].demand), BoxOf(far_[b].demand))) return true;
      }
    }
    return false;
  }

  const Box& BoxOf(int32_t demand) const { return demands_[static_cast<size_t>(demand)].box; }

  const std::span<const Piece> pieces_;
  const std::span<const Demand> demands_;
  const std::vector<bool>& is_complete_;
  const ItemsByDevice pieces_at_, demands_at_;
  std::vector<Sized> rest_, far_;  // of the device at hand
  NearDemands found_;
};

}  // namespace

CompletePieces FindCompletePieces(std::span<const Piece> pieces, const DistinctBoxes& sources,
                                  bool are_disjoint) {
  CompletePieces complete{std::vector<bool>(pieces.size(), false)};
  const auto is_first = [&](const Piece& piece) { return piece.term == pieces[0].term; };
  if (std::all_of(pieces.begin(), pieces.end(), is_first)) {
    complete.is_complete.assign(pieces.size(), true);
  } else if (are_disjoint) {
    const auto term_of = [&](int32_t p) { return pieces[static_cast<size_t>(p)].term; };
    for (const auto& members : sources.members) {
      const auto is_alike = [&](int32_t p) { return term_of(p) == term_of(members[0]); };
      if (!std::all_of(members.begin(), members.end(), is_alike)) continue;
      for (int32_t p : members) complete.is_complete[static_cast<size_t>(p)] = true;
    }
  }
  complete.all = std::ranges::all_of(complete.is_complete, [](bool is) { return is; });
  return complete;
}

NearDemands FindNearDemands(std::span<const Piece> pieces, std::span<const Demand> demands,
                            const CompletePieces& complete) {
  return NearFinder(pieces, demands, complete).Find();
}

}  // namespace partita
