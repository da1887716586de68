#include "tests/graph/partition/random_exchange.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <set>

#include "absl/strings/str_cat.h"
#include "graph/collective/algorithms.h"
#include "graph/partition/join_terms.h"
#include "graph/partition/step_communication.h"
#include "graph/support/status_macros.h"
#include "tests/testing/task_interpreter.h"

namespace partita {
namespace {

class Generator {
 public:
  explicit Generator(std::mt19937_64& random) : random_(random) {}

  ExchangeCase Run() {
    const int rank = Below(5);
    for (int d = 0; d < rank; ++d) c_.shape.push_back(1 + Below(rank > 2 ? 5 : 9));
    c_.devices = 1 + Below(Chance(15) ? 9 : 5);
    for (int d = 0; d < c_.devices; ++d) order_.push_back(DeviceId(d));
    std::shuffle(order_.begin(), order_.end(), random_);
    if (Chance(10) && rank >= 2) {
      AddResharding();
    } else {
      if (Chance(60)) {
        AddRegularPieces();
      } else {
        AddRandomPieces();
      }
      AddDemands();
    }
    AddOptions();
    MarkPersistent();
    return std::move(c_);
  }

 private:
  int Below(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }
  bool Chance(int percent) { return Below(100) < percent; }
  DeviceId AnyDevice() { return DeviceId(Below(c_.devices)); }
  DeviceId DeviceOf(int part) { return order_[static_cast<size_t>(part) % order_.size()]; }

  Box RandomBox(bool may_be_empty) {
    Box box(static_cast<int>(c_.shape.size()));
    for (int d = 0; d < box.rank(); ++d) {
      const auto n = static_cast<int>(c_.shape[static_cast<size_t>(d)]);
      const int lo = Below(n);
      box[d] = {lo, lo + (may_be_empty ? Below(n - lo + 1) : 1 + Below(n - lo))};
    }
    return box;
  }

  // The blocks of a random grid, perhaps with halos that overlap.
  std::vector<Box> RandomGrid(int most, bool halos) {
    std::vector<Box> boxes = {Box::Full(c_.shape)};
    const int64_t halo = halos ? Below(3) : 0;
    int left = most;
    for (int d = 0; d < static_cast<int>(c_.shape.size()); ++d) {
      const auto n = static_cast<int>(c_.shape[static_cast<size_t>(d)]);
      const int degree = 1 + (Chance(50) ? 0 : Below(std::min(n, left)));
      left = std::max(1, left / degree);
      std::vector<Box> next;
      for (const Box& box : boxes) {
        for (int k = 0; k < degree; ++k) {
          next.push_back(box);
          const Interval block = BlockOf(n, degree, k);
          next.back()[d] = {std::max<int64_t>(0, block.lo - halo),
                            std::min<int64_t>(n, block.hi + halo)};
        }
      }
      boxes = std::move(next);
    }
    return boxes;
  }

  // One operator's results: blocks x summed parts x replicas.
  void AddRegularPieces() {
    const int producers = Chance(20) ? 2 : 1;
    int term = 0;
    for (int producer = 0; producer < producers; ++producer) {
      const std::vector<Box> boxes = RandomGrid(c_.devices, Chance(30));
      const int summed = Chance(50) ? 1 + Below(c_.devices) : 1;
      const int replicas = Chance(25) ? 1 + Below(3) : 1;
      const bool in_turn = Chance(60);
      int part = 0;
      for (int r = 0; r < replicas; ++r) {
        for (size_t b = 0; b < boxes.size(); ++b) {
          for (int s = 0; s < summed; ++s, ++part) {
            c_.pieces.push_back({boxes[b], in_turn ? DeviceOf(part) : AnyDevice(),
                                 term + static_cast<int>(b) * summed + s});
          }
        }
      }
      term += static_cast<int>(boxes.size()) * summed;
    }
  }

  void AddRandomPieces() {
    const int terms = 1 + Below(4);
    const int count = Below(9);
    for (int i = 0; i < count; ++i) {
      c_.pieces.push_back({RandomBox(Chance(10)), AnyDevice(), Below(terms)});
    }
  }

  // Split along one dimension, wanted along another.
  void AddResharding() {
    c_.devices = 3 + Below(4);
    const int rank = static_cast<int>(c_.shape.size());
    const int from = Below(rank), to = (from + 1 + Below(rank - 1)) % rank;
    for (int d : {from, to}) c_.shape[static_cast<size_t>(d)] = c_.devices + Below(3);
    std::vector<int> devices;
    for (int k = 0; k < c_.devices; ++k) devices.push_back(k);
    std::shuffle(devices.begin(), devices.end(), random_);
    for (int k = 0; k < c_.devices; ++k) {
      Box piece = Box::Full(c_.shape), demand = piece;
      piece[from] = BlockOf(piece[from].hi, c_.devices, k);
      demand[to] = BlockOf(demand[to].hi, c_.devices, k);
      c_.pieces.push_back({piece, DeviceId(devices[static_cast<size_t>(k)]), k});
      c_.demands.push_back({demand, DeviceId(Chance(90) ? k : Below(c_.devices))});
    }
  }

  void AddDemands() {
    std::set<std::pair<Box, DeviceId>> seen;  // the caller gives each box and device once
    auto add = [&](const Box& box, DeviceId device) {
      if (seen.insert({box, device}).second) c_.demands.push_back({box, device});
    };
    const int kind = Below(4);
    if (kind == 0) {
      for (const Piece& piece : c_.pieces) add(piece.box, piece.device);
    } else if (kind == 1) {
      const Box box = Chance(70) ? Box::Full(c_.shape) : RandomBox(false);
      for (int d = 0; d < c_.devices; ++d) {
        if (Chance(90)) add(box, DeviceId(d));
      }
    } else if (kind == 2) {
      const bool halos = Chance(40);
      int part = 0;
      for (const Box& box : RandomGrid(c_.devices, halos)) add(box, DeviceOf(part++));
    }
    const int extra = kind == 3 ? 1 + Below(6) : Below(3);
    for (int i = 0; i < extra; ++i) add(RandomBox(Chance(15)), AnyDevice());
  }

  void AddOptions() {
    const auto algorithms = CollectiveAlgorithms();
    c_.options.exchange.collectives = Chance(75);
    if (Chance(70)) {
      c_.algorithm = std::string(
          algorithms[static_cast<size_t>(Below(static_cast<int>(algorithms.size())))].name);
      c_.options.algorithm = AlwaysBy(c_.algorithm);
    }
    const int dtype = Below(10);
    c_.dtype = dtype == 0 ? DType::kInt32 : DType::kRing64;
    if (Chance(20)) c_.options.exchange.reduction = Reduction::kMax;
    if (Chance(40)) c_.options.exchange.direct_elements = int64_t{1} << Below(8);
  }

  // One term: pieces may be weights, and demands the persistent pieces of the next value.
  void MarkPersistent() {
    std::set<int32_t> terms;
    for (const Piece& piece : c_.pieces) terms.insert(piece.term);
    const bool next = terms.size() == 1 && Chance(40);
    for (size_t p = 0; p < c_.pieces.size(); ++p) c_.persistent.push_back(!next && Chance(15));
    for (const Demand& demand : c_.demands) {
      int preset = -1;
      if (next) {
        preset = -2;
        for (size_t p = 0; p < c_.pieces.size(); ++p) {
          if (c_.pieces[p].box == demand.box && c_.pieces[p].device == demand.device) {
            preset = static_cast<int>(p);
          }
        }
      }
      c_.preset.push_back(demand.box.empty() ? -1 : preset);
    }
  }

  std::mt19937_64& random_;
  ExchangeCase c_;
  std::vector<DeviceId> order_;
};

DenseTensor RandomValues(const TensorType& type, std::mt19937_64& random) {
  DenseTensor value(type);
  if (type.dtype == DType::kFloat32) {
    // Sums of these round, almost always otherwise in another order.
    for (float& x : value.as<float>()) x = std::ldexp(1.f, static_cast<int>(random() % 5)) / 3.f;
    for (float& x : value.as<float>()) x *= 1 + static_cast<float>(random() % 1000) / 997.f;
  } else if (type.dtype == DType::kInt32) {
    for (int32_t& x : value.as<int32_t>()) x = static_cast<int32_t>(random() % 2000) - 1000;
  } else {
    for (uint64_t& x : value.as<uint64_t>()) x = random();
  }
  return value;
}

// Bit for bit.
std::vector<int64_t> AsIntegers(const DenseTensor& tensor) {
  std::vector<int64_t> values;
  if (SizeOf(tensor.type.dtype) == sizeof(int32_t)) {
    for (int32_t x : tensor.as<int32_t>()) values.push_back(x);
  } else {
    for (int64_t x : tensor.as<int64_t>()) values.push_back(x);
  }
  return values;
}

// The definition, for one demand.
std::vector<int64_t> Expected(const ExchangeCase& c, const std::map<int32_t, DenseTensor>& terms,
                              const Demand& demand) {
  const auto size = static_cast<size_t>(demand.box.volume());
  std::vector<int64_t> total(size, 0);
  std::vector<bool> covered(size, false);
  for (const auto& [term, value] : terms) {
    const std::vector<int64_t> wanted = AsIntegers(SliceOf(value, demand.box));
    DenseTensor mask({DType::kInt32, c.shape});
    for (const Piece& piece : c.pieces) {
      if (piece.term != term || piece.box.empty()) continue;
      DenseTensor ones({DType::kInt32, piece.box.shape()});
      for (int32_t& x : ones.as<int32_t>()) x = 1;
      AddInto(mask, piece.box, ones);
    }
    const std::vector<int64_t> holds = AsIntegers(SliceOf(mask, demand.box));
    for (size_t i = 0; i < size; ++i) {
      if (holds[i] == 0) continue;
      if (c.options.exchange.reduction == Reduction::kSum || !covered[i]) {
        total[i] = static_cast<int64_t>(static_cast<uint64_t>(total[i]) +
                                        static_cast<uint64_t>(wanted[i]));
      } else {
        total[i] = std::max(total[i], wanted[i]);
      }
      covered[i] = true;
    }
  }
  return total;
}

std::string PatternOf(const TaskBody& body) {
  if (std::holds_alternative<TransferTask>(body)) return "transfers";
  const auto* task = std::get_if<CollectiveTask>(&body);
  if (task == nullptr) return "";
  const bool rooted = RootOf(task->collective).has_value();
  if (rooted && task->collective.kind == CollectiveKind::kAllGather) return "broadcast";
  if (rooted && task->collective.kind == CollectiveKind::kReduceScatter) return "reduce";
  return Name(task->collective.kind);
}

// A case with buffers and tasks.
class Check {
 public:
  Check(const ExchangeCase& c, std::mt19937_64& random) : c_(c), random_(random) {
    for (const Piece& piece : c.pieces) {
      terms_.try_emplace(piece.term, DenseTensor());
    }
    for (auto& [term, value] : terms_) value = RandomValues({c.dtype, c.shape}, random);
  }

  absl::StatusOr<ExchangeOutcome> Run() {
    const TaskGraph graph = MakeTasks();
    TaskInterpreter run(nullptr, graph);
    for (const auto& [term, value] : terms_) run.SetInput(TensorId(term), value);
    RETURN_IF_ERROR(run.RunStep({}));
    RETURN_IF_ERROR(Compare(graph, run, "in canonical order"));
    for (int i = 1; i <= 3; ++i) {
      RETURN_IF_ERROR(run.RunStep({.step = i}, RandomOrder(graph, random_)));
      RETURN_IF_ERROR(Compare(graph, run, "in a random order"));
    }
    ExchangeOutcome outcome{graph, {}};
    for (const Task& task : graph.tasks()) {
      const std::string pattern = PatternOf(task.body);
      if (!pattern.empty()) ++outcome.patterns[pattern];
    }
    return outcome;
  }

  absl::Status RunFloat() {
    const TaskGraph graph = MakeTasks();
    TaskInterpreter run(nullptr, graph);
    for (const auto& [term, value] : terms_) run.SetInput(TensorId(term), value);
    RETURN_IF_ERROR(run.RunStep({}));
    DenseTensor whole({c_.dtype, c_.shape});  // the first copy of each element
    std::vector<Box> known;
    for (size_t j = 0; j < c_.demands.size(); ++j) {
      const Box& box = c_.demands[j].box;
      if (box.empty()) continue;
      const DenseTensor found = ValueOf(run, graph.buffer(x_.demand_buffers[j]));
      for (const Box& before : known) {
        const std::optional<Box> common = Intersect(before, box);
        if (!common.has_value() || common->empty()) continue;
        DenseTensor placed({c_.dtype, c_.shape});
        AddInto(placed, box, found);
        if (AsIntegers(SliceOf(placed, *common)) == AsIntegers(SliceOf(whole, *common))) continue;
        return absl::DataLossError(
            absl::StrCat("demand ", j, " differs from an earlier one in ", ToString(*common)));
      }
      for (const Box& rest : Uncovered(box, known)) {
        DenseTensor placed({c_.dtype, c_.shape});
        AddInto(placed, box, found);
        AddInto(whole, rest, SliceOf(placed, rest));
      }
      known.push_back(box);
    }
    return absl::OkStatus();
  }

 private:
  static DenseTensor ValueOf(const TaskInterpreter& run, const Buffer& buffer) {
    DenseTensor found({buffer.dtype, buffer.shape()});
    std::copy_n(run.bytes(buffer.id).begin(), found.bytes.size(), found.bytes.begin());
    return found;
  }

  TaskGraph MakeTasks() {
    TaskGraphBuilder builder(c_.devices);
    x_ = {.tensor = TensorId(1000), .dtype = c_.dtype, .pieces = c_.pieces, .demands = c_.demands};
    for (size_t p = 0; p < c_.pieces.size(); ++p) {
      const Piece& piece = c_.pieces[p];
      const BufferKind kind = c_.persistent[p] ? BufferKind::kWeight : BufferKind::kActivation;
      const BufferId id = builder.AddBuffer({.device = piece.device,
                                             .kind = kind,
                                             .tensor = TensorId(piece.term),
                                             .dtype = c_.dtype,
                                             .box = piece.box});
      x_.piece_buffers.push_back(id);
      if (c_.pieces.size() % 2 == 1) {
        x_.piece_microbatches.push_back(static_cast<int32_t>(piece.term % 3));
      }
      builder.AddTask({true, static_cast<int32_t>(piece.term), 0, TaskKey::Phase::kLoad,
                       piece.device.value(), static_cast<int32_t>(p)},
                      LoadTask{piece.device, id});
    }
    for (size_t j = 0; j < c_.demands.size(); ++j) {
      BufferId id = kNoBuffer;
      if (c_.preset[j] >= 0) id = x_.piece_buffers[static_cast<size_t>(c_.preset[j])];
      if (c_.preset[j] == -2) {
        id = builder.AddBuffer({.device = c_.demands[j].device,
                                .kind = BufferKind::kWeight,
                                .tensor = TensorId(1000),
                                .dtype = c_.dtype,
                                .box = c_.demands[j].box});
      }
      x_.demand_buffers.push_back(id);
    }
    piece_buffers_ = x_.piece_buffers;
    JoinTerms(x_);
    x_.first_step = 1;
    const SolvedExchange solved = Exchange(x_.pieces, x_.demands, c_.options.exchange);
    auto communications = CommunicationsOf(x_, solved, c_.options);
    AddExchangeTasks(x_, {solved, *communications}, c_.options, builder);
    return std::move(builder).Build();
  }

  absl::Status Compare(const TaskGraph& graph, const TaskInterpreter& run, const char* when) {
    for (size_t j = 0; j < c_.demands.size(); ++j) {
      if (c_.demands[j].box.empty()) continue;
      if (x_.demand_buffers[j] == kNoBuffer) return absl::InternalError("a demand has no buffer");
      if (c_.preset[j] >= 0 &&
          x_.demand_buffers[j] != piece_buffers_[static_cast<size_t>(c_.preset[j])]) {
        return absl::InternalError("a chosen demand buffer was changed");
      }
      const Buffer& buffer = graph.buffer(x_.demand_buffers[j]);
      if (buffer.device != c_.demands[j].device || buffer.box != c_.demands[j].box) {
        return absl::InternalError(absl::StrCat("demand ", j, " has the buffer of another"));
      }
      RETURN_IF_ERROR(CompareBuffer(run, buffer, Expected(c_, terms_, c_.demands[j]),
                                    absl::StrCat("demand ", j, " ", when)));
    }
    for (size_t p = 0; p < c_.pieces.size(); ++p) {
      if (!c_.persistent[p]) continue;
      const DenseTensor kept = SliceOf(terms_.at(c_.pieces[p].term), c_.pieces[p].box);
      RETURN_IF_ERROR(CompareBuffer(run, graph.buffer(piece_buffers_[p]), AsIntegers(kept),
                                    absl::StrCat("persistent piece ", p, " ", when)));
    }
    return absl::OkStatus();
  }

  static absl::Status CompareBuffer(const TaskInterpreter& run, const Buffer& buffer,
                                    const std::vector<int64_t>& expected, const std::string& what) {
    const std::vector<int64_t> values = AsIntegers(ValueOf(run, buffer));
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i] != expected[i]) {
        return absl::DataLossError(absl::StrCat(what, ", ", ToString(buffer.box), " on device ",
                                                buffer.device.value(), ": element ", i, " is ",
                                                values[i], ", should be ", expected[i]));
      }
    }
    return absl::OkStatus();
  }

  const ExchangeCase& c_;
  std::mt19937_64& random_;
  std::map<int32_t, DenseTensor> terms_;
  TensorExchange x_;
  std::vector<BufferId> piece_buffers_;  // indexed by piece of the case
};

}  // namespace

ExchangeCase RandomExchange(std::mt19937_64& random) { return Generator(random).Run(); }

absl::StatusOr<ExchangeOutcome> CheckExchange(const ExchangeCase& c, std::mt19937_64& random) {
  return Check(c, random).Run();
}

absl::Status CheckFloatCopiesAgree(ExchangeCase c, std::mt19937_64& random) {
  c.dtype = DType::kFloat32;
  return Check(c, random).RunFloat();
}

std::string ToString(const ExchangeCase& c) {
  std::string text =
      absl::StrCat("shape ", ToString(c.shape), " ", Name(c.dtype), ", ", c.devices, " devices, ",
                   c.algorithm, c.options.exchange.collectives ? "" : " no collectives",
                   ", direct ", c.options.exchange.direct_elements,
                   c.options.exchange.reduction == Reduction::kMax ? " max" : "");
  for (const Piece& piece : c.pieces) {
    absl::StrAppend(&text, "\n  piece ", ToString(piece.box), " on ", piece.device.value(),
                    " term ", piece.term);
  }
  for (const Demand& demand : c.demands) {
    absl::StrAppend(&text, "\n  demand ", ToString(demand.box), " on ", demand.device.value());
  }
  return text;
}

}  // namespace partita
