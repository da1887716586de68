#include "runtime/train/trainer.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "graph/task/buffer_assignment.h"
#include "graph/task/task_order.h"
#include "graph/zoo/models.h"
#include "gtest/gtest.h"
#include "runtime/train/checkpoint.h"
#include "runtime/train/data/open_data_source.h"
#include "runtime/train/measured_timeline.h"
#include "runtime/train/metrics.h"
#include "tests/runtime/train/digit_training.h"
#include "tests/testing/far_memory_backend.h"
#include "tests/testing/faults.h"

namespace partita {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(TrainerTest, LearnsDigitsFromIdxFiles) {
  const std::string folder = ::testing::TempDir() + "/trainer_digits";
  std::filesystem::create_directories(folder);
  ASSERT_TRUE(WriteSyntheticDigitsIdx(folder, 4000, 500, 1).ok());
  auto open = [&](DataSplit split) -> std::shared_ptr<const DataSource> {
    return ModelWriter::Get(OpenDataSource({.spec = folder, .split = split}));
  };
  TrainingRun run(DigitModel(32), 1);
  const auto trainer = run.MakeTrainer(
      open(DataSplit::kTrain), {.epochs = 3, .arguments = {.learning_rate = 0.05}}, run.Start(),
      {.evaluation = run.evaluation.get(), .data = {.source = open(DataSplit::kEval)}});
  ASSERT_EQ(trainer->Run(), absl::OkStatus());
  EXPECT_EQ(trainer->metrics().steps(), 3 * (4000 / 32));
  EXPECT_LT(trainer->metrics().running_loss(), 0.3 * trainer->metrics().losses()[0]);
  ASSERT_TRUE(trainer->evaluation().has_value());
  EXPECT_EQ(trainer->evaluation()->samples, 500);
  EXPECT_GT(trainer->evaluation()->accuracy, 0.9);
  std::printf("%s; evaluation: loss %.4f, accuracy %.1f %%\n",
              trainer->metrics().ToString().c_str(), trainer->evaluation()->loss,
              100 * trainer->evaluation()->accuracy);
}

std::shared_ptr<const DataSource> SyntheticWordsFor(const Graph& model, DataSplit split,
                                                    int64_t size) {
  const Graph graph = ModelWriter::Get(BuildTrainingGraph(model, {}));
  const TensorId x = graph.tensors(TensorRole::kSamples)[0];
  const Shape shape = graph.tensor(x).type.shape;
  return ModelWriter::Get(OpenDataSource(
      {.spec = absl::StrCat("synthetic:", size),
       .split = split,
       .shape = {{shape.begin() + 1, shape.end()}},
       .classes = static_cast<int>(graph.WholeType(TensorRole::kLogits).shape.back()),
       .words = graph.IndexLimitOf(x),
       .labels = LabelsOfSample(graph)}));
}

// A label for each word, for the second half of them, and for the whole; 500 samples do not fill
// the last batch. At best 0.775 of the words can be told, of the labels all.
TEST(TrainerTest, LearnsWhichWordFollows) {
  for (const char* name : {"rnnlm_tiny", "gpt_tiny", "nmt_tiny"}) {
    SCOPED_TRACE(name);
    const Graph model = ModelWriter::Get(MakeZooModel(name, 32));
    std::vector<double> losses;
    for (int devices : {1, 2}) {
      TrainingRun run(model, devices);
      const auto trainer = run.MakeTrainer(
          SyntheticWordsFor(model, DataSplit::kTrain, 6400),
          {.epochs = 3, .arguments = {.learning_rate = 0.2, .momentum = 0.9}}, run.Start(),
          {.evaluation = run.evaluation.get(),
           .data = {.source = SyntheticWordsFor(model, DataSplit::kEval, 500)}});
      ASSERT_EQ(trainer->Run(), absl::OkStatus());
      EXPECT_LT(trainer->metrics().running_loss(), 0.3 * trainer->metrics().losses()[0]);
      ASSERT_TRUE(trainer->evaluation().has_value());
      EXPECT_EQ(trainer->evaluation()->samples, 500);
      EXPECT_GT(trainer->evaluation()->accuracy, 0.9);
      EXPECT_LE(trainer->evaluation()->accuracy, 1.0);
      losses.push_back(trainer->metrics().losses()[5]);
    }
    EXPECT_NEAR(losses[0], losses[1], 1e-4);
  }
}

TEST(TrainerTest, WordsAndFloatsAreNotMixed) {
  const Graph words = ModelWriter::Get(MakeZooModel("rnnlm_tiny", 4));
  const Graph graph = ModelWriter::Get(BuildTrainingGraph(words, {}));
  EXPECT_THAT(std::string(CheckSourceFits(*Digits(8, DataSplit::kTrain), graph).message()),
              HasSubstr("are no words"));
  const Graph digits = ModelWriter::Get(BuildTrainingGraph(DigitModel(4), {}));
  EXPECT_THAT(
      std::string(
          CheckSourceFits(*SyntheticWordsFor(words, DataSplit::kTrain, 8), digits).message()),
      HasSubstr("are words"));
  const Graph classes = ModelWriter::Get(BuildTrainingGraph(*MakeZooModel("rnntc_tiny", 4), {}));
  EXPECT_THAT(
      std::string(
          CheckSourceFits(*SyntheticWordsFor(words, DataSplit::kTrain, 8), classes).message()),
      HasSubstr("the model has 1 labels for each sample"));
}

TEST(TrainerTest, TwoDevicesHaveTheLossesOfOne) {
  std::vector<std::vector<double>> losses;
  for (int devices : {1, 2}) {
    TrainingRun run(DigitModel(16, true), devices);
    const auto trainer = run.MakeTrainer(Digits(320, DataSplit::kTrain), kTenSteps, run.Start());
    ASSERT_EQ(trainer->Run(), absl::OkStatus());
    losses.push_back(trainer->metrics().losses());
  }
  for (size_t i = 0; i < losses[0].size(); ++i) EXPECT_NEAR(losses[0][i], losses[1][i], 1e-4);
}

// The batch of the next step is on its way while a step runs; the first and those behind an
// evaluation's data, which has an executor of its own, too.
TEST(TrainerTest, DevicesWithMemoryOfTheirOwnCopyTheNextBatchBesideTheStep) {
  const auto near = ModelWriter::Get(MakeBackend("reference"));
  std::vector<std::vector<double>> losses;
  for (const auto& backend : {near, FarMemoryBackend(near)}) {
    TrainingRun run(DigitModel(16, true), 2, false, backend);
    TrainerOptions options = kTenSteps;
    options.evaluate_every = 4;
    options.record_timeline = true;
    const auto trainer = run.MakeTrainer(
        Digits(320, DataSplit::kTrain), options, run.Start(),
        {.evaluation = run.evaluation.get(), .data = {.source = Digits(40, DataSplit::kEval)}});
    ASSERT_EQ(trainer->Run(), absl::OkStatus());
    losses.push_back(trainer->metrics().losses());
    EXPECT_EQ(trainer->metrics().staged_steps(), backend == near ? 0 : 9);
    // Two places for batches are seen once and recorded then; the last step has a timeline.
    EXPECT_EQ(trainer->metrics().replayed_steps(), backend == near ? 0 : 6);
    EXPECT_FALSE(trainer->timeline().empty());
    EXPECT_EQ(trainer->metrics().ToString().find("9 batches copied") == std::string::npos,
              backend == near);
  }
  EXPECT_EQ(losses[0], losses[1]);
}

// Stopped after step 5, in the middle of the second epoch, saved, loaded into another run, resumed.
// The run that is stopped has devices that have the next batch already.
TEST(TrainerTest, AResumedRunIsTheUninterruptedRunBitForBit) {
  const std::string path = ::testing::TempDir() + "/resumed.safetensors";
  const auto source = Digits(64, DataSplit::kTrain);
  TrainingRun whole(DigitModel(16, true), 2);
  const auto at_once = whole.MakeTrainer(source, kTenSteps, whole.Start());
  ASSERT_EQ(at_once->Run(), absl::OkStatus());

  const auto reference = ModelWriter::Get(MakeBackend("reference"));
  TrainingRun first(DigitModel(16, true), 2, false, FarMemoryBackend(reference));
  std::atomic<bool> stop = false;
  TrainerOptions options = kTenSteps;
  options.stop = &stop;
  options.on_step = [&stop](const StepReport& report) { stop = report.step == 5; };
  const auto interrupted = first.MakeTrainer(source, options, first.Start());
  EXPECT_EQ(interrupted->Run().code(), absl::StatusCode::kCancelled);
  const TrainingState half = ModelWriter::Get(interrupted->State());
  EXPECT_EQ(half.step, 5);
  EXPECT_EQ(half.position, (LoaderPosition{.epoch = 1, .batch = 1}));
  ASSERT_EQ(SaveCheckpoint(path, first.graph, half), absl::OkStatus());

  TrainingRun second(DigitModel(16, true), 2);
  TrainingState loaded = ModelWriter::Get(LoadCheckpoint(path, second.graph));
  EXPECT_EQ(loaded, half);
  const auto resumed = second.MakeTrainer(source, kTenSteps, std::move(loaded));
  ASSERT_EQ(resumed->Run(), absl::OkStatus());
  EXPECT_EQ(ModelWriter::Get(resumed->State()), ModelWriter::Get(at_once->State()));
  std::vector<double> losses = interrupted->metrics().losses();
  losses.insert(losses.end(), resumed->metrics().losses().begin(),
                resumed->metrics().losses().end());
  EXPECT_EQ(losses, at_once->metrics().losses());
}

// The state's, whatever the loader was to begin with.
TEST(TrainerTest, TheSeedOfTheStateOrdersTheData) {
  std::vector<std::vector<double>> losses;
  for (const auto& [loader_seed, state_seed] : {std::pair{1, 5}, {2, 5}, {1, 6}}) {
    TrainingRun run(DigitModel(16), 1);
    TrainingState start = run.Start();
    start.seed = static_cast<uint64_t>(state_seed);
    const auto trainer =
        ModelWriter::Get(Trainer::Create(run.graph, *run.executor,
                                         {std::move(start),
                                          {.source = Digits(64, DataSplit::kTrain),
                                           .loader = {.seed = static_cast<uint64_t>(loader_seed)}},
                                          kTenSteps}));
    ASSERT_EQ(trainer->Run(), absl::OkStatus());
    losses.push_back(trainer->metrics().losses());
  }
  EXPECT_EQ(losses[0], losses[1]);
  EXPECT_NE(losses[0], losses[2]);
}

TEST(TrainerTest, AResumedRunRefusesAnotherNumberOfSamplesAndOneWithoutAnEnd) {
  TrainingRun run(DigitModel(16), 1);
  TrainingState start = run.Start();
  start.position = {.epoch = 1, .batch = 2};
  start.samples = 64;
  const auto status = [&](int64_t samples, TrainerOptions options) {
    return Trainer::Create(
               run.graph, *run.executor,
               {start, {.source = Digits(samples, DataSplit::kTrain)}, std::move(options)})
        .status();
  };
  EXPECT_EQ(status(64, kTenSteps), absl::OkStatus());
  const absl::Status other = status(80, kTenSteps);
  EXPECT_EQ(other.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(other.message()),
              HasSubstr("batch 2 of epoch 1 of 64 samples; found are 80"));
  for (const TrainerOptions& bad : {TrainerOptions{}, TrainerOptions{.steps = 1, .epochs = 1}}) {
    EXPECT_EQ(status(64, bad).code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST(TrainerTest, ReportsEveryStepAndEvaluatesWhenAsked) {
  TrainingRun run(DigitModel(16), 1);
  std::vector<int64_t> steps, evaluated;
  TrainerOptions options = kTenSteps;
  options.evaluate_every = 4;
  options.on_step = [&](const StepReport& report) {
    steps.push_back(report.step);
    EXPECT_EQ(report.steps, 10);
    EXPECT_EQ(report.epoch, (report.step - 1) / 4);
    EXPECT_GT(report.images_per_second(), 0);
    EXPECT_GE(report.accuracy, 0);
    EXPECT_LE(report.accuracy, 1);
  };
  options.on_evaluation = [&](int64_t step, const EvaluationResult& result) {
    evaluated.push_back(step);
    EXPECT_EQ(result.samples, 20);
  };
  const auto trainer = run.MakeTrainer(
      Digits(64, DataSplit::kTrain), options, run.Start(),
      {.evaluation = run.evaluation.get(), .data = {.source = Digits(20, DataSplit::kEval)}});
  ASSERT_EQ(trainer->Run(), absl::OkStatus());
  EXPECT_EQ(steps.size(), 10u);
  EXPECT_THAT(evaluated, ::testing::ElementsAre(4, 8, 10));
}

// Whatever data the state is from: nothing is trained on others.
TEST(TrainerTest, WithoutALengthAStateIsOnlyEvaluated) {
  TrainingRun run(DigitModel(16), 1);
  const auto evaluation = [&run] {
    return EvaluationData{.evaluation = run.evaluation.get(),
                          .data = {.source = Digits(20, DataSplit::kEval)}};
  };
  const auto trained =
      run.MakeTrainer(Digits(64, DataSplit::kTrain), kTenSteps, run.Start(), evaluation());
  ASSERT_EQ(trained->Run(), absl::OkStatus());
  const TrainingState end = ModelWriter::Get(trained->State());
  const auto trainer = run.MakeTrainer(Digits(48, DataSplit::kTrain), {}, end, evaluation());
  ASSERT_EQ(trainer->Run(), absl::OkStatus());
  EXPECT_EQ(trainer->metrics().steps(), 0);
  ASSERT_TRUE(trainer->evaluation().has_value());
  EXPECT_EQ(trainer->evaluation()->loss, trained->evaluation()->loss);
  EXPECT_EQ(trainer->evaluation()->accuracy, trained->evaluation()->accuracy);
  EXPECT_EQ(ModelWriter::Get(trainer->State()), end);
}

// Digits, changed by a function of the sample's index.
class ChangedDigits : public DataSource {
 public:
  using Change = std::function<void(int64_t index, std::span<float> x)>;
  explicit ChangedDigits(Change change) : change_(std::move(change)) {}
  int64_t size() const override { return digits_->size(); }
  const SampleShape& shape() const override { return digits_->shape(); }
  int classes() const override { return 10; }
  absl::Status Read(int64_t index, int64_t epoch, std::span<float> x,
                    int32_t* label) const override {
    const absl::Status status = digits_->Read(index, epoch, x, label);
    change_(index, x);
    return status;
  }
  std::string Describe() const override { return "changed digits"; }

 private:
  const Change change_;
  std::shared_ptr<const DataSource> digits_ = Digits(160, DataSplit::kTrain);
};

std::shared_ptr<const DataSource> DigitsWithNan() {
  return std::make_shared<ChangedDigits>([](int64_t index, std::span<float> x) {
    if (index == 100) x[28 * 14 + 14] = std::numeric_limits<float>::quiet_NaN();
  });
}

// Of a trainer that takes the samples as they come.
std::unique_ptr<Trainer> InOrder(TrainingRun& run, std::shared_ptr<const DataSource> source,
                                 const TrainerOptions& options) {
  return ModelWriter::Get(
      Trainer::Create(run.graph, *run.executor,
                      {run.Start(),
                       {.source = std::move(source), .loader = {.workers = 1, .shuffle = false}},
                       options}));
}

// What a run is that ends because something is not finite, and the steps that it keeps.
void ExpectNotFinite(Trainer& trainer, const std::vector<std::string>& said, int64_t kept) {
  const absl::Status status = trainer.Run();
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange) << status;
  for (const std::string& part : said) {
    EXPECT_THAT(std::string(status.message()), HasSubstr(part));
  }
  EXPECT_EQ(ModelWriter::Get(trainer.State()).step, kept);
}

TEST(TrainerTest, NanInTheDataStopsTrainingNamesTheSampleAndKeepsTheStateBefore) {
  TrainerOptions options = kTenSteps;
  options.snapshot_every = 4;
  TrainingRun run(DigitModel(16), 2);
  const auto trainer = InOrder(run, DigitsWithNan(), options);
  ExpectNotFinite(*trainer,
                  {"the loss is nan in step 6", "the data hold nan",
                   "element 406 of sample 100 (4 of batch 6 of epoch 0)", "changed digits"},
                  6);
  const TrainingState kept = ModelWriter::Get(trainer->State());

  TrainingRun clean(DigitModel(16), 2);
  options.steps = 6;
  const auto six = InOrder(clean, Digits(160, DataSplit::kTrain), options);
  ASSERT_EQ(six->Run(), absl::OkStatus());
  EXPECT_EQ(kept, ModelWriter::Get(six->State()));
}

// Pixels whose square is no float: batch norm takes moments in double, so that the loss is finite
// and stays so; only the running variance is not.
TEST(TrainerTest, AStateThatIsNotFiniteIsFoundAndTracedThoughTheLossIsFinite) {
  TrainerOptions options = kTenSteps;
  options.snapshot_every = 4;
  for (const int64_t first_bad : {0, 40}) {
    const auto source =
        std::make_shared<ChangedDigits>([first_bad](int64_t index, std::span<float> x) {
          if (index < first_bad) return;
          for (float& pixel : x) pixel = pixel * 1e30f;
        });
    TrainingRun run(DigitModel(16, true), 2);
    const auto trainer = InOrder(run, source, options);
    const int64_t step = first_bad / 16;
    ExpectNotFinite(*trainer,
                    {"after step 4 'bn.running_var'", absl::StrCat("in step ", step, " "),
                     "operator 'bn.running_variance'",
                     "produced NaN or infinity, in tensor 'bn.running_var.next'"},
                    step);
    EXPECT_EQ(trainer->metrics().steps(), 4);
  }
}

// The loss is that of the weights before the step.
TEST(TrainerTest, TheWeightsOfTheLastStepAreChecked) {
  TrainingRun run(DigitModel(16), 2);
  const TrainerOptions options{.steps = 1, .arguments = {.learning_rate = 1e300}};
  const auto trainer = run.MakeTrainer(Digits(64, DataSplit::kTrain), options, run.Start());
  ExpectNotFinite(*trainer, {"after step 1 '", "in step 0 ", "operator '", "in tensor '"}, 0);
}

TEST(TrainerTest, NanInTheDataOfAnEvaluationIsNamed) {
  TrainingRun run(DigitModel(16), 2);
  const auto trainer = run.MakeTrainer(
      Digits(64, DataSplit::kTrain), {.steps = 2, .arguments = {.learning_rate = 0.05}},
      run.Start(), {.evaluation = run.evaluation.get(), .data = {.source = DigitsWithNan()}});
  ExpectNotFinite(*trainer,
                  {"the evaluation's loss is nan in samples 96 to 111", "the data hold nan",
                   "element 406 of sample 100 (changed digits)"},
                  2);
}

TEST(TrainerTest, AStateThatIsNotFiniteIsNoStart) {
  TrainingRun run(DigitModel(16), 1);
  TrainingState start = run.Start();
  const TensorId weight = run.graph.weights()[0].tensor;
  const float infinite = std::numeric_limits<float>::infinity();
  std::memcpy(start.values[weight.index()].data() + 3 * sizeof(float), &infinite, sizeof(float));
  const absl::Status status =
      Trainer::Create(run.graph, *run.executor,
                      {std::move(start), {.source = Digits(64, DataSplit::kTrain)}, kTenSteps})
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("'conv.weight'"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("element 3"));
}

TEST(TrainerTest, DivergenceIsFoundAndNamed) {
  TrainerOptions options = kTenSteps;
  options.arguments.learning_rate = 1e30;
  TrainingRun run(DigitModel(16), 1);
  const auto trainer = run.MakeTrainer(Digits(64, DataSplit::kTrain), options, run.Start());
  const absl::Status status = trainer->Run();
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(std::string(status.message()), HasSubstr("operator '"));
}

TEST(TrainerTest, WrongDataAndLengthsAreErrors) {
  TrainingRun run(DigitModel(16), 1);
  auto create = [&](std::shared_ptr<const DataSource> source, TrainerOptions options) {
    return Trainer::Create(run.graph, *run.executor,
                           {run.Start(), {.source = std::move(source)}, std::move(options)})
        .status();
  };
  EXPECT_THAT(std::string(create(Digits(15, DataSplit::kTrain), kTenSteps).message()),
              HasSubstr("a batch takes 16"));
  EXPECT_EQ(create(Digits(64, DataSplit::kTrain), {}).code(), absl::StatusCode::kInvalidArgument);
  const std::shared_ptr<const DataSource> large =
      ModelWriter::Get(OpenDataSource({.spec = "synthetic", .shape = {{3, 32, 32}}}));
  EXPECT_THAT(std::string(create(large, kTenSteps).message()), HasSubstr("3x32x32"));
}

TEST(EvaluationTest, APaddedLastBatchDoesNotCount) {
  const auto source = Digits(50, DataSplit::kEval);
  TrainingRun even(DigitModel(10), 1), uneven(DigitModel(16), 1);
  const auto a = ModelWriter::Get(even.evaluation->Run(even.Start(), source, {}));
  const auto b = ModelWriter::Get(uneven.evaluation->Run(uneven.Start(), source, {}));
  EXPECT_EQ(b.samples, 50);
  EXPECT_NEAR(a.loss, b.loss, 1e-5);
  EXPECT_NEAR(a.accuracy, b.accuracy, 1e-9);
}

TEST(EvaluationTest, SplitEvaluationEqualsTheWholeAndKeepsTheSplit) {
  const auto source = Digits(40, DataSplit::kEval);
  std::vector<EvaluationResult> results;
  for (int devices : {1, 2}) {
    TrainingRun run(DigitModel(16, true), devices);
    const auto trainer =
        run.MakeTrainer(Digits(64, DataSplit::kTrain), kTenSteps, run.Start(),
                        {.evaluation = run.evaluation.get(), .data = {.source = source}});
    ASSERT_EQ(trainer->Run(), absl::OkStatus());
    results.push_back(*trainer->evaluation());
    const Graph& graph = run.evaluation->graph();
    const Strategy strategy = EvaluationStrategy(graph, run.graph, run.strategy, devices);
    for (OpId id : graph.anchors()) {
      if (graph.rule(id).loops[0].extent < devices) continue;
      EXPECT_EQ(strategy.configs[id.index()].degrees[0], devices) << graph.op(id).name;
    }
  }
  EXPECT_NEAR(results[0].loss, results[1].loss, 1e-4);
  EXPECT_NEAR(results[0].accuracy, results[1].accuracy, 0.03);
}

TEST(TrainerTest, NamesTheTensorWhoseCopiesDiffer) {
  TrainingRun run(DigitModel(16), 2);
  PlannedStep step = ModelWriter::Get(CanonicalStep(run.graph, run.strategy, {.devices = 2}));
  const auto fault =
      std::find_if(PlantedFaults().begin(), PlantedFaults().end(),
                   [](const Fault& f) { return std::string(f.name) == "missing_all_reduce"; });
  ASSERT_NE(fault, PlantedFaults().end());
  std::mt19937_64 random(1);
  auto faulty = WithFault(*fault, run.graph, step.tasks, random);
  ASSERT_TRUE(faulty.has_value());
  step.tasks = *std::move(faulty);
  step.order = CanonicalOrder(step.tasks);
  run.executor = ModelWriter::Get(OpenExecutor(run.graph, std::move(step), run.setup));
  TrainerOptions options = kTenSteps;
  options.snapshot_every = 4;
  const auto trainer = run.MakeTrainer(Digits(64, DataSplit::kTrain), options, run.Start());
  const absl::Status status = trainer->Run();
  EXPECT_TRUE(absl::IsInternal(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("after step 4: copies of '"));
  EXPECT_EQ(ModelWriter::Get(trainer->State()).step, 0);  // the last snapshot
}

TEST(MeasuredTimelineTest, HasEveryTaskOnEachOfItsDevicesAndIsAChromeTrace) {
  TrainingRun run(DigitModel(16), 2, /*record_timeline=*/true);
  const auto trainer = run.MakeTrainer(Digits(64, DataSplit::kTrain), kTenSteps, run.Start());
  ASSERT_EQ(trainer->Run(), absl::OkStatus());
  const TaskGraph& tasks = run.executor->program().tasks;
  const Timeline timeline =
      MeasuredTimeline(run.graph, tasks, trainer->timeline(), "measured", {"cpu0", "cpu1"});
  size_t sides = 0;
  for (const Task& task : tasks.tasks()) sides += DevicesOf(task).size();
  EXPECT_EQ(timeline.entries.size(), sides);
  for (const TimelineEntry& entry : timeline.entries) EXPECT_LT(entry.start, entry.end);
  EXPECT_EQ(ModelWriter::Get(TimelineFromJson(TimelineToJson(timeline))), timeline);
}

TEST(TrainingMetricsTest, CountsWaitingApartFromSteps) {
  TrainingMetrics metrics(2);
  for (int64_t i = 1; i <= 3; ++i) {
    metrics.Add({.step = i,
                 .images = 8,
                 .loss = static_cast<double>(i),
                 .accuracy = 0.5,
                 .wall_ns = i * 1'000'000,
                 .waited_ns = 2'000'000,
                 .read_ns = 5'000'000});
  }
  EXPECT_DOUBLE_EQ(metrics.running_loss(), 2.5);
  EXPECT_DOUBLE_EQ(metrics.running_accuracy(), 0.5);
  EXPECT_EQ(metrics.median_step_ns(), 2'000'000);
  EXPECT_DOUBLE_EQ(metrics.median_images_per_second(), 4000);
  EXPECT_DOUBLE_EQ(metrics.images_per_second(), 2000);
  EXPECT_DOUBLE_EQ(metrics.waiting_share(), 0.5);
  EXPECT_EQ(metrics.read_ns(), 15'000'000);
  EXPECT_EQ(metrics.hidden_read_ns(), 9'000'000);
}

TEST(StepReportTest, SaysWhatThereIs) {
  EXPECT_EQ(RateText(122.4), "122 samples/s");
  EXPECT_EQ(RateText(0.3124), "0.312 samples/s");
  StepReport report{
      .step = 3, .steps = 10, .images = 64, .loss = 2.5, .accuracy = 0.1, .wall_ns = 500'000};
  EXPECT_EQ(report.ToString(), "step 3/10  loss 2.5000  accuracy 10.0 %  128000 samples/s");
  report.accuracy = std::nan("");
  EXPECT_EQ(report.ToString(), "step 3/10  loss 2.5000  128000 samples/s");
  TrainingMetrics metrics;
  metrics.Add(report);
  EXPECT_EQ(metrics.ToString(),
            "loss 2.5000, 128000 samples/s (median 128000 samples/s), 0.0 % waiting for data");
  report.read_ns = 900'000;  // less than a millisecond is not worth a word
  metrics.Add(report);
  EXPECT_THAT(metrics.ToString(), Not(HasSubstr("reading")));
  report.read_ns = 1'100'000;
  metrics.Add(report);
  EXPECT_THAT(metrics.ToString(), EndsWith(", 0.002 s of reading hidden behind compute"));
}

}  // namespace
}  // namespace partita
