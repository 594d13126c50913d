// A server on a free port of this machine for tests: it keeps what is written like a good one, until a test tells it to
// lie, to break off, or never to end.
#pragma once

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace crucible::store::testing {

class HostileServer {
 public:
  struct Seen {
    std::string method, path, head, body;  // head: the whole of it
  };
  /// A connection that a test's own behaviour writes to. False: the other side has gone, or the server ends.
  using Send = std::function<bool(std::string_view)>;
  /// Returns whether the connection lives on.
  using Behaviour = std::function<bool(const Seen&, const Send&)>;

  HostileServer() {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    if (bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 || listen(listener_, 512) != 0) std::abort();
    getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    acceptor_ = std::thread([this] { accept_all(); });
  }
  HostileServer(const HostileServer&) = delete;
  HostileServer& operator=(const HostileServer&) = delete;
  ~HostileServer() { end(); }

  /// Whoever connects from now on is refused.
  void end() {
    if (is_ended_.exchange(true)) return;
    shutdown(listener_, SHUT_RDWR);
    acceptor_.join();
    close(listener_);
    {
      const std::lock_guard lock(mutex_);
      for (const int connection : connections_) shutdown(connection, SHUT_RDWR);
    }
    for (std::thread& each : workers_) each.join();
  }

  std::string url() const { return fmt::format("http://127.0.0.1:{}", port_); }
  /// What it does of requests whose path begins so; the longest beginning counts. None: a good server.
  void behave(const std::string& beginning, Behaviour behaviour) {
    const std::lock_guard lock(mutex_);
    behaviours_[beginning] = std::move(behaviour);
  }
  void behave_well() {
    const std::lock_guard lock(mutex_);
    behaviours_.clear();
  }
  std::map<std::string, std::string> kept() {
    const std::lock_guard lock(mutex_);
    return kept_;
  }
  void keep(const std::string& path, const std::string& bytes) {
    const std::lock_guard lock(mutex_);
    kept_[path] = bytes;
  }
  void forget(const std::string& path) {
    const std::lock_guard lock(mutex_);
    kept_.erase(path);
  }
  /// "GET /cas/..." of all requests so far, in their order.
  std::vector<std::string> asked() {
    const std::lock_guard lock(mutex_);
    return asked_;
  }
  void forget_asked() {
    const std::lock_guard lock(mutex_);
    asked_.clear();
  }
  std::string last_head() {
    const std::lock_guard lock(mutex_);
    return last_head_;
  }
  std::size_t connections() const { return accepted_; }

  static std::string reply(int status, std::string_view body, const std::string& more = "") {
    return fmt::format("HTTP/1.1 {} Words\r\nContent-Length: {}\r\n{}\r\n{}", status, body.size(), more, body);
  }
  static Behaviour always(int status, std::string body = "", std::string more = "") {
    return [=](const Seen& seen, const Send& send) {
      std::string bytes = reply(status, body, more);
      if (seen.method == "HEAD") bytes.resize(bytes.size() - body.size());
      return send(bytes);
    };
  }

 private:
  void accept_all() {
    for (;;) {
      const int connection = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (connection < 0) return;
      ++accepted_;
      const int on = 1;
      setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      const std::lock_guard lock(mutex_);
      connections_.push_back(connection);
      workers_.emplace_back([this, connection] { serve(connection); });
    }
  }

  static bool read_more(int connection, std::string& bytes) {
    char piece[16384];
    const ssize_t count = recv(connection, piece, sizeof piece, 0);
    if (count > 0) bytes.append(piece, static_cast<std::size_t>(count));
    return count > 0;
  }

  void serve(int connection) {
    std::string bytes;
    while (serve_one(connection, bytes)) {
    }
    {
      const std::lock_guard lock(mutex_);
      std::erase(connections_, connection);
    }
    close(connection);
  }

  bool serve_one(int connection, std::string& bytes) {
    std::size_t end = 0;
    while ((end = bytes.find("\r\n\r\n")) == std::string::npos) {
      if (!read_more(connection, bytes)) return false;
    }
    Seen seen;
    seen.head = bytes.substr(0, end + 4);
    bytes.erase(0, end + 4);
    seen.method = seen.head.substr(0, seen.head.find(' '));
    seen.path = seen.head.substr(seen.method.size() + 1);
    seen.path.resize(seen.path.find(' '));
    std::size_t size = 0;
    if (const std::size_t at = seen.head.find("Content-Length: "); at != std::string::npos) {
      size = std::stoul(seen.head.substr(at + 16));
    }
    while (bytes.size() < size) {
      if (!read_more(connection, bytes)) return false;
    }
    seen.body = bytes.substr(0, size);
    bytes.erase(0, size);
    return behaviour_of(seen)(seen, [this, connection](std::string_view out) {
      while (!out.empty() && !is_ended_) {
        const ssize_t count = send(connection, out.data(), out.size(), MSG_NOSIGNAL);
        if (count <= 0) return false;
        out.remove_prefix(static_cast<std::size_t>(count));
      }
      return !is_ended_;
    });
  }

  Behaviour behaviour_of(const Seen& seen) {
    const std::lock_guard lock(mutex_);
    asked_.push_back(seen.method + " " + seen.path);
    last_head_ = seen.head;
    const Behaviour* found = nullptr;
    for (const auto& [beginning, behaviour] : behaviours_) {  // in order: the longest that fits comes last
      if (seen.path.starts_with(beginning)) found = &behaviour;
    }
    if (found != nullptr) return *found;
    if (seen.method == "PUT") {
      kept_[seen.path] = seen.body;
      return always(201);
    }
    const auto there = kept_.find(seen.path);
    return there == kept_.end() ? always(404, "none") : always(200, there->second);
  }

  int listener_ = -1, port_ = 0;
  std::atomic<bool> is_ended_ = false;
  std::atomic<std::size_t> accepted_ = 0;
  std::thread acceptor_;
  std::mutex mutex_;  // of what follows
  std::vector<std::thread> workers_;
  std::vector<int> connections_;
  std::map<std::string, Behaviour> behaviours_;
  std::map<std::string, std::string> kept_;
  std::vector<std::string> asked_;
  std::string last_head_;
};

}  // namespace crucible::store::testing
