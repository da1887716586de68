#include <random>

#include "absl/strings/str_cat.h"
#include "cost_model/default_cost_model.h"
#include "cost_model/machine.h"
#include "cost_model/machines.h"
#include "cost_model/profile_db.h"
#include "graph/model/model_io.h"
#include "graph/parallel/plan_io.h"
#include "graph/parallel/strategy_text.h"
#include "graph/partition/planned_step.h"
#include "graph/support/status_macros.h"
#include "graph/zoo/models.h"
#include "proto/machine.pb.h"
#include "proto/plan.pb.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/text_messages.h"
#include "tests/testing/random_collectives.h"
#include "tests/testing/random_strategy.h"
#include "tools/workflow/training_model.h"

namespace partita {
namespace {

// A model in a file beside the plan, which the plan names from its own folder.
constexpr char kModelFile[] = "near/model.textproto";

// A plan under a random strategy, with an order and a prediction, as files hold them.
std::string PlanTextFor(const ModelRequest& request, std::mt19937_64& random) {
  const auto model = LoadTrainingModel(request);
  DemandOk(model.status(), request.model);
  Plan plan;
  plan.model = model->label;
  if (IsModelFile(request.model)) plan.model.source = kModelFile;
  plan.topology = VirtualCpuDevices(3, Bytes(1 << 30));
  plan.strategy = RandomStrategy(model->graph, 3, random);
  plan.strategy = WithRandomCollectives(model->graph, plan.strategy,
                                        PartitionOptionsOf(plan.topology, {}), random);
  plan.prediction =
      Prediction{Nanos(123456), {Bytes(1), Bytes(2), Bytes(3)}, {Bytes(4), Bytes(5), Bytes(6)}};
  plan.provenance = {.program_version = "0.1.0",
                     .search = "mcmc",
                     .machine = "p100-4x4",
                     .seed = uint64_t{1} << 63,
                     .evaluations = 1000,
                     .options = {"beta=0.5"}};
  const auto step = BuildPlannedStep(model->graph, plan);
  DemandOk(step.status(), request.model);
  plan.order = PlanOrder{.task_graph_fingerprint = step->tasks.fingerprint()};
  for (const TaskId id : step->order) plan.order->tasks.push_back(id.value());
  return PlanText(plan, model->graph);
}

std::vector<std::string> PlanTexts() {
  std::vector<std::string> texts;
  std::mt19937_64 random(20240612);
  for (const char* name : {"mlp_tiny", "lenet", "mlp_tiny", "resnet_tiny", "mlp_tiny", "lenet"}) {
    texts.push_back(PlanTextFor({.model = name, .batch = 4}, random));
  }
  texts.push_back(PlanTextFor({.model = "mlp_tiny", .batch = 4, .microbatches = 2}, random));
  const auto small = MakeZooModel("mlp_tiny", 4);
  DemandOk(small.status(), "a model");
  const std::string file = Scratch().Write(absl::StrCat("plans/", kModelFile), "");
  DemandOk(SaveModel(*small, file, {"a", "b", "c"}).status(), "a model's file");
  texts.push_back(PlanTextFor({.model = file}, random));
  return texts;
}

// What is done with a plan that was read: it is described, written and read again, and its model is
// taken at another batch.
void UsePlan(const LoadedPlan& loaded) {
  const Graph& graph = loaded.model.graph;
  Demand(!StrategyText(graph, loaded.plan.strategy).empty(), "a strategy without text");
  (void)Warnings(loaded.model.imported);
  std::vector<NamedFile> files;
  AddModelFiles(loaded.model, files);
  const absl::Status other = TrainingGraphAt(graph.batch() * 2, loaded.model).status();
  Demand(other.ok() || absl::IsInvalidArgument(other), other.ToString());
  const std::string path = Scratch() / "plans/written.plan.textproto";
  DemandOk(WritePlanFile(loaded.plan, graph, path), "a plan that was read is not written");
  const auto again = ReadPlan({path});
  DemandOk(again.status(), "a plan that was written is not read");
  // The model's path may be another, from the plan's folder or the current one.
  Demand(StrategyText(again->model.graph, again->plan.strategy) ==
             StrategyText(graph, loaded.plan.strategy),
         "a plan that was written is read as another one");
}

absl::Status ReadPlanFile(const std::string& input) {
  const std::string path = Scratch().Write("plans/damaged.plan.textproto", input);
  ASSIGN_OR_RETURN(const LoadedPlan loaded, LoadPlan({path}));
  UsePlan(loaded);
  return absl::OkStatus();
}

std::vector<std::string> MachineTexts() {
  std::vector<std::string> texts;
  for (const char* name : {"p100-4x4", "k80-16x4", "h100-2x8", "ethernet-4"}) {
    const auto machine = FindMachine(name);
    DemandOk(machine.status(), name);
    texts.push_back(MachineText(*machine));
  }
  auto measured = FindMachine("p100-4x4");
  measured->collective_rates = {{"all_reduce", 4, {1000, 1e9}, 0.1}, {"", 2, {2000, 2e9}, 0.2}};
  texts.push_back(MachineText(*measured));
  return texts;
}

absl::Status ReadMachineFile(const std::string& input) {
  ASSIGN_OR_RETURN(const Machine machine,
                   FindMachine(Scratch().Write("damaged.machine.textproto", input)));
  const auto some = TakeDevices(machine, 2);
  if (some.ok()) {
    (void)MakeDefaultCostModel(std::make_shared<const Machine>(*some), DeviceProfiles(2));
  }
  // What was read can be written, and read again.
  const std::string path = Scratch() / "written.machine.textproto";
  DemandOk(SaveMachine(machine, path), "a machine that was read is not written");
  const auto again = FindMachine(path);
  DemandOk(again.status(), "a machine that was written");
  Demand(MachineText(*again) == MachineText(machine),
         "a machine that was written is read as another one");
  return absl::OkStatus();
}

ProfileRecord Record(RecordKind kind, const std::string& signature) {
  ProfileRecord record;
  record.kind = kind;
  record.signature = signature;
  record.family = "conv2d";
  record.variant = "relu";
  record.work = {.multiply_adds = 1 << 20, .other = 77};
  record.bytes = 4096;
  record.run = 64;
  record.samples_ns = {1000, 1100, 990};
  record.measured_at = 1'700'000'000;
  record.program = "0.1.0";
  return record;
}

std::vector<std::string> Databases() {
  const std::string path = Scratch() / "seed.db";
  auto db = ProfileDb::Open(path, ProfileDb::Mode::kCreate);
  DemandOk(db.status(), "a new database");
  for (const char* configuration : {"backend=cpu threads=1", "backend=cpu threads=2"}) {
    const DeviceFingerprint device{"some processor", configuration};
    const ProfileRecord records[] = {Record(RecordKind::kKernel, "conv2d f32 8x8"),
                                     Record(RecordKind::kMove, "move 4096"),
                                     Record(RecordKind::kCollective, "all_reduce 4096 2"),
                                     Record(RecordKind::kStep, "step 100")};
    DemandOk(db->Insert(device, records), "records");
  }
  DemandOk(db->AddAlgorithms({{{"some GPU", "conv2d", "7 0 1"}}}), "algorithms");
  return {FileContent(path)};
}

// Bytes as they are, or a value of a row under the types that SQLite lets anyone store.
std::string MutateDatabase(Mutator& mutator, const std::string& input, const std::string& other) {
  if (mutator.Below(2) == 0) return mutator.MutateBytes(input, other);
  const std::string path = Scratch().Write("mutated.db", input);
  auto file = SqliteFile::Open(path, SqliteFile::Mode::kWrite);
  if (!file.ok()) return mutator.MutateBytes(input, other);
  static constexpr const char* kColumns[] = {"record SET kind",
                                             "record SET multiply_adds",
                                             "record SET bytes",
                                             "record SET samples_ns",
                                             "record SET run",
                                             "record SET signature",
                                             "record SET device",
                                             "record SET family",
                                             "record SET measured_at",
                                             "device SET hardware",
                                             "device SET configuration",
                                             "algorithm SET choice",
                                             "record SET other_operations"};
  const std::string number = absl::StrCat(mutator.ExtremeInteger());
  const std::string values[] = {number,         absl::StrCat("'", number, "'"),
                                "1e308",        "x'0102030405'",
                                "zeroblob(24)", "zeroblob(1000000)",
                                "NULL",         "''"};
  for (size_t n = 1 + mutator.Below(3); n > 0; --n) {
    if (mutator.Below(8) == 0) {
      (void)file->Execute(absl::StrCat("PRAGMA user_version = ", mutator.Below(6)));
      continue;
    }
    (void)file->Execute(absl::StrCat(
        "UPDATE OR IGNORE ", kColumns[mutator.Below(std::size(kColumns))], " = ",
        values[mutator.Below(std::size(values))], " WHERE rowid % 3 = ", mutator.Below(3)));
  }
  file = absl::CancelledError();  // closes it
  return FileContent(path);
}

absl::Status ReadDatabase(const std::string& input) {
  const std::string path = Scratch().Write("damaged.db", input);
  std::error_code ignored;
  for (const auto mode : {ProfileDb::Mode::kRead, ProfileDb::Mode::kWrite}) {
    ASSIGN_OR_RETURN(ProfileDb db, ProfileDb::Open(path, mode));
    ASSIGN_OR_RETURN(const auto devices, db.Devices());
    for (const DeviceFingerprint& device : devices) {
      RETURN_IF_ERROR(db.Signatures(device).status());
      ASSIGN_OR_RETURN(const auto records, db.Records(device));
      for (const ProfileRecord& record : records) {
        Demand(!record.samples_ns.empty(), "a record without samples");
      }
      RETURN_IF_ERROR(db.Load(device).status());
    }
    RETURN_IF_ERROR(db.Algorithms().status());
    if (mode == ProfileDb::Mode::kRead || devices.empty()) continue;
    const ProfileRecord more[] = {Record(RecordKind::kKernel, "conv2d f32 8x8")};
    RETURN_IF_ERROR(db.AddSamples(devices[0], more, 5));
    RETURN_IF_ERROR(db.Forget("conv").status());
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<FuzzTarget> PlanTargets() {
  return {{.name = "plan",
           .reads = "plans, with the verifier",
           .seeds = PlanTexts,
           .mutate = MutateTextMessage<proto::Plan>,
           .read = ReadPlanFile,
           .inputs = 3'000},
          {.name = "machine",
           .reads = "machine files",
           .seeds = MachineTexts,
           .mutate = MutateTextMessage<proto::Machine>,
           .read = ReadMachineFile,
           .inputs = 2'000},
          {.name = "profile",
           .reads = "profile databases, read and written to",
           .seeds = Databases,
           .mutate = MutateDatabase,
           .read = ReadDatabase,
           .inputs = 2'000}};
}

}  // namespace partita
