#include "tools/workflow/banner_filter.h"

#include <gtest/gtest.h>

namespace partita {
namespace {

const std::string kDashes = std::string(74, '-') + "\n";
const std::string kUnwanted[] = {
    kDashes +
        "Primary job  terminated normally, but 1 process returned\n"
        "a non-zero exit code. Per user-direction, the job has been aborted.\n" +
        kDashes,
    kDashes +
        "mpirun detected that one or more processes exited with non-zero status, thus causing\n"
        "the job to be terminated. The first process to do so was:\n\n"
        "  Process name: [[101,1],0]\n  Exit code:    67\n" +
        kDashes,
    kDashes +
        "mpirun noticed that process rank 0 with PID 0 on node vm exited on signal 9 (Killed).\n" +
        kDashes,
    "[vm:123] 1 more process has sent help message help-mpi-api.txt / mpi-abort\n",
    "[vm:123] Set MCA parameter \"orte_base_help_aggregate\" to 0 to see all help / error "
    "messages\n",
};
const std::string kWanted[] = {
    "partita: rank 1 has failed: no space\n",
    kDashes + "There are not enough slots available in the system\n" + kDashes,
    "step 1/20  loss 2.3\n",
    "[vm:123] something that is wrong\n",
    "---\n",
};

TEST(BannerFilterTest, OnlyWhatMpirunSaysOfEndedRanksIsTakenOut) {
  std::string all, wanted;
  for (const std::string& text : kWanted) {
    for (const std::string& banner : kUnwanted) all += banner;
    all += text;
    wanted += text;
  }
  for (size_t step : {size_t{1}, size_t{7}, size_t{100}, all.size()}) {  // however it comes
    BannerFilter filter;
    std::string shown;
    for (size_t at = 0; at < all.size(); at += step) shown += filter.Pass(all.substr(at, step));
    EXPECT_EQ(shown + filter.Rest(), wanted) << step;
  }
}

TEST(BannerFilterTest, OrdinaryLinesAreShownAtOnce) {
  BannerFilter filter;
  EXPECT_EQ(filter.Pass("a line\nand half of"), "a line\nand half of");
  EXPECT_EQ(filter.Pass(" another\n"), " another\n");
}

TEST(BannerFilterTest, WhatNeverEndsIsShownInTheEnd) {
  BannerFilter filter;
  EXPECT_EQ(filter.Pass(kDashes + "a table"), "");
  EXPECT_EQ(filter.Rest(), kDashes + "a table");
  EXPECT_EQ(filter.Rest(), "");
  EXPECT_EQ(filter.Pass(kUnwanted[0].substr(0, 150)), "");
  EXPECT_EQ(filter.Rest(), "");
  std::string long_text = kDashes;
  for (int line = 0; line < 200; ++line) long_text += std::string(60, 'x') + "\n";
  EXPECT_FALSE(filter.Pass(long_text).empty());
}

}  // namespace
}  // namespace partita
