#pragma once

#include "runtime/comm/message_port.h"

namespace partita {

// Between the processes of the test program; set before any test.
MessagePort& ProcessesPort();

}  // namespace partita
