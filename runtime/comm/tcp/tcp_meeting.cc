#include "runtime/comm/tcp/tcp_meeting.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "graph/support/clock.h"
#include "graph/support/error_category.h"
#include "graph/support/status_macros.h"
#include "runtime/comm/tcp/handshake.h"
#include "runtime/comm/tcp/reception.h"

// Every rank listens. All send rank 0 their address; it sends all of them to every rank; then each
// rank connects to all lower ones. Whoever connects begins with a handshake.

namespace partita {
namespace {

constexpr int kLookAgain = 50;         // ms
constexpr size_t kMostAddresses = 32;  // of a rank
// "PORT ADDRESS ADDRESS...": longest place of a rank.
constexpr size_t kMostPlaceBytes = 8 + kMostAddresses * INET_ADDRSTRLEN;

// IPv4 addresses of a host.
std::vector<std::string> AddressesOf(const std::string& host) {
  addrinfo wanted{}, *found = nullptr;
  wanted.ai_family = AF_INET;
  wanted.ai_socktype = SOCK_STREAM;
  std::vector<std::string> addresses;
  if (getaddrinfo(host.c_str(), nullptr, &wanted, &found) != 0) return addresses;
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    char text[INET_ADDRSTRLEN] = "";
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(entry->ai_addr)->sin_addr, text,
              sizeof text);
    addresses.emplace_back(text);
  }
  freeaddrinfo(found);
  return addresses;
}

struct Place {
  int port = 0;
  std::vector<std::string> addresses;

  std::string ToText() const { return absl::StrCat(port, " ", absl::StrJoin(addresses, " ")); }
};

absl::StatusOr<Place> PlaceIn(const std::string& text, int rank) {
  const std::vector<std::string> words = absl::StrSplit(text, ' ');
  Place place{.addresses = {words.begin() + 1, words.end()}};
  const auto is_address = [](const std::string& word) {
    in_addr address{};
    return inet_pton(AF_INET, word.c_str(), &address) == 1;
  };
  if (text.size() > kMostPlaceBytes || !absl::SimpleAtoi(words[0], &place.port) || place.port < 1 ||
      place.port > 65535 || place.addresses.empty() || place.addresses.size() > kMostAddresses ||
      !std::all_of(place.addresses.begin(), place.addresses.end(), is_address)) {
    return absl::UnavailableError(absl::StrCat("rank ", rank, " does not say where it listens"));
  }
  return place;
}

class Meeting {
 public:
  explicit Meeting(const TcpMeeting& m)
      : m_(m), end_(SteadyNow() + static_cast<int64_t>(m.seconds * 1e9)), key_(m.key) {
    connections_.resize(static_cast<size_t>(m.size));
  }

  absl::StatusOr<MetRanks> Meet() {
    RETURN_IF_ERROR(m_.rank == 0 ? MeetAsRank0() : MeetAsOther());
    return MetRanks{std::move(connections_), *std::move(key_)};
  }

 private:
  absl::Status MeetAsRank0() {
    ASSIGN_OR_RETURN(auto listener, m_.key.has_value()
                                        ? Listener::Open(Listener::Reach::kAllHosts, m_.port)
                                        : Listener::OpenUnix(MeetingNameOf(m_.port)));
    if (!key_.has_value()) key_ = RunKey::New();
    RETURN_IF_ERROR(TakeIn(std::move(listener), Purpose::kMeeting));
    std::vector<std::string> places = {"-"};
    for (int rank = 1; rank < m_.size; ++rank) {
      ASSIGN_OR_RETURN(const std::string text, ReceiveFrom(rank));
      ASSIGN_OR_RETURN(const Place place, PlaceIn(text, rank));
      places.push_back(place.ToText());
    }
    for (int rank = 1; rank < m_.size; ++rank) {
      ConnectionTo(rank)->Send(absl::StrJoin(places, "\n"));
    }
    for (int rank = 1; rank < m_.size; ++rank) {
      RETURN_IF_ERROR(Named(rank, ConnectionTo(rank)->Drain(SecondsLeft())));
    }
    return absl::OkStatus();
  }

  absl::Status MeetAsOther() {
    RETURN_IF_ERROR(CallRank0());
    ASSIGN_OR_RETURN(auto listener,
                     Listener::Open(m_.key.has_value() ? Listener::Reach::kAllHosts
                                                       : Listener::Reach::kThisHost));
    Place own{listener->port(), {"127.0.0.1"}};
    if (m_.key.has_value()) own.addresses = HostAddresses();
    if (own.addresses.size() > kMostAddresses) own.addresses.resize(kMostAddresses);
    ConnectionTo(0)->Send(own.ToText());
    ConnectionTo(0)->Allow(static_cast<size_t>(m_.size) * (kMostPlaceBytes + 1));
    ASSIGN_OR_RETURN(const std::string table, ReceiveFrom(0));
    const std::vector<std::string> places = absl::StrSplit(table, '\n');
    if (places.size() != connections_.size()) {
      return absl::UnavailableError(absl::StrCat("rank 0 says where ", places.size(),
                                                 " ranks listen; wanted ", connections_.size()));
    }
    for (int peer = 1; peer < m_.rank; ++peer) {
      ASSIGN_OR_RETURN(const Place place, PlaceIn(places[static_cast<size_t>(peer)], peer));
      ASSIGN_OR_RETURN(ConnectionTo(peer),
                       CallRank(place.addresses, place.port, *key_,
                                CallTo(peer, Purpose::kMessages), SecondsLeft()));
    }
    return TakeIn(std::move(listener), Purpose::kMessages);
  }

  absl::Status CallRank0() {
    const Call call = CallTo(0, Purpose::kMeeting);
    if (m_.key.has_value()) {
      const std::vector<std::string> addresses = AddressesOf(m_.address);
      if (addresses.empty()) {
        return absl::UnavailableError(absl::StrCat("unknown host '", m_.address, "' of rank 0"));
      }
      ASSIGN_OR_RETURN(ConnectionTo(0), CallRank(addresses, m_.port, *m_.key, call, SecondsLeft()));
      return absl::OkStatus();
    }
    auto connection = CallWithinHost(MeetingNameOf(m_.port), key_, call, SecondsLeft());
    if (!connection.ok() && !IsUsageError(connection.status())) {
      return absl::UnavailableError(absl::StrCat(
          "rank ", m_.rank, " has no key and finds no rank 0 without one on this host: ",
          connection.status().message(), ". ", kHowToGiveAKey));
    }
    ASSIGN_OR_RETURN(ConnectionTo(0), std::move(connection));
    return absl::OkStatus();
  }

  // Takes connections in until all ranks above this one are there.
  absl::Status TakeIn(std::unique_ptr<Listener> listener, Purpose purpose) {
    const auto refusal = [this](int rank) -> std::string {
      if (rank <= m_.rank) return absl::StrCat("rank ", rank, " does not call rank ", m_.rank);
      if (come_.insert(rank).second) return "";
      return absl::StrCat("there is another rank ", rank, " already; wanted: every rank once");
    };
    Reception reception(std::move(listener), *key_,
                        {.own = {.purpose = purpose, .listener = m_.rank, .ranks = m_.size},
                         .refusal = refusal,
                         .gives_key = purpose == Purpose::kMeeting && !m_.key.has_value()});
    for (int missing = m_.size - 1 - m_.rank; missing > 0;) {
      if (SecondsLeft() <= 0) return Missing(reception);
      for (Reception::Guest& guest : reception.Receive(kLookAgain)) {
        ConnectionTo(guest.rank) = std::move(guest.connection);
        --missing;
      }
    }
    return absl::OkStatus();
  }

  absl::Status Missing(const Reception& reception) const {
    std::vector<size_t> missing;
    for (size_t r = static_cast<size_t>(m_.rank) + 1; r < connections_.size(); ++r) {
      if (connections_[r] == nullptr) missing.push_back(r);
    }
    std::string text = absl::StrCat("ranks ", absl::StrJoin(missing, " "), " did not come to rank ",
                                    m_.rank, " within ", m_.seconds, " s", reception.TurnedAway());
    if (!m_.key.has_value()) {
      absl::StrAppend(&text, ". Without a key only ranks of this host and user come. ",
                      kHowToGiveAKey);
    }
    return absl::UnavailableError(text);
  }

  absl::StatusOr<std::string> ReceiveFrom(int rank) {
    auto message = ConnectionTo(rank)->ReceiveOne(SecondsLeft());
    if (!message.ok()) return Named(rank, message.status());
    return message;
  }

  static absl::Status Named(int rank, const absl::Status& status) {
    if (status.ok()) return status;
    return absl::UnavailableError(
        absl::StrCat("rank ", rank, " came to the meeting, and then: ", status.message()));
  }

  std::unique_ptr<Connection>& ConnectionTo(int rank) {
    return connections_[static_cast<size_t>(rank)];
  }
  Call CallTo(int rank, Purpose purpose) const {
    return {.purpose = purpose, .caller = m_.rank, .listener = rank, .ranks = m_.size};
  }
  double SecondsLeft() const { return static_cast<double>(end_ - SteadyNow()) / 1e9; }

  const TcpMeeting& m_;
  const int64_t end_;
  std::optional<RunKey> key_;
  std::set<int> come_;                                    // ranks that were let in
  std::vector<std::unique_ptr<Connection>> connections_;  // by rank; null: not yet, or its own
};

}  // namespace

std::string MeetingNameOf(int port) {
  return absl::StrCat("partita-meeting-", geteuid(), "-", port);
}

absl::StatusOr<MetRanks> MeetRanks(const TcpMeeting& m) {
  if (m.size < 1 || m.rank < 0 || m.rank >= m.size) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", m.rank, " of ", m.size, " processes: there is no such rank"));
  }
  absl::StatusOr<MetRanks> met = Meeting(m).Meet();
  // Another key is a failure of communication, not a file that may not be read.
  if (absl::IsPermissionDenied(met.status())) return absl::UnavailableError(met.status().message());
  return met;
}

}  // namespace partita
