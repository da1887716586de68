#include "graph/parallel/level_routes.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/parallel/routes.h"

namespace partita {
namespace {

int32_t Up(int32_t link) { return 2 * link; }
int32_t Down(int32_t link) { return 2 * link + 1; }

int PairsOf(int devices) { return devices * (devices - 1) / 2; }

}  // namespace

LevelRoutes::LevelRoutes(TopologyLevels levels)
    : levels_(std::move(levels)), devices_(DeviceCount(levels_)), vertices_(devices_) {
  int size = 1;
  for (size_t k = 0; k < levels_.levels.size(); ++k) {
    size *= levels_.levels[k].count;
    const int groups = (devices_ - 1) / size + 1;
    const LevelNetwork network = levels_.levels[k].network;
    if (network == LevelNetwork::kTree) {
      AddStage(k, groups, size);
    } else if (network != LevelNetwork::kNone) {
      AddEnclosed(k, groups, size);
    }
  }
}

void LevelRoutes::AddStage(size_t level, int groups, int group_size) {
  const Stage below = stages_.empty() ? Stage{.rails = 1, .switches = devices_} : stages_.back();
  const int below_size = std::exchange(tree_group_, group_size);
  Stage stage{.level = level,
              .ports = below.switches,
              .ports_per_group = below.rails * (group_size / below_size),
              .rails = levels_.levels[level].rails,
              .first_vertex = vertices_,
              .first_link = link_count_};
  stage.switches = groups * stage.rails;
  vertices_ += stage.switches;
  link_count_ += stage.ports;
  stages_.push_back(stage);
}

void LevelRoutes::AddEnclosed(size_t level, int groups, int group_size) {
  Enclosed enclosed{.level = level,
                    .network = levels_.levels[level].network,
                    .size = group_size,
                    .groups = groups,
                    .first_vertex = vertices_,
                    .first_link = link_count_};
  if (enclosed.network == LevelNetwork::kCrossbar) {
    link_count_ += devices_;
  } else if (enclosed.network == LevelNetwork::kAllPairs) {
    link_count_ += groups * PairsOf(group_size);
  } else {
    enclosed.torus.emplace(levels_.levels[level].extents);
    link_count_ += groups * (group_size + enclosed.torus->links());
  }
  vertices_ += enclosed.Switches();
  inside_.push_back(std::move(enclosed));
}

const LevelRoutes::Enclosed* LevelRoutes::EnclosedOf(int a, int b) const {
  for (const Enclosed& enclosed : inside_) {
    if (enclosed.GroupOf(a) == enclosed.GroupOf(b)) return &enclosed;
  }
  return nullptr;
}

// Pairs are counted by their first device, then by their second one.
int32_t LevelRoutes::PairChannel(const Enclosed& pairs, int from, int to) {
  const int a = std::min(from, to) % pairs.size, b = std::max(from, to) % pairs.size;
  const int before = PairsOf(pairs.size) - PairsOf(pairs.size - a);
  const int32_t link =
      pairs.first_link + pairs.GroupOf(from) * PairsOf(pairs.size) + before + (b - a - 1);
  return from < to ? Up(link) : Down(link);
}

// The links to all routers come before those between routers.
int32_t LevelRoutes::RingChannel(const Enclosed& torus, int group, int ring_link, bool up) {
  const int32_t link =
      torus.first_link + torus.groups * torus.size + group * torus.torus->links() + ring_link;
  return up ? Up(link) : Down(link);
}

LevelRoutes::Step LevelRoutes::StepTo(DeviceId root, int32_t vertex) const {
  if (vertex == root.value()) return {};
  if (vertex < devices_) return StepToDevice(root.value(), vertex);
  for (size_t s = 0; s < stages_.size(); ++s) {
    const int32_t number = vertex - stages_[s].first_vertex;
    if (number >= 0 && number < stages_[s].switches) return StepToSwitch(root.value(), s, number);
  }
  for (const Enclosed& enclosed : inside_) {
    const int32_t number = vertex - enclosed.first_vertex;
    if (number >= 0 && number < enclosed.Switches())
      return StepToEnclosed(root.value(), enclosed, number);
  }
  return {};
}

LevelRoutes::Step LevelRoutes::StepToDevice(int32_t root, int32_t device) const {
  const Enclosed* enclosed = EnclosedOf(root, device);
  if (enclosed == nullptr) {
    if (stages_.empty()) return {};
    const Stage& stage = stages_[0];
    return {stage.first_vertex + stage.SwitchOf(device), Down(stage.first_link + device)};
  }
  switch (enclosed->network) {
    case LevelNetwork::kAllPairs:
      return {root, PairChannel(*enclosed, root, device)};
    case LevelNetwork::kCrossbar:
      return {enclosed->first_vertex + enclosed->GroupOf(device),
              Down(enclosed->first_link + device)};
    default:  // a torus: each device's router has its number
      return {enclosed->first_vertex + device, Down(enclosed->first_link + device)};
  }
}

LevelRoutes::Step LevelRoutes::StepToSwitch(int32_t root, size_t stage, int32_t number) const {
  int32_t port = root;  // of the stage, on the way up from the root
  for (size_t s = 0; s < stage; ++s) port = stages_[s].SwitchOf(port);
  const Stage& at = stages_[stage];
  if (at.SwitchOf(port) == number) {
    const int32_t below = stage == 0 ? 0 : stages_[stage - 1].first_vertex;
    return {below + port, Up(at.first_link + port)};
  }
  if (stage + 1 == stages_.size()) return {};
  const Stage& above = stages_[stage + 1];
  return {above.first_vertex + above.SwitchOf(number), Down(above.first_link + number)};
}

LevelRoutes::Step LevelRoutes::StepToEnclosed(int32_t root, const Enclosed& enclosed,
                                              int32_t number) const {
  if (enclosed.network == LevelNetwork::kCrossbar || number == root) {
    return {root, Up(enclosed.first_link + root)};
  }
  const int group = number / enclosed.size, first = group * enclosed.size;
  const Torus::Hop hop = enclosed.torus->LastHop(root - first, number - first);
  return {enclosed.first_vertex + first + hop.from, RingChannel(enclosed, group, hop.link, hop.up)};
}

RouteChannels LevelRoutes::Find(DeviceId from, DeviceId to) const {
  RouteChannels channels;
  for (int32_t vertex = to.value(); vertex != from.value();) {
    const Step step = StepTo(from, vertex);
    channels.push_back(ChannelId(step.channel));
    vertex = step.from;
  }
  std::reverse(channels.begin(), channels.end());
  return channels;
}

std::vector<ChannelId> LevelRoutes::Between(std::span<const DeviceId> group) const {
  std::vector<int> devices;
  for (DeviceId id : group) devices.push_back(id.value());
  std::sort(devices.begin(), devices.end());
  devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
  std::vector<ChannelId> channels;
  if (devices.size() < 2) return channels;
  int inner_size = 1;  // of the network inside of each
  for (const Enclosed& enclosed : inside_) {
    AddEnclosedBetween(enclosed, inner_size, devices, channels);
    inner_size = enclosed.size;
  }
  // Who shares a network inside does not use the tree.
  if (devices.front() / inner_size != devices.back() / inner_size) {
    AddTreeBetween(devices, channels);
  }
  std::sort(channels.begin(), channels.end());
  return channels;
}

// The link up from a port is in use where some of the devices are under it, and some are not.
void LevelRoutes::AddTreeBetween(std::span<const int> devices,
                                 std::vector<ChannelId>& channels) const {
  const auto all = static_cast<int>(devices.size());
  std::vector<std::pair<int, int>> under;  // ports, and how many devices are under each
  for (int device : devices) under.emplace_back(device, 1);
  for (const Stage& stage : stages_) {
    if (under.size() == 1) return;
    std::vector<std::pair<int, int>> above;
    for (const auto& [port, count] : under) {
      channels.push_back(ChannelId(Up(stage.first_link + port)));
      channels.push_back(ChannelId(Down(stage.first_link + port)));
      above.emplace_back(stage.SwitchOf(port), count);
    }
    std::sort(above.begin(), above.end());
    under.clear();
    for (const auto& [port, count] : above) {
      if (under.empty() || under.back().first != port) under.emplace_back(port, 0);
      under.back().second += count;
    }
    if (under[0].second == all) return;
  }
}

// Of each group that has devices of several networks inside of it.
void LevelRoutes::AddEnclosedBetween(const Enclosed& enclosed, int inner_size,
                                     std::span<const int> devices,
                                     std::vector<ChannelId>& channels) const {
  for (size_t first = 0, next; first < devices.size(); first = next) {
    const int group = enclosed.GroupOf(devices[first]);
    for (next = first; next < devices.size() && enclosed.GroupOf(devices[next]) == group;) ++next;
    const std::span<const int> members = devices.subspan(first, next - first);
    if (members.front() / inner_size == members.back() / inner_size) continue;
    if (enclosed.network == LevelNetwork::kAllPairs) {
      for (int from : members) {
        for (int to : members) {
          if (from / inner_size == to / inner_size) continue;
          channels.push_back(ChannelId(PairChannel(enclosed, from, to)));
        }
      }
      continue;
    }
    for (int device : members) {
      channels.push_back(ChannelId(Up(enclosed.first_link + device)));
      channels.push_back(ChannelId(Down(enclosed.first_link + device)));
    }
    if (enclosed.torus.has_value()) AddRingsBetween(enclosed, members, channels);
  }
}

void LevelRoutes::AddRingsBetween(const Enclosed& enclosed, std::span<const int> members,
                                  std::vector<ChannelId>& channels) const {
  const int group = enclosed.GroupOf(members[0]);
  std::vector<int> routers;
  for (int device : members) routers.push_back(device - group * enclosed.size);
  const std::vector<bool> used = enclosed.torus->UsedBetween(routers);
  for (size_t k = 0; k < used.size(); ++k) {
    if (!used[k]) continue;
    channels.push_back(
        ChannelId(RingChannel(enclosed, group, static_cast<int>(k / 2), k % 2 == 0)));
  }
}

std::vector<Channel> LevelRoutes::Channels() const {
  std::vector<Channel> channels;
  channels.reserve(2 * static_cast<size_t>(link_count_));
  const std::vector<Device> devices = DevicesOf(levels_);
  const DeviceNames names = NamesOf(devices);
  VisitLinks(devices, [&](const Link& link) { AddChannels(link, names, channels); });
  return channels;
}

std::span<const Link> LevelRoutes::links() const {
  std::call_once(links_made_, [this] {
    links_.reserve(static_cast<size_t>(link_count_));
    VisitLinks(DevicesOf(levels_), [this](const Link& link) { links_.push_back(link); });
  });
  return links_;
}

std::string LevelRoutes::SwitchName(const Stage& stage, int number) const {
  const std::string name = absl::StrCat(levels_.levels[stage.level].name, number / stage.rails);
  return stage.rails == 1 ? name : absl::StrCat(name, ".", number % stage.rails);
}

// In the order in which they are counted.
void LevelRoutes::VisitLinks(std::span<const Device> devices, const LinkVisitor& visit) const {
  auto enclosed = inside_.begin();
  size_t stage = 0;
  for (size_t k = 0; k < levels_.levels.size(); ++k) {
    if (stage < stages_.size() && stages_[stage].level == k) {
      VisitTreeLinks(stage++, devices, visit);
    } else if (enclosed != inside_.end() && enclosed->level == k) {
      VisitEnclosedLinks(*enclosed++, devices, visit);
    }
  }
}

Link LevelRoutes::LinkOf(size_t level, std::string first, std::string second) const {
  const TopologyLevel& of = levels_.levels[level];
  Link link{.name = absl::StrCat(first, "-", second),
            .bytes_per_second = of.bytes_per_second,
            .latency = of.latency};
  link.ends.reserve(2);
  link.ends.push_back(std::move(first));
  link.ends.push_back(std::move(second));
  return link;
}

void LevelRoutes::VisitTreeLinks(size_t number, std::span<const Device> devices,
                                 const LinkVisitor& visit) const {
  const Stage& stage = stages_[number];
  for (int port = 0; port < stage.ports; ++port) {
    visit(LinkOf(stage.level,
                 number == 0 ? devices[static_cast<size_t>(port)].name
                             : SwitchName(stages_[number - 1], port),
                 SwitchName(stage, stage.SwitchOf(port))));
  }
}

void LevelRoutes::VisitEnclosedLinks(const Enclosed& enclosed, std::span<const Device> devices,
                                     const LinkVisitor& visit) const {
  const std::string& level = levels_.levels[enclosed.level].name;
  const auto name_of = [&](int device) {  // where the last group lacks devices, their places
    const auto place = static_cast<size_t>(device);
    return place < devices.size() ? devices[place].name : absl::StrCat(level, ".free", device);
  };
  const auto switch_of = [&level](int number) { return absl::StrCat(level, number); };
  if (enclosed.network == LevelNetwork::kCrossbar) {
    for (int device = 0; device < devices_; ++device) {
      visit(LinkOf(enclosed.level, name_of(device), switch_of(enclosed.GroupOf(device))));
    }
  }
  if (enclosed.torus.has_value()) {
    // What a device exchanges with its router is limited by the router's links alone.
    for (int device = 0; device < enclosed.groups * enclosed.size; ++device) {
      Link port = LinkOf(enclosed.level, name_of(device), switch_of(device));
      const int64_t links = std::max(1, enclosed.torus->links_of_router());
      const int64_t most = std::numeric_limits<int64_t>::max() / links;
      port.bytes_per_second = std::min(port.bytes_per_second, most) * links;
      port.latency = Nanos(0);
      visit(port);
    }
  }
  for (int group = 0; group < enclosed.groups; ++group) {
    const int first = group * enclosed.size;
    if (enclosed.torus.has_value()) {
      for (int link = 0; link < enclosed.torus->links(); ++link) {
        const auto [a, b] = enclosed.torus->EndsOf(link);
        visit(LinkOf(enclosed.level, switch_of(first + a), switch_of(first + b)));
      }
    }
    if (enclosed.network != LevelNetwork::kAllPairs) continue;
    for (int a = first; a < first + enclosed.size; ++a) {
      for (int b = a + 1; b < first + enclosed.size; ++b) {
        visit(LinkOf(enclosed.level, name_of(a), name_of(b)));
      }
    }
  }
}

}  // namespace partita
