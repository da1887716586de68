#include "graph/task/timeline.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "graph/support/check.h"

namespace partita {
namespace {

using Json = nlohmann::json;
using Phase = TaskKey::Phase;

constexpr size_t kMaxJsonBytes = size_t{1} << 30;
constexpr int64_t kLatest = int64_t{1} << 53;
constexpr int kMaxDevices = 1 << 20;

// Nanoseconds as microseconds with all digits.
std::string Micros(int64_t nanos) { return absl::StrFormat("%d.%03d", nanos / 1000, nanos % 1000); }

std::string Quoted(const std::string& text) {
  return Json(text).dump(-1, ' ', true, Json::error_handler_t::replace);
}

void AppendName(std::string& out, const char* what, int pid, int tid, const std::string& name) {
  absl::StrAppendFormat(&out, R"({"ph":"M","name":"%s","pid":%d,"tid":%d,"args":{"name":%s}},)",
                        what, pid, tid, Quoted(name));
  out += '\n';
}

std::string KeyText(const TaskKey& key) {
  return absl::StrFormat("[%d,%d,%d,%d,%d,%d]", key.of_tensor, key.subject, key.step,
                         static_cast<int>(key.phase), key.from, key.to);
}

// Colour of a part of the step, by a name that chrome://tracing knows.
const char* ColourOf(StepPart part) {
  constexpr const char* kColours[] = {"good", "rail_response", "yellow", "generic_work"};
  return kColours[static_cast<size_t>(part)];
}

// With a comma behind.
void AppendEntry(std::string& out, const TimelineEntry& e, const TimelineDetails::OfEntry* more) {
  absl::StrAppendFormat(&out, R"({"ph":"X","name":%s,"cat":"%s)", Quoted(e.name), Name(e.lane));
  if (more != nullptr) {
    absl::StrAppendFormat(&out, R"(,%s","cname":"%s)", Name(more->part), ColourOf(more->part));
  }
  absl::StrAppendFormat(&out, R"(","pid":%d,"tid":%d,"ts":%s,"dur":%s,"args":{"key":%s)",
                        e.device.value(), static_cast<int>(e.lane), Micros(e.start.value()),
                        Micros((e.end - e.start).value()), KeyText(e.key));
  if (more != nullptr) {
    absl::StrAppendFormat(&out, R"(,"shapes":%s,"bytes":%d)", Quoted(more->shapes), more->bytes);
    if (!more->split.empty()) absl::StrAppend(&out, ",\"split\":", Quoted(more->split));
    if (more->predicted) {
      absl::StrAppend(&out, ",\"predicted_us\":", Micros(more->predicted->value()));
    }
    if (more->measured) {
      absl::StrAppend(&out, ",\"measured_us\":", Micros(more->measured->value()));
    }
  }
  out += "}},\n";
}

// Both of its events, each at a time at which its slice lasts, the second no earlier. A later slice
// of a lane begins where the one before ends, so a slice lasts to the nanosecond before its end.
void AppendArrow(std::string& out, const Timeline& timeline, size_t number) {
  const TimelineDetails::Arrow& arrow = timeline.details.arrows[number];
  const TimelineEntry& from = timeline.entries[arrow.from];
  const TimelineEntry& to = timeline.entries[arrow.to];
  const int64_t begin =
      std::max(from.start.value(), std::min(from.end.value() - 1, to.start.value()));
  const int64_t end = std::max(to.start.value(), begin);
  const auto append = [&](const char* phase, const TimelineEntry& slice, int64_t time) {
    absl::StrAppendFormat(&out,
                          R"({%s,"id":%d,"name":%s,"cat":"arrow","pid":%d,"tid":%d,"ts":%s,)"
                          R"("args":{"bytes":%d}},)",
                          phase, number + 1, Quoted(arrow.name), slice.device.value(),
                          static_cast<int>(slice.lane), Micros(time), arrow.bytes);
    out += '\n';
  };
  append(R"("ph":"s")", from, begin);
  append(R"("ph":"f","bp":"e")", to, end);
}

void AppendMemory(std::string& out, const TimelineDetails::Memory& memory) {
  for (const auto& [name, bytes] :
       {std::pair("in use", memory.in_use), std::pair("reached", memory.reached)}) {
    absl::StrAppendFormat(&out,
                          R"({"ph":"C","name":"memory %s","pid":%d,"ts":%s,"args":{"bytes":%d}},)",
                          name, memory.device.value(), Micros(memory.time.value()), bytes);
    out += '\n';
  }
}

std::string OtherData(const Timeline& timeline) {
  const TimelineDetails& details = timeline.details;
  std::string out = absl::StrCat("{\"title\":", Quoted(timeline.title));
  if (!details.entries.empty()) {
    absl::StrAppend(&out, ",\"arrows\":", details.arrows.size(),
                    ",\"arrows_left_out\":", details.arrows_left_out);
  }
  if (details.arrows_left_out > 0) {
    absl::StrAppend(&out, ",\"note\":",
                    Quoted(absl::StrCat(
                        details.arrows_left_out,
                        " arrows between devices are left out, those of "
                        "fewest bytes, and in measured times those that would point backwards")));
  }
  if (!details.peak.empty()) {
    absl::StrAppend(
        &out, ",\"peak_bytes\":[",
        absl::StrJoin(details.peak, ",",
                      [](std::string* text, Bytes peak) { absl::StrAppend(text, peak.value()); }),
        "]");
  }
  return out + "}";
}

std::optional<int64_t> IntegerIn(const Json& value, int64_t lo, int64_t hi) {
  if (!value.is_number_integer()) return std::nullopt;
  if (value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{1} << 62) return std::nullopt;
  const int64_t x = value.get<int64_t>();
  return x < lo || x > hi ? std::nullopt : std::optional(x);
}

std::optional<int64_t> NanosIn(const Json& event, const char* field) {
  const auto it = event.find(field);
  if (it == event.end() || !it->is_number()) return std::nullopt;
  const double nanos = std::round(it->get<double>() * 1000);
  if (!(nanos >= 0 && nanos <= static_cast<double>(kLatest))) return std::nullopt;
  return static_cast<int64_t>(nanos);
}

std::optional<TaskKey> KeyIn(const Json& event) {
  const auto args = event.find("args");
  if (args == event.end() || !args->is_object()) return std::nullopt;
  const auto key = args->find("key");
  if (key == args->end() || !key->is_array() || key->size() != 6) return std::nullopt;
  int32_t field[6];
  for (size_t i = 0; i < 6; ++i) {
    const auto x = IntegerIn((*key)[i], INT32_MIN, INT32_MAX);
    if (!x) return std::nullopt;
    field[i] = static_cast<int32_t>(*x);
  }
  if (field[3] < 0 || field[3] > static_cast<int>(Phase::kConvert)) return std::nullopt;
  return TaskKey{field[0] != 0, field[1], field[2], static_cast<Phase>(field[3]),
                 field[4],      field[5]};
}

std::string TextIn(const Json& object, const char* field) {
  if (!object.is_object()) return "";
  const auto it = object.find(field);
  return it != object.end() && it->is_string() ? it->get<std::string>() : "";
}

// An error says which event is at fault and why.
absl::Status ReadEvent(const Json& event, Timeline& timeline) {
  if (!event.is_object()) return absl::InvalidArgumentError("is no object");
  const std::string phase = TextIn(event, "ph");
  if (phase != "M" && phase != "X") return absl::OkStatus();  // other tools' additions
  const auto pid = event.contains("pid") ? IntegerIn(event["pid"], 0, kMaxDevices) : std::nullopt;
  if (!pid) return absl::InvalidArgumentError("has no device number 'pid'");
  if (phase == "M") {
    if (TextIn(event, "name") != "process_name") return absl::OkStatus();
    const auto device = static_cast<size_t>(*pid);
    if (timeline.device_names.size() <= device) timeline.device_names.resize(device + 1);
    if (event.contains("args")) timeline.device_names[device] = TextIn(event["args"], "name");
    return absl::OkStatus();
  }
  const auto tid = event.contains("tid") ? IntegerIn(event["tid"], 0, 1) : std::nullopt;
  const auto start = NanosIn(event, "ts"), duration = NanosIn(event, "dur");
  const auto key = KeyIn(event);
  if (!tid) return absl::InvalidArgumentError("has no lane 'tid', 0 or 1");
  if (!start || !duration) return absl::InvalidArgumentError("has no times 'ts' and 'dur'");
  if (!key) return absl::InvalidArgumentError("has no task key 'args.key' of six integers");
  timeline.entries.push_back({*key, TextIn(event, "name"), DeviceId(static_cast<int32_t>(*pid)),
                              static_cast<Lane>(*tid), Nanos(*start), Nanos(*start + *duration)});
  return absl::OkStatus();
}

}  // namespace

absl::string_view Name(StepPart part) {
  constexpr absl::string_view kNames[] = {"forward", "backward", "update", "data"};
  return kNames[static_cast<size_t>(part)];
}

absl::string_view Name(Lane lane) { return lane == Lane::kCompute ? "compute" : "communication"; }

Nanos LengthOf(const Timeline& timeline) {
  Nanos length;
  for (const TimelineEntry& entry : timeline.entries) length = std::max(length, entry.end);
  return length;
}

Timeline TimelineOf(const Graph& graph, const TaskGraph& tasks, std::span<const Nanos> start,
                    std::span<const Nanos> end) {
  CHECK_EQ(start.size(), tasks.tasks().size());
  CHECK_EQ(end.size(), tasks.tasks().size());
  Timeline timeline;
  for (const Task& task : tasks.tasks()) {
    const std::string name = TaskName(graph, task);
    const Lane lane = IsCommunication(task) ? Lane::kCommunication : Lane::kCompute;
    for (DeviceId device : DevicesOf(task)) {
      timeline.entries.push_back(
          {task.key, name, device, lane, start[task.id.index()], end[task.id.index()]});
    }
  }
  return timeline;
}

std::string TimelineToJson(const Timeline& timeline) {
  std::string out = absl::StrCat("{\"displayTimeUnit\":\"ns\",\"otherData\":", OtherData(timeline),
                                 ",\"traceEvents\":[\n");
  for (size_t d = 0; d < timeline.device_names.size(); ++d) {
    const int pid = static_cast<int>(d);
    AppendName(out, "process_name", pid, 0, timeline.device_names[d]);
    for (Lane lane : {Lane::kCompute, Lane::kCommunication}) {
      AppendName(out, "thread_name", pid, static_cast<int>(lane), std::string(Name(lane)));
    }
  }
  const TimelineDetails& details = timeline.details;
  for (size_t i = 0; i < timeline.entries.size(); ++i) {
    AppendEntry(out, timeline.entries[i], details.entries.empty() ? nullptr : &details.entries[i]);
  }
  for (size_t i = 0; i < details.arrows.size(); ++i) AppendArrow(out, timeline, i);
  for (const TimelineDetails::Memory& memory : details.memory) AppendMemory(out, memory);
  if (out.ends_with(",\n")) out.erase(out.size() - 2, 1);
  return out + "]}\n";
}

absl::StatusOr<Timeline> TimelineFromJson(absl::string_view json) {
  if (json.size() > kMaxJsonBytes) {
    return absl::InvalidArgumentError("the timeline is larger than 1 GiB");
  }
  const Json root = Json::parse(json.begin(), json.end(), nullptr, /*allow_exceptions=*/false);
  if (!root.is_object() || !root.contains("traceEvents") || !root["traceEvents"].is_array()) {
    return absl::InvalidArgumentError(
        "no trace event JSON with a list 'traceEvents'; `partita simulate` writes one");
  }
  Timeline timeline;
  if (root.contains("otherData")) timeline.title = TextIn(root["otherData"], "title");
  const Json& events = root["traceEvents"];
  for (size_t i = 0; i < events.size(); ++i) {
    const absl::Status status = ReadEvent(events[i], timeline);
    if (!status.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("trace event ", i, " ", status.message()));
    }
  }
  return timeline;
}

}  // namespace partita
