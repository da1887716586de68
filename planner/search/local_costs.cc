#include "planner/search/local_costs.h"

#include "graph/partition/fragment_memory.h"
#include "planner/space/like_operators.h"

namespace partita {
namespace {

// Memory for times of exchanges, and for parts.
constexpr Bytes kMostOfTimes(int64_t{32} << 20), kMostOfParts(int64_t{128} << 20);

}  // namespace

LocalCosts::LocalCosts(const Evaluator& evaluator)
    : costs_(evaluator, kMostOfTimes),
      class_of_(ByOperator(evaluator.graph(), LikeClasses(evaluator.graph()))),
      kind_of_pair_(costs_.KindsOfPairs(class_of_)),
      anchors_(evaluator.graph().ops().size()),
      number_in_(evaluator.graph().ops().size(), -1) {
  numbers_.resize(evaluator.graph().anchors().size());
  const auto pairs = costs_.pairs();
  for (size_t k = 0; k < pairs.size(); ++k) {
    anchors_[pairs[k].a.index()].pairs.push_back(k);
    anchors_[pairs[k].b.index()].pairs.push_back(k);
  }
}

LocalCosts::Number LocalCosts::NumberOf(OpId anchor, const ParallelConfig& config) {
  auto& numbers = numbers_[static_cast<size_t>(class_of_[anchor.index()])];
  const auto known = numbers.find(config);
  if (known != numbers.end()) return known->second;
  Number number = -1;
  const std::optional<AdditiveTime> kernels = costs_.OfSampledKernels(anchor, config);
  auto made = costs_.Configure(anchor, config);
  if (kernels.has_value() && made.has_value()) {
    number = static_cast<Number>(own_.size());
    own_.push_back({kernels->sum(), costs_.OfExchanges(*made, ExchangePricing::kByBytes)});
    Keep(number, *std::move(made));
  }
  numbers.emplace(config, number);
  return number;
}

const ConfiguredAnchor& LocalCosts::PartsUnder(OpId anchor, const ParallelConfig& config,
                                               Number number) {
  const OfAnchor& of = anchors_[anchor.index()];
  if (of.made_of != number) Keep(number, *costs_.Configure(anchor, config));
  return of.made;
}

void LocalCosts::Keep(Number number, ConfiguredAnchor made) {
  OfAnchor& of = anchors_[made.anchor.index()];
  of_parts_ += Bytes(HeapBytesOf(made.parts) - HeapBytesOf(of.made.parts));
  of.made = std::move(made);
  of.made_of = number;
}

void LocalCosts::LimitParts() {
  if (of_parts_ <= kMostOfParts) return;
  for (OfAnchor& of : anchors_) {
    of.made = {};
    of.made_of = -1;
  }
  of_parts_ = Bytes(0);
}

ExchangeTime LocalCosts::Priced(const Question& one, const Strategy& strategy,
                                ExchangePricing pricing) {
  const auto parts_of = [&](OpId anchor, Number number) -> const ConfiguredAnchor& {
    return PartsUnder(anchor, strategy.configs[anchor.index()], number);
  };
  if (one.pair == Question::kOwn) {
    return costs_.OfExchanges(parts_of(one.anchor, one.a), pricing);
  }
  const AdditiveCosts::Pair& both = costs_.pairs()[one.pair];
  return costs_.Between(both, parts_of(both.a, one.a), parts_of(both.b, one.b), pricing);
}

const ExchangeTime& LocalCosts::OfPair(const Question& one, const Strategy& strategy) {
  const auto [at, is_new] = of_pairs_.try_emplace({kind_of_pair_[one.pair], one.a, one.b});
  if (is_new) at->second = Priced(one, strategy, ExchangePricing::kByBytes);
  return at->second;
}

bool LocalCosts::AddPairs(OpId anchor, bool inside, const Strategy& strategy, int64_t most,
                          int64_t& sum) {
  const Number number = number_in_[anchor.index()];
  for (size_t pair : anchors_[anchor.index()].pairs) {
    if (sum > most) break;
    const AdditiveCosts::Pair& both = costs_.pairs()[pair];
    const OpId other = both.a == anchor ? both.b : both.a;
    Number of_other = number_in_[other.index()];
    if ((of_other >= 0) != inside || (inside && other < anchor)) continue;
    if (!inside) of_other = NumberOf(other, strategy.configs[other.index()]);
    if (of_other < 0) return false;
    Question one = both.a == anchor ? Question{anchor, pair, number, of_other}
                                    : Question{anchor, pair, of_other, number};
    const ExchangeTime& exchanged = OfPair(one, strategy);
    sum += one.added = exchanged.time.sum();
    if (exchanged.is_least) open_.push_back(one);
  }
  return true;
}

int64_t LocalCosts::WholeOf(const Question& one, const Strategy& strategy) {
  const bool is_own = one.pair == Question::kOwn;
  ExchangeTime& known = is_own ? own_[static_cast<size_t>(one.a)].exchanges
                               : of_pairs_.at({kind_of_pair_[one.pair], one.a, one.b});
  if (!known.is_least) return known.time.sum();
  known = Priced(one, strategy, ExchangePricing::kSumsWhole);
  return known.time.sum();
}

std::optional<int64_t> LocalCosts::Of(const Strategy& strategy, std::span<const OpId> anchors,
                                      int64_t most) {
  LimitParts();
  open_.clear();
  int64_t sum = 0;
  bool fits = true;
  for (OpId anchor : anchors) {
    const Number number = NumberOf(anchor, strategy.configs[anchor.index()]);
    number_in_[anchor.index()] = number;
    fits = fits && number >= 0;
    if (!fits) break;
    const Own& own = own_[static_cast<size_t>(number)];
    const int64_t exchanges = own.exchanges.time.sum();
    sum += own.kernels + exchanges;
    if (!own.exchanges.is_least) continue;
    open_.push_back({anchor, Question::kOwn, number, number, exchanges});
  }
  // What is known of other pairs of configurations comes first.
  for (bool inside : {false, true}) {
    for (OpId anchor : anchors) fits = fits && AddPairs(anchor, inside, strategy, most, sum);
  }
  for (OpId anchor : anchors) number_in_[anchor.index()] = -1;
  if (!fits) return std::nullopt;
  for (const Question& one : open_) {
    if (sum > most) break;
    sum += WholeOf(one, strategy) - one.added;
  }
  return sum;
}

}  // namespace partita
