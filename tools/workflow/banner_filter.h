#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace partita {

// Filter that removes mpirun's messages about itself from the stderr of a launch: banners between
// two lines of dashes that report that a rank has ended or failed, which the ranks and the launch
// report in more detail, and its hints at more of them. Its messages about hosts, programs and
// limits stay.
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
