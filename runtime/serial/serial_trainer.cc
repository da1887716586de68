#include "runtime/serial/serial_trainer.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "graph/initial_values.h"
#include "graph/part_view.h"
#include "graph/support/error_category.h"
#include "graph/support/fingerprint.h"
#include "graph/support/status_macros.h"
#include "graph/support/stop_flag.h"
#include "runtime/backend/reference/kernels.h"

namespace partita {
namespace {

// Converts numbers into the elements of a tensor.
template <class From>
void Convert(std::span<const From> from, DenseTensor& to) {
  auto store = [&](auto elements) {
    using T = typename decltype(elements)::value_type;
    std::transform(from.begin(), from.end(), elements.begin(), [](From x) { return T(x); });
  };
  switch (to.type.dtype) {
    case DType::kFloat32:
      return store(to.as<float>());
    case DType::kFloat64:
      return store(to.as<double>());
    case DType::kInt32:
      return store(to.as<int32_t>());
    case DType::kRing64:
      return store(to.as<int64_t>());
  }
}

// A seed is 1 in every arithmetic.
void SetToOne(DenseTensor& tensor) {
  const std::vector<float> ones(static_cast<size_t>(Volume(tensor.type.shape)), 1.0f);
  Convert<float>(ones, tensor);
}

bool IsComputed(TensorKind kind) {
  return kind == TensorKind::kActivation || kind == TensorKind::kNext;
}

}  // namespace

SerialTrainer::SerialTrainer(const Graph& graph, uint64_t seed) : graph_(graph) {
  for (const Tensor& tensor : graph_.tensors()) {
    values_.emplace_back(tensor.type);
    if (tensor.kind == TensorKind::kSeed) SetToOne(values_.back());
  }
  for (const Weight& weight : graph_.weights()) {
    DenseTensor& value = values_[weight.tensor.index()];
    if (value.type.dtype == DType::kRing64) continue;
    Convert<float>(InitialValues(graph_.tensor(weight.tensor), weight, seed), value);
  }
  for (const Operator& op : graph_.ops()) launches_.push_back(MakeLaunch(op));
}

SerialTrainer::Launch SerialTrainer::MakeLaunch(const Operator& op) const {
  const Operator& forward = graph_.op(op.forward);
  const PartView whole =
      ViewWhole(graph_.rule(forward.id), graph_.InputShapes(forward), graph_.OutputShapes(forward));
  const PartView view =
      ViewWhole(graph_.rule(op.id), graph_.InputShapes(op), graph_.OutputShapes(op));
  Launch launch{.signature = {.attrs = Localize(op.attrs, whole), .pass = op.pass},
                .operator_key = FingerprintOf(forward.name)};
  for (size_t k = 0; k < op.inputs.size(); ++k) {
    const Box& box = view.operands[k].box;
    launch.inputs.push_back(box);
    launch.signature.inputs.push_back(
        {.type = {graph_.tensor(op.inputs[k]).type.dtype, box.shape()}});
  }
  for (size_t k = 0; k < op.outputs.size(); ++k) {
    const Box& box = view.results[k].box;
    launch.outputs.push_back(box);
    launch.signature.outputs.push_back(
        {.type = {graph_.tensor(op.outputs[k]).type.dtype, box.shape()}});
  }
  return launch;
}

absl::StatusOr<TensorId> SerialTrainer::Find(absl::string_view name) const {
  for (const Tensor& tensor : graph_.tensors()) {
    if (tensor.name == name) return tensor.id;
  }
  return absl::NotFoundError(absl::StrCat("graph ", graph_.name(), " has no tensor '", name, "'"));
}

absl::Status SerialTrainer::Set(TensorId id, std::span<const float> values) {
  const TensorType& type = graph_.tensor(id).type;
  if (static_cast<int64_t>(values.size()) != Volume(type.shape)) {
    return absl::InvalidArgumentError(absl::StrCat("tensor '", graph_.tensor(id).name, "' is ",
                                                   ToString(type), "; found ", values.size(),
                                                   " values"));
  }
  Convert<float>(values, values_[id.index()]);
  return absl::OkStatus();
}

std::vector<double> SerialTrainer::Get(TensorId id) const {
  const DenseTensor& tensor = value(id);
  auto numbers = [](auto elements) {
    return std::vector<double>(elements.begin(), elements.end());
  };
  switch (tensor.type.dtype) {
    case DType::kFloat32:
      return numbers(tensor.as<float>());
    case DType::kFloat64:
      return numbers(tensor.as<double>());
    case DType::kInt32:
      return numbers(tensor.as<int32_t>());
    case DType::kRing64:
      return numbers(tensor.as<int64_t>());
  }
  return {};
}

void SerialTrainer::RandomizeRing(uint64_t seed) {
  for (const Tensor& tensor : graph_.tensors()) {
    DenseTensor& value = values_[tensor.id.index()];
    uint64_t word = Fingerprint().Add(seed).Add(tensor.name).value();
    const bool input = tensor.kind == TensorKind::kInput || tensor.kind == TensorKind::kLabels;
    if (input && tensor.type.dtype == DType::kInt32) {
      const auto limit = static_cast<uint64_t>(graph_.IndexLimitOf(tensor.id));
      for (int32_t& x : value.as<int32_t>()) x = static_cast<int32_t>(Mix64(word++) % limit);
    } else if (tensor.kind == TensorKind::kInput || tensor.kind == TensorKind::kWeight ||
               tensor.kind == TensorKind::kState) {
      CHECK(tensor.type.dtype == DType::kRing64) << tensor.name;
      for (uint64_t& x : value.as<uint64_t>()) x = Mix64(word++);
    }
  }
}

// A tensor with one producer that covers it is written directly, any other is the sum of what its
// producers write.
absl::Status SerialTrainer::Run(const Operator& op, const Launch& launch,
                                const StepArguments& arguments) {
  std::vector<DenseTensor> pieces;
  pieces.reserve(op.inputs.size() + op.outputs.size());
  std::vector<TensorArgument> inputs, outputs;
  for (size_t k = 0; k < op.inputs.size(); ++k) {
    DenseTensor* source = &values_[op.inputs[k].index()];
    const Shape global = source->type.shape;
    if (launch.inputs[k] != Box::Full(global)) {
      source = &pieces.emplace_back(SliceOf(*source, launch.inputs[k]));
    }
    inputs.push_back({source->bytes.data(), launch.inputs[k], global});
  }
  std::vector<DenseTensor*> terms(op.outputs.size(), nullptr);  // to be added afterwards
  for (size_t k = 0; k < op.outputs.size(); ++k) {
    DenseTensor* target = &values_[op.outputs[k].index()];
    const Shape global = target->type.shape;
    if (graph_.producers(op.outputs[k]).size() > 1 || launch.outputs[k] != Box::Full(global)) {
      target = terms[k] =
          &pieces.emplace_back(TensorType{target->type.dtype, launch.outputs[k].shape()});
    }
    outputs.push_back({target->bytes.data(), launch.outputs[k], global});
  }
  RETURN_IF_ERROR(RunReferenceKernel(launch.signature, {.inputs = inputs,
                                                        .outputs = outputs,
                                                        .step = arguments,
                                                        .operator_key = launch.operator_key}));
  for (size_t k = 0; k < op.outputs.size(); ++k) {
    if (terms[k] == nullptr) continue;
    AddInto(values_[op.outputs[k].index()], launch.outputs[k], *terms[k]);
  }
  return absl::OkStatus();
}

absl::Status SerialTrainer::Step(const StepArguments& arguments) {
  for (const Tensor& tensor : graph_.tensors()) {
    std::vector<std::byte>& bytes = values_[tensor.id.index()].bytes;
    if (IsComputed(tensor.kind)) std::fill(bytes.begin(), bytes.end(), std::byte{0});
  }
  for (const Operator& op : graph_.ops()) {
    if (IsSet(stop_)) {
      return InterruptedError(absl::StrCat("interrupted before operator '", op.name, "'"));
    }
    absl::Status status = Run(op, launches_[op.id.index()], arguments);
    if (!status.ok()) {
      return WithMessage(status, absl::StrCat("operator '", op.name, "': ", status.message()));
    }
  }
  for (const Tensor& tensor : graph_.tensors()) {
    if (tensor.kind != TensorKind::kNext) continue;
    values_[tensor.of.index()].bytes = values_[tensor.id.index()].bytes;
  }
  return absl::OkStatus();
}

absl::Status SerialTrainer::SetBatch(std::span<const float> x, std::span<const int32_t> labels) {
  const auto volume_of = [&](TensorId id) {
    return static_cast<size_t>(Volume(graph_.tensor(id).type.shape));
  };
  for (TensorRole role : {TensorRole::kSamples, TensorRole::kLabels}) {
    size_t wanted = 0;
    for (TensorId id : graph_.tensors(role)) wanted += volume_of(id);
    const size_t found = role == TensorRole::kSamples ? x.size() : labels.size();
    if (found == wanted || graph_.tensors(role).empty()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("found ", found, role == TensorRole::kSamples ? " values" : " labels", " for ",
                     ToString(graph_.WholeType(role))));
  }
  for (TensorId id : graph_.tensors(TensorRole::kSamples)) {
    RETURN_IF_ERROR(Set(id, x.first(volume_of(id))));
    x = x.subspan(volume_of(id));
  }
  for (TensorId id : graph_.tensors(TensorRole::kLabels)) {
    std::copy_n(labels.begin(), volume_of(id), values_[id.index()].as<int32_t>().begin());
    labels = labels.subspan(volume_of(id));
  }
  return absl::OkStatus();
}

std::vector<std::byte> SerialTrainer::BatchOf(TensorRole role) const {
  std::vector<std::byte> bytes;
  for (TensorId id : graph_.tensors(role)) {
    const std::vector<std::byte>& part = value(id).bytes;
    bytes.insert(bytes.end(), part.begin(), part.end());
  }
  return bytes;
}

absl::StatusOr<double> SerialTrainer::Step(std::span<const float> x,
                                           std::span<const int32_t> labels,
                                           const StepArguments& arguments) {
  if (!graph_.is_training()) {
    return absl::InvalidArgumentError(
        absl::StrCat("graph ", graph_.name(), " is not a training graph"));
  }
  RETURN_IF_ERROR(SetBatch(x, labels));
  RETURN_IF_ERROR(Step(arguments));
  return loss();
}

}  // namespace partita
