#include "graph/partition/overlap_sums.h"

#include <algorithm>
#include <utility>

#include "graph/partition/box_product.h"
#include "graph/partition/items_by_device.h"
#include "graph/partition/overlap_regions.h"

namespace partita {
namespace {

// Pieces of one box that are sent one by one; and from which on they send so much more than others that
// these need not be added before.
constexpr size_t kMostOfAPair = 2;
constexpr size_t kLeastOfACollective = 8;
constexpr size_t kMostOfADevice = 16;  // pieces
// Least share of what is sent, as a divisor, that devices could add before to make regions better.
constexpr int64_t kLeastShare = 8;

bool HaveTermsOfTheirOwn(std::span<const Piece> pieces) {
  std::vector<int64_t> terms;
  terms.reserve(pieces.size());
  for (const Piece& piece : pieces) terms.push_back(piece.term);
  std::sort(terms.begin(), terms.end());
  return std::adjacent_find(terms.begin(), terms.end()) == terms.end();
}

// The boxes of pieces that are sent one by one, and those of collectives.
struct SplitBoxes {
  DistinctBoxes of_parts, of_collectives;
};
// nullopt where some are neither.
std::optional<SplitBoxes> SplitByCount(const DistinctBoxes& sources) {
  SplitBoxes split;
  for (size_t k = 0; k < sources.boxes.size(); ++k) {
    const size_t count = sources.members[k].size();
    if (count > kMostOfAPair && count < kLeastOfACollective) return std::nullopt;
    DistinctBoxes& boxes = count <= kMostOfAPair ? split.of_parts : split.of_collectives;
    boxes.boxes.push_back(sources.boxes[k]);
    boxes.members.push_back(sources.members[k]);
  }
  return split;
}

class SumFinder {
 public:
  SumFinder(std::span<const Piece> pieces, std::span<const Demand> demands, SplitBoxes sources,
            const DistinctBoxes& wants)
      : pieces_(pieces), demands_(demands), sources_(std::move(sources)), wants_(wants) {}

  std::optional<OverlapSums> Find() {
    const auto grid = BoxProduct::OfDisjoint(wants_.boxes);
    if (!grid.has_value()) return std::nullopt;
    auto overlaps = OverlapsOfTerms(sources_.of_parts, wants_, *grid);
    if (!overlaps.has_value()) return std::nullopt;
    const auto added_before = AddedBefore();
    if (!added_before.has_value() || *added_before * kLeastShare > SentBy(*overlaps)) {
      return std::nullopt;
    }
    AddParts(overlaps->list);
    sums_.boxes = std::move(overlaps->boxes);
    sums_.of_collectives = std::move(sources_.of_collectives);
    return std::move(sums_);
  }

 private:
  DeviceId DeviceOf(int32_t piece) const { return pieces_[static_cast<size_t>(piece)].device; }
  DeviceId DeviceOfDemand(int32_t j) const { return demands_[static_cast<size_t>(j)].device; }

  // Elements that devices send to others.
  int64_t SentBy(const Regions& overlaps) const {
    int64_t sent = 0;
    for (const Region& region : overlaps.list) {
      const DeviceId to = DeviceOfDemand(region.demands[0]);
      for (int32_t piece : region.pieces) {
        if (DeviceOf(piece) != to) sent += region.boxes[0].volume();
      }
    }
    return sent;
  }

  // Elements of two pieces of one device, sent one by one, that it does not want itself; nullopt where
  // one has many.
  std::optional<int64_t> AddedBefore() const {
    std::vector<Piece> sent;
    for (const auto& members : sources_.of_parts.members) {
      for (int32_t piece : members) sent.push_back(pieces_[static_cast<size_t>(piece)]);
    }
    std::vector<Demand> wanted;
    for (const auto& members : wants_.members) {
      wanted.push_back(demands_[static_cast<size_t>(members[0])]);
    }
    const ItemsByDevice wanted_by{std::span<const Demand>(wanted)};
    const ItemsByDevice sent_by{std::span<const Piece>(sent)};
    int64_t added = 0;
    bool are_many = false;
    sent_by.ForEach([&](DeviceId device, std::span<const int32_t> own) {
      are_many |= own.size() > kMostOfADevice;
      if (!are_many) added += AddedBeforeOn(own, sent, wanted_by.At(device), wanted);
    });
    if (are_many) return std::nullopt;
    return added;
  }

  // The same of a device with these of the pieces and demands.
  static int64_t AddedBeforeOn(std::span<const int32_t> own, std::span<const Piece> pieces,
                               std::span<const int32_t> own_demands,
                               std::span<const Demand> demands) {
    int64_t added = 0;
    for (size_t a = 0; a < own.size(); ++a) {
      for (size_t b = 0; b < a; ++b) {
        const Box& one = pieces[static_cast<size_t>(own[a])].box;
        const Box& other = pieces[static_cast<size_t>(own[b])].box;
        if (AreDisjoint(one, other)) continue;
        const Box common = *Intersect(one, other);
        added += common.volume();
        for (int32_t j : own_demands) {
          added -= CommonVolume(common, demands[static_cast<size_t>(j)].box);
        }
      }
    }
    return added;
  }

  // Adds the parts of each demand, in the order of its pieces: those of one operator are mostly disjoint.
  void AddParts(std::span<const Region> overlaps) {
    std::vector<std::vector<OverlapSums::Part>> by_demand(demands_.size());
    for (const Region& region : overlaps) {
      for (int32_t piece : region.pieces) {
        by_demand[static_cast<size_t>(region.demands[0])].push_back(
            {region.boxes, piece, region.demands});
      }
    }
    for (std::vector<OverlapSums::Part>& parts : by_demand) {
      std::ranges::sort(parts, {}, [this](const OverlapSums::Part& part) {
        return std::pair(DeviceOf(part.piece) != DeviceOfDemand(part.demand[0]), part.piece);
      });
      FindAdded(parts);
      sums_.parts.insert(sums_.parts.end(), parts.begin(), parts.end());
    }
  }

  // Finds which parts of a demand have elements of earlier ones, or of what collectives bring.
  void FindAdded(std::span<OverlapSums::Part> parts) const {
    if (parts.empty()) return;
    int64_t left = demands_[static_cast<size_t>(parts[0].demand[0])].box.volume();
    for (size_t k = 0; k < parts.size(); ++k) {
      OverlapSums::Part& part = parts[k];
      const auto overlaps = [&](const Box& box) { return !AreDisjoint(part.box[0], box); };
      part.adds = left == 0 || std::ranges::any_of(sources_.of_collectives.boxes, overlaps) ||
                  std::ranges::any_of(parts.first(k), [&](const OverlapSums::Part& before) {
                    return overlaps(before.box[0]);
                  });
      if (!part.adds) left -= part.box[0].volume();
    }
  }

  const std::span<const Piece> pieces_;
  const std::span<const Demand> demands_;
  SplitBoxes sources_;
  const DistinctBoxes& wants_;
  OverlapSums sums_;
};

}  // namespace

std::optional<OverlapSums> FindOverlapSums(std::span<const Piece> pieces,
                                           std::span<const Demand> demands,
                                           const DistinctBoxes& sources,
                                           const DistinctBoxes& wants) {
  const bool is_wanted_twice =
      std::ranges::any_of(wants.members, [](const auto& members) { return members.size() > 1; });
  if (is_wanted_twice || !HaveTermsOfTheirOwn(pieces)) return std::nullopt;
  auto split = SplitByCount(sources);
  if (!split.has_value() || split->of_parts.boxes.empty()) return std::nullopt;
  return SumFinder(pieces, demands, *std::move(split), wants).Find();
}

}  // namespace partita
