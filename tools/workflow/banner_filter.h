#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace partita {

// Takes what mpirun says about itself out of what a launch writes to stderr: banners between two
// lines of dashes that tell in its own words that a rank has ended or failed, which the ranks and
// the launch say better, and its hints at more of them. What it says about hosts, programs and
// limits stays.
class BannerFilter {
 public:
  // Text that is to be shown of what has come so far: whole lines, and unfinished ones that cannot
  // begin a banner.
  std::string Pass(absl::string_view more);
  // Text that is held back: at the end, or where nothing more has come for a while.
  std::string Rest();

 private:
  void Take(absl::string_view line, std::string& shown);

  std::string line_;    // line not finished yet
  std::string banner_;  // banner from its first dashes on; empty: outside of one
};

}  // namespace partita
