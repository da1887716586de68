#pragma once

#include <memory>

#include "runtime/backend/backend.h"

namespace partita {

// A stand-in for GPUs where there is none: `inner`'s devices with memory of their own, whose
// addresses the host cannot read (it crashes). Devices of one DeviceSpec::index share a memory, as
// virtual devices of one GPU do, and others reach neither it nor their events. What crosses goes
// through AllocateHost and signals, or the test dies. Kernels are the inner backend's. Work is
// recorded and run again under the rules of CUDA graphs.
std::shared_ptr<const Backend> FarMemoryBackend(std::shared_ptr<const Backend> inner);

// The same, but that libraries in this process may read its addresses: devices that nccl's test
// library connects.
std::shared_ptr<const Backend> RecordingBackend(std::shared_ptr<const Backend> inner);

}  // namespace partita
