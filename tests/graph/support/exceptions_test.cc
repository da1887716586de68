#include "graph/support/exceptions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/support/doing.h"

namespace partita {
namespace {

using ::testing::HasSubstr;

std::string Said(const Doing::Text& text) { return std::string(absl::string_view(text)); }

TEST(DoingTest, TheInnermostCounts) {
  EXPECT_EQ(Said(Doing::Now()), "");
  const Doing outer("reading model", "net.onnx");
  EXPECT_EQ(Said(Doing::Now()), "reading model 'net.onnx'");
  {
    const Doing inner("searching");
    EXPECT_EQ(Said(Doing::Now()), "searching");
  }
  EXPECT_EQ(Said(Doing::Now()), "reading model 'net.onnx'");
}

TEST(DoingTest, LongTextsAreCutOff) {
  const std::string path(1000, 'x');
  const Doing doing("reading", path);
  EXPECT_EQ(Said(Doing::Now()).size(), sizeof(Doing::Text) - 1);
}

TEST(DoingTest, WhereThrownIsTheScopeThatWasLeftFirst) {
  const Doing outer("planning");
  try {
    const Doing reading("reading model", "a.onnx");
    const Doing building("building the graph");
    throw std::bad_alloc();
  } catch (const std::bad_alloc&) {
    EXPECT_EQ(Said(Doing::WhereThrown()), "building the graph");
    EXPECT_EQ(Said(Doing::WhereThrown()), "planning") << "it is told once";
  }
}

TEST(DoingTest, WhatWasDealtWithIsForgotten) {
  const Doing outer("planning");
  try {
    const Doing trying("trying something");
    throw std::runtime_error("no");
  } catch (const std::runtime_error&) {
  }
  const Doing next("searching");
  try {
    throw std::bad_alloc();
  } catch (const std::bad_alloc&) {
    EXPECT_EQ(Said(Doing::WhereThrown()), "searching");
  }
}

template <class Exception>
absl::Status Thrown(const Exception& exception) {
  return Catching([&] {
    const Doing doing("reading model", "a.onnx");
    throw exception;
  });
}

TEST(CatchingTest, ResultsPass) {
  EXPECT_TRUE(Catching([] {}).ok());
  EXPECT_EQ(*Catching([]() -> absl::StatusOr<int> { return 7; }), 7);
  EXPECT_EQ(Catching([] { return absl::NotFoundError("gone"); }), absl::NotFoundError("gone"));
}

TEST(CatchingTest, MemoryThatIsRefusedSaysWhatWasBeingDone) {
  for (const absl::Status& status :
       {Thrown(std::bad_alloc()), Thrown(std::bad_array_new_length()),
        Thrown(std::length_error("vector")),
        Thrown(std::system_error(std::make_error_code(std::errc::not_enough_memory)))}) {
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("out of memory while reading model 'a.onnx'; "));
  }
}

TEST(CatchingTest, ContainersThatAreTooLargeAreMemoryThatIsRefused) {
  const absl::StatusOr<size_t> size = Catching([]() -> absl::StatusOr<size_t> {
    volatile size_t most = static_cast<size_t>(-1);
    return std::vector<double>(most).size();
  });
  EXPECT_TRUE(absl::IsResourceExhausted(size.status())) << size.status();
}

TEST(CatchingTest, ThreadsThatAreRefusedAreUnavailable) {
  const absl::Status status =
      Thrown(std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again)));
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("thread while reading model 'a.onnx'; "));
  EXPECT_THAT(std::string(status.message()), HasSubstr("ulimit -u"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("ulimit -v"));
}

TEST(CatchingTest, FilesAreNamed) {
  const absl::Status status = Thrown(std::filesystem::filesystem_error(
      "status", "/some/where", std::make_error_code(std::errc::permission_denied)));
  EXPECT_TRUE(absl::IsPermissionDenied(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("'/some/where'"));
}

TEST(CatchingTest, AllElseIsInternal) {
  const absl::Status status = Thrown(std::out_of_range("map::at"));
  EXPECT_TRUE(absl::IsInternal(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("while reading model 'a.onnx': map::at"));
  EXPECT_TRUE(absl::IsInternal(Thrown(7)));
}

}  // namespace
}  // namespace partita
