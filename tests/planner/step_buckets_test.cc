// Steps whose all-reduces go in buckets by rule, without fragments of their own.
#include <gtest/gtest.h>

#include <random>

#include "absl/strings/str_cat.h"
#include "planner/evaluator.h"
#include "planner/simulator/critical_chain.h"
#include "planner/space/moves.h"
#include "tests/planner/fixture.h"
#include "tests/testing/ok.h"
#include "tests/testing/random_graph.h"

namespace partita {
namespace {

constexpr Bytes kSizes[] = {Bytes(1 << 10), Bytes(64 << 10), Bytes(4 << 20), Bytes(32 << 20)};

// What the strategies that were compared had.
struct Seen {
  int with_buckets = 0, without = 0, above_cutoff = 0;
};

// Tasks of the step's CriticalChain, by subject.
std::vector<Nanos> CriticalTimesOf(const Evaluator& evaluator, const EvaluatedStep& step) {
  const FlatStep flat =
      FlattenStep(step.tasks, {evaluator.resources(), evaluator.model(), evaluator.options().sizes,
                               &evaluator.distances()});
  std::vector<Nanos> times(static_cast<size_t>(evaluator.distances().subjects()));
  for (TaskId task : CriticalChain(flat.tasks, step.schedule)) {
    times[static_cast<size_t>(flat.tasks.subject_of[task.index()])] += step.durations[task.index()];
  }
  return times;
}

// Evaluated by rule, a strategy takes what it takes with these buckets or without, and waits for what
// it waits for then; above a cutoff the bound is above that, and no more than the time.
void ExpectTimesWithBuckets(const Workplace& at, const Strategy& strategy, Bytes size,
                            std::mt19937_64& random, Seen& seen) {
  const Strategy joined = Ok(at.evaluator.WithBucketsUpTo(strategy, size));
  const Evaluation by_rule = at.evaluator.EvaluateBriefly(strategy, kNoCutoff, nullptr, size);
  // A new evaluator knows nothing of the strategies before.
  const Evaluator fresh(at.graph, at.machine->topology, *at.costs);
  EvaluatedStep step = Ok(fresh.EvaluateStep(strategy));
  EvaluatedStep step_with = Ok(fresh.EvaluateStep(joined));
  const Evaluation with = step_with.evaluation;
  EXPECT_EQ(by_rule.bucket_bytes, with.time < step.evaluation.time ? size : Bytes(0));
  if (with.time < step.evaluation.time) step = std::move(step_with);
  const Evaluation& whole = step.evaluation;
  EXPECT_EQ(Ok(at.evaluator.CriticalTimes(strategy, size)), CriticalTimesOf(fresh, step));
  EXPECT_EQ(by_rule.time, whole.time);
  EXPECT_EQ(by_rule.tasks, whole.tasks);
  EXPECT_EQ(at.evaluator.EvaluateBriefly(joined, kNoCutoff).time, with.time);
  seen.with_buckets += by_rule.bucket_bytes > Bytes(0);
  seen.without += by_rule.bucket_bytes == Bytes(0) && !joined.buckets.empty();
  const Nanos cutoff(whole.time.value() * static_cast<int64_t>(50 + random() % 70) / 100);
  const Evaluation brief = at.evaluator.EvaluateBriefly(strategy, cutoff, nullptr, size);
  if (whole.time <= cutoff) {
    EXPECT_EQ(brief.time, whole.time);
    EXPECT_FALSE(brief.peak.empty());
  } else {
    ++seen.above_cutoff;
    EXPECT_GT(brief.time, cutoff);
    EXPECT_LE(brief.time, whole.time);
  }
}

// A walk from the strategy: some of its steps without buckets in between.
void Walk(const Workplace& at, Strategy strategy, int steps, std::mt19937_64& random, Seen& seen) {
  for (int k = 0; k < steps; ++k) {
    const Bytes size = kSizes[random() % std::size(kSizes)];
    SCOPED_TRACE(absl::StrCat("step ", k, ", buckets of ", size.value()));
    ExpectTimesWithBuckets(at, strategy, size, random, seen);
    const auto proposal = Propose(at.space, strategy, random);
    ASSERT_TRUE(proposal.has_value());
    Strategy next = strategy;
    Decide(at.graph, next, proposal->decisions);
    if (at.evaluator.EvaluateBriefly(next, kNoCutoff).verdict != Evaluation::Verdict::kInvalid) {
      strategy = std::move(next);
    }
  }
}

Seen WalkInRandomGraphs(uint64_t first_seed, uint64_t seeds) {
  Seen seen;
  for (uint64_t seed = first_seed; seed < first_seed + seeds; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937_64 random(seed);
    const Workplace at(RandomTrainingGraph(random), seed % 2 == 0 ? "p100-4x4" : "k80-16x4",
                       2 + static_cast<int>(random() % 7));
    Walk(at, at.space.RandomStrategy(random), 6, random, seen);
  }
  return seen;
}

TEST(StepBucketsTest, RandomStepsTakeWhatTheyTakeWithTheirBuckets) {
  const Seen seen = WalkInRandomGraphs(12, 30);
  EXPECT_GT(seen.with_buckets, 20);
  EXPECT_GT(seen.without, 5);
  EXPECT_GT(seen.above_cutoff, 20);
}

// All-reduces of a tensor by several groups of devices, of which one between others is alone of its kind.
TEST(StepBucketsTest, NoneJoinsBehindOneOfItsTensorThatStaysByItself) {
  EXPECT_GT(WalkInRandomGraphs(2307, 1).with_buckets, 0);
}

TEST(StepBucketsTest, LongRunOfManyMoreSteps) {
  EXPECT_GT(WalkInRandomGraphs(1'000, 5'000).with_buckets, 3'000);
}

TEST(StepBucketsTest, StepsAroundDataParallelismTakeWhatTheyTakeWithTheirBuckets) {
  std::mt19937_64 random(13);
  Seen seen;
  for (const auto& [model, devices] : {std::pair("resnet_tiny", 16), std::pair("rnnlm_tiny", 8),
                                       std::pair("resnet18", 8), std::pair("lenet", 4)}) {
    SCOPED_TRACE(model);
    const Workplace at(model, 32, "k80-16x4", devices);
    Walk(at, at.Expert("data_parallel"), 20, random, seen);
  }
  EXPECT_GT(seen.with_buckets, 40);
  EXPECT_GT(seen.above_cutoff, 20);
}

// Like operators with one configuration move the same between the same devices, over and over.
TEST(StepBucketsTest, StepsOfManyTasksThatHoldTheSameTakeWhatTheyTakeWithTheirBuckets) {
  std::mt19937_64 random(15);
  Seen seen;
  const Workplace at("rnnlm", 64, "k80-16x4", 16);
  for (int round = 0; round < 8; ++round) {
    SCOPED_TRACE(absl::StrCat("round ", round));
    Strategy strategy = at.Expert("data_parallel");
    const Strategy other = at.space.RandomStrategy(random);
    for (OpId op : at.space.operators()) {
      const OpId first = at.space.AllLike(op)[0];
      const bool changes = (first.value() + round) % 3 != 0;
      if (changes) strategy.configs[op.index()] = other.configs[first.index()];
    }
    if (at.evaluator.EvaluateBriefly(strategy, kNoCutoff).feasible()) {
      ExpectTimesWithBuckets(at, strategy, Bytes(4 << 20), random, seen);
    }
  }
  EXPECT_GT(seen.with_buckets + seen.without, 3);
}

// Where memory is short, or what runs beside a task lengthens it, flat steps are evaluated.
TEST(StepBucketsTest, StepsThatHaveToBePlacedTakeWhatTheyTakeWithTheirBuckets) {
  std::mt19937_64 random(14);
  const Workplace at("resnet_tiny", 32, "k80-16x4", 8);
  const Strategy strategy = at.Expert("data_parallel");
  const Strategy joined = Ok(at.evaluator.WithBucketsUpTo(strategy, Bytes(4 << 20)));
  ASSERT_FALSE(joined.buckets.empty());
  const EvaluatedStep step = Ok(at.evaluator.EvaluateStep(joined));
  for (const int64_t less : {0, 1}) {
    Evaluator::Options options;
    options.memory_limit = LargestPeakOf(step.evaluation) - Bytes(less);
    const Evaluator limited(at.graph, at.machine->topology, *at.costs, options);
    const Evaluation by_rule =
        limited.EvaluateBriefly(strategy, kNoCutoff, nullptr, Bytes(4 << 20));
    EXPECT_EQ(by_rule.feasible(), less == 0);
    EXPECT_EQ(by_rule.time, step.evaluation.time);
    EXPECT_EQ(by_rule.peak, step.evaluation.peak);
  }
}

Nanos SumOf(const std::vector<Nanos>& times) {
  Nanos sum;
  for (Nanos time : times) sum += time;
  return sum;
}

TEST(CriticalTimesTest, AreThoseOfTheFasterWithOrWithoutBuckets) {
  const Workplace at("resnet18", 64, "k80-16x4", 16);
  const Strategy strategy = at.Expert("data_parallel");
  const Bytes bucket(128 << 20);
  const Evaluation brief = at.evaluator.EvaluateBriefly(strategy, kNoCutoff, nullptr, bucket);
  ASSERT_EQ(brief.bucket_bytes, bucket);
  const Strategy joined = Ok(at.evaluator.WithBucketsUpTo(strategy, bucket));
  const Nanos with = SumOf(Ok(at.evaluator.CriticalTimes(strategy, bucket)));
  EXPECT_LE(with, brief.time);
  EXPECT_EQ(with, SumOf(Ok(at.evaluator.CriticalTimes(joined))));
  EXPECT_NE(with, SumOf(Ok(at.evaluator.CriticalTimes(strategy))));
}

}  // namespace
}  // namespace partita
