#include "graph/support/error_category.h"

#include <gtest/gtest.h>

#include <new>
#include <set>

#include "absl/strings/cord.h"
#include "graph/support/exceptions.h"

namespace partita {
namespace {

TEST(ErrorCategoryTest, EveryCategoryHasARowAndAnExitCodeOfItsOwn) {
  std::set<int> codes;
  for (const ErrorCategoryRow& row : ErrorCategories()) {
    const absl::Status error = WithCategory(row.category, absl::InternalError("x"));
    EXPECT_EQ(CategoryOf(error), row.category);
    EXPECT_EQ(ExitCodeOf(error), static_cast<int>(row.category));
    EXPECT_TRUE(codes.insert(ExitCodeOf(error)).second) << row.description;
    EXPECT_EQ(error.code(), absl::StatusCode::kInternal);
  }
  EXPECT_EQ(codes, (std::set<int>{1, 2, 3, 4, 5, 7, 130}));
  EXPECT_EQ(ExitCodeOf(absl::OkStatus()), 0);
}

TEST(ErrorCategoryTest, ErrorsOfOneCodeDifferInCategory) {
  const absl::Status declined = DeclinedError("x"), foreign = ForeignProfileError("x");
  EXPECT_EQ(declined.code(), foreign.code());
  EXPECT_EQ(ExitCodeOf(declined), 2);
  EXPECT_EQ(ExitCodeOf(foreign), 7);
  EXPECT_EQ(ExitCodeOf(InterruptedError("x")), 130);
  EXPECT_EQ(ExitCodeOf(AbandonedError("x")), 5);
  EXPECT_TRUE(IsInterrupted(InterruptedError("x")));
  EXPECT_FALSE(IsInterrupted(AbandonedError("x")));
  EXPECT_EQ(ExitCodeOf(NotFiniteError("x")), 1);
  EXPECT_EQ(ExitCodeOf(EndError("x")), 5);
}

TEST(ErrorCategoryTest, AnErrorWithoutOneHasThatOfItsCode) {
  for (const absl::Status& error :
       {absl::InvalidArgumentError(""), absl::NotFoundError(""), absl::AlreadyExistsError(""),
        absl::PermissionDeniedError(""), absl::UnimplementedError(""), absl::DataLossError("")}) {
    EXPECT_EQ(CategoryOf(error), ErrorCategory::kInput) << error;
  }
  for (const absl::Status& error :
       {absl::InternalError(""), absl::UnavailableError(""), absl::DeadlineExceededError(""),
        absl::AbortedError(""), absl::UnknownError(""), absl::CancelledError(""),
        absl::FailedPreconditionError(""), absl::OutOfRangeError("")}) {
    EXPECT_EQ(CategoryOf(error), ErrorCategory::kSystem) << error;
  }
  EXPECT_EQ(CategoryOf(absl::ResourceExhaustedError("")), ErrorCategory::kMemory);
}

TEST(ErrorCategoryTest, AnotherMessageKeepsCodeCategoryAndAllElse) {
  absl::Status error = DeclinedError("x");
  error.SetPayload("partita/other", absl::Cord("y"));
  const absl::Status renamed = WithMessage(error, "z");
  EXPECT_EQ(renamed.message(), "z");
  EXPECT_EQ(renamed.code(), error.code());
  EXPECT_EQ(CategoryOf(renamed), ErrorCategory::kUsage);
  EXPECT_EQ(renamed.GetPayload("partita/other"), absl::Cord("y"));
}

TEST(ErrorCategoryTest, RefusedMemoryIsOfItsCategoryWhereverItIsThrown) {
  EXPECT_EQ(ExitCodeOf(OutOfMemory("reading")), 4);
  EXPECT_EQ(ExitCodeOf(Catching([] { throw std::bad_alloc(); })), 4);
}

}  // namespace
}  // namespace partita
