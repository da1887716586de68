#include "runtime/support/shared_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

namespace partita {
namespace {

constexpr int64_t kBytes = 100'000;

TEST(SharedMemoryTest, StartsAsZerosAndWhatOneMappingWritesTheOtherReads) {
  const SharedMemory made = SharedMemory::Make(kBytes).value();
  EXPECT_EQ(std::count(made.data(), made.data() + kBytes, 0), kBytes);
  const SharedMemory other = SharedMemory::FromDescriptor(dup(made.descriptor()), kBytes).value();
  ASSERT_EQ(other.bytes(), kBytes);
  ASSERT_NE(other.data(), made.data());
  std::memcpy(made.data() + kBytes - 10, "partita", 8);
  EXPECT_STREQ(other.data() + kBytes - 10, "partita");
  EXPECT_TRUE(made.holds(made.data() + kBytes - 1));
  EXPECT_FALSE(made.holds(made.data() + kBytes));
}

TEST(SharedMemoryTest, NobodyChangesItsSize) {
  const SharedMemory made = SharedMemory::Make(kBytes).value();
  EXPECT_NE(ftruncate(made.descriptor(), kBytes / 2), 0);
  EXPECT_NE(ftruncate(made.descriptor(), kBytes * 2), 0);
  EXPECT_NE(fcntl(made.descriptor(), F_ADD_SEALS, F_SEAL_WRITE), 0);
}

// What could become smaller while it is read, or is something else: an ordinary file would be
// overwritten.
TEST(SharedMemoryTest, WhatIsNotSealedOrOfAnotherSizeIsRefusedAndClosed) {
  const SharedMemory made = SharedMemory::Make(kBytes).value();
  const auto memory_file = [](int seals) {
    const int file = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    EXPECT_EQ(ftruncate(file, kBytes), 0);
    EXPECT_EQ(fcntl(file, F_ADD_SEALS, seals), 0);
    return file;
  };
  std::string name = "/tmp/shared_memory_test_" + std::string(6, 'X');  // as mkstemp wants it
  const int ordinary = mkstemp(name.data());
  ASSERT_EQ(ftruncate(ordinary, kBytes), 0);
  unlink(name.c_str());
  int pipes[2];
  ASSERT_EQ(pipe(pipes), 0);
  close(pipes[1]);
  const struct {
    int descriptor;
    int64_t bytes;
  } kCases[] = {{dup(made.descriptor()), kBytes + 1},
                {dup(made.descriptor()), kBytes - 1},
                {dup(made.descriptor()), 0},
                {dup(made.descriptor()), -1},
                {memory_file(0), kBytes},
                {memory_file(F_SEAL_SHRINK), kBytes},
                {memory_file(F_SEAL_GROW), kBytes},
                {ordinary, kBytes},
                {pipes[0], kBytes},
                {open("/dev/zero", O_RDWR | O_CLOEXEC), kBytes},
                {-1, kBytes}};
  for (const auto& one : kCases) {
    const auto found = SharedMemory::FromDescriptor(one.descriptor, one.bytes);
    EXPECT_TRUE(absl::IsInvalidArgument(found.status())) << one.descriptor << " " << one.bytes;
    EXPECT_EQ(fcntl(one.descriptor, F_GETFD), -1) << one.descriptor;  // closed
  }
}

}  // namespace
}  // namespace partita
