// Damaged model files: every one is imported or refused with a message, without a crash, within two
// seconds of processor time and half a gigabyte of memory.

#include "tests/graph/onnx/mutation.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <ctime>
#include <map>
#include <string>
#include <vector>

#include "graph/model_io.h"
#include "graph/model_source.h"
#include "graph/model_summary.h"
#include "graph/support/file.h"
#include "graph/training_graph.h"
#include "graph/zoo/models.h"

namespace partita {
namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

std::string MustRead(const std::string& name) {
  auto bytes = ReadFile(PARTITA_TEST_DATA "/" + name, int64_t{1} << 30);
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  return bytes.ok() ? *bytes : "";
}

struct Outcome {
  int accepted = 0, refused = 0;
  double slowest = 0;
  std::map<absl::StatusCode, int> codes;

  void Count(const absl::StatusOr<Graph>& graph, double seconds) {
    slowest = std::max(slowest, seconds);
    ++codes[graph.status().code()];
    ++(graph.ok() ? accepted : refused);
    if (!graph.ok()) {
      EXPECT_FALSE(graph.status().message().empty());
      return;
    }
    const ModelSummary summary = Summarize(*graph);
    EXPECT_GE(summary.macs_per_sample, 0);
    EXPECT_GE(summary.parameters, 0);
  }

  // Every file was handled, none slowly, none at the cost of much memory.
  void Check(const char* what) const {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const double megabytes = static_cast<double>(usage.ru_maxrss) / 1024;
    std::printf("%s: %d accepted, %d refused, slowest %.3f s, peak memory %.0f MB\n", what,
                accepted, refused, slowest, megabytes);
    for (const auto& [code, count] : codes) {
      EXPECT_TRUE(code == absl::StatusCode::kOk || code == absl::StatusCode::kInvalidArgument ||
                  code == absl::StatusCode::kNotFound)
          << absl::StatusCodeToString(code) << " " << count << " times";
    }
    EXPECT_LT(slowest, 2.0);
    if (!kSanitized) {
      EXPECT_LT(megabytes, 512);
    }
    EXPECT_GT(refused, accepted / 20);
    EXPECT_GT(accepted, refused / 1000);
  }
};

double CpuSeconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

absl::StatusOr<Graph> Import(const std::string& bytes) {
  auto model = ImportOnnxBytes(bytes, "damaged.onnx");
  if (!model.ok()) return model.status();
  // Whatever is accepted can be trained, or refused for that.
  (void)BuildTrainingGraph(model->graph, {});
  return std::move(model->graph);
}

absl::StatusOr<Graph> Parse(const std::string& text) {
  auto graph = ParseModel(text, "damaged.textproto");
  if (graph.ok()) (void)BuildTrainingGraph(*graph, {});
  return graph;
}

void RunOnnx(int first, int last) {
  std::vector<std::string> files;
  for (const char* name :
       {"models/alexnet.onnx", "models/alexnet_torchscript.onnx", "models/mlp.onnx",
        "models/vgg11.onnx", "models/lstm_lm_optimized.onnx", "oracle/mlp/model.onnx",
        "models/resnet50_dynamo.onnx", "models/transformer_encoder_optimized.onnx"}) {
    files.push_back(MustRead(name));
  }
  std::vector<onnx::ModelProto> models(files.size());
  for (size_t i = 0; i < files.size(); ++i) ASSERT_TRUE(models[i].ParseFromString(files[i]));
  Outcome outcome;
  for (int seed = first; seed < last; ++seed) {
    SCOPED_TRACE(seed);
    Mutator mutator(static_cast<uint64_t>(seed));
    // The large file is as rare as it is slow.
    const size_t k = static_cast<size_t>(seed / 2) % (seed % 10 == 0 ? files.size() : 6);
    const std::string bytes = seed % 2 == 0
                                  ? mutator.MutateBytes(files[k], files[(k + 1) % files.size()])
                                  : mutator.MutateModel(models[k]);
    const double start = CpuSeconds();
    const absl::StatusOr<Graph> graph = Import(bytes);
    outcome.Count(graph, CpuSeconds() - start);
  }
  outcome.Check("ONNX");
}

void RunNative(int first, int last) {
  std::vector<std::string> texts;
  for (const char* name : {"lenet", "mlp_tiny", "resnet_tiny", "alexnet_caffe2012"}) {
    const auto graph = MakeZooModel(name, 8);
    ASSERT_TRUE(graph.ok());
    texts.push_back(*ModelText(*graph));
  }
  Outcome outcome;
  for (int seed = first; seed < last; ++seed) {
    SCOPED_TRACE(seed);
    Mutator mutator(static_cast<uint64_t>(seed) + 1'000'000'000);
    const size_t k = static_cast<size_t>(seed) % texts.size();
    const std::string text = mutator.MutateText(texts[k], texts[(k + 1) % texts.size()]);
    const double start = CpuSeconds();
    const absl::StatusOr<Graph> graph = Parse(text);
    outcome.Count(graph, CpuSeconds() - start);
  }
  outcome.Check("native");
}

TEST(MutationTest, DamagedOnnxFilesAreRefusedOrRead) { RunOnnx(0, 15'000); }
TEST(MutationTest, DamagedTextFilesAreRefusedOrRead) { RunNative(0, 5'000); }
TEST(MutationTest, LongRunOnDamagedOnnxFiles) { RunOnnx(100'000, 250'000); }
TEST(MutationTest, LongRunOnDamagedTextFiles) { RunNative(100'000, 150'000); }

}  // namespace
}  // namespace partita
