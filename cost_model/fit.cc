#include "cost_model/fit.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "graph/support/median.h"

namespace partita {
namespace {

constexpr int64_t kBeyondCaches = int64_t{8} << 20;
constexpr TransferCall kOneMessage{DeviceId(0), DeviceId(1), 0};
constexpr double kLeastBytesOfOneSize = 64 << 10;
constexpr double kFastest = 1e15;  // bytes/s, where no size takes longer than another

// Sums of the normal equations of min sum (l*u + s*v - 1)^2 with u = latencies/nanos, v =
// bytes/nanos.
struct Normal {
  double uu = 0, uv = 0, vv = 0, u = 0, v = 0;
};

Normal NormalOf(std::span<const FitPoint> points) {
  Normal n;
  for (const FitPoint& point : points) {
    const double u = point.latencies / point.nanos, v = point.bytes / point.nanos;
    n.uu += u * u;
    n.uv += u * v;
    n.vv += v * v;
    n.u += u;
    n.v += v;
  }
  return n;
}

double MedianError(std::span<const FitPoint> points, const Line& line) {
  std::vector<double> errors;
  for (const FitPoint& point : points) {
    const double nanos =
        point.latencies * line.latency_ns + 1e9 * point.bytes / line.bytes_per_second;
    errors.push_back(std::abs(nanos / point.nanos - 1));
  }
  return Median(std::move(errors));
}

double MedianOf(const ProfileRecord& record) {
  return static_cast<double>(TimingOf(record.samples_ns).median_ns);
}

void Raise(std::optional<double>& best, double value) { best = std::max(best.value_or(0), value); }

void RaiseRate(const PrecisionRate& found, std::vector<PrecisionRate>& rates) {
  for (PrecisionRate& rate : rates) {
    if (rate.precision != found.precision) continue;
    rate.matrix_flops = std::max(rate.matrix_flops, found.matrix_flops);
    return;
  }
  rates.push_back(found);
}

void AddKernel(const ProfileRecord& record, MeasuredRates& rates) {
  const double nanos = MedianOf(record);
  const double per_second = 1e9 / nanos;
  rates.kernel_overhead_ns = std::min(rates.kernel_overhead_ns.value_or(nanos), nanos);
  if (record.work.multiply_adds > 0) {
    const double flops = 2.0 * static_cast<double>(record.work.multiply_adds) * per_second;
    if (record.compute_type == Precision::kFloat32) {
      Raise(rates.matrix_flops, flops);
    } else {
      RaiseRate({record.compute_type, flops}, rates.precision_rates);
    }
    return;
  }
  if (record.work.other > 0) {
    Raise(rates.other_flops, static_cast<double>(record.work.other) * per_second);
  }
  if (record.bytes >= kBeyondCaches) {
    Raise(rates.memory_bytes_per_second, static_cast<double>(record.bytes) * per_second);
  }
}

// Moves and exchanges by family, collectives by "algorithm ranks".
using Points = std::map<std::string, std::vector<FitPoint>>;

std::optional<Line> LineOf(const Points& points, const std::string& family) {
  const auto found = points.find(family);
  if (found == points.end()) return std::nullopt;
  const std::optional<FittedLine> fitted = FitLine(found->second);
  return fitted.has_value() ? std::optional(fitted->line) : std::nullopt;
}

std::string MoveFamily(MoveSignature::Kind kind) {
  return RecordOf(MoveSignature{.kind = kind}).family;
}

}  // namespace

std::optional<FittedLine> FitLine(std::span<const FitPoint> points) {
  const Normal n = NormalOf(points);
  if (n.vv <= 0) return std::nullopt;
  const double determinant = n.uu * n.vv - n.uv * n.uv;
  const bool one_size = determinant <= 1e-12 * n.uu * n.vv;
  // One size tells the bandwidth where its latency is small beside it, and nothing otherwise.
  if (one_size && n.uv / n.uu < kLeastBytesOfOneSize) return std::nullopt;
  double latency = 0, slope = n.v / n.vv;  // ns, ns per byte
  if (!one_size) {
    const double l = (n.u * n.vv - n.v * n.uv) / determinant;
    const double s = (n.v * n.uu - n.u * n.uv) / determinant;
    if (l >= 0) {
      latency = s > 0 ? l : n.u / n.uu;
      slope = std::max(0.0, s);
    }
  }
  FittedLine fitted{{latency, slope > 1e9 / kFastest ? 1e9 / slope : kFastest}, 0};
  fitted.spread = MedianError(points, fitted.line);
  return fitted;
}

MeasuredRates RatesFrom(std::span<const ProfileRecord> records) {
  MeasuredRates rates;
  Points lines, collectives;
  for (const ProfileRecord& record : records) {
    const FitPoint point{1, static_cast<double>(record.bytes), MedianOf(record)};
    switch (record.kind) {
      case RecordKind::kKernel:
        AddKernel(record, rates);
        break;
      case RecordKind::kMove:
        // Runs are in elements: of floats, at least a quarter of the payload in one run.
        if (record.run * 8 >= record.bytes / 2) lines[record.family].push_back(point);
        break;
      case RecordKind::kExchange:
        lines[record.family].push_back(point);
        break;
      case RecordKind::kCollective:
        collectives[record.variant].push_back(
            {static_cast<double>(record.work.other), point.bytes, point.nanos});
        break;
      case RecordKind::kStep:
        break;
    }
  }
  rates.copy = LineOf(lines, MoveFamily(MoveSignature::Kind::kCopy));
  rates.add = LineOf(lines, MoveFamily(MoveSignature::Kind::kAdd));
  rates.fill = LineOf(lines, MoveFamily(MoveSignature::Kind::kFill));
  rates.exchange = LineOf(lines, RecordOf(std::span(&kOneMessage, 1)).family);
  for (const auto& [name, points] : collectives) {
    const std::vector<std::string> words = absl::StrSplit(name, ' ');
    const std::optional<FittedLine> fitted = FitLine(points);
    int ranks = 0;
    if (!fitted.has_value() || words.size() != 2 || !absl::SimpleAtoi(words[1], &ranks)) continue;
    rates.collective_rates.push_back({words[0], ranks, fitted->line, fitted->spread});
  }
  return rates;
}

}  // namespace partita
