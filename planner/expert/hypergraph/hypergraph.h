#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace partita {

// A hypergraph: vertices with weights, nets with costs that each join several vertices, its pins.
// Immutable. Vertices and nets are numbered from 0 on.
class Hypergraph {
 public:
  struct Net {
    int64_t cost = 0;
    std::vector<int32_t> pins;  // vertices, each once
  };

  // Nets of fewer than two pins and without cost are left out; nets of equal pins become one.
  Hypergraph(std::vector<int64_t> weights, std::vector<Net> nets);

  int32_t vertices() const { return static_cast<int32_t>(weights_.size()); }
  int32_t nets() const { return static_cast<int32_t>(costs_.size()); }
  int64_t weight(int32_t vertex) const { return weights_[static_cast<size_t>(vertex)]; }
  int64_t total_weight() const { return total_weight_; }
  int64_t cost(int32_t net) const { return costs_[static_cast<size_t>(net)]; }
  std::span<const int32_t> pins(int32_t net) const { return Row(pins_, pin_begin_, net); }
  std::span<const int32_t> nets_of(int32_t vertex) const { return Row(nets_, net_begin_, vertex); }

 private:
  static std::span<const int32_t> Row(const std::vector<int32_t>& values,
                                      const std::vector<size_t>& begin, int32_t row) {
    const auto r = static_cast<size_t>(row);
    return std::span(values).subspan(begin[r], begin[r + 1] - begin[r]);
  }

  std::vector<int64_t> weights_, costs_;
  int64_t total_weight_ = 0;
  std::vector<int32_t> pins_, nets_;           // of all nets, of all vertices, one after another
  std::vector<size_t> pin_begin_, net_begin_;  // where those of each start; one more at the end
};

// The sum over the nets of cost * (parts that have pins - 1): what is sent if every net's value goes
// once to each part that wants it (Catalyurek, Aykanat 1999). `parts`: the part of each vertex.
int64_t ConnectivityMinusOne(const Hypergraph& hypergraph, std::span<const int32_t> parts);

// The weight of the heaviest of `count` parts.
int64_t HeaviestPart(const Hypergraph& hypergraph, std::span<const int32_t> parts, int32_t count);

}  // namespace partita
