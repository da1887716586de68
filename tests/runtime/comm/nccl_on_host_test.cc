// The test library of NCCL's functions says what is wrong: every mistake becomes an error on all
// ranks that it concerns, and names what differs.
#include "tests/testing/nccl_on_host/nccl_on_host.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "runtime/comm/nccl/nccl_library.h"

namespace partita {
namespace {

using ::testing::HasSubstr;

// What a rank's thread got.
struct Got {
  ncclResult_t result = ncclSuccess;
  std::string error;
};

class NcclOnHostTest : public ::testing::Test {
 protected:
  void SetUp() override { ncclOnHostSetTimeLimit(60); }
  void TearDown() override {
    for (ncclComm_t comm : comms_) ncclCommDestroy(comm);
  }

  // Communicators of so many ranks, all in this process.
  void Open(int ranks) {
    comms_.resize(static_cast<size_t>(ranks));
    ASSERT_EQ(ncclCommInitAll(comms_.data(), ranks, nullptr), ncclSuccess);
  }

  // One thread for each rank that calls `call(rank, comm)`.
  std::vector<Got> OnEveryRank(const std::function<ncclResult_t(int, ncclComm_t)>& call) {
    std::vector<Got> got(comms_.size());
    std::vector<std::thread> threads;
    for (size_t r = 0; r < comms_.size(); ++r) {
      threads.emplace_back([&, r] {
        got[r].result = call(static_cast<int>(r), comms_[r]);
        if (got[r].result != ncclSuccess) got[r].error = ncclGetLastError(comms_[r]);
      });
    }
    for (std::thread& thread : threads) thread.join();
    return got;
  }

  // Every rank gets this result, with these words.
  void ExpectAll(const std::vector<Got>& got, ncclResult_t result,
                 const std::vector<std::string>& words) {
    for (size_t r = 0; r < got.size(); ++r) {
      EXPECT_EQ(got[r].result, result) << "rank " << r << ": " << got[r].error;
      for (const std::string& word : words) EXPECT_THAT(got[r].error, HasSubstr(word));
    }
  }

  std::vector<ncclComm_t> comms_;
};

TEST_F(NcclOnHostTest, OneThreadCallsForAllRanksInAGroup) {
  Open(4);
  std::vector<std::vector<double>> values = {{1, 2}, {10, 20}, {100, 200}, {1000, 2000}};
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (size_t r = 0; r < 4; ++r) {
    EXPECT_EQ(ncclAllReduce(values[r].data(), values[r].data(), 2, ncclFloat64, ncclSum, comms_[r],
                            nullptr),
              ncclSuccess);
    EXPECT_EQ(values[r][0], std::vector<double>({1, 10, 100, 1000})[r]) << "before the group's end";
  }
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
  for (const auto& own : values) EXPECT_EQ(own, std::vector<double>({1111, 2222}));
  int count = 0, rank = 0;
  EXPECT_EQ(ncclCommCount(comms_[3], &count), ncclSuccess);
  EXPECT_EQ(ncclCommUserRank(comms_[3], &rank), ncclSuccess);
  EXPECT_EQ(count, 4);
  EXPECT_EQ(rank, 3);
}

TEST_F(NcclOnHostTest, FoldsAllFourOperations) {
  Open(3);
  for (const auto& [op, want] : {std::pair{ncclSum, int64_t{-2}},
                                 {ncclProd, int64_t{30}},
                                 {ncclMax, int64_t{3}},
                                 {ncclMin, int64_t{-5}}}) {
    std::vector<int64_t> values = {-5, 3, -2};
    values[2] = op == ncclSum ? 0 : -2;
    const auto got = OnEveryRank([&, op = op](int r, ncclComm_t comm) {
      int64_t* own = &values[static_cast<size_t>(r)];
      return ncclAllReduce(own, own, 1, ncclInt64, op, comm, nullptr);
    });
    ExpectAll(got, ncclSuccess, {});
    EXPECT_EQ(values, std::vector<int64_t>(3, want));
  }
}

TEST_F(NcclOnHostTest, AWrongCountIsNamed) {
  Open(3);
  float values[16] = {};
  ExpectAll(OnEveryRank([&](int r, ncclComm_t comm) {
              return ncclBroadcast(values, values, r == 2 ? 5 : 4, ncclFloat32, 0, comm, nullptr);
            }),
            ncclInvalidArgument, {"the count differs", "of 5 ncclFloat32", "of 4 ncclFloat32"});
}

TEST_F(NcclOnHostTest, AWrongTypeReductionOrRootIsNamed) {
  float values[3][16] = {};
  Open(3);
  ExpectAll(OnEveryRank([&](int r, ncclComm_t comm) {
              return ncclAllReduce(values[r], values[r], 4, r == 1 ? ncclInt32 : ncclFloat32,
                                   ncclSum, comm, nullptr);
            }),
            ncclInvalidArgument, {"the type differs", "rank 1 ", "ncclInt32"});
  Open(3);
  ExpectAll(OnEveryRank([&](int r, ncclComm_t comm) {
              return ncclAllReduce(values[r], values[r], 4, ncclFloat32, r == 0 ? ncclMax : ncclSum,
                                   comm, nullptr);
            }),
            ncclInvalidArgument, {"the reduction differs", "ncclMax"});
  Open(3);
  ExpectAll(OnEveryRank([&](int r, ncclComm_t comm) {
              return ncclReduce(values[r], values[r], 4, ncclFloat32, ncclSum, r == 0 ? 1 : 2, comm,
                                nullptr);
            }),
            ncclInvalidArgument, {"the root differs", "of root 1", "of root 2"});
}

TEST_F(NcclOnHostTest, AnotherOrderOfCollectivesIsNamed) {
  Open(2);
  float values[2][16] = {};
  ExpectAll(OnEveryRank([&](int r, ncclComm_t comm) {
              if (r == 0) {
                return ncclAllReduce(values[0], values[0], 4, ncclFloat32, ncclSum, comm, nullptr);
              }
              return ncclBroadcast(values[1], values[1], 4, ncclFloat32, 0, comm, nullptr);
            }),
            ncclInvalidUsage, {"the order of calls differs", "ncclAllReduce", "ncclBroadcast"});
}

// Rank 0 wants the sum first, rank 1 the message: with NCCL both would wait for ever.
TEST_F(NcclOnHostTest, RanksThatWaitForEachOtherAreFound) {
  Open(3);
  float values[3][16] = {};
  ExpectAll(OnEveryRank([&](int r, ncclComm_t comm) {
              if (r == 1) return ncclRecv(values[1], 4, ncclFloat32, 0, comm, nullptr);
              return ncclAllReduce(values[r], values[r], 4, ncclFloat32, ncclSum, comm, nullptr);
            }),
            ncclInvalidUsage,
            {"wait for each other", "rank 0 is in ncclAllReduce", "rank 1 is in ncclRecv"});
  // Two that both send first, without a group, get on only if they did not wait for the receiver.
  Open(2);
  ExpectAll(OnEveryRank([&](int r, ncclComm_t comm) {
              return ncclSend(values[r], 4, ncclFloat32, 1 - r, comm, nullptr);
            }),
            ncclInvalidUsage, {"wait for each other"});
}

TEST_F(NcclOnHostTest, AMessageOfAnotherSizeOrTypeIsNamed) {
  float values[2][16] = {};
  for (const bool count : {true, false}) {
    Open(2);
    ExpectAll(OnEveryRank([&](int r, ncclComm_t comm) {
                if (r == 0) return ncclSend(values[0], 4, ncclFloat32, 1, comm, nullptr);
                return ncclRecv(values[1], count ? 5 : 4, count ? ncclFloat32 : ncclInt32, 0, comm,
                                nullptr);
              }),
              ncclInvalidArgument,
              {count ? "the count differs" : "the type differs", "ncclSend of 4 ncclFloat32"});
  }
}

TEST_F(NcclOnHostTest, AMissingRankIsNamedAfterTheLimit) {
  Open(3);
  ncclOnHostSetTimeLimit(0.05);
  float values[3][4] = {};
  const auto got = OnEveryRank([&](int r, ncclComm_t comm) {
    if (r == 1) return ncclSuccess;
    return ncclAllReduce(values[r], values[r], 4, ncclFloat32, ncclSum, comm, nullptr);
  });
  for (int r : {0, 2}) {
    EXPECT_EQ(got[static_cast<size_t>(r)].result, ncclSystemError);
    EXPECT_THAT(got[static_cast<size_t>(r)].error, HasSubstr("rank 1 missing for 0.05 seconds"));
  }
}

TEST_F(NcclOnHostTest, ARankThatNeverConnectsIsNamedAfterTheLimit) {
  ncclOnHostSetTimeLimit(0.05);
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  ncclComm_t comm = nullptr;
  EXPECT_EQ(ncclCommInitRank(&comm, 2, id, 0), ncclSystemError);
  EXPECT_THAT(ncclGetLastError(nullptr), HasSubstr("rank 1 of 2 did not connect"));
}

TEST_F(NcclOnHostTest, CommunicatorsThatDoNotBlockAreInProgressUntilAllAreThere) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  comms_.resize(2);
  ncclResult_t state = ncclSuccess;
  EXPECT_EQ(ncclCommInitRankConfig(&comms_[0], 2, id, 0, &config), ncclInProgress);
  EXPECT_EQ(ncclCommGetAsyncError(comms_[0], &state), ncclSuccess);
  EXPECT_EQ(state, ncclInProgress);
  EXPECT_EQ(ncclCommInitRankConfig(&comms_[1], 2, id, 1, &config), ncclSuccess);
  EXPECT_EQ(ncclCommGetAsyncError(comms_[0], &state), ncclSuccess);
  EXPECT_EQ(state, ncclSuccess);
}

TEST_F(NcclOnHostTest, ARankThatJoinsTwiceOrExpectsOthersIsNamed) {
  ncclUniqueId id;
  ncclComm_t comm = nullptr;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(ncclCommInitRank(&comm, 2, id, 0), ncclSuccess);
  EXPECT_EQ(ncclCommInitRank(&comm, 2, id, 0), ncclInvalidUsage);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
  EXPECT_THAT(ncclGetLastError(nullptr), HasSubstr("rank 0 joins twice"));
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(ncclCommInitRank(&comm, 2, id, 0), ncclSuccess);
  EXPECT_EQ(ncclCommInitRank(&comm, 3, id, 1), ncclInvalidArgument);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
  EXPECT_THAT(ncclGetLastError(nullptr), HasSubstr("number of ranks differs"));
  const int twice[] = {0, 0};
  ncclComm_t comms[2];
  EXPECT_EQ(ncclCommInitAll(comms, 2, twice), ncclInvalidUsage);
}

TEST_F(NcclOnHostTest, CallsThatDoNotBlockAreInProgressUntilAllHaveMadeThem) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  comms_.resize(2);
  for (int r : {0, 1}) ncclCommInitRankConfig(&comms_[static_cast<size_t>(r)], 2, id, r, &config);
  float values[2] = {3, 4};
  ncclResult_t state = ncclSuccess;
  EXPECT_EQ(ncclAllReduce(values, values, 1, ncclFloat32, ncclSum, comms_[0], nullptr),
            ncclInProgress);
  EXPECT_EQ(ncclCommGetAsyncError(comms_[0], &state), ncclSuccess);
  EXPECT_EQ(state, ncclInProgress);
  EXPECT_EQ(ncclAllReduce(values + 1, values + 1, 1, ncclFloat32, ncclSum, comms_[1], nullptr),
            ncclSuccess);
  EXPECT_EQ(ncclCommGetAsyncError(comms_[0], &state), ncclSuccess);
  EXPECT_EQ(state, ncclSuccess);
  EXPECT_EQ(values[0], 7);
  // One that nobody else makes is an error after the limit.
  ncclOnHostSetTimeLimit(0.02);
  EXPECT_EQ(ncclAllReduce(values, values, 1, ncclFloat32, ncclSum, comms_[0], nullptr),
            ncclInProgress);
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  EXPECT_EQ(ncclCommGetAsyncError(comms_[0], &state), ncclSuccess);
  EXPECT_EQ(state, ncclSystemError);
  EXPECT_THAT(ncclGetLastError(nullptr), HasSubstr("rank 1 missing"));
}

TEST_F(NcclOnHostTest, RanksOfOneColorAreACommunicatorInTheOrderOfTheirKeys) {
  Open(5);
  const int colors[] = {7, 0, 7, NCCL_SPLIT_NOCOLOR, 7}, keys[] = {2, 0, 1, 0, 1};
  const int want[] = {2, 0, 0, -1, 1};
  std::vector<ncclComm_t> parts(5);
  ExpectAll(OnEveryRank([&](int r, ncclComm_t comm) {
              return ncclCommSplit(comm, colors[r], keys[r], &parts[static_cast<size_t>(r)],
                                   nullptr);
            }),
            ncclSuccess, {});
  for (size_t r = 0; r < 5; ++r) {
    if (want[r] < 0) {
      EXPECT_EQ(parts[r], nullptr);
      continue;
    }
    int rank = -1, count = 0;
    EXPECT_EQ(ncclCommUserRank(parts[r], &rank), ncclSuccess);
    EXPECT_EQ(ncclCommCount(parts[r], &count), ncclSuccess);
    EXPECT_EQ(rank, want[r]);
    EXPECT_EQ(count, colors[r] == 7 ? 3 : 1);
  }
  std::vector<double> values = {1, 10, 100, 1000, 10000};
  ExpectAll(OnEveryRank([&](int r, ncclComm_t) {
              const auto k = static_cast<size_t>(r);
              if (parts[k] == nullptr) return ncclSuccess;
              return ncclAllReduce(&values[k], &values[k], 1, ncclFloat64, ncclSum, parts[k],
                                   nullptr);
            }),
            ncclSuccess, {});
  EXPECT_EQ(values, std::vector<double>({10101, 10, 10101, 1000, 10101}));
  for (ncclComm_t part : parts) {
    if (part != nullptr) ncclCommDestroy(part);
  }
}

TEST_F(NcclOnHostTest, ASplitIsUnderWayUntilAllRanksHaveCalledIt) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  comms_.resize(2);
  for (int r : {0, 1}) ncclCommInitRankConfig(&comms_[static_cast<size_t>(r)], 2, id, r, &config);
  config.blocking = 1;
  ncclComm_t parts[2];
  ncclResult_t state = ncclSuccess;
  EXPECT_EQ(ncclCommSplit(comms_[0], 0, 0, &parts[0], &config), ncclInProgress);
  EXPECT_EQ(ncclCommGetAsyncError(comms_[0], &state), ncclSuccess);
  EXPECT_EQ(state, ncclInProgress);
  EXPECT_EQ(parts[0], nullptr);
  EXPECT_EQ(ncclCommSplit(comms_[1], 0, 0, &parts[1], &config), ncclSuccess);
  EXPECT_EQ(ncclCommGetAsyncError(comms_[0], &state), ncclSuccess);
  EXPECT_EQ(state, ncclSuccess);
  for (ncclComm_t part : parts) EXPECT_EQ(ncclCommDestroy(part), ncclSuccess);
  // Once more before it is done, and a color that is none.
  EXPECT_EQ(ncclCommSplit(comms_[0], 0, 0, &parts[0], &config), ncclInProgress);
  EXPECT_EQ(ncclCommSplit(comms_[0], 0, 0, &parts[0], &config), ncclInvalidUsage);
  EXPECT_THAT(ncclGetLastError(nullptr), HasSubstr("before its split is done"));
  Open(1);
  EXPECT_EQ(ncclCommSplit(comms_[0], -2, 0, &parts[0], nullptr), ncclInvalidArgument);
}

// Of a rank's communicators that share what they have, one that no call is under way in.
TEST_F(NcclOnHostTest, AnAbortEndsTheCallsOfWhatWasSplitFromIt) {
  for (const bool shares : {true, false}) {
    ncclUniqueId id;
    ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.splitShare = shares ? 1 : 0;
    comms_.resize(2);
    ncclComm_t parts[2];
    ExpectAll(OnEveryRank([&](int r, ncclComm_t) {
                ncclComm_t& own = comms_[static_cast<size_t>(r)];
                ncclCommInitRankConfig(&own, 2, id, r, &config);
                return ncclCommSplit(own, 0, r, &parts[r], nullptr);
              }),
              ncclSuccess, {});
    ncclOnHostTakeCounts();
    ncclOnHostSetTimeLimit(shares ? 60 : 0.1);
    float value = 1;
    const auto got = OnEveryRank([&](int r, ncclComm_t comm) {
      if (r == 0) {
        return ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, parts[0], nullptr);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      return r == 1 ? ncclCommAbort(comm) : ncclSuccess;
    });
    EXPECT_EQ(got[0].result, shares ? ncclRemoteError : ncclSystemError) << got[0].error;
    EXPECT_EQ(ncclOnHostTakeCounts().aborted_inside, 0);
    comms_.resize(1);
    for (ncclComm_t part : parts) ncclCommDestroy(part);
  }
}

TEST_F(NcclOnHostTest, AnAbortOfACommunicatorThatIsInUseIsCounted) {
  Open(2);
  ncclOnHostTakeCounts();
  float value = 1;
  std::thread caller(
      [&] { ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, comms_[0], nullptr); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(ncclCommAbort(comms_[0]), ncclSuccess);
  caller.join();
  EXPECT_EQ(ncclOnHostTakeCounts().aborted_inside, 1);
  comms_.erase(comms_.begin());
}

TEST_F(NcclOnHostTest, AnAbortEndsThoseWhoWaitAndLaterCalls) {
  Open(2);
  float values[2][4] = {};
  const auto got = OnEveryRank([&](int r, ncclComm_t comm) {
    if (r == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      return ncclCommAbort(comm);
    }
    return ncclAllReduce(values[0], values[0], 4, ncclFloat32, ncclSum, comm, nullptr);
  });
  EXPECT_EQ(got[0].result, ncclRemoteError);
  EXPECT_THAT(got[0].error, HasSubstr("rank 1 was aborted"));
  ncclResult_t state = ncclSuccess;
  EXPECT_EQ(ncclCommGetAsyncError(comms_[0], &state), ncclSuccess);
  EXPECT_EQ(state, ncclRemoteError);
  EXPECT_EQ(ncclAllReduce(values[1], values[1], 4, ncclFloat32, ncclSum, comms_[1], nullptr),
            ncclInvalidUsage);
  EXPECT_THAT(ncclGetLastError(nullptr), HasSubstr("rank 1 is used after it was aborted"));
  EXPECT_EQ(ncclCommAbort(comms_[1]), ncclInvalidUsage);
  comms_.clear();
}

TEST_F(NcclOnHostTest, ARankThatIsDestroyedIsNotWaitedFor) {
  Open(2);
  float values[4] = {};
  EXPECT_EQ(ncclCommFinalize(comms_[1]), ncclSuccess);
  EXPECT_EQ(ncclCommDestroy(comms_[1]), ncclSuccess);
  EXPECT_EQ(ncclAllReduce(values, values, 4, ncclFloat32, ncclSum, comms_[0], nullptr),
            ncclRemoteError);
  EXPECT_THAT(ncclGetLastError(nullptr), HasSubstr("rank 1 was destroyed"));
  EXPECT_EQ(ncclCommDestroy(comms_[1]), ncclInvalidUsage);
  comms_.resize(1);
}

TEST_F(NcclOnHostTest, RulesOfGroups) {
  Open(1);
  float values[8] = {};
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
  // To itself only in a group that has both sides.
  EXPECT_EQ(ncclSend(values, 2, ncclFloat32, 0, comms_[0], nullptr), ncclInvalidUsage);
  EXPECT_THAT(ncclGetLastError(nullptr), HasSubstr("sends to itself"));
  Open(1);
  values[0] = 5;
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(ncclRecv(values + 4, 2, ncclFloat32, 0, comms_[0], nullptr), ncclSuccess);
  EXPECT_EQ(ncclSend(values, 2, ncclFloat32, 0, comms_[0], nullptr), ncclSuccess);
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
  EXPECT_EQ(values[4], 0) << "before the outer group's end";
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
  EXPECT_EQ(values[4], 5);
  // New communicators and calls do not share a group.
  ncclUniqueId id;
  ncclComm_t other = nullptr;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(ncclCommInitRank(&other, 1, id, 0), ncclSuccess);
  EXPECT_EQ(ncclAllReduce(values, values, 1, ncclFloat32, ncclSum, comms_[0], nullptr),
            ncclSuccess);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
}

TEST_F(NcclOnHostTest, WrongArgumentsAreNamed) {
  float values[8] = {};
  const auto expect = [&](const std::function<ncclResult_t(ncclComm_t)>& call, const char* words) {
    Open(2);
    EXPECT_EQ(call(comms_[0]), ncclInvalidArgument) << words;
    EXPECT_THAT(ncclGetLastError(nullptr), HasSubstr(words));
    ncclResult_t state = ncclSuccess;
    ASSERT_EQ(ncclCommGetAsyncError(comms_[1], &state), ncclSuccess);
    EXPECT_EQ(state, ncclInvalidArgument) << "the other rank does not learn of it";
  };
  expect(
      [&](ncclComm_t c) {
        return ncclAllReduce(nullptr, values, 1, ncclFloat32, ncclSum, c, nullptr);
      },
      "a buffer is null");
  expect([&](ncclComm_t c) { return ncclBroadcast(values, values, 1, ncclFloat32, 2, c, nullptr); },
         "there are 2 ranks");
  expect(
      [&](ncclComm_t c) {
        return ncclAllReduce(values, values + 1, 4, ncclFloat32, ncclSum, c, nullptr);
      },
      "overlap");
  expect(
      [&](ncclComm_t c) {
        return ncclAllReduce(values, values, 4, ncclNumTypes, ncclSum, c, nullptr);
      },
      "no such type");
  expect(
      [&](ncclComm_t c) {
        return ncclAllReduce(values, values, 4, ncclFloat16, ncclSum, c, nullptr);
      },
      "folds");
  EXPECT_EQ(ncclAllReduce(values, values, 1, ncclFloat32, ncclSum, nullptr, nullptr),
            ncclInvalidArgument);
  EXPECT_THAT(ncclGetLastError(nullptr), HasSubstr("not a communicator"));
}

}  // namespace
}  // namespace partita
