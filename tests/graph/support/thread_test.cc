#include "graph/support/thread.h"

#include <dlfcn.h>
#include <errno.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <new>
#include <string>

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

}  // namespace
}  // namespace partita
