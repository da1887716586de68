#include "tests/testing/nccl_on_host/process.h"

#include <cstring>

#include "tests/testing/nccl_on_host/memory.h"

namespace partita::nccl_on_host {
namespace {

std::string KeyOf(const ncclUniqueId& id) { return {id.internal, sizeof(id.internal)}; }

uintptr_t NumberOf(ncclComm_t handle) { return reinterpret_cast<uintptr_t>(handle); }

}  // namespace

Process& Process::Get() {
  static Process process;
  return process;
}

ncclUniqueId Process::NewId() {
  std::lock_guard lock(mutex_);
  ncclUniqueId id;
  std::memset(&id, 0, sizeof(id));
  const std::string text = "nccl_on_host " + std::to_string(++last_id_);
  std::memcpy(id.internal, text.data(), text.size());
  cliques_[KeyOf(id)];
  return id;
}

Failure Process::CliqueOf(const ncclUniqueId& id, int ranks, std::shared_ptr<Clique>& clique) {
  std::lock_guard lock(mutex_);
  const auto it = cliques_.find(KeyOf(id));
  if (it == cliques_.end()) {
    return {ncclInvalidArgument, "this unique id is not from ncclGetUniqueId of this process"};
  }
  clique = it->second.lock();
  if (clique == nullptr) {
    clique = std::make_shared<Clique>(ranks, OwnElements());
    it->second = clique;
  }
  return {};
}

ncclComm_t Process::Add(Communicator communicator) {
  std::lock_guard lock(mutex_);
  ++last_handle_;
  if (communicator.family == 0) communicator.family = static_cast<int64_t>(last_handle_);
  communicators_[last_handle_] = std::move(communicator);
  return reinterpret_cast<ncclComm_t>(last_handle_);
}

std::vector<Communicator> Process::Family(int64_t family) const {
  std::lock_guard lock(mutex_);
  std::vector<Communicator> members;
  for (const auto& [number, one] : communicators_) {
    if (one.family == family && one.clique != nullptr) members.push_back(one);
  }
  return members;
}

void Process::Enter(const std::vector<ncclComm_t>& handles) {
  std::lock_guard lock(mutex_);
  for (ncclComm_t handle : handles) entered_.insert(NumberOf(handle));
}

void Process::Leave(const std::vector<ncclComm_t>& handles) {
  std::lock_guard lock(mutex_);
  for (ncclComm_t handle : handles) entered_.erase(entered_.find(NumberOf(handle)));
}

bool Process::IsEntered(ncclComm_t handle) const {
  std::lock_guard lock(mutex_);
  return entered_.count(NumberOf(handle)) > 0;
}

Failure Process::Find(ncclComm_t handle, Communicator& communicator) const {
  std::lock_guard lock(mutex_);
  const auto it = communicators_.find(NumberOf(handle));
  if (it == communicators_.end()) return {ncclInvalidArgument, "not a communicator"};
  communicator = it->second;
  const std::string who = "the communicator of rank " + std::to_string(communicator.rank);
  if (communicator.state == Communicator::State::kAborted) {
    return {ncclInvalidUsage, who + " is used after it was aborted"};
  }
  if (communicator.state == Communicator::State::kDestroyed) {
    return {ncclInvalidUsage, who + " is used after it was destroyed"};
  }
  return {};
}

void Process::SetState(ncclComm_t handle, Communicator::State state) {
  std::lock_guard lock(mutex_);
  const auto it = communicators_.find(NumberOf(handle));
  if (it == communicators_.end()) return;
  it->second.state = state;
  if (state != Communicator::State::kFinalized) it->second.clique.reset();
}

}  // namespace partita::nccl_on_host
