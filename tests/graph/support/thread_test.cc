#include "graph/support/thread.h"

#include <dlfcn.h>
#include <errno.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <latch>
#include <mutex>
#include <new>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "graph/support/worker_threads.h"

namespace {

std::atomic<int> g_threads_left{1000};

}  // namespace

// In place of the C library's, which it calls while there are threads left.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*run)(void*), void* argument) {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto create = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  if (g_threads_left.fetch_sub(1) <= 0) return EAGAIN;
  return create(thread, attributes, run, argument);
}

namespace partita {
namespace {

using ::testing::HasSubstr;

class ThreadTest : public ::testing::Test {
 protected:
  void SetUp() override { g_threads_left = 1000; }
  void TearDown() override { g_threads_left = 1000; }
};

void Ignore(const absl::Status&) {}

TEST_F(ThreadTest, RunsAndIsJoined) {
  int ran = 0;
  {
    absl::StatusOr<Thread> thread = Thread::Start("counting", [&ran] { ++ran; }, Ignore);
    ASSERT_TRUE(thread.ok()) << thread.status();
  }
  EXPECT_EQ(ran, 1);
}

TEST_F(ThreadTest, WhatIsThrownIsHandedOver) {
  absl::Status handed;
  absl::StatusOr<Thread> thread = Thread::Start(
      "reading samples", [] { throw std::bad_alloc(); },
      [&handed](const absl::Status& status) { handed = status; });
  ASSERT_TRUE(thread.ok()) << thread.status();
  thread->Join();
  EXPECT_TRUE(absl::IsResourceExhausted(handed)) << handed;
  EXPECT_THAT(std::string(handed.message()), HasSubstr("while reading samples"));
}

TEST_F(ThreadTest, AThreadThatIsRefusedIsAnError) {
  g_threads_left = 0;
  const absl::StatusOr<Thread> thread = Thread::Start("reading samples", [] {}, Ignore);
  EXPECT_TRUE(absl::IsUnavailable(thread.status())) << thread.status();
  EXPECT_THAT(std::string(thread.status().message()), HasSubstr("'reading samples'"));
}

TEST_F(ThreadTest, SeveralThreadsAreAllowedOrNot) {
  EXPECT_TRUE(CheckThreads(5, "computing").ok());
  g_threads_left = 3;
  EXPECT_TRUE(absl::IsUnavailable(CheckThreads(5, "computing")));
  g_threads_left = 5;
  EXPECT_TRUE(CheckThreads(5, "computing").ok());
}

TEST_F(ThreadTest, WorkersTakeEveryItemOnce) {
  for (int count : {1, 2, 5}) {
    WorkerThreads workers(count, "counting");
    for (size_t items : {0, 1, 2, 1000}) {
      std::vector<std::atomic<int>> seen(items);
      workers.ForEach(items, [&](size_t k) { ++seen[k]; });
      for (const std::atomic<int>& times : seen) EXPECT_EQ(times, 1);
    }
  }
}

TEST_F(ThreadTest, WorkersWorkAtTheSameTimeUpToTheirMost) {
  WorkerThreads workers(3, "meeting");
  std::latch all(3);
  workers.ForEach(3, [&](size_t) { all.arrive_and_wait(); });
  std::mutex mutex;
  std::set<std::thread::id> threads;
  workers.SetMost(2);
  workers.ForEach(500, [&](size_t) {
    const std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
  });
  EXPECT_LE(threads.size(), 2u);
  threads.clear();
  workers.SetMost(1);
  workers.ForEach(500, [&](size_t) { threads.insert(std::this_thread::get_id()); });
  EXPECT_EQ(threads, std::set{std::this_thread::get_id()});
}

TEST_F(ThreadTest, WhatWorkersThrowIsThrownAgainAndTheyGoOn) {
  WorkerThreads workers(4, "counting");
  for (int round = 0; round < 50; ++round) {
    EXPECT_THROW(workers.ForEach(40,
                                 [](size_t k) {
                                   if (k == 17) throw std::bad_alloc();
                                 }),
                 std::bad_alloc);
    std::atomic<int> ran = 0;
    workers.ForEach(40, [&](size_t) { ++ran; });
    EXPECT_EQ(ran, 40);
  }
}

TEST_F(ThreadTest, WorkersThatAreRefusedLeaveTheWorkToTheOthers) {
  g_threads_left = 1;
  WorkerThreads workers(4, "counting");
  std::atomic<int> ran = 0;
  workers.ForEach(40, [&](size_t) { ++ran; });
  EXPECT_EQ(ran, 40);
  EXPECT_EQ(workers.count(), 2);
}

}  // namespace
}  // namespace partita
