// The hypergraphs of models (planner/expert/channel_blocks.h) and what our partitioner makes of
// them, for a comparison with others': each is written as a file in the format of hMETIS, FOLDER/
// MODEL.hgr; then a line for each number of parts:
//   model parts vertices nets pins connectivity_minus_one heaviest_over_mean seconds
// tests/bench/hypergraph_crosscheck.py runs it, and another partitioner beside it.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "graph/support/check.h"
#include "graph/training/training_graph.h"
#include "graph/zoo/models.h"
#include "planner/expert/channel_blocks.h"
#include "planner/expert/hypergraph/partitioner.h"
#include "planner/space/search_space.h"
#include "tests/bench/processor_time.h"
#include "tests/testing/ok.h"

namespace partita {
namespace {

struct BenchOptions {
  std::vector<std::string> models = {"alexnet", "vgg16", "resnet18", "inception_v3"};
  std::vector<int32_t> parts = {2, 4, 8};
  int64_t batch = 128;
  int64_t blocks = 64;  // of an operator, at most
  double imbalance = 0.05;
  int runs = PartitionerOptions().runs;
  std::string folder = ".";
};

// Costs of nets and weights of vertices are integers; pins are numbered from 1 on.
void WriteHmetis(const Hypergraph& hypergraph, const std::string& path) {
  std::ofstream file(path);
  file << hypergraph.nets() << ' ' << hypergraph.vertices() << " 11\n";
  for (int32_t net = 0; net < hypergraph.nets(); ++net) {
    file << hypergraph.cost(net);
    for (int32_t pin : hypergraph.pins(net)) file << ' ' << pin + 1;
    file << '\n';
  }
  for (int32_t v = 0; v < hypergraph.vertices(); ++v) file << hypergraph.weight(v) << '\n';
  file.flush();
  CHECK(file.good()) << path;
}

void Measure(const std::string& model, const BenchOptions& options) {
  const Graph graph = Ok(BuildTrainingGraph(Ok(MakeZooModel(model, options.batch)), {}));
  const SearchSpace space(graph, 1);
  const ChannelBlocks blocks(graph, space, options.blocks);
  const Hypergraph& hypergraph = blocks.hypergraph();
  WriteHmetis(hypergraph, options.folder + "/" + model + ".hgr");
  size_t pins = 0;
  for (int32_t net = 0; net < hypergraph.nets(); ++net) pins += hypergraph.pins(net).size();
  for (int32_t count : options.parts) {
    const PartitionerOptions wanted{
        .parts = count, .imbalance = options.imbalance, .runs = options.runs};
    const double begin = ProcessorSeconds();
    const std::vector<int32_t> parts = PartitionHypergraph(hypergraph, wanted);
    const double seconds = ProcessorSeconds() - begin;
    const double mean = static_cast<double>(hypergraph.total_weight()) / count;
    std::printf("%s %d %d %d %zu %ld %.4f %.3f\n", model.c_str(), count, hypergraph.vertices(),
                hypergraph.nets(), pins, ConnectivityMinusOne(hypergraph, parts),
                static_cast<double>(HeaviestPart(hypergraph, parts, count)) / mean, seconds);
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace partita

int main(int argc, char** argv) {
  partita::BenchOptions options;
  CLI::App app{"hypergraphs of models, and partitions of them"};
  app.add_option("--models", options.models)->delimiter(',')->capture_default_str();
  app.add_option("--parts", options.parts)->delimiter(',')->capture_default_str();
  app.add_option("--batch", options.batch)->capture_default_str();
  app.add_option("--blocks", options.blocks, "of an operator, at most")->capture_default_str();
  app.add_option("--imbalance", options.imbalance)->capture_default_str();
  app.add_option("--runs", options.runs, "of which the best is taken")->capture_default_str();
  app.add_option("--folder", options.folder, "for the files")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  for (const std::string& model : options.models) partita::Measure(model, options);
}
