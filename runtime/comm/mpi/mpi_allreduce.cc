#include "runtime/comm/mpi/mpi_allreduce.h"

#include <mpi.h>

namespace partita {

absl::Status LibraryAllReduce(float* values, int64_t count) {
  const int code = MPI_Allreduce(MPI_IN_PLACE, values, static_cast<int>(count), MPI_FLOAT, MPI_SUM,
                                 MPI_COMM_WORLD);
  return code == MPI_SUCCESS ? absl::OkStatus()
                             : absl::InternalError("the MPI library's all-reduce failed");
}

}  // namespace partita
