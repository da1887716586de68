#include "cost_model/message_group.h"

#include <algorithm>
#include <utility>

namespace partita {

MessageGroup::MessageGroup(const Machine& machine, const std::vector<const DeviceClass*>& classes)
    : machine_(machine),
      classes_(classes),
      loads_(machine.topology),
      added_(static_cast<size_t>(machine.topology.size())) {}

void MessageGroup::Add(DeviceId from, DeviceId to, int64_t bytes, bool reduce) {
  if (reduce) {
    double& added = added_[to.index()];
    if (added == 0) adders_.push_back(to);
    added += classes_[to.index()]->add.Seconds(static_cast<double>(bytes));
    longest_ = std::max(longest_, added);
  }
  if (from == to) {
    const double copy = classes_[to.index()]->copy.Seconds(static_cast<double>(bytes));
    longest_ = std::max(longest_, copy);
    return;
  }
  if (from != from_) Send();
  from_ = from;
  // Devices of one host's cores read from each other's memory: the reader does the work.
  messages_.push_back({to, bytes, IsRead(from, to)});
}

bool MessageGroup::IsRead(DeviceId from, DeviceId to) const {
  const Device& a = machine_.topology.device(from);
  const Device& b = machine_.topology.device(to);
  return a.kind == DeviceKind::kCpu && b.kind == DeviceKind::kCpu && a.node == b.node;
}

double MessageGroup::LeastSeconds() const {
  return std::max(longest_, loads_.BusiestSeconds()) +
         static_cast<double>(loads_.latency().value()) * 1e-9;
}

double MessageGroup::TakeSeconds() {
  Send();
  for (ChannelId id : loads_.busy()) {
    const int64_t speed = machine_.topology.channel(id).bytes_per_second;
    longest_ =
        std::max(longest_, static_cast<double>(loads_.bytes(id)) / static_cast<double>(speed));
  }
  const double seconds = longest_ + static_cast<double>(loads_.latency().value()) * 1e-9;
  loads_.Clear();
  for (DeviceId id : adders_) added_[id.index()] = 0;
  adders_.clear();
  longest_ = 0;
  return seconds;
}

void MessageGroup::Send() {
  loads_.Add(from_, messages_);
  messages_.clear();
}

MessageGroups::MessageGroups(const Machine& machine) : machine_(machine) {
  for (int d = 0; d < machine.topology.size(); ++d) {
    classes_.push_back(&machine.ClassOf(DeviceId(d)));
  }
}

MessageGroups::Lent MessageGroups::Lend() const {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      Lent lent(idle_.back().release(), Return(this));
      idle_.pop_back();
      return lent;
    }
  }
  return Lent(new MessageGroup(machine_, classes_), Return(this));
}

void MessageGroups::Return::operator()(MessageGroup* group) const {
  group->TakeSeconds();  // what a price that ended early has left
  const std::lock_guard lock(groups_->mutex_);
  groups_->idle_.emplace_back(group);
}

}  // namespace partita
