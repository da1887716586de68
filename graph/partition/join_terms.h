#pragma once

#include "graph/partition/exchange_tasks.h"

namespace partita {

// Makes one term of those that the same devices hold over the same box: each of them adds its own pieces,
// in the order of terms, before anything is sent (TensorExchange::added). What is wanted of several
// gradients of a tensor, or of the steps of a recurrent network, is then solved and sent as if it were of
// one. To be called before the exchange is solved.
void JoinTerms(TensorExchange& x);

}  // namespace partita
