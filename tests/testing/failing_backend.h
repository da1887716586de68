#pragma once

#include <memory>

#include "runtime/backend/backend.h"

namespace partita {

// The reference backend, but for the device that is opened as the `failing`-th, from 0: its kernels
// of operators that have weights fail with OutOfRange, "planted failure".
std::shared_ptr<const Backend> FailingBackend(int failing);

}  // namespace partita
