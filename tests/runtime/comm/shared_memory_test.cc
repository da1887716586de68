#include "runtime/support/shared_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"

namespace partita {
namespace {

TEST(SharedMemoryTest, StartsAsZerosAndWhatOneMappingWritesTheOtherReads) {
  const SharedMemory made = SharedMemory::Make(100'000).value();
  EXPECT_EQ(std::count(made.data(), made.data() + 100'000, 0), 100'000);
  const SharedMemory opened = SharedMemory::Open(made.name()).value();
  ASSERT_EQ(opened.bytes(), 100'000);
  ASSERT_NE(opened.data(), made.data());
  std::memcpy(made.data() + 99'990, "partita", 8);
  EXPECT_STREQ(opened.data() + 99'990, "partita");
  EXPECT_TRUE(made.holds(made.data() + 99'999));
  EXPECT_FALSE(made.holds(made.data() + 100'000));
}

// In another process namespace the same path leads elsewhere.
TEST(SharedMemoryTest, AnotherFileThanTheNamedOneIsNotOpened) {
  const SharedMemory made = SharedMemory::Make(4096).value(),
                     other = SharedMemory::Make(4096).value();
  const std::string path = made.name().substr(0, made.name().find(' '));
  const std::string number = other.name().substr(other.name().find(' '));
  EXPECT_TRUE(absl::IsNotFound(SharedMemory::Open(absl::StrCat(path, number)).status()));
  EXPECT_TRUE(absl::IsNotFound(SharedMemory::Open("/proc/self/fd/12345 1").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(SharedMemory::Open(path).status()));
}

}  // namespace
}  // namespace partita
