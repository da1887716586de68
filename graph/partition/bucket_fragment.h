#pragma once

#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "graph/partition/fragment.h"

namespace partita {

// Whether a tensor's fragments have the collectives that the strategy chooses algorithms for, and
// these algorithms do them. InvalidArgument otherwise.
absl::Status CheckAlgorithms(const Tensor& tensor, const TensorFragments& fragments,
                             std::span<const AlgorithmChoice> algorithms);

// The all-reduces that a bucket joins. InvalidArgument where a step of a member is no all-reduce,
// or not of the same devices, type and reduction as the first; where other devices form the same
// sums, which must add in one order of terms.
absl::StatusOr<std::vector<BucketFragment::Member>> FindMembers(const Graph& graph,
                                                                const ChainPlaces& places,
                                                                const Bucket& bucket,
                                                                const StepFragments& step);

// The task of a bucket, with the key of the first member's. `algorithm`: the strategy's, or empty.
// InvalidArgument where that does not do it.
absl::StatusOr<BucketFragment> MakeBucketFragment(
    const std::vector<BucketFragment::Member>& members, const std::string& algorithm,
    const StepFragments& step, const PartitionOptions& options);

// The runs of a step with buckets; `runs`: those without. A bucket comes behind the fragment of its
// last member in the chain, and is followed by what its members' fragments do after their
// all-reduces. InvalidArgument where
// an operator in front of that reads a member: the bucket would wait for what waits for it.
absl::StatusOr<std::vector<TaskRun>> RunsWithBuckets(
    const Graph& graph, const ChainPlaces& places, std::span<const TaskRun> runs,
    std::span<const BucketFragment* const> buckets);

}  // namespace partita
