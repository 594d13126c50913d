// Requests over HTTP, many at once, each within limits of time and size. What an answer means is the caller's.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"
#include "store/remote/curl_library.hpp"

namespace crucible::store {

struct Request {
  enum class Method { kGet, kHead, kPut };
  Method method = Method::kGet;
  std::string url;
  std::vector<std::string> headers;  // beside those of HttpOptions
  std::string_view body;             // of kPut; outlives the request
  std::uint64_t limit = 0;           // bytes of the answer of kGet at most
};

struct Answer {
  long status = 0;              // 0: none came
  std::string body;             // whole where the status is 200; of another status the first 4 KiB
  std::string failure;          // "": it is a whole answer; else why not
  bool is_unreachable = false;  // no connection, or no answer in time: the next request would meet the same
};

struct HttpOptions {
  std::string authorization;      // value of that header; "": none
  std::string user_password;      // "ID:SECRET" where requests are signed
  std::string signing;            // libcurl's CURLOPT_AWS_SIGV4; "": they are not
  std::filesystem::path ca_file;  // who may sign the server's certificate; empty: the system's list
  std::chrono::milliseconds connect_limit{3000};
  std::chrono::milliseconds limit{10000};  // of a request, beside what its bytes may take
  std::chrono::seconds stall_limit{5};     // with fewer than 1 KiB/s
  bool follows = true;                     // redirects of what is read, within http and https
  bool is_http_taken = true;               // false: redirects to https alone
};

/// Threads: any; each has connections of its own. Connections are kept.
class Http {
 public:
  static Result<std::unique_ptr<Http>> open(HttpOptions options);
  ~Http();
  Http(const Http&) = delete;
  Http& operator=(const Http&) = delete;

  /// In the order of the requests. When the server cannot be reached, what was not begun has the failure of the one
  /// that found out.
  std::vector<Answer> run(std::span<const Request> requests);
  /// Ends what runs and what comes.
  void stop() { is_stopped_ = true; }

 private:
  struct Wire;      // connections, and handles without work
  struct Transfer;  // one request on its way
  Http(HttpOptions options, const CurlLibrary& curl);
  std::unique_ptr<Wire> take_wire();
  void give_back(std::unique_ptr<Wire> wire);
  void begin(Wire& wire, Transfer& transfer);
  void finish(Transfer& transfer, CURLcode code);

  const HttpOptions options_;
  const CurlLibrary& curl_;
  std::atomic<bool> is_stopped_ = false;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Wire>> wires_;  // nobody's at present
};

}  // namespace crucible::store
