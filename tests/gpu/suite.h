#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace partita {

// The GPU suite: sections that run on one backend and report in JSON. Everything but the backend is
// the same on a machine without a GPU, where the sections run on another backend to be tested.

using Json = nlohmann::ordered_json;

// Findings of a section. It passed if there are no failures.
struct SectionFindings {
  Json details = Json::object();
  std::vector<std::string> failures;
};

struct SuiteOptions {
  std::string backend = "cuda";
  std::string data;  // the folder that has "oracle" and "references", as tests/data
  std::vector<std::string> sections;  // names; empty: all
  std::vector<int> devices = {2, 4, 8};
  int random_plans = 100;    // on each number of devices
  int reference_plans = 10;  // of each reference, on each number of devices
  std::vector<int64_t> batches = {64, 128, 256, 512};  // of AlexNet
  std::vector<std::string> precisions;                 // names; empty: those of the backend
  int steps = 30;                                      // that are timed, after those that warm up
  int warm_up = 10;
  double section_seconds = 3600;  // after which a section is given up; it may plan by them
  double seconds = 0;             // for all sections, 0: no limit; those left over are skipped
  std::string nccl_library = "libnccl.so.2";
  std::string nccl_test_library;         // with NCCL's functions, for memory of this backend
  std::string python;                    // that may have PyTorch; empty: none
  std::string race;                      // tests/bench/pytorch_race.py, for `python`
  std::string program;                   // the suite's own, for `race`
  std::string partita;                   // the program that users have
  std::vector<std::string> libraries;    // NVIDIA's that were opened
  std::vector<std::string> search_path;  // as OpenNvidiaLibraries takes it

  // Takes what a section has found so far, while it runs, which is what the report says of it if
  // it crashes or does not end in time.
  std::function<void(const SectionFindings&)> so_far = [](const SectionFindings&) {};

  // Random plans of sections that run what virtual_devices does in another setting.
  int other_plans() const { return random_plans > 0 ? 1 + (random_plans - 1) / 5 : 0; }
};

// Unavailable or Unimplemented: this machine lacks what the section needs, it is skipped with that
// reason. Other errors: it failed.
using SectionFunction = absl::StatusOr<SectionFindings> (*)(const SuiteOptions& options);

struct SuiteSection {
  const char* name;
  SectionFunction run;
  const char* description;
};

// THE table of sections, in the order in which they run.
std::span<const SuiteSection> SuiteSections();

// Runs the sections of the table that `options` names, each in a process of its own; `done` is
// called after each with the report so far, of which its is the last section. One that crashes or
// is given up failed, with the details that it gave to so_far. NotFound lists the names where one
// is unknown. The report:
//   {"suite": "partita gpu_suite", "schema_version": 1, "version", "backend",
//    "sections": [{"name", "description", "state": "passed" | "failed" | "skipped", "seconds",
//                  "reason" (where skipped), "failures" (where failed), "details"}, ...],
//    "passed", "failed", "skipped": how many}
absl::StatusOr<Json> RunSuite(const SuiteOptions& options, std::span<const SuiteSection> sections,
                              const std::function<void(const Json& report)>& done);

// 1 where a section failed; otherwise 0 where one passed, and 77 where all were skipped.
int ExitCodeOfSuite(const Json& report);

}  // namespace partita
