#include "graph/verify/symbolic_step.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/support/status_macros.h"
#include "graph/task/timeline.h"
#include "graph/verify/region_elements.h"

namespace partita {

SymbolicStep::SymbolicStep(const Graph& graph, const TaskGraph& tasks,
                           const ExpectedValues& expected)
    : graph_(graph), tasks_(tasks), expected_(expected), memory_(tasks.buffers().size()) {}

void SymbolicStep::Begin() {
  for (const Buffer& buffer : tasks_.buffers()) {
    if (buffer.persistent()) FillWhole(buffer.id, buffer.tensor, 0, true);
  }
}

absl::Status SymbolicStep::Run(const Task& task, const ComputeTerm& term) {
  return std::visit([&](const auto& body) { return RunBody(task, body, term); }, task.body);
}

absl::Status SymbolicStep::Wrong(const Task& task, TensorId tensor, const std::string& what) const {
  return absl::InternalError(absl::StrCat("task ", task.id.value(), " (", TaskName(graph_, task),
                                          "), tensor '", graph_.tensor(tensor).name, "': ", what));
}

void SymbolicStep::FillWhole(BufferId id, TensorId tensor, uint64_t code, bool use_expected) {
  const Box& box = tasks_.buffer(id).box;
  Memory& to = memory(id);
  to.clear();
  expected_.grids[tensor.index()].ForEach(box, [&](int64_t probe, const ProbeGrid::Index& index) {
    to[OffsetIn(box, index)] = {tensor, probe, use_expected ? expected_.of(tensor, probe) : code};
  });
}

// Values between the region's elements are passed in one go.
void SymbolicStep::Forget(const BufferWindow& window, const Box& region) {
  Memory& values = memory(window.buffer);
  if (region.empty()) return;
  const int64_t end = window.offset + window.box.volume();
  for (auto it = values.lower_bound(window.offset); it != values.end() && it->first < end;) {
    const int64_t element = it->first - window.offset;
    const std::optional<int64_t> first = NextElementOf(region, window.box, element);
    if (!first.has_value()) return;
    it = *first == element ? values.erase(it) : values.lower_bound(window.offset + *first);
  }
}

void SymbolicStep::Forget(const Slice& slice) {
  Memory& values = memory(slice.buffer);
  values.erase(values.lower_bound(slice.offset), values.lower_bound(slice.offset + slice.count));
}

void SymbolicStep::Extract(const Slice& slice, Values& values) const {
  if (slice.buffer == kNoBuffer) return;
  const Memory& from = memory(slice.buffer);
  const int64_t end = slice.offset + slice.count;
  for (auto it = from.lower_bound(slice.offset); it != from.end() && it->first < end; ++it) {
    values.emplace_back(it->first - slice.offset, it->second);
  }
}

void SymbolicStep::Insert(const Slice& slice,
                          std::span<const std::pair<int64_t, SymbolicValue>> values) {
  for (const auto& [element, value] : values) {
    memory(slice.buffer)[slice.offset + element] = value;
  }
}

absl::Status SymbolicStep::CheckHolds(TensorId tensor, BufferId buffer, const Box& box,
                                      const std::string& reader) const {
  const Memory& from = memory(buffer);
  absl::Status status;
  expected_.grids[tensor.index()].ForEach(box, [&](int64_t probe, const ProbeGrid::Index& index) {
    if (!status.ok()) return;
    const auto it = from.find(OffsetIn(box, index));
    const char* what = nullptr;
    if (it == from.end()) {
      what = "nothing was written there";
    } else if (it->second.tensor != tensor) {
      what = "another tensor is there";
    } else if (it->second.probe != probe) {
      what = "another element is there";
    } else if (it->second.terms != expected_.of(tensor, probe)) {
      what = "the sum there lacks a term or has one twice";
    }
    if (what == nullptr) return;
    std::string place;
    for (int64_t i : index) absl::StrAppend(&place, place.empty() ? "" : ",", i);
    status = absl::InternalError(absl::StrCat(reader, " reads tensor '", graph_.tensor(tensor).name,
                                              "' in buffer ", buffer.value(), " at [", place,
                                              "]: ", what));
  });
  return status;
}

absl::Status SymbolicStep::RunBody(const Task& task, const ComputeTask& body,
                                   const ComputeTerm& term) {
  for (size_t k = 0; k < body.inputs.size(); ++k) {
    if (body.inputs[k] == kNoBuffer) continue;
    RETURN_IF_ERROR(CheckHolds(term.inputs[k], body.inputs[k], body.input_boxes[k],
                               absl::StrCat("task ", task.id.value(), " (", TaskName(graph_, task),
                                            ") on device ", body.device.value())));
  }
  for (size_t k = 0; k < body.outputs.size(); ++k) {
    if (body.outputs[k] == kNoBuffer) continue;
    FillWhole(body.outputs[k], term.outputs[k].tensor, term.outputs[k].code, false);
  }
  return absl::OkStatus();
}

absl::Status SymbolicStep::RunBody(const Task&, const LoadTask& body, const ComputeTerm&) {
  FillWhole(body.buffer, tasks_.buffer(body.buffer).tensor, 0, true);
  return absl::OkStatus();
}

absl::Status SymbolicStep::RunBody(const Task& task, const MoveTask& body, const ComputeTerm&) {
  for (const Move& move : body.moves) RETURN_IF_ERROR(RunMove(task, move));
  return absl::OkStatus();
}

absl::Status SymbolicStep::RunMove(const Task& task, const Move& move) {
  using Kind = MoveSignature::Kind;
  const TensorId tensor(task.key.subject);
  const bool adds = move.kind == Kind::kAdd || move.kind == Kind::kMax;
  const auto [begin, unused] = std::pair(move.to.offset, 0);
  std::vector<std::pair<int64_t, SymbolicValue>> results;
  absl::Status status;
  expected_.grids[tensor.index()].ForEach(
      move.region, [&](int64_t probe, const ProbeGrid::Index& index) {
        if (!status.ok()) return;
        const int64_t to = begin + OffsetIn(move.to.box, index);
        SymbolicValue value{tensor, probe, 0};
        if (move.kind != Kind::kFill) {
          const Memory& from = memory(move.from.buffer);
          const auto it = from.find(move.from.offset + OffsetIn(move.from.box, index));
          if (it == from.end() || it->second.tensor != tensor || it->second.probe != probe) {
            status = Wrong(task, tensor, "moves an element from where it is not");
            return;
          }
          value.terms = it->second.terms;
        }
        if (adds) {
          const auto it = memory(move.to.buffer).find(to);
          if (it == memory(move.to.buffer).end() || it->second.tensor != tensor ||
              it->second.probe != probe) {
            status = Wrong(task, tensor, "adds to an element that is not there");
            return;
          }
          value.terms += it->second.terms;
        }
        results.emplace_back(to, value);
      });
  RETURN_IF_ERROR(status);
  Forget(move.to, move.region);
  for (const auto& [element, value] : results) memory(move.to.buffer)[element] = value;
  return absl::OkStatus();
}

absl::Status SymbolicStep::RunBody(const Task&, const TransferTask& body, const ComputeTerm&) {
  Values sent;
  std::vector<size_t> begin = {0};  // indexed by transfer
  for (const Transfer& transfer : body.transfers) {
    Extract(transfer.send, sent);
    begin.push_back(sent.size());
  }
  for (size_t i = 0; i < body.transfers.size(); ++i) {
    Forget(body.transfers[i].receive);
    Insert(body.transfers[i].receive, std::span(sent).subspan(begin[i], begin[i + 1] - begin[i]));
  }
  return absl::OkStatus();
}

// All-reduce and reduce-scatter. An element that some rank does not have is not defined after.
absl::Status SymbolicStep::Reduce(const Task& task, const CollectiveTask& body, size_t slice) {
  const size_t ranks = body.group.size();
  std::vector<Values> sent(ranks);
  for (size_t r = 0; r < ranks; ++r) Extract(body.sent(r, slice), sent[r]);
  Values sums;
  std::vector<size_t> next(ranks, 0);  // indexed by rank: the first value not before the element
  for (const auto& [element, value] : sent[0]) {
    if (!body.bucket.empty() && value.tensor != body.bucket[slice]) {
      return Wrong(task, value.tensor, "a bucket sums another tensor in its place");
    }
    SymbolicValue sum = value;
    bool everywhere = true;
    for (size_t r = 1; r < ranks && everywhere; ++r) {
      size_t& at = next[r];
      while (at < sent[r].size() && sent[r][at].first < element) ++at;
      everywhere = at < sent[r].size() && sent[r][at].first == element;
      if (!everywhere) break;
      const SymbolicValue& other = sent[r][at].second;
      if (other.tensor != value.tensor || other.probe != value.probe) {
        return Wrong(task, value.tensor, "ranks contribute different elements");
      }
      sum.terms += other.terms;
    }
    if (everywhere) sums.emplace_back(element, sum);
  }
  const bool scatter = body.collective.kind == CollectiveKind::kReduceScatter;
  for (size_t r = 0; r < ranks; ++r) {
    const Slice& place = body.received(r, slice);
    Forget(place);
    const ElementRange all{0, std::numeric_limits<int64_t>::max()};
    const ElementRange block = scatter ? body.collective.blocks[r] : all;
    const auto before = [](const auto& entry, int64_t element) { return entry.first < element; };
    const auto first = std::lower_bound(sums.begin(), sums.end(), block.offset, before);
    const auto last = std::lower_bound(first, sums.end(), block.end(), before);
    Insert(place, std::span(first, last));
  }
  return absl::OkStatus();
}

absl::Status SymbolicStep::RunBody(const Task& task, const CollectiveTask& body,
                                   const ComputeTerm&) {
  const CollectiveKind kind = body.collective.kind;
  if (kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kReduceScatter) {
    for (size_t k = 0; k < body.slices(); ++k) RETURN_IF_ERROR(Reduce(task, body, k));
  } else {
    Exchange(body);
  }
  return absl::OkStatus();
}

void SymbolicStep::Exchange(const CollectiveTask& body) {
  const Collective& c = body.collective;
  const size_t ranks = body.group.size();
  // What arrives in a range: values [begin, end) of those read before anything is written.
  struct Arrival {
    Slice to;
    size_t begin, end;
  };
  std::vector<Arrival> arrivals;
  Values values;
  std::vector<int64_t> received(ranks, 0);  // by rank, from those before in an all-to-all
  for (size_t s = 0; s < ranks; ++s) {
    int64_t sent = 0;
    for (size_t d = 0; d < ranks; ++d) {
      Slice from = body.send[s], to = body.receive[d];
      if (c.kind == CollectiveKind::kAllGather) {
        from = {from.buffer, from.offset + c.blocks[s].offset, c.blocks[s].count};
        to = {to.buffer, to.offset + c.blocks[s].offset, c.blocks[s].count};
      } else {
        const int64_t count = c.counts[s][d];
        from = {from.buffer, from.offset + sent, count};
        to = {to.buffer, to.offset + received[d], count};
        sent += count;
        received[d] += count;
      }
      if (from.count == 0) continue;
      const size_t begin = values.size();
      Extract(from, values);
      if (values.size() > begin) arrivals.push_back({to, begin, values.size()});
    }
  }
  for (const Slice& slice : body.receive) {
    if (slice.buffer != kNoBuffer) Forget(slice);
  }
  for (const auto& [to, begin, end] : arrivals) {
    Insert(to, std::span(values).subspan(begin, end - begin));
  }
}

}  // namespace partita
