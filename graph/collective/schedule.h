#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "graph/collective/collective.h"

namespace partita {

// Schedule of a collective: messages in rounds, as data. The same schedule is checked symbolically
// (symbolic_check.h), priced, and run by any communicator; run_schedule.h is its meaning in code.

// Action of the destination on the elements that arrive.
enum class StepAction { kCopy, kReduce };

// `count` elements from source_offset of rank `from` go to destination_offset of rank `to`. In
// place the two offsets are equal: elements change ranks, never places. count > 0. from == to only
// in all-to-all.
struct CollectiveStep {
  int from = 0;
  int to = 0;
  int64_t source_offset = 0;
  int64_t destination_offset = 0;
  int64_t count = 0;
  StepAction action = StepAction::kCopy;

  ElementRange source() const { return {source_offset, count}; }
  ElementRange destination() const { return {destination_offset, count}; }
  friend bool operator==(const CollectiveStep&, const CollectiveStep&) = default;
};

// Steps that happen at the same time: all of them read the values from before the round.
//
// Ranges that a rank writes in one round do not overlap, with one exception: several kReduce steps,
// from different ranks, into the same range. Its new value is then the fold, in ascending order of
// ranks, of what arrives and of the rank's own old value (at its own place in that order). So with
// floating-point elements the result does not depend on the order of arrival, nor on which rank
// computes it.
struct CollectiveRound {
  std::vector<CollectiveStep> steps;
  // Some rank writes elements that it also sends in this round, so a runner has to send a copy of
  // the old values. Where this is false no rank does, and a runner may send from the buffer itself.
  bool sends_snapshot = false;

  friend bool operator==(const CollectiveRound&, const CollectiveRound&) = default;
};

// Rounds run one after another. No round and no step is empty.
struct CollectiveSchedule {
  int ranks = 1;
  std::vector<CollectiveRound> rounds;

  friend bool operator==(const CollectiveSchedule&, const CollectiveSchedule&) = default;
};

// Settings of the algorithms that have any.
struct ScheduleOptions {
  // multicolor_tree: number of colours = arity of the trees; at least 1, no more than the ranks are
  // used.
  int colors = 2;
  // multicolor_tree: every colour's elements travel as this many pieces, one after the other; 0: as
  // many as their number asks for.
  int segments = 0;
  // hierarchical: the node that each rank is in; any numbers. Empty: all in one.
  std::vector<int> nodes = {};
};

// Elements that cross from another rank to this one in the whole schedule (steps from a rank to
// itself do not count), for every rank. Times the element size: the bytes received, exactly.
std::vector<int64_t> ElementsReceived(const CollectiveSchedule& schedule);
int64_t TotalElementsReceived(const CollectiveSchedule& schedule);

// The most scratch elements that a message-passing runner needs on `rank` in any round: copies land
// in place; what is to be reduced lands in scratch; in a round that sends a snapshot the elements
// that the rank sends are kept there too, once, however many ranks they go to.
int64_t ScratchElements(const CollectiveSchedule& schedule, int rank);

// Steps of one rank: for each round of the schedule the sends, in ascending order of (to, offset),
// and the receives, in ascending order of (destination offset, from), the order in which kReduce
// folds. Rounds in which the rank is idle have no steps. A step from a rank to itself is in both
// lists.
struct RankRound {
  std::vector<CollectiveStep> sends;
  std::vector<CollectiveStep> receives;
  bool sends_snapshot = false;
};
std::vector<RankRound> RoundsOfRank(const CollectiveSchedule& schedule, int rank);

// The same schedule with every step taken apart at the offsets `cuts`, ascending: no step of a
// collective in place has elements on both sides of one.
CollectiveSchedule CutSteps(CollectiveSchedule schedule, std::span<const int64_t> cuts);

// One line for each step: "round 0: 1 -> 2 reduce [4, 8)", with " to [a, b)" where the offsets
// differ.
std::string ToString(const CollectiveSchedule& schedule);

// Receiver of a schedule, step by step: a large one need not be kept whole, since all
// pairs of 4,096 ranks are 16 million steps.
class ScheduleWriter {
 public:
  virtual ~ScheduleWriter() = default;

  // A step of the round at hand, left out where it has no elements; in place.
  void Step(int from, int to, ElementRange block, StepAction action) {
    Step({from, to, block.offset, block.offset, block.count, action});
  }
  void Step(const CollectiveStep& step);
  // The round's end; one without steps is left out.
  void EndRound(bool sends_snapshot = false);
  // The round's end, if the receiver takes it for all of so many alike, one after another: with
  // steps between the same ranks, of as many elements and of the same action. False: the receiver
  // wants them one by one; nothing has ended.
  bool EndAlikeRounds(int rounds);
  // False: further steps are ignored, and algorithms of many steps end early.
  bool wants_more() const { return wants_more_; }

 protected:
  void Stop() { wants_more_ = false; }

 private:
  virtual void OnStep(const CollectiveStep& step) = 0;
  virtual void OnRound(bool sends_snapshot) = 0;
  // Whether the receiver wants to know who sends how many elements, but not which.
  virtual bool TakesAlikeRounds() const { return false; }
  virtual void OnAlikeRounds(int /*rounds*/) {}

  bool has_steps_ = false, wants_more_ = true;
};

// Keeps all of it.
class ScheduleBuilder : public ScheduleWriter {
 public:
  explicit ScheduleBuilder(int ranks) : schedule_{.ranks = ranks, .rounds = {}} {}
  CollectiveSchedule Finish() && { return std::move(schedule_); }

 private:
  void OnStep(const CollectiveStep& step) override { round_.steps.push_back(step); }
  void OnRound(bool sends_snapshot) override;

  CollectiveSchedule schedule_;
  CollectiveRound round_;
};

// Counts of a schedule.
struct ScheduleTotals {
  int64_t rounds = 0;
  std::vector<int64_t> received;  // as ElementsReceived
};

// The parts of [0, max) that blocks cover, sorted, without overlaps or touching neighbours.
std::vector<ElementRange> UnionOf(std::vector<ElementRange> blocks);

}  // namespace partita
