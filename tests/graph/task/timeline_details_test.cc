#include "graph/task/timeline_details.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "graph/partition/partition.h"
#include "graph/support/aligned.h"
#include "graph/task/happens_before.h"
#include "graph/task/task_order.h"
#include "graph/training/training_graph.h"
#include "tests/testing/by_sample.h"
#include "tests/testing/model_writer.h"
#include "tests/testing/ok.h"
#include "tests/testing/random_graph.h"
#include "tests/testing/random_strategy.h"

namespace partita {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

// A step with its memory, run in canonical order: each task starts when its lanes are free and what
// it waits for has ended.
struct RanStep {
  Graph graph;
  TaskGraph tasks;
  BufferAssignment memory;
  Timeline timeline;

  RanStep(Graph of, const Strategy& strategy, const PartitionOptions& options,
          std::mt19937_64& random)
      : graph(std::move(of)), tasks(Ok(Partition(graph, strategy, options))) {
    const std::vector<TaskId> order = CanonicalOrder(tasks);
    memory = AssignBuffers(tasks, order, {});
    std::vector<Nanos> start(tasks.tasks().size()), end = start;
    std::vector<Nanos> free(2 * static_cast<size_t>(tasks.devices()));
    for (TaskId id : order) {
      Nanos& begin = start[id.index()];
      for (size_t lane : LanesOf(tasks.task(id))) begin = std::max(begin, free[lane]);
      for (TaskId earlier : tasks.task(id).dependencies) {
        begin = std::max(begin, end[earlier.index()]);
      }
      for (const auto& [task, earlier] : memory.added_dependencies) {
        if (task == id) begin = std::max(begin, end[earlier.index()]);
      }
      end[id.index()] = begin + Nanos(1 + static_cast<int64_t>(random() % 3000));
      for (size_t lane : LanesOf(tasks.task(id))) free[lane] = end[id.index()];
    }
    timeline = TimelineOf(graph, tasks, start, end);
    timeline.title = "predicted";
    for (int d = 0; d < tasks.devices(); ++d) timeline.device_names.push_back(absl::StrCat("d", d));
  }

  std::vector<std::string> Splits() const {
    std::vector<std::string> splits;
    for (const Operator& op : graph.ops()) splits.push_back("split of " + op.name);
    return splits;
  }
  Json Traced(size_t most_arrows = 100'000) {
    const std::vector<std::string> splits = Splits();
    AddDetails({.graph = graph,
                .tasks = tasks,
                .memory = &memory,
                .splits = splits,
                .most_arrows = most_arrows},
               timeline);
    EXPECT_EQ(AddPredicted(timeline, "it", timeline), absl::OkStatus());
    return Json::parse(TimelineToJson(timeline));
  }
};

RanStep RandomStep(std::mt19937_64& random) {
  Graph graph = RandomTrainingGraph(random);
  const PartitionOptions options = RandomPartitionOptions(random);
  const Strategy strategy = RandomStrategy(graph, options.devices, random);
  return RanStep(std::move(graph), strategy, options, random);
}

int64_t NanosOf(const Json& micros) { return std::llround(micros.get<double>() * 1000); }

using Place = std::pair<int, int>;  // device and lane
Place PlaceOf(const Json& event) { return {event.at("pid"), event.at("tid")}; }

// The slices of a trace by place and start.
std::map<Place, std::map<int64_t, const Json*>> SlicesOf(const Json& trace) {
  std::map<Place, std::map<int64_t, const Json*>> slices;
  for (const Json& event : trace.at("traceEvents")) {
    if (event.at("ph") == "X") slices[PlaceOf(event)][NanosOf(event.at("ts"))] = &event;
  }
  return slices;
}

// The slice that lasts at the event's time on its lane; null: none does.
const Json* SliceAt(const std::map<Place, std::map<int64_t, const Json*>>& slices,
                    const Json& event) {
  const auto lane = slices.find(PlaceOf(event));
  if (lane == slices.end()) return nullptr;
  const int64_t time = NanosOf(event.at("ts"));
  auto slice = lane->second.upper_bound(time);
  if (slice == lane->second.begin()) return nullptr;
  --slice;
  return time < slice->first + NanosOf(slice->second->at("dur")) ? slice->second : nullptr;
}

// Both ends of the arrows, by id.
struct Ends {
  const Json* from = nullptr;
  const Json* to = nullptr;
};
std::map<int, Ends> ArrowsOf(const Json& trace) {
  std::map<int, Ends> arrows;
  for (const Json& event : trace.at("traceEvents")) {
    if (event.at("ph") != "s" && event.at("ph") != "f") continue;
    Ends& ends = arrows[event.at("id")];
    const Json*& end = event.at("ph") == "s" ? ends.from : ends.to;
    EXPECT_EQ(end, nullptr) << "two ends of one kind";
    end = &event;
    EXPECT_EQ(event.value("bp", ""), event.at("ph") == "f" ? "e" : "");
  }
  return arrows;
}

TEST(TimelineDetailsTest, SlicesSayWhatTheyDo) {
  std::mt19937_64 random(81);
  for (int round = 0; round < 10; ++round) {
    RanStep step = RandomStep(random);
    const Json trace = step.Traced();
    size_t i = 0;
    for (const Json& event : trace.at("traceEvents")) {
      if (event.at("ph") != "X") continue;
      const TimelineEntry& entry = step.timeline.entries[i];
      const TimelineDetails::OfEntry& details = step.timeline.details.entries[i++];
      const Json& args = event.at("args");
      EXPECT_FALSE(args.at("shapes").get<std::string>().empty()) << event;
      EXPECT_GE(args.at("bytes").get<int64_t>(), 0) << event;
      EXPECT_EQ(NanosOf(args.at("predicted_us")), (entry.end - entry.start).value());
      EXPECT_FALSE(args.contains("measured_us"));
      const bool is_kernel = entry.key.phase == TaskKey::Phase::kCompute;
      EXPECT_EQ(args.contains("split"), is_kernel) << event;
      EXPECT_EQ(event.at("cat"), absl::StrCat(Name(entry.lane), ",", Name(details.part)));
    }
    EXPECT_EQ(i, step.timeline.entries.size());
    const auto read = TimelineFromJson(trace.dump());
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(*read, step.timeline);
  }
}

TEST(TimelineDetailsTest, ArrowsBindToSlicesOfOtherDevicesThatSendWhatIsRead) {
  std::mt19937_64 random(82);
  size_t arrows = 0;
  for (int round = 0; round < 30; ++round) {
    RanStep step = RandomStep(random);
    const Json trace = step.Traced();
    const auto slices = SlicesOf(trace);
    std::map<std::string, TaskId> ids;
    for (const Task& task : step.tasks.tasks()) {
      const TaskKey& k = task.key;
      ids[Json({static_cast<int>(k.of_tensor), k.subject, k.step, static_cast<int>(k.phase), k.from,
                k.to})
              .dump()] = task.id;
    }
    const auto task_of = [&](const Json& slice) {
      return step.tasks.task(ids.at(slice.at("args").at("key").dump()));
    };
    for (const auto& [id, ends] : ArrowsOf(trace)) {
      ASSERT_TRUE(ends.from != nullptr && ends.to != nullptr) << "arrow " << id << " has one end";
      const Json* from = SliceAt(slices, *ends.from);
      const Json* to = SliceAt(slices, *ends.to);
      ASSERT_TRUE(from != nullptr && to != nullptr) << "arrow " << id << " hangs in the air";
      EXPECT_NE(from->at("pid"), to->at("pid"));
      EXPECT_LE(NanosOf(ends.from->at("ts")), NanosOf(ends.to->at("ts")));
      // What is read comes by a communication task that sends what the other has made.
      const Task reader = task_of(*to), maker = task_of(*from);
      bool sent = false;
      for (TaskId between : reader.dependencies) {
        const Task& task = step.tasks.task(between);
        sent = sent || (IsCommunication(task) && std::ranges::count(task.dependencies, maker.id) &&
                        TaskName(step.graph, task) == ends.from->at("name"));
      }
      EXPECT_TRUE(sent) << *from << " to " << *to;
      ++arrows;
    }
    EXPECT_EQ(trace.at("otherData").at("arrows"), step.timeline.details.arrows.size());
    EXPECT_EQ(trace.at("otherData").at("arrows_left_out"), 0);
  }
  EXPECT_GT(arrows, 1000u);
}

// x[8,6] -> fc1[10] -> relu -> fc2[4], the batch over two devices.
RanStep TwoDevices(std::mt19937_64& random) {
  ModelWriter m("mlp", DType::kFloat32);
  const TensorId y = m.Relu("relu", m.Linear("fc1", m.Input({8, 6}), 10));
  Graph graph = ModelWriter::Get(BuildTrainingGraph(m.Finish(m.Linear("fc2", y, 4)), {}));
  const Strategy strategy = BySample(graph, 2);
  return RanStep(std::move(graph), strategy, {.devices = 2}, random);
}

TEST(TimelineDetailsTest, GradientsThatAreSummedOverDevicesHaveArrowsToTheirUpdates) {
  std::mt19937_64 random(83);
  RanStep step = TwoDevices(random);
  const Json trace = step.Traced();
  const auto slices = SlicesOf(trace);
  std::set<std::pair<std::string, int>> updated;
  for (const auto& [id, ends] : ArrowsOf(trace)) {
    const Json& to = *SliceAt(slices, *ends.to);
    if (!absl::StrContains(to.at("cat").get<std::string>(), "update")) continue;
    EXPECT_THAT(SliceAt(slices, *ends.from)->at("cat").get<std::string>(), HasSubstr("backward"));
    EXPECT_THAT(ends.from->at("name").get<std::string>(), HasSubstr("all_reduce"));
    EXPECT_GT(ends.from->at("args").at("bytes"), 0);
    updated.emplace(ends.from->at("name"), to.at("pid"));
  }
  EXPECT_EQ(updated.size(), 8u) << "four weights on two devices";
}

TEST(TimelineDetailsTest, PartsOfTheStepAreToldApart) {
  std::mt19937_64 random(84);
  RanStep step = TwoDevices(random);
  std::map<std::string, std::set<std::string>> colours;
  std::set<std::string> forward, update;
  const Json trace = step.Traced();
  for (const Json& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X") continue;
    const std::string cat = event.at("cat"), name = event.at("name");
    const std::string part = cat.substr(cat.find(',') + 1);
    colours[part].insert(event.at("cname"));
    if (part == "forward") forward.insert(name);
    if (part == "update") update.insert(name);
  }
  EXPECT_TRUE(forward.contains("fc1") && forward.contains("fc2 part 1"));
  EXPECT_EQ(std::ranges::count_if(forward,
                                  [](const std::string& n) { return absl::StrContains(n, "d:"); }),
            0);
  EXPECT_GE(update.size(), 4u);
  ASSERT_EQ(colours.size(), 4u);
  std::set<std::string> all;
  for (const auto& [part, of_part] : colours) {
    EXPECT_EQ(of_part.size(), 1u) << part;
    all.insert(of_part.begin(), of_part.end());
  }
  EXPECT_EQ(all.size(), 4u);
}

TEST(TimelineDetailsTest, MemoryEndsAtWhatThePlanSays) {
  std::mt19937_64 random(85);
  for (int round = 0; round < 40; ++round) {
    RanStep step = RandomStep(random);
    const Json trace = step.Traced();
    std::map<int, std::vector<std::pair<int64_t, int64_t>>> in_use, reached;  // times and bytes
    for (const Json& event : trace.at("traceEvents")) {
      if (event.at("ph") != "C") continue;
      auto& counter = event.at("name") == "memory in use" ? in_use : reached;
      counter[event.at("pid")].emplace_back(NanosOf(event.at("ts")), event.at("args").at("bytes"));
    }
    for (int d = 0; d < step.tasks.devices(); ++d) {
      const DeviceId device(d);
      const int64_t fixed =
          (step.memory.persistent[device.index()] + step.memory.scratch[device.index()]).value();
      ASSERT_FALSE(reached[d].empty());
      EXPECT_EQ(reached[d].front().first, 0);
      EXPECT_EQ(reached[d].back().second, step.memory.peak(device).value());
      EXPECT_EQ(trace.at("otherData").at("peak_bytes").at(device.index()),
                step.memory.peak(device).value());
      ASSERT_EQ(in_use[d].size(), reached[d].size());
      for (size_t i = 0; i < in_use[d].size(); ++i) {
        EXPECT_LE(in_use[d][i].second, reached[d][i].second) << i;
        EXPECT_GE(in_use[d][i].second, fixed) << i;
        if (i == 0) continue;
        EXPECT_GT(in_use[d][i].first, in_use[d][i - 1].first);
        EXPECT_GE(reached[d][i].second, reached[d][i - 1].second);
      }
      int64_t read_by_host = 0;
      for (const HostOutput& output : step.tasks.outputs()) {
        if (step.tasks.buffer(output.buffer).device != device) continue;
        read_by_host += Aligned(step.memory.bytes[output.buffer.index()]);
      }
      EXPECT_EQ(in_use[d].back().second, fixed + read_by_host);
    }
  }
}

TEST(TimelineDetailsTest, MemoryIsShownOfDevicesThatHaveAllTheirTasks) {
  std::mt19937_64 random(88);
  RanStep step = TwoDevices(random);
  AddDetails({.graph = step.graph, .tasks = step.tasks, .memory = &step.memory, .whole_devices = 1},
             step.timeline);
  EXPECT_EQ(step.timeline.details.peak.size(), 1u);
  EXPECT_FALSE(step.timeline.details.memory.empty());
  for (const auto& memory : step.timeline.details.memory) EXPECT_EQ(memory.device, DeviceId(0));
}

TEST(TimelineDetailsTest, ArrowsBeyondTheMostAreLeftOutAndCounted) {
  std::mt19937_64 random(86);
  RanStep step = TwoDevices(random);
  step.Traced();
  std::vector<int64_t> bytes;
  for (const auto& arrow : step.timeline.details.arrows) bytes.push_back(arrow.bytes);
  std::ranges::sort(bytes, std::greater());
  ASSERT_GT(bytes.size(), 3u);
  const Json trace = step.Traced(3);
  std::vector<int64_t> kept;
  for (const auto& [id, ends] : ArrowsOf(trace)) kept.push_back(ends.from->at("args").at("bytes"));
  EXPECT_THAT(kept, testing::ElementsAre(bytes[0], bytes[1], bytes[2]));
  EXPECT_EQ(trace.at("otherData").at("arrows_left_out"), bytes.size() - 3);
  EXPECT_THAT(trace.at("otherData").at("note").get<std::string>(),
              HasSubstr(absl::StrCat(bytes.size() - 3, " arrows between devices are left out")));
}

TEST(TimelineDetailsTest, MeasuredTimesStandBesidePredictedOnes) {
  std::mt19937_64 random(87);
  RanStep step = TwoDevices(random);
  step.Traced();
  Timeline measured = step.timeline;
  for (TimelineEntry& entry : measured.entries) entry.end += Nanos(500);
  ASSERT_EQ(AddMeasured(measured, "'m.json'", step.timeline), absl::OkStatus());
  const Json trace = Json::parse(TimelineToJson(step.timeline));
  for (const Json& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X") continue;
    const Json& args = event.at("args");
    EXPECT_EQ(NanosOf(args.at("measured_us")), NanosOf(args.at("predicted_us")) + 500);
  }
  measured.entries.back().key.subject += 1000;
  const absl::Status other = AddMeasured(measured, "'m.json'", step.timeline);
  EXPECT_EQ(other.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(other.message()), HasSubstr("'m.json' is of another step"));
}

}  // namespace
}  // namespace partita
