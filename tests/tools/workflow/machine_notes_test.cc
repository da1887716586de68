// What is said about devices that share cores.
#include "tools/workflow/machine_notes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace partita {
namespace {

using ::testing::HasSubstr;

struct Place {
  int node;
  std::string host;
  std::vector<int> cores;
};

DeviceTopology On(const std::vector<Place>& places) {
  std::vector<Device> devices;
  Link net{.name = "net", .bytes_per_second = 1, .shared = true};
  for (const Place& place : places) {
    devices.push_back({.name = std::string(1, static_cast<char>('a' + devices.size())),
                       .node = place.node,
                       .memory = Bytes(1),
                       .cores = place.cores,
                       .host = place.host});
    net.ends.push_back(devices.back().name);
  }
  auto topology = DeviceTopology::Create(std::move(devices), {net});
  EXPECT_TRUE(topology.ok()) << topology.status();
  return *std::move(topology);
}

TEST(CoreSharingTest, DevicesWithCoresOfTheirOwnShareNone) {
  EXPECT_EQ(CoreSharingOf(On({{0, "", {0, 1}}, {0, "", {2, 3}}})), (CoreSharing{0, 0}));
  EXPECT_EQ(CoreSharingOf(On({{0, "", {0}}, {1, "", {0}}})), (CoreSharing{0, 0}));
  EXPECT_EQ(NoteOf(CoreSharingOf(On({{0, "", {0}}, {1, "", {0}}}))), "");
}

TEST(CoreSharingTest, DevicesAndTheCoresThatTheyShareAreCounted) {
  const DeviceTopology turns = On({{0, "", {0}}, {0, "", {1}}, {0, "", {0}}, {0, "", {1}}});
  EXPECT_EQ(CoreSharingOf(turns), (CoreSharing{4, 2}));
  EXPECT_THAT(NoteOf(CoreSharingOf(turns)), HasSubstr("4 devices share 2 cores"));
  EXPECT_EQ(CoreSharingOf(On({{0, "", {0}}, {0, "", {1}}, {0, "", {1}}})), (CoreSharing{2, 1}));
  // Nodes of one computer.
  EXPECT_EQ(CoreSharingOf(On({{0, "box", {0}}, {1, "box", {0}}, {2, "", {0}}})),
            (CoreSharing{2, 1}));
}

}  // namespace
}  // namespace partita
