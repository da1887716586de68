// The GPU suite as a program: prints one JSON report. See tools/gpu_suite.sh and tests/gpu/suite.h.
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "absl/strings/str_format.h"
#include "graph/model/model_io.h"
#include "graph/support/status_macros.h"
#include "graph/zoo/models.h"
#include "tests/bench/step_turns.h"
#include "tests/gpu/nvidia_libraries.h"
#include "tests/gpu/one_device.h"
#include "tests/gpu/suite.h"
#include "tools/workflow/training_model.h"

namespace partita {
namespace {

constexpr int kWrongUsage = 2;

struct Flags {
  SuiteOptions suite;
  std::string output;
  bool list = false;
};

std::vector<std::string> PrecisionNames() {
  std::vector<std::string> names;
  for (const PrecisionRow& row : kPrecisions) names.emplace_back(row.name);
  return names;
}

void AddFlags(CLI::App& app, Flags& flags, const std::string& beside) {
  SuiteOptions& suite = flags.suite;
  suite.data = beside + "/data";
  suite.program = beside + "/gpu_suite";
  suite.race = beside + "/pytorch_race.py";
  suite.partita = beside + "/partita";
  app.add_option("--backend", suite.backend, "that is tested; default cuda");
  app.add_option("--data", suite.data, "folder of the references; default data beside the program");
  app.add_option("--sections", suite.sections, "names; default all")->delimiter(',');
  app.add_option("--devices", suite.devices, "numbers of virtual devices")->delimiter(',');
  app.add_option("--plans", suite.random_plans, "random plans on each number of devices");
  app.add_option("--reference_plans", suite.reference_plans,
                 "random plans for each reference on each number of devices");
  app.add_option("--batches", suite.batches, "batches of AlexNet")->delimiter(',');
  app.add_option("--precisions", suite.precisions, "of AlexNet; default those of the backend")
      ->delimiter(',')
      ->check(CLI::IsMember(PrecisionNames()));
  app.add_option("--steps", suite.steps, "steps that are timed");
  app.add_option("--warm_up", suite.warm_up, "steps before those");
  app.add_option("--search_path", suite.search_path,
                 "folders that have cuDNN, cuBLAS and NCCL, or site-packages/nvidia")
      ->delimiter(':');
  suite.nccl_test_library = beside + "/libnccl_on_device.so";
  app.add_option("--section_seconds", suite.section_seconds, "after which a section is given up");
  app.add_option(
      "--seconds", suite.seconds,
      "for all sections: the one that runs is given up then, the rest skipped; default no limit");
  app.add_option("--nccl_library", suite.nccl_library, "NCCL's; default libnccl.so.2");
  app.add_option("--nccl_test_library", suite.nccl_test_library,
                 "default libnccl_on_device.so beside the program");
  app.add_option("--python", suite.python, "a Python that may have PyTorch");
  app.add_option("--race", suite.race, "pytorch_race.py; default beside the program");
  app.add_option("--partita", suite.partita, "the program; default partita beside this one");
  app.add_option("--output", flags.output, "file of the report; default the standard output");
  app.add_flag("--list", flags.list, "print the sections");
}

void List() {
  for (const SuiteSection& section : SuiteSections()) {
    std::cout << absl::StreamFormat("%-18s %s\n", section.name, section.description);
  }
}

void ShowLast(const Json& report) {
  const Json& section = report["sections"].back();
  std::cerr << absl::StreamFormat("%-18s %-8s %8.1f s\n", section["name"].get<std::string>(),
                                  section["state"].get<std::string>(),
                                  section["seconds"].get<double>());
  if (section.contains("reason")) std::cerr << "  " << section["reason"].get<std::string>() << "\n";
  for (const Json& failure : section.value("failures", Json::array())) {
    std::cerr << "  " << failure.get<std::string>() << "\n";
  }
}

// `gpu_suite model NAME`: a model in the native text form.
absl::Status PrintModel(const std::string& name) {
  ASSIGN_OR_RETURN(const Graph graph, MakeZooModel(name, 1));
  ASSIGN_OR_RETURN(const std::string text, ModelText(graph));
  std::cout << text;
  return absl::OkStatus();
}

// `gpu_suite turns MODEL ...`: trains on one device in turns with another program.
struct TurnsFlags {
  ModelRequest model;
  StepTurns turns;
  std::string backend = "cuda", precision = "float32";
};

absl::Status MakeTurns(const TurnsFlags& flags) {
  ASSIGN_OR_RETURN(const TrainingModel model, LoadTrainingModel(flags.model));
  ASSIGN_OR_RETURN(const auto executor,
                   OpenOneDevice(model.graph, {flags.backend, *PrecisionNamed(flags.precision)}));
  return TakeTurns(model.graph, *executor, flags.turns, std::cin, std::cout);
}

void AddTurnsFlags(CLI::App& turns, TurnsFlags& flags) {
  turns.add_option("model", flags.model.model)->required();
  turns.add_option("weights", flags.turns.weights)->required();
  turns.add_option("batch_file", flags.turns.batch)->required();
  turns.add_option("rate", flags.turns.step.learning_rate)->required();
  turns.add_option("momentum", flags.turns.step.momentum)->required();
  turns.add_option("--batch", flags.model.batch, "samples in the batch");
  turns.add_option("--backend", flags.backend, "default cuda");
  turns.add_option("--precision", flags.precision, "default float32")
      ->check(CLI::IsMember(PrecisionNames()));
}

// The report so far: what was found is there even if the rest is cut off.
bool Write(const Json& report, const std::string& path) {
  std::ofstream file(path);
  return static_cast<bool>(file << report.dump(1) << "\n" << std::flush);
}

int Run(const Flags& flags) {
  SuiteOptions suite = flags.suite;
  suite.libraries = OpenNvidiaLibraries(suite.search_path);
  const absl::StatusOr<Json> report = RunSuite(suite, SuiteSections(), [&](const Json& so_far) {
    ShowLast(so_far);
    if (!flags.output.empty()) Write(so_far, flags.output);
  });
  if (!report.ok()) {
    std::cerr << "gpu_suite: " << report.status().message() << "\n";
    return kWrongUsage;
  }
  Json whole = *report;
  whole["libraries"] = suite.libraries;
  if (flags.output.empty()) {
    std::cout << whole.dump(1) << "\n";
  } else if (!Write(whole, flags.output)) {
    std::cerr << "gpu_suite: cannot write '" << flags.output << "'\n";
    return 1;
  }
  return ExitCodeOfSuite(whole);
}

}  // namespace
}  // namespace partita

int main(int argc, char** argv) {
  using namespace partita;
  ::testing::InitGoogleTest();
  CLI::App app{
      "Runs the GPU suite and prints a report in JSON. Exit codes: 0 good, 1 something "
      "failed, 2 wrong usage, 77 nothing could run here"};
  Flags flags;
  AddFlags(app, flags, std::filesystem::canonical("/proc/self/exe").parent_path());
  std::string model_name;
  CLI::App* model = app.add_subcommand("model", "print a model in the native text form");
  model->add_option("name", model_name)->required();
  TurnsFlags turns_flags;
  CLI::App* turns = app.add_subcommand("turns", "a training step for each line of the input");
  turns->fallthrough();
  AddTurnsFlags(*turns, turns_flags);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kWrongUsage;
  }
  if (flags.list) return List(), 0;
  if (!*model && !*turns) return Run(flags);
  OpenNvidiaLibraries(flags.suite.search_path);
  const absl::Status status = *model ? PrintModel(model_name) : MakeTurns(turns_flags);
  if (!status.ok()) std::cerr << "gpu_suite: " << status.message() << "\n";
  return status.ok() ? 0 : 1;
}
