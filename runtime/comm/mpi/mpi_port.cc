#include "runtime/comm/mpi/mpi_port.h"

#include <mpi.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/support/status_macros.h"
#include "runtime/comm/fold.h"

// A message longer than a segment is a head, which says how long, and segments. Segments are short
// enough for MPI libraries to send at once (Open MPI over TCP: up to 64 KiB). Longer messages they
// send only after the receiver has answered, and its answer queues behind what it sends itself: two
// ranks that send to each other then get half of the speed of the link between them. What is sent
// at once the library may keep copies of, so of long messages one segment of each group waits until
// it is taken.

namespace partita {
namespace {

constexpr int64_t kSegment = 1 << 15;
constexpr size_t kGroup = 32;      // segments
constexpr size_t kMostGroups = 4;  // to one peer that have not been taken
constexpr int kAbortCode = 5;      // the program's exit code for failed communication

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
  bool AwaitsNetwork() const override { return true; }

  absl::Status Begin(std::span<const Message> messages, int tag) override {
    requests_.clear();
    expected_.clear();
    heads_.clear();
    checked_ = 0;
    combined_.clear();
    used_ = 0;
    tag_ = tag;
    outboxes_.assign(static_cast<size_t>(size_), {});
    int64_t bytes = 0;
    for (const Message& message : messages) bytes += message.reduce ? message.bytes : 0;
    if (static_cast<int64_t>(scratch_.size()) < bytes) scratch_.resize(static_cast<size_t>(bytes));
    heads_.reserve(messages.size());  // MPI has their addresses
    // Receives first: what arrives early then lands where it belongs.
    for (const Message& message : messages) {
      if (message.receives) RETURN_IF_ERROR(Receive(message));
    }
    for (const Message& message : messages) {
      if (!message.receives) Send(message);
    }
    return PostPieces().status();
  }

  absl::StatusOr<bool> Advance() override {
    ASSIGN_OR_RETURN(const bool posted, PostPieces());
    ASSIGN_OR_RETURN(const bool checked, CheckHeads());
    if (!posted || !checked) return false;
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
      FoldTwo(*message.reduce, message.data, arrived, message.bytes);
      arrived += message.bytes;
    }
    return true;
  }

 private:
  // A message's bytes, from one rank to another.
  struct Head {
    int peer = 0;
    int64_t wanted = 0, found = 0;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  struct Segment {
    const char* data = nullptr;
    int count = 0;
  };
  // What goes to one peer, in this order.
  struct Outbox {
    std::vector<Segment> segments;
    size_t next = 0;
    std::vector<MPI_Request> untaken;  // the last segments of groups, oldest first
  };

  absl::Status Receive(const Message& message) {
    char* data = static_cast<char*>(message.data);
    if (message.reduce.has_value()) {
      data = scratch_.data() + used_;
      used_ += message.bytes;
      combined_.push_back(message);
    }
    if (message.bytes > kSegment) {
      Head& head = heads_.emplace_back(Head{.peer = message.peer, .wanted = message.bytes});
      RETURN_IF_ERROR(Began(MPI_Irecv(&head.found, sizeof head.found, MPI_BYTE, message.peer, tag_,
                                      MPI_COMM_WORLD, &head.request)));
    }
    for (int64_t begin = 0; begin < message.bytes; begin += kSegment) {
      const auto count = static_cast<int>(std::min(kSegment, message.bytes - begin));
      requests_.push_back(MPI_REQUEST_NULL);
      expected_.push_back(count);
      RETURN_IF_ERROR(Began(MPI_Irecv(data + begin, count, MPI_BYTE, message.peer, tag_,
                                      MPI_COMM_WORLD, &requests_.back())));
    }
    return absl::OkStatus();
  }

  void Send(const Message& message) {
    const char* data = static_cast<const char*>(message.data);
    std::vector<Segment>& segments = outboxes_[static_cast<size_t>(message.peer)].segments;
    if (message.bytes > kSegment) {
      segments.push_back({reinterpret_cast<const char*>(&message.bytes), sizeof message.bytes});
    }
    for (int64_t begin = 0; begin < message.bytes; begin += kSegment) {
      segments.push_back(
          {data + begin, static_cast<int>(std::min(kSegment, message.bytes - begin))});
    }
  }

  // Begins to send what may be under way; true when that is all.
  absl::StatusOr<bool> PostPieces() {
    bool all = true;
    for (int peer = 0; peer < size_; ++peer) {
      Outbox& out = outboxes_[static_cast<size_t>(peer)];
      if (out.next == out.segments.size() && out.untaken.empty()) continue;
      RETURN_IF_ERROR(NoteTaken(out));
      for (; out.next < out.segments.size() && out.untaken.size() < kMostGroups; ++out.next) {
        const Segment& segment = out.segments[out.next];
        const bool ends_group = out.next % kGroup == kGroup - 1 &&
                                out.segments.size() - out.next > kGroup * kMostGroups;
        MPI_Request request = MPI_REQUEST_NULL;
        const auto send = ends_group ? MPI_Issend : MPI_Isend;
        RETURN_IF_ERROR(Began(
            send(segment.data, segment.count, MPI_BYTE, peer, tag_, MPI_COMM_WORLD, &request)));
        if (ends_group) {
          out.untaken.push_back(request);
        } else {
          requests_.push_back(request);
          expected_.push_back(-1);
        }
      }
      all = all && out.next == out.segments.size() && out.untaken.empty();
    }
    return all;
  }

  static absl::Status NoteTaken(Outbox& out) {
    while (!out.untaken.empty()) {
      int done = 0;
      const int code = MPI_Test(&out.untaken.front(), &done, MPI_STATUS_IGNORE);
      if (code != MPI_SUCCESS) return MpiError("a message failed", code);
      if (done == 0) break;
      out.untaken.erase(out.untaken.begin());
    }
    return absl::OkStatus();
  }

  static absl::Status Began(int code) {
    return code == MPI_SUCCESS ? absl::OkStatus()
                               : MpiError("a message cannot be sent or received", code);
  }

  template <class Count>
  static absl::Status OtherBytes(int peer, Count found, int64_t wanted) {
    return absl::InternalError(absl::StrCat("a message from rank ", peer, " has ", found,
                                            " bytes; wanted ", wanted,
                                            ": the ranks do not run the same plan"));
  }

  // Those that have arrived, in order; true when that is all.
  absl::StatusOr<bool> CheckHeads() {
    for (; checked_ < heads_.size(); ++checked_) {
      Head& head = heads_[checked_];
      int done = 0, kind = MPI_SUCCESS;
      const int code = MPI_Test(&head.request, &done, MPI_STATUS_IGNORE);
      if (code != MPI_SUCCESS) MPI_Error_class(code, &kind);
      if (kind == MPI_ERR_TRUNCATE) return OtherBytes(head.peer, "other", head.wanted);
      if (code != MPI_SUCCESS) return MpiError("a message failed", code);
      if (done == 0) return false;
      if (head.found != head.wanted) return OtherBytes(head.peer, head.found, head.wanted);
    }
    return true;
  }

  absl::Status CheckCounts() const {
    for (size_t k = 0; k < requests_.size(); ++k) {
      if (expected_[k] < 0) continue;
      int count = 0;
      MPI_Get_count(&statuses_[k], MPI_BYTE, &count);
      if (count != expected_[k]) return OtherBytes(statuses_[k].MPI_SOURCE, count, expected_[k]);
    }
    return absl::OkStatus();
  }

  bool open_ = false;
  int rank_ = 0, size_ = 1;
  // Of the exchange under way.
  int tag_ = 0;
  std::vector<Outbox> outboxes_;  // by peer
  std::vector<Head> heads_;
  size_t checked_ = 0;  // of the heads
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
