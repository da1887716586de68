#include "planner/bound/subject.h"

#include <algorithm>
#include <limits>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "graph/partition/fragment_cache.h"
#include "graph/partition/fragment_linker.h"

namespace partita {
namespace {

// The join of two operators' fates.
void Join(const Graph& graph, const FragmentLinker::MayFuse& pair, std::vector<FusionFate>& fates) {
  FusionFate &producer = fates[pair.producer.index()], &reader = fates[pair.reader.index()];
  const Operator& op = graph.op(pair.reader);
  const auto is_free = [](const FusionFate& fate) {
    return !fate.is_unknown && !fate.is_epilogue && fate.taken_by == kNoOp && fate.update == kNoOp;
  };
  bool fits = is_free(producer) && is_free(reader);
  if (op.pass.is_forward() && IsEpilogue(op.attrs)) {
    fits = fits && producer.epilogue == kNoOp && reader.epilogue == kNoOp && reader.takes == kNoOp;
    producer.epilogue = pair.reader;
    reader.is_epilogue = true;
  } else if (TakesGradient(op.attrs)) {
    fits = fits && producer.epilogue == kNoOp && producer.takes == kNoOp;
    producer.update = pair.reader;
    reader.may_be_updated = true;
  } else {
    fits = fits && producer.epilogue == kNoOp && producer.takes == kNoOp && reader.takes == kNoOp;
    producer.taken_by = pair.reader;
    reader.takes = pair.producer;
  }
  if (!fits) producer.is_unknown = reader.is_unknown = true;
}

std::vector<FusionFate> FusionFatesOf(const Graph& graph, const PartitionOptions& options) {
  std::vector<FusionFate> fates(graph.ops().size());
  const FragmentCache cache(graph, options);
  const std::vector<FragmentLinker::MayFuse> pairs = FragmentLinker(cache).may_fuse();
  for (const FragmentLinker::MayFuse& pair : pairs) Join(graph, pair, fates);
  // What is joined with unknown ones is unknown, along chains too.
  for (size_t round = 0; round < pairs.size(); ++round) {
    bool changed = false;
    for (const FragmentLinker::MayFuse& pair : pairs) {
      FusionFate &a = fates[pair.producer.index()], &b = fates[pair.reader.index()];
      changed |= a.is_unknown != b.is_unknown;
      a.is_unknown = b.is_unknown = a.is_unknown || b.is_unknown;
    }
    if (!changed) break;
  }
  return fates;
}

// The most devices that can compute at once: those that share processors take turns.
int DevicesAtOnce(const SimulatedResources& resources) {
  std::set<int32_t> sets;
  int alone = 0;
  for (int d = 0; d < resources.devices(); ++d) {
    const auto shared = resources.CoreSets(DeviceId(d));
    if (shared.empty()) {
      ++alone;
    } else {
      sets.insert(shared[0]);
    }
  }
  return alone + static_cast<int>(sets.size());
}

// Devices may compute in different precisions, and deterministically or not.
std::vector<DeviceId> KindsOf(const CostModel& model, const PartitionOptions& options) {
  std::set<std::tuple<DeviceId, Precision, bool>> met;
  std::vector<DeviceId> kinds;
  for (int d = 0; d < options.devices; ++d) {
    const auto& precisions = options.precision_of_device;
    const Precision precision =
        precisions.empty() ? Precision::kFloat32 : precisions[static_cast<size_t>(d)];
    const auto& nondeterministic = options.nondeterministic_of_device;
    const bool other = !nondeterministic.empty() && nondeterministic[static_cast<size_t>(d)];
    if (met.insert({model.FirstEqual(DeviceId(d)), precision, other}).second) {
      kinds.push_back(DeviceId(d));
    }
  }
  return kinds;
}

// Machines up to this size have their routes looked through.
constexpr int kMostRouted = 256;

// Nothing where the cost model does not count bytes by channel. A latency makes up for the rounding
// of each message's time.
LeastDelivery LeastDeliveryOf(const Evaluator& evaluator) {
  const DeviceTopology& topology = evaluator.topology();
  double latency = std::numeric_limits<double>::infinity();
  for (const Channel& channel : topology.channels()) {
    latency = std::min(latency, static_cast<double>(channel.latency.value()));
  }
  const bool is_known = evaluator.model().CountsBytesOfChannels() && topology.size() > 1;
  if (!is_known || latency < 1 || topology.channels().empty()) return {};
  if (topology.size() > kMostRouted) return {.latency = latency};
  latency = std::numeric_limits<double>::infinity();
  double fastest = 0;
  for (int to = 0; to < topology.size(); ++to) {
    std::set<ChannelId> last;
    for (int from = 0; from < topology.size(); ++from) {
      if (from == to) continue;
      const RouteChannels route = topology.Route(DeviceId(from), DeviceId(to));
      if (route.empty()) return {};
      double of_route = 0;
      for (ChannelId id : route) {
        of_route += static_cast<double>(topology.channel(id).latency.value());
      }
      latency = std::min(latency, of_route);
      last.insert(route.back());
    }
    double speed = 0;
    for (ChannelId id : last) speed += static_cast<double>(topology.channel(id).bytes_per_second);
    fastest = std::max(fastest, speed);
  }
  return {latency, 1e9 / fastest * (1 - 1e-9)};
}

}  // namespace

BoundSubject BoundSubjectOf(const Evaluator& evaluator, int64_t most_parts,
                            std::function<bool()> interrupted) {
  PartitionOptions options = evaluator.partition_options();
  std::vector<FusionFate> fates = FusionFatesOf(evaluator.graph(), options);
  std::vector<DeviceId> kinds = KindsOf(evaluator.model(), options);
  return {evaluator.graph(),
          evaluator.model(),
          std::move(options),
          std::move(kinds),
          std::move(fates),
          LeastDeliveryOf(evaluator),
          DevicesAtOnce(evaluator.resources()),
          most_parts,
          std::move(interrupted)};
}

bool MakesAllOf(const Graph& graph, const Operator& op, size_t output) {
  const PartView whole =
      ViewWhole(graph.rule(op.id), graph.InputShapes(op), graph.OutputShapes(op));
  const TensorView& view = whole.results[output];
  return view.present && view.box == Box::Full(graph.tensor(op.outputs[output]).type.shape);
}

}  // namespace partita
