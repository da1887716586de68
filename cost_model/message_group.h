#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "cost_model/machine.h"
#include "graph/parallel/channel_loads.h"

namespace partita {

// Messages that start together, and what they take (see LinkCost). What a device sends is added in
// one go where it comes in one go.
class MessageGroup {
 public:
  // The machine outlives this; `classes` are those of its devices, in order.
  MessageGroup(const Machine& machine, const std::vector<const DeviceClass*>& classes);

  // `reduce`: the receiver adds what arrives. A message of a device to itself is a copy.
  void Add(DeviceId from, DeviceId to, int64_t bytes, bool reduce);
  // Seconds that the messages so far take at least.
  double LeastSeconds() const;
  // Seconds that the messages take; forgets them.
  double TakeSeconds();

 private:
  bool IsRead(DeviceId from, DeviceId to) const;
  void Send();

  const Machine& machine_;
  const std::vector<const DeviceClass*>& classes_;
  ChannelLoads loads_;
  std::vector<double> added_;  // seconds, indexed by device
  std::vector<DeviceId> adders_;
  double longest_ = 0;
  // Messages at hand, all of one sender.
  DeviceId from_;
  std::vector<ChannelLoads::Message> messages_;
};

// Message groups of one machine, kept from price to price: one takes room in proportion to the
// machine. Several threads may lend at once.
class MessageGroups {
 public:
  class Return {
   public:
    explicit Return(const MessageGroups* groups = nullptr) : groups_(groups) {}
    void operator()(MessageGroup* group) const;

   private:
    const MessageGroups* groups_;
  };
  // An empty group, given back at the end of its life.
  using Lent = std::unique_ptr<MessageGroup, Return>;

  // The machine outlives this, and this outlives what it lends.
  explicit MessageGroups(const Machine& machine);

  Lent Lend() const;

 private:
  const Machine& machine_;
  std::vector<const DeviceClass*> classes_;  // indexed by device
  mutable std::mutex mutex_;                 // guards idle_
  mutable std::vector<std::unique_ptr<MessageGroup>> idle_;
};

}  // namespace partita
