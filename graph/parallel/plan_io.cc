#include "graph/parallel/plan_io.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/text_format.h"
#include "graph/parallel/device_ranges.h"
#include "graph/parallel/plan_collectives.h"
#include "graph/parallel/topology_io.h"
#include "graph/support/check.h"
#include "graph/support/doing.h"
#include "graph/support/error_category.h"
#include "graph/support/file.h"
#include "graph/support/status_macros.h"

namespace partita {
namespace {

constexpr int32_t kFormatVersion = 2;
constexpr int32_t kOldestVersion = 1;  // without choices for collectives
constexpr int64_t kMaxFileBytes = int64_t{64} << 20;
constexpr int64_t kMaxTasks = int64_t{1} << 24;
// Devices of all operators that ranges may stand for.
constexpr int64_t kMaxDevices = int64_t{1} << 26;

// The first error that the parser of text files reports.
class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, int column, const std::string& message) override {
    if (text.empty()) text = absl::StrCat(line + 1, ":", column + 1, ": ", message);
  }
  void AddWarning(int, int, const std::string&) override {}
  std::string text;
};

std::string FingerprintText(uint64_t fingerprint) { return absl::StrFormat("%016x", fingerprint); }

absl::StatusOr<uint64_t> ParseFingerprint(const std::string& text, absl::string_view what) {
  uint64_t value = 0;
  if (text.size() != 16 || !absl::SimpleHexAtoi(text, &value)) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, " is \"", text, "\"; wanted 16 hexadecimal digits"));
  }
  return value;
}

// ---- operators

// As ranges where these are much shorter.
void SetDevices(std::span<const DeviceId> devices, proto::OperatorPlan& message) {
  const std::vector<StridedDevices> ranges = RangesOf(devices);
  if (devices.size() <= kFewDevices || ranges.size() > devices.size() / 4) {
    for (DeviceId device : devices) message.add_devices(device.value());
    return;
  }
  for (const StridedDevices& range : ranges) {
    proto::DeviceRange& written = *message.add_range();
    written.set_first(range.first);
    written.set_last(range.last);
    if (range.step != 1) written.set_step(range.step);
  }
}

void SetOperator(const Operator& op, const ShardingRule& rule, const ParallelConfig& config,
                 proto::OperatorPlan& message) {
  message.set_name(op.name);
  for (size_t l = 0; l < rule.loops.size(); ++l) {
    if (config.degrees[l] == 1) continue;
    proto::Split& split = *message.add_split();
    split.set_loop(rule.loops[l].name);
    split.set_degree(config.degrees[l]);
  }
  message.set_replicas(config.replicas);
  SetDevices(config.devices, message);
}

std::string LoopNames(const ShardingRule& rule) {
  std::string names;
  for (const LoopDim& loop : rule.loops)
    absl::StrAppend(&names, names.empty() ? "" : ", ", loop.name);
  return names;
}

// `most`: devices that its ranges may have.
absl::StatusOr<ParallelConfig> ConfigFrom(const proto::OperatorPlan& message,
                                          const ShardingRule& rule, int devices, int64_t most) {
  ParallelConfig config;
  config.degrees.assign(rule.loops.size(), 1);
  for (const proto::Split& split : message.split()) {
    const int loop = rule.FindLoop(split.loop());
    if (loop < 0) {
      return absl::InvalidArgumentError(absl::StrCat("operator '", message.name(),
                                                     "' has no loop '", split.loop(),
                                                     "'; its loops: ", LoopNames(rule)));
    }
    config.degrees[static_cast<size_t>(loop)] = split.degree();
  }
  config.replicas = message.replicas() == 0 ? 1 : message.replicas();
  for (int32_t device : message.devices()) config.devices.push_back(DeviceId(device));
  absl::Status status;
  for (const proto::DeviceRange& range : message.range()) {
    const int32_t step = range.step() == 0 ? 1 : range.step();
    status.Update(AppendRange({range.first(), range.last(), step}, most, config.devices));
  }
  status.Update(ValidateConfig(rule, config, devices));
  if (status.ok()) return config;
  return absl::InvalidArgumentError(
      absl::StrCat("operator '", message.name(), "': ", status.message()));
}

absl::Status ReadOperators(const proto::Plan& message, const Graph& graph, int devices,
                           Strategy& strategy) {
  absl::flat_hash_map<std::string, OpId> anchors;
  for (OpId id : graph.anchors()) anchors.emplace(graph.op(id).name, id);
  strategy.configs.resize(graph.ops().size());
  int64_t left = kMaxDevices;
  for (const proto::OperatorPlan& op : message.op()) {
    const auto it = anchors.find(op.name());
    if (it == anchors.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the plan splits operator '", op.name(),
                       "', which the model does not have or which follows another one; "
                       "is the plan for another model?"));
    }
    ParallelConfig& config = strategy.configs[it->second.index()];
    if (!config.devices.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the plan has operator '", op.name(), "' twice; delete one"));
    }
    ASSIGN_OR_RETURN(config, ConfigFrom(op, graph.rule(it->second), devices, left));
    if (!op.range().empty()) left -= static_cast<int64_t>(config.devices.size());
  }
  for (OpId id : graph.anchors()) {
    if (strategy.configs[id.index()].devices.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the plan says nothing about operator '", graph.op(id).name,
                       "'; wanted op { name: \"", graph.op(id).name,
                       "\" devices: [0] } or a split of its loops ", LoopNames(graph.rule(id))));
    }
  }
  return absl::OkStatus();
}

// ---- weights

void SetLayout(const std::optional<std::vector<PlacedBox>>& layout,
               google::protobuf::RepeatedPtrField<proto::PlacedRegion>& message) {
  if (!layout) return;
  for (const PlacedBox& piece : *layout) {
    proto::PlacedRegion& region = *message.Add();
    for (int d = 0; d < piece.box.rank(); ++d) {
      region.add_lo(piece.box[d].lo);
      region.add_hi(piece.box[d].hi);
    }
    region.set_device(piece.device.value());
  }
}

absl::StatusOr<std::optional<std::vector<PlacedBox>>> LayoutFrom(
    const google::protobuf::RepeatedPtrField<proto::PlacedRegion>& message, const Tensor& tensor) {
  if (message.empty()) return std::nullopt;
  std::vector<PlacedBox> layout;
  const int rank = static_cast<int>(tensor.type.shape.size());
  for (const proto::PlacedRegion& region : message) {
    if (region.lo_size() != rank || region.hi_size() != rank) {
      return absl::InvalidArgumentError(absl::StrCat("weight '", tensor.name, "' has ", rank,
                                                     " dimensions; a region has ", region.lo_size(),
                                                     " 'lo' and ", region.hi_size(), " 'hi'"));
    }
    Box box(rank);
    for (int d = 0; d < rank; ++d) {
      for (int64_t end : {region.lo(d), region.hi(d)}) {
        if (end >= 0 && end <= kMaxExtent) continue;
        return absl::InvalidArgumentError(absl::StrCat("weight '", tensor.name, "': a region has '",
                                                       end, "'; wanted 0 to ", kMaxExtent));
      }
      box[d] = {region.lo(d), region.hi(d)};
    }
    layout.push_back({box, DeviceId(region.device())});
  }
  return layout;
}

absl::Status ReadWeights(const proto::Plan& message, const Graph& graph, Strategy& strategy) {
  absl::flat_hash_map<std::string, size_t> weights;
  for (size_t w = 0; w < graph.weights().size(); ++w) {
    weights.emplace(graph.tensor(graph.weights()[w].tensor).name, w);
  }
  strategy.weights.resize(graph.weights().size());
  std::vector<bool> seen(graph.weights().size(), false);
  for (const proto::WeightPlan& weight : message.weight()) {
    const auto it = weights.find(weight.name());
    if (it == weights.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the plan places weight '", weight.name(), "', which the model lacks"));
    }
    if (seen[it->second]) {
      return absl::InvalidArgumentError(
          absl::StrCat("the plan has weight '", weight.name(), "' twice; delete one"));
    }
    seen[it->second] = true;
    const Tensor& tensor = graph.tensor(graph.weights()[it->second].tensor);
    WeightPlacement& placement = strategy.weights[it->second];
    ASSIGN_OR_RETURN(placement.parameter, LayoutFrom(weight.parameter(), tensor));
    ASSIGN_OR_RETURN(placement.update, LayoutFrom(weight.update(), tensor));
    if (weight.has_prefetch()) placement.prefetch = weight.prefetch().distance();
  }
  return absl::OkStatus();
}

// ---- the rest

void SetSizes(const ModelSizes& sizes, proto::PlanModel& message) {
  message.set_unroll(sizes.unroll);
  message.set_size(sizes.size);
  message.set_layers(sizes.layers);
  message.set_width(sizes.width);
  message.set_heads(sizes.heads);
  message.set_sequence(sizes.sequence);
  message.set_vocabulary(sizes.vocabulary);
}

ModelSizes SizesFrom(const proto::PlanModel& message) {
  return {.unroll = message.unroll(),
          .size = message.size(),
          .layers = message.layers(),
          .width = message.width(),
          .heads = message.heads(),
          .sequence = message.sequence(),
          .vocabulary = message.vocabulary()};
}

void SetModel(const PlanModel& model, proto::PlanModel& message) {
  message.set_source(model.source);
  message.set_batch(model.batch);
  message.set_optimizer(model.optimizer);
  message.set_freeze_batch_norm(model.freeze_batch_norm);
  SetSizes(model.sizes, message);
  if (model.microbatches > 1) {
    message.set_microbatches(model.microbatches);
    message.set_in_flight(model.in_flight);
  }
  message.set_fingerprint(FingerprintText(model.fingerprint));
}

void SetPrediction(const Prediction& prediction, proto::Prediction& message) {
  message.set_time_ns(prediction.time.value());
  for (Bytes bytes : prediction.peak) message.add_peak_bytes(bytes.value());
  for (Bytes bytes : prediction.received) message.add_received_bytes(bytes.value());
  message.set_measured(prediction.measured);
  message.set_interpolated(prediction.interpolated);
  message.set_roofline(prediction.roofline);
}

Prediction PredictionFrom(const proto::Prediction& message) {
  Prediction prediction{.time = Nanos(message.time_ns()),
                        .measured = message.measured(),
                        .interpolated = message.interpolated(),
                        .roofline = message.roofline()};
  for (int64_t bytes : message.peak_bytes()) prediction.peak.push_back(Bytes(bytes));
  for (int64_t bytes : message.received_bytes()) prediction.received.push_back(Bytes(bytes));
  return prediction;
}

absl::Status CheckModel(const PlanModel& model, const Graph& graph) {
  if (model.batch != graph.batch()) {
    return absl::InvalidArgumentError(absl::StrCat("the plan is for a batch of ", model.batch,
                                                   "; the model has one of ", graph.batch(),
                                                   "; plan again with --batch ", graph.batch()));
  }
  if (model.fingerprint != graph.fingerprint()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the plan is for a training graph with fingerprint ", FingerprintText(model.fingerprint),
        "; that of '", graph.name(), "' with optimizer ", model.optimizer, " has ",
        FingerprintText(graph.fingerprint()),
        "; the model has changed: plan again, or point --model at the file it was made for"));
  }
  return absl::OkStatus();
}

// Errors: a draw that comes twice, which does nothing the first time.
absl::StatusOr<std::vector<uint32_t>> DrawsFrom(const proto::Plan& message) {
  std::vector<uint32_t> draws(message.priority_draws().begin(), message.priority_draws().end());
  std::vector<uint32_t> sorted = draws;
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice == sorted.end()) return draws;
  return absl::InvalidArgumentError(
      absl::StrCat("priority_draws: ", *twice, " comes twice; draws are different numbers"));
}

absl::StatusOr<Precision> PrecisionOf(const proto::Plan& message) {
  if (message.precision().empty()) return Precision::kFloat32;
  const std::optional<Precision> precision = PrecisionNamed(message.precision());
  if (precision.has_value()) return *precision;
  return absl::InvalidArgumentError(absl::StrCat("the plan's precision is '", message.precision(),
                                                 "'; wanted float32, tf32, float16 or bfloat16"));
}

absl::StatusOr<std::optional<PlanOrder>> OrderFrom(const proto::Plan& message) {
  if (message.order().empty()) return std::nullopt;
  PlanOrder order;
  ASSIGN_OR_RETURN(order.task_graph_fingerprint,
                   ParseFingerprint(message.task_graph_fingerprint(), "task_graph_fingerprint"));
  ASSIGN_OR_RETURN(order.tasks, ParseOrder(message.order(), kMaxTasks));
  std::vector<bool> seen(order.tasks.size(), false);
  for (int32_t task : order.tasks) {
    const auto t = static_cast<size_t>(task);
    if (t >= seen.size() || seen[t]) {
      return absl::InvalidArgumentError(
          absl::StrCat("the order of ", seen.size(), " tasks ", t < seen.size() ? "repeats" : "has",
                       " task ", task, "; wanted each of 0 .. ", seen.size() - 1,
                       " once; delete order, task_graph_fingerprint and prediction to run in the "
                       "canonical order"));
    }
    seen[t] = true;
  }
  return order;
}

}  // namespace

absl::StatusOr<proto::Plan> ParsePlanText(absl::string_view text, absl::string_view source) {
  constexpr absl::string_view kTry = "`partita plan MODEL` writes one";
  if (static_cast<int64_t>(text.size()) > kMaxFileBytes) {
    return absl::InvalidArgumentError(absl::StrCat(source, " is larger than 64 MiB; no plan is"));
  }
  if (absl::StripAsciiWhitespace(text).empty()) {
    return absl::InvalidArgumentError(absl::StrCat(source, " is empty; wanted a plan: ", kTry));
  }
  FirstError error;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  parser.SetRecursionLimit(20);
  proto::Plan message;
  if (!parser.ParseFromString(std::string(text), &message)) {
    return absl::InvalidArgumentError(absl::StrCat(
        source, ":", error.text, "; wanted a plan in text form (proto/plan.proto): ", kTry));
  }
  if (message.format_version() < kOldestVersion || message.format_version() > kFormatVersion) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, " has format_version ", message.format_version(), "; wanted ",
                     kOldestVersion, " to ", kFormatVersion, ": ", kTry));
  }
  if (!message.partition().algorithm().empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        source, " names one algorithm for all collectives, '", message.partition().algorithm(),
        "', as plans of format_version 1 could; wanted it for each: delete partition's algorithm, "
        "order, task_graph_fingerprint and prediction to run by those that suit the sizes, or plan "
        "again: ",
        kTry));
  }
  return message;
}

absl::StatusOr<proto::Plan> ReadPlanFile(const std::string& path) {
  const Doing doing("reading plan", path);
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxFileBytes));
  return ParsePlanText(text, path);
}

absl::StatusOr<PlanModel> PlanModelOf(const proto::Plan& message) {
  const proto::PlanModel& m = message.model();
  PlanModel model{.source = m.source(),
                  .batch = m.batch(),
                  .optimizer = m.optimizer(),
                  .freeze_batch_norm = m.freeze_batch_norm(),
                  .sizes = SizesFrom(m)};
  if (m.microbatches() > 1) {
    model.microbatches = m.microbatches();
    model.in_flight = m.in_flight();
  }
  if (m.microbatches() < 0 || m.in_flight() < 0 || model.batch % model.microbatches != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the plan has a batch of ", model.batch, " in ", m.microbatches(), " microbatches, ",
        m.in_flight(), " of them in flight; wanted a number that divides the batch"));
  }
  if (model.source.empty() || model.batch < 1 || model.optimizer.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the plan does not say what it is for: source \"", model.source, "\", batch ",
                     model.batch, ", optimizer \"", model.optimizer, "\""));
  }
  ASSIGN_OR_RETURN(model.fingerprint, ParseFingerprint(m.fingerprint(), "the model's fingerprint"));
  return model;
}

absl::StatusOr<Plan> PlanFromProto(const proto::Plan& message, const Graph& graph) {
  Plan plan;
  ASSIGN_OR_RETURN(plan.model, PlanModelOf(message));
  RETURN_IF_ERROR(CheckModel(plan.model, graph));
  ASSIGN_OR_RETURN(plan.topology, TopologyFromProto(message.topology()));
  RETURN_IF_ERROR(ReadOperators(message, graph, plan.topology.size(), plan.strategy));
  RETURN_IF_ERROR(ReadWeights(message, graph, plan.strategy));
  RETURN_IF_ERROR(ReadCollectives(message, graph, plan.strategy));
  plan.strategy.host_device = DeviceId(message.host_device());
  RETURN_IF_ERROR(ValidateStrategy(graph, plan.strategy, plan.topology.size()));
  plan.choices = {.collectives = !message.partition().point_to_point(),
                  .direct_bytes = message.partition().direct_bytes(),
                  .fuse = !message.partition().no_fusion(),
                  .native_formats = message.partition().native_formats(),
                  .nondeterministic = message.partition().nondeterministic()};
  ASSIGN_OR_RETURN(plan.order, OrderFrom(message));
  plan.priority = message.priority();
  ASSIGN_OR_RETURN(plan.priority_draws, DrawsFrom(message));
  if (message.has_prediction()) plan.prediction = PredictionFrom(message.prediction());
  ASSIGN_OR_RETURN(plan.choices.precision, PrecisionOf(message));
  const auto& others = message.partition().float32_classes();
  plan.choices.float32_classes.assign(others.begin(), others.end());
  const proto::Provenance& p = message.provenance();
  plan.provenance = {.program_version = p.program_version(),
                     .search = p.search(),
                     .machine = p.machine(),
                     .seed = p.seed(),
                     .evaluations = p.evaluations(),
                     .options = {p.options().begin(), p.options().end()}};
  return plan;
}

proto::Plan PlanToProto(const Plan& plan, const Graph& graph) {
  proto::Plan message;
  message.set_format_version(kFormatVersion);
  SetModel(plan.model, *message.mutable_model());
  for (OpId id : graph.anchors()) {
    SetOperator(graph.op(id), graph.rule(id), plan.strategy.configs[id.index()], *message.add_op());
  }
  for (size_t w = 0; w < plan.strategy.weights.size(); ++w) {
    const WeightPlacement& placement = plan.strategy.weights[w];
    if (placement == WeightPlacement()) continue;
    proto::WeightPlan& weight = *message.add_weight();
    weight.set_name(graph.tensor(graph.weights()[w].tensor).name);
    SetLayout(placement.parameter, *weight.mutable_parameter());
    SetLayout(placement.update, *weight.mutable_update());
    if (placement.prefetch) weight.mutable_prefetch()->set_distance(*placement.prefetch);
  }
  SetCollectives(graph, plan.strategy, message);
  message.set_host_device(plan.strategy.host_device.value());
  proto::PartitionChoices& choices = *message.mutable_partition();
  choices.set_point_to_point(!plan.choices.collectives);
  choices.set_direct_bytes(plan.choices.direct_bytes);
  choices.set_no_fusion(!plan.choices.fuse);
  choices.set_native_formats(plan.choices.native_formats);
  choices.set_nondeterministic(plan.choices.nondeterministic);
  for (const std::string& name : plan.choices.float32_classes) choices.add_float32_classes(name);
  *message.mutable_topology() = TopologyToProto(plan.topology);
  message.set_priority(plan.priority);
  message.mutable_priority_draws()->Assign(plan.priority_draws.begin(), plan.priority_draws.end());
  if (plan.order) {
    message.set_order(OrderText(plan.order->tasks));
    message.set_task_graph_fingerprint(FingerprintText(plan.order->task_graph_fingerprint));
  }
  if (plan.prediction) SetPrediction(*plan.prediction, *message.mutable_prediction());
  if (plan.choices.precision != Precision::kFloat32) {
    message.set_precision(RowOf(plan.choices.precision).name);
  }
  proto::Provenance& provenance = *message.mutable_provenance();
  provenance.set_program_version(plan.provenance.program_version);
  provenance.set_search(plan.provenance.search);
  provenance.set_machine(plan.provenance.machine);
  provenance.set_seed(plan.provenance.seed);
  provenance.set_evaluations(plan.provenance.evaluations);
  for (const std::string& option : plan.provenance.options) provenance.add_options(option);
  return message;
}

namespace {

std::string TextOf(const proto::Plan& message) {
  google::protobuf::TextFormat::Printer printer;
  printer.SetUseShortRepeatedPrimitives(true);
  std::string text;
  CHECK(printer.PrintToString(message, &text));
  return absl::StrCat(
      "# A plan of Partita (proto/plan.proto). To edit it, delete order, task_graph_fingerprint and"
      " prediction, and with other splits algorithm and bucket.\n",
      text);
}

// A model's path from the folder of a plan; empty for names of the zoo, and where the plan is no
// file that can move. The system's error where it does not tell.
absl::StatusOr<std::string> FromFolderOf(const std::string& plan, const std::string& model) {
  std::error_code error;
  const bool names_file = model.find_first_of("./") != std::string::npos;
  if (!names_file || !std::filesystem::is_regular_file(model, error)) return std::string();
  const auto type = std::filesystem::status(plan, error).type();
  if (type != std::filesystem::file_type::regular &&
      type != std::filesystem::file_type::not_found) {
    return std::string();
  }
  std::filesystem::path folder = std::filesystem::path(plan).parent_path();
  if (folder.empty()) folder = ".";
  const auto path = std::filesystem::relative(model, folder, error);
  if (error) {
    errno = error.value();
    return FileError("find", model);
  }
  return path.string();
}

// Whether a plan that is written can be read again.
absl::Status CheckReadable(const Plan& plan, const std::string& text) {
  int64_t devices = 0;
  for (const ParallelConfig& config : plan.strategy.configs) {
    devices += static_cast<int64_t>(config.devices.size());
  }
  const auto choices = static_cast<int64_t>(plan.strategy.algorithms.size());
  if (static_cast<int64_t>(text.size()) <= kMaxFileBytes && devices <= kMaxDevices &&
      choices <= kMostChoices) {
    return absl::OkStatus();
  }
  return MemoryError(
      absl::StrCat("the plan for ", plan.topology.size(), " devices has ", text.size() >> 20,
                   " MiB of text, ", devices, " parts of operators and ", choices,
                   " collectives; files of at most ", kMaxFileBytes >> 20, " MiB, ", kMaxDevices,
                   " and ", kMostChoices, " are read. Try fewer devices"));
}

}  // namespace

std::string PlanText(const Plan& plan, const Graph& graph) {
  return TextOf(PlanToProto(plan, graph));
}

absl::Status WritePlanFile(const Plan& plan, const Graph& graph, const std::string& path) {
  const Doing doing("writing plan", path);
  proto::Plan message = PlanToProto(plan, graph);
  ASSIGN_OR_RETURN(*message.mutable_model()->mutable_source_from_plan(),
                   FromFolderOf(path, plan.model.source));
  const std::string text = TextOf(message);
  RETURN_IF_ERROR(CheckReadable(plan, text));
  return WriteFileAtomically(path, text);
}

std::string OrderText(const std::vector<int32_t>& order) {
  std::string text;
  for (size_t i = 0; i < order.size();) {
    size_t last = i;
    while (last + 1 < order.size() && order[last + 1] == order[last] + 1) ++last;
    absl::StrAppend(&text, text.empty() ? "" : " ", order[i]);
    if (last > i) absl::StrAppend(&text, "-", order[last]);
    i = last + 1;
  }
  return text;
}

absl::StatusOr<std::vector<int32_t>> ParseOrder(absl::string_view text, int64_t limit) {
  std::vector<int32_t> order;
  for (absl::string_view run : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> ends =
        absl::StrSplit(run, absl::MaxSplits('-', 1));
    int32_t first = 0, last = 0;
    const bool is_run = absl::StrContains(run, '-');
    if (!absl::SimpleAtoi(ends.first, &first) || first < 0 ||
        !absl::SimpleAtoi(is_run ? ends.second : ends.first, &last) || last < first) {
      return absl::InvalidArgumentError(
          absl::StrCat("order: found \"", run.substr(0, 40), "\"; wanted a task or a run 4-9"));
    }
    if (static_cast<int64_t>(order.size()) + last - first + 1 > limit) {
      return absl::InvalidArgumentError(absl::StrCat("order: more than ", limit, " tasks"));
    }
    for (int64_t task = first; task <= last; ++task) order.push_back(static_cast<int32_t>(task));
  }
  return order;
}

}  // namespace partita
