// A plan's predicted time is one function of plan, machine and profile: the planner that made it,
// its file and whoever reads machine, profile and plan again agree to the nanosecond.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <random>
#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cost_model/default_cost_model.h"
#include "cost_model/profile_db.h"
#include "graph/parallel/plan_io.h"
#include "graph/partition/planned_step.h"
#include "planner/expert/expert_strategies.h"
#include "planner/planner.h"
#include "tests/testing/ok.h"
#include "tests/testing/random_collectives.h"
#include "tests/testing/random_graph.h"
#include "tests/testing/random_strategy.h"

namespace partita {
namespace {

constexpr char kBackend[] = "made up";

int64_t Between(int64_t low, int64_t high, std::mt19937_64& random) {
  return std::uniform_int_distribution<int64_t>(low, high)(random);
}
bool Chance(int percent, std::mt19937_64& random) { return Between(1, 100, random) <= percent; }

DeviceClass RandomClass(const std::string& name, std::mt19937_64& random) {
  const auto rate = [&] { return 1e9 * static_cast<double>(Between(1, 100, random)); };
  return {.name = name,
          .hardware = name + " that is made up",
          .matrix_flops = rate(),
          .other_flops = rate(),
          .memory_bytes_per_second = rate(),
          .kernel_overhead_ns = static_cast<double>(Between(0, 5000, random)),
          .copy = {300, rate()},
          .add = {300, rate()},
          .fill = {300, rate()}};
}

// Up to three nodes of up to three devices; nodes may be on one computer, devices may share a core.
Machine RandomMachine(std::mt19937_64& random) {
  Machine machine{.name = "made up"};
  machine.classes.push_back(RandomClass("cpu", random));
  if (Chance(30, random)) machine.classes.push_back(RandomClass("slow", random));
  const int nodes = static_cast<int>(Between(1, 3, random));
  const bool share_host = Chance(50, random), share_cores = Chance(30, random);
  std::vector<Device> devices;
  std::vector<Link> links;
  Link net{.name = "net", .bytes_per_second = Between(1, 100, random) * 10'000'000};
  net.latency = Nanos(Between(1, 50'000, random));
  net.shared = true;
  for (int node = 0; node < nodes; ++node) {
    const std::string bus = absl::StrCat("bus", node);
    net.ends.push_back(bus);
    for (int64_t d = 0, of_node = Between(1, 3, random); d < of_node; ++d) {
      const int core = static_cast<int>(share_cores ? 0 : devices.size());
      Device device{.name = absl::StrCat("n", node, ".cpu", d)};
      device.device_class = machine.classes[random() % machine.classes.size()].name;
      device.node = node;
      device.memory = Bytes(int64_t{1} << 40);
      device.cores = {Chance(50, random) ? core : static_cast<int>(devices.size())};
      device.host = share_host ? "box" : "";
      links.push_back({.name = device.name + ".port",
                       .ends = {device.name, bus},
                       .bytes_per_second = Between(1, 100, random) * 100'000'000,
                       .latency = Nanos(Between(1, 5'000, random))});
      devices.push_back(std::move(device));
    }
  }
  if (nodes > 1) links.push_back(std::move(net));
  machine.topology = Ok(DeviceTopology::Create(std::move(devices), std::move(links)));
  return machine;
}

// Of kernels, made up: what one asks for, and so which waits reuse of memory adds, depends on it.
int64_t ScratchBytes(const KernelSignature& signature) {
  return static_cast<int64_t>(ToString(signature).size()) * 64;
}

// What a task's record says besides the samples.
std::vector<ProfileRecord> RecordsOf(const TaskGraph& tasks, const Task& task) {
  if (const auto* compute = std::get_if<ComputeTask>(&task.body)) {
    return {RecordOf(tasks.signatures()[static_cast<size_t>(compute->signature)])};
  }
  if (const auto* move = std::get_if<MoveTask>(&task.body)) {
    std::vector<ProfileRecord> records;
    for (const MoveSignature& signature : SignaturesOf(*move))
      records.push_back(RecordOf(signature));
    return records;
  }
  if (const auto* collective = std::get_if<CollectiveTask>(&task.body)) {
    return {RecordOf(
        {&collective->collective, collective->algorithm, collective->group, collective->dtype})};
  }
  if (const auto* transfer = std::get_if<TransferTask>(&task.body)) {
    std::vector<TransferCall> group;
    for (const Transfer& t : transfer->transfers) {
      group.push_back({t.from, t.to, t.receive.count * SizeOf(transfer->dtype)});
    }
    return {RecordOf(group)};
  }
  return {RecordOf(SignatureOf(tasks, std::get<LoadTask>(task.body)))};
}

// Model, machine file and profile database, all drawn from a seed.
class Setting {
 public:
  explicit Setting(uint64_t seed)
      : random_(seed),
        graph_(RandomTrainingGraph(random_)),
        machine_text_(MachineText(RandomMachine(random_))),
        profile_(absl::StrCat(testing::TempDir(), "prediction_", seed, ".db")) {
    std::remove(profile_.c_str());
    choices_.collectives = Chance(80, random_);
    choices_.fuse = Chance(80, random_);
    choices_.native_formats = Chance(50, random_);
    if (seed % 2 == 0) choices_.direct_bytes = 0;
    const Priced unmeasured(*this);
    const DeviceTopology& topology = unmeasured.machine->topology;
    strategy_ = RandomStrategy(graph_, topology.size(), random_);
    if (Chance(50, random_)) {
      strategy_ =
          WithRandomCollectives(graph_, strategy_, PartitionOptionsOf(topology, choices_), random_);
    }
    WriteRecords(*unmeasured.machine);
  }
  ~Setting() { std::remove(profile_.c_str()); }

  // Machine and prices as the files have them.
  struct Priced {
    explicit Priced(const Setting& setting)
        : machine(std::make_shared<const Machine>(Ok(ParseMachine(setting.machine_text_, "m")))) {
      const auto db = ProfileDb::Open(setting.profile_, ProfileDb::Mode::kRead);
      DeviceProfiles busy, uncontended;
      if (db.ok()) {
        ProfileRequest request{.backend = [](const Device&) { return kBackend; }};
        busy = Ok(LoadProfiles(*db, *machine, request));
        request.uncontended = true;
        uncontended = Ok(LoadProfiles(*db, *machine, request));
      }
      model = MakeDefaultCostModel(machine, std::move(busy), std::move(uncontended));
    }
    Evaluator EvaluatorOf(const Setting& setting, bool limit_memory) const {
      return Evaluator(setting.graph_, machine->topology, *model,
                       {.choices = setting.choices_,
                        .sizes = {nullptr, ScratchBytes},
                        .limit_memory = limit_memory});
    }
    std::shared_ptr<const Machine> machine;
    std::unique_ptr<CostModel> model;
  };

  const Graph& graph() const { return graph_; }
  const Strategy& strategy() const { return strategy_; }
  const std::string& machine_text() const { return machine_text_; }

 private:
  // Two of three tasks of the random strategy and of the experts, beside busy and mostly beside
  // idle neighbours.
  void WriteRecords(const Machine& machine) {
    std::vector<Strategy> strategies = {strategy_};
    for (NamedStrategy& expert : ExpertStarts(graph_, machine.topology)) {
      strategies.push_back(std::move(expert.strategy));
    }
    std::map<std::string, ProfileRecord> busy, uncontended;  // by signature
    for (const Strategy& strategy : strategies) {
      const TaskGraph tasks =
          Ok(Partition(graph_, strategy, PartitionOptionsOf(machine.topology, choices_)));
      for (const Task& task : tasks.tasks()) {
        for (ProfileRecord& record : RecordsOf(tasks, task)) {
          if (!Chance(67, random_)) continue;
          record.samples_ns = {Between(100, 1'000'000, random_)};
          busy.emplace(record.signature, record);
          record.samples_ns[0] = record.samples_ns[0] * Between(2, 100, random_) / 100;
          if (Chance(80, random_)) uncontended.emplace(record.signature, record);
        }
      }
    }
    ProfileDb db = Ok(ProfileDb::Open(profile_, ProfileDb::Mode::kCreate));
    absl::flat_hash_set<DeviceFingerprint> written;
    for (int d = 0; d < machine.topology.size(); ++d) {
      const DeviceFingerprint device = FingerprintOf(machine, DeviceId(d), kBackend);
      if (!written.insert(device).second) continue;
      Insert(db, device, busy);
      Insert(db, UncontendedFingerprint(device), uncontended);
    }
  }
  static void Insert(ProfileDb& db, const DeviceFingerprint& device,
                     const std::map<std::string, ProfileRecord>& records) {
    std::vector<ProfileRecord> list;
    for (const auto& [signature, record] : records) list.push_back(record);
    EXPECT_EQ(db.Insert(device, list), absl::OkStatus());
  }

  std::mt19937_64 random_;
  const Graph graph_;
  const std::string machine_text_, profile_;
  PartitionChoices choices_;
  Strategy strategy_;
};

// What the settings contained.
struct Coverage {
  int plans = 0, beside_idle = 0, waiting = 0, several_devices = 0, shared_host = 0;

  void Add(const Setting& setting, const EvaluatedStep& step) {
    ++plans;
    bool faster = false;
    for (size_t t = 0; t < step.costs.size(); ++t) faster |= step.durations[t] < step.costs[t].time;
    beside_idle += faster;
    waiting += !step.memory.added_dependencies.empty();
    several_devices += step.tasks.devices() > 1;
    shared_host += absl::StrContains(setting.machine_text(), "host:");
  }
};

// The plan after a round trip through its file, priced with machine and profile read again.
PlanOutcome ReadAndPriced(const Setting& setting, const Plan& plan, bool limit_memory) {
  const std::string text = PlanText(plan, setting.graph());
  const Plan read = Ok(PlanFromProto(Ok(ParsePlanText(text, "plan")), setting.graph()));
  EXPECT_TRUE(read.prediction == plan.prediction);
  const Setting::Priced priced(setting);
  return Ok(EvaluatePlan(priced.EvaluatorOf(setting, limit_memory), read));
}

void ExpectOnePrediction(const Setting& setting, const Evaluator& evaluator, PlanOutcome made) {
  made.plan.model = {.source = "random",
                     .batch = setting.graph().batch(),
                     .fingerprint = setting.graph().fingerprint()};
  const Prediction prediction = *made.plan.prediction;
  EXPECT_EQ(prediction.time, made.step.evaluation.time);
  EXPECT_EQ(made.search.evaluation.time, prediction.time);
  const Nanos by_rules = evaluator.EvaluateBrieflyInBestOrder(made.plan.strategy).time;
  EXPECT_LE(prediction.time, by_rules);
  EXPECT_EQ(prediction.time < by_rules, !made.plan.priority_draws.empty());
  Evaluator::Options options = evaluator.options();
  options.priority = Ok(PriorityNamed(made.plan.priority));
  options.draws = made.plan.priority_draws;
  options.any_priority = false;
  const Evaluator by_rule(evaluator.graph(), evaluator.topology(), evaluator.model(), options);
  EXPECT_EQ(by_rule.Evaluate(made.plan.strategy).time, prediction.time);
  EXPECT_EQ(by_rule.EvaluateBriefly(made.plan.strategy, prediction.time).time, prediction.time);
  EXPECT_LE(by_rule.EvaluateBriefly(made.plan.strategy, Nanos(1)).time, prediction.time);
  for (const bool limit_memory : {true, false}) {
    const PlanOutcome again = ReadAndPriced(setting, made.plan, limit_memory);
    EXPECT_EQ(again.step.evaluation.time, made.step.evaluation.time);
    EXPECT_TRUE(again.plan.prediction == prediction);
    EXPECT_TRUE(again.step.durations == made.step.durations);
    EXPECT_TRUE(again.step.schedule.start == made.step.schedule.start);
    EXPECT_TRUE(again.step.schedule.end == made.step.schedule.end);
  }
}

// Seeds from `first` on; what they contained.
Coverage ExpectOnePredictionForEach(uint64_t first, uint64_t seeds) {
  Coverage coverage;
  for (uint64_t seed = first; seed < first + seeds; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    const Setting setting(seed);
    const Setting::Priced priced(setting);
    const Evaluator evaluator = priced.EvaluatorOf(setting, true);
    PlanOutcome random = Ok(PlanOf(evaluator, setting.strategy(), "random"));
    coverage.Add(setting, random.step);
    ExpectOnePrediction(setting, evaluator, std::move(random));
    PlanRequest request{.search = seed % 2 == 0 ? "mcmc" : "greedy"};
    request.options.evaluations = 30;
    PlanOutcome searched = Ok(MakePlan(evaluator, request));
    coverage.Add(setting, searched.step);
    ExpectOnePrediction(setting, evaluator, std::move(searched));
    if (testing::Test::HasFailure()) break;
  }
  std::printf(
      "seeds %llu to %llu, %d plans: %d with tasks beside idle neighbours, %d with waits for "
      "memory, %d for several devices, %d with nodes of one computer\n",
      static_cast<unsigned long long>(first), static_cast<unsigned long long>(first + seeds - 1),
      coverage.plans, coverage.beside_idle, coverage.waiting, coverage.several_devices,
      coverage.shared_host);
  return coverage;
}

TEST(PredictionTest, PlannerFileAndReaderAgreeToTheNanosecond) {
  const Coverage coverage = ExpectOnePredictionForEach(0, 40);
  EXPECT_GE(coverage.beside_idle, 40);
  EXPECT_GE(coverage.waiting, 10);
  EXPECT_GE(coverage.several_devices, 40);
  EXPECT_GE(coverage.shared_host, 20);
}

TEST(PredictionTest, LongRunPlannerFileAndReaderAgreeToTheNanosecond) {
  ExpectOnePredictionForEach(1000, 2000);
}

}  // namespace
}  // namespace partita
