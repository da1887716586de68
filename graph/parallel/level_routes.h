#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/parallel/device_topology.h"
#include "graph/parallel/levels.h"
#include "graph/parallel/torus.h"

namespace partita {

// The routes of a topology by levels, worked out from the places of the devices: nothing is kept,
// and what it takes does not grow with the devices. Links are counted level by level, channels two
// for each (first end to second, and back); vertices are the devices, then the switches.
// For several threads at once.
class LevelRoutes {
 public:
  // The levels are valid.
  explicit LevelRoutes(TopologyLevels levels);

  const TopologyLevels& levels() const { return levels_; }
  int vertices() const { return vertices_; }

  // The last step of the way from a device to a vertex: the vertex before it and the channel between
  // them; -1 where there is none. The ways from one device are a tree.
  struct Step {
    int32_t from = -1;
    int32_t channel = -1;
  };
  Step StepTo(DeviceId root, int32_t vertex) const;

  RouteChannels Find(DeviceId from, DeviceId to) const;
  // The channels of all routes between members of the group, ascending; without going through the
  // pairs of the group.
  std::vector<ChannelId> Between(std::span<const DeviceId> group) const;

  std::vector<Channel> Channels() const;
  // All links one by one, made when they are first asked for.
  std::span<const Link> links() const;

 private:
  // A level of the tree: the ports below it, each with a link up to a switch.
  struct Stage {
    size_t level = 0;
    int ports = 0;            // in all: devices, or switches of the stage below
    int ports_per_group = 0;  // of a group that lacks none
    int rails = 0;
    int switches = 0;
    int32_t first_vertex = 0;
    int32_t first_link = 0;

    int SwitchOf(int port) const {
      return port / ports_per_group * rails + port % ports_per_group % rails;
    }
  };
  // A level whose network serves the group alone.
  struct Enclosed {
    size_t level = 0;
    LevelNetwork network = LevelNetwork::kCrossbar;
    int size = 0;    // devices of a group that lacks none
    int groups = 0;  // in all
    int32_t first_vertex = 0;
    int32_t first_link = 0;
    std::optional<Torus> torus = std::nullopt;

    int GroupOf(int device) const { return device / size; }
    int Switches() const {
      return torus.has_value() ? groups * size : network == LevelNetwork::kCrossbar ? groups : 0;
    }
  };
  using LinkVisitor = std::function<void(const Link&)>;

  void AddStage(size_t level, int groups, int group_size);
  void AddEnclosed(size_t level, int groups, int group_size);

  // The innermost that both devices are in, or null.
  const Enclosed* EnclosedOf(int a, int b) const;
  // The direction from one device of an all-pairs group to another.
  static int32_t PairChannel(const Enclosed& pairs, int from, int to);
  // A direction of a ring's link.
  static int32_t RingChannel(const Enclosed& torus, int group, int ring_link, bool up);

  Step StepToDevice(int32_t root, int32_t device) const;
  Step StepToSwitch(int32_t root, size_t stage, int32_t number) const;
  Step StepToEnclosed(int32_t root, const Enclosed& enclosed, int32_t number) const;

  void AddTreeBetween(std::span<const int> devices, std::vector<ChannelId>& channels) const;
  void AddEnclosedBetween(const Enclosed& enclosed, int inner_size, std::span<const int> devices,
                          std::vector<ChannelId>& channels) const;
  void AddRingsBetween(const Enclosed& enclosed, std::span<const int> members,
                       std::vector<ChannelId>& channels) const;

  std::string SwitchName(const Stage& stage, int number) const;
  Link LinkOf(size_t level, std::string first, std::string second) const;
  void VisitLinks(std::span<const Device> devices, const LinkVisitor& visit) const;
  void VisitTreeLinks(size_t number, std::span<const Device> devices,
                      const LinkVisitor& visit) const;
  void VisitEnclosedLinks(const Enclosed& enclosed, std::span<const Device> devices,
                          const LinkVisitor& visit) const;

  const TopologyLevels levels_;
  const int devices_;
  int vertices_;
  int link_count_ = 0;
  int tree_group_ = 1;            // devices of a group of the last stage
  std::vector<Stage> stages_;     // from the devices up
  std::vector<Enclosed> inside_;  // from the inside out
  mutable std::once_flag links_made_;
  mutable std::vector<Link> links_;
};

}  // namespace partita
