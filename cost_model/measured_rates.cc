#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "cost_model/discovery.h"
#include "graph/support/status_macros.h"

namespace partita {
namespace {

template <class T>
void Put(const std::optional<T>& measured, T& figure) {
  if (measured.has_value()) figure = *measured;
}

void PutClass(const MeasuredRates& rates, DeviceClass& c) {
  Put(rates.matrix_flops, c.matrix_flops);
  for (const PrecisionRate& measured : rates.precision_rates) {
    std::erase_if(c.precision_rates, [&](const PrecisionRate& estimated) {
      return estimated.precision == measured.precision;
    });
    c.precision_rates.push_back(measured);
  }
  Put(rates.other_flops, c.other_flops);
  Put(rates.memory_bytes_per_second, c.memory_bytes_per_second);
  Put(rates.kernel_overhead_ns, c.kernel_overhead_ns);
  Put(rates.copy, c.copy);
  Put(rates.add, c.add);
  Put(rates.fill, c.fill);
  if (!c.hardware.empty()) c.description = absl::StrCat(c.hardware, "; measured");
}

// What was measured within a node does not hold for links on which other nodes are.
bool IsWithinANode(const DeviceTopology& topology, const Link& link) {
  absl::flat_hash_set<std::string> near(link.ends.begin(), link.ends.end());
  for (const Link& other : topology.links()) {
    const bool meets = std::any_of(other.ends.begin(), other.ends.end(), [&](const auto& end) {
      return std::find(link.ends.begin(), link.ends.end(), end) != link.ends.end();
    });
    if (meets) near.insert(other.ends.begin(), other.ends.end());
  }
  std::optional<int> node;
  for (const Device& device : topology.devices()) {
    if (near.contains(device.name) && node.value_or(device.node) != device.node) return false;
    if (near.contains(device.name)) node = device.node;
  }
  return true;
}

// A message crosses the sender's link and the receiver's, so each has half of the latency.
absl::StatusOr<DeviceTopology> WithExchange(const DeviceTopology& topology,
                                            const std::string& device_class, const Line& line) {
  if (!(line.bytes_per_second >= 1 && line.bytes_per_second < 1e18 && line.latency_ns >= 0 &&
        line.latency_ns < 1e12)) {
    return absl::InvalidArgumentError(absl::StrCat("the exchange between devices was measured as ",
                                                   line.latency_ns, " ns + ", line.bytes_per_second,
                                                   " bytes/s; wanted at least 0 and 1"));
  }
  std::vector<Link> links(topology.links().begin(), topology.links().end());
  for (Link& link : links) {
    int ends = 0, foreign = 0;
    for (const Device& device : topology.devices()) {
      const auto count = std::count(link.ends.begin(), link.ends.end(), device.name);
      (device.device_class == device_class ? ends : foreign) += static_cast<int>(count);
    }
    if (ends == 0 || foreign > 0 || !IsWithinANode(topology, link)) continue;
    const bool direct = ends == static_cast<int>(link.ends.size());
    link.bytes_per_second = static_cast<int64_t>(line.bytes_per_second);
    link.latency = Nanos(static_cast<int64_t>(line.latency_ns / (direct ? 1 : 2)));
  }
  return DeviceTopology::Create({topology.devices().begin(), topology.devices().end()},
                                std::move(links));
}

void PutCollectiveRate(const CollectiveRate& rate, std::vector<CollectiveRate>& rates) {
  for (CollectiveRate& known : rates) {
    if (known.algorithm == rate.algorithm && known.ranks == rate.ranks &&
        known.device_class == rate.device_class) {
      known = rate;
      return;
    }
  }
  rates.push_back(rate);
}

}  // namespace

absl::StatusOr<Machine> ApplyRates(Machine machine, const std::string& device_class,
                                   const MeasuredRates& rates) {
  const auto c = std::find_if(machine.classes.begin(), machine.classes.end(),
                              [&](const DeviceClass& c) { return c.name == device_class; });
  if (c == machine.classes.end()) {
    return absl::NotFoundError(absl::StrCat("machine '", machine.name, "' has no device class '",
                                            device_class, "' to put measured figures into"));
  }
  PutClass(rates, *c);
  if (rates.exchange.has_value()) {
    machine.links_measured = true;
    ASSIGN_OR_RETURN(machine.topology,
                     WithExchange(machine.topology, device_class, *rates.exchange));
  }
  for (CollectiveRate rate : rates.collective_rates) {
    rate.device_class = device_class;
    PutCollectiveRate(rate, machine.collective_rates);
  }
  RETURN_IF_ERROR(Validate(machine));
  return machine;
}

}  // namespace partita
