// Ranks of one host as threads of this process, that hand each other memory; and one that keeps to
// no rule.
#include "runtime/comm/host_circle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <memory>
#include <thread>
#include <vector>

#include "runtime/comm/host_window.h"
#include "runtime/comm/shared_port.h"
#include "runtime/support/process_identity.h"
#include "tests/testing/thread_port.h"

namespace partita {
namespace {

using ::testing::HasSubstr;

// A desk of two ranks (host_window.cc): tag, number of places, places, and behind them, 128 bytes
// each, how often its rank has come to each.
constexpr int64_t kArrivals = (16 + 16 * HostWindow::kMostPlaces + 127) / 128 * 128;
constexpr int64_t kDeskBytes = kArrivals + 2 * 128;

// Runs `body(rank)` on threads.
template <class Body>
void OnRanks(int ranks, Body&& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) threads.emplace_back([&body, rank] { body(rank); });
  for (std::thread& thread : threads) thread.join();
}

TEST(HostCircleTest, EveryRankGetsTheMemoryOfAllOthers) {
  constexpr int kRanks = 4;
  constexpr int kMost = 700;  // more descriptors than a socket keeps
  const RunKey key = RunKey::New();
  Mail mail;
  OnRanks(kRanks, [&](int rank) {
    ThreadPort port(mail, rank, kRanks);
    const auto circle = *HostCircle::Open(port, {0, 1, 2, 3}, key);
    ASSERT_NE(circle, nullptr);
    std::vector<SharedMemory> own;
    std::vector<const SharedMemory*> given;
    const int count = rank == 3 ? kMost / 10 : rank;
    for (int k = 0; k < count; ++k) {
      own.push_back(*SharedMemory::Make(100 + k));
      own.back().data()[0] = static_cast<char>(rank);
    }
    for (const SharedMemory& one : own) given.push_back(&one);
    const auto memory = circle->Exchange(given);
    ASSERT_TRUE(memory.ok()) << memory.status();
    for (int peer = 0; peer < kRanks; ++peer) {
      const auto& theirs = (*memory)[static_cast<size_t>(peer)];
      const int wanted = peer == rank ? 0 : peer == 3 ? kMost / 10 : peer;
      ASSERT_EQ(theirs.size(), static_cast<size_t>(wanted));
      for (size_t k = 0; k < theirs.size(); ++k) {
        EXPECT_EQ(theirs[k].bytes(), 100 + static_cast<int64_t>(k));
        EXPECT_EQ(theirs[k].data()[0], static_cast<char>(peer));
      }
    }
    ASSERT_TRUE(GatherTexts(port, "done").ok());
  });
}

TEST(HostCircleTest, RanksOfOtherHostsAreNotInIt) {
  const RunKey key = RunKey::New();
  Mail mail;
  OnRanks(3, [&](int rank) {
    ThreadPort port(mail, rank, 3);
    const auto circle =
        *HostCircle::Open(port, rank == 1 ? std::vector{1} : std::vector{0, 2}, key);
    EXPECT_EQ(circle == nullptr, rank == 1);
  });
}

// Rank 1 of two by hand, as ShareMemory goes about it: the memory of the rings.
SharedMemory ShareByHand(MessagePort& port, const RunKey& key,
                         std::unique_ptr<HostCircle>& circle) {
  EXPECT_TRUE(GatherTexts(port, HostIdentity()).ok());
  circle = *HostCircle::Open(port, {0, 1}, key);
  HostCircle::MemoryOfPeers memory = *circle->Exchange({});
  EXPECT_TRUE(GatherTexts(port, "mapped").ok());
  return std::move(memory[0][0]);
}

TEST(HostCircleTest, ARankThatOverwritesTheRingsIsNamed) {
  for (const int64_t written : {int64_t{-1}, int64_t{1} << 40, std::numeric_limits<int64_t>::min(),
                                std::numeric_limits<int64_t>::max()}) {
    const RunKey key = RunKey::New();
    Mail mail;
    std::thread rogue([&] {
      ThreadPort port(mail, 1, 2);
      std::unique_ptr<HostCircle> circle;
      const SharedMemory rings = ShareByHand(port, key, circle);
      char* ring_to_0 = rings.data() + rings.bytes() / 4 * 2;  // rings are by sender, then receiver
      std::memcpy(ring_to_0, &written, sizeof written);
      ASSERT_TRUE(GatherTexts(port, "written").ok());
    });
    std::unique_ptr<MessagePort> port = std::make_unique<ThreadPort>(mail, 0, 2);
    MessagePort& outer = *port;
    const absl::Status shared = ShareMemory(port, key);
    EXPECT_TRUE(GatherTexts(outer, "").ok());
    rogue.join();
    ASSERT_TRUE(shared.ok()) << shared;
    ASSERT_EQ(port->SharingRanks().size(), 2u);
    char data[64];
    const std::vector<MessagePort::Message> messages = {{1, true, data, sizeof data}};
    const absl::Status status = port->Exchange(messages, 1);
    EXPECT_TRUE(absl::IsInternal(status)) << status;
    EXPECT_THAT(status.message(), HasSubstr("rank 1 has overwritten the memory"));
  }
}

// Ranks of one host, with a circle and no other memory that they share.
class CirclePort : public ThreadPort {
 public:
  CirclePort(Mail& mail, int rank, const RunKey& key)
      : ThreadPort(mail, rank, 2), circle_(*HostCircle::Open(*this, {0, 1}, key)) {}
  std::vector<int> SharingRanks() const override { return {0, 1}; }
  HostCircle* circle() override { return circle_.get(); }

 private:
  const std::unique_ptr<HostCircle> circle_;
};

// What a rank writes on its desk: how many places, and where the first is.
struct Named {
  int64_t size = 1;
  int32_t memory = 0;
  int64_t offset = 0;
};

TEST(HostCircleTest, PlacesOutsideOfSharedMemoryAreRefused) {
  constexpr int64_t kBytes = 4096, kWanted = 64;
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  const Named kCases[] = {{1, 0, 0},       {1, 0, kBytes - kWanted},
                          {0, 0, 0},       {-5, 0, 0},
                          {1, 1, 0},       {1, -1, 0},
                          {1, -7, 0},      {1, 1 << 30, 0},
                          {1, 0, -1},      {1, 0, kBytes - 1},
                          {1, 0, kMin},    {1, 0, kMax},
                          {1, 0, 1 << 30}, {kMax, -2, 0}};
  for (const Named& named : kCases) {
    const RunKey key = RunKey::New();
    Mail mail;
    const SharedMemory own = *SharedMemory::Make(kBytes), theirs = *SharedMemory::Make(kBytes);
    std::thread rogue([&] {
      CirclePort port(mail, 1, key);
      ASSERT_TRUE(GatherTexts(port, "yes").ok());
      const auto desk = *SharedMemory::Make(kDeskBytes);
      const SharedMemory* given[] = {&desk, &theirs};
      std::memcpy(desk.data() + 8, &named.size, sizeof named.size);
      std::memcpy(desk.data() + 16, &named.memory, sizeof named.memory);
      std::memcpy(desk.data() + 24, &named.offset, sizeof named.offset);
      const int64_t arrived = 1;
      std::memcpy(desk.data() + kArrivals, &arrived, sizeof arrived);
      ASSERT_TRUE(port.circle()->Exchange(given).ok());
      ASSERT_TRUE(GatherTexts(port, "yes").ok());
    });
    CirclePort port(mail, 0, key);
    const SharedMemory* memory[] = {&own};
    const auto window = HostWindow::Open(port, memory);
    rogue.join();
    ASSERT_TRUE(window.ok() && *window != nullptr) << window.status();
    void* place[] = {own.data()};
    const int members[] = {0, 1};
    ASSERT_TRUE((*window)->Meet(members, 0, place).ok());
    const auto found = (*window)->Place(1, 0, kWanted);
    const bool is_good = named.size == 1 && named.memory == 0 &&
                         (named.offset == 0 || named.offset == kBytes - kWanted);
    EXPECT_EQ(found.ok(), is_good) << named.size << " " << named.memory << " " << named.offset;
    if (!is_good) {
      EXPECT_TRUE(absl::IsInternal(found.status())) << found.status();
    }
    EXPECT_TRUE((*window)->Place(0, 0, kBytes).ok());
    EXPECT_FALSE((*window)->Place(0, 0, kBytes + 1).ok());
  }
}

}  // namespace
}  // namespace partita
