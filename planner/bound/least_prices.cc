#include "planner/bound/least_prices.h"

#include <algorithm>
#include <utility>

#include "graph/parallel/parts.h"
#include "graph/parallel/weight_layouts.h"
#include "graph/partition/fragment.h"

namespace partita {
namespace {

// Of one kernel, as LeastLoads: an evaluation bounds longer ones.
constexpr int64_t kMostNanos = int64_t{1} << 40;
// Tensors of a kernel, each of which may have two formats.
constexpr size_t kMostFormats = 6;

}  // namespace

void LeastPrices::Price::Lower(const TaskCost& cost) {
  time = std::min({time, cost.time.value(), cost.Uncontended().value(), kMostNanos});
  is_measured |= cost.source != CostSource::kRoofline;
}

// Whatever formats the tensors get.
LeastPrices::Price LeastPrices::OfFormats(const KernelSignature& dense) const {
  if (!subject_.options.native_formats) return OfDevices(dense);
  KernelSignature signature = dense;
  std::vector<KernelTensor*> tensors;
  for (auto* list : {&signature.inputs, &signature.outputs}) {
    for (KernelTensor& tensor : *list) {
      if (tensor.present) tensors.push_back(&tensor);
    }
  }
  if (tensors.size() > kMostFormats) return {.time = 0};
  Price least;
  for (uint32_t native = 0; native < 1U << tensors.size(); ++native) {
    for (size_t k = 0; k < tensors.size(); ++k) {
      tensors[k]->format = (native >> k & 1) != 0 ? Format::kNative : Format::kDense;
    }
    const Price price = OfDevices(signature);
    least.time = std::min(least.time, price.time);
    least.is_measured |= price.is_measured;
  }
  return least;
}

LeastPrices::Price LeastPrices::OfDevices(const KernelSignature& signature) const {
  Price least;
  const auto& precisions = subject_.options.precision_of_device;
  const auto& nondeterministic = subject_.options.nondeterministic_of_device;
  const auto lower = [&](const KernelSignature& own, DeviceId device) {
    const auto cost = subject_.model.KernelCost(own, device);
    if (cost.has_value()) least.Lower(*cost);
    return cost.has_value();
  };
  for (DeviceId device : subject_.kinds) {
    if (precisions.empty() && nondeterministic.empty()) {
      if (!lower(signature, device)) return {.time = 0};
      continue;
    }
    KernelSignature own = WithDeterminism(signature, true);
    if (!precisions.empty()) own = InPrecision(std::move(own), precisions[device.index()]);
    if (!lower(own, device)) return {.time = 0};
    // Copies of a part are deterministic, other parts are not.
    const bool both = !nondeterministic.empty() && nondeterministic[device.index()];
    if (both && !lower(WithDeterminism(std::move(own), false), device)) return {.time = 0};
  }
  return least;
}

// `price(count)`: of the first of so many even parts.
template <class PriceOfPart>
LeastPrices::Shared LeastPrices::OfParts(int64_t most, PriceOfPart price) {
  Shared least{kNoTime, kNoTime};
  for (int64_t count = 1; count <= most; count *= 2) {
    const Price one = price(count);
    const int64_t time = one.is_measured ? one.time * 3 / 4 : one.time;
    least.one = std::min(least.one, time);
    const double even = static_cast<double>(count) * static_cast<double>(time);
    if (even < static_cast<double>(least.all)) least.all = static_cast<int64_t>(even);
  }
  return least;
}

LeastPrices::Shared LeastPrices::OfMoving(MoveSignature::Kind kind, DType dtype,
                                          int64_t elements) const {
  if (elements < 1) return {};
  return OfParts(elements, [&](int64_t count) {
    const int64_t size = elements / count;
    Price least;
    for (DeviceId device : subject_.kinds) {
      const auto cost = subject_.model.MoveCost({kind, dtype, size, size, dtype}, device);
      if (!cost.has_value()) return Price{.time = 0};
      least.Lower(*cost);
    }
    return least;
  });
}

LeastPrices::Shared LeastPrices::OfUpdate(const Graph& graph, const Operator& update) const {
  const Shape& shape = graph.tensor(update.anchor_weight).type.shape;
  const auto longest = std::max_element(shape.begin(), shape.end());
  const int64_t most = longest == shape.end() ? 1 : std::max<int64_t>(1, *longest);
  return OfParts(most, [&](int64_t count) {
    Box box = Box::Full(shape);
    if (count > 1) box[static_cast<int>(longest - shape.begin())] = {0, *longest / count};
    const PlacedBox region{box, DeviceId(0)};
    const WeightLayouts layouts{{region}, {region}, std::nullopt};
    const auto parts = UpdateParts(graph, update, layouts.update);
    if (!parts.ok() || parts->empty() || box.empty()) return Price{.time = 0};
    const OperatorFragment fragment =
        MakeOperatorFragment(graph, update, *parts, {&layouts}, subject_.options);
    return OfFormats(fragment.graph.signatures()[0]);
  });
}

}  // namespace partita
