#include "runtime/comm/tcp/connection.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace partita {
namespace {

struct Pair {
  std::unique_ptr<Listener> listener;
  std::unique_ptr<Connection> left, right;
};

Pair Connected() {
  Pair pair;
  pair.listener = *Listener::Open(Listener::Reach::kThisHost);
  pair.left = *Connection::Open("127.0.0.1", pair.listener->port(), 5);
  while (pair.right == nullptr) {
    WaitToRead({pair.listener->socket()}, 100);
    pair.right = pair.listener->Accept();
  }
  return pair;
}

// Until so many have come.
std::vector<std::string> ReceiveSome(Connection& connection, size_t count) {
  std::vector<std::string> all;
  while (all.size() < count) {
    WaitToRead({connection.socket()}, 1000);
    auto messages = connection.Receive();
    if (!messages.ok()) break;
    all.insert(all.end(), messages->begin(), messages->end());
  }
  return all;
}

TEST(ConnectionTest, MessagesArriveWholeAndInOrder) {
  Pair pair = Connected();
  std::vector<std::string> sent;
  for (int k = 0; k < 200; ++k) {
    sent.push_back(std::string(static_cast<size_t>(k) * 7, static_cast<char>('a' + k % 26)));
    pair.left->Send(sent.back());
  }
  EXPECT_EQ(ReceiveSome(*pair.right, sent.size()), sent);
}

TEST(ConnectionTest, NothingIsReceivedWithoutWaiting) {
  Pair pair = Connected();
  const auto messages = pair.right->Receive();
  ASSERT_TRUE(messages.ok());
  EXPECT_TRUE(messages->empty());
}

TEST(ConnectionTest, WhatWasSentBeforeTheEndArrives) {
  Pair pair = Connected();
  pair.left->Send("last words");
  pair.left = nullptr;
  EXPECT_EQ(ReceiveSome(*pair.right, 1), std::vector<std::string>{"last words"});
  WaitToRead({pair.right->socket()}, 1000);
  EXPECT_TRUE(absl::IsUnavailable(pair.right->Receive().status()));
}

TEST(ConnectionTest, NobodyListensIsSaidWithTheAddresses) {
  int port = 0;
  {
    const auto listener = *Listener::Open(Listener::Reach::kThisHost);
    port = listener->port();
  }
  const auto connection = Connection::Open("127.0.0.1", port, 0.2);
  ASSERT_TRUE(absl::IsUnavailable(connection.status()));
  EXPECT_NE(connection.status().message().find("127.0.0.1"), std::string::npos);
}

}  // namespace
}  // namespace partita
