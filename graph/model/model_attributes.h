#pragma once

#include "absl/status/statusor.h"
#include "graph/ops/ops.h"
#include "proto/model.pb.h"

namespace partita {

// Version of the file format that is written, and the only one that is read.
inline constexpr int kModelFormatVersion = 2;

// Operator attributes in the file format: a kind and named values, as the row's VisitFields lists
// them (graph/ops/fields.h).
void WriteAttrs(const OpAttrs& attrs, proto::ModelOperator& to);

// Fields that are not given keep their defaults. InvalidArgument for names that are no field and
// for values of the wrong type or size, NotFound for an unknown kind.
absl::StatusOr<OpAttrs> ReadAttrs(const proto::ModelOperator& from);

}  // namespace partita
