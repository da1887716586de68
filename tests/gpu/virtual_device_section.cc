#include <memory>

#include "graph/support/status_macros.h"
#include "runtime/backend/backends.h"
#include "tests/gpu/plans_on_devices.h"
#include "tests/gpu/sections.h"

namespace partita {

absl::StatusOr<SectionFindings> CheckVirtualDevices(const SuiteOptions& options) {
  ASSIGN_OR_RETURN(const std::shared_ptr<const Backend> backend, MakeBackend(options.backend));
  return CheckPlans(
      options, {[&](int count) { return VirtualDevices(backend, count); }, options.random_plans});
}

absl::StatusOr<SectionFindings> CheckMixedDevices(const SuiteOptions& options) {
  ASSIGN_OR_RETURN(const std::shared_ptr<const Backend> backend, MakeBackend(options.backend));
  ASSIGN_OR_RETURN(const std::shared_ptr<const Backend> cores, MakeBackend("reference"));
  return CheckPlans(options, {[&](int count) {
                                std::vector<PlacedDevice> devices = VirtualDevices(backend, count);
                                for (size_t d = 1; d < devices.size(); d += 2)
                                  devices[d].backend = cores;
                                return devices;
                              },
                              options.other_plans()});
}

}  // namespace partita
