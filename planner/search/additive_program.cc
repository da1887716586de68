#include "planner/search/additive_program.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "graph/parallel/parallel_config.h"
#include "graph/support/check.h"
#include "planner/search/additive_costs.h"
#include "planner/space/like_operators.h"

namespace partita {
namespace {

constexpr size_t kMostOfStarts = 8;  // configurations that are taken from the starts
constexpr int kFewDevices = 8;
// Tables up to which all exchanges are built, which takes long; fewer where devices are many, so
// that tables times devices do not exceed those of kFewDevicesOfTables.
constexpr size_t kFewTables = 32, kFewDevicesOfTables = 16;
// Candidates, for each that is kept, whose exchanges are looked at: the fastest kernels.
constexpr size_t kPreselected = 4;

// Branches, where like operators share a choice and where each has its own.
constexpr int64_t kBranchesTogether = 1024, kBranchesApart = 1;

// Combinations of candidates, for each exchange that is not priced whole and each device, up to which
// it takes less to find choices again and again than to price them all.
constexpr size_t kComparedForPriced = 8;

// Memory for times of exchanges, of all threads together.
constexpr Bytes kMostOfTimes(int64_t{128} << 20);

size_t MostCandidates(int devices) { return devices <= 4 ? 24 : devices <= 16 ? 12 : 8; }

// Choices for operators that are like each other, or for one that may not change.
struct CandidateSet {
  std::vector<ConfiguredAnchor> configs;  // of the first of them
  std::vector<AdditiveTime> times;
};

// Splits into so many parts, along so many loops at most.
struct EvenSplits {
  int32_t parts;
  int most;
};

// Calls visit(degrees) for every split of the loops from `loop` on.
template <class Visit>
void ForEachExactSplit(const ShardingRule& rule, EvenSplits wanted, std::vector<int32_t>& degrees,
                       Visit& visit, size_t loop = 0) {
  if (wanted.parts == 1) return visit(degrees);
  if (loop == rule.loops.size() || wanted.most == 0) return;
  ForEachExactSplit(rule, wanted, degrees, visit, loop + 1);
  const LoopDim& dim = rule.loops[loop];
  for (int32_t degree = 2; dim.splittable && degree <= std::min<int64_t>(dim.extent, wanted.parts);
       ++degree) {
    if (wanted.parts % degree != 0) continue;
    degrees[loop] = degree;
    ForEachExactSplit(rule, {wanted.parts / degree, wanted.most - 1}, degrees, visit, loop + 1);
    degrees[loop] = 1;
  }
}

// Additive costs for each thread that asks at a time. Several threads may lend at once.
class CostsOfThreads {
 public:
  // `most`: memory for what all of them keep.
  CostsOfThreads(const Evaluator& evaluator, int threads, Bytes most)
      : evaluator_(evaluator),
        most_of_each_(most.value() / threads),
        first_(evaluator, most_of_each_),
        idle_({&first_}) {}

  // What is const of it any thread may ask at any time.
  const AdditiveCosts& first() const { return first_; }

  // Gives back at the end of its life.
  class Lent {
   public:
    Lent(CostsOfThreads& from, AdditiveCosts& costs) : from_(from), costs_(costs) {}
    Lent(const Lent&) = delete;
    Lent& operator=(const Lent&) = delete;
    ~Lent() { from_.Return(costs_); }
    AdditiveCosts& operator*() const { return costs_; }
    AdditiveCosts* operator->() const { return &costs_; }

   private:
    CostsOfThreads& from_;
    AdditiveCosts& costs_;
  };
  Lent Lend() {
    const std::lock_guard lock(mutex_);
    if (idle_.empty()) {
      others_.push_back(std::make_unique<AdditiveCosts>(evaluator_, most_of_each_));
      idle_.push_back(others_.back().get());
    }
    AdditiveCosts& costs = *idle_.back();
    idle_.pop_back();
    return {*this, costs};
  }

 private:
  void Return(AdditiveCosts& costs) {
    const std::lock_guard lock(mutex_);
    idle_.push_back(&costs);
  }

  const Evaluator& evaluator_;
  const Bytes most_of_each_;
  AdditiveCosts first_;
  std::mutex mutex_;  // guards what follows
  std::vector<std::unique_ptr<AdditiveCosts>> others_;
  std::vector<AdditiveCosts*> idle_;
};

}  // namespace

class AdditiveProgram::Maker {
 public:
  Maker(const SearchProblem& problem, const Strategy& base, const std::function<bool()>& stop,
        WorkerThreads& threads)
      : problem_(problem),
        graph_(problem.space.graph()),
        base_(base),
        stop_(stop),
        threads_(threads),
        costs_(problem.evaluator, threads.count(), kMostOfTimes),
        devices_(problem.space.devices()) {}

  bool FindCosts() {
    if (!FindSets() || !FindTables()) return false;
    const size_t to_price = OpenEntries().size() * static_cast<size_t>(devices_);
    return CombinationsToCompare() <= kComparedForPriced * to_price || PriceWhole();
  }

  bool PriceWhole() {
    Price(OpenEntries());
    return !stop_();
  }

  ChoiceProblem ChoicesAt(double share, bool together) const {
    ChoiceProblem choices;
    choices.nodes.resize(NodeCount(together));
    for (OpId anchor : graph_.anchors()) {
      const CandidateSet& set = SetOf(anchor);
      auto& costs = choices.nodes[NodeOf(anchor, together)];
      costs.resize(set.times.size(), 0);
      for (size_t c = 0; c < costs.size(); ++c) costs[c] += Weighted(set.times[c], share);
    }
    AddEdges(share, together, choices);
    return choices;
  }

  // Choices that one branch finds, which takes little, decide most of what is priced.
  std::optional<Choices> LeastChoices(double share, bool together) {
    int64_t branches = kBranchesApart;
    while (!stop_()) {
      Choices least = MinimizeChoices(ChoicesAt(share, together), branches);
      const std::vector<Entry> open = OpenOf(least.candidate, together);
      if (!open.empty()) {
        Price(open);
      } else if (together && branches == kBranchesApart && !least.exact) {
        branches = kBranchesTogether;
      } else {
        return least;
      }
    }
    return std::nullopt;
  }

  Strategy StrategyOf(std::span<const int32_t> candidate, bool together) const {
    Strategy strategy = base_;
    for (OpId anchor : problem_.space.operators()) {
      const auto chosen = static_cast<size_t>(candidate[NodeOf(anchor, together)]);
      Decide(graph_, strategy, OperatorDecision{anchor, SetOf(anchor).configs[chosen].config});
    }
    for (int32_t weight : problem_.space.weights()) {
      Decide(graph_, strategy, WeightDecision{weight, {}});
    }
    return strategy;
  }

  std::vector<ChoiceLimit> LimitsOf(bool together) const {
    std::vector<ChoiceLimit> limits;
    if (!problem_.evaluator.options().limit_memory) return limits;
    for (int32_t d = 0; d < devices_; ++d) {
      limits.push_back({{}, problem_.evaluator.MemoryOf(DeviceId(d)).value()});
      limits.back().use.resize(NodeCount(together));
    }
    const CostsOfThreads::Lent costs = costs_.Lend();
    for (OpId anchor : graph_.anchors()) {
      const size_t node = NodeOf(anchor, together);
      const std::vector<ConfiguredAnchor> configs = ConfigsOf(anchor);
      for (ChoiceLimit& limit : limits) limit.use[node].resize(configs.size(), 0);
      for (size_t c = 0; c < configs.size(); ++c) {
        const std::vector<int64_t> kept = costs->KeptBytes(configs[c]);
        for (size_t d = 0; d < limits.size(); ++d) limits[d].use[node][c] += kept[d];
      }
    }
    std::erase_if(limits, [](const ChoiceLimit& limit) { return !MayBind(limit); });
    return limits;
  }

 private:
  // Free operators have the set of their class, the others one of their own.
  bool FindSets() {
    const std::vector<int32_t> classes = LikeClasses(graph_);
    std::vector<bool> is_free(graph_.ops().size(), false);
    for (OpId op : problem_.space.operators()) is_free[op.index()] = true;
    set_of_.assign(graph_.ops().size(), -1);
    place_of_.assign(graph_.ops().size(), -1);
    std::map<int32_t, int32_t> set_of_class;
    std::vector<OpId> firsts;  // indexed by set
    for (size_t a = 0; a < classes.size(); ++a) {
      const OpId anchor = graph_.anchors()[a];
      place_of_[anchor.index()] = static_cast<int32_t>(a);
      int32_t& set = set_of_[anchor.index()];
      set = static_cast<int32_t>(firsts.size());
      if (is_free[anchor.index()]) set = set_of_class.try_emplace(classes[a], set).first->second;
      if (static_cast<size_t>(set) == firsts.size()) firsts.push_back(anchor);
    }
    sets_.resize(firsts.size());
    threads_.ForEach(firsts.size(), [&](size_t set) {
      const CostsOfThreads::Lent costs = costs_.Lend();
      if (!stop_()) sets_[set] = SetFor(firsts[set], is_free[firsts[set].index()], *costs);
    });
    return std::none_of(sets_.begin(), sets_.end(),
                        [](const CandidateSet& set) { return set.configs.empty(); });
  }

  // The configuration of the base and those of the starts, then the best. Empty where stopped.
  CandidateSet SetFor(OpId anchor, bool is_free, AdditiveCosts& costs) const {
    std::vector<ParallelConfig> configs = {base_.configs[anchor.index()]};
    if (is_free) AddConfigsOfStarts(anchor, configs);
    const size_t kept = configs.size();
    if (is_free) AddEvenConfigs(anchor, configs);
    CandidateSet set;
    // Copies of parts on other devices take as long.
    std::map<std::vector<int32_t>, std::optional<AdditiveTime>> time_of;  // by degrees
    for (ParallelConfig& config : configs) {
      if (stop_()) return {};
      const auto [it, is_new] = time_of.try_emplace(config.degrees);
      if (is_new) it->second = costs.OfSampledKernels(anchor, config);
      if (!it->second.has_value()) continue;
      set.times.push_back(*it->second);
      set.configs.push_back({anchor, std::move(config), {}});
    }
    const size_t most = std::max(kept, MostCandidates(devices_));
    set = BestOf(std::move(set), kept, kPreselected * most);
    return BestPriced(set, kept, most, costs);
  }

  // The first `kept`, and others whose kernels and exchanges take least, `most` in all. Exchanges are
  // priced as tasks in the order of their bytes, as long as that may bring a better candidate. Empty
  // where stopped.
  CandidateSet BestPriced(const CandidateSet& set, size_t kept, size_t most,
                          AdditiveCosts& costs) const {
    CandidateSet made;
    std::vector<AdditiveTime> of_kernels;
    std::vector<std::pair<int64_t, size_t>> order;  // by least time; the first `kept` lead
    for (const ConfiguredAnchor& one : set.configs) {
      if (stop_()) return {};
      auto configured = costs.Configure(one.anchor, one.config);
      if (!configured.has_value()) continue;
      of_kernels.push_back(costs.OfKernels(*configured));
      AdditiveTime least = of_kernels.back();
      least += costs.OfExchanges(*configured, ExchangePricing::kByBytes).time;
      order.emplace_back(order.size() < kept ? -1 : least.sum(), order.size());
      made.configs.push_back(*std::move(configured));
    }
    std::sort(order.begin(), order.end());
    std::vector<int64_t> best;  // of those behind `kept`, the fastest, sorted
    std::vector<std::optional<AdditiveTime>> times(order.size());
    for (const auto& [least, c] : order) {
      if (stop_()) return {};
      const bool is_full = c >= kept && best.size() == most - kept;
      if (is_full && (best.empty() || least > best.back())) break;
      times[c] = of_kernels[c];
      *times[c] += costs.OfExchanges(made.configs[c], ExchangePricing::kWhole).time;
      if (c < kept) continue;
      const int64_t time = times[c]->sum();
      best.insert(std::upper_bound(best.begin(), best.end(), time), time);
      best.resize(std::min(best.size(), most - kept));
    }
    CandidateSet priced;
    for (size_t c = 0; c < times.size(); ++c) {
      if (!times[c].has_value()) continue;
      priced.times.push_back(*times[c]);
      priced.configs.push_back(std::move(made.configs[c]));
    }
    return BestOf(std::move(priced), kept, most);
  }

  // The first `kept`, and others that take least, `most` in all.
  static CandidateSet BestOf(CandidateSet set, size_t kept, size_t most) {
    std::vector<std::pair<int64_t, size_t>> order;
    for (size_t c = 0; c < set.configs.size(); ++c) {
      order.emplace_back(c < kept ? -1 : set.times[c].sum(), c);
    }
    std::sort(order.begin(), order.end());
    if (order.size() > most) order.resize(most);
    CandidateSet best;
    for (const auto& [time, place] : order) {
      best.configs.push_back(std::move(set.configs[place]));
      best.times.push_back(set.times[place]);
    }
    return best;
  }

  static void AddConfig(ParallelConfig config, std::vector<ParallelConfig>& configs) {
    if (std::find(configs.begin(), configs.end(), config) == configs.end()) {
      configs.push_back(std::move(config));
    }
  }

  void AddConfigsOfStarts(OpId anchor, std::vector<ParallelConfig>& configs) const {
    for (const NamedStrategy& start : problem_.starts) {
      for (OpId like : problem_.space.AllLike(anchor)) {
        if (configs.size() >= kMostOfStarts) return;
        AddConfig(start.strategy.configs[like.index()], configs);
      }
    }
  }

  void AddEvenConfigs(OpId anchor, std::vector<ParallelConfig>& configs) const {
    const ShardingRule& rule = graph_.rule(anchor);
    const int most = devices_ <= kFewDevices ? static_cast<int>(rule.loops.size()) : 2;
    std::vector<int32_t> degrees(rule.loops.size(), 1);
    for (int32_t parts = 1; parts <= devices_; ++parts) {
      if (devices_ % parts != 0) continue;
      auto visit = [&](const std::vector<int32_t>& chosen) {
        for (int32_t replicas : {1, devices_ / parts}) {
          ParallelConfig config{chosen, replicas, DeviceRange(0, parts * replicas)};
          // Whether every part can be is seen when it is priced.
          if (ValidateConfig(rule, config, devices_).ok()) AddConfig(std::move(config), configs);
        }
      };
      ForEachExactSplit(rule, {parts, most}, degrees, visit);
    }
  }

  // Place of an exchange in the tables.
  struct Entry {
    size_t table, place;
    auto operator<=>(const Entry&) const = default;
  };

  // Pairs that exchange like tensors between operators of the same sets have one table.
  bool FindTables() {
    const auto pairs = costs_.first().pairs();
    const std::vector<int32_t> kinds = costs_.first().KindsOfPairs(set_of_);
    for (size_t k = 0; k < pairs.size(); ++k) {
      table_of_.push_back(static_cast<size_t>(kinds[k]));
      if (table_of_.back() == firsts_.size()) firsts_.push_back(&pairs[k]);
    }
    if (firsts_.size() > kFewTables ||
        firsts_.size() * static_cast<size_t>(devices_) > kFewTables * kFewDevicesOfTables) {
      pricing_ = ExchangePricing::kSumsWhole;
    }
    tables_.resize(firsts_.size());
    std::atomic<bool> stopped = false;
    threads_.ForEach(firsts_.size(), [&](size_t k) {
      const CostsOfThreads::Lent costs = costs_.Lend();
      const std::vector<ConfiguredAnchor> of_b = ConfigsOf(firsts_[k]->b);
      for (const ConfiguredAnchor& a : ConfigsOf(firsts_[k]->a)) {
        for (const ConfiguredAnchor& b : of_b) {
          if (stop_()) stopped = true;
          if (stopped) return;
          ExchangeTime& one =
              tables_[k].emplace_back(costs->Between(*firsts_[k], a, b, ExchangePricing::kByBytes));
          one.is_least |= pricing_ == ExchangePricing::kWhole;
        }
      }
    });
    return !stopped;
  }

  std::vector<Entry> OpenEntries() const {
    std::vector<Entry> open;
    for (size_t k = 0; k < tables_.size(); ++k) {
      for (size_t place = 0; place < tables_[k].size(); ++place) {
        if (tables_[k][place].is_least) open.push_back({k, place});
      }
    }
    return open;
  }

  // Candidates of three operators at a time, about as many as elimination compares where each operator
  // chooses by itself.
  size_t CombinationsToCompare() const {
    size_t sum = 0;
    for (size_t p = 0; p < table_of_.size(); ++p) {
      const size_t candidates = SetOf(costs_.first().pairs()[p].a).configs.size();
      sum += tables_[table_of_[p]].size() * candidates;
    }
    return sum;
  }

  // What these choices exchange that is not priced whole.
  std::vector<Entry> OpenOf(std::span<const int32_t> candidate, bool together) {
    std::vector<Entry> open;
    for (size_t p = 0; p < table_of_.size(); ++p) {
      const AdditiveCosts::Pair& pair = costs_.first().pairs()[p];
      const auto a = static_cast<size_t>(candidate[NodeOf(pair.a, together)]);
      const auto b = static_cast<size_t>(candidate[NodeOf(pair.b, together)]);
      const Entry entry{table_of_[p], a * SetOf(pair.b).configs.size() + b};
      if (At(entry).is_least) open.push_back(entry);
    }
    std::sort(open.begin(), open.end());
    open.erase(std::unique(open.begin(), open.end()), open.end());
    return open;
  }

  ExchangeTime& At(Entry entry) { return tables_[entry.table][entry.place]; }

  // Those of one table together: what they configure serves several of them.
  void Price(std::span<const Entry> open) {
    std::vector<std::span<const Entry>> tables;
    for (size_t begin = 0, end = 0; begin < open.size(); begin = end) {
      while (end < open.size() && open[end].table == open[begin].table) ++end;
      tables.push_back(open.subspan(begin, end - begin));
    }
    threads_.ForEach(tables.size(), [&](size_t k) { PriceOfTable(tables[k]); });
  }

  // Entries are ordered by the candidate of the first operator, then by that of the second.
  void PriceOfTable(std::span<const Entry> open) {
    const AdditiveCosts::Pair& pair = *firsts_[open[0].table];
    const size_t columns = SetOf(pair.b).configs.size();
    const CostsOfThreads::Lent costs = costs_.Lend();
    std::vector<std::optional<ConfiguredAnchor>> of_b(columns);
    std::optional<ConfiguredAnchor> a;
    size_t row = 0;  // of `a`
    for (const Entry& entry : open) {
      if (stop_()) return;
      const size_t column = entry.place % columns;
      if (!a.has_value() || row != entry.place / columns) {
        row = entry.place / columns;
        a = ConfigOf(pair.a, row);
      }
      if (!of_b[column].has_value()) of_b[column] = ConfigOf(pair.b, column);
      At(entry) = costs->Between(pair, *a, *of_b[column], pricing_);
    }
  }

  // The candidates of an anchor, which has the configurations of the first of its set.
  std::vector<ConfiguredAnchor> ConfigsOf(OpId anchor) const {
    std::vector<ConfiguredAnchor> configs;
    for (size_t c = 0; c < SetOf(anchor).configs.size(); ++c) {
      configs.push_back(ConfigOf(anchor, c));
    }
    return configs;
  }
  ConfiguredAnchor ConfigOf(OpId anchor, size_t candidate) const {
    auto made = costs_.first().Configure(anchor, SetOf(anchor).configs[candidate].config);
    CHECK(made.has_value()) << "does not fit an operator like one that it fits";
    return *std::move(made);
  }

  const CandidateSet& SetOf(OpId anchor) const {
    return sets_[static_cast<size_t>(set_of_[anchor.index()])];
  }

  static int64_t Weighted(AdditiveTime time, double share) {
    return time.compute + static_cast<int64_t>(share * static_cast<double>(time.communication));
  }

  size_t NodeCount(bool together) const {
    return together ? sets_.size() : graph_.anchors().size();
  }
  size_t NodeOf(OpId anchor, bool together) const {
    return static_cast<size_t>((together ? set_of_ : place_of_)[anchor.index()]);
  }

  // Whether the candidates that use most use more than the limit.
  static bool MayBind(const ChoiceLimit& limit) {
    int64_t most = 0;
    for (const std::vector<int64_t>& use : limit.use) {
      if (!use.empty()) most += *std::max_element(use.begin(), use.end());
    }
    return most > limit.most;
  }

  void AddEdges(double share, bool together, ChoiceProblem& choices) const {
    for (size_t p = 0; p < table_of_.size(); ++p) {
      const AdditiveCosts::Pair& pair = costs_.first().pairs()[p];
      const std::vector<ExchangeTime>& table = tables_[table_of_[p]];
      const auto a = static_cast<int32_t>(NodeOf(pair.a, together));
      const auto b = static_cast<int32_t>(NodeOf(pair.b, together));
      if (a == b) {
        auto& costs = choices.nodes[static_cast<size_t>(a)];
        const size_t same = costs.size() + 1;
        for (size_t c = 0; c < costs.size(); ++c) costs[c] += Weighted(table[c * same].time, share);
        continue;
      }
      ChoiceProblem::Edge edge{a, b, {}};
      for (const ExchangeTime& one : table) edge.cost.push_back(Weighted(one.time, share));
      choices.edges.push_back(std::move(edge));
    }
  }

  const SearchProblem& problem_;
  const Graph& graph_;
  const Strategy& base_;
  const std::function<bool()>& stop_;
  WorkerThreads& threads_;
  mutable CostsOfThreads costs_;
  const int32_t devices_;
  std::vector<int32_t> set_of_, place_of_;  // indexed by OpId of an anchor
  std::vector<CandidateSet> sets_;
  std::vector<size_t> table_of_;                    // indexed by pair
  std::vector<const AdditiveCosts::Pair*> firsts_;  // indexed by table: the first pair that has it
  ExchangePricing pricing_ = ExchangePricing::kWhole;
  // By candidate of the pair's first anchor, then of its second.
  std::vector<std::vector<ExchangeTime>> tables_;
};

AdditiveProgram::AdditiveProgram(const SearchProblem& problem, const Strategy& base,
                                 const std::function<bool()>& stop, WorkerThreads& threads)
    : maker_(std::make_unique<Maker>(problem, base, stop, threads)) {}

AdditiveProgram::~AdditiveProgram() = default;

bool AdditiveProgram::FindCosts() { return maker_->FindCosts(); }

bool AdditiveProgram::PriceWhole() { return maker_->PriceWhole(); }

std::optional<Choices> AdditiveProgram::LeastChoices(double share, bool together) {
  return maker_->LeastChoices(share, together);
}

ChoiceProblem AdditiveProgram::ChoicesAt(double share, bool together) const {
  return maker_->ChoicesAt(share, together);
}

Strategy AdditiveProgram::StrategyOf(std::span<const int32_t> candidate, bool together) const {
  return maker_->StrategyOf(candidate, together);
}

std::vector<ChoiceLimit> AdditiveProgram::LimitsOf(bool together) const {
  return maker_->LimitsOf(together);
}

}  // namespace partita
