#include "absl/strings/str_cat.h"
#include "graph/support/status_macros.h"
#include "runtime/backend/backends.h"
#include "tests/gpu/sections.h"
#include "tests/testing/noisy_backend.h"
#include "tools/workflow/reference_verification.h"

namespace partita {
namespace {

constexpr const char* kReferences[] = {"oracle/mlp",
                                       "oracle/lenet",
                                       "oracle/alexnet_s_tiny",
                                       "oracle/resnet_tiny",
                                       "references/gpt_tiny",
                                       "references/inception_v3_tiny",
                                       "references/nmt_tiny",
                                       "references/resnet101_tiny"};

void CheckReference(const SuiteOptions& options, const std::string& name, int devices,
                    SectionFindings& findings) {
  ReferenceRequest request;
  request.folder = absl::StrCat(options.data, "/", name);
  request.backend = options.backend;
  request.devices = devices;
  request.random_plans = devices == 1 ? 1 : options.reference_plans;
  request.noisy = RoundingBackend();
  const absl::StatusOr<ReferenceResult> result = VerifyAgainstReference(request);
  const std::string run = absl::StrCat(name, " on ", devices, " devices: ");
  if (!result.ok()) {
    findings.failures.push_back(absl::StrCat(run, result.status().ToString()));
    return;
  }
  findings.details["runs"].push_back({{"reference", name},
                                      {"devices", devices},
                                      {"plans", result->plans},
                                      {"equal", result->equal},
                                      {"equal_but_for_rounding", result->rounded},
                                      {"max_abs_error", result->max_abs_error},
                                      {"worst_tensor", result->worst},
                                      {"worst_share_of_tolerance", result->worst_share}});
  if (!result->equal) findings.failures.push_back(absl::StrCat(run, result->first_difference));
}

}  // namespace

absl::StatusOr<SectionFindings> CheckReferences(const SuiteOptions& options) {
  RETURN_IF_ERROR(MakeBackend(options.backend).status());
  SectionFindings findings;
  findings.details["runs"] = Json::array();
  for (const char* name : kReferences) {
    std::vector<int> counts = {1};
    counts.insert(counts.end(), options.devices.begin(), options.devices.end());
    for (const int devices : counts) {
      findings.details["running"] = absl::StrCat(name, " on ", devices, " devices");
      options.so_far(findings);
      CheckReference(options, name, devices, findings);
    }
  }
  findings.details.erase("running");
  return findings;
}

}  // namespace partita
