#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "graph/graph.h"
#include "graph/parallel/plan.h"
#include "proto/plan.pb.h"

namespace partita {

// Reading a plan takes two steps, as its strategy means something only for its training graph: read
// the message, find the model that it names (PlanModelOf), then PlanFromProto.

// Text form, see proto/plan.proto. Errors begin with `source` and the place. At most 64 MiB.
absl::StatusOr<proto::Plan> ParsePlanText(absl::string_view text, absl::string_view source);
absl::StatusOr<proto::Plan> ReadPlanFile(const std::string& path);

// The model part, its fields in range. InvalidArgument otherwise.
absl::StatusOr<PlanModel> PlanModelOf(const proto::Plan& message);

// The plan, checked against the training graph: format version, fingerprint and batch, every
// operator that has a configuration named exactly once, loops, degrees and devices valid, layouts
// that cover their weights, an order that is a permutation. InvalidArgument says what was found,
// what was wanted and what to try. Whether an order fits the task graph: see
// graph/partition/planned_step.h.
absl::StatusOr<Plan> PlanFromProto(const proto::Plan& message, const Graph& graph);

// The inverse. Precondition: the plan's strategy is valid for the graph.
proto::Plan PlanToProto(const Plan& plan, const Graph& graph);
std::string PlanText(const Plan& plan, const Graph& graph);
absl::Status WritePlanFile(const Plan& plan, const Graph& graph, const std::string& path);

// "0-7 9 8 10-63" and back. Reading accepts at most `limit` numbers, none negative.
std::string OrderText(const std::vector<int32_t>& order);
absl::StatusOr<std::vector<int32_t>> ParseOrder(absl::string_view text, int64_t limit);

}  // namespace partita
