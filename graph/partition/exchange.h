#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/box.h"
#include "graph/partition/exchange_regions.h"
#include "graph/sharding_rule.h"
#include "graph/support/span_arena.h"
#include "graph/support/strong_int.h"

namespace partita {

// Communication, solved for one tensor at a time. A Layout is a set of pieces: a piece holds the
// value of one term over a box on a device. Pieces of one term are copies; an element's value is
// the sum (or maximum) over the distinct terms that cover it; an element that none covers is zero.
struct Piece {
  Box box;
  DeviceId device;
  int64_t term = 0;  // number that tells terms of this tensor apart
};

// A box that a device needs, complete: every term added.
struct Demand {
  Box box;
  DeviceId device;
};

// Contribution of one device to a region: the sum of the pieces that it owns there; or, in the second
// half of a reduce + broadcast and where one demand lies in another, the finished value in one of its
// own demands.
struct Share {
  DeviceId device;
  int32_t demand = -1;
  std::span<const int32_t> pieces;  // one for each owned term
};

// Communication of a region: the values of all owners, summed, reach all destinations. Every
// owner's pieces cover every box. A destination that is an owner uses its own share without sending
// it to itself. The lists belong to the solved exchange.
struct Flow {
  std::span<const Box> boxes;              // disjoint, in row-major order of corners; mostly one
  std::span<const Share> owners;           // by device; of replica groups by the first term
  std::span<const DeviceId> destinations;  // sorted
  std::span<const int32_t> demands;        // at destinations, that want all of the boxes; sorted
  // Whether the value is added to what earlier flows bring there. All of the demand that no other
  // flow brings is zero before.
  bool adds = false;
};

// Flows that move together, in one collective or one group of transfers.
struct ExchangeStep {
  enum class Kind : uint8_t {
    kLocal,          // owner = destination, one device
    kTransfers,      // every owner sends its share to every destination other than itself
    kAllReduce,      // owners = destinations = group
    kReduceScatter,  // owners = group, each flow has one destination in the group
    kAllGather,      // one owner, destinations = the group (the owner may not want it itself)
    kAllToAll,  // one owner, one destination besides; every ordered pair of the group has flows
  };
  Kind kind = Kind::kLocal;
  // Devices in rank order: of replica groups by the first term, otherwise sorted.
  std::vector<DeviceId> group;
  std::vector<Flow> flows;
  // Groups of several all-reduces of three or more shares that sum the same terms, each for the
  // devices that hold one copy; this one's among them. Otherwise empty.
  std::vector<std::vector<DeviceId>> replica_groups = {};
};

struct ExchangeOptions {
  Reduction reduction = Reduction::kSum;
  // The node of each device: of several holders a destination takes one on its own node first.
  // Empty: one node.
  std::span<const int32_t> node_of_device = {};
  // Recognise collectives; otherwise everything travels point to point (slower, simpler: the
  // oracle).
  bool collectives = true;
  // A broadcast that moves at most so many elements in all goes point to point, in one group of
  // transfers with whatever else does: an edge of a block reaches a few neighbours. So do sums of which
  // at most so many arrive at any device, where there are transfers or more groups than devices.
  int64_t direct_elements = 0;
};

// Steps in an order in which each reads only what pieces or earlier steps hold, with the lists of
// their flows.
class SolvedExchange {
 public:
  std::span<const ExchangeStep> steps() const { return steps_; }

 private:
  friend SolvedExchange Exchange(std::span<const Piece> pieces, std::span<const Demand> demands,
                                 const ExchangeOptions& options);

  DistinctBoxes sources_, wants_, summed_;  // summed_: sources whose sums others are added to
  std::vector<Box> near_boxes_;
  std::vector<std::vector<Box>> part_boxes_;
  Regions regions_;
  SpanArena lists_;
  std::vector<ExchangeStep> steps_;
};

// For each region and term exactly one holder is the owner that serves a destination; what a device
// has complete is not sent to it (near_demands.h). Works by cuts per dimension over distinct boxes, so
// the cost is that of the overlaps, not of all pairs. Pure: equal arguments give equal results.
//
// One association of terms: whatever demands an element, on any device, gets bit for bit the same
// sum, also where addition rounds, provided that the copies of a term are equal. Copies of a weight
// therefore never drift apart.
SolvedExchange Exchange(std::span<const Piece> pieces, std::span<const Demand> demands,
                        const ExchangeOptions& options);

// Bytes that arrive at devices other than their origin if every flow of the step goes point to
// point.
int64_t ElementsSent(const ExchangeStep& step);

}  // namespace partita
