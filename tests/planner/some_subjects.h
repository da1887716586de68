#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "planner/space/search_space.h"

namespace partita {

// A few subjects whose candidates have at most `most` combinations. `place(draw)`: the place of the
// one to be drawn next, any number.
template <class Place>
std::vector<DecisionSubject> SubjectsWithin(const SearchSpace& space, size_t most, Place&& place) {
  std::vector<DecisionSubject> subjects;
  size_t combinations = 1;
  for (size_t draw = 0; draw < 6; ++draw) {
    const DecisionSubject subject = space.subjects()[place(draw) % space.subjects().size()];
    if (std::count(subjects.begin(), subjects.end(), subject) > 0) continue;
    const size_t candidates = space.Candidates(subject).size();
    if (combinations * candidates > most) continue;
    combinations *= candidates;
    subjects.push_back(subject);
  }
  return subjects;
}

}  // namespace partita
