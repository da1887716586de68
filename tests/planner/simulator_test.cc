#include "planner/simulator/simulator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <map>
#include <random>
#include <set>

#include "graph/training/training_graph.h"
#include "graph/zoo/models.h"
#include "planner/simulator/critical_chain.h"
#include "planner/simulator/end_queue.h"
#include "planner/simulator/list_schedule.h"
#include "planner/simulator/stable_order.h"
#include "planner/simulator/task_heap.h"
#include "tests/planner/reference_simulator.h"
#include "tests/testing/ok.h"

namespace partita {
namespace {

using testing::ElementsAre;

// A task graph as lists.
struct TaskLists {
  std::vector<std::vector<int32_t>> predecessors, resources;
  int32_t resource_count = 0;
};

FlatTasks FlatOf(const TaskLists& lists, std::vector<int32_t> by_key) {
  const size_t n = lists.predecessors.size();
  FlatTasks flat;
  flat.resources = lists.resource_count;
  flat.by_key = std::move(by_key);
  std::vector<std::vector<int32_t>> successors(n);
  flat.resource_begin.push_back(0);
  for (size_t t = 0; t < n; ++t) {
    flat.predecessor_count.push_back(static_cast<int32_t>(lists.predecessors[t].size()));
    for (int32_t p : lists.predecessors[t]) {
      successors[static_cast<size_t>(p)].push_back(static_cast<int32_t>(t));
    }
    for (int32_t r : lists.resources[t]) flat.resource_of.push_back(r);
    flat.resource_begin.push_back(static_cast<int32_t>(flat.resource_of.size()));
  }
  flat.successor_begin.push_back(0);
  for (const auto& list : successors) {
    flat.successors.insert(flat.successors.end(), list.begin(), list.end());
    flat.successor_begin.push_back(static_cast<int32_t>(flat.successors.size()));
  }
  return flat;
}

struct RandomTasks {
  FlatTasks tasks;
  std::vector<Nanos> durations;
};

// A small `longest` duration makes ties abound.
RandomTasks MakeRandomTasks(std::mt19937_64& random, size_t most, int64_t longest) {
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  TaskLists lists;
  lists.resource_count = static_cast<int32_t>(1 + below(6));
  const size_t n = 1 + below(most);
  RandomTasks made;
  std::vector<int32_t> by_key;
  for (size_t t = 0; t < n; ++t) {
    std::vector<int32_t> before, held;
    for (size_t b = t > 12 ? t - 12 : 0; b < t; ++b) {
      if (below(6) == 0) before.push_back(static_cast<int32_t>(b));
    }
    for (int32_t r = 0; r < lists.resource_count; ++r) {
      if (below(3) == 0) held.push_back(r);
    }
    lists.predecessors.push_back(before);
    lists.resources.push_back(held);
    made.durations.push_back(Nanos(1 + static_cast<int64_t>(below(static_cast<size_t>(longest)))));
    by_key.push_back(static_cast<int32_t>(t));
  }
  std::shuffle(by_key.begin(), by_key.end(), random);
  made.tasks = FlatOf(lists, std::move(by_key));
  return made;
}

void ExpectEqual(const Schedule& a, const Schedule& b) {
  EXPECT_EQ(a.start, b.start);
  EXPECT_EQ(a.end, b.end);
  EXPECT_EQ(a.makespan, b.makespan);
  EXPECT_EQ(a.busy, b.busy);
}

void ExpectObeysDependencies(const FlatTasks& tasks, const Schedule& schedule) {
  for (size_t t = 0; t < tasks.size(); ++t) {
    for (int32_t s : tasks.SuccessorsOf(t)) {
      EXPECT_GE(schedule.start[static_cast<size_t>(s)], schedule.end[t]);
    }
  }
}

// Tasks that hold one resource do not overlap, and follow each other in the total order.
void ExpectObeysResources(const FlatTasks& tasks, const Schedule& schedule) {
  std::vector<Nanos> free_at(static_cast<size_t>(tasks.resources));
  for (TaskId id : OrderOf(tasks, schedule)) {
    for (int32_t r : tasks.ResourcesOf(id.index())) {
      EXPECT_GE(schedule.start[id.index()], free_at[static_cast<size_t>(r)]);
      free_at[static_cast<size_t>(r)] = schedule.end[id.index()];
    }
  }
}

TEST(SimulatorTest, EqualsTheReferenceOnRandomTaskGraphs) {
  std::mt19937_64 random(20240611);
  int64_t tasks = 0;
  for (int round = 0; round < 1500; ++round) {
    const RandomTasks made = MakeRandomTasks(random, 40, round % 2 == 0 ? 3 : 1000);
    ExpectEqual(Simulate(made.tasks, made.durations, **PriorityNamed("first_ready")),
                ReferenceSimulate(made.tasks, made.durations));
    tasks += static_cast<int64_t>(made.tasks.size());
    ASSERT_FALSE(HasFailure()) << "round " << round;
  }
  EXPECT_GT(tasks, 20000);
}

// Simulates durations beyond 64 bits of heap key, too.
void ExpectWideLikeNarrow(const RandomTasks& made, const Priority& rule) {
  constexpr int64_t kFactor = int64_t{1} << 53;
  std::vector<Nanos> wide;
  for (Nanos duration : made.durations) wide.push_back(duration * kFactor);
  const Schedule narrow = Simulate(made.tasks, made.durations, rule);
  const Schedule scaled = Simulate(made.tasks, wide, rule);
  for (size_t t = 0; t < made.tasks.size(); ++t) {
    EXPECT_EQ(scaled.start[t], narrow.start[t] * kFactor);
  }
}

TEST(SimulatorTest, WideTimesGiveTheSameScheduleAsNarrowOnes) {
  // Multiplying all durations scales the schedule; beyond 64 bits of heap key another loop runs.
  std::mt19937_64 random(7);
  for (const Priority& rule : Priorities()) {
    for (int round = 0; round < 50; ++round) {
      ExpectWideLikeNarrow(MakeRandomTasks(random, 60, 9), rule);
    }
  }
}

TEST(SimulatorTest, ObeysDependenciesAndResourcesOnLargeGraphs) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 8; ++round) {
    const RandomTasks made = MakeRandomTasks(random, 6000, 50);
    const Schedule schedule = Simulate(made.tasks, made.durations);
    ExpectObeysDependencies(made.tasks, schedule);
    ExpectObeysResources(made.tasks, schedule);
  }
}

TEST(SimulatorTest, RunningTheOrderAgainGivesTheSameSchedule) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 200; ++round) {
    const RandomTasks made = MakeRandomTasks(random, 300, 20);
    const auto rules = Priorities();
    const Schedule schedule =
        Simulate(made.tasks, made.durations, rules[static_cast<size_t>(round) % rules.size()]);
    ExpectEqual(SimulateInOrder(made.tasks, made.durations, OrderOf(made.tasks, schedule)),
                schedule);
  }
}

// The definition of list scheduling, one nanosecond after another.
Schedule ListByDefinition(const FlatTasks& tasks, std::span<const Nanos> durations,
                          const std::vector<int64_t>& priority) {
  const size_t n = tasks.size();
  std::vector<int32_t> by_priority = tasks.by_key;
  std::stable_sort(by_priority.begin(), by_priority.end(), [&](int32_t a, int32_t b) {
    return priority[static_cast<size_t>(a)] > priority[static_cast<size_t>(b)];
  });
  Schedule schedule{std::vector<Nanos>(n), std::vector<Nanos>(n), Nanos(0),
                    std::vector<Nanos>(static_cast<size_t>(tasks.resources))};
  std::vector<int32_t> pending = tasks.predecessor_count;
  std::vector<bool> started(n, false), ended(n, false), is_blocked(n, false);
  // Whether a task that could not start yet is to hold a resource of the given one.
  const auto is_wanted = [&](size_t task) {
    for (size_t t = 0; t < n; ++t) {
      if (!is_blocked[t]) continue;
      for (int32_t r : tasks.ResourcesOf(t)) {
        const auto held = tasks.ResourcesOf(task);
        if (std::find(held.begin(), held.end(), r) != held.end()) return true;
      }
    }
    return false;
  };
  std::vector<Nanos> free_at(static_cast<size_t>(tasks.resources));
  for (Nanos now; std::find(ended.begin(), ended.end(), false) != ended.end(); now += Nanos(1)) {
    for (size_t t = 0; t < n; ++t) {
      if (!started[t] || ended[t] || schedule.end[t] > now) continue;
      ended[t] = true;
      for (int32_t s : tasks.SuccessorsOf(t)) --pending[static_cast<size_t>(s)];
    }
    for (int32_t number : by_priority) {
      const auto t = static_cast<size_t>(number);
      const auto held = tasks.ResourcesOf(t);
      const bool is_free = std::all_of(held.begin(), held.end(), [&](int32_t r) {
        return free_at[static_cast<size_t>(r)] <= now;
      });
      if (started[t] || pending[t] > 0) continue;
      if (!is_free) is_blocked[t] = !tasks.Yields(t);
      if (!is_free || (tasks.Yields(t) && is_wanted(t))) continue;
      started[t] = true;
      is_blocked[t] = false;
      schedule.start[t] = now;
      schedule.end[t] = now + durations[t];
      schedule.makespan = std::max(schedule.makespan, schedule.end[t]);
      for (int32_t r : held) {
        free_at[static_cast<size_t>(r)] = schedule.end[t];
        schedule.busy[static_cast<size_t>(r)] += durations[t];
      }
    }
  }
  return schedule;
}

// A graph's operator, and a gradient that only an update reads.
struct GradientSubjects {
  Graph graph = Ok(BuildTrainingGraph(Ok(MakeZooModel("mlp", 4)), {}));
  GraphDistances distances{graph};
  int32_t of_op = distances.SubjectOf(graph.ops()[0].id), of_gradient = -1;

  GradientSubjects() {
    for (const Tensor& tensor : graph.tensors()) {
      const int32_t subject = distances.SubjectOf(tensor.id);
      if (distances.IsForUpdates(subject)) of_gradient = subject;
    }
  }
};

TEST(SimulatorTest, ListsFollowTheirDefinition) {
  std::mt19937_64 random(11);
  const GradientSubjects subjects;
  ASSERT_GE(subjects.of_gradient, 0);
  int64_t tasks = 0;
  for (const Priority& rule : Priorities()) {
    for (int round = 0; round < 300 && !rule.by_readiness; ++round) {
      RandomTasks made = MakeRandomTasks(random, 60, round % 2 == 0 ? 3 : 40);
      if (round % 3 != 0) made.tasks.distances = &subjects.distances;
      for (size_t t = 0; round % 3 != 0 && t < made.tasks.size(); ++t) {
        made.tasks.subject_of.push_back(random() % 3 == 0 ? subjects.of_gradient : subjects.of_op);
      }
      const Schedule schedule = Simulate(made.tasks, made.durations, rule);
      ExpectEqual(schedule, ListByDefinition(made.tasks, made.durations,
                                             rule.of(made.tasks, made.durations, {})));
      ExpectEqual(SimulateInOrder(made.tasks, made.durations, OrderOf(made.tasks, schedule)),
                  schedule);
      tasks += static_cast<int64_t>(made.tasks.size());
      ASSERT_FALSE(HasFailure()) << rule.name << ", round " << round;
    }
  }
  EXPECT_GT(tasks, 10000);
}

TEST(SimulatorTest, TheLongestPathGoesFirstHoweverLongOthersHaveWaited) {
  // Resource 0 is busy until 4; task 1 is ready at 2 and has a long path, task 3 is ready at 1.
  const TaskLists lists{{{}, {0}, {}, {2}, {}}, {{1}, {0}, {2}, {0}, {0}}, 3};
  const FlatTasks tasks = FlatOf(lists, {0, 1, 2, 3, 4});
  const std::vector<Nanos> durations{Nanos(2), Nanos(100), Nanos(1), Nanos(1), Nanos(4)};
  EXPECT_THAT(Simulate(tasks, durations, **PriorityNamed("remaining_path")).start,
              ElementsAre(Nanos(0), Nanos(4), Nanos(0), Nanos(104), Nanos(0)));
}

TEST(SimulatorTest, GradientsYieldToWhatIsReadyAndWaitsForAnotherDevice) {
  // Task 1 holds resources 0 and 1, of which 1 is busy with task 0 until 2; task 2, a long all-reduce
  // of a gradient, could have 0 and 2 at once.
  const GradientSubjects subjects;
  FlatTasks tasks = FlatOf({{{}, {}, {}}, {{1}, {0, 1}, {0, 2}}, 3}, {0, 1, 2});
  tasks.distances = &subjects.distances;
  tasks.subject_of = {subjects.of_op, subjects.of_op, subjects.of_gradient};
  const std::vector<Nanos> durations{Nanos(2), Nanos(3), Nanos(100)};
  const Priority& rule = **PriorityNamed("remaining_tasks");
  EXPECT_THAT(Simulate(tasks, durations, rule).start, ElementsAre(Nanos(0), Nanos(2), Nanos(5)));
  tasks.subject_of[2] = subjects.of_op;
  EXPECT_THAT(Simulate(tasks, durations, rule).start, ElementsAre(Nanos(0), Nanos(100), Nanos(0)));
}

// Tasks for ListScheduler, ranked as they are numbered, that wait for none.
class ListsOfTasks {
 public:
  // `lists`: by task, what it holds; the scheduler sees the same place for tasks of one list.
  ListsOfTasks(std::vector<const std::vector<int32_t>*> lists, std::vector<int64_t> durations)
      : lists_(std::move(lists)), durations_(std::move(durations)), starts_(lists_.size(), -1) {}

  uint64_t KeyOf(size_t task) const { return task; }
  size_t TaskOf(uint64_t key) {
    ++looks_;
    return static_cast<size_t>(key);
  }
  std::span<const int32_t> ResourcesOf(size_t task) const { return *lists_[task]; }
  int64_t DurationOf(size_t task) const { return durations_[task]; }
  bool Yields(size_t) const { return false; }
  template <class Visit>
  void ForEachSuccessor(size_t, Visit&&) const {}
  bool Release(size_t) { return false; }
  bool Start(size_t task, int64_t time) {
    starts_[task] = time;
    return true;
  }

  void Run(size_t resources) {
    ListScheduler<ListsOfTasks, uint64_t> scheduler(
        *this, lists_.size(), std::bit_width(lists_.size()), std::vector<char>(resources, 0));
    for (size_t t = 0; t < lists_.size(); ++t) scheduler.Ready(t);
    EXPECT_TRUE(scheduler.Run());
  }
  const std::vector<int64_t>& starts() const { return starts_; }
  int64_t looks() const { return looks_; }

 private:
  const std::vector<const std::vector<int32_t>*> lists_;
  const std::vector<int64_t> durations_;
  std::vector<int64_t> starts_;
  int64_t looks_ = 0;
};

TEST(ListSchedulerTest, TasksOfOneListWaitBehindEachOtherAndStartAsTheyWould) {
  std::mt19937_64 random(23);
  int64_t apart = 0, together = 0;
  for (int round = 0; round < 200; ++round) {
    // Pairs of resources, as transfers hold that go from some devices to others.
    constexpr size_t kResources = 12;
    std::vector<std::vector<int32_t>> pairs;
    for (int32_t a = 0; a < 6; ++a) {
      for (int32_t b = 6; b < 12; ++b) pairs.push_back({a, b});
    }
    std::vector<std::vector<int32_t>> copies;
    std::vector<const std::vector<int32_t>*> shared, own;
    std::vector<int64_t> durations;
    for (int t = 0; t < 400; ++t) {
      const auto& pair = pairs[random() % pairs.size()];
      shared.push_back(&pair);
      copies.push_back(pair);
      durations.push_back(1 + static_cast<int64_t>(random() % (round % 2 == 0 ? 3 : 1000)));
    }
    for (const auto& copy : copies) own.push_back(&copy);
    ListsOfTasks of_shared(shared, durations), of_own(own, durations);
    of_shared.Run(kResources);
    of_own.Run(kResources);
    ASSERT_EQ(of_shared.starts(), of_own.starts()) << "round " << round;
    together += of_shared.looks();
    apart += of_own.looks();
  }
  EXPECT_LT(3 * together, 2 * apart);
}

// Whether the task waits for the other, as a predecessor's or for a resource.
bool MayWaitFor(const FlatTasks& tasks, TaskId task, TaskId before) {
  const auto next = tasks.SuccessorsOf(before.index());
  if (std::find(next.begin(), next.end(), task.value()) != next.end()) return true;
  const auto own = tasks.ResourcesOf(task.index()), others = tasks.ResourcesOf(before.index());
  return std::find_first_of(own.begin(), own.end(), others.begin(), others.end()) != own.end();
}

TEST(CriticalChainTest, AddsUpToTheLengthOfTheSchedule) {
  std::mt19937_64 random(11);
  for (const Priority& rule : Priorities()) {
    for (int round = 0; round < 200; ++round) {
      const RandomTasks made = MakeRandomTasks(random, 200, round % 2 == 0 ? 3 : 1000);
      const Schedule schedule = Simulate(made.tasks, made.durations, rule);
      const std::vector<TaskId> chain = CriticalChain(made.tasks, schedule);
      Nanos sum;
      for (size_t k = 0; k < chain.size(); ++k) {
        EXPECT_EQ(schedule.start[chain[k].index()], sum);
        if (k > 0) {
          EXPECT_TRUE(MayWaitFor(made.tasks, chain[k], chain[k - 1]));
        }
        sum += made.durations[chain[k].index()];
      }
      ASSERT_EQ(sum, schedule.makespan) << rule.name << ", round " << round;
    }
  }
  EXPECT_TRUE(CriticalChain(FlatOf({{}, {}, 1}, {}), {}).empty());
}

TEST(CriticalChainTest, GoesOnWhereATaskYieldsToAnother) {
  // Task 2, a gradient, could start when task 0 ends, and yields to task 1.
  const GradientSubjects subjects;
  FlatTasks tasks = FlatOf({{{}, {}, {0}}, {{1}, {0, 1}, {0, 2}}, 3}, {0, 1, 2});
  tasks.distances = &subjects.distances;
  tasks.subject_of = {subjects.of_op, subjects.of_op, subjects.of_gradient};
  const Schedule schedule = Simulate(tasks, std::vector<Nanos>{Nanos(2), Nanos(3), Nanos(100)},
                                     **PriorityNamed("remaining_tasks"));
  EXPECT_THAT(CriticalChain(tasks, schedule), ElementsAre(TaskId(0), TaskId(1), TaskId(2)));
}

TEST(SimulatorTest, WaitsMayGoAgainstTheNumbersOfTasks) {
  const FlatTasks tasks = FlatOf({{{}, {}}, {{0}, {1}}, 2}, {0, 1});
  const std::pair<TaskId, TaskId> waits[] = {{TaskId(0), TaskId(1)}};
  const Schedule schedule = SimulateInOrder(tasks, std::vector<Nanos>{Nanos(2), Nanos(3)},
                                            std::vector<TaskId>{TaskId(1), TaskId(0)}, waits);
  EXPECT_THAT(schedule.start, ElementsAre(Nanos(3), Nanos(0)));
}

TEST(SimulatorTest, LongerRemainingPathGoesFirstAmongTasksThatAreReadyTogether) {
  // 0 and 1 share a resource; 2 follows 1, so 1 has the longer path.
  const TaskLists lists{{{}, {}, {1}}, {{0}, {0}, {1}}, 2};
  const FlatTasks tasks = FlatOf(lists, {0, 1, 2});
  const Schedule schedule = Simulate(tasks, std::vector<Nanos>{Nanos(5), Nanos(5), Nanos(3)});
  EXPECT_THAT(schedule.start, ElementsAre(Nanos(5), Nanos(0), Nanos(5)));
  EXPECT_EQ(schedule.makespan, Nanos(10));
  EXPECT_THAT(schedule.busy, ElementsAre(Nanos(10), Nanos(3)));
}

TEST(SimulatorTest, ByReadinessTheEarlierGoesFirstWhateverItsPriority) {
  // Resource 0 is busy until 4; task 1 is ready at 2 and long, task 3 is ready at 1 and short.
  const TaskLists lists{{{}, {0}, {}, {2}, {}}, {{1}, {0}, {2}, {0}, {0}}, 3};
  const FlatTasks tasks = FlatOf(lists, {0, 1, 2, 3, 4});
  const std::vector<Nanos> durations{Nanos(2), Nanos(100), Nanos(1), Nanos(1), Nanos(4)};
  EXPECT_THAT(Simulate(tasks, durations, **PriorityNamed("first_ready")).start,
              ElementsAre(Nanos(0), Nanos(5), Nanos(0), Nanos(4), Nanos(0)));
}

TEST(SimulatorTest, KeysBreakTheTiesThatRemain) {
  const TaskLists lists{{{}, {}}, {{0}, {0}}, 1};
  const std::vector<Nanos> durations{Nanos(4), Nanos(4)};
  EXPECT_THAT(Simulate(FlatOf(lists, {0, 1}), durations).start, ElementsAre(Nanos(0), Nanos(4)));
  EXPECT_THAT(Simulate(FlatOf(lists, {1, 0}), durations).start, ElementsAre(Nanos(4), Nanos(0)));
}

TEST(SimulatorTest, LocalPathHasThePathInsideTheSubjectAndThoseOfWholeSubjectsBehindIt) {
  const Graph graph = Ok(BuildTrainingGraph(Ok(MakeZooModel("mlp", 4)), {}));
  const GraphDistances distances(graph);
  // Tasks of the first operator, of what it makes, and of what reads that.
  const Operator& op = graph.ops()[0];
  const TensorId made = op.outputs[0];
  const OpId reader = graph.consumers(made)[0];
  const TaskLists lists{{{}, {}, {}, {0}, {1}}, {{0}, {0}, {0}, {1}, {2}}, 3};
  FlatTasks tasks = FlatOf(lists, {0, 1, 2, 3, 4});
  tasks.distances = &distances;
  tasks.subject_of = {distances.SubjectOf(op.id), distances.SubjectOf(op.id),
                      distances.SubjectOf(reader), distances.SubjectOf(op.id),
                      distances.SubjectOf(made)};
  // Task 0 has 3 inside its own subject, 1 not 4, and both the paths of the others' subjects behind.
  const std::vector<Nanos> durations{Nanos(4), Nanos(5), Nanos(1), Nanos(6), Nanos(90)};
  EXPECT_THAT(PriorityNamed("local_path").value()->of(tasks, durations, {}),
              ElementsAre(4 + 6 + 90 + 1, 5 + 90 + 1, 1, 6 + 90 + 1, 90 + 1));
}

TEST(SimulatorTest, LocalPathOfTasksWithoutSubjectsIsTheRemainingPath) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 50; ++round) {
    const RandomTasks made = MakeRandomTasks(random, 60, 9);
    ExpectEqual(Simulate(made.tasks, made.durations, **PriorityNamed("local_path")),
                Simulate(made.tasks, made.durations, **PriorityNamed("remaining_path")));
  }
}

TEST(SimulatorTest, PrioritiesGoByName) {
  for (const Priority& row : Priorities()) EXPECT_EQ(*PriorityNamed(row.name), &row);
  EXPECT_EQ(*PriorityNamed(""), &DefaultPriority());
  EXPECT_THAT(std::string(PriorityNamed("luck").status().message()),
              testing::HasSubstr("local_path, remaining_path, remaining_tasks, first_ready"));
}

TEST(SimulatorTest, NoTasksTakeNoTime) {
  EXPECT_EQ(Simulate(FlatOf({{}, {}, 2}, {}), {}).makespan, Nanos(0));
}

TEST(StableOrderTest, EqualsStableSort) {
  std::mt19937_64 random(11);
  for (size_t n : {0, 1, 50, 1023, 1024, 5000}) {
    for (uint64_t range : {uint64_t{1}, uint64_t{7}, uint64_t{1} << 40, uint64_t{1} << 63}) {
      std::vector<int64_t> keys(n);
      std::vector<int32_t> items(n);
      for (size_t i = 0; i < n; ++i) {
        keys[i] = static_cast<int64_t>(random() % range);
        items[i] = static_cast<int32_t>(i);
      }
      std::shuffle(items.begin(), items.end(), random);
      std::vector<int32_t> wanted = items;
      std::stable_sort(wanted.begin(), wanted.end(), [&](int32_t a, int32_t b) {
        return keys[static_cast<size_t>(a)] < keys[static_cast<size_t>(b)];
      });
      StableOrderBy(keys, items);
      EXPECT_EQ(items, wanted);
    }
  }
}

// Ends that are often equal, and so far apart that some share a list.
TEST(EndQueueTest, TakesAllTasksOutThatEndFirst) {
  std::mt19937_64 random(3);
  EndQueue<uint64_t> queue;
  for (int trial = 0; trial < 200; ++trial) {
    const size_t tasks = 1 + random() % 300;
    queue.Prepare(tasks, std::bit_width(tasks));
    std::map<int64_t, std::set<size_t>> expected;
    int64_t now = 0;
    size_t next = 0;
    while (next < tasks || !expected.empty()) {
      for (size_t most = random() % 40; next < tasks && most > 0; --most, ++next) {
        const int64_t end = now + 1 + static_cast<int64_t>(random() % 5) * 1'000'003;
        expected[end].insert(next);
        queue.Push(end, next);
      }
      ASSERT_EQ(queue.empty(), expected.empty());
      if (expected.empty()) continue;
      now = queue.first_end();
      ASSERT_EQ(now, expected.begin()->first);
      std::multiset<size_t> taken;
      queue.PopFirst([&](size_t task) { taken.insert(task); });
      const std::set<size_t>& first = expected.begin()->second;
      ASSERT_EQ(taken, std::multiset<size_t>(first.begin(), first.end()));
      expected.erase(expected.begin());
    }
  }
}

TEST(FourAryHeapTest, PopsTheLeast) {
  std::mt19937_64 random(13);
  FourAryHeap<uint64_t> heap;
  std::vector<uint64_t> inside;
  for (int i = 0; i < 3000; ++i) {
    if (inside.empty() || random() % 3 != 0) {
      inside.push_back(random() % 500);
      heap.Push(inside.back());
    } else {
      const auto least = std::min_element(inside.begin(), inside.end());
      ASSERT_EQ(heap.Pop(), *least);
      inside.erase(least);
    }
  }
}

}  // namespace
}  // namespace partita
