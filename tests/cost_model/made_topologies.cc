#include "tests/cost_model/made_topologies.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace partita {
namespace {

Link Wire(std::string name, std::string a, std::string b) {
  return {.name = std::move(name),
          .ends = {std::move(a), std::move(b)},
          .bytes_per_second = 1'000'000'000,
          .latency = Nanos(100)};
}

}  // namespace

Device Gpu(int number) {
  return {.name = absl::StrCat("d", number), .kind = DeviceKind::kGpu, .memory = Bytes(1)};
}

std::vector<Link> RandomLinks(int devices, int switches, int count, std::mt19937& random) {
  std::vector<Link> links;
  for (int k = 0; k < count; ++k) {
    Link link{.name = absl::StrCat("l", k),
              .bytes_per_second = static_cast<int64_t>(1 + random() % 2) * 1'000'000'000,
              .latency = Nanos(static_cast<int64_t>(random() % 2) * 1000)};
    const size_t ends = random() % 6 == 0 ? 3 : 2;
    link.shared = ends > 2 || random() % 3 == 0;
    while (link.ends.size() < ends) {
      const int v = static_cast<int>(random() % static_cast<unsigned>(devices + switches));
      const std::string end = v < devices ? absl::StrCat("d", v) : absl::StrCat("s", v);
      if (std::find(link.ends.begin(), link.ends.end(), end) == link.ends.end()) {
        link.ends.push_back(end);
      }
    }
    links.push_back(std::move(link));
  }
  return links;
}

DeviceTopology Chain(int count) {
  std::vector<Device> devices;
  std::vector<Link> links;
  for (int d = 0; d < count; ++d) {
    devices.push_back(Gpu(d));
    const std::string own = absl::StrCat("s", d);
    links.push_back(Wire(absl::StrCat("port", d), devices.back().name, own));
    if (d > 0) links.push_back(Wire(absl::StrCat("wire", d), absl::StrCat("s", d - 1), own));
  }
  return DeviceTopology::Create(std::move(devices), std::move(links)).value();
}

DeviceTopology TwoLevelTree(int count, int width) {
  std::vector<Device> devices;
  std::vector<Link> links;
  for (int d = 0; d < count; ++d) {
    devices.push_back(Gpu(d));
    const std::string own = absl::StrCat("s", d / width);
    links.push_back(Wire(absl::StrCat("port", d), devices.back().name, own));
    if (d % width == 0) links.push_back(Wire(absl::StrCat("up", d), own, "top"));
  }
  return DeviceTopology::Create(std::move(devices), std::move(links)).value();
}

}  // namespace partita
