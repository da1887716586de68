#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "graph/support/status_macros.h"
#include "runtime/backend/backends.h"
#include "runtime/backend/precision.h"
#include "runtime/support/tolerance.h"
#include "tests/conformance/kernel_examples.h"
#include "tests/gpu/sections.h"

namespace partita {
namespace {

// Keeps what test cases found instead of printing it.
class CaseCollector : public ::testing::EmptyTestEventListener {
 public:
  CaseCollector(const SuiteOptions& options, SectionFindings& findings)
      : options_(options), findings_(findings) {}

  void OnTestStart(const ::testing::TestInfo& info) override { running_ = info.name(); }
  // GoogleTest holds its lock: it must not be asked anything.
  void OnTestPartResult(const ::testing::TestPartResult& part) override {
    if (part.skipped()) skipped_ = part.message();
    if (part.failed() && findings_.failures.size() >= kMostFailures) return;
    const auto with_name = [this](absl::string_view message) {
      return absl::StrCat(running_, ": ", message);
    };
    if (part.failed()) {
      findings_.failures.push_back(with_name(part.message()));
    } else {  // what a hang or a crash was in: the line behind "Succeeded"
      const std::vector<std::string> lines = absl::StrSplit(part.message(), '\n');
      findings_.details["running"] = with_name(lines.size() > 1 ? lines[1] : lines[0]);
    }
    options_.so_far(findings_);
  }
  void OnTestEnd(const ::testing::TestInfo& info) override {
    const ::testing::TestResult& result = *info.result();
    Json one = {{"name", absl::StrCat(info.test_suite_name(), ".", info.name())},
                {"state", result.Failed()    ? "failed"
                          : result.Skipped() ? "skipped"
                                             : "passed"},
                {"seconds", static_cast<double>(result.elapsed_time()) / 1000}};
    if (result.Skipped()) one["reason"] = skipped_;
    for (int k = 0; k < result.test_property_count(); ++k) {
      one[result.GetTestProperty(k).key()] = result.GetTestProperty(k).value();
    }
    findings_.details["cases"].push_back(std::move(one));
    options_.so_far(findings_);
  }

 private:
  static constexpr size_t kMostFailures = 50;
  const SuiteOptions& options_;
  SectionFindings& findings_;
  std::string running_, skipped_;
};

}  // namespace

absl::StatusOr<SectionFindings> CheckConformance(const SuiteOptions& options) {
  RETURN_IF_ERROR(MakeBackend(options.backend).status());
  SectionFindings findings;
  findings.details = {{"tolerance", {{RowOf(Precision::kFloat32).name, kTolerance}}},
                      {"cases", Json::array()}};
  std::string cases = absl::StrCat("Backends/BackendTest.*/", options.backend, "*");
  if (options.backend == "cuda") {                     // which alone has other precisions
    absl::StrAppend(&cases, ":Precisions/*-*Teams*");  // which are of cores
    for (const PrecisionRow& row : kPrecisions) {
      if (row.precision == Precision::kFloat32) continue;
      findings.details["tolerance"][row.name] = ToleranceOf(row.precision);
    }
  }
  ::testing::GTEST_FLAG(filter) = cases;
  auto& listeners = ::testing::UnitTest::GetInstance()->listeners();
  delete listeners.Release(listeners.default_result_printer());
  auto* collector = new CaseCollector(options, findings);
  listeners.Append(collector);  // which owns it
  const int failed = RUN_ALL_TESTS();
  delete listeners.Release(collector);
  findings.details.erase("running");
  if (failed != 0 && findings.failures.empty()) findings.failures.push_back("the tests failed");
  if (findings.details["cases"].empty()) findings.failures.push_back("no test case ran");
  return findings;
}

}  // namespace partita
