#include "runtime/comm/mpi/mpi_port.h"

#include <mpi.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/support/status_macros.h"
#include "runtime/comm/fold.h"

namespace partita {
namespace {

constexpr int64_t kPiece = int64_t{1} << 30;  // MPI counts in int
constexpr int kAbortCode = 5;                 // the program's exit code for failed communication

absl::Status MpiError(const char* what, int code) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  return absl::UnavailableError(absl::StrCat(what, ": ", text));
}

// Launchers say so in the environment; without one, MPI would start a run of one process.
bool IsLaunched() {
  const char* names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK"};
  return std::any_of(std::begin(names), std::end(names),
                     [](const char* name) { return std::getenv(name) != nullptr; });
}

class MpiPort : public MessagePort {
 public:
  absl::Status Open() {
    int level = MPI_THREAD_SINGLE;
    int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level);
    if (code != MPI_SUCCESS) return MpiError("MPI cannot start", code);
    open_ = true;
    if (level < MPI_THREAD_SERIALIZED) {
      return absl::UnavailableError(
          "this MPI library is for one thread only; wanted: one thread at a time");
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    return absl::OkStatus();
  }

  ~MpiPort() override {
    if (!open_) return;
    if (!Reason().ok()) MPI_Abort(MPI_COMM_WORLD, kAbortCode);
    MPI_Finalize();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  absl::Status Begin(std::span<const Message> messages, int tag) override {
    requests_.clear();
    expected_.clear();
    combined_.clear();
    used_ = 0;
    int64_t bytes = 0;
    for (const Message& message : messages) bytes += message.combine ? message.bytes : 0;
    if (static_cast<int64_t>(scratch_.size()) < bytes) scratch_.resize(static_cast<size_t>(bytes));
    // Receives first: what arrives early then lands where it belongs.
    for (const bool receives : {true, false}) {
      for (const Message& message : messages) {
        if (message.receives == receives) RETURN_IF_ERROR(Post(message, tag));
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<bool> Advance() override {
    statuses_.resize(requests_.size());
    int done = requests_.empty() ? 1 : 0;
    if (done == 0) {
      const int code = MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &done,
                                   statuses_.data());
      if (code != MPI_SUCCESS) return MpiError("a message failed", code);
    }
    if (done == 0) return false;
    RETURN_IF_ERROR(CheckCounts());
    const char* arrived = scratch_.data();
    for (const Message& message : combined_) {
      FoldTwo(*message.combine, message.data, arrived, message.bytes);
      arrived += message.bytes;
    }
    return true;
  }

 private:
  absl::Status Post(const Message& message, int tag) {
    char* data = static_cast<char*>(message.data);
    if (message.combine.has_value()) {
      data = scratch_.data() + used_;
      used_ += message.bytes;
      combined_.push_back(message);
    }
    for (int64_t begin = 0; begin < message.bytes; begin += kPiece) {
      const auto count = static_cast<int>(std::min(kPiece, message.bytes - begin));
      char* piece = data + begin;
      requests_.push_back(MPI_REQUEST_NULL);
      expected_.push_back(message.receives ? count : -1);
      const int code = message.receives ? MPI_Irecv(piece, count, MPI_BYTE, message.peer, tag,
                                                    MPI_COMM_WORLD, &requests_.back())
                                        : MPI_Isend(piece, count, MPI_BYTE, message.peer, tag,
                                                    MPI_COMM_WORLD, &requests_.back());
      if (code != MPI_SUCCESS) return MpiError("a message cannot be sent or received", code);
    }
    return absl::OkStatus();
  }

  absl::Status CheckCounts() const {
    for (size_t k = 0; k < requests_.size(); ++k) {
      if (expected_[k] < 0) continue;
      int count = 0;
      MPI_Get_count(&statuses_[k], MPI_BYTE, &count);
      if (count != expected_[k]) {
        return absl::InternalError(absl::StrCat("a message from rank ", statuses_[k].MPI_SOURCE,
                                                " has ", count, " bytes; wanted ", expected_[k],
                                                ": the ranks do not run the same plan"));
      }
    }
    return absl::OkStatus();
  }

  bool open_ = false;
  int rank_ = 0, size_ = 1;
  // Of the exchange under way.
  std::vector<MPI_Request> requests_;
  std::vector<int> expected_;  // bytes; -1 where it is sent
  std::vector<MPI_Status> statuses_;
  std::vector<Message> combined_;  // their bytes arrive in scratch_, in this order
  std::vector<char> scratch_;
  int64_t used_ = 0;  // of it
};

}  // namespace

absl::StatusOr<std::unique_ptr<MessagePort>> OpenMpiPort() {
  if (!IsLaunched()) {
    return absl::UnavailableError(
        "this process was not started by an MPI launcher: try mpirun -n N ...");
  }
  auto port = std::make_unique<MpiPort>();
  RETURN_IF_ERROR(port->Open());
  return port;
}

}  // namespace partita
