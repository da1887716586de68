#include "graph/parallel/levels.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace partita {
namespace {

// Bounds on what files may ask for.
constexpr int64_t kMostDevices = 1 << 17;
constexpr int64_t kMostLevelLinks = 1 << 21;
constexpr int64_t kMostGroup = int64_t{1} << 30;  // devices that a group would have room for
constexpr size_t kMostLevels = 32;
constexpr size_t kMostDimensions = 8;
constexpr size_t kLongestName = 64;  // of what every device has
constexpr int64_t kMostCores = int64_t{1} << 24;
constexpr int64_t kMostLevelLatency = int64_t{1} << 40;

int64_t GroupsOf(int64_t devices, int64_t size) { return (devices + size - 1) / size; }

// A name to which numbers are added.
bool IsPrefix(absl::string_view name) {
  return !name.empty() && !absl::ascii_isdigit(static_cast<unsigned char>(name.back()));
}

// Follows the groups from the inside out.
class LevelChecker {
 public:
  LevelChecker(const TopologyLevels& levels, Faults& faults)
      : levels_(levels), faults_(faults), devices_(DeviceCount(levels)) {}

  void Check() {
    CheckDevices();
    if (levels_.levels.size() > kMostLevels) {
      faults_.Add(absl::StrCat("the topology has ", levels_.levels.size(),
                               " levels; wanted at most ", kMostLevels));
      return;
    }
    ports_ = devices_;
    bool fits = devices_ > 0 && devices_ <= kMostDevices;
    for (const TopologyLevel& level : levels_.levels) {
      CheckNames(level);
      fits = CheckFigures(level) && fits;
      if (fits) fits = AddLevel(level);
    }
    if (fits) CheckJoined();
  }

 private:
  void Fault(const TopologyLevel& level, absl::string_view fault) {
    faults_.Add(absl::StrCat("level '", level.name, "' ", fault));
  }

  void CheckDevices() {
    for (const AlikeDevices& alike : levels_.devices) {
      if (alike.count < 1) {
        faults_.Add(absl::StrCat("devices '", alike.device.name, "' have count ", alike.count,
                                 "; wanted at least 1"));
      }
      const Device& device = alike.device;
      for (const std::string& name : {device.name, device.device_class, device.host}) {
        if (name.size() <= kLongestName) continue;
        faults_.Add(absl::StrCat("devices '", device.name.substr(0, kLongestName),
                                 "' have a name, class or host of ", name.size(),
                                 " characters; wanted at most ", kLongestName));
      }
      if (static_cast<int64_t>(device.cores.size()) > kMostCores / std::max(alike.count, 1)) {
        faults_.Add(absl::StrCat("devices '", device.name, "' list ", device.cores.size(),
                                 " cores for each of ", alike.count, "; wanted at most ",
                                 kMostCores, " in all"));
      }
      if (!IsPrefix(alike.device.name)) {
        faults_.Add(absl::StrCat("devices have the name '", alike.device.name,
                                 "'; wanted one that ends in no digit, since a number follows"));
      }
    }
    if (devices_ < 1 || devices_ > kMostDevices) {
      faults_.Add(absl::StrCat("the levels have ", devices_, " devices; wanted 1 to ", kMostDevices,
                               " (the sum of the counts of `devices`)"));
    }
  }

  void CheckNames(const TopologyLevel& level) {
    if (level.name.size() > kLongestName) {
      Fault(level, absl::StrCat("has a name of ", level.name.size(), " characters; wanted at most ",
                                kLongestName));
    }
    if (!IsPrefix(level.name)) {
      Fault(level, "has a name that a number cannot follow; wanted one that ends in no digit");
    } else if (!names_.insert(level.name).second) {
      Fault(level, "is there twice");
    }
    if (level.is_node && std::exchange(has_node_, true)) {
      Fault(level, "is the second one with is_node; wanted one at most");
    }
  }

  bool CheckFigures(const TopologyLevel& level) {
    const bool has_links = level.network != LevelNetwork::kNone;
    if (has_links && level.bytes_per_second <= 0) {
      Fault(level, absl::StrCat("has ", level.bytes_per_second, " bytes/s; wanted more than 0"));
    }
    if (level.latency.value() < 0 || level.latency.value() > kMostLevelLatency) {
      Fault(level,
            absl::StrCat("has a latency of ", level.latency.value(), " ns; wanted 0 to 2^40"));
    }
    if (level.count < 1) {
      Fault(level, absl::StrCat("has count ", level.count, "; wanted at least 1"));
      return false;
    }
    if (level.rails != 1 && level.network != LevelNetwork::kTree) {
      Fault(level, absl::StrCat("has ", level.rails, " rails; wanted 1 where it is no TREE"));
      return false;
    }
    if (!level.extents.empty() && level.network != LevelNetwork::kTorus) {
      Fault(level, "has extents; wanted none where it is no TORUS");
      return false;
    }
    return true;
  }

  bool AddLevel(const TopologyLevel& level) {
    size_ *= level.count;
    if (size_ > kMostGroup) {
      Fault(level, absl::StrCat("has groups of ", size_, " devices; wanted at most ", kMostGroup));
      return false;
    }
    const bool fits = level.network == LevelNetwork::kTree ? AddTree(level) : AddInside(level);
    if (fits && links_ > kMostLevelLinks) {
      Fault(level,
            absl::StrCat("brings the links to ", links_, "; wanted at most ", kMostLevelLinks));
      return false;
    }
    return fits;
  }

  bool AddTree(const TopologyLevel& level) {
    const int64_t ports = rails_ * (size_ / tree_size_);
    if (level.rails < 1 || level.rails > ports) {
      Fault(level, absl::StrCat("has ", level.rails, " rails; wanted 1 to ", ports,
                                ", the ports of a group"));
      return false;
    }
    links_ += ports_;
    tree_size_ = size_;
    rails_ = level.rails;
    ports_ = GroupsOf(devices_, size_) * rails_;
    if (ports_ > kMostLevelLinks) {
      Fault(level, absl::StrCat("has ", ports_, " switches; wanted at most ", kMostLevelLinks));
      return false;
    }
    return true;
  }

  bool AddInside(const TopologyLevel& level) {
    const int64_t groups = GroupsOf(devices_, size_);
    if (level.network == LevelNetwork::kNone) return true;
    if (level.network == LevelNetwork::kTorus && !CheckExtents(level)) return false;
    enclosed_size_ = size_;
    if (level.network == LevelNetwork::kCrossbar) {
      links_ += devices_;
    } else if (level.network == LevelNetwork::kTorus) {
      links_ += groups * size_ * (1 + static_cast<int64_t>(level.extents.size()));
    } else if (size_ > 4096) {
      Fault(level, absl::StrCat("joins all pairs of ", size_, " devices; wanted 4096 at most"));
      return false;
    } else {
      links_ += groups * (size_ * (size_ - 1) / 2);
    }
    return true;
  }

  bool CheckExtents(const TopologyLevel& level) {
    int64_t product = 1;
    for (int extent : level.extents) {
      product *= extent < 1 || product > kMostGroup ? 0 : extent;
    }
    if (level.extents.empty() || level.extents.size() > kMostDimensions || product != size_) {
      Fault(level, absl::StrCat("has extents ", absl::StrJoin(level.extents, " x "),
                                "; wanted up to ", kMostDimensions, " numbers whose product is ",
                                size_, ", the devices of its group"));
      return false;
    }
    if (enclosed_size_ > 0) {
      Fault(level, "is a TORUS outside of a CROSSBAR, ALL_PAIRS or TORUS; wanted it inside");
      return false;
    }
    return true;
  }

  // One network has all, or the tree ends in one switch.
  void CheckJoined() {
    if (devices_ == 1 || enclosed_size_ >= devices_ || (tree_size_ > 0 && ports_ == 1)) return;
    faults_.Add(absl::StrCat("the levels end in ", ports_,
                             " switches or devices that nothing joins; wanted one TREE above all "
                             "of them, or a group of another network that has all devices. Try a "
                             "last level of TREE with count ",
                             GroupsOf(devices_, size_)));
  }

  const TopologyLevels& levels_;
  Faults& faults_;
  const int64_t devices_;
  int64_t size_ = 1;           // devices of a group so far
  int64_t tree_size_ = 1;      // of the last TREE
  int64_t rails_ = 1;          // of the last TREE
  int64_t ports_ = 0;          // what the next TREE would join
  int64_t enclosed_size_ = 0;  // of the last network of another kind
  int64_t links_ = 0;
  bool has_node_ = false;
  absl::flat_hash_set<std::string> names_;
};

}  // namespace

absl::string_view Name(LevelNetwork network) {
  switch (network) {
    case LevelNetwork::kNone:
      return "none";
    case LevelNetwork::kTree:
      return "tree";
    case LevelNetwork::kCrossbar:
      return "crossbar";
    case LevelNetwork::kAllPairs:
      return "all_pairs";
    case LevelNetwork::kTorus:
      return "torus";
  }
  return "";
}

int DeviceCount(const TopologyLevels& levels) {
  int64_t count = 0;
  for (const AlikeDevices& alike : levels.devices) count += std::max(alike.count, 0);
  return static_cast<int>(std::min<int64_t>(count, std::numeric_limits<int>::max()));
}

void CheckLevels(const TopologyLevels& levels, Faults& faults) {
  LevelChecker(levels, faults).Check();
}

std::vector<Device> DevicesOf(const TopologyLevels& levels) {
  const int count = DeviceCount(levels);
  int node_size = 1;
  const auto node = std::find_if(levels.levels.begin(), levels.levels.end(),
                                 [](const TopologyLevel& level) { return level.is_node; });
  if (node == levels.levels.end()) {
    node_size = count;
  } else {
    for (auto level = levels.levels.begin(); level <= node; ++level) node_size *= level->count;
  }
  std::vector<Device> devices;
  devices.reserve(static_cast<size_t>(count));
  for (const AlikeDevices& alike : levels.devices) {
    for (int k = 0; k < alike.count; ++k) {
      const int number = static_cast<int>(devices.size());
      Device& device = devices.emplace_back(alike.device);
      device.node = number / node_size;
      device.name = absl::StrCat("n", device.node, ".", alike.device.name, number % node_size);
    }
  }
  return devices;
}

}  // namespace partita
