#include "graph/partition/exchange_regions.h"

#include <optional>
#include <utility>

#include "graph/partition/product_regions.h"
#include "graph/partition/swept_regions.h"

namespace partita {

Regions FindRegions(const DistinctBoxes& sources, const DistinctBoxes& wants, SpanArena& lists) {
  if (auto product = ProductRegions(sources, wants, lists)) return *std::move(product);
  return SweptRegions(sources, wants, lists);
}

}  // namespace partita
